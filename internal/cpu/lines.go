package cpu

import (
	"unsafe"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

// Softmax, normalization and running sums work on lines, all elements along some
// axes: a line of the result is computed from the same line of the operands. Their
// kernels are functions of contiguous lines; alongLines brings lines of any strides,
// along any axes, into that form.

// lineIO tells how lines are read and written. Functions are nil where the
// stored elements are computed on as they are.
type lineIO[S, T any] struct {
	load  func(dst []T, src []S)
	store func(dst []S, src []T)
}

func nativeLines[T any]() lineIO[T, T] { return lineIO[T, T]{} }

func halfLines[H half]() lineIO[H, float32] {
	up, down := conversions[H]()
	return lineIO[H, float32]{up, down}
}

// bundle is how many neighboring lines are gathered at once where a line's
// elements are further apart than those of its neighbors: a cache line's worth.
const bundle = 16

// linePad is added to the length of gathered lines, so that lines whose length is a
// power of two do not compete for the same places in the cache.
const linePad = 16

// lineView is a tensor seen as lines.
type lineView[S any] struct {
	data     []S
	first    int
	kept     [op.MaxRank]int // strides
	along    [op.MaxRank]int
	whole    bool // lines are contiguous
	adjacent bool // neighboring lines are closer than a line's elements
}

// lineSpace has the axes of a call, those along the lines and the others.
type lineSpace struct {
	kept, along dims
	n, count    int
	pitch       int // from one gathered line to the next
}

func newLineView[S any](v *backend.View, axes op.AxisSet, s *lineSpace) *lineView[S] {
	l := &lineView[S]{data: whole[S](v), first: v.Offset, whole: true}
	s.kept, s.along = dims{}, dims{}
	for i, n := range v.Shape {
		if n == 1 {
			continue
		}
		d, strides := &s.kept, &l.kept
		if axes.Has(i) {
			d, strides = &s.along, &l.along
		}
		d.shape[d.rank], strides[d.rank] = n, v.Strides[i]
		d.rank++
	}
	want := 1
	for i := s.along.rank - 1; i >= 0; i-- {
		l.whole = l.whole && l.along[i] == want
		want *= s.along.shape[i]
	}
	if k := s.kept.rank - 1; k >= 0 && s.along.rank > 0 {
		l.adjacent = distance(l.kept[k]) < distance(l.along[s.along.rank-1])
	}
	return l
}

// alongLines calls f for every line: f(dst, a, b) with b nil for one operand. f
// may use dst before it has read all of a and b only element by element.
func alongLines[S, T any](c *backend.Call, axes op.AxisSet, io lineIO[S, T], f func(dst, a, b []T)) {
	if c.Out.Elements() == 0 {
		return
	}
	var s lineSpace
	out := newLineView[S](&c.Out, axes, &s)
	var in [2]*lineView[S]
	group := 1
	for i := range c.In {
		in[i] = newLineView[S](&c.In[i], axes, &s)
	}
	s.n, s.count = op.Elements(s.along.shape[:s.along.rank]), op.Elements(s.kept.shape[:s.kept.rank])
	if out.adjacent { // lines end at the end of the last kept axis, so that neighbors are one stride apart
		group = min(bundle, s.kept.shape[s.kept.rank-1])
	}
	last := 1
	if group > 1 {
		last = s.kept.shape[s.kept.rank-1]
	}
	groups := (last-1)/group + 1
	pitch := s.n
	if group > 1 {
		pitch += linePad
	}
	s.pitch = pitch
	gathered := group > 1 || !out.whole
	for i := range c.In {
		gathered = gathered || !in[i].whole
	}
	pool.For(s.count/last*groups, max(1, grainExpensive/(s.n*group)), func(lo, hi int) {
		// A gathered line has a buffer of S and, where it is converted, one of T.
		var raw, conv *scratch
		var rawBuf []S
		if gathered {
			raw, rawBuf = scratchOf[S](3 * group * pitch)
		}
		var convBuf []T
		if io.load != nil {
			conv, convBuf = scratchOf[T](3 * group * pitch)
		}
		var index [op.MaxRank]int
		for t := lo; t < hi; t++ {
			j := t % groups * group
			w := min(group, last-j)
			span := (w-1)*pitch + s.n
			s.kept.at(t/groups*last+j, &index)
			var src [2][]T
			for i := range c.In {
				l := in[i]
				at := l.first + dot(&index, &l.kept, s.kept.rank)
				var stored []S
				if l.whole && w == 1 {
					stored = l.data[at : at+s.n]
				} else {
					stored = rawBuf[i*group*pitch:][:span]
					l.gather(stored, &s, at, w)
				}
				if io.load != nil {
					src[i] = convBuf[i*group*pitch:][:span]
					inParts(src[i], stored, io.load)
				} else {
					src[i] = unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(stored))), len(stored))
				}
			}
			at := out.first + dot(&index, &out.kept, s.kept.rank)
			place := out.whole && w == 1 // the result's own memory
			var stored []S
			if place {
				stored = out.data[at : at+s.n]
			} else {
				stored = rawBuf[2*group*pitch:][:span]
			}
			var dst []T
			if io.store != nil {
				dst = convBuf[2*group*pitch:][:span]
			} else {
				dst = unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(stored))), len(stored))
			}
			for k := range w {
				var b []T
				if len(c.In) > 1 {
					b = src[1][k*pitch:][:s.n]
				}
				f(dst[k*pitch:][:s.n], src[0][k*pitch:][:s.n], b)
			}
			if io.store != nil {
				inParts(stored, dst, io.store)
			}
			if !place {
				out.scatter(stored, &s, at, w)
			}
		}
		release(raw)
		release(conv)
	})
}

