package board

import "math"

// maxBuckets bounds the memory of one series. Each bucket keeps two points, so that a curve has at most about 4,000:
// more than a screen has columns.
const maxBuckets = 2048

type xy struct{ x, y float64 }

func (p xy) finite() bool {
	return !math.IsNaN(p.x+p.y) && !math.IsInf(p.x, 0) && !math.IsInf(p.y, 0)
}

// same is == except that NaN equals NaN.
func (p xy) same(q xy) bool {
	return math.Float64bits(p.x) == math.Float64bits(q.x) && math.Float64bits(p.y) == math.Float64bits(q.y)
}

// bucket stands for a run of consecutive points by their lowest and highest: no peak is ever lost, which a mean or every
// n-th point would do.
type bucket struct {
	lo, hi  xy
	loFirst bool
}

// joined is the bucket of b's points followed by c's. Points that cannot be drawn are replaced by those that can.
func (b bucket) joined(c bucket) bucket {
	if !c.lo.finite() {
		return b
	}
	if !b.lo.finite() {
		return c
	}
	lo, hi, loLate, hiLate := b.lo, b.hi, false, false
	if c.lo.y < lo.y {
		lo, loLate = c.lo, true
	}
	if c.hi.y > hi.y {
		hi, hiLate = c.hi, true
	}
	loFirst := b.loFirst
	switch {
	case loLate && hiLate:
		loFirst = c.loFirst
	case loLate != hiLate:
		loFirst = hiLate
	}
	return bucket{lo, hi, loFirst}
}

// points appends the bucket's one or two points in the order in which they came.
func (b bucket) points(dst []xy) []xy {
	switch {
	case b.lo.same(b.hi):
		return append(dst, b.lo)
	case b.loFirst:
		return append(dst, b.lo, b.hi)
	}
	return append(dst, b.hi, b.lo)
}

// curve is a series in bounded memory: buckets of stride points each, except that the last may be filling. When there are
// too many buckets, neighbors are joined and the stride doubles, so the resolution is even over the whole history.
type curve struct {
	buckets     []bucket
	stride      int // points in a full bucket
	filled      int // points in the last bucket
	first, last xy
}

func (c *curve) add(p xy) {
	if len(c.buckets) == 0 {
		c.stride, c.filled, c.first = 1, 1, p
	}
	c.last = p
	one := bucket{p, p, true}
	if len(c.buckets) > 0 && c.filled < c.stride {
		end := &c.buckets[len(c.buckets)-1]
		*end = end.joined(one)
		c.filled++
		return
	}
	if len(c.buckets) == maxBuckets {
		for i := range maxBuckets / 2 {
			c.buckets[i] = c.buckets[2*i].joined(c.buckets[2*i+1])
		}
		c.buckets = c.buckets[:maxBuckets/2]
		c.stride *= 2
	}
	c.buckets = append(c.buckets, one)
	c.filled = 1
}

// points returns the curve to draw, which begins with the first point ever added and ends with the last.
func (c *curve) points() []xy {
	if len(c.buckets) == 0 {
		return nil
	}
	pts := append(make([]xy, 0, 2*len(c.buckets)+2), c.first)
	pts = c.buckets[0].points(pts)
	if pts[1].same(c.first) {
		pts = pts[1:]
	}
	for _, b := range c.buckets[1:] {
		pts = b.points(pts)
	}
	if !pts[len(pts)-1].same(c.last) {
		pts = append(pts, c.last)
	}
	return pts
}
