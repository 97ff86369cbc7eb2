package gate_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"io"
	"math"
	"math/rand"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
)

// argument is a value and how a report writes it. Values are not printed with
// their own String, which is under test too.
type argument struct {
	v    reflect.Value
	text string
}

func (a argument) String() string { return a.text }

// maker draws arguments of any type: sensible ones, so that calls get past the
// first check, and garbage. Callbacks draw too, from other goroutines.
type maker struct {
	mu        sync.Mutex
	rng       *rand.Rand
	tensors   []argument
	templates map[string][]any
	pool      map[reflect.Type][]argument // what earlier calls returned
	order     []reflect.Type              // of the pool, as first seen: a map has no order
}

func newMaker(seed int64) *maker {
	m := &maker{rng: rand.New(rand.NewSource(seed)), pool: map[reflect.Type][]argument{}}
	m.templates = templates()
	gpus := locus.AddVirtualGPUs(2, 64<<20)
	m.makeTensors(append([]locus.Device{locus.CPU(), locus.CPU(), locus.CPU()}, gpus...))
	for _, v := range []any{locus.CPU(), locus.GPU(99), gpus[0], gpus[1], locus.NewKey(1), locus.All(),
		sink{}, strings.NewReader("a,b\n1,2\n"), brokenPipe{}, context.Background(), ended(),
		nn.Linear(3, 4), nn.ReLU(), nn.Sequential(nn.LazyLinear(2), nn.Dropout(0.5)), mutable{}, &mutable{X: locus.Ones(3)}, dataset{5}, dataset{-1}, &locus.Error{}} {
		m.keep(reflect.ValueOf(v), fmt.Sprintf("a %T", v))
	}
	return m
}

func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// sink is a writer that many goroutines may share, as a Progress and a program do.
type sink struct{}

func (sink) Write(p []byte) (int, error) { return len(p), nil }

// brokenPipe is a reader and writer that never works.
type brokenPipe struct{}

func (brokenPipe) Read([]byte) (int, error)            { return 0, errors.New("broken pipe") }
func (brokenPipe) Write([]byte) (int, error)           { return 0, errors.New("broken pipe") }
func (brokenPipe) ReadAt([]byte, int64) (int, error)   { return 0, errors.New("broken pipe") }
func (brokenPipe) Forward(*locus.Tensor) *locus.Tensor { return nil }

// mutable is a network of a user who has not read the guide.
type mutable struct {
	X      *locus.Tensor `nn:"param"`
	y      *locus.Tensor `nn:"param"`
	B      *locus.Tensor `nn:"buffer"`
	Layers map[string]nn.Module
	Any    any
}

func (m *mutable) Forward(x *locus.Tensor) *locus.Tensor { return m.y }

// dataset returns nothing useful.
type dataset struct{ n int }

func (d dataset) Len() int { return d.n }
func (d dataset) Batch(at []int, _ locus.Key) ([]*locus.Tensor, error) {
	switch d.n {
	case 5:
		return []*locus.Tensor{locus.Ones(len(at), 3), locus.Zeros(len(at))}, nil
	}
	return []*locus.Tensor{nil}, nil
}

var _ data.Dataset = dataset{}

func (m *maker) makeTensors(devices []locus.Device) {
	shapes := [][]int{{}, {1}, {3}, {2, 3}, {3, 3}, {0}, {2, 0, 3}, {2, 3, 4}, {2, 4, 6, 6}, {4, 2, 3, 3}, {1, 1, 1, 1, 2}}
	for i, s := range shapes {
		d := devices[i%len(devices)]
		for _, dt := range []locus.DType{locus.Float32, locus.Int64, locus.Float64, locus.Bool, locus.BFloat16, locus.Uint8} {
			if dt != locus.Float32 && i%3 != int(dt)%3 {
				continue
			}
			for _, d := range []locus.Device{d, locus.CPU()} {
				t := d.As(dt).Ones(s...)
				if dt == locus.Int64 {
					t = t.Mul(2 - i%4) // of either sign
				}
				text := fmt.Sprintf("%s %v on %s", dt, s, d)
				m.tensors = append(m.tensors, argument{reflect.ValueOf(t), text})
				if dt.IsFloat() && i%2 == 0 {
					m.tensors = append(m.tensors, argument{reflect.ValueOf(t.RequireGrad()), text + " with gradient"},
						argument{reflect.ValueOf(t.Mul(math.NaN())), text + " of NaN"})
				}
			}
		}
	}
	freed := locus.Ones(2, 3)
	freed.Free()
	for range 4 {
		m.tensors = append(m.tensors, argument{reflect.ValueOf(freed), "a freed tensor"},
			argument{reflect.ValueOf(new(locus.Tensor)), "new(locus.Tensor)"},
			argument{reflect.ValueOf((*locus.Tensor)(nil)), "nil"})
	}
}

