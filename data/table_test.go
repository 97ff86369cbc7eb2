package data

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

const houses = "\ufeffrooms, area,\"roof, kind\",price\n2,100,tile,10\n4, NA ,slate,30\n,300,,20\n"

func parse(t *testing.T, text string, opt CSVOptions) *Table {
	t.Helper()
	table, err := ParseCSV(strings.NewReader(text), opt)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestTable(t *testing.T) {
	table := parse(t, houses, CSVOptions{})
	if table.Len() != 3 || !slices.Equal(table.Names(), []string{"rooms", "area", "roof, kind", "price"}) {
		t.Errorf("%d rows of %q", table.Len(), table.Names())
	}
	for _, column := range []string{"area", "1"} {
		got, err := table.Numbers(column)
		if err != nil || fmt.Sprint(got) != "[100 NaN 300]" {
			t.Errorf("%v %v", got, err)
		}
	}
	y, err := table.Targets("price")
	if err != nil || fmt.Sprint(y) != fmt.Sprint(locus.From([]float32{10, 30, 20}, 3, 1)) {
		t.Errorf("%v %v", y, err)
	}
	labels, classes, err := table.Labels("roof, kind")
	if err != nil || !slices.Equal(classes, []string{"", "slate", "tile"}) || !slices.Equal(locus.ToSlice[int64](labels), []int64{2, 1, 0}) {
		t.Errorf("%v %v %v", labels, classes, err)
	}
	some, err := table.Rows([]int{2, 0})
	if err != nil || some.Len() != 2 {
		t.Fatal(err)
	}
	if got, _ := some.Column("price"); !slices.Equal(got, []string{"20", "10"}) {
		t.Error(got)
	}
	for name, err := range map[string]error{
		"no column":     second(table.Column("x")),
		"number":        second(table.Column("4")),
		"no number":     second(table.Numbers("roof, kind")),
		"no target":     second(table.Targets("rooms")),
		"unknown class": third(table.Labels("roof, kind", "tile", "slate")),
		"no row":        second(table.Rows([]int{3})),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := second(table.Column("x")); !strings.Contains(err.Error(), "rooms, area") {
		t.Errorf("the error does not say which columns there are: %v", err)
	}
}

func second[T any](_ T, err error) error        { return err }
func third[T, U any](_ T, _ U, err error) error { return err }

func TestCSVOptions(t *testing.T) {
	table := parse(t, "# note\n1;2\n3;4\n", CSVOptions{Comma: ';', Comment: '#', NoHeader: true})
	if got, err := table.Numbers("1"); err != nil || !slices.Equal(got, []float64{2, 4}) {
		t.Errorf("%v %v", got, err)
	}
	for name, text := range map[string]string{
		"empty":        "",
		"header only":  "a,b\n",
		"ragged":       "a,b\n1,2\n3\n",
		"open quote":   "a,b\n\"1,2\n",
		"name twice":   "a,a\n1,2\n",
		"bare quote":   "a,b\n1\"x,2\n",
		"only a blank": "\n",
	} {
		path := filepath.Join(t.TempDir(), "t.csv")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadCSV(path, CSVOptions{}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ReadCSV("none.csv", CSVOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestEncoder(t *testing.T) {
	table := parse(t, houses, CSVOptions{})
	e, err := NewEncoder(table, Features{Except: []string{"price"}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"rooms", "area", "roof, kind=slate", "roof, kind=tile", "roof, kind=?"}; !slices.Equal(e.Names(), want) {
		t.Errorf("%q", e.Names())
	}
	x, err := e.Encode(table)
	if err != nil {
		t.Fatal(err)
	}
	want := [][]float32{{-1, -1, 0, 1, 0}, {1, 0, 1, 0, 0}, {0, 1, 0, 0, 1}}
	if diff := x.Sub(locus.From(want)).Abs().Max().Item(); diff > 1e-6 {
		t.Errorf("%v", x)
	}

	// Other tables are encoded with what was learned from the first.
	other := parse(t, "area,rooms,price,\"roof, kind\"\n500,3,?,thatch\n", CSVOptions{})
	x, err = e.Encode(other)
	if err != nil {
		t.Fatal(err)
	}
	if diff := x.Sub(locus.From([][]float32{{0, 3, 0, 0, 1}})).Abs().Max().Item(); diff > 1e-6 {
		t.Errorf("%v", x)
	}
	if _, err := e.Encode(parse(t, "rooms\n1\n", CSVOptions{})); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}

	raw, err := NewEncoder(table, Features{Numeric: []string{"area"}, Raw: true})
	if err != nil {
		t.Fatal(err)
	}
	if x, err := raw.Encode(table); err != nil || !slices.Equal(locus.ToSlice[float32](x), []float32{100, 200, 300}) {
		t.Errorf("%v %v", x, err)
	}
	constant, err := NewEncoder(parse(t, "a\n5\n5\n", CSVOptions{}), Features{})
	if err != nil {
		t.Fatal(err)
	}
	if x, err := constant.Encode(parse(t, "a\n5\n6\n", CSVOptions{})); err != nil || !slices.Equal(locus.ToSlice[float32](x), []float32{0, 1}) {
		t.Errorf("%v %v", x, err)
	}
	for name, f := range map[string]Features{"text as numbers": {Numeric: []string{"roof, kind"}}, "no column": {Categorical: []string{"x"}},
		"except no column": {Except: []string{"x"}}, "all left out": {Except: []string{"0", "1", "2", "3"}}} {
		if _, err := NewEncoder(table, f); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := NewEncoder(parse(t, "a\nInf\n1\n", CSVOptions{}), Features{}); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}

func FuzzCSV(f *testing.F) {
	f.Add(houses)
	f.Add("a,b\n1,x\n?,\n")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := ParseCSV(strings.NewReader(text), CSVOptions{})
		if err != nil {
			return
		}
		e, err := NewEncoder(table, Features{})
		if err != nil {
			return
		}
		x, err := e.Encode(table)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range locus.ToSlice[float32](x.Reshape(-1)) {
			if math.IsNaN(float64(v)) {
				t.Fatalf("NaN from %q", text)
			}
		}
	})
}

// Split shares all rows out, each once, and alike for a key.
func TestTableSplit(t *testing.T) {
	table, err := ParseCSV(strings.NewReader("n\n0\n1\n2\n3\n4\n5\n6\n"), CSVOptions{})
	if err != nil {
		t.Fatal(err)
	}
	parts, err := table.Split(locus.NewKey(1), 2, -1, 1)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := table.Split(locus.NewKey(1), 2, -1, 1)
	var all []string
	for i, want := range []int{2, 4, 1} {
		cells, err := parts[i].Column("n")
		if err != nil || len(cells) != want {
			t.Errorf("part %d has %q", i, cells)
		}
		if same, _ := again[i].Column("n"); !slices.Equal(same, cells) {
			t.Errorf("part %d is %q, then %q", i, cells, same)
		}
		all = append(all, cells...)
	}
	slices.Sort(all)
	if strings.Join(all, "") != "0123456" {
		t.Errorf("%q", all)
	}
	for _, sizes := range [][]int{{8}, {-1, -1}, {4, 4}, {-2}} {
		if _, err := table.Split(locus.NewKey(1), sizes...); !errors.Is(err, locus.ErrArgument) {
			t.Errorf("%v: %v", sizes, err)
		}
	}
}
