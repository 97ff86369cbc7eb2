package nn

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/locusml/locus"
)

// SummaryRow is one layer of a [Summary].
type SummaryRow struct {
	Name       string // the path to it
	Layer      string // its type
	Output     []int  // shape; nil where it is not known
	Parameters int
	Device     string
}

// Summary lists the layers of a network with the shapes of their results.
type Summary struct {
	Rows       []SummaryRow
	Parameters int
	Bytes      int
}

// Summarize runs a network once on x, in the mode for use and without recording,
// and lists its layers. The results of layers inside a [Sequential] are known; of
// a struct with a Forward of its own only the last.
func Summarize(m Module, x *locus.Tensor) Summary {
	var s Summary
	c := Eval(CopyTo(m, x.Device())) // lazy layers of m itself stay lazy
	locus.NoGrad(func() { s.run(c, "", x) })
	for _, e := range Parameters(c) {
		s.Parameters += e.Value().Len()
		s.Bytes += e.Value().Bytes()
	}
	return s
}

func (s *Summary) run(m Module, path string, x *locus.Tensor) *locus.Tensor {
	if q, ok := m.(*SequentialLayer); ok {
		for i, l := range q.Layers {
			x = s.run(l, join(path, fmt.Sprint(i)), x)
		}
		return x
	}
	y := m.Forward(x)
	row := SummaryRow{Name: path, Layer: layerName(m), Output: y.Shape()}
	devices := map[string]bool{}
	for _, e := range Parameters(m) {
		row.Parameters += e.Value().Len()
		devices[e.Value().Device().String()] = true
	}
	for d := range devices {
		row.Device = join(row.Device, d)
	}
	s.Rows = append(s.Rows, row)
	return y
}

func layerName(m Module) string {
	if f, ok := m.(fmt.Stringer); ok {
		return f.String()
	}
	t := reflect.TypeOf(m)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return strings.TrimSuffix(t.Name(), "Layer")
}

// String gives a table.
func (s Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-12s %-20s %-20s %12s  %s\n", "name", "layer", "output", "parameters", "device")
	for _, r := range s.Rows {
		fmt.Fprintf(&b, "%-12s %-20s %-20s %12d  %s\n", r.Name, r.Layer, fmt.Sprint(r.Output), r.Parameters, r.Device)
	}
	fmt.Fprintf(&b, "%d parameters, %.1f KiB\n", s.Parameters, float64(s.Bytes)/1024)
	return b.String()
}
