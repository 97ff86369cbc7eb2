package cpu

import (
	"unsafe"

	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

// reduceColumns reduces where neighbors in memory belong to different results: a block
// of accumulators takes in one piece after the other.
func reduceColumns[S, T, A, R any](s *space, r *reducer[T, A, R], x source[S, T], dst []R) {
	if k := s.fold(); r.rows != nil && k > 1 {
		reduceNarrow(s, r, x, dst, k)
		return
	}
	last := s.kept.rank - 1
	inner := s.kept.shape[last]
	blocks := (inner-1)/columns + 1
	width := min(inner, columns)
	tasks := s.results / inner * blocks
	if tasks >= fewResults || s.each*width < 16*part {
		pool.For(tasks, max(1, grainCheap/(s.each*width)), func(lo, hi int) {
			w := newColumnWalk(s, r, &x)
			room, acc := scratchOf[A](width)
			for t := lo; t < hi; t++ {
				at, to, n := s.block(t, blocks)
				reduceBlock(&w, s, r, x, at, 0, s.each, acc[:n])
				finishBlock(&w, s, r, x, dst, at, to, acc[:n])
			}
			room.free()
			w.free()
		})
		return
	}
	step := max(1, 8*part/width) // a part costs a row of accumulators, too
	parts := (s.each-1)/step + 1
	room, partial := scratchOf[A](tasks * parts * width)
	pool.For(tasks*parts, 1, func(lo, hi int) {
		w := newColumnWalk(s, r, &x)
		for i := lo; i < hi; i++ {
			at, _, n := s.block(i/parts, blocks)
			p := i % parts * step
			reduceBlock(&w, s, r, x, at, p, min(p+step, s.each), partial[i*width:i*width+n])
		}
		w.free()
	})
	w := newColumnWalk(s, r, &x)
	for t := range tasks {
		at, to, n := s.block(t, blocks)
		acc := partial[t*parts*width:][:n]
		for p := 1; p < parts; p++ {
			b := partial[(t*parts+p)*width:][:n]
			if r.merges != nil {
				r.merges(acc, b)
				continue
			}
			for j, a := range b {
				acc[j] = r.merge(acc[j], a)
			}
		}
		finishBlock(&w, s, r, x, dst, at, to, acc)
	}
	w.free()
	room.free()
}

// wideRow is the length of rows from which on calls for them cost little.
const wideRow = 1024

// fold is how many rows of a narrow, dense matrix are taken for one.
func (s *space) fold() int {
	inner := s.kept.shape[0]
	if s.kept.rank > 1 || s.reduced.rank > 1 || s.keptIn[0] != 1 || s.red[0] != inner {
		return 1
	}
	return min(wideRow/inner, s.each/vec.Rows)
}

// reduceNarrow reduces the columns of a matrix whose rows are short, taking k
// of them for one row of a matrix with k times as many columns.
func reduceNarrow[S, T, A, R any](s *space, r *reducer[T, A, R], x source[S, T], dst []R, k int) {
	inner := s.kept.shape[0]
	width, each := k*inner, s.each/k
	wide := *s
	wide.kept.shape[0], wide.reduced.shape[0], wide.red[0] = width, each, width
	step := max(vec.Rows, 8*part/width)
	parts := (each-1)/step + 1
	room, partial := scratchOf[A](parts * width)
	pool.For(parts, 1, func(lo, hi int) {
		w := newColumnWalk(&wide, r, &x)
		for p := lo; p < hi; p++ {
			reduceBlock(&w, &wide, r, x, s.first, p*step, min((p+1)*step, each), partial[p*width:][:width])
		}
		w.free()
	})
	for p := 1; p < parts; p++ {
		r.merges(partial[:width], partial[p*width:][:width])
	}
	acc := partial[:inner]
	for j := 1; j < k; j++ {
		r.merges(acc, partial[j*inner:][:inner])
	}
	w := newColumnWalk(s, r, &x)
	reduceMore(&w, s, r, x, s.first, each*k, s.each, acc)
	finishBlock(&w, s, r, x, dst, s.first, 0, acc)
	w.free()
	room.free()
}

// block returns the place of block t of the kept space in the operand and in the result,
// and its width.
func (s *space) block(t, blocks int) (at, to, n int) {
	last := s.kept.rank - 1
	inner := s.kept.shape[last]
	var index [op.MaxRank]int
	c := t % blocks * columns
	s.kept.at(t/blocks*inner+c, &index)
	return s.first + dot(&index, &s.keptIn, s.kept.rank), dot(&index, &s.keptOut, s.kept.rank), min(columns, inner-c)
}

// newColumnWalk makes buffers for as many pieces as are taken in at a time.
func newColumnWalk[S, T, A, R any](s *space, r *reducer[T, A, R], x *source[S, T]) walk[S, T] {
	pieces := 1
	if r.rows != nil {
		pieces = vec.Rows
	}
	inner := s.kept.rank - 1
	return newWalk(pieces*min(columns, s.kept.shape[inner]), s.keptIn[inner] != 1, x)
}

// reduceBlock reduces pieces lo to hi into acc.
func reduceBlock[S, T, A, R any](w *walk[S, T], s *space, r *reducer[T, A, R], x source[S, T], at, lo, hi int, acc []A) {
	fillWords(acc, r.start)
	reduceMore(w, s, r, x, at, lo, hi, acc)
}

// reduceMore lets acc take in pieces lo to hi.
func reduceMore[S, T, A, R any](w *walk[S, T], s *space, r *reducer[T, A, R], x source[S, T], at, lo, hi int, acc []A) {
	if r.rows == nil {
		reducePieces(w, s, r, x, at, lo, hi, acc)
		return
	}
	n, stride := len(acc), s.keptIn[s.kept.rank-1]
	var index [op.MaxRank]int
	s.reduced.at(lo, &index)
	ahead := 0
	if w.raw == nil && w.buf == nil {
		ahead = vec.Rows * s.red[s.reduced.rank-1]
	}
	for lo < hi {
		var rows [vec.Rows]*T
		for i := range rows {
			switch {
			case lo < hi:
				raw, buf := w.raw, w.buf
				if raw != nil {
					raw = raw[i*n:][:n]
				}
				if buf != nil {
					buf = buf[i*n:][:n]
				}
				rows[i] = unsafe.SliceData(x.read(at+dot(&index, &s.red, s.reduced.rank), stride, n, raw, buf))
				s.reduced.step(&index, 0)
				lo++
			case r.spare != nil:
				rows[i] = unsafe.SliceData(r.spare)
			default:
				rows[i] = rows[i-1]
			}
		}
		r.rows(acc, &rows, ahead)
	}
}

// reducePieces is reduceMore one piece at a time.
func reducePieces[S, T, A, R any](w *walk[S, T], s *space, r *reducer[T, A, R], x source[S, T], at, lo, hi int, acc []A) {
	stride := s.keptIn[s.kept.rank-1]
	var index [op.MaxRank]int
	s.reduced.at(lo, &index)
	for ; lo < hi; lo++ {
		r.column(acc, x.read(at+dot(&index, &s.red, s.reduced.rank), stride, len(acc), w.raw, w.buf), lo)
		s.reduced.step(&index, 0)
	}
}

func finishBlock[S, T, A, R any](w *walk[S, T], s *space, r *reducer[T, A, R], x source[S, T], dst []R, at, to int, acc []A) {
	if r.overflowed != nil && r.overflowed(acc) {
		fillWords(acc, r.start)
		reducePieces(w, s, r, x, at, 0, s.each, acc)
	}
	stride := s.keptOut[s.kept.rank-1]
	for _, a := range acc {
		dst[to] = r.finish(a)
		to += stride
	}
}
