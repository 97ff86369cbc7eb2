// Package plain looks at the Go values that a model is made of beside its tensors:
// numbers, texts, pointers and functions in its fields. A program that was traced from
// a model contains them as they were, so it must not be used when one has changed, and
// a model that changes one while it computes cannot become a program.
package plain

import (
	"fmt"
	"hash/maphash"
	"reflect"
	"slices"
	"strings"
	"unsafe"

	"github.com/locusml/locus/internal/trace"
)

// Values are the plain values below a root, as they were when [Of] was called.
type Values struct {
	at    []value
	words []word // of the values, for Digest
}

// value is a value without parts.
type value struct {
	path string
	v    reflect.Value // addressable, and settable also where the field is not exported
	was  reflect.Value
}

// word is where a value lies, and how to read what tells it apart from others.
type word struct {
	at   unsafe.Pointer
	form form
}

type form uint8

const (
	one form = iota // so many bytes
	two
	four
	eight
	pair  // two numbers or an interface's two words
	slice // where it is and how long
	text  // its contents
)

// limit is how many values are looked at. A model that has more is too large for this
// to be worth its time; the rest of it is taken to be fixed.
const limit = 20_000

// elements is how many elements of a slice are looked at: of numbers and texts few, since
// they are tables rather than options.
func elements(of reflect.Type) int {
	if k := of.Kind(); k >= reflect.Bool && k <= reflect.Complex128 || k == reflect.String {
		return 256
	}
	return 4096
}

const module = "github.com/locusml/locus"

// Of returns the values below root, but for those at the given addresses, which are
// variables of programs.
func Of(root any, variables map[unsafe.Pointer]bool) *Values {
	w := &walker{variables: variables, seen: map[place]bool{}}
	w.walk(reflect.ValueOf(root), "")
	f := &Values{at: w.at}
	for i := range f.at {
		f.words = append(f.words, wordOf(f.at[i].v))
	}
	return f
}

type place struct {
	at unsafe.Pointer
	of reflect.Type
}

type walker struct {
	at        []value
	variables map[unsafe.Pointer]bool
	seen      map[place]bool
}

func (w *walker) leaf(v reflect.Value, path string) {
	if !v.CanAddr() || len(w.at) >= limit {
		return
	}
	p := unsafe.Pointer(v.UnsafeAddr())
	if w.variables[p] {
		return
	}
	v = reflect.NewAt(v.Type(), p).Elem()
	was := reflect.New(v.Type()).Elem()
	was.Set(v)
	w.at = append(w.at, value{path, v, was})
}

