package program

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// portable returns a program with most of what the format has.
func portable(t testing.TB) *Portable {
	f32 := func(shape ...int) op.Spec { return op.Spec{DType: dtype.Float32, Shape: shape} }
	whole := func(v int, s op.Spec) Ref {
		return Ref{Value: v, View: backend.View{DType: s.DType, Shape: s.Shape, Strides: op.Strides(s.Shape)}}
	}
	view := func(v int, shape, strides []int, offset int) Ref {
		return Ref{Value: v, View: backend.View{DType: dtype.Float32, Shape: shape, Strides: strides, Offset: offset}}
	}
	number := Ref{Value: -1, View: backend.View{DType: dtype.Float32, Bits: uint64(math.Float32bits(2))}}
	empty := Ref{Value: EmptyValue, View: backend.View{DType: dtype.Float32, Shape: []int{0, 3}, Strides: []int{3, 1}}}
	p := &Portable{Locus: "test", Args: []op.Spec{f32(2, 3)}, Weights: []Weight{{"w", f32(4, 3)}, {"b", f32(4)}},
		Steps: []PortableStep{
			{Op: op.Linear, Attrs: op.Epilogue{Act: op.Relu}, In: []Ref{whole(0, f32(2, 3)), whole(1, f32(4, 3)), whole(2, f32(4))}},                                                                                // 3: (2, 4)
			{Op: op.Mul, In: []Ref{view(3, []int{2, 2}, []int{4, -2}, 3), number}},                                                                                                                                  // 4: (2, 2)
			{Op: op.Normalized, Attrs: op.Normalize{From: 1, Params: [2]int{1, 2}, Eps: 1e-5}, Saves: true, In: []Ref{whole(4, f32(2, 2))}},                                                                         // 5, 6, 7
			{Op: op.Add, In: []Ref{whole(5, f32(2, 2)), view(6, []int{2, 2}, []int{1, 0}, 0)}},                                                                                                                      // 8
			{Op: op.Padded, Attrs: op.Pad{Low: op.DimsOf([]int{1, 0}), High: op.DimsOf([]int{0, 0}), Interior: op.DimsOf([]int{0, 1}), Value: math.Inf(-1)}, In: []Ref{whole(8, f32(2, 2))}},                        // 9: (3, 3)
			{Op: op.Conv2D, Attrs: op.Conv{Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}, Groups: 1}, In: []Ref{view(9, []int{1, 1, 3, 3}, []int{9, 9, 3, 1}, 0), view(9, []int{1, 1, 2, 2}, []int{0, 0, 1, 1}, 0)}}, // 10
			{Op: op.Concat, Attrs: op.Axis{}, In: []Ref{empty, whole(9, f32(3, 3))}},                                                                                                                                // 11
			{Op: op.Full, Attrs: op.Create{DType: dtype.Int64, Shape: op.DimsOf([]int{2}), IValue: math.MinInt64}},                                                                                                  // 12
		},
		Results: []Ref{whole(11, f32(3, 3)), view(10, []int{4}, []int{1}, 0), empty, whole(0, f32(2, 3))}}
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	return p
}

