package locus_test

import (
	"slices"
	"testing"

	"github.com/locusml/locus"
)

// array is the naive reference of a tensor: a shape and a function of positions.
type array struct {
	shape []int
	at    func(pos []int) float64
}

func iota(shape []int) array {
	return array{shape, func(pos []int) float64 {
		n := 0
		for i, p := range pos {
			n = n*shape[i] + p
		}
		return float64(n)
	}}
}

// flat lists the elements in order.
func (a array) flat() []float64 {
	out := []float64{}
	pos := make([]int, len(a.shape))
	var walk func(axis int)
	walk = func(axis int) {
		if axis == len(a.shape) {
			out = append(out, a.at(pos))
			return
		}
		for i := range a.shape[axis] {
			pos[axis] = i
			walk(axis + 1)
		}
	}
	walk(0)
	return out
}

func fromFlat(shape []int, v []float64) array {
	index := iota(shape)
	return array{shape, func(pos []int) float64 { return v[int(index.at(pos))] }}
}

// FuzzViews applies a random sequence of views to a tensor and to the reference.
func FuzzViews(f *testing.F) {
	f.Add([]byte{2, 3, 4, 0, 1, 1, 2, 2, 0, 3, 9, 4, 1})
	f.Add([]byte{5, 1, 2, 4, 0, 0, 2, 1, 3, 3, 1, 1, 2, 5, 6, 7})
	f.Add([]byte{3, 3, 3, 2, 0, 5, 1, 4, 4, 4, 2, 250, 3, 1, 0, 0, 2, 2})
	f.Fuzz(func(t *testing.T, program []byte) {
		next := func() int {
			if len(program) == 0 {
				return 0
			}
			b := program[0]
			program = program[1:]
			return int(b)
		}
		shape := []int{next() % 4, 1 + next()%4, 1 + next()%4}
		x := locus.Arange(float64(shape[0] * shape[1] * shape[2])).Reshape(shape...)
		a := iota(shape)
		for step := 0; len(program) > 0 && step < 12; step++ {
			rank := len(a.shape)
			old := a
			switch next() % 6 {
			case 0: // permute
				if rank < 2 {
					continue
				}
				i, j := next()%rank, next()%rank
				x = x.Transpose(i, j)
				s := slices.Clone(old.shape)
				s[i], s[j] = s[j], s[i]
				a = array{s, func(pos []int) float64 {
					p := slices.Clone(pos)
					p[i], p[j] = p[j], p[i]
					return old.at(p)
				}}
			case 1: // slice with a step, either direction
				if rank == 0 {
					continue
				}
				axis := next() % rank
				n := old.shape[axis]
				start, stop, step := next()%(2*n+3)-n-1, next()%(2*n+3)-n-1, next()%5-2
				if step == 0 {
					step = 1
				}
				ranges := make([]locus.Range, axis+1)
				for i := range ranges {
					ranges[i] = locus.All()
				}
				ranges[axis] = locus.R(start, stop, step)
				x = x.Slice(ranges...)
				picked := pythonRange(n, start, stop, step)
				s := slices.Clone(old.shape)
				s[axis] = len(picked)
				a = array{s, func(pos []int) float64 {
					p := slices.Clone(pos)
					p[axis] = picked[p[axis]]
					return old.at(p)
				}}
			case 2: // reshape: merge two axes, or split one
				v := old.flat()
				var s []int
				if axis := next() % max(rank, 1); rank >= 2 && axis+1 < rank && next()%2 == 0 {
					s = append(append(slices.Clone(old.shape[:axis]), old.shape[axis]*old.shape[axis+1]), old.shape[axis+2:]...)
				} else if rank >= 1 && rank < 6 && old.shape[axis]%2 == 0 {
					s = append(append(slices.Clone(old.shape[:axis]), 2, old.shape[axis]/2), old.shape[axis+1:]...)
				} else {
					s = []int{len(v)}
				}
				x = x.Reshape(s...)
				a = fromFlat(s, v)
			case 3: // a new axis, expanded
				if rank > 5 || len(old.flat()) > 500 {
					continue
				}
				axis, n := next()%(rank+1), next()%4
				x = x.Unsqueeze(axis)
				to := slices.Insert(slices.Clone(old.shape), axis, n)
				x = x.Expand(to...)
				a = array{to, func(pos []int) float64 { return old.at(slices.Delete(slices.Clone(pos), axis, axis+1)) }}
			case 4: // index
				if rank == 0 || old.shape[0] == 0 {
					continue
				}
				i := next() % old.shape[0]
				x = x.Index(i)
				a = array{old.shape[1:], func(pos []int) float64 { return old.at(append([]int{i}, pos...)) }}
			case 5: // diagonal
				if rank < 2 {
					continue
				}
				k := next()%5 - 2
				x = x.Diagonal(k, 0, 1)
				n, m := old.shape[0], old.shape[1]
				if k >= 0 {
					m -= k
				} else {
					n += k
				}
				s := append(slices.Clone(old.shape[2:]), max(0, min(n, m)))
				a = array{s, func(pos []int) float64 {
					d := pos[len(pos)-1]
					return old.at(append([]int{d + max(-k, 0), d + max(k, 0)}, pos[:len(pos)-1]...))
				}}
			}
		}
		if !slices.Equal(x.Shape(), a.shape) || !slices.Equal(values(x), a.flat()) {
			t.Fatalf("got %v\nwant %v of shape %v", x, a.flat(), a.shape)
		}
		if moved := x.To(virtualGPUs[0]); !slices.Equal(values(moved), a.flat()) {
			t.Fatalf("moved: %v", moved)
		}
	})
}

