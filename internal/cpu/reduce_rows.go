package cpu

import (
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

// reduceRows reduces where elements of one result lie next to each other.
func reduceRows[S, T, A, R any](s *space, r *reducer[T, A, R], x source[S, T], dst []R) {
	if s.results >= fewResults || s.each < 2*part {
		pool.For(s.results, max(1, grainCheap/s.each), func(lo, hi int) {
			w := newRowWalk(s, &x)
			var index [op.MaxRank]int
			s.kept.at(lo, &index)
			for range hi - lo {
				acc := reduceRange(&w, s, r, x, s.first+dot(&index, &s.keptIn, s.kept.rank), 0, s.each)
				dst[dot(&index, &s.keptOut, s.kept.rank)] = r.finish(acc)
				s.kept.step(&index, 0)
			}
			w.free()
		})
		return
	}
	parts := (s.each-1)/part + 1
	partial := make([]A, s.results*parts)
	pool.For(len(partial), 1, func(lo, hi int) {
		w := newRowWalk(s, &x)
		var index [op.MaxRank]int
		for i := lo; i < hi; i++ {
			s.kept.at(i/parts, &index)
			p := i % parts * part
			partial[i] = reduceRange(&w, s, r, x, s.first+dot(&index, &s.keptIn, s.kept.rank), p, min(p+part, s.each))
		}
		w.free()
	})
	var index [op.MaxRank]int
	for k := range s.results {
		acc := partial[k*parts]
		for _, p := range partial[k*parts+1 : (k+1)*parts] {
			acc = r.merge(acc, p)
		}
		s.kept.at(k, &index)
		dst[dot(&index, &s.keptOut, s.kept.rank)] = r.finish(acc)
	}
}

// walk has the buffers of one thread, each nil where nothing needs it: for elements that
// do not lie side by side, and for those that are converted.
type walk[S, T any] struct {
	s1, s2 *scratch
	raw    []S
	buf    []T
}

// newWalk makes buffers of n elements.
func newWalk[S, T any](n int, scattered bool, x *source[S, T]) walk[S, T] {
	w := walk[S, T]{}
	if scattered {
		w.s1, w.raw = scratchOf[S](n)
	}
	if x.load != nil {
		w.s2, w.buf = scratchOf[T](n)
	}
	return w
}

func newRowWalk[S, T any](s *space, x *source[S, T]) walk[S, T] {
	return newWalk(segment, s.red[s.reduced.rank-1] != 1, x)
}

func (w *walk[S, T]) free() {
	release(w.s1)
	release(w.s2)
}

// reduceRange reduces elements lo to hi of the reduced space of the result whose first
// element is at `at`.
func reduceRange[S, T, A, R any](w *walk[S, T], s *space, r *reducer[T, A, R], x source[S, T], at, lo, hi int) A {
	last := s.reduced.rank - 1
	inner, stride := s.reduced.shape[last], s.red[last]
	var index [op.MaxRank]int
	if lo > 0 {
		s.reduced.at(lo, &index)
	}
	column := index[last]
	index[last] = 0
	piece := segment
	if w.raw == nil && w.buf == nil {
		piece = max(piece, r.piece)
	}
	acc, began := r.start, false
	for lo < hi {
		row := at + dot(&index, &s.red, s.reduced.rank)
		for column < inner && lo < hi {
			n := min(piece, inner-column, hi-lo)
			a := r.row(x.read(row+column*stride, stride, n, w.raw, w.buf), lo)
			if began {
				a = r.merge(acc, a)
			}
			acc, began = a, true
			column += n
			lo += n
		}
		column = 0
		s.reduced.step(&index, 1)
	}
	return acc
}
