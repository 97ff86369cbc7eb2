package program

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// TextVersion is the version of the format. It grows when a program that an earlier
// version reads would mean something else, or nothing, to it. An op that is new does not
// count: it is unknown there by its name.
const TextVersion = 1

// MaxText is the largest text of a program, in bytes.
const MaxText = 8 << 20

// VersionError says that a program was written by a later version.
type VersionError struct {
	Version int
	Locus   string
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("the program is of version %d of its format, written by Locus %.40q; this Locus reads versions up to %d", e.Version, e.Locus, TextVersion)
}

type portableText struct {
	Version int    `json:"version"`
	Locus   string `json:"locus"`
	Args    items  `json:"args"`    // specText
	Weights items  `json:"weights"` // weightText
	Steps   items  `json:"steps"`   // stepText
	Results items  `json:"results"` // numbers and refText
}

// items is a list whose items are read one by one. It is not longer than maxSteps: an item
// takes many times the memory that its text does.
type items []json.RawMessage

// UnmarshalJSON reads the list.
func (l *items) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if open, err := d.Token(); err != nil || open != json.Delim('[') {
		return fmt.Errorf("there is %.40q where a list should be", text)
	}
	for d.More() {
		if len(*l) == maxSteps {
			return fmt.Errorf("a list of more than %d items", maxSteps)
		}
		var item json.RawMessage
		if err := d.Decode(&item); err != nil {
			return err
		}
		*l = append(*l, item)
	}
	return nil
}

type specText struct {
	DType string          `json:"dtype"`
	Shape json.RawMessage `json:"shape"`
}

type weightText struct {
	Name string `json:"name"`
	specText
}

type stepText struct {
	Op    string          `json:"op"`
	Attrs json.RawMessage `json:"attrs,omitempty"`
	Saves bool            `json:"saves,omitempty"`
	In    items           `json:"in,omitempty"` // numbers and refText
}

// refText is a tensor that is not simply a value, whose number would stand here alone.
type refText struct {
	Value   *int            `json:"value,omitempty"`
	Shape   json.RawMessage `json:"shape,omitempty"`
	Strides []int           `json:"strides,omitempty"` // left out where the elements lie in order
	Offset  int             `json:"offset,omitempty"`
	DType   string          `json:"dtype,omitempty"` // of a number, or of a tensor without elements
	Bits    string          `json:"bits,omitempty"`  // a number in its element type's representation
}

// MarshalText returns a program, which must have been checked, as JSON.
func (p *Portable) MarshalText() ([]byte, error) {
	t := portableText{Version: TextVersion, Locus: p.Locus, Args: items{}, Weights: items{}, Steps: items{}, Results: items{}}
	for _, a := range p.Args {
		t.Args = append(t.Args, must(json.Marshal(textOf(a))))
	}
	for _, w := range p.Weights {
		t.Weights = append(t.Weights, must(json.Marshal(weightText{w.Name, textOf(w.Spec)})))
	}
	for i := range p.Steps {
		s := &p.Steps[i]
		attrs, err := op.MarshalAttrs(s.Op, s.Attrs)
		if err != nil {
			return nil, fmt.Errorf("step %d (%s): %w", i, s.Op, err)
		}
		text := stepText{Op: s.Op.String(), Attrs: attrs, Saves: s.Saves, In: make(items, len(s.In))}
		for k := range s.In {
			text.In[k] = p.refText(&s.In[k])
		}
		t.Steps = append(t.Steps, must(json.Marshal(text)))
	}
	for i := range p.Results {
		t.Results = append(t.Results, p.refText(&p.Results[i]))
	}
	b, err := json.Marshal(t)
	if err == nil && len(b) > MaxText {
		err = fmt.Errorf("%d steps make a text of %d bytes; the limit is %d", len(p.Steps), len(b), MaxText)
	}
	return b, err
}

// must is for values that JSON can always hold.
func must(b []byte, err error) json.RawMessage {
	if err != nil {
		panic(err)
	}
	return b
}

func sizes(s []int) json.RawMessage {
	if s == nil {
		s = []int{}
	}
	return must(json.Marshal(s))
}

func textOf(s op.Spec) specText { return specText{s.DType.String(), sizes(s.Shape)} }

func (p *Portable) refText(r *Ref) json.RawMessage {
	v := &r.View
	var t refText
	switch {
	case r.Value == -1:
		t = refText{DType: v.DType.String(), Bits: strconv.FormatUint(v.Bits, 16)}
	case r.Value == EmptyValue:
		t = refText{DType: v.DType.String(), Shape: sizes(v.Shape)}
	case p.Whole(r):
		return strconv.AppendInt(nil, int64(r.Value), 10)
	default:
		t = refText{Value: &r.Value, Shape: sizes(v.Shape), Offset: v.Offset}
		if !v.Contiguous() {
			t.Strides = v.Strides
		}
	}
	return must(json.Marshal(t))
}

