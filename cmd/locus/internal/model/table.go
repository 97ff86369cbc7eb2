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

// openTable reads a CSV file; a fifth of its rows is to test with, and the encoder
// learns from the others.
func openTable(path, target string) (learn, test *data.Classified, e *data.Encoder, err error) {
	t, err := data.ReadCSV(path, data.CSVOptions{})
	if err != nil {
		return nil, nil, nil, err
	}
	if target == "" {
		names := t.Names()
		target = names[len(names)-1]
	}
	_, classes, err := t.Labels(target)
	if err != nil {
		return nil, nil, nil, err
	}
	if n := t.Len(); len(classes) < 2 || n < 5 || len(classes) > n/2 {
		err := fmt.Errorf("%s: column %q has %d classes in %d rows; want at least 2, and at least two rows for each; --target names another column", path, target, len(classes), n)
		if _, numbers := t.Numbers(target); numbers == nil {
			err = fmt.Errorf("%w; to learn numbers rather than classes, see examples/regression", err)
		}
		return nil, nil, nil, err
	}
	// The split is the same whatever a run's seed, so that a test set stays one.
	var order []int
	for _, i := range locus.ToSlice[int64](locus.CPU().Key(locus.NewKey(0)).Permutation(t.Len())) {
		order = append(order, int(i))
	}
	cut := t.Len() - t.Len()/5
	part := func(at []int) (*data.Classified, error) {
		rows, err := t.Rows(at)
		if err != nil {
			return nil, err
		}
		if e == nil {
			if e, err = data.NewEncoder(rows, data.Features{Except: []string{target}}); err != nil {
				return nil, err
			}
		}
		x, err := e.Encode(rows)
		if err != nil {
			return nil, err
		}
		y, _, err := rows.Labels(target, classes...)
		if err != nil {
			return nil, err
		}
		d, err := data.NewTensorDataset(x.Reshape(x.Dim(0), x.Dim(1), 1, 1), y) // as images of one pixel
		return &data.Classified{Dataset: d, Classes: classes}, err
	}
	if learn, err = part(order[:cut]); err != nil {
		return nil, nil, nil, err
	}
	test, err = part(order[cut:])
	return learn, test, e, err
}
