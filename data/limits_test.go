package data

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/testio"
)

func writeFile(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// zeros makes a compressed IDX file of so many zero bytes.
func zeros(t *testing.T, n int64) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(idx(idxUint8, []uint32{uint32(n)}, nil))
	buf := make([]byte, 1<<20)
	for ; n > 0; n -= int64(len(buf)) {
		if _, err := w.Write(buf[:min(n, int64(len(buf)))]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A small file that unpacks to far more than it has is refused before it does,
// and read if that is asked for.
func TestIDXThatUnpacksToMuch(t *testing.T) {
	path := writeFile(t, "bomb.gz", zeros(t, 300<<20))
	var err error
	n := testio.Allocated(func() { _, err = ReadIDX(path) })
	if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "data.MaxBytes") || n > 4<<20 {
		t.Errorf("%d bytes were allocated; %v", n, err)
	}
	if _, err := ReadIDX(path, MaxBytes(100<<20)); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
	path = writeFile(t, "fine.gz", zeros(t, 20<<20))
	var x *locus.Tensor
	n = testio.Allocated(func() { x, err = ReadIDX(path) })
	if err != nil || x.Len() != 20<<20 || n > 100<<20 {
		t.Errorf("%d bytes were allocated; %v", n, err)
	}
	if _, err := ReadIDX(path, MaxBytes(10<<20)); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
	if _, err := ReadIDX(path, MaxBytes(20<<20)); err != nil {
		t.Error(err)
	}
}

// A header's claim costs no memory: what is there does.
func TestIDXClaimsCostNothing(t *testing.T) {
	for name, content := range map[string][]byte{
		"plain":      idx(idxUint8, []uint32{1 << 30}, make([]byte, 100)),
		"compressed": gzipped(idx(idxFloat64, []uint32{1 << 20}, make([]byte, 100))),
	} {
		path := writeFile(t, "claim", content)
		var err error
		if n := testio.Allocated(func() { _, err = ReadIDX(path) }); !errors.Is(err, ErrFormat) || n > 4<<20 {
			t.Errorf("%s: %d bytes were allocated; %v", name, n, err)
		}
	}
}

// endless repeats a text for ever.
type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.text[e.at%len(e.text)]
		e.at++
	}
	return len(p), nil
}

func TestCSVIsBounded(t *testing.T) {
	const most = 1 << 20
	for name, text := range map[string]string{
		"rows":              "1,2\n",
		"one long line":     "x",
		"one line of cells": ",",
		"empty rows":        "\n,\n",
		"one quoted cell":   "\"",
		"lines in a cell":   "\"a\nb\",",
	} {
		var err error
		n := testio.Allocated(func() { _, err = ParseCSV(&endless{text: text}, CSVOptions{MaxBytes: most}) })
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "CSVOptions.MaxBytes") {
			t.Errorf("%s: %v", name, err)
		}
		if n > 12*most {
			t.Errorf("%s: %d bytes were allocated", name, n)
		}
	}
	path := writeFile(t, "a.csv", []byte("a,b\n"+strings.Repeat("1,2\n", 10000)))
	if _, err := ReadCSV(path, CSVOptions{MaxBytes: 1000}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	if table, err := ReadCSV(path, CSVOptions{}); err != nil || table.Len() != 10000 {
		t.Error(err)
	}
}

// Many columns take no time that grows with their square.
func TestCSVWithManyColumns(t *testing.T) {
	const n = 200_000
	var b strings.Builder
	for row := range 2 {
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprint(&b, i*(1-row)+i%3*row)
		}
		b.WriteByte('\n')
	}
	table := parse(t, b.String(), CSVOptions{})
	if e, err := NewEncoder(table, Features{}); err != nil || len(e.Names()) != n {
		t.Error(err)
	}
}

// A column of which every cell is another category would take rows × rows.
func TestEncoderIsBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("name,x\n")
	for i := range 40_000 {
		fmt.Fprintf(&b, "n%d,%d\n", i, i)
	}
	table := parse(t, b.String(), CSVOptions{})
	e, err := NewEncoder(table, Features{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Encode(table); !errors.Is(err, locus.ErrArgument) || !strings.Contains(err.Error(), "Features.MaxBytes") || !strings.Contains(err.Error(), `"name"`) {
		t.Error(err)
	}
	if e, err = NewEncoder(table, Features{Except: []string{"name"}, MaxBytes: 160_000}); err != nil {
		t.Fatal(err)
	}
	if x, err := e.Encode(table); err != nil || x.Len() != 40_000 {
		t.Error(err)
	}
}

func TestTextIsBounded(t *testing.T) {
	path := writeFile(t, "a.txt", []byte("0123456789"))
	if s, err := ReadText(path, MaxBytes(10)); err != nil || s != "0123456789" {
		t.Error(s, err)
	}
	if _, err := ReadText(path, MaxBytes(9)); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "data.MaxBytes") {
		t.Error(err)
	}
	// A file of holes claims anything.
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Skipf("skipped: no files with holes here: %v", err)
	}
	if _, err := ReadText(path); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}

// Names of a file do not reach a terminal as they are.
func TestErrorsArePrintable(t *testing.T) {
	table := parse(t, "\x1b[2Ja,b\n\x1b[31mx,1\n", CSVOptions{})
	_, missing := table.Column("c")
	_, _, other := table.Labels("0", "\x1b[1my")
	_, number := table.Numbers("0")
	for _, err := range []error{missing, other, number} {
		if err == nil || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q", err)
		}
	}
}

func FuzzBudget(f *testing.F) {
	f.Add("a,b\n1,2\n", int64(100))
	f.Fuzz(func(t *testing.T, text string, most int64) {
		if most < 0 {
			return
		}
		b := &budget{strings.NewReader(text), most, costOf(','), errors.New("too much")}
		got, err := io.ReadAll(b)
		if fits := costOf(',')([]byte(text)) <= most; fits != (err == nil) || fits && string(got) != text || int64(len(got)) > most {
			t.Errorf("%q within %d: %q, %v", text, most, got, err)
		}
	})
}
