package locus

import (
	"slices"
	"strings"

	"github.com/locusml/locus/internal/op"
)

// Einsum multiplies tensors and sums over axes as a formula says. Each operand's
// axes get letters; axes with the same letter are the same index, and letters
// that are not in the result are summed over:
//
//	locus.Einsum("ij,jk->ik", a, b)        // a matrix product
//	locus.Einsum("bhld,bhsd->bhls", q, k)  // a batch of them
//	locus.Einsum("ii->i", a)               // a diagonal
//	locus.Einsum("...i,...i->...", x, y)   // inner products along the last axis
//
// Without an arrow, the result has the letters that occur once, in alphabetical
// order, behind the axes of the dots. Axes of size 1 broadcast.
func Einsum(formula string, operands ...*Tensor) *Tensor {
	checkOperands("Einsum", operands)
	e := parseEinsum(formula, operands)
	terms := make([]einsumTerm, len(operands))
	for i, t := range operands {
		terms[i] = e.prepare(t, e.inputs[i])
	}
	for len(terms) > 1 {
		i, j := e.cheapest(terms)
		next := e.contract(terms[i], terms[j], append(slices.Clone(terms[:i]), append(slices.Clone(terms[i+1:j]), terms[j+1:]...)...))
		terms = append(slices.Delete(slices.Delete(terms, j, j+1), i, i+1), next)
	}
	last := e.sumOut(terms[0], nil)
	// Put the axes in the order of the result.
	perm := make([]int, len(e.output))
	for i, l := range e.output {
		perm[i] = slices.Index(last.labels, l)
	}
	return last.t.Permute(perm...).fresh(operands...)
}

// A label is a letter of the formula, or a negative number for an axis of the
// dots, which counts from the last of them: -1, -2, …
type label = int

// einsumTerm is a tensor whose axes have labels, each at most once.
type einsumTerm struct {
	t      *Tensor
	labels []label
}

// einsum is a parsed formula.
type einsum struct {
	inputs [][]label
	output []label
	size   map[label]int
}

func parseEinsum(formula string, operands []*Tensor) *einsum {
	bad := func(kind error, format string, args ...any) {
		failf("Einsum", kind, operands, "%q: "+format, append([]any{formula}, args...)...)
	}
	if len(operands) == 0 {
		bad(ErrArgument, "needs at least one operand")
	}
	left, right, explicit := strings.Cut(strings.ReplaceAll(formula, " ", ""), "->")
	parts := strings.Split(left, ",")
	if len(parts) != len(operands) {
		bad(ErrArgument, "names %d operands, got %d", len(parts), len(operands))
	}
	// letters returns the labels of one operand of the given rank; rank < 0 is the
	// result, whose dots stand for as many axes as the longest of the operands'.
	dots := 0
	letters := func(part string, rank int) []label {
		before, after, has := strings.Cut(part, "...")
		for _, c := range before + after {
			if c < 'A' || c > 'z' || c > 'Z' && c < 'a' {
				bad(ErrArgument, "%q is not a letter; an ellipsis is three dots, once per operand", c)
			}
		}
		n := 0
		if has {
			if n = rank - len(before) - len(after); rank < 0 {
				n = dots
			}
		}
		if rank >= 0 && (n < 0 || !has && len(part) != rank) {
			bad(ErrShape, "%q does not fit an operand with %d axes", part, rank)
		}
		var l []label
		word := func(s string) {
			for _, c := range s {
				l = append(l, label(c))
			}
		}
		word(before)
		for i := n; i > 0; i-- {
			l = append(l, -i)
		}
		word(after)
		return l
	}
	e := &einsum{size: map[label]int{}}
	count := map[label]int{}
	for i, part := range parts {
		l := letters(part, len(operands[i].shape))
		for axis, name := range l {
			n := operands[i].shape[axis]
			if old, ok := e.size[name]; !ok || old == 1 {
				e.size[name] = n
			} else if n != 1 && n != old {
				bad(ErrShape, "%s has sizes %d and %d", labelName(name), old, n)
			}
			count[name]++
			dots = max(dots, -name)
		}
		e.inputs = append(e.inputs, l)
	}
	if explicit {
		e.output = letters(right, -1)
		for i, l := range e.output {
			if _, ok := e.size[l]; !ok {
				bad(ErrArgument, "the result's %s is in no operand", labelName(l))
			}
			if slices.Contains(e.output[:i], l) {
				bad(ErrArgument, "the result has %s twice", labelName(l))
			}
		}
	} else {
		for l, n := range count {
			if n == 1 || l < 0 {
				e.output = append(e.output, l)
			}
		}
		slices.Sort(e.output) // dots are negative, so in front; capitals before small letters
	}
	if err := op.CheckShape(make([]int, len(e.output))); err != nil {
		fail("Einsum", err, operands...)
	}
	return e
}

