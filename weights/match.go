package weights

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/printable"
)

// MatchError says how a file's tensors differ from those that are wanted: all
// of it at once, each list in the order of the names.
type MatchError struct {
	Path       string
	Missing    []string   // wanted, not in the file
	Unexpected []string   // in the file, not wanted
	Different  []Mismatch // of another shape or element type
}

// Mismatch is a tensor that is not as wanted.
type Mismatch struct {
	Name       string
	Want, Have Spec
	HaveType   string // as the file spells it
}

// Match compares the file's tensors with those that are wanted, by name, and
// returns a *[MatchError] that lists every difference, or nil. A wanted DType
// that is invalid (the zero DType) allows any.
func (f *File) Match(want map[string]Spec) error {
	gate.Receiver("weights.File.Match", f != nil && f.source != nil, "open it with weights.Open")
	e := &MatchError{Path: f.label()}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		w := want[name]
		have, ok := f.byName[name]
		switch {
		case !ok:
			e.Missing = append(e.Missing, name)
		case !slices.Equal(have.Shape, w.Shape) || w.DType != dtype.Invalid && have.DType != w.DType:
			e.Different = append(e.Different, Mismatch{name, w, Spec{have.DType, slices.Clone(have.Shape)}, have.Type})
		}
	}
	for _, name := range f.Names() {
		if _, ok := want[name]; !ok {
			e.Unexpected = append(e.Unexpected, name)
		}
	}
	slices.Sort(e.Unexpected)
	if len(e.Missing)+len(e.Unexpected)+len(e.Different) == 0 {
		return nil
	}
	return e
}

// Error lists all differences, one kind per line; long lists are cut short.
func (e *MatchError) Error() string {
	if e == nil {
		return "<nil error>"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "weights: %s does not fit: %d missing, %d unexpected, %d different", printable.Text(e.Path), len(e.Missing), len(e.Unexpected), len(e.Different))
	list := func(what string, items []string) {
		const most = 20
		if len(items) == 0 {
			return
		}
		more := ""
		if len(items) > most {
			more = fmt.Sprintf(", and %d more", len(items)-most)
			items = items[:most]
		}
		shown := make([]string, len(items))
		for i, item := range items {
			shown[i] = printable.Text(item) // names are the file's
		}
		fmt.Fprintf(&b, "\n  %s: %s%s", what, strings.Join(shown, ", "), more)
	}
	list("missing", e.Missing)
	list("unexpected", e.Unexpected)
	var different []string
	for _, m := range e.Different {
		have := m.Have.String()
		if !m.Have.DType.Valid() {
			have = strings.Replace(have, m.Have.DType.String(), m.HaveType, 1)
		}
		want := m.Want.String()
		if !m.Want.DType.Valid() {
			want = strings.TrimPrefix(want, m.Want.DType.String()+" ")
		}
		different = append(different, fmt.Sprintf("%s is %s, want %s", m.Name, have, want))
	}
	list("different", different)
	if prefix := e.commonPrefix(); prefix != "" {
		fmt.Fprintf(&b, "\n  fix: every unexpected name is a missing one behind %q", prefix)
	}
	return b.String()
}

// commonPrefix finds a prefix such as "module." that turns all missing names
// into the unexpected ones.
func (e *MatchError) commonPrefix() string {
	if len(e.Missing) == 0 || len(e.Missing) != len(e.Unexpected) {
		return ""
	}
	prefix, ok := strings.CutSuffix(e.Unexpected[0], e.Missing[0])
	if !ok {
		return ""
	}
	for i, name := range e.Missing {
		if e.Unexpected[i] != prefix+name {
			return ""
		}
	}
	return prefix
}
