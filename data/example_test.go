package data_test

import (
	"fmt"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
)

func Example() {
	train, test, err := data.DigitsSplit(locus.NewKey(0))
	if err != nil {
		panic(err)
	}
	loader, err := data.NewLoader(train, data.Options{
		BatchSize: 128, Shuffle: true, Key: locus.NewKey(1), Device: locus.TryGPU(), Workers: 2,
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(train.Len(), test.Len(), loader.Len())
	for batch, err := range loader.Epoch(0) {
		if err != nil {
			panic(err)
		}
		if batch.Index == 0 || batch.Index == loader.Len()-1 {
			fmt.Println(batch.X().Shape(), batch.Y().Shape())
		}
	}
	// Output:
	// 1437 360 12
	// [128 1 8 8] [128]
	// [29 1 8 8] [29]
}

func ExampleMap() {
	digits, err := data.Digits()
	if err != nil {
		panic(err)
	}
	large := data.Map(digits, data.Resize(16, 16), data.RandomFlip(0.5))
	batch, err := large.Batch([]int{0, 7}, locus.NewKey(0))
	if err != nil {
		panic(err)
	}
	fmt.Println(batch[0].Shape(), batch[1])
	// Output:
	// [2 1 16 16] [0 7] int64 (2,) on cpu
}

func ExampleSyntheticRegression() {
	d, err := data.SyntheticRegression(locus.NewKey(1), 1000, []float32{2, -3.4}, 4.2, 0.01)
	if err != nil {
		panic(err)
	}
	parts, err := data.Split(d, locus.NewKey(2), 800, -1)
	if err != nil {
		panic(err)
	}
	fmt.Println(parts[0].Len(), parts[1].Len())
	// Output:
	// 800 200
}

func ExampleNewEncoder() {
	table, err := data.ParseCSV(strings.NewReader("rooms,roof,price\n2,tile,10\n4,slate,30\n,tile,20\n"), data.CSVOptions{})
	if err != nil {
		panic(err)
	}
	encoder, err := data.NewEncoder(table, data.Features{Except: []string{"price"}})
	if err != nil {
		panic(err)
	}
	x, err := encoder.Encode(table)
	if err != nil {
		panic(err)
	}
	fmt.Println(encoder.Names())
	fmt.Println(x)
	// Output:
	// [rooms roof=slate roof=tile roof=?]
	// [[-1  0  1  0]
	//  [ 1  1  0  0]
	//  [ 0  0  1  0]] float32 (3, 4) on cpu
}

func ExampleNewRandomSequences() {
	tokens := data.Chars(data.SimplifyText("The Time Machine, by H. G. Wells"))
	vocab := data.NewVocab(tokens, 1)
	d, err := data.NewRandomSequences(vocab.Encode(tokens), 5)
	if err != nil {
		panic(err)
	}
	batch, err := d.Batch([]int{0}, locus.NewKey(0))
	if err != nil {
		panic(err)
	}
	fmt.Println(vocab.Decode(locus.ToSlice[int64](batch[0])))
	fmt.Println(vocab.Decode(locus.ToSlice[int64](batch[1])))
	// Output:
	// [t h e   t]
	// [h e   t i]
}

func ExampleNewScaler() {
	set, err := data.NewTensorDataset(locus.Ones(4, 2), locus.From([]float32{180, 520, 290, 310}, 4, 1))
	if err != nil {
		panic(err)
	}
	prices, err := data.NewScaler(set, 1)
	if err != nil {
		panic(err)
	}
	scaled := prices.Scale(locus.From([]float32{325}, 1, 1))
	fmt.Println(scaled.Item(), prices.Unscale(scaled).Item())
	// Output: 0 325
}

func ExampleTable_Split() {
	table, err := data.ParseCSV(strings.NewReader("a,y\n1,2\n3,4\n5,6\n7,8\n9,10\n"), data.CSVOptions{})
	if err != nil {
		panic(err)
	}
	parts, err := table.Split(locus.NewKey(0), -1, 1) // one row to test with, the rest to learn from
	if err != nil {
		panic(err)
	}
	fmt.Println(parts[0].Len(), parts[1].Len())
	// Output: 4 1
}