func labelName(l label) string {
	if l < 0 {
		return "axis " + itoa(l) + " of the dots"
	}
	return "\"" + string(rune(l)) + "\""
}

// prepare makes one axis of each label of an operand: repeated letters choose the
// diagonal. An axis of size 1 of a larger index is taken out: it is the same for
// every value of the index.
func (e *einsum) prepare(t *Tensor, labels []label) einsumTerm {
	labels = slices.Clone(labels)
	for i := len(labels) - 1; i >= 0; i-- {
		if t.shape[i] == 1 && e.size[labels[i]] != 1 {
			t = t.Squeeze(i)
			labels = slices.Delete(labels, i, i+1)
		}
	}
	for i := 0; i < len(labels); i++ {
		j := slices.Index(labels[i+1:], labels[i])
		if j < 0 {
			continue
		}
		j += i + 1
		l := labels[i]
		t = t.Diagonal(0, i, j)
		labels = append(slices.Delete(slices.Delete(labels, j, j+1), i, i+1), l)
		i--
	}
	return einsumTerm{t, labels}
}

// sumOut sums over the labels that neither the result nor the others have.
func (e *einsum) sumOut(x einsumTerm, others []einsumTerm) einsumTerm {
	var axes []int
	var kept []label
	for i, l := range x.labels {
		if e.needed(l, others) {
			kept = append(kept, l)
		} else {
			axes = append(axes, i)
		}
	}
	if len(axes) > 0 {
		x = einsumTerm{x.t.Sum(axes...), kept}
	}
	return x
}

// needed reports whether the result or one of the terms has a label.
func (e *einsum) needed(l label, terms []einsumTerm) bool {
	return slices.Contains(e.output, l) || slices.ContainsFunc(terms, func(x einsumTerm) bool { return slices.Contains(x.labels, l) })
}

// cheapest finds the pair of terms whose product is smallest.
func (e *einsum) cheapest(terms []einsumTerm) (i, j int) {
	best := -1
	for a := range terms {
		for b := a + 1; b < len(terms); b++ {
			rest := append(slices.Clone(terms[:a]), append(slices.Clone(terms[a+1:b]), terms[b+1:]...)...)
			n := 1
			for _, l := range terms[a].labels {
				if e.needed(l, rest) {
					n *= e.size[l]
				}
			}
			for _, l := range terms[b].labels {
				if e.needed(l, rest) && !slices.Contains(terms[a].labels, l) {
					n *= e.size[l]
				}
			}
			if best < 0 || n < best {
				best, i, j = n, a, b
			}
		}
	}
	return i, j
}

// contract multiplies two terms and sums over the labels that nothing else needs,
// as one product of batches of matrices.
func (e *einsum) contract(a, b einsumTerm, others []einsumTerm) einsumTerm {
	// Labels that only one of them has and nothing else needs are summed before.
	a, b = e.sumOut(a, append(others, b)), e.sumOut(b, append(others, a))
	var batch, left, inner, right []label
	for _, l := range a.labels {
		switch {
		case !slices.Contains(b.labels, l):
			left = append(left, l)
		case e.needed(l, others):
			batch = append(batch, l)
		default:
			inner = append(inner, l)
		}
	}
	for _, l := range b.labels {
		if !slices.Contains(a.labels, l) {
			right = append(right, l)
		}
	}
	n, m, k, w := e.elements(batch), e.elements(left), e.elements(inner), e.elements(right)
	labels := slices.Concat(batch, left, right)
	var product *Tensor
	if len(inner) == 0 { // nothing to sum: multiply element by element
		product = a.arrange(n, m, 1, batch, left).Mul(b.arrange(n, 1, w, batch, right))
	} else {
		product = a.arrange(n, m, k, batch, left, inner).MatMul(b.arrange(n, k, w, batch, inner, right))
	}
	shape := make([]int, len(labels))
	for i, l := range labels {
		shape[i] = e.size[l]
	}
	if err := op.CheckShape(shape); err != nil {
		fail("Einsum", err, a.t, b.t)
	}
	return einsumTerm{product.reshape(shape), labels}
}

func (e *einsum) elements(labels []label) int {
	n := 1
	for _, l := range labels {
		n *= e.size[l]
	}
	return n
}

// arrange returns a term as n matrices, its axes in the order of the groups.
func (x einsumTerm) arrange(n, rows, columns int, groups ...[]label) *Tensor {
	var perm []int
	for _, g := range groups {
		for _, l := range g {
			perm = append(perm, slices.Index(x.labels, l))
		}
	}
	return x.t.Permute(perm...).reshape([]int{n, rows, columns})
}
