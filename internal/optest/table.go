// Package optest describes the public ops as data, and checks them: what each
// computes against records of PyTorch, its gradients against those records and
// by finite differences, on every device, in every layout, and what it does with
// inputs that it cannot take. The page docs/ops.md is made from the same table.
//
// The records are made by testdata/record.py; the tests here need no Python.
package optest

import (
	"fmt"
	"math"
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/dtype"
)

// Op is a public op.
type Op struct {
	Name   string    // the exported name: "Tensor.Add", "Concat", "Maker.Arange"
	Group  string    // of the page in the docs
	DTypes dtype.Set // accepted for the operands of the records that have the case's type
	Run    func(c *Call) []*locus.Tensor

	// NoGrad says why no gradient passes, "" if one does.
	NoGrad string
	// Detached lists results that carry no history.
	Detached []int
	// Optional is the first operand that may be nil; 0 if none may.
	Optional int
	// NilOperands says that every operand may be nil but one.
	NilOperands bool
	// Tolerance multiplies the allowed errors; 0 means 1.
	Tolerance float64
	// HalfTolerance does for float16 and bfloat16, whose compositions round at each step.
	HalfTolerance float64
	// Waits says that the result's shape depends on elements, for this call: it waits
	// for them, and a compiled function refuses it. Nil means never.
	Waits func(c *Call) bool
	// Matrices says that the last two axes of operands are matrices that must stay what
	// they are, such as invertible: tests may scale them, but not mix or repeat rows.
	Matrices bool
	// Bad are calls that must fail.
	Bad []Bad
}

// Bad is a call that fails with an error of a kind.
type Bad struct {
	Kind error
	What string
	Call func(d locus.Device)
}

// Differentiable reports whether a gradient passes through the op.
func (o *Op) Differentiable() bool { return o.NoGrad == "" }

// Call is one call of an op.
type Call struct {
	Device locus.Device
	DType  locus.DType
	In     []*locus.Tensor
	attrs  map[string]any
}

// Has reports whether the call has the attribute.
func (c *Call) Has(name string) bool {
	_, ok := c.attrs[name]
	return ok
}

func (c *Call) attr(name string) any {
	v, ok := c.attrs[name]
	if !ok {
		panic(fmt.Sprintf("the record has no attribute %q", name))
	}
	return v
}

// number returns a Go number: an int if it is whole.
func (c *Call) number(name string) any {
	f := c.Float(name)
	if f == math.Trunc(f) && !math.IsInf(f, 0) {
		return int(f)
	}
	return f
}

// Float returns a number.
func (c *Call) Float(name string) float64 { return toFloat(c.attr(name)) }

// FloatOr returns a number, or def where the record has none.
func (c *Call) FloatOr(name string, def float64) float64 {
	if !c.Has(name) {
		return def
	}
	return c.Float(name)
}

// Int returns an integer.
func (c *Call) Int(name string) int { return int(c.Float(name)) }

// IntOr returns an integer, or def where the record has none.
func (c *Call) IntOr(name string, def int) int {
	if !c.Has(name) {
		return def
	}
	return c.Int(name)
}

// Bool returns a bool; false where the record has none.
func (c *Call) Bool(name string) bool { return c.Has(name) && c.attr(name).(bool) }

// String returns a string.
func (c *Call) String(name string) string { return c.attr(name).(string) }

// Floats returns a list of numbers.
func (c *Call) Floats(name string) []float64 {
	if !c.Has(name) {
		return nil
	}
	list := c.attr(name).([]any)
	f := make([]float64, len(list))
	for i, v := range list {
		f[i] = toFloat(v)
	}
	return f
}

// Ints returns a list of integers; nil where the record has none.
func (c *Call) Ints(name string) []int {
	if !c.Has(name) {
		return nil
	}
	l := make([]int, 0, 4)
	for _, f := range c.Floats(name) {
		l = append(l, int(f))
	}
	return l
}

func toFloat(v any) float64 {
	switch v := v.(type) {
	case float64:
		return v
	case string: // JSON has no infinities
		switch v {
		case "inf":
			return math.Inf(1)
		case "-inf":
			return math.Inf(-1)
		case "nan":
			return math.NaN()
		}
	}
	panic(fmt.Sprintf("%v is not a number", v))
}

// Table lists every public op.
func Table() []*Op {
	var l []*Op
	known := map[string]bool{}
	for _, group := range []func() []*Op{binaryOps, reduceOps, viewOps, indexOps, activationOps, convOps, volumeOps, samplingOps, alignmentOps, arrangeOps, sequenceOps, normOps, lossOps, optimizeOps, linalgOps, createOps} {
		for _, o := range group() {
			known[o.Name] = true
			l = append(l, o)
		}
	}
	// The descriptions of primitives add those that no group has.
	return append(slices.DeleteFunc(unaryOps(), func(o *Op) bool { return known[o.Name] }), l...)
}

func one(t *locus.Tensor) []*locus.Tensor { return []*locus.Tensor{t} }

// group puts ops under a heading of the page.
func group(name string, ops ...*Op) []*Op {
	for _, o := range ops {
		o.Group = name
	}
	return ops
}

// with changes an op that a helper has made.
func (o *Op) with(change func(*Op)) *Op {
	change(o)
	return o
}

// waits marks an op whose results' shapes always depend on elements.
func (o *Op) waits() *Op {
	o.Waits = func(*Call) bool { return true }
	return o
}

func (o *Op) bad(kind error, what string, call func(d locus.Device)) *Op {
	o.Bad = append(o.Bad, Bad{kind, what, call})
	return o
}

// Reasons why no gradient passes.
const (
	discrete = "the result is bool or integers"
	noInput  = "the result does not depend on an input's elements"
)