func text(t testing.TB, p *Portable) []byte {
	b, err := p.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A program is the same behind its text.
func TestPortableText(t *testing.T) {
	p := portable(t)
	b := text(t, p)
	q, err := ParsePortable(b)
	if err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	if string(text(t, q)) != string(b) || q.String() != p.String() || !reflect.DeepEqual(p.Values, q.Values) {
		t.Errorf("%s\n%s", p, q)
	}
	if got := q.Temporary(); got != 4*(8+4+4+2+2+4+9+4+9)+16+4*2 {
		t.Error(got) // one operand repeats two elements
	}
}

// What is wrong in a text is an error that names it.
func TestPortableRefused(t *testing.T) {
	good := string(text(t, portable(t)))
	swap := func(old, now string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("there is no %s in %s", old, good)
		}
		return strings.Replace(good, old, now, 1)
	}
	for bad, want := range map[string]string{
		"":                                   "unexpected end",
		"[]":                                 "array",
		"null":                               "version 0",
		good[:len(good)/2]:                   "unexpected end",
		swap(`"version":1`, `"version":2`):   "later",
		swap(`"linear"`, `"linear_x"`):       `no op "linear_x"`,
		swap(`"linear"`, `"reshape"`):        "it takes no attributes",
		swap(`"op":"mul"`, `"op":"reshape"`): "not an op that a program in a file may have",
		swap(`"op":"mul"`, `"op":"rand_uniform"`):                            "not an op that a program in a file may have",
		swap(`"op":"mul"`, `"op":"fused"`):                                   `no op "fused"`,
		swap(`"op":"mul"`, `"op":""`):                                        `no op ""`,
		swap(`"Act":"relu"`, `"Act":"sum"`):                                  "cannot end with sum",
		swap(`"Act":"relu"`, `"Act":"nothing"`):                              `no "nothing"`,
		swap(`"Act":"relu"`, `"Bct":1`):                                      `no attribute "Bct"`,
		swap(`"in":[0,1,2]`, `"in":[0,1,3]`):                                 "no value 3",
		swap(`"in":[0,1,2]`, `"in":[0,1,-1]`):                                "no value -1",
		swap(`"in":[0,1,2]`, `"in":[0]`):                                     "takes x",
		swap(`"in":[0,1,2]`, `"in":[0,0,2]`):                                 "bias has shape",
		swap(`"strides":[4,-2]`, `"strides":[4,-4]`):                         "lead out of value 3",
		swap(`"strides":[4,-2]`, `"strides":[9223372036854775807,2]`):        "lead out of value 3",
		swap(`"strides":[4,-2]`, `"strides":[4]`):                            "1 strides for 2 axes",
		swap(`"offset":3`, `"offset":-3`):                                    "lead out of value 3",
		swap(`"offset":3`, `"offset":6`):                                     "lead out of value 3",
		swap(`"bits":"40000000"`, `"bits":"1ffffffff"`):                      "is not a float32",
		swap(`"shape":[0,3]`, `"shape":[1,3]`):                               "lie nowhere",
		swap(`"shape":[0,3]`, `"shape":[0,3,3]`):                             "rank",
		swap(`"shape":[2,3]`, `"shape":[2,-3]`):                              "negative size",
		swap(`"shape":[2,3]`, `"shape":[2,99999999999]`):                     "too large",
		swap(`"shape":[2,3]`, `"shape":[4294967296,4294967296]`):             "too many elements",
		swap(`"shape":[2,3]`, `"shape":[1,1,1,1,1,1,1,1,1]`):                 "dimensions",
		swap(`"dtype":"float32"`, `"dtype":"float33"`):                       `unknown element type "float33"`,
		swap(`"Low":[1,0]`, `"Low":[1]`):                                     "padding of 1 axes of 2",
		swap(`"Low":[1,0]`, `"Low":[68719476736,0]`):                         "padding by",
		swap(`"Stride":[1,1]`, `"Stride":[0,1]`):                             "must be positive",
		swap(`"Stride":[1,1]`, `"Stride":[1]`):                               "1 numbers; want 2",
		swap(`"Groups":1`, `"Groups":9999999999`):                            "out of range",
		swap(`"Groups":1`, `"Groups":1e3`):                                   "Groups",
		swap(`"op":"concat","attrs":{}`, `"op":"concat","attrs":{"Axis":2}`): "axis 2 of 2",
		swap(`"IValue":-9223372036854775808`, `"Shape":[1,1,1,1,1,1,1,1,1]`): "dimensions",
		swap(`"saves":true,`, ``):                                            "no value",
		swap(`"results":[11`, `"results":[99`):                               "no value 99",
		swap(`"results":[11`, `"results":[{"dtype":"float32","bits":"1"}`):   "is a number",
	} {
		p, err := ParsePortable([]byte(bad))
		var later *VersionError
		switch {
		case err == nil:
			t.Errorf("%s is accepted:\n%s\n%s", want, bad, p)
		case want == "later":
			if !errors.As(err, &later) || !strings.Contains(err.Error(), "test") {
				t.Error(err)
			}
		case !strings.Contains(err.Error(), want):
			t.Errorf("want %q: %v", want, err)
		}
	}
	if _, err := ParsePortable(make([]byte, MaxText+1)); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Error(err)
	}
}

// Attributes of every type are the same behind their text, with every field set.
func TestAttrsText(t *testing.T) {
	n := 0
	for _, def := range op.All() {
		zero, err := op.UnmarshalAttrs(def.ID, nil)
		if err != nil || zero == nil {
			continue
		}
		v := reflect.New(reflect.TypeOf(zero)).Elem()
		fill(t, v)
		text, err := op.MarshalAttrs(def.ID, v.Interface())
		if err != nil {
			t.Fatal(err)
		}
		got, err := op.UnmarshalAttrs(def.ID, text)
		if err != nil || got != v.Interface() || !json.Valid(text) {
			t.Errorf("%s: %+v, behind %s %+v: %v", def, v.Interface(), text, got, err)
		}
		n++
	}
	if n < 40 {
		t.Errorf("%d ops with attributes", n)
	}
	if _, err := op.MarshalAttrs(op.RandUniform, op.Random{}); err == nil {
		t.Error("random numbers are written")
	}
	if _, err := op.UnmarshalAttrs(op.Blend, json.RawMessage(`{"A":"-0","B":"+Inf"}`)); err != nil {
		t.Error(err)
	}
	if b, err := op.MarshalAttrs(op.Blend, op.Scales{A: math.Copysign(0, -1), B: math.Inf(1)}); string(b) != `{"A":"-0","B":"+Inf"}` {
		t.Error(string(b), err)
	}
}