// inParts converts, long lines on several threads.
func inParts[To, From any](dst []To, src []From, f func([]To, []From)) {
	if len(dst) < longLine {
		f(dst, src)
		return
	}
	pool.For(len(dst), part, func(lo, hi int) { f(dst[lo:hi], src[lo:hi]) })
}

// gather copies w neighboring lines, the first of which begins at `at`, to dst
// one after the other.
func (l *lineView[S]) gather(dst []S, s *lineSpace, at, w int) {
	l.each(s, at, func(i, from, stride, n int) {
		if w == 1 && stride == 1 {
			copy(dst[i:i+n], l.data[from:from+n])
			return
		}
		step := l.neighbor(s)
		if step == 1 {
			transpose(dst[i:], s.pitch, l.data, from, stride, w, n)
			return
		}
		for k := range n {
			f := from + k*stride
			for j := range w {
				dst[j*s.pitch+i+k] = l.data[f+j*step]
			}
		}
	})
}

// scatter is gather's opposite.
func (l *lineView[S]) scatter(src []S, s *lineSpace, at, w int) {
	l.each(s, at, func(i, to, stride, n int) {
		if w == 1 && stride == 1 {
			copy(l.data[to:to+n], src[i:i+n])
			return
		}
		step := l.neighbor(s)
		if step == 1 && stride > 0 {
			transpose(l.data[to:], stride, src, i, s.pitch, n, w)
			return
		}
		for k := range n {
			t := to + k*stride
			for j := range w {
				l.data[t+j*step] = src[j*s.pitch+i+k]
			}
		}
	})
}

// neighbor is the distance from one line to the next.
func (l *lineView[S]) neighbor(s *lineSpace) int {
	if s.kept.rank == 0 {
		return 0
	}
	return l.kept[s.kept.rank-1]
}

// each calls f for every row of the last axis of the line at `at`: elements i
// to i+n-1 of the line, from place `from` on, stride apart.
func (l *lineView[S]) each(s *lineSpace, at int, f func(i, from, stride, n int)) {
	if s.along.rank == 0 {
		f(0, at, 1, 1)
		return
	}
	last := s.along.rank - 1
	n := s.along.shape[last]
	var index [op.MaxRank]int
	for i := 0; i < s.n; i += n {
		f(i, at+dot(&index, &l.along, s.along.rank), l.along[last], n)
		s.along.step(&index, 1)
	}
}
