package cpu

import (
	"math"
	"slices"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

func init() {
	register(op.ArgSort, dtype.Bool, argSort(func(x uint8) uint64 { return uint64(x) }))
	register(op.ArgSort, dtype.Uint8, argSort(func(x uint8) uint64 { return uint64(x) }))
	register(op.ArgSort, dtype.Int32, argSort(func(x int32) uint64 { return uint64(uint32(x) ^ 1<<31) }))
	register(op.ArgSort, dtype.Int64, argSort(func(x int64) uint64 { return uint64(x) ^ 1<<63 }))
	register(op.ArgSort, dtype.Float32, argSort(key32))
	register(op.ArgSort, dtype.Float64, argSort(key64))
	for _, h := range halfTypes {
		register(op.ArgSort, h.dtype, h.argSort)
	}
}

// key32 maps numbers to integers in the same order: both zeros to one, all NaN
// to the largest.
func key32(x float32) uint64 {
	switch b := math.Float32bits(x + 0); { // -0 + 0 is 0
	case x != x:
		return math.MaxUint32
	case b>>31 == 1:
		return uint64(^b)
	default:
		return uint64(b | 1<<31)
	}
}

func key64(x float64) uint64 {
	switch b := math.Float64bits(x + 0); {
	case x != x:
		return math.MaxUint64
	case b>>63 == 1:
		return ^b
	default:
		return b | 1<<63
	}
}

// keyed is an element's key and its position.
type keyed struct {
	key uint64
	at  int64
}

// radixMin is the length from which a radix sort is faster.
const radixMin = 256

func argSort[T any](key func(T) uint64) kernel {
	return func(c *backend.Call) error {
		total := c.Out.Elements()
		if total == 0 {
			return nil
		}
		a, v := c.Attrs.(op.Axis), &c.In[0]
		dst, src := elements[int64](&c.Out, total), whole[T](v)
		n, along := v.Shape[a.Axis], v.Strides[a.Axis]
		_, _, step := outerInner(v.Shape, a.Axis) // the result's stride along the axis
		var flip uint64
		if a.Reverse {
			flip = math.MaxUint64 // the opposite order, in which ties stay as they are
		}
		d := dims{rank: len(v.Shape)}
		copy(d.shape[:], v.Shape)
		d.shape[a.Axis] = 1
		var from, to [op.MaxRank]int
		copy(from[:], v.Strides)
		copy(to[:], op.Strides(c.Out.Shape))
		pool.For(total/n, max(1, grainExpensive/(8*n)), func(lo, hi int) {
			pairs, other := make([]keyed, n), []keyed(nil)
			if n >= radixMin {
				other = make([]keyed, n)
			}
			var index [op.MaxRank]int
			d.at(lo, &index)
			for range hi - lo {
				at := v.Offset + dot(&index, &from, d.rank)
				for i := range pairs {
					pairs[i] = keyed{key(src[at]) ^ flip, int64(i)}
					at += along
				}
				sorted := pairs
				if n >= radixMin {
					sorted = radixSort(pairs, other)
				} else {
					slices.SortFunc(pairs, func(x, y keyed) int {
						switch {
						case x.key < y.key || x.key == y.key && x.at < y.at:
							return -1
						}
						return 1
					})
				}
				at = dot(&index, &to, d.rank)
				for i := range sorted {
					dst[at] = sorted[i].at
					at += step
				}
				d.step(&index, 0)
			}
		})
		return nil
	}
}

// radixSort sorts by key, stably, a byte at a time, and leaves out bytes that
// are all the same. It returns the one of the two slices that holds the result.
func radixSort(a, b []keyed) []keyed {
	var all, none uint64 = 0, math.MaxUint64
	for _, p := range a {
		all |= p.key
		none &= p.key
	}
	for shift := 0; shift < 64; shift += 8 {
		if (all^none)>>shift&0xff == 0 {
			continue
		}
		var start [257]int
		for _, p := range a {
			start[p.key>>shift&0xff+1]++
		}
		for i := range 256 {
			start[i+1] += start[i]
		}
		for _, p := range a {
			k := p.key >> shift & 0xff
			b[start[k]] = p
			start[k]++
		}
		a, b = b, a
	}
	return a
}
