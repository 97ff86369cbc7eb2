package cpu

import (
	"math"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

func init() {
	registerDense(op.GridSample, allImages, gridSample[float32], gridSample[float64])
	registerDense(op.GridSampleGradInput, allImages, gridSampleGradInput[float32], gridSampleGradInput[float64])
	registerDense(op.GridSampleGradGrid, allImages, gridSampleGradGrid[float32], gridSampleGradGrid[float64])
}

// gridCorner is an element beside a sampled place: where it is in its channel, its
// weight, and the derivatives of the weight by the place's coordinates.
type gridCorner[T float] struct {
	at     int
	weight T
	slope  [3]T
}

// gridSampler finds the elements beside places.
type gridSampler struct {
	op.Grid
	size []int // of x behind the channels
}

// along returns where along axis i the coordinate g of a grid lies, and the
// derivative.
func (s *gridSampler) along(i int, g float64) (at, slope float64) {
	n := float64(s.size[i])
	last, scale := n-1, n/2
	if s.Corners {
		scale = last / 2
	}
	at, slope = g*scale+last/2, scale
	if s.Padding == op.GridReflect {
		low, span := -0.5, n
		if s.Corners {
			low, span = 0, last
		}
		if span == 0 {
			return 0, 0
		}
		at -= low
		if at < 0 {
			at, slope = -at, -slope
		}
		turns := math.Floor(at / span)
		at -= turns * span
		if math.Mod(turns, 2) == 1 {
			at, slope = span-at, -slope
		}
		at += low
	}
	if s.Padding != op.GridZeros {
		if !(at > 0 && at < last) {
			slope = 0
		}
		at = min(max(at, 0), last) // NaN stays
	}
	return at, slope
}

// corners appends the elements beside the place with the coordinates g of a grid, as far
// as they exist.
func corners[T float](s *gridSampler, g []T, to []gridCorner[T]) []gridCorner[T] {
	d := len(s.size)
	var before, part, slope [3]float64
	for i := range d {
		at, by := s.along(i, float64(g[d-1-i]))
		if s.Nearest {
			before[i] = math.RoundToEven(at)
			continue
		}
		before[i] = math.Floor(at)
		part[i], slope[i] = at-before[i], by
	}
	count := 1 << d
	if s.Nearest {
		count = 1
	}
next:
	for k := range count {
		c, weight := gridCorner[T]{}, 1.0
		for i, n := range s.size {
			at, w := before[i], 1-part[i]
			if k>>(d-1-i)&1 == 1 {
				at, w = at+1, part[i]
			}
			if !(at >= 0 && at < float64(n)) {
				continue next
			}
			c.at = c.at*n + int(at)
			weight *= w
		}
		c.weight = T(weight)
		if !s.Nearest {
			for i := range d {
				w := -slope[i]
				if k>>(d-1-i)&1 == 1 {
					w = slope[i]
				}
				for j := range d {
					if j != i && k>>(d-1-j)&1 == 1 {
						w *= part[j]
					} else if j != i {
						w *= 1 - part[j]
					}
				}
				c.slope[d-1-i] = T(w)
			}
		}
		to = append(to, c)
	}
	return to
}

// gridBlock is for how many places the elements beside them are found at once.
const gridBlock = 512

// gridBlocks calls f for blocks of a batch's places: with the image, the first place, and
// the corners of each, which end where ends says.
func gridBlocks[T float](s *gridSampler, grid []T, batch, places, channels int, f func(image, first int, ends []int, all []gridCorner[T])) {
	d := len(s.size)
	blocks := (places + gridBlock - 1) / gridBlock
	pool.For(batch*blocks, max(1, grainExpensive/(min(places, gridBlock)*max(channels, 1)+1)), func(lo, hi int) {
		var all []gridCorner[T]
		var ends []int
		for b := lo; b < hi; b++ {
			image, first := b/blocks, b%blocks*gridBlock
			all, ends = all[:0], ends[:0]
			for p := first; p < min(first+gridBlock, places); p++ {
				at := (image*places + p) * d
				all = corners(s, grid[at:at+d], all)
				ends = append(ends, len(all))
			}
			f(image, first, ends, all)
		}
	})
}

func gridSample[T float](c *backend.Call, dst []T, in [3][]T) {
	x := c.In[0].Shape
	s := &gridSampler{c.Attrs.(op.Grid), x[2:]}
	size, places := op.Elements(x[2:]), op.Elements(c.Out.Shape[2:])
	gridBlocks(s, in[1], x[0], places, x[1], func(image, first int, ends []int, all []gridCorner[T]) {
		for k := image * x[1]; k < (image+1)*x[1]; k++ {
			src, to := in[0][k*size:(k+1)*size], dst[k*places+first:]
			i := 0
			for p, end := range ends {
				var sum T
				for ; i < end; i++ {
					sum += all[i].weight * src[all[i].at]
				}
				to[p] = sum
			}
		}
	})
}

func gridSampleGradGrid[T float](c *backend.Call, dst []T, in [3][]T) {
	x := c.In[1].Shape
	s := &gridSampler{c.Attrs.(op.Grid), x[2:]}
	d, size, places := len(x)-2, op.Elements(x[2:]), op.Elements(c.In[0].Shape[2:])
	gridBlocks(s, in[2], x[0], places, x[1], func(image, first int, ends []int, all []gridCorner[T]) {
		to := dst[(image*places+first)*d:]
		clear(to[:len(ends)*d])
		for k := image * x[1]; k < (image+1)*x[1]; k++ {
			g, src := in[0][k*places+first:], in[1][k*size:(k+1)*size]
			i := 0
			for p, end := range ends {
				for ; i < end; i++ {
					v := g[p] * src[all[i].at]
					for j := range d {
						to[p*d+j] += v * all[i].slope[j]
					}
				}
			}
		}
	})
}

// A channel of an image belongs to one thread, which adds up in the order of the places.
func gridSampleGradInput[T float](c *backend.Call, dst []T, in [3][]T) {
	g, x := c.In[0].Shape, c.Out.Shape
	s := &gridSampler{c.Attrs.(op.Grid), x[2:]}
	d, size, places := len(x)-2, op.Elements(x[2:]), op.Elements(g[2:])
	clear(dst)
	pool.For(x[0]*x[1], max(1, grainExpensive/(places+1)), func(lo, hi int) {
		var all []gridCorner[T]
		var ends []int
		found := -1
		for k := lo; k < hi; k++ {
			if image := k / x[1]; image != found {
				all, ends, found = all[:0], ends[:0], image
				for p := range places {
					at := (image*places + p) * d
					all = corners(s, in[1][at:at+d], all)
					ends = append(ends, len(all))
				}
			}
			from, to := in[0][k*places:], dst[k*size:(k+1)*size]
			i := 0
			for p, end := range ends {
				for ; i < end; i++ {
					to[all[i].at] += all[i].weight * from[p]
				}
			}
		}
	})
}
