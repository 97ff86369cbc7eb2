// Package dtype names the element types of tensors and holds the two that Go
// does not have: [BF16] (bfloat16) and [F16] (IEEE half precision).
//
// It is a leaf: every other package of Locus may import it. Programs usually
// use the names that package locus repeats (locus.Float32 and so on).
package dtype

import (
	"fmt"
	"strings"
)

// DType is the type of a tensor's elements.
type DType uint8

// The element types. The zero DType is [Invalid], so that a forgotten one is noticed.
const (
	Invalid DType = iota
	Bool
	Uint8
	Int32
	Int64
	Float16
	BFloat16
	Float32
	Float64
	numDTypes
)

// All lists every valid element type, smallest kind first.
var All = []DType{Bool, Uint8, Int32, Int64, Float16, BFloat16, Float32, Float64}

var names = [numDTypes]string{"invalid", "bool", "uint8", "int32", "int64", "float16", "bfloat16", "float32", "float64"}
var sizes = [numDTypes]int{0, 1, 1, 4, 8, 2, 2, 4, 8}

// String returns the name that is printed: "float32", "bool", …
func (d DType) String() string {
	if d >= numDTypes {
		return fmt.Sprintf("dtype(%d)", uint8(d))
	}
	return names[d]
}

// Size is the number of bytes of one element.
func (d DType) Size() int {
	if d >= numDTypes {
		return 0
	}
	return sizes[d]
}

// IsFloat reports whether d is a floating-point type.
func (d DType) IsFloat() bool { return d >= Float16 && d <= Float64 }

// IsHalf reports whether d is a floating-point type of two bytes.
func (d DType) IsHalf() bool { return d == Float16 || d == BFloat16 }

// IsInt reports whether d is an integer type; bool is not.
func (d DType) IsInt() bool { return d >= Uint8 && d <= Int64 }

// Valid reports whether d names an element type.
func (d DType) Valid() bool { return d > Invalid && d < numDTypes }

// Parse reads a name as written by [DType.String], in any case, and the short
// forms f16, bf16, f32, f64, i32, i64, u8.
func Parse(s string) (DType, error) {
	t := strings.ToLower(strings.TrimSpace(s))
	if full, ok := shortNames[t]; ok {
		return full, nil
	}
	for _, d := range All {
		if d.String() == t {
			return d, nil
		}
	}
	return Invalid, fmt.Errorf("unknown dtype %q: the dtypes are %s", s, Set(0).With(All...))
}

var shortNames = map[string]DType{
	"f16": Float16, "half": Float16, "bf16": BFloat16, "f32": Float32, "float": Float32,
	"f64": Float64, "double": Float64, "i32": Int32, "i64": Int64, "int": Int64, "u8": Uint8, "boolean": Bool,
}

// Element is the set of Go types that a tensor can be filled from and copied
// to. Go's int is stored as int64.
type Element interface {
	bool | uint8 | int32 | int64 | int | float32 | float64 | F16 | BF16
}

// Of returns the DType that holds the Go type T.
func Of[T Element]() DType {
	var z T
	return OfValue(z)
}

// OfValue returns the DType that holds v's Go type, or Invalid.
func OfValue(v any) DType {
	switch v.(type) {
	case bool:
		return Bool
	case uint8:
		return Uint8
	case int32:
		return Int32
	case int64, int:
		return Int64
	case F16:
		return Float16
	case BF16:
		return BFloat16
	case float32:
		return Float32
	case float64:
		return Float64
	}
	return Invalid
}

// Set is a set of element types, for the op table.
type Set uint16

// The sets that op rules are written with.
const (
	Floats   Set = 1<<Float16 | 1<<BFloat16 | 1<<Float32 | 1<<Float64
	Ints     Set = 1<<Uint8 | 1<<Int32 | 1<<Int64
	Bools    Set = 1 << Bool
	Numbers  Set = Floats | Ints
	Integral Set = Ints | Bools
	Any      Set = Numbers | Bools
	Indices  Set = 1<<Int32 | 1<<Int64
)

// Has reports whether d is in s.
func (s Set) Has(d DType) bool { return s&(1<<d) != 0 }

// With returns s with ds added.
func (s Set) With(ds ...DType) Set {
	for _, d := range ds {
		s |= 1 << d
	}
	return s
}

// List returns the members, smallest kind first.
func (s Set) List() []DType {
	var l []DType
	for _, d := range All {
		if s.Has(d) {
			l = append(l, d)
		}
	}
	return l
}

// String lists the members: "float32, float64".
func (s Set) String() string {
	var b []string
	for _, d := range s.List() {
		b = append(b, d.String())
	}
	return strings.Join(b, ", ")
}
