package nn

import (
	"fmt"
	"reflect"
	"slices"
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

// Summarize runs a network once on x, in inference mode and without recording,
// and lists its layers: those of a [Sequential], and those that a struct of the
// program's holds, in the order of its fields. The shapes of results are known
// where a layer is held as a [Module], as Sequential does, and of the whole.
func Summarize(m Module, x *locus.Tensor) Summary {
	checkModule("nn.Summarize", m)
	checkTensor("nn.Summarize", x)
	c := Eval(replicate(m, x.Device(), (*randomState).apart)) // lazy layers of m itself stay lazy
	s := summarizer{seen: map[place]bool{}}
	s.tap(reflect.ValueOf(c))
	var y *locus.Tensor
	locus.NoGrad(func() { y = c.Forward(x) })
	s.seen = map[place]bool{}
	s.list(reflect.ValueOf(c), "", y.Shape())
	for _, e := range Parameters(c) {
		if v := e.Value(); v != nil {
			s.Parameters += v.Len()
			s.Bytes += v.Bytes()
		}
	}
	return s.Summary
}

// tap stands before a layer that is held as a Module and notes the shape of what
// it returns.
type tap struct {
	Module
	shape []int
}

func (t *tap) Forward(x *locus.Tensor) *locus.Tensor {
	y := t.Module.Forward(x)
	t.shape = y.Shape()
	return y
}

// container is a layer that consists of others which a summary lists.
type container interface{ container() }

func (*SequentialLayer) container()  {}
func (*ResidualLayer) container()    {}
func (*ResNetBlockLayer) container() {}
func (*EncoderLayer) container()     {}
func (*DecoderLayer) container()     {}
func (*Encoder) container()          {}
func (*Decoder) container()          {}

// opens reports whether a summary lists the parts of a struct, not the struct as
// a whole: those of this package only if they are containers.
func opens(v reflect.Value) bool {
	if _, ok := addressed(v).(container); ok {
		return true
	}
	return v.Type().PkgPath() != reflect.TypeFor[Parameter]().PkgPath()
}

type summarizer struct {
	Summary
	seen map[place]bool
}

// pass reports whether a pointer is new.
func (s *summarizer) pass(v reflect.Value) bool {
	p := place{v.Type(), v.Pointer()}
	old := s.seen[p]
	s.seen[p] = true
	return !old
}

// tap puts taps in place wherever a layer is held as a Module.
func (s *summarizer) tap(v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return
		}
		s.tap(v.Elem())
		if m, ok := v.Interface().(Module); ok && v.CanSet() && v.Type() == reflect.TypeFor[Module]() {
			v.Set(reflect.ValueOf(&tap{Module: m}))
		}
	case reflect.Pointer:
		if !holdsTensor(v.Type()) && !v.IsNil() && s.pass(v) {
			s.tap(v.Elem())
		}
	case reflect.Struct:
		if opens(v) {
			for _, f := range fieldsOf(v.Type()) {
				s.tap(v.Field(f.index))
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			s.tap(v.Index(i))
		}
	}
}

// list adds the rows of a value; out is the shape of its result where known.
func (s *summarizer) list(v reflect.Value, path string, out []int) {
	switch v.Kind() {
	case reflect.Interface:
		if !v.IsNil() {
			s.list(v.Elem(), path, out)
		}
	case reflect.Pointer:
		if v.IsNil() || holdsTensor(v.Type()) || !s.pass(v) {
			return
		}
		if t, ok := v.Interface().(*tap); ok {
			s.list(reflect.ValueOf(t.Module), path, t.shape)
			return
		}
		s.list(v.Elem(), path, out)
	case reflect.Struct:
		m := addressed(v)
		if m == nil {
			m = v.Interface()
		}
		if !opens(v) {
			if _, ok := m.(Module); ok || len(State(m)) > 0 {
				s.row(path, m, out, Parameters(m))
			}
			return
		}
		own := ownParameters(v)
		if _, ours := m.(container); len(own) > 0 || !ours && out != nil {
			s.row(path, m, out, own)
		}
		for _, f := range fieldsOf(v.Type()) {
			s.list(v.Field(f.index), join(path, f.name), nil)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			s.list(v.Index(i), join(path, fmt.Sprint(i)), nil)
		}
	case reflect.Map:
		for _, k := range namesOf(v) {
			s.list(v.MapIndex(k), join(path, k.String()), nil)
		}
	}
}

// ownParameters lists the parameters that a struct holds itself, not in layers.
func ownParameters(v reflect.Value) []Entry {
	w := newWalker()
	for _, f := range fieldsOf(v.Type()) {
		if t := v.Field(f.index); t.Type() == parameterType || t.Type() == tensorType {
			w.walk(t, "", f.tag)
		}
	}
	return slices.DeleteFunc(w.entries, func(e Entry) bool { return e.Kind != Trained })
}

func (s *summarizer) row(path string, m any, out []int, params []Entry) {
	row := SummaryRow{Name: path, Layer: layerName(m), Output: out}
	var devices []string
	for _, e := range params {
		if v := e.Value(); v != nil {
			row.Parameters += v.Len()
			devices = append(devices, v.Device().String())
		}
	}
	slices.Sort(devices)
	row.Device = strings.Join(slices.Compact(devices), ", ")
	s.Rows = append(s.Rows, row)
}

func layerName(m any) string {
	if f, ok := m.(fmt.Stringer); ok {
		if s := f.String(); !strings.Contains(s, "\n") { // not the table of a whole network
			return s
		}
	}
	return layerKind(m)
}

// String returns a table.
func (s Summary) String() string {
	rows := [][]string{{"name", "layer", "output", "parameters", "device"}}
	for _, r := range s.Rows {
		out := "-"
		if r.Output != nil {
			out = fmt.Sprint(r.Output)
		}
		rows = append(rows, []string{r.Name, r.Layer, out, fmt.Sprint(r.Parameters), r.Device})
	}
	var width [5]int
	for _, r := range rows {
		for i, cell := range r {
			width[i] = max(width[i], len(cell))
		}
	}
	var b strings.Builder
	for _, r := range rows {
		line := fmt.Sprintf("%-*s  %-*s  %-*s  %*s  %s", width[0], r[0], width[1], r[1], width[2], r[2], width[3], r[3], r[4])
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	fmt.Fprintf(&b, "%d parameters, %.1f KiB\n", s.Parameters, float64(s.Bytes)/1024)
	return b.String()
}
