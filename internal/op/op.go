// Package op is the table of primitive operations: for each its name, how many
// operands it takes, which element types, and the rule that determines the shape and
// element type of its result. Everything that Locus can compute is one of these or
// composed from them.
//
// The table knows nothing of memory or devices. Package locus checks a call
// against it once, before any backend is involved; a backend looks kernels up
// by [ID] and may trust what the rule has checked.
package op

import (
	"fmt"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/elem"
)

// MaxRank is the largest number of dimensions of a tensor.
const MaxRank = 8

// ID names a primitive. IDs index arrays; they are not stable between versions.
type ID uint8

// Family groups primitives that share a rule and the shape of their kernels.
type Family uint8

// The families.
const (
	ViewFamily    Family = iota + 1 // shares its operand's memory; has no kernel
	CreateFamily                    // no operands; [Create] or [Random] attributes
	UnaryFamily                     // one element in, one out
	BinaryFamily                    // two operands broadcast together
	CompareFamily                   // like binary, result is bool
	TernaryFamily                   // Where
	ReduceFamily                    // over a set of axes, which stay with size 1
	IndexFamily                     // gather, scatter, concat, pad, sort, scans
	MatMulFamily
	ConvFamily
	PoolFamily
	FusedFamily  // also defined by a composition of other ops; a backend may leave it out
	LinalgFamily // factorizations and solutions of matrices; data can make them fail
	FourierFamily
)

var familyNames = [...]string{"", "view", "create", "unary", "binary", "compare", "ternary", "reduce", "index", "matmul", "conv", "pool", "fused", "linalg", "fourier"}

func (f Family) String() string { return EnumName("Family", int(f), familyNames[:]...) }

// Spec is what a rule knows of a tensor. Shapes are never written to.
type Spec struct {
	DType dtype.DType
	Shape []int
}

// Attrs are the parameters of a call that are not tensors. Attrs of an op's [Def]
// says which of the attribute types of this package it takes; ops without
// parameters take nil. All of them are comparable with ==.
type Attrs any

// Def describes one primitive.
type Def struct {
	ID     ID
	Name   string // as in messages and the docs: "add"
	Family Family
	Arity  int         // number of operands; -1 means one or more
	DTypes []dtype.Set // accepted types of operand i (the last entry serves the rest)
	Doc    string      // one line: what it computes

	// Attrs is a value of the type of the call's attributes; nil if the op takes none.
	Attrs Attrs

	// Infer returns the result's spec, or a *[Problem]. Operand count and element
	// types have been checked, and operands of the broadcast families have been
	// expanded to one shape.
	Infer func(a Attrs, in []Spec) (Spec, error)

	// More is set for ops with several results. It returns the specs of those behind
	// the first; Infer has accepted the operands.
	More func(a Attrs, in []Spec) []Spec

	// Float is what a unary op computes, in float64: the reference of the tests, and on
	// the CPU the kernel unless there is a better one. Float2 and Int2 are the same for
	// a binary op. They are nil where the tests and the CPU have functions of their
	// own.
	Float  func(x float64) float64
	Float2 func(a, b float64) float64
	Int2   func(a, b int64) int64

	// Saves says that the results that More describes serve the op's gradient alone,
	// which is cheaper with something that is at hand while the result is computed. A
	// caller that needs no gradient does not ask for them.
	Saves bool

	// Parts says that a gradient passes through every result. Only the first result
	// of an op records its history; where one is recorded, such an op is computed by
	// its composition. The further results of other ops never have a history.
	Parts bool

	// Batch says how the op computes many slices at once. [define] fills it in by the
	// family for ops that state none.
	Batch Batch

	// Half says what the op does in half precision beyond the rule; [define] fills it in.
	Half Half
}

// String returns the op's name.
func (d *Def) String() string { return d.Name }

// Broadcasts reports whether the operands are broadcast to one shape before
// the rule and the kernel see them.
func (d *Def) Broadcasts() bool {
	return d.Family == BinaryFamily || d.Family == CompareFamily || d.Family == TernaryFamily
}

