package data

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/disk"
	"github.com/locusml/locus/internal/gate"
)

// Table is a table of texts with named columns, as CSV files hold them.
// Wherever a column is named, its number, counted from 0, may be used instead,
// unless a column has that name.
type Table struct {
	names []string
	at    map[string]int // where a name is
	rows  [][]string
}

// CSVOptions says how a file is read.
type CSVOptions struct {
	Comma    rune // 0 means a comma
	Comment  rune // lines that start with it are skipped; 0 means none
	NoHeader bool // the first line is data; columns are called "0", "1", …

	// MaxBytes is the most memory that the table may take; 0 means 4 GiB. A cell
	// takes 24 bytes besides its text.
	MaxBytes int64
}

// ReadCSV reads a file of comma-separated values.
func ReadCSV(path string, opt CSVOptions) (*Table, error) {
	file, err := disk.Open(path)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	defer file.Close()
	t, err := ParseCSV(file, opt)
	if err != nil {
		return nil, fmt.Errorf("data: %s: %w", path, errors.Unwrap(err))
	}
	return t, nil
}

// ParseCSV reads comma-separated values.
func ParseCSV(r io.Reader, opt CSVOptions) (*Table, error) {
	if err := gate.Given("the reader", r); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	if opt.Comma == 0 {
		opt.Comma = ','
	}
	if opt.MaxBytes == 0 {
		opt.MaxBytes = maxRead
	}
	c := csv.NewReader(&budget{r, opt.MaxBytes, costOf(opt.Comma),
		fmt.Errorf("the table takes more than %d bytes of memory; if it is meant to, allow more with CSVOptions.MaxBytes", opt.MaxBytes)})
	c.Comma = opt.Comma
	c.Comment = opt.Comment
	c.TrimLeadingSpace = true
	rows, err := c.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("data: %w", malformed("%v", err))
	}
	t := &Table{rows: rows}
	if len(rows) > 0 && !opt.NoHeader {
		t.names, t.rows = rows[0], rows[1:]
		t.names[0] = strings.TrimPrefix(t.names[0], "\ufeff") // a mark that some programs write
	}
	if len(t.rows) == 0 {
		return nil, fmt.Errorf("data: %w", malformed("no rows"))
	}
	if opt.NoHeader {
		for i := range rows[0] {
			t.names = append(t.names, strconv.Itoa(i))
		}
	}
	t.at = make(map[string]int, len(t.names))
	for i, name := range t.names {
		if _, twice := t.at[name]; twice {
			return nil, fmt.Errorf("data: %w", malformed("two columns are called %.100q; rename one, or read the file with CSVOptions.NoHeader", name))
		}
		t.at[name] = i
	}
	return t, nil
}

// costOf returns what text takes as a table: its bytes, and for each cell, which
// ends in a comma or a line break, a string and its place in the row.
func costOf(comma rune) func([]byte) int64 {
	sep := []byte(string(comma))
	return func(p []byte) int64 {
		return int64(len(p)) + 24*int64(bytes.Count(p, sep)+bytes.Count(p, []byte{'\n'}))
	}
}

// Len is the number of rows.
func (t *Table) Len() int {
	gate.Receiver("data.Table.Len", t != nil, "read it with data.ReadCSV")
	return len(t.rows)
}

// Names lists the columns.
func (t *Table) Names() []string {
	gate.Receiver("data.Table.Names", t != nil, "read it with data.ReadCSV")
	return slices.Clone(t.names)
}

// Rows returns a table of the rows at the given positions, in that order: a part
// for training and one for testing, say.
func (t *Table) Rows(at []int) (*Table, error) {
	gate.Receiver("data.Table.Rows", t != nil, "read it with data.ReadCSV")
	rows := make([][]string, len(at))
	for i, p := range at {
		if p < 0 || p >= len(t.rows) {
			return nil, fmt.Errorf("data: there is no row %d among %d: %w", p, len(t.rows), locus.ErrIndex)
		}
		rows[i] = t.rows[p]
	}
	return &Table{t.names, t.at, rows}, nil
}