// fill sets all fields to something.
func fill(t *testing.T, v reflect.Value) {
	switch v.Interface().(type) {
	case op.Dims:
		v.Set(reflect.ValueOf(op.DimsOf([]int{3, 0, 5})))
		return
	case op.ID:
		v.Set(reflect.ValueOf(op.Gelu))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i))
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(1.0 / 3)
	case reflect.Int:
		v.SetInt(7)
	case reflect.Int64:
		v.SetInt(math.MaxInt64 - 1)
	case reflect.Uint8, reflect.Uint16:
		v.SetUint(2)
	default:
		t.Fatalf("a field of type %s", v.Type())
	}
}

// FuzzPortable looks for texts that are not refused and cannot be trusted.
func FuzzPortable(f *testing.F) {
	good := text(f, portable(f))
	f.Add(good)
	f.Add([]byte(`{"version":1,"args":[{"dtype":"f32","shape":[2,2]}],"steps":[{"op":"sum","attrs":{"Axes":3},"in":[0]},{"op":"argmax","in":[0]}],"results":[1]}`))
	f.Add([]byte(`{"version":1,"args":[{"dtype":"f32","shape":[2,3,4]},{"dtype":"f32","shape":[3,4]},{"dtype":"f32","shape":[12,4]},{"dtype":"f32","shape":[12,4]}],` +
		`"steps":[{"op":"recurrent","attrs":{"Cell":"gru"},"saves":true,"in":[0,1,2,3]},{"op":"max_pool","attrs":{"Kernel":[1,1],"Stride":[1,1],"Dilation":[1,1]},"in":[{"value":4,"shape":[1,2,3,4]}]}],"results":[5,6]}`))
	f.Add([]byte(`{"version":1,"args":[{"dtype":"bf16","shape":[2,3,4,4]},{"dtype":"i64","shape":[2]}],"steps":[{"op":"attention","attrs":{"Scale":0.5,"Causal":true},"in":[0,0,0]},{"op":"take","in":[2,1]},{"op":"update_all","attrs":{"Rule":"adam","Momentum":0.9,"First":true},"in":[0,0]}],"results":[3]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := ParsePortable(b)
		if err != nil {
			return
		}
		_ = p.String()
		again, err := p.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		q, err := ParsePortable(again)
		if err != nil {
			t.Fatalf("%v\n%s\n%s", err, b, again)
		}
		if !reflect.DeepEqual(p.Values, q.Values) || p.String() != q.String() {
			t.Errorf("%s\n%s", p, q)
		}
		at := len(p.Args) + len(p.Weights)
		for i := range p.Steps { // every operand lies within what is made before it
			for _, r := range p.Steps[i].In {
				if r.Value < 0 || r.View.Elements() == 0 {
					continue
				}
				if low, high := Span(&r.View); r.Value >= at || low < 0 || high > op.Elements(p.Values[r.Value].Shape) {
					t.Fatalf("step %d: %+v", i, r)
				}
			}
			at += p.made(&p.Steps[i])
		}
		if at != len(p.Values) {
			t.Fatalf("%d values, %d are made", len(p.Values), at)
		}
	})
}

// A text costs a bounded multiple of its size, whatever is in it.
func TestPortableMemory(t *testing.T) {
	for _, what := range []string{"args", "weights", "steps", "results"} {
		for _, item := range []string{"{},", "0,", `{"op":"neg"},`, `{"op":"neg","in":[` + strings.Repeat("0,", 1000) + `0]},`} {
			n := (1 << 20) / len(item)
			b := []byte(`{"version":1,"` + what + `":[` + strings.TrimSuffix(strings.Repeat(item, n), ",") + `]}`)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if _, err := ParsePortable(b); err == nil {
				t.Errorf("%s of %.20s are accepted", what, item)
			}
			runtime.ReadMemStats(&after)
			if factor := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(b)); factor > 40 {
				t.Errorf("%s of %.20s take %.0f times the text", what, item, factor)
			} else {
				t.Logf("%s of %.20s take %.0f times the text", what, item, factor)
			}
		}
	}
}
