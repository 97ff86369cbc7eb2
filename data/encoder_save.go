package data

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
)

// savedEncoder is an encoder as JSON.
type savedEncoder struct {
	Columns  []savedColumn `json:"columns"`
	MaxBytes int64         `json:"max_bytes"`
}

type savedColumn struct {
	Name       string   `json:"name"`
	Mean       float64  `json:"mean"`
	Scale      float64  `json:"scale"`
	Categories []string `json:"categories"` // null for numbers
}

// MarshalJSON returns all that the encoder has learned, to be kept with the model:
// a program that uses the model needs no training data.
func (e *Encoder) MarshalJSON() ([]byte, error) {
	if e == nil || len(e.names) == 0 {
		return nil, fmt.Errorf("data: an encoder that is nil or a zero value has learned nothing; make it with data.NewEncoder: %w", locus.ErrArgument)
	}
	s := savedEncoder{MaxBytes: e.most}
	for _, c := range e.columns {
		s.Columns = append(s.Columns, savedColumn{c.name, c.mean, c.scale, c.categories})
	}
	return json.Marshal(s)
}

// UnmarshalJSON reads what MarshalJSON wrote. Values that no encoder can have
// learned are an error, and then e is not changed.
func (e *Encoder) UnmarshalJSON(b []byte) error {
	if e == nil {
		return fmt.Errorf("data: the encoder to read into is nil: %w", locus.ErrArgument)
	}
	var s savedEncoder
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("data: not an encoder: %w", err)
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("data: not an encoder: "+format+": %w", append(args, locus.ErrArgument)...)
	}
	if len(s.Columns) == 0 || s.MaxBytes < 1 {
		return bad("%d columns, at most %d bytes", len(s.Columns), s.MaxBytes)
	}
	read := Encoder{most: s.MaxBytes}
	for _, c := range s.Columns {
		if !(c.Scale >= 0) || math.IsInf(c.Scale, 0) || math.IsInf(c.Mean, 0) || !slices.IsSorted(c.Categories) || len(slices.Compact(slices.Clone(c.Categories))) != len(c.Categories) {
			return bad("column %q has mean %v and scale %v, or categories that are not sorted or come twice", c.Name, c.Mean, c.Scale)
		}
		read.add(encodedColumn{c.Name, c.Mean, c.Scale, c.Categories})
	}
	if err := gate.Count("the number of inputs", len(read.names), 1, math.MaxInt32); err != nil {
		return bad("%v", err)
	}
	*e = read
	return nil
}
