package locus_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/locusml/locus"
)

// What finds, chooses and puts elements is compared with plain loops, at sizes around
// and beyond those at which kernels change their way, and of views.
func TestFindingAtManySizes(t *testing.T) {
	gpu := locus.AddVirtualGPUs(1, 256<<20)[0]
	for _, d := range []locus.Device{locus.CPU(), gpu} {
		for _, n := range []int{1, 2, 3, 63, 64, 65, 255, 256, 257, 1000, 4099, 70001} {
			r := rand.New(rand.NewPCG(uint64(n), 1))
			v := make([]int64, n)
			for i := range v {
				v[i] = int64(r.IntN(n/2+2)) - 1
			}
			// Every other element of what is twice as long, from the end: a view with gaps.
			wide := make([]int64, 2*n)
			for i, x := range v {
				wide[2*(n-1-i)] = x
			}
			x := d.From(wide).Reshape(n, 2).Narrow(1, 0, 1).Squeeze(1).Flip(0)
			at := fmt.Sprintf("%d on %s", n, d)
			unique(t, at, x, v)
			found(t, at, x, v)
			placed(t, at, d, x, v, r)
			ordered(t, at, x, v)
		}
	}
}

func matches[T locus.Element](t *testing.T, what, at string, got *locus.Tensor, want []T) {
	t.Helper()
	if g := locus.ToSlice[T](got); !slices.Equal(g, want) {
		if len(g) > 20 || len(want) > 20 {
			t.Errorf("%s of %s is wrong: %d elements, want %d", what, at, len(g), len(want))
			return
		}
		t.Errorf("%s of %s: %v, want %v", what, at, g, want)
	}
}

func unique(t *testing.T, at string, x *locus.Tensor, v []int64) {
	count := map[int64]int64{}
	for _, e := range v {
		count[e]++
	}
	var values, counts, inverse []int64
	for e := range count {
		values = append(values, e)
	}
	slices.Sort(values)
	for _, e := range values {
		counts = append(counts, count[e])
	}
	for _, e := range v {
		i, _ := slices.BinarySearch(values, e)
		inverse = append(inverse, int64(i))
	}
	a, b, c := x.Unique()
	matches(t, "Unique's values", at, a, values)
	matches(t, "Unique's inverse", at, b, inverse)
	matches(t, "Unique's counts", at, c, counts)
}

func found(t *testing.T, at string, x *locus.Tensor, v []int64) {
	var where, chosen []int64
	for i, e := range v {
		if e != 0 {
			where = append(where, int64(i))
		}
		if e > 2 {
			chosen = append(chosen, e)
		}
	}
	matches(t, "NonZero", at, x.NonZero().Flatten(), where)
	matches(t, "MaskedSelect", at, x.MaskedSelect(x.Gt(2)), chosen)
	matches(t, "the count", at, x.Ne(0).Sum(), []int64{int64(len(where))})
	if n := len(v) / 3; n > 0 { // of a matrix: rows and columns
		m := x.Narrow(0, 0, 3*n).Reshape(n, 3)
		var pairs []int64
		for _, i := range where {
			if i < int64(3*n) {
				pairs = append(pairs, i/3, i%3)
			}
		}
		matches(t, "NonZero of a matrix", at, m.NonZero().Flatten(), pairs)
	}
}

func placed(t *testing.T, at string, d locus.Device, x *locus.Tensor, v []int64, r *rand.Rand) {
	n := len(v)
	index, src := make([]int64, n), make([]int64, n)
	put, repeated := slices.Clone(v), []int64(nil)
	for i := range index {
		index[i], src[i] = int64(r.IntN(n)), int64(i)
		put[index[i]] = src[i] // the last stays
		for range index[i] % 3 {
			repeated = append(repeated, v[i])
		}
	}
	i := d.From(index)
	matches(t, "Scatter", at, x.Scatter(0, i, d.From(src)), put)
	matches(t, "Scatter along axis 0", at, x.Unsqueeze(1).Scatter(0, i.Unsqueeze(1), d.From(src).Unsqueeze(1)).Flatten(), put)
	matches(t, "RepeatInterleave", at, x.RepeatInterleave(i.Mod(3), 0), repeated)
}

func ordered(t *testing.T, at string, x *locus.Tensor, v []int64) {
	n := len(v)
	sorted := slices.Sorted(slices.Values(v))
	var left, right, largest, smallest []int64
	hi, lo := v[0], v[0]
	for _, e := range v {
		left = append(left, int64(sort.Search(n, func(i int) bool { return sorted[i] >= e })))
		right = append(right, int64(sort.Search(n, func(i int) bool { return sorted[i] > e })))
		hi, lo = max(hi, e), min(lo, e)
		largest, smallest = append(largest, hi), append(smallest, lo)
	}
	s := x.Device().From(sorted)
	matches(t, "SearchSorted", at, s.SearchSorted(x, false), left)
	matches(t, "SearchSorted to the right", at, s.SearchSorted(x, true), right)
	a, p := x.CumMax(0)
	matches(t, "CumMax", at, a, largest)
	matches(t, "CumMax's positions", at, x.Gather(0, p), largest)
	b, _ := x.CumMin(0)
	matches(t, "CumMin", at, b, smallest)
	matches(t, "Median", at, x.Median(), []int64{sorted[(n-1)/2]})
	bottom, _ := x.BottomK(min(n, 5), 0)
	matches(t, "BottomK", at, bottom, sorted[:min(n, 5)])
	q := x.Cast(locus.Float64).Quantile(0.3).Item()
	k, part := math.Modf(0.3 * float64(n-1))
	want := float64(sorted[int(k)])
	if part > 0 {
		want = want*(1-part) + float64(sorted[int(k)+1])*part
	}
	if math.Abs(q-want) > 1e-9 {
		t.Errorf("Quantile of %s: %v, want %v", at, q, want)
	}
}
