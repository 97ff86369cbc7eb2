package nn

import (
	"reflect"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/locusml/locus"
)

// Kind tells what is trained from what is only kept.
type Kind uint8

// The kinds of a network's tensors.
const (
	Trained Kind = iota // parameters
	Kept                // buffers: running statistics and the like; saved and moved, not trained
)

// Entry is one of a network's tensors, where it stands.
type Entry struct {
	Name string // the path to it: "layers.0.weight"
	Kind Kind

	param *Parameter
	field reflect.Value // a *locus.Tensor field, where param is nil
}

// Value gives the tensor; nil for a lazy parameter before the first Forward.
func (e Entry) Value() *locus.Tensor {
	if e.param != nil {
		return e.param.Value()
	}
	t, _ := e.field.Interface().(*locus.Tensor)
	return t
}

// Set puts another tensor in its place.
func (e Entry) Set(t *locus.Tensor) {
	switch {
	case e.param != nil:
		e.param.Set(t)
	case e.Kind == Trained:
		e.field.Set(reflect.ValueOf(t.Detach().RequireGrad()))
	default:
		e.field.Set(reflect.ValueOf(t.Detach()))
	}
}

// bind puts a tensor in its place as it is, with its history.
func (e Entry) bind(t *locus.Tensor) {
	if e.param != nil {
		e.param.value.Store(t)
	} else {
		e.field.Set(reflect.ValueOf(t))
	}
}

// Frozen reports whether training is to leave it as it is.
func (e Entry) Frozen() bool { return e.Kind == Kept || e.param != nil && e.param.Frozen() }

// State lists everything that a network must be saved with and moved with:
// parameters and buffers, in the order of its fields. A tensor that is reached
// twice is listed once, under its first name.
func State(m any) []Entry {
	w := newWalker()
	w.walk(reflect.ValueOf(m), "", "")
	return w.entries
}

// Parameters lists what training changes.
func Parameters(m any) []Entry {
	return slices.DeleteFunc(State(m), func(e Entry) bool { return e.Kind != Trained })
}

// Values gives the present tensors of entries.
func Values(entries []Entry) []*locus.Tensor {
	l := make([]*locus.Tensor, len(entries))
	for i, e := range entries {
		l[i] = e.Value()
	}
	return l
}

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
	tensorType    = reflect.TypeFor[*locus.Tensor]()
)

// stateNamer is a layer whose tensors have other names than the paths to them.
type stateNamer interface{ stateName(path string) string }

func (w *walker) walk(v reflect.Value, path, tag string) {
	switch v.Kind() {
	case reflect.Interface:
		if !v.IsNil() {
			w.walk(v.Elem(), path, tag)
		}
	case reflect.Pointer:
		if v.IsNil() {
			if v.Type() == tensorType && tag != "" && v.CanSet() {
				w.add(Entry{Name: path, Kind: kindOf(tag), field: v})
			}
			return
		}
		switch v.Type() {
		case parameterType:
			if w.first(place{v.Type(), v.Pointer()}) {
				w.add(Entry{Name: path, param: v.Interface().(*Parameter), Kind: kindOf(tag)})
			}
			return
		case tensorType:
			if tag != "" && v.CanSet() && w.first(place{v.Type(), v.Addr().Pointer()}) {
				w.add(Entry{Name: path, Kind: kindOf(tag), field: v})
			}
			return
		}
		if w.first(place{v.Type(), v.Pointer()}) {
			w.walk(v.Elem(), path, tag)
		}
	case reflect.Struct:
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
		t := v.Type()
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() || f.Tag.Get("nn") == "-" {
				continue
			}
			name, tag := fieldName(f.Name), f.Tag.Get("nn")
			if tag == "inline" {
				name, tag = "", ""
			}
			if f.Anonymous {
				name = ""
			}
			w.walk(v.Field(i), join(path, name), tag)
		}
	case reflect.Slice, reflect.Array:
		if k := v.Type().Elem().Kind(); k != reflect.Pointer && k != reflect.Interface && k != reflect.Struct && k != reflect.Slice && k != reflect.Map && k != reflect.Array {
			return // numbers and the like
		}
		for i := range v.Len() {
			w.walk(v.Index(i), join(path, strconv.Itoa(i)), tag)
		}
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String {
			return
		}
		keys := v.MapKeys()
		sort.Slice(keys, func(i, j int) bool { return keys[i].String() < keys[j].String() })
		for _, k := range keys {
			w.walk(v.MapIndex(k), join(path, k.String()), tag)
		}
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