func (m *maker) chance(p float64) bool { return m.rng.Float64() < p }

func pick[T any](m *maker, from []T) T { return from[m.rng.Intn(len(from))] }

const module = "github.com/locusml/locus"

var tensorType = reflect.TypeFor[*locus.Tensor]()

// keep puts what a call returned where later calls find their arguments.
func (m *maker) keep(v reflect.Value, text string) {
	if v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	if !v.IsValid() || v.Type() == tensorType && !m.small(v.Interface().(*locus.Tensor)) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map, reflect.Slice:
		if v.IsNil() {
			return
		}
	case reflect.Struct:
	default:
		if v.Type().PkgPath() == "" {
			return
		}
	}
	if v.Kind() == reflect.Slice && v.Len() > 64 {
		return
	}
	l, ok := m.pool[v.Type()]
	if !ok {
		m.order = append(m.order, v.Type())
	}
	if i := strings.IndexByte(text, '('); i > 0 {
		text = text[:i]
	}
	a := argument{v, "a result of " + text}
	const most = 24
	if len(l) < most {
		m.pool[v.Type()] = append(l, a)
	} else {
		l[4+m.rng.Intn(most-4)] = a // the first ones, which are whole, stay
	}
}

// small reports whether t is worth keeping; larger results would make honest work slow.
func (m *maker) small(t *locus.Tensor) bool {
	ok := false
	locus.Try(func() { ok = t != nil && (t.Freed() || t.Len() <= 1024) })
	return ok
}

// value draws an argument of type t. Deeper ones, fields and elements, are simpler.
func (m *maker) value(t reflect.Type, depth int) argument {
	if t == tensorType {
		if old := m.pool[t]; len(old) > 0 && m.chance(0.3) {
			return pick(m, old)
		}
		return pick(m, m.tensors)
	}
	if old := m.pool[t]; len(old) > 0 && m.chance(0.6) {
		return pick(m, old)
	}
	zero := argument{reflect.Zero(t), "zero " + t.String()}
	if depth > 3 {
		return zero
	}
	set := func(set func(v reflect.Value), text any) argument {
		v := reflect.New(t).Elem()
		set(v)
		return argument{v, fmt.Sprint(text)}
	}
	switch t.Kind() {
	case reflect.Bool:
		b := m.chance(0.5)
		return set(func(v reflect.Value) { v.SetBool(b) }, b)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n := m.integer()
		return set(func(v reflect.Value) { v.SetInt(n) }, n)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		n := uint64(m.integer())
		return set(func(v reflect.Value) { v.SetUint(n) }, n)
	case reflect.Float32, reflect.Float64:
		f := pick(m, []float64{0, 1, 2, 3, 0.5, 0.1, -1, 1e-3, 1e300, -1e300, 5e-324, math.NaN(), math.Inf(1), math.Inf(-1)})
		return set(func(v reflect.Value) { v.SetFloat(f) }, f)
	case reflect.String:
		s := m.text()
		return set(func(v reflect.Value) { v.SetString(s) }, fmt.Sprintf("%.40q", s))
	case reflect.Func:
		if m.chance(0.2) {
			return argument{reflect.Zero(t), "nil"}
		}
		return argument{reflect.MakeFunc(t, func(in []reflect.Value) []reflect.Value { return m.callback(t, in) }), "a " + t.String()}
	case reflect.Interface:
		return m.implementation(t, depth)
	case reflect.Pointer:
		if m.chance(0.3) {
			return argument{reflect.Zero(t), "nil"}
		}
		inner := m.value(t.Elem(), depth+1)
		v := reflect.New(t.Elem())
		v.Elem().Set(inner.v)
		return argument{v, "&" + inner.text}
	case reflect.Struct:
		v := reflect.New(t).Elem()
		var fields []string
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && m.chance(0.4) {
				a := m.value(f.Type, depth+1)
				v.Field(i).Set(a.v)
				fields = append(fields, f.Name+": "+a.text)
			}
		}
		return argument{v, t.String() + "{" + strings.Join(fields, ", ") + "}"}
	case reflect.Slice:
		if m.chance(0.1) {
			return argument{reflect.Zero(t), "nil"}
		}
		return m.list(t, m.rng.Intn(4), depth)
	case reflect.Array:
		v := reflect.New(t).Elem()
		for i := range t.Len() {
			v.Index(i).Set(m.value(t.Elem(), depth+1).v)
		}
		return argument{v, "some " + t.String()}
	case reflect.Map:
		v := reflect.MakeMap(t)
		var text []string
		for range m.rng.Intn(3) {
			key, elem := m.value(t.Key(), depth+1), m.value(t.Elem(), depth+1)
			v.SetMapIndex(key.v, elem.v)
			text = append(text, key.text+": "+elem.text)
		}
		return argument{v, t.String() + "{" + strings.Join(text, ", ") + "}"}
	}
	return zero
}

