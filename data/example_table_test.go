package data_test

import (
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
)

// Read a CSV file and make a dataset of it: numbers and categories are the inputs, a column
// of names the classes.
func ExampleReadCSV() {
	folder, err := os.MkdirTemp("", "csv")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "flowers.csv")
	if err := os.WriteFile(path, []byte("length,color,kind\n5,red,rose\n9,white,lily\n4,red,rose\n"), 0o666); err != nil {
		log.Fatal(err)
	}

	table, err := data.ReadCSV(path, data.CSVOptions{})
	if err != nil {
		log.Fatal(err)
	}
	encoder, err := data.NewEncoder(table, data.Features{Except: []string{"kind"}})
	if err != nil {
		log.Fatal(err)
	}
	x, err := encoder.Encode(table)
	if err != nil {
		log.Fatal(err)
	}
	y, classes, err := table.Labels("kind")
	if err != nil {
		log.Fatal(err)
	}
	set, err := data.NewClassified(x, y, classes)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(set.Len(), encoder.Names(), set.Classes, locus.ToSlice[int64](y))
	// Output:
	// 3 [length color=red color=white color=?] [lily rose] [1 0 1]
}

// Read a table without a header, with semicolons and comments. Columns are called by their
// numbers then.
func ExampleParseCSV() {
	text := "# measured on Monday\n1;2\n3;4\n"
	table, err := data.ParseCSV(strings.NewReader(text), data.CSVOptions{Comma: ';', Comment: '#', NoHeader: true, MaxBytes: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	numbers, err := table.Numbers("1")
	fmt.Println(table.Len(), table.Names(), numbers, err)
	// Output:
	// 2 [0 1] [2 4] <nil>
}

// Name the columns to use, and leave numbers as they are. An empty cell is a category of its
// own, and a missing number becomes the mean.
func ExampleFeatures() {
	table, err := data.ParseCSV(strings.NewReader("id,rooms,roof\n17,2,tile\n18,,slate\n19,4,\n"), data.CSVOptions{})
	if err != nil {
		log.Fatal(err)
	}
	encoder, err := data.NewEncoder(table, data.Features{
		Numeric: []string{"rooms"}, Categorical: []string{"roof"}, Raw: true, MaxBytes: 1 << 20,
	})
	if err != nil {
		log.Fatal(err)
	}
	x, err := encoder.Encode(table)
	fmt.Println(encoder.Names(), err)
	fmt.Println(x)
	// Output:
	// [rooms roof=slate roof=tile roof=?] <nil>
	// [[2 0 1 0]
	//  [3 1 0 0]
	//  [4 0 0 1]] float32 (3, 4) on cpu
}

// Keep an encoder with the model: the program that uses the model needs no training data.
func ExampleEncoder_MarshalJSON() {
	table, err := data.ParseCSV(strings.NewReader("rooms,roof\n2,tile\n4,slate\n"), data.CSVOptions{})
	if err != nil {
		log.Fatal(err)
	}
	encoder, err := data.NewEncoder(table, data.Features{})
	if err != nil {
		log.Fatal(err)
	}
	text, err := json.Marshal(encoder)
	if err != nil {
		log.Fatal(err)
	}
	var again data.Encoder
	if err := json.Unmarshal(text, &again); err != nil {
		log.Fatal(err)
	}
	fmt.Println(again.Names())
	// Output:
	// [rooms roof=slate roof=tile roof=?]
}

// A column of numbers as the targets of a regression.
func ExampleTable_Targets() {
	table, err := data.ParseCSV(strings.NewReader("rooms,price\n2,180\n4,520\n"), data.CSVOptions{})
	if err != nil {
		log.Fatal(err)
	}
	y, err := table.Targets("price")
	fmt.Println(y.Shape(), locus.ToSlice[float32](y), err)
	// Output:
	// [2 1] [180 520] <nil>
}

// Class numbers of the table to test with must be those of the table to learn from: pass its
// classes on.
func ExampleTable_Labels() {
	learn, err := data.ParseCSV(strings.NewReader("kind\nrose\nlily\n"), data.CSVOptions{})
	if err != nil {
		log.Fatal(err)
	}
	test, err := data.ParseCSV(strings.NewReader("kind\nrose\nrose\n"), data.CSVOptions{})
	if err != nil {
		log.Fatal(err)
	}
	_, classes, err := learn.Labels("kind")
	if err != nil {
		log.Fatal(err)
	}
	y, _, err := test.Labels("kind", classes...)
	fmt.Println(classes, locus.ToSlice[int64](y), err)
	// Output:
	// [lily rose] [1 1] <nil>
}

// Scale the targets of every batch, and turn predictions back.
func ExampleScaler_Transform() {
	set, err := data.NewTensorDataset(locus.Ones(3, 2), locus.From([]float32{100, 200, 300}, 3, 1))
	if err != nil {
		log.Fatal(err)
	}
	prices, err := data.NewScaler(set, 1)
	if err != nil {
		log.Fatal(err)
	}
	batch, err := data.Map(set, prices.Transform(1)).Batch([]int{0, 1, 2}, locus.NewKey(0))
	if err != nil {
		log.Fatal(err)
	}
	y := batch[1] // what the network learns to predict
	fmt.Printf("%.2f\n", locus.ToSlice[float32](y))
	fmt.Printf("%.2f\n", locus.ToSlice[float32](prices.Unscale(y)))
	// Output:
	// [-1.22 0.00 1.22]
	// [100.00 200.00 300.00]
}
