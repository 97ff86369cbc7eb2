// Package sample holds sample inputs of every primitive, as data: attributes,
// operand shapes, how operands lie in memory, and from which range their values
// come. Three readers share them: the conformance suite that every backend must
// pass, the numerical checks of gradients, and the table of ops in the docs.
//
// Samples are made systematically, a file for each family of ops. Values come
// from package random, so every machine sees the same ones.
package sample

import (
	"fmt"
	"hash/fnv"
	"iter"
	"strings"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/random"
)

// Sample is one valid call of an op.
type Sample struct {
	Op    op.ID
	DType dtype.DType // of the values: what [DTypes] lists
	Index int         // among the samples of this op and dtype
	Attrs op.Attrs
	In    []Operand
	Out   op.Spec // what the op's rule must say

	// Smooth marks small float64 samples of differentiable ops whose values are
	// away from kinks and poles: fit for finite differences.
	Smooth bool
	// Big marks samples that are large enough to be split between threads.
	Big bool
}

// Operand describes one operand.
type Operand struct {
	Shape  []int // as the kernel sees it: broadcast operands are expanded already
	DType  dtype.DType
	Layout Layout
	Domain Domain
	Limit  int // Domain Index: the indices are below it
}

// String names the sample: "add/float32/3: (2, 3) transposed, (2, 3)".
func (s Sample) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s/%d:", s.Op, s.DType, s.Index)
	for i, o := range s.In {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, " %s", o)
	}
	fmt.Fprintf(&b, " -> %s", op.ShapeString(s.Out.Shape))
	return b.String()
}

// String describes the operand: "(2, 3) transposed special".
func (o Operand) String() string {
	s := op.ShapeString(o.Shape)
	if o.Layout != Contiguous {
		s += " " + o.Layout.String()
	}
	if o.Domain != Ordinary {
		s += " " + o.Domain.String()
	}
	return s
}

// Specs returns what the op's rule sees.
func (s Sample) Specs() []op.Spec {
	specs := make([]op.Spec, len(s.In))
	for i, o := range s.In {
		specs[i] = op.Spec{DType: o.DType, Shape: o.Shape}
	}
	return specs
}

// Tensors makes the operands. The same sample always has the same values.
func (s Sample) Tensors() []Tensor {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%s/%d", s.Op, s.DType, s.Index)
	ts := make([]Tensor, len(s.In))
	for i, o := range s.In {
		ts[i] = o.Tensor(random.Split(h.Sum64(), uint64(i)))
	}
	return ts
}

// DTypes lists the element types of the op's values: those of its leading
// operand, and for creation ops those that it makes.
func DTypes(id op.ID) []dtype.DType { return op.Get(id).KernelTypes().List() }

// Of returns the samples of an op whose values have type d.
func Of(id op.ID, d dtype.DType) []Sample {
	b := &builder{def: op.Get(id), d: d}
	switch b.def.Family {
	case op.ViewFamily:
		b.views()
	case op.CreateFamily:
		b.creations()
	case op.UnaryFamily, op.BinaryFamily, op.CompareFamily, op.TernaryFamily:
		b.elementwise()
	case op.ReduceFamily:
		b.reductions()
	case op.IndexFamily:
		b.indexing()
	case op.MatMulFamily:
		b.matmul()
	case op.ConvFamily:
		b.convolutions()
	case op.PoolFamily:
		b.pooling()
	case op.LinalgFamily:
		b.linalg()
	case op.FourierFamily:
		b.fourier()
	case op.FusedFamily:
		if id == op.MaxPool || id == op.MaxPoolGrad {
			b.pooling()
		} else {
			b.fused()
		}
	}
	return b.samples
}

// All returns every sample of every op and dtype.
func All() iter.Seq[Sample] {
	return func(yield func(Sample) bool) {
		for _, d := range op.All() {
			for _, t := range DTypes(d.ID) {
				for _, s := range Of(d.ID, t) {
					if !yield(s) {
						return
					}
				}
			}
		}
	}
}

// Smooth returns the samples of an op that suit finite differences, all of them
// float64; none if the op is not differentiable.
func Smooth(id op.ID) []Sample {
	var l []Sample
	for _, s := range Of(id, dtype.Float64) {
		if s.Smooth {
			l = append(l, s)
		}
	}
	return l
}

// Differentiable reports whether gradients pass through the op. The gradients of
// floor and the like are zero.
func Differentiable(id op.ID) bool {
	switch id {
	case op.IsNaN, op.IsInf, op.IsFinite, op.Not, op.And, op.Or, op.Xor, op.ArgMax, op.ArgMin, op.ArgSort, op.CumMax, op.CumMin, op.MaxPoolIndices:
		return false
	case op.UpdateAll, op.ScaleAll, op.CastAll: // no gradient is asked of the first; the others' results have the history of single ops
		return false
	}
	f := op.Get(id).Family
	return f != op.CreateFamily && f != op.CompareFamily
}

// builder collects the samples of one op and dtype.
type builder struct {
	def     *op.Def
	d       dtype.DType
	samples []Sample
}

// in describes an operand of the builder's dtype.
func (b *builder) in(shape []int, l Layout, v Domain) Operand {
	return Operand{Shape: shape, DType: b.d, Layout: l, Domain: v}
}

// index describes an operand of indices below limit; its type changes from
// sample to sample.
func (b *builder) index(shape []int, l Layout, limit int) Operand {
	d := dtype.Int64
	if len(b.samples)%2 == 1 {
		d = dtype.Int32
	}
	return Operand{Shape: shape, DType: d, Layout: l, Domain: Index, Limit: limit}
}

// bigFrom is the number of elements from which a sample counts as big, and
// smoothMax the number up to which finite differences are quick.
const bigFrom, smoothMax = 1 << 15, 200

// add appends a sample whose result has the builder's dtype.
func (b *builder) add(a op.Attrs, out []int, in ...Operand) { b.addTyped(a, b.d, out, in...) }

func (b *builder) addTyped(a op.Attrs, outType dtype.DType, out []int, in ...Operand) {
	if out == nil {
		out = []int{}
	}
	s := Sample{Op: b.def.ID, DType: b.d, Index: len(b.samples), Attrs: a, In: in, Out: op.Spec{DType: outType, Shape: out}}
	most := op.Elements(out)
	smooth := most > 0
	for _, o := range in {
		n := op.Elements(o.Shape)
		most = max(most, n)
		smooth = smooth && n > 0 && o.Domain.smooth()
	}
	s.Big = most >= bigFrom
	s.Smooth = smooth && most <= smoothMax && b.d == dtype.Float64 && outType == dtype.Float64 && Differentiable(b.def.ID)
	b.samples = append(b.samples, s)
}
