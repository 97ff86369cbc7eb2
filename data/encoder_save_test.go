package data_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
)

// An encoder that was saved encodes new rows as the one that learned, without the
// table it learned from.
func TestEncoderIsSaved(t *testing.T) {
	parse := func(s string) *data.Table {
		table, err := data.ParseCSV(strings.NewReader(s), data.CSVOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return table
	}
	learn := parse("size,color,price\n1,red,10\n2.5,blue,20\n,red,30\n4,NA,45\n")
	later := parse("color,size,price\ngreen,3,0\nred,,0\n")
	for _, f := range []data.Features{{Except: []string{"price"}}, {Numeric: []string{"size"}, Raw: true}, {Categorical: []string{"color"}}} {
		e, err := data.NewEncoder(learn, f)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var back data.Encoder
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(e.Names(), back.Names()) {
			t.Errorf("%v and %v", e.Names(), back.Names())
		}
		for _, table := range []*data.Table{learn, later} {
			x, err := e.Encode(table)
			if err != nil {
				t.Fatal(err)
			}
			y, err := back.Encode(table)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(locus.ToSlice[float32](x), locus.ToSlice[float32](y)) {
				t.Errorf("%v and %v", x, y)
			}
		}
		// What cannot be is refused and changes nothing.
		for _, s := range []string{`{}`, `[]`, `{"columns":[{"name":"x","scale":-1}],"max_bytes":9}`, `{"columns":[{"name":"x","categories":["b","a"]}],"max_bytes":9}`,
			`{"columns":[{"name":"x","categories":["a","a"]}],"max_bytes":9}`, `{"columns":[{"name":"x"}],"max_bytes":0}`} {
			if err := json.Unmarshal([]byte(s), &back); err == nil {
				t.Errorf("%s is an encoder", s)
			}
		}
		if !slices.Equal(e.Names(), back.Names()) {
			t.Error("a text that was refused has changed the encoder")
		}
	}
	if _, err := new(data.Encoder).MarshalJSON(); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
	if err := (*data.Encoder)(nil).UnmarshalJSON([]byte("{}")); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
}
