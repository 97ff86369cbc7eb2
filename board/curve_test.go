package board

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestCurveIsExactWhileShort(t *testing.T) {
	var c curve
	for i := range maxBuckets {
		c.add(xy{float64(i), float64(i * i % 17)})
	}
	got := c.points()
	if len(got) != maxBuckets {
		t.Fatalf("%d points, want %d", len(got), maxBuckets)
	}
	for i, p := range got {
		if p != (xy{float64(i), float64(i * i % 17)}) {
			t.Fatalf("point %d is %v", i, p)
		}
	}
}

func TestCurveIsBoundedAndKeepsItsShape(t *testing.T) {
	const n = 300_007
	r := rand.New(rand.NewPCG(1, 2))
	var c curve
	raw := make([]xy, n)
	for i := range raw {
		raw[i] = xy{float64(i), math.Exp(-float64(i)/50_000) + 0.05*r.NormFloat64()}
	}
	raw[123_456].y = 9   // a spike of one point
	raw[222_222].y = -9  // and one down
	raw[n-1].y = 0.12345 // the end
	for i, p := range raw {
		c.add(p)
		if len(c.buckets) > maxBuckets || cap(c.buckets) > 2*maxBuckets {
			t.Fatalf("%d buckets after %d points", len(c.buckets), i)
		}
	}
	got := c.points()
	if len(got) > 2*maxBuckets+2 {
		t.Errorf("%d points", len(got))
	}
	if got[0] != raw[0] || got[len(got)-1] != raw[n-1] {
		t.Errorf("begins %v and ends %v", got[0], got[len(got)-1])
	}
	found := map[xy]bool{}
	for i, p := range got {
		if p != raw[int(p.x)] {
			t.Fatalf("%v was never drawn", p)
		}
		if i > 0 && p.x <= got[i-1].x {
			t.Fatalf("%v follows %v", p, got[i-1])
		}
		found[p] = true
	}
	if !found[raw[123_456]] || !found[raw[222_222]] {
		t.Error("a spike is gone")
	}
	// In every stretch as wide as a bucket, the lowest and the highest value are there to within that stretch.
	for at := 0; at+2*c.stride < n; at += c.stride {
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, p := range raw[at : at+c.stride] {
			lo, hi = min(lo, p.y), max(hi, p.y)
		}
		b := c.buckets[at/c.stride]
		if b.lo.y != lo || b.hi.y != hi {
			t.Fatalf("bucket at %d has %v to %v, want %v to %v", at, b.lo.y, b.hi.y, lo, hi)
		}
	}
}

func TestCurveWithoutNumbers(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	var c curve
	for i := range 4 * maxBuckets {
		y := nan
		if i%4 == 1 {
			y = float64(i)
		} else if i%4 == 2 {
			y = inf
		}
		c.add(xy{float64(i), y})
	}
	finite := 0
	for _, b := range c.buckets {
		if b.lo.finite() != b.hi.finite() {
			t.Fatalf("half a bucket: %+v", b)
		}
		if b.lo.finite() {
			finite++
		}
	}
	if finite != len(c.buckets) {
		t.Errorf("%d of %d buckets can be drawn: each has such a point", finite, len(c.buckets))
	}
	if last := c.points()[len(c.points())-1]; !math.IsNaN(last.y) {
		t.Errorf("the last point was NaN and is %v", last)
	}
}