// Split divides the rows at random, by key, into tables of the given sizes, as
// [Split] does with a dataset's examples: one of the sizes may be -1 and gets the
// rest.
func (t *Table) Split(key locus.Key, sizes ...int) ([]*Table, error) {
	gate.Receiver("data.Table.Split", t != nil, "read it with data.ReadCSV")
	shares, err := shares(key, len(t.rows), sizes)
	if err != nil {
		return nil, err
	}
	parts := make([]*Table, len(shares))
	for i, at := range shares {
		if parts[i], err = t.Rows(at); err != nil {
			return nil, err
		}
	}
	return parts, nil
}

func (t *Table) find(column string) (int, error) {
	if i, ok := t.at[column]; ok {
		return i, nil
	}
	if n, err := strconv.Atoi(column); err == nil && n >= 0 && n < len(t.names) {
		return n, nil
	}
	return 0, fmt.Errorf("data: there is no column %q; there are %s: %w", column, list(t.names), locus.ErrArgument)
}

// Column returns the cells of a column.
func (t *Table) Column(column string) ([]string, error) {
	gate.Receiver("data.Table.Column", t != nil, "read it with data.ReadCSV")
	c, err := t.find(column)
	if err != nil {
		return nil, err
	}
	cells := make([]string, len(t.rows))
	for i, row := range t.rows {
		cells[i] = strings.TrimSpace(row[c])
	}
	return cells, nil
}

// missing are the cells that hold nothing.
var missing = []string{"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"}

func isMissing(cell string) bool { return slices.Contains(missing, cell) }

// Numbers returns a column as numbers; where there is none (an empty cell, NA,
// NaN, null, None, ?) it is NaN. Anything else that is not a number is an error.
func (t *Table) Numbers(column string) ([]float64, error) {
	gate.Receiver("data.Table.Numbers", t != nil, "read it with data.ReadCSV")
	cells, err := t.Column(column)
	if err != nil {
		return nil, err
	}
	numbers := make([]float64, len(cells))
	for i, cell := range cells {
		if isMissing(cell) {
			numbers[i] = math.NaN()
			continue
		}
		if numbers[i], err = strconv.ParseFloat(cell, 64); err != nil {
			return nil, fmt.Errorf("data: column %q, row %d: %q is not a number: %w", column, i, cell, ErrFormat)
		}
	}
	return numbers, nil
}

// Targets returns a column of numbers as a tensor of shape (n, 1) on the CPU, for
// regression. A missing number is an error.
func (t *Table) Targets(column string) (*locus.Tensor, error) {
	gate.Receiver("data.Table.Targets", t != nil, "read it with data.ReadCSV")
	numbers, err := t.Numbers(column)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(numbers, math.IsNaN); i >= 0 {
		return nil, fmt.Errorf("data: column %q has no number in row %d: %w", column, i, ErrFormat)
	}
	var y *locus.Tensor
	err = locus.Try(func() { y = locus.CPU().From(numbers, len(numbers), 1).Cast(locus.Float32) })
	return y, err
}

// Labels returns a column as class numbers, a tensor of int64 on the CPU. Without
// classes they are found and sorted; with them, anything else is an error.
func (t *Table) Labels(column string, classes ...string) (*locus.Tensor, []string, error) {
	gate.Receiver("data.Table.Labels", t != nil, "read it with data.ReadCSV")
	cells, err := t.Column(column)
	if err != nil {
		return nil, nil, err
	}
	if len(classes) == 0 {
		classes = slices.Compact(slices.Sorted(slices.Values(cells)))
	}
	number := map[string]int64{}
	for i, c := range classes {
		number[c] = int64(i)
	}
	labels := make([]int64, len(cells))
	for i, cell := range cells {
		n, ok := number[cell]
		if !ok {
			return nil, nil, fmt.Errorf("data: column %q, row %d: %q is none of the classes %s: %w", column, i, cell, list(classes), locus.ErrIndex)
		}
		labels[i] = n
	}
	var y *locus.Tensor
	err = locus.Try(func() { y = locus.CPU().From(labels) })
	return y, slices.Clone(classes), err
}
