package data

import (
	"fmt"
	"math"
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
)

// Features says which columns of a table become inputs, and how.
type Features struct {
	Numeric     []string // one input each
	Categorical []string // one input per category: 1 for the row's category, else 0

	// Except are the columns that are left out, the target for instance, if
	// neither Numeric nor Categorical names any: then all others are used, those
	// with numbers only as numbers.
	Except []string

	// Raw leaves numbers as they are. Otherwise each column is shifted and scaled
	// to mean 0 and standard deviation 1.
	Raw bool

	// MaxBytes is the most memory that an encoded table may take; 0 means 4 GiB. A
	// column of names, which are all different, has as many inputs as rows.
	MaxBytes int64
}

// Encoder turns tables into tensors. What it needs to know of the data (means,
// deviations, categories) it learns from one table, the training data, and uses for
// all.
type Encoder struct {
	columns []encodedColumn
	names   []string
	most    int64 // bytes
}

type encodedColumn struct {
	name        string
	mean, scale float64
	categories  []string // nil for numbers
}

// NewEncoder learns from a table how to encode ones like it.
func NewEncoder(t *Table, f Features) (*Encoder, error) {
	if err := gate.Given("the table", t); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	numeric, categorical := f.Numeric, f.Categorical
	if len(numeric)+len(categorical) == 0 {
		var err error
		if numeric, categorical, err = guess(t, f.Except); err != nil {
			return nil, err
		}
	}
	e := &Encoder{most: f.MaxBytes}
	if e.most == 0 {
		e.most = maxRead
	}
	for _, name := range numeric {
		numbers, err := t.Numbers(name)
		if err != nil {
			return nil, err
		}
		c := encodedColumn{name: name, scale: 1}
		mean, std := moments(numbers)
		if math.IsInf(mean, 0) || math.IsNaN(std) || math.IsInf(std, 0) {
			return nil, fmt.Errorf("data: column %q holds an infinite number: %w", name, ErrFormat)
		}
		if f.Raw {
			// What is missing becomes the mean, as with standardized columns.
			c.mean, c.scale = mean, 0
		} else {
			c.mean, c.scale = mean, std
			if std == 0 {
				c.scale = 1 // all equal: they become 0
			}
		}
		e.add(c)
	}
	for _, name := range categorical {
		cells, err := t.Column(name)
		if err != nil {
			return nil, err
		}
		c := encodedColumn{name: name, categories: []string{}}
		for _, cell := range slices.Compact(slices.Sorted(slices.Values(cells))) {
			if !isMissing(cell) {
				c.categories = append(c.categories, cell)
			}
		}
		e.add(c)
	}
	if len(e.names) == 0 {
		return nil, fmt.Errorf("data: no columns to encode: %w", locus.ErrArgument)
	}
	return e, nil
}

// add adds a column, and the names of its inputs.
func (e *Encoder) add(c encodedColumn) {
	e.columns = append(e.columns, c)
	if c.categories == nil {
		e.names = append(e.names, c.name)
		return
	}
	for _, category := range c.categories {
		e.names = append(e.names, c.name+"="+category)
	}
	e.names = append(e.names, c.name+"=?") // missing, or not seen before
}

// guess takes columns that hold numbers only for numbers.
func guess(t *Table, except []string) (numeric, categorical []string, err error) {
	skip := map[int]bool{}
	for _, name := range except {
		i, err := t.find(name)
		if err != nil {
			return nil, nil, err
		}
		skip[i] = true
	}
	for i, name := range t.names {
		if skip[i] {
			continue
		}
		if numbers, err := t.Numbers(name); err == nil && slices.ContainsFunc(numbers, func(v float64) bool { return !math.IsNaN(v) }) {
			numeric = append(numeric, name)
		} else {
			categorical = append(categorical, name)
		}
	}
	return numeric, categorical, nil
}

// moments returns mean and standard deviation of the numbers that are there.
func moments(numbers []float64) (mean, std float64) {
	n := 0.0
	for _, v := range numbers {
		if !math.IsNaN(v) {
			mean += v
			n++
		}
	}
	if n == 0 {
		return 0, 0
	}
	mean /= n
	for _, v := range numbers {
		if !math.IsNaN(v) {
			std += (v - mean) * (v - mean)
		}
	}
	return mean, math.Sqrt(std / n)
}

// Names names the inputs: the column for a number, "column=category" for a
// category, "column=?" for one that is missing or was not in the table that
// the encoder learned from.
func (e *Encoder) Names() []string {
	gate.Receiver("data.Encoder.Names", e != nil && len(e.names) > 0, "make it with data.NewEncoder")
	return slices.Clone(e.names)
}

// Encode returns a table as a tensor of float32 on the CPU, a row per example, a
// column per input. A missing number becomes the mean of the table that the
// encoder learned from.
func (e *Encoder) Encode(t *Table) (*locus.Tensor, error) {
	gate.Receiver("data.Encoder.Encode", e != nil && len(e.names) > 0, "make it with data.NewEncoder")
	width := len(e.names)
	if int64(t.Len()) > e.most/4/int64(width) {
		return nil, e.tooLarge(t.Len())
	}
	out := make([]float32, t.Len()*width)
	at := 0
	for _, c := range e.columns {
		if c.categories == nil {
			numbers, err := t.Numbers(c.name)
			if err != nil {
				return nil, err
			}
			for i, v := range numbers {
				out[i*width+at] = c.encode(v)
			}
			at++
			continue
		}
		cells, err := t.Column(c.name)
		if err != nil {
			return nil, err
		}
		for i, cell := range cells {
			k, ok := slices.BinarySearch(c.categories, cell)
			if !ok {
				k = len(c.categories)
			}
			out[i*width+at+k] = 1
		}
		at += len(c.categories) + 1
	}
	var x *locus.Tensor
	err := locus.Try(func() { x = locus.CPU().From(out, t.Len(), width) })
	return x, err
}

func (e *Encoder) tooLarge(rows int) error {
	widest := slices.MaxFunc(e.columns, func(a, b encodedColumn) int { return len(a.categories) - len(b.categories) })
	return fmt.Errorf("data: %d rows of %d inputs take more than %d bytes; column %q alone has %d categories: leave it out with Features.Except, or allow more with Features.MaxBytes: %w",
		rows, len(e.names), e.most, widest.name, len(widest.categories), locus.ErrArgument)
}

func (c *encodedColumn) encode(v float64) float32 {
	if math.IsNaN(v) {
		v = c.mean
	}
	if c.scale == 0 {
		return float32(v)
	}
	return float32((v - c.mean) / c.scale)
}
