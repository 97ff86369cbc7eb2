package op

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"sort"
	"strconv"

	"github.com/locusml/locus/dtype"
)

// Attributes as JSON, for programs in files. The names of fields and enumerations are
// part of the file format: a field may be added where its zero value means what was
// computed before, and none may be renamed.

// attrType returns the type of the attributes of an op in a file, or nil if it has none.
// Ops that no file has, such as those that draw random numbers, count as such.
func attrType(id ID) reflect.Type {
	if !Portable(id) {
		return nil
	}
	return reflect.TypeOf(table[id].Attrs)
}

// Portable reports whether a step of a program in a file may be the op. Views are not
// steps, random numbers need a key that advances, and fused expressions are made again
// by whoever runs the program.
func Portable(id ID) bool {
	switch id {
	case Invalid, RandUniform, RandNormal, RandInt, RandBits, FusedOps, Begin, Await:
		return false
	}
	return int(id) < len(table) && table[id].Name != "" && table[id].Family != ViewFamily
}

// MarshalAttrs returns the attributes of an op as JSON, nil if there are none. Fields
// that are zero are left out.
func MarshalAttrs(id ID, a Attrs) (json.RawMessage, error) {
	want := attrType(id)
	if a == nil && want == nil {
		return nil, nil
	}
	if reflect.TypeOf(a) != want {
		return nil, Problemf(ErrArgument, "attributes of type %T cannot be written to a file", a)
	}
	return marshalStruct(reflect.ValueOf(a))
}

func marshalStruct(v reflect.Value) (json.RawMessage, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i := range v.NumField() {
		if v.Field(i).IsZero() && !(v.Field(i).Kind() == reflect.Float64 && math.Signbit(v.Field(i).Float())) {
			continue
		}
		text, err := marshalField(v.Field(i))
		if err != nil {
			return nil, err
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", v.Type().Field(i).Name, text)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func marshalField(v reflect.Value) (json.RawMessage, error) {
	switch x := v.Interface().(type) {
	case Dims:
		return json.Marshal(x.Slice())
	case ID, Rule, Cell, dtype.DType:
		return json.Marshal(x.(fmt.Stringer).String())
	case float64:
		if math.IsNaN(x) || math.IsInf(x, 0) || x == 0 { // JSON has no infinities, and its zero no sign
			return json.Marshal(strconv.FormatFloat(x, 'g', -1, 64))
		}
		return strconv.AppendFloat(nil, x, 'g', -1, 64), nil
	}
	switch v.Kind() {
	case reflect.Struct:
		return marshalStruct(v)
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint16, reflect.Array:
		return json.Marshal(v.Interface())
	}
	return nil, Problemf(ErrArgument, "an attribute of type %s cannot be written to a file", v.Type())
}

// UnmarshalAttrs reads what MarshalAttrs has written. What it returns may still not fit
// the operands: see CheckStrict.
func UnmarshalAttrs(id ID, text json.RawMessage) (Attrs, error) {
	want := attrType(id)
	if want == nil {
		if len(text) > 0 {
			return nil, Problemf(ErrArgument, "it takes no attributes")
		}
		return nil, nil
	}
	v := reflect.New(want).Elem()
	if len(text) > 0 {
		if err := unmarshalStruct(text, v); err != nil {
			return nil, err
		}
	}
	return v.Interface(), nil
}

func unmarshalStruct(text json.RawMessage, v reflect.Value) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return Problemf(ErrArgument, "attributes: %v", err)
	}
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		field, ok := v.Type().FieldByName(name)
		if !ok || len(field.Index) != 1 {
			return Problemf(ErrArgument, "there is no attribute %.40q", name)
		}
		if err := unmarshalField(fields[name], v.FieldByIndex(field.Index)); err != nil {
			return Problemf(ErrArgument, "attribute %s: %v", name, err)
		}
	}
	return nil
}

// MaxSize is the largest size of an axis, and of an attribute that counts elements, in a
// program from a file; maxCount is the largest value of other integers. Rules
// multiply two of them.
const (
	MaxSize  = 1 << 36
	maxCount = 1 << 24
)