// Elementwise reports whether the op computes elements one by one.
func (d *Def) Elementwise() bool { return d.Family == UnaryFamily || d.Broadcasts() }

// Leading returns the operand whose element type selects the kernel: the first, or
// for Where the second, because the first is the condition. Creation ops have no
// operands; their result's type selects.
func (d *Def) Leading() int {
	if d.Family == TernaryFamily {
		return 1
	}
	return 0
}

// KernelType returns the element type that selects the kernel of a call.
func (d *Def) KernelType(in []Spec, out Spec) dtype.DType {
	if len(in) == 0 {
		return out.DType
	}
	return in[d.Leading()].DType
}

// KernelTypes returns the element types that KernelType can be.
func (d *Def) KernelTypes() dtype.Set { return d.Accepts(d.Leading()) }

// Accepts returns the element types that operand i may have.
func (d *Def) Accepts(i int) dtype.Set {
	if len(d.DTypes) == 0 {
		return dtype.Any
	}
	return d.DTypes[min(i, len(d.DTypes)-1)]
}

// String returns the op's name.
func (id ID) String() string {
	if name := passNames[id]; name != "" {
		return name
	}
	if int(id) < len(table) && table[id].Name != "" {
		return table[id].Name
	}
	return fmt.Sprintf("op(%d)", uint8(id))
}

// Get returns the description of id.
func Get(id ID) *Def { return &table[id] }

// All lists the table in order.
func All() []*Def {
	var l []*Def
	for i := range table {
		if table[i].Name != "" {
			l = append(l, &table[i])
		}
	}
	return l
}

// ByName finds a primitive by its name.
func ByName(name string) (*Def, bool) {
	for i := range table {
		if table[i].Name == name {
			return &table[i], true
		}
	}
	return nil, false
}

var table [NumOps]Def

func define(d Def) {
	if table[d.ID].Name != "" {
		panic("op: " + d.Name + " defined twice")
	}
	if d.Batch.Kind == 0 {
		d.Batch = familyBatch[d.Family]
	}
	d.Half = halfRules[d.ID]
	table[d.ID] = d
}

// Check applies the parts of the table that every op shares (operand count,
// element types, and for families whose operands must agree, that they do) and
// then the op's own rule.
func Check(id ID, a Attrs, in []Spec) (Spec, error) {
	d := &table[id]
	if d.Arity >= 0 && len(in) != d.Arity || d.Arity < 0 && len(in) == 0 {
		return Spec{}, Problemf(ErrArgument, "takes %d operands, got %d", max(d.Arity, 1), len(in))
	}
	for i, s := range in {
		if set := d.Accepts(i); !set.Has(s.DType) {
			p := Problemf(ErrDType, "operand %d is %s; want %s", i, s.DType, set)
			switch {
			case set == dtype.Bools:
				p.Fix = "compare first, for example .Ne(0)"
			case set.Has(dtype.Float32):
				p.Fix = "convert it first: .Cast(locus.Float32)"
			case set.Has(dtype.Int64):
				p.Fix = "convert it first: .Cast(locus.Int64)"
			}
			return Spec{}, p
		}
	}
	return d.Infer(a, in)
}

// sameDType is the check of ops whose operands, from number `from` on, must
// agree in element type.
func sameDType(in []Spec, from int) error {
	for i := from + 1; i < len(in); i++ {
		if in[i].DType != in[from].DType {
			cast, to := i, in[from].DType
			if in[i].DType.IsFloat() && !to.IsFloat() { // indices and counts become numbers, not weights integers
				cast, to = from, in[i].DType
			}
			return &Problem{Kind: ErrDType,
				Msg: fmt.Sprintf("operand %d is %s, operand %d is %s; as in Go, numbers of two types do not mix without a conversion", from, in[from].DType, i, in[i].DType),
				Fix: fmt.Sprintf("convert one of them, for example operand %d with .Cast(locus.%s)", cast, elem.GoName(to))}
		}
	}
	return nil
}