// ParsePortable reads what MarshalText has written, and checks it. A text of a later
// version is a *[VersionError].
func ParsePortable(text []byte) (*Portable, error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("a text of %d bytes; the limit is %d", len(text), MaxText)
	}
	var head struct {
		Version int    `json:"version"`
		Locus   string `json:"locus"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, err
	}
	if head.Version > TextVersion {
		return nil, &VersionError{head.Version, head.Locus}
	}
	if head.Version < 1 {
		return nil, fmt.Errorf("there is no version %d of programs", head.Version)
	}
	var t portableText
	if err := json.Unmarshal(text, &t); err != nil {
		return nil, err
	}
	p := &Portable{Locus: t.Locus}
	for i, text := range t.Args {
		w, err := parseSpec(text)
		if err != nil {
			return nil, fmt.Errorf("argument %d: %w", i, err)
		}
		p.Args = append(p.Args, w.Spec)
	}
	for i, text := range t.Weights {
		w, err := parseSpec(text)
		if err != nil {
			return nil, fmt.Errorf("weight %d: %w", i, err)
		}
		p.Weights = append(p.Weights, w)
	}
	// Steps are checked as they come: the specs of values decide what a number means.
	if err := p.Check(); err != nil {
		return nil, err
	}
	for i, text := range t.Steps {
		s, err := p.step(text)
		if err == nil {
			err = p.checkStep(s)
		}
		if err != nil {
			name := ""
			if s != nil {
				name = " (" + s.Op.String() + ")"
			}
			return nil, fmt.Errorf("step %d%s: %w", i, name, err)
		}
		p.Steps = append(p.Steps, *s)
	}
	for i, text := range t.Results {
		r, err := p.ref(text)
		if err != nil {
			return nil, fmt.Errorf("result %d: %w", i, err)
		}
		p.Results = append(p.Results, r)
	}
	return p, p.Check()
}

// parseSpec reads a weight, or an argument, which has no name.
func parseSpec(text []byte) (w Weight, err error) {
	var t weightText
	if err := json.Unmarshal(text, &t); err != nil {
		return w, err
	}
	w.Name = t.Name
	if w.DType, err = dtype.Parse(t.DType); err != nil {
		return w, op.Problemf(op.ErrDType, "unknown element type %.40q", t.DType)
	}
	w.Shape, err = op.UnmarshalSizes(t.Shape)
	return w, err
}

func (p *Portable) step(text []byte) (*PortableStep, error) {
	var t stepText
	if err := json.Unmarshal(text, &t); err != nil {
		return nil, err
	}
	def, ok := op.ByName(t.Op)
	if !ok || t.Op == "" {
		return nil, &op.Problem{Kind: op.ErrUnsupported, Msg: fmt.Sprintf("this Locus has no op %.40q", t.Op), Fix: "use the version of Locus that wrote the program, or a later one"}
	}
	if len(t.In) > maxOperands {
		return nil, op.Problemf(op.ErrArgument, "%d operands", len(t.In))
	}
	s := &PortableStep{Op: def.ID, Saves: t.Saves, In: make([]Ref, len(t.In))}
	for i := range t.In {
		var err error
		if s.In[i], err = p.ref(t.In[i]); err != nil {
			return s, fmt.Errorf("operand %d: %w", i, err)
		}
	}
	var err error
	s.Attrs, err = op.UnmarshalAttrs(def.ID, t.Attrs)
	return s, err
}

func (p *Portable) ref(text []byte) (r Ref, err error) {
	if len(text) > 0 && text[0] != '{' {
		if err := json.Unmarshal(text, &r.Value); err != nil {
			return r, err
		}
		if r.Value < 0 || r.Value >= len(p.Values) {
			return r, op.Problemf(op.ErrArgument, "there is no value %d before it", r.Value)
		}
		s := p.Values[r.Value]
		r.View = backend.View{DType: s.DType, Shape: s.Shape, Strides: op.Strides(s.Shape)}
		return r, nil
	}
	var t refText
	if len(text) > 2048 { // no valid one is longer: do not make its lists
		return r, op.Problemf(op.ErrArgument, "a tensor described by %d bytes", len(text))
	}
	if err := json.Unmarshal(text, &t); err != nil {
		return r, err
	}
	if t.Bits != "" {
		r.Value = -1
		if r.View.Bits, err = strconv.ParseUint(t.Bits, 16, 64); err != nil {
			return r, op.Problemf(op.ErrArgument, "the number %.40q", t.Bits)
		}
		r.View.DType, err = dtype.Parse(t.DType)
		return r, err
	}
	if r.View.Shape, err = op.UnmarshalSizes(t.Shape); err != nil {
		return r, err
	}
	if t.Value == nil {
		r.Value = EmptyValue
		r.View.Strides = op.Strides(r.View.Shape)
		r.View.DType, err = dtype.Parse(t.DType)
		return r, err
	}
	r.Value, r.View.Offset, r.View.Strides = *t.Value, t.Offset, t.Strides
	if r.Value < 0 || r.Value >= len(p.Values) {
		return r, op.Problemf(op.ErrArgument, "there is no value %d before it", r.Value)
	}
	r.View.DType = p.Values[r.Value].DType
	if t.Strides == nil {
		r.View.Strides = op.Strides(r.View.Shape)
	}
	return r, nil
}