func (w *walker) walk(v reflect.Value, path string) {
	if len(w.at) >= limit {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		w.leaf(v, path)
		if v.IsNil() || !follows(v.Type().Elem()) || w.passed(v) {
			return
		}
		w.walk(v.Elem(), path)
	case reflect.Interface:
		w.leaf(v, path)
		if !v.IsNil() {
			w.walk(v.Elem(), path) // what is not a pointer cannot change in place
		}
	case reflect.Struct:
		w.structure(v, path)
	case reflect.Array:
		for i := range v.Len() {
			w.walk(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	case reflect.Slice:
		w.leaf(v, path)
		for i := range min(v.Len(), elements(v.Type().Elem())) {
			w.walk(v.Index(i), fmt.Sprintf("%s[%d]", path, i))
		}
	case reflect.Map:
		w.leaf(v, path)
		for _, k := range v.MapKeys() { // values in maps that are not pointers are not seen
			w.walk(v.MapIndex(k), fmt.Sprintf("%s[%v]", path, k))
		}
	default:
		w.leaf(v, path)
	}
}

// passed reports whether what v points to was passed before.
func (w *walker) passed(v reflect.Value) bool {
	p := place{v.UnsafePointer(), v.Type()}
	was := w.seen[p]
	w.seen[p] = true
	return was
}

func (w *walker) structure(v reflect.Value, path string) {
	t := v.Type()
	if !follows(t) {
		return
	}
	own := ours(t)
	for i := range t.NumField() {
		f := t.Field(i)
		if own && !f.IsExported() {
			continue // layers tell traces themselves
		}
		name := f.Name
		if path != "" {
			name = path + "." + name
		}
		w.walk(v.Field(i), name)
	}
}

// ours reports whether t is a layer or model of this module.
func ours(t reflect.Type) bool {
	return t.PkgPath() == module+"/nn" || t.PkgPath() == module+"/train"
}

// follows reports whether the fields of a type are looked at: not those of tensors and
// cells, which are variables, nor of what others change meanwhile, such as loggers.
func follows(t reflect.Type) bool {
	if t.Kind() != reflect.Struct || t.Name() == "" {
		return true
	}
	pkg := t.PkgPath()
	switch {
	case ours(t):
		return t.Name() != "Parameter" && t.Name() != "Buffer"
	case pkg == module+"/examples" || strings.HasPrefix(pkg, module+"/examples/"):
		return true
	case pkg == module || strings.HasPrefix(pkg, module+"/"):
		return strings.HasSuffix(pkg, "_test")
	case pkg == "math/rand" || pkg == "math/rand/v2" || pkg == "time" || pkg == "sync/atomic":
		return true
	}
	first, _, _ := strings.Cut(pkg, "/")
	return !slices.Contains(standard, first)
}

// standard are the first parts of the paths of the standard library's packages.
var standard = strings.Fields("archive bufio bytes cmp compress container context crypto database debug embed encoding errors expvar flag fmt go hash html image index internal io iter log maps math mime net os path plugin reflect regexp runtime slices sort strconv strings structs sync syscall testing text time unicode unique unsafe vendor weak")

var seed = maphash.MakeSeed()

// Digest is a hash of values: equal digests mean equal values.
type Digest uint64

// String returns a short text.
func (d Digest) String() string { return fmt.Sprintf("#%04x", uint16(d)) }

// Digest returns the digest of the present values.
func (f *Values) Digest() Digest {
	var h uint64 = 14695981039346656037
	for i := range f.words {
		h = (h ^ f.words[i].read()) * 1099511628211
		h ^= h >> 29
	}
	return Digest(h)
}

func wordOf(v reflect.Value) word {
	w := word{at: v.Addr().UnsafePointer()}
	switch v.Kind() {
	case reflect.String:
		w.form = text
	case reflect.Slice:
		w.form = slice
	case reflect.Interface, reflect.Complex128:
		w.form = pair
	default:
		w.form = map[uintptr]form{1: one, 2: two, 4: four, 8: eight}[v.Type().Size()]
	}
	return w
}

func (w *word) read() uint64 {
	switch w.form {
	case one:
		return uint64(*(*uint8)(w.at))
	case two:
		return uint64(*(*uint16)(w.at))
	case four:
		return uint64(*(*uint32)(w.at))
	case eight:
		return *(*uint64)(w.at)
	case text:
		return maphash.String(seed, *(*string)(w.at))
	case slice:
		s := (*[2]uintptr)(w.at)
		return uint64(s[0]) ^ uint64(s[1])<<48
	}
	s := (*[2]uintptr)(w.at)
	return uint64(s[0]) ^ uint64(s[1])<<1
}

// Restore puts back values that have changed since [Of], and returns the path of the
// first, "" if there is none.
func (f *Values) Restore() (changed string) {
	for i := range f.at {
		x := &f.at[i]
		now, was := f.words[i], wordOf(x.was)
		if now.read() == was.read() {
			continue
		}
		if changed == "" {
			changed = x.path
		}
		x.v.Set(x.was)
	}
	return changed
}

// addressed is a holder of a variable that stands in a field.
type addressed interface{ Address() unsafe.Pointer }

// watched is the key of a model's values in a trace.
type watched struct{ key any }

// Watch makes a trace, if one is under way, depend on the plain values below root, but
// for cells of a network that stand in fields. The function that it returns must be
// called when the model has computed: if a value has changed meanwhile it puts it back,
// so that the function can be called as it is written, and refuses the trace. What is
// watched twice under one key is watched once.
func Watch[C any](key, root any, cells func() []C) (done func()) {
	t := trace.Current()
	if t == nil {
		return func() {}
	}
	fixed := map[unsafe.Pointer]bool{}
	for _, c := range cells() {
		if h, put := trace.HolderOf(c); put != nil {
			fixed[h.(addressed).Address()] = true
		}
	}
	f := Of(root, fixed)
	trace.Watch(watched{key}, "what the model's plain Go fields hold", func() any { return f.Digest() })
	return func() {
		if at := f.Restore(); at != "" {
			t.Refuse("the field %s of the model changes while it computes, which a program does not repeat: keep tensors in an *nn.Buffer, and count in a callback", at)
		}
	}
}

// Fields lists the cells that stand in plain fields, which locus.Compile must be told of;
// other ones are variables of a program by themselves.
func Fields[C any](cells []C) []C {
	return slices.DeleteFunc(slices.Clone(cells), func(c C) bool {
		_, put := trace.HolderOf(c)
		return put == nil
	})
}
