package nn

import (
	"reflect"
	"sort"
	"strconv"
	"strings"

	"github.com/locusml/locus"
)

// walker finds tensors below a value.
type walker struct {
	entries []Entry
	seen    map[place]bool
	visit   func(v reflect.Value, path string) // called for every struct that is passed
}

// place is where a pointer points. The type belongs to it: a struct and its
// first field have the same address.
type place struct {
	of reflect.Type
	at uintptr
}

func newWalker() *walker { return &walker{seen: map[place]bool{}} }

// first reports whether p has not been passed before.
func (w *walker) first(p place) bool {
	old := w.seen[p]
	w.seen[p] = true
	return !old
}

var (
	parameterType = reflect.TypeFor[*Parameter]()
	bufferType    = reflect.TypeFor[*Buffer]()
	tensorType    = reflect.TypeFor[*locus.Tensor]()
)

// holdsTensor reports whether t is what a network keeps a tensor in.
func holdsTensor(t reflect.Type) bool {
	return t == parameterType || t == bufferType || t == tensorType
}

// stateNamer is a layer whose tensors have other names than the paths to them.
type stateNamer interface{ stateName(path string) string }

func (w *walker) walk(v reflect.Value, path, tag string) {
	switch v.Kind() {
	case reflect.Interface:
		if !v.IsNil() {
			w.walk(v.Elem(), path, tag)
		}
	case reflect.Pointer:
		w.pointer(v, path, tag)
	case reflect.Struct:
		w.structure(v, path)
	case reflect.Slice, reflect.Array:
		if k := v.Type().Elem().Kind(); k != reflect.Pointer && k != reflect.Interface && k != reflect.Struct && k != reflect.Slice && k != reflect.Map && k != reflect.Array {
			return // numbers and the like
		}
		for i := range v.Len() {
			w.walk(v.Index(i), join(path, strconv.Itoa(i)), tag)
		}
	case reflect.Map:
		for _, k := range namesOf(v) {
			w.walk(v.MapIndex(k), join(path, k.String()), tag)
		}
	}
}

// namesOf returns the keys of a map of parts in order; none if they are not names.
func namesOf(v reflect.Value) []reflect.Value {
	if v.Type().Key().Kind() != reflect.String {
		return nil
	}
	keys := v.MapKeys()
	sort.Slice(keys, func(i, j int) bool { return keys[i].String() < keys[j].String() })
	return keys
}

func (w *walker) pointer(v reflect.Value, path, tag string) {
	if v.Type() == tensorType {
		if tag == "" {
			return
		}
		if !v.CanSet() {
			fail(locus.ErrArgument, "nn.State", path+" is a *locus.Tensor that cannot be replaced where it is, in a map, an interface or a struct that was passed by value",
				"make it a *nn.Parameter or *nn.Buffer, or pass a pointer to the network")
		}
		if w.first(place{v.Type(), v.Addr().Pointer()}) {
			w.add(Entry{Name: path, Kind: kindOf(tag), field: v})
		}
		return
	}
	if v.IsNil() || !w.first(place{v.Type(), v.Pointer()}) {
		return
	}
	switch v.Type() {
	case parameterType:
		w.add(Entry{Name: path, Kind: kindOf(tag), param: v.Interface().(*Parameter)})
	case bufferType:
		w.add(Entry{Name: path, Kind: Kept, buffer: v.Interface().(*Buffer)})
	default:
		w.walk(v.Elem(), path, tag)
	}
}

func (w *walker) structure(v reflect.Value, path string) {
	if w.visit != nil {
		w.visit(v, path)
	}
	if n, ok := addressed(v).(stateNamer); ok {
		before := len(w.entries)
		defer func() {
			for i := range w.entries[before:] {
				e := &w.entries[before+i]
				e.Name = join(path, n.stateName(strings.TrimPrefix(e.Name[len(path):], ".")))
			}
		}()
	}
	for _, f := range fieldsOf(v.Type()) {
		w.walk(v.Field(f.index), join(path, f.name), f.tag)
	}
}

func (w *walker) add(e Entry) { w.entries = append(w.entries, e) }

func kindOf(tag string) Kind {
	if tag == "buffer" {
		return Kept
	}
	return Trained
}

func join(path, name string) string {
	switch {
	case path == "":
		return name
	case name == "":
		return path
	}
	return path + "." + name
}

// fieldName turns a field's name into that of a parameter: Weight to weight,
// RunningMean to running_mean, W1 to w1, QProj to q_proj.
func fieldName(s string) string {
	upper := func(i int) bool { return i < len(s) && s[i] >= 'A' && s[i] <= 'Z' }
	lower := func(i int) bool { return i < len(s) && s[i] >= 'a' && s[i] <= 'z' }
	var b strings.Builder
	for i, r := range s {
		if upper(i) {
			if i > 0 && (!upper(i-1) || lower(i+1)) {
				b.WriteByte('_')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}
