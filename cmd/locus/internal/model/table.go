package model

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
)

// IsTable reports whether data is a CSV file.
func IsTable(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.IsDir() && strings.EqualFold(filepath.Ext(name), ".csv")
}

// ReadTable reads a CSV file; where that finds a single column, it may be separated
// by semicolons or tabs, as some programs write them.
func ReadTable(path string) (*data.Table, error) {
	t, err := data.ReadCSV(path, data.CSVOptions{})
	if err != nil {
		return nil, err
	}
	if names := t.Names(); len(names) == 1 {
		for _, comma := range ";\t" {
			if strings.ContainsRune(names[0], comma) {
				return data.ReadCSV(path, data.CSVOptions{Comma: comma})
			}
		}
	}
	return t, nil
}

// What a table's column is learned as.
const (
	Auto    = "auto" // numbers if the column has many different ones, else classes
	Classes = "classes"
	Numbers = "numbers"
)

// Tasks lists them.
var Tasks = []string{Auto, Classes, Numbers}

// manyNumbers is how many different numbers are hardly classes any more.
const manyNumbers = 20

// openTable reads a CSV file; a fifth of its rows is to test with. Encoder and scaler
// learn from the others, unless they are a network's.
func openTable(path string, o Options) (s Set, err error) {
	target, task := o.Target, o.Task
	s.Name = path
	t, err := ReadTable(path)
	if err != nil {
		return s, err
	}
	if target == "" {
		names := t.Names()
		target = names[len(names)-1]
	}
	_, classes, err := t.Labels(target)
	if err != nil {
		return s, err
	}
	_, notNumbers := t.Numbers(target)
	if task == "" || task == Auto {
		task = Classes
		if notNumbers == nil && len(classes) > manyNumbers {
			task = Numbers
		}
	}
	n := t.Len()
	switch {
	case n < 5:
		return s, fmt.Errorf("%s: %d rows; want at least 5", path, n)
	case task == Numbers:
		if _, err := t.Targets(target); err != nil { // of the whole table, so that rows are the file's
			return s, fmt.Errorf("%s: %w", path, err)
		}
	case task == Classes && (len(classes) < 2 || len(classes) > n/2):
		err := fmt.Errorf("%s: column %q has %d classes in %d rows; want at least 2, and at least two rows for each; --target names another column", path, target, len(classes), n)
		if notNumbers == nil {
			err = fmt.Errorf("%w, and --task numbers learns numbers", err)
		}
		return s, err
	}
	// The split is the same whatever a run's seed, so that a test set stays one.
	parts, err := t.Split(locus.NewKey(0), -1, n/5)
	if err != nil {
		return s, err
	}
	if o.As != nil {
		s.Encoder, s.Scaler = o.As.Encoder, o.As.Scaler
		classes = o.As.Classes
	} else if s.Encoder, err = data.NewEncoder(parts[0], data.Features{Except: []string{target}}); err != nil {
		return s, err
	}
	for i, to := range []**data.Classified{&s.Train, &s.Test} {
		x, err := s.Encoder.Encode(parts[i])
		if err != nil {
			return s, err
		}
		x = x.Reshape(x.Dim(0), x.Dim(1), 1, 1) // as images of one pixel
		if task == Classes {
			y, _, err := parts[i].Labels(target, classes...)
			if err != nil {
				return s, err
			}
			d, err := data.NewTensorDataset(x, y)
			if err != nil {
				return s, err
			}
			*to = &data.Classified{Dataset: d, Classes: classes}
			continue
		}
		y, err := parts[i].Targets(target)
		if err != nil {
			return s, err
		}
		d, err := data.NewTensorDataset(x, y)
		if err != nil {
			return s, err
		}
		if s.Scaler == nil {
			if s.Scaler, err = data.NewScaler(d, 1); err != nil {
				return s, err
			}
		}
		*to = &data.Classified{Dataset: data.Map(d, s.Scaler.Transform(1))}
	}
	return s, nil
}