func unmarshalField(text json.RawMessage, v reflect.Value) error {
	switch v.Interface().(type) {
	case Dims:
		list, err := UnmarshalSizes(text)
		if err != nil {
			return err
		}
		v.Set(reflect.ValueOf(DimsOf(list)))
		return nil
	case ID, Rule, Cell, dtype.DType:
		var name string
		if err := json.Unmarshal(text, &name); err != nil {
			return err
		}
		for n := range uint64(256) {
			v.SetUint(n)
			if n < uint64(NumOps) && v.Interface().(fmt.Stringer).String() == name {
				return nil
			}
		}
		return Problemf(ErrArgument, "there is no %.40q", name)
	}
	switch v.Kind() {
	case reflect.Struct:
		return unmarshalStruct(text, v)
	case reflect.Float64:
		var x float64
		if len(text) > 0 && text[0] == '"' {
			var s string
			err := json.Unmarshal(text, &s)
			if err == nil {
				x, err = strconv.ParseFloat(s, 64)
			}
			if err != nil {
				return Problemf(ErrArgument, "it is not a number")
			}
		} else if err := json.Unmarshal(text, &x); err != nil {
			return err
		}
		v.SetFloat(x)
		return nil
	case reflect.Int:
		var n int
		if err := json.Unmarshal(text, &n); err != nil {
			return err
		}
		if n < -maxCount || n > maxCount {
			return Problemf(ErrArgument, "%d is out of range", n)
		}
		v.SetInt(int64(n))
		return nil
	case reflect.Array: // two sizes
		var list []int
		if err := json.Unmarshal(text, &list); err != nil {
			return err
		}
		if len(list) != v.Len() {
			return Problemf(ErrArgument, "%d numbers; want %d", len(list), v.Len())
		}
		for i, n := range list {
			if n < 0 || n > maxCount {
				return Problemf(ErrArgument, "%d is out of range", n)
			}
			v.Index(i).SetInt(int64(n))
		}
		return nil
	case reflect.Bool, reflect.Int64, reflect.Uint16:
		return json.Unmarshal(text, v.Addr().Interface())
	}
	return Problemf(ErrArgument, "attributes of type %s are not read from files", v.Type())
}

// UnmarshalSizes reads a shape.
func UnmarshalSizes(text json.RawMessage) ([]int, error) {
	if len(text) > 64*MaxRank { // no valid list is longer: do not make one
		return nil, Problemf(ErrShape, "a list of %d bytes", len(text))
	}
	var list []int
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, Problemf(ErrShape, "sizes: %v", err)
	}
	return list, CheckSizes(list)
}

// CheckSizes reports a shape that is wrong or larger than a file may ask for.
func CheckSizes(shape []int) error {
	if err := CheckShape(shape); err != nil {
		return err
	}
	for i, n := range shape {
		if n > MaxSize {
			return Problemf(ErrShape, "axis %d of shape %s is too large", i, ShapeString(shape))
		}
	}
	return nil
}

// CheckStrict is Check, and CheckShape of all results, for a call that comes from a file:
// it does not trust that the attributes are what package locus would have made. It
// returns the specs of all results.
func CheckStrict(id ID, a Attrs, in []Spec) (all []Spec, err error) {
	d := &table[id]
	if !Portable(id) {
		return nil, Problemf(ErrArgument, "it is not an op that a program in a file may have")
	}
	if reflect.TypeOf(a) != attrType(id) {
		return nil, attrError(d.Name, a)
	}
	if d.Broadcasts() {
		for i := range in {
			if ShapeString(in[i].Shape) != ShapeString(in[0].Shape) {
				return nil, Problemf(ErrShape, "operand %d has shape %s, operand 0 %s; they must be equal", i, ShapeString(in[i].Shape), ShapeString(in[0].Shape))
			}
		}
	}
	if err := checkAttrs(id, a, in); err != nil {
		return nil, err
	}
	first, err := Check(id, a, in)
	if err != nil {
		return nil, err
	}
	all = []Spec{first}
	if d.More != nil {
		all = append(all, d.More(a, in)...)
	}
	for _, s := range all {
		if err := CheckSizes(s.Shape); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// checkAttrs checks what rules leave to the functions of package locus that call them.
func checkAttrs(id ID, a Attrs, in []Spec) error {
	rank := 0
	if len(in) > 0 {
		rank = len(in[0].Shape)
	}
	switch a := a.(type) {
	case Axis:
		if a.Axis < 0 || a.Axis >= rank {
			return Problemf(ErrAxis, "axis %d of %d", a.Axis, rank)
		}
	case Reduce:
		if a.Axes&^AllAxes(rank) != 0 {
			return Problemf(ErrAxis, "axes %b of %d", a.Axes, rank)
		}
	case Pad:
		for _, d := range []Dims{a.Low, a.High, a.Interior} {
			if d.N != rank && d != (Dims{}) {
				return Problemf(ErrShape, "padding of %d axes of %d", d.N, rank)
			}
			for _, n := range d.D {
				if n > maxCount {
					return Problemf(ErrArgument, "padding by %d", n)
				}
			}
		}
	case Pool:
		if (id == AvgPool || id == AvgPoolGrad) && a.Dilation != [2]int{1, 1} {
			return Problemf(ErrArgument, "average pooling has no dilation")
		}
	case Create:
		if a.Shape.N < 0 || a.Shape.N > MaxRank {
			return Problemf(ErrShape, "%d dimensions", a.Shape.N)
		}
	}
	return nil
}
