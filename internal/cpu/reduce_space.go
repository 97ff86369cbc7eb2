package cpu

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// space is the geometry of a reduction: the axes that are kept and those that
// are reduced, each with the smallest stride last.
type space struct {
	kept, reduced        dims
	keptIn, keptOut, red [op.MaxRank]int // strides in the operand and the result
	results, each        int             // the two spaces' sizes
	first                int             // the operand's offset
}

var spaces = sync.Pool{New: func() any { return new(space) }}

// newSpace sorts axes and merges what lies together.
func newSpace(v *backend.View, axes op.AxisSet) *space {
	type axis struct{ n, in, out int }
	var keptAxes, reducedAxes [op.MaxRank]axis
	kept, reduced := keptAxes[:0], reducedAxes[:0]
	s := spaces.Get().(*space)
	*s = space{results: 1, each: 1, first: v.Offset}
	out := 1
	for i := len(v.Shape) - 1; i >= 0; i-- {
		n := v.Shape[i]
		switch {
		case axes.Has(i):
			s.each *= n
			if n != 1 {
				reduced = append(reduced, axis{n, v.Strides[i], 0})
			}
		default:
			s.results *= n
			if n != 1 {
				kept = append(kept, axis{n, v.Strides[i], out})
			}
			out *= n
		}
	}
	pack := func(l []axis, d *dims, in, out *[op.MaxRank]int) {
		// Largest stride first; repeated elements count as far apart.
		slices.SortStableFunc(l, func(a, b axis) int { return cmp.Compare(distance(b.in), distance(a.in)) })
		for _, a := range l {
			if k := d.rank - 1; k >= 0 && in[k] == a.n*a.in && out[k] == a.n*a.out {
				d.shape[k] *= a.n
				in[k], out[k] = a.in, a.out
				continue
			}
			d.shape[d.rank], in[d.rank], out[d.rank] = a.n, a.in, a.out
			d.rank++
		}
		if d.rank == 0 {
			d.rank, d.shape[0] = 1, 1
		}
	}
	var none [op.MaxRank]int
	pack(kept, &s.kept, &s.keptIn, &s.keptOut)
	pack(reduced, &s.reduced, &s.red, &none)
	return s
}

func distance(stride int) int {
	if stride == 0 {
		return math.MaxInt
	}
	return max(stride, -stride)
}

// byColumns reports whether neighbors in memory belong to different results.
func (s *space) byColumns() bool {
	k, r := s.kept.rank-1, s.reduced.rank-1
	if s.kept.shape[k] == 1 {
		return false
	}
	return s.reduced.shape[r] == 1 || distance(s.keptIn[k]) < distance(s.red[r])
}
