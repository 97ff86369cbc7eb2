package op

import (
	"strings"
	"sync"

	"github.com/locusml/locus/dtype"
)

// The most operands, results and ops of an expression.
const (
	FusedInputs  = 16
	FusedResults = 8
	FusedNodes   = 32
)

func init() {
	for _, id := range []ID{FusedOps, Begin, Await} {
		table[id].ID = id
	}
}

// Expression is the attribute of FusedOps: elementwise ops that are computed in one
// pass. Each of them rounds to its own element type, so that the results are those of
// the ops one after the other, to the bit.
//
// The operands of the call are views, or constants, broadcast to the shape of its
// result; further results have the same number of elements in the same order. An
// expression is made once and never changed.
type Expression struct {
	Inputs  []dtype.DType
	Nodes   []Node // operands come before their users
	Results []int  // the nodes that are the call's results

	// Prepared is for backends: what each has made of the expression, by a key of its own.
	Prepared sync.Map
}

// Node is an op of an expression: of the unary, binary, compare or ternary family.
type Node struct {
	Op    ID
	Attrs Attrs
	In    []Operand
	DType dtype.DType // of its result
}

// Operand is what a node reads: input number Index of the call, or the result of node
// number Index.
type Operand struct {
	Node  bool
	Index int
}

// Type returns the element type of an operand.
func (e *Expression) Type(o Operand) dtype.DType {
	if o.Node {
		return e.Nodes[o.Index].DType
	}
	return e.Inputs[o.Index]
}

// KernelType returns the element type that selects the kernel of node i, as
// KernelType of Def does.
func (e *Expression) KernelType(i int) dtype.DType {
	n := &e.Nodes[i]
	return e.Type(n.In[Get(n.Op).Leading()])
}

// over reports whether result r may be written where input i lies: nodes are computed
// in their order, for a block of elements or for one, and none behind the one whose
// result it is reads the input.
func (e *Expression) over(r, i int) bool {
	made := e.Results[r]
	for k := range e.Nodes {
		for at, o := range e.Nodes[k].In {
			if o != (Operand{Index: i}) {
				continue
			}
			if k > made || k == made && !Get(e.Nodes[k].Op).Over(e.Nodes[k].Attrs, 0, at) {
				return false
			}
		}
	}
	return true
}

// String lists the ops in their order.
func (e *Expression) String() string {
	names := make([]string, len(e.Nodes))
	for i := range e.Nodes {
		names[i] = e.Nodes[i].Op.String()
	}
	return strings.Join(names, "+")
}