func (m *maker) list(t reflect.Type, n, depth int) argument {
	v := reflect.MakeSlice(t, n, n)
	var text []string
	for i := range n {
		a := m.value(t.Elem(), depth+1)
		v.Index(i).Set(a.v)
		text = append(text, a.text)
	}
	return argument{v, t.String() + "{" + strings.Join(text, ", ") + "}"}
}

// integer draws small numbers, so that honest work stays small, and ones that
// no machine can allocate, count to or multiply.
func (m *maker) integer() int64 {
	if m.chance(0.7) {
		return pick(m, []int64{0, 1, 1, 2, 2, 3, 4, 6, -1, -2})
	}
	return pick(m, []int64{1 << 40, 1 << 45, 1 << 61, 1 << 62, math.MaxInt64, math.MaxInt64 - 1, math.MinInt64, math.MinInt64 + 1, -1 << 40, -1 << 31, 7})
}

func (m *maker) text() string {
	return pick(m, []string{"", "x", "a.b", "layers.0.weight", "gpu:0", "cpu", "cuda(1)", "gpu:-1", "ij,jk->ik", "...i->...", "ii", "->", "i,,j", "\x00", "\xff\xfe",
		"1e400 GiB", "12MiB", "float32", "none/such/file", ".", "file.csv", "file.npy", "file.npz", "file.safetensors", "127.0.0.1:0", strings.Repeat("y", 300), "%s%n%!", "loss", "digits"})
}

// implementation draws a value for an interface.
func (m *maker) implementation(t reflect.Type, depth int) argument {
	if m.chance(0.15) {
		return argument{reflect.Zero(t), "nil"}
	}
	if t == reflect.TypeFor[error]() {
		return argument{reflect.ValueOf(errors.New("an error")), "an error"}
	}
	if t.NumMethod() == 0 && m.chance(0.7) {
		kind := pick(m, []reflect.Type{reflect.TypeFor[int](), reflect.TypeFor[float64](), reflect.TypeFor[string](), reflect.TypeFor[[]float32](), reflect.TypeFor[[][]float64](),
			reflect.TypeFor[bool](), reflect.TypeFor[*int](), reflect.TypeFor[map[string]int](), reflect.TypeFor[struct{ A int }](), reflect.TypeFor[[]any](), reflect.TypeFor[chan int](),
			reflect.TypeFor[func()](), tensorType, tensorType, tensorType, reflect.TypeFor[*nn.LinearLayer](), reflect.TypeFor[nn.Module](), reflect.TypeFor[[2][3]int32](), reflect.TypeFor[complex128]()})
		a := m.value(kind, depth+1)
		if a.v.Kind() == reflect.Interface && a.v.IsNil() {
			return argument{reflect.Zero(t), "nil"}
		}
		return a
	}
	var fit []reflect.Type
	for _, p := range m.order {
		if p.Implements(t) {
			fit = append(fit, p)
		}
	}
	if len(fit) == 0 {
		return argument{reflect.Zero(t), "nil"}
	}
	p := pick(m, fit)
	if p.Kind() == reflect.Pointer && strings.HasPrefix(p.Elem().PkgPath(), module) && ast.IsExported(p.Elem().Name()) && m.chance(0.15) {
		if m.chance(0.5) {
			return argument{reflect.New(p.Elem()), "new(" + p.Elem().String() + ")"}
		}
		return argument{reflect.Zero(p), "(" + p.String() + ")(nil)"}
	}
	return pick(m, m.pool[p])
}

// callback is what a function given to the library does.
func (m *maker) callback(t reflect.Type, in []reflect.Value) []reflect.Value {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.IsVariadic() && len(in) > 0 { // the last is a slice
		last := in[len(in)-1]
		in = slices.Clone(in[:len(in)-1])
		for i := range last.Len() {
			in = append(in, last.Index(i))
		}
	}
	out := make([]reflect.Value, t.NumOut())
	for i := range out {
		want := t.Out(i)
		var same []reflect.Value
		for _, a := range in {
			if a.Type() == want {
				same = append(same, a)
			}
		}
		switch {
		case want == reflect.TypeFor[error]():
			out[i] = reflect.Zero(want)
		case len(same) > 0 && m.chance(0.8):
			out[i] = pick(m, same)
			if want == tensorType && m.chance(0.5) {
				locus.Try(func() {
					x := out[i].Interface().(*locus.Tensor)
					out[i] = reflect.ValueOf(x.Mul(x).Sum())
				})
			}
		default:
			out[i] = m.value(want, 2).v
			if want.Kind() == reflect.Interface {
				v := reflect.New(want).Elem()
				v.Set(out[i])
				out[i] = v
			}
		}
	}
	return out
}

var _ io.Writer = brokenPipe{}