// pythonRange lists what start:stop:step picks from n elements.
func pythonRange(n, start, stop, step int) []int {
	if start < 0 {
		start += n
	}
	if stop < 0 {
		stop += n
	}
	var l []int
	if step > 0 {
		for i := max(start, 0); i < min(stop, n); i += step {
			l = append(l, i)
		}
	} else {
		for i := min(start, n-1); i > max(stop, -1); i += step {
			if i >= 0 {
				l = append(l, i)
			}
		}
	}
	return l
}

// FuzzBroadcast compares broadcasting with its definition.
func FuzzBroadcast(f *testing.F) {
	f.Add([]byte{2, 3}, []byte{3})
	f.Add([]byte{2, 1, 4}, []byte{3, 1})
	f.Add([]byte{0, 2}, []byte{1})
	f.Fuzz(func(t *testing.T, p, q []byte) {
		shapeOf := func(b []byte) []int {
			s := []int{}
			for _, v := range b[:min(len(b), 5)] {
				s = append(s, int(v)%4)
			}
			return s
		}
		sa, sb := shapeOf(p), shapeOf(q)
		a, b := iota(sa), iota(sb)
		x := locus.Arange(float64(len(a.flat()))).Reshape(sa...)
		y := locus.Arange(float64(len(b.flat()))).Reshape(sb...)
		rank := max(len(sa), len(sb))
		want := array{make([]int, rank), nil}
		fits := true
		size := func(s []int, i int) int {
			if j := i - (rank - len(s)); j >= 0 {
				return s[j]
			}
			return 1
		}
		for i := range rank {
			m, n := size(sa, i), size(sb, i)
			switch {
			case m == n, n == 1:
				want.shape[i] = m
			case m == 1:
				want.shape[i] = n
			default:
				fits = false
			}
		}
		var got *locus.Tensor
		err := locus.Try(func() { got = x.Mul(100).Add(y) })
		if (err == nil) != fits {
			t.Fatalf("%v with %v: %v", sa, sb, err)
		}
		if !fits {
			return
		}
		pick := func(v array, pos []int) float64 {
			p := slices.Clone(pos[rank-len(v.shape):])
			for i := range p {
				if v.shape[i] == 1 {
					p[i] = 0
				}
			}
			return v.at(p)
		}
		want.at = func(pos []int) float64 { return 100*pick(a, pos) + pick(b, pos) }
		if !slices.Equal(got.Shape(), want.shape) || !slices.Equal(values(got), want.flat()) {
			t.Fatalf("%v with %v: %v, want %v", sa, sb, got, want.flat())
		}
	})
}
