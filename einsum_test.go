package locus

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
)

// naiveEinsum sums over every value of every letter. It knows neither dots nor
// broadcasting.
func naiveEinsum(formula string, operands []*Tensor) []float64 {
	left, right, _ := strings.Cut(formula, "->")
	size := map[byte]int{}
	var letters []byte
	parts := strings.Split(left, ",")
	for i, p := range parts {
		for axis := range len(p) {
			if _, ok := size[p[axis]]; !ok {
				letters = append(letters, p[axis])
			}
			size[p[axis]] = operands[i].Dim(axis)
		}
	}
	at := map[byte]int{}
	place := func(word string) int {
		p := 0
		for i := range len(word) {
			p = p*size[word[i]] + at[word[i]]
		}
		return p
	}
	n := 1
	for i := range len(right) {
		n *= size[right[i]]
	}
	out := make([]float64, n)
	var walk func(i int)
	walk = func(i int) {
		if i < len(letters) {
			for v := range size[letters[i]] {
				at[letters[i]] = v
				walk(i + 1)
			}
			return
		}
		product := 1.0
		for k, p := range parts {
			product *= ToSlice[float64](operands[k])[place(p)]
		}
		out[place(right)] += product
	}
	walk(0)
	return out
}

func TestEinsum(t *testing.T) {
	for _, formula := range []string{
		"ij,jk->ik", "ij,jk->ki", "ij,kj->ik", "bij,bjk->bik", "i,j->ij", "i,i->", "ij->ji", "ij->", "ij->i", "ii->i", "ii->",
		"iji->j", "iij,j->i", "ij,ij->ij", "bn,anm,bm->ba", "ab,bc,cd,de->ae", "bi,ij,bj->b", "ij,kl->", "i,i,i->i", "abc,cb,a->c", "aBc,cB->a",
	} {
		var shapes [][]int
		left, _, _ := strings.Cut(formula, "->")
		for _, p := range strings.Split(left, ",") {
			var s []int
			for _, c := range p {
				s = append(s, 2+int(c)%3)
			}
			shapes = append(shapes, s)
		}
		in := randomly(shapes...)
		t.Run(formula, func(t *testing.T) {
			near(t, Einsum(formula, in...), naiveEinsum(formula, in), 1e-13)
			gradGradCheck(t, func(in ...*Tensor) *Tensor { return Einsum(formula, in...) }, in...)
		})
	}
	in := randomly([]int{2, 1, 3, 4}, []int{5, 4, 2}, []int{3, 3})
	a, b, c := in[0], in[1], in[2]
	for formula, want := range map[string]*Tensor{
		"...ij,...jk->...ik": a.MatMul(b),
		"...ij,...jk":        a.MatMul(b), // the letters that occur once, behind the dots
		" ... i j , j -> i ": nil,         // dots that are summed over
	} {
		operands := []*Tensor{a, b}
		if want == nil {
			operands = []*Tensor{a, b.Index(0, 0).Repeat(2)}
			want = a.Sum(0, 1).MatMul(b.Index(0, 0).Repeat(2))
		}
		got := Einsum(formula, operands...)
		hasShape(t, got, want.Shape()...)
		near(t, got, ToSlice[float64](want), 1e-13)
	}
	near(t, Einsum("ii", c), []float64{c.Trace().Item()}, 1e-14)
	near(t, Einsum("ba", a.Index(0, 0)), ToSlice[float64](a.Index(0, 0).T()), 0) // alphabetical order
	near(t, Einsum("ij,kj->ik", c.Narrow(1, 0, 1), c), ToSlice[float64](c.Narrow(1, 0, 1).MatMul(c.Sum(1).Unsqueeze(0))), 1e-14)
	near(t, Einsum(",ij->ij", From(2.0), c), ToSlice[float64](c.Mul(2)), 0)
	near(t, Einsum("ij,jk->ik", As(Float64).Zeros(2, 0), As(Float64).Zeros(0, 3)), make([]float64, 6), 0)
	hasShape(t, Einsum("ij,jk->ik", Zeros(0, 2), Zeros(2, 3)), 0, 3)
	near(t, Einsum("i,i->", Arange(4), Arange(4)), []float64{14}, 0) // integers too
	if got := Einsum("abcdefgh->hgfedcba", Zeros(1, 2, 1, 2, 1, 2, 1, 2)); !slices.Equal(got.Shape(), []int{2, 1, 2, 1, 2, 1, 2, 1}) {
		t.Error(got.Shape())
	}
	if v := Einsum("i,j->ij", From([]float64{math.Inf(1)}), From([]float64{2, 0})).Index(0, 0).Item(); !math.IsInf(v, 1) {
		t.Errorf("∞·2 is %v", v)
	}
}

func TestEinsumErrors(t *testing.T) {
	m := Zeros(2, 3)
	for formula, c := range map[string]struct {
		kind     error
		operands []*Tensor
	}{
		"ij,jk->ik":  {ErrArgument, []*Tensor{m}},
		"ij->ij ":    {ErrArgument, nil},
		"ijk->i":     {ErrShape, []*Tensor{m}},
		"i->i":       {ErrShape, []*Tensor{m}},
		"ij->k":      {ErrArgument, []*Tensor{m}},
		"ij->ii":     {ErrArgument, []*Tensor{m}},
		"i1->i":      {ErrArgument, []*Tensor{m}},
		"i.->i":      {ErrArgument, []*Tensor{m}},
		"...ij...->": {ErrArgument, []*Tensor{m}},
		"ij,ij":      {ErrShape, []*Tensor{m, Zeros(3, 2)}},
		"ii->i":      {ErrShape, []*Tensor{m}},
		"abc...->":   {ErrShape, []*Tensor{m}},
		"i,ij->j":    {ErrDType, []*Tensor{As(Float64).Zeros(2), m}},
	} {
		if err := Try(func() { Einsum(formula, c.operands...) }); !errors.Is(err, c.kind) {
			t.Errorf("%q: %v; want %v", formula, err, c.kind)
		}
	}
}
