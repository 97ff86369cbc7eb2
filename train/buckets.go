package train

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/internal/agree"
)

// Gradients are summed over devices and ranks in flat buckets: few large messages instead of many small
// ones. A bucket has gradients that become final one after the other in the backward pass,
// and is sent as soon as its last one is there, while the pass goes on. The first backward pass finds
// the order, and the ranks agree on it once: they must send the same buckets in the same order, also a
// rank that finds its own gradients in another one.

// minBucket is the size below which cutting does not pay: a message of this size takes
// about as long as starting one. Tests make it smaller.
var minBucket = 128 << 10

const (
	// maxBucket is the size up to which gradients are sent as one.
	maxBucket = 8 << 20
	// bucketsWanted is how many buckets a network of a middle size is cut into, so that
	// there is something to send early.
	bucketsWanted = 8
)

// layout says which gradients lie in which bucket: numbers of gradients, in the order of
// their first elements.
type layout [][]int

// item is a gradient that is put into a bucket.
type item struct {
	dtype locus.DType
	bytes int
}

// newLayout assigns gradients to buckets, given the order in which they become final. Buckets are
// in the order in which they are complete. The last one is smaller than the others, because
// nothing is left to be computed while it is sent.
func newLayout(items []item, order []int) layout {
	total := 0
	for _, x := range items {
		total += x.bytes
	}
	limit := min(max(total/bucketsWanted, minBucket), maxBucket)
	type bucket struct {
		at       []int
		complete int // the place in order of its last gradient
		bytes    int
	}
	var all []*bucket
	open := map[locus.DType]*bucket{}
	for place := len(order) - 1; place >= 0; place-- {
		x := items[order[place]]
		most := limit
		if len(all) <= 1 {
			most = max(limit/4, min(limit, minBucket))
		}
		b := open[x.dtype]
		if b == nil || b.bytes+x.bytes > most {
			b = &bucket{complete: place}
			open[x.dtype] = b
			all = append(all, b)
		}
		b.at, b.bytes = append(b.at, order[place]), b.bytes+x.bytes
	}
	slices.SortFunc(all, func(a, b *bucket) int { return cmp.Compare(a.complete, b.complete) })
	l := make(layout, len(all))
	for i, b := range all {
		slices.Reverse(b.at)
		l[i] = b.at
	}
	return l
}

// buckets are the sums of a step on their way.
type buckets struct {
	layout  layout
	start   func(flat *locus.Tensor) *collective.Pending
	factor  float64 // of every gradient
	in      []int   // by gradient: its bucket
	missing []int   // by bucket: how many gradients have not come
	grads   []*locus.Tensor
	shapes  [][]int
	flats   []*locus.Tensor // by bucket: what is sent, if that is memory of its own
	pending []*collective.Pending

	old  []*locus.Tensor                              // what is added to the sums; nil without
	then func(flat *locus.Tensor) *collective.Pending // sends the sums on, to other ranks; may be nil
	sent int                                          // how many were sent on
}

// newBuckets returns room for n gradients, of which start sends the sums on their way.
func newBuckets(l layout, n int, factor float64, start func(flat *locus.Tensor) *collective.Pending) *buckets {
	b := &buckets{layout: l, start: start, factor: factor, in: make([]int, n), missing: make([]int, len(l)), grads: make([]*locus.Tensor, n), shapes: make([][]int, n)}
	for i, at := range l {
		b.missing[i] = len(at)
		for _, k := range at {
			b.in[k] = i
		}
	}
	return b
}

// put takes gradient k, which is the bucket's from then on, and sends buckets that are
// complete, each behind those before it.
func (b *buckets) put(k int, g *locus.Tensor) {
	b.grads[k], b.shapes[k] = g, g.Shape()
	b.missing[b.in[k]]--
	for n := len(b.pending); n < len(b.layout) && b.missing[n] == 0; n++ {
		b.send(b.layout[n])
	}
}

// send joins gradients to one tensor and starts its sum.
func (b *buckets) send(at []int) {
	locus.NoGrad(func() {
		parts := make([]*locus.Tensor, len(at))
		for i, k := range at {
			parts[i] = b.grads[k].Detach().Flatten()
		}
		flat, own := parts[0], false
		if len(at) > 1 {
			flat, own = locus.Concat(0, parts...), true
		}
		if b.factor != 1 {
			scaled := flat.Mul(b.factor)
			if own {
				flat.Free()
			}
			flat, own = scaled, true
		}
		if own { // else the gradient itself is sent
			for _, k := range at {
				b.grads[k].Free()
			}
			b.flats = append(b.flats, flat)
		} else {
			b.flats = append(b.flats, b.grads[at[0]])
		}
		b.pending = append(b.pending, b.start(flat))
	})
	if b.then != nil && len(b.pending) > 1 {
		b.sendOn() // the sum before, which had the time of this one's gradients
	}
}

// sendOn sends the next sum on.
func (b *buckets) sendOn() {
	i := b.sent
	b.sent++
	sum, err := b.pending[i].Wait()
	b.flats[i].Free()
	if err != nil {
		panic(err)
	}
	sum = b.more(i, sum)
	b.flats[i], b.pending[i] = sum, b.then(sum)
}

// more adds what waits to the sum of a bucket, which it frees.
func (b *buckets) more(i int, sum *locus.Tensor) *locus.Tensor {
	if b.old == nil {
		return sum
	}
	var all *locus.Tensor
	locus.NoGrad(func() {
		parts := make([]*locus.Tensor, len(b.layout[i]))
		for n, k := range b.layout[i] {
			parts[n] = b.old[k].Flatten()
		}
		all = locus.Concat(0, parts...).Add(sum)
	})
	sum.Free()
	return all
}

// wait returns the sums, times factor, as views of results that own their memory.
func (b *buckets) wait(factor float64) (sums, results []*locus.Tensor, err error) {
	for b.then != nil && b.sent < len(b.pending) {
		b.sendOn()
	}
	sums = make([]*locus.Tensor, len(b.grads))
	for i, p := range b.pending {
		whole, e := p.Wait()
		b.flats[i].Free()
		if e != nil {
			if err == nil { // a group that is over fails every bucket alike
				err = e
			}
			continue
		}
		if whole == nil {
			continue // another device has it
		}
		if b.then == nil {
			whole = b.more(i, whole)
		}
		if factor != 1 {
			scaled := whole.Mul(factor)
			whole.Free()
			whole = scaled
		}
		results = append(results, whole)
		from := 0
		for _, k := range b.layout[i] {
			n := 1
			for _, d := range b.shapes[k] {
				n *= d
			}
			sums[k] = whole.Narrow(0, from, from+n).Reshape(b.shapes[k]...)
			from += n
		}
	}
	if err != nil {
		freeAll(results)
		return nil, nil, err
	}
	return sums, results, nil
}

// positionsOf returns positions as a key.
func positionsOf(at []int) string {
	b := make([]byte, 0, 4*len(at))
	for _, i := range at {
		b = binary.LittleEndian.AppendUint32(b, uint32(i))
	}
	return string(b)
}

// layout returns the buckets of the gradients of the parameters at the given positions.
// The ranks agree on it when they need it first: all call it.
func (r *run) layout(at []int) (layout, error) {
	key := positionsOf(at)
	if l, ok := r.layouts[key]; ok {
		return l, nil
	}
	own := r.order
	if r.ranks != nil {
		all, err := agree.All(r.ranks.ctx, r.ranks.g, own)
		if err != nil {
			return nil, err
		}
		for _, o := range all { // a rank whose part was empty knows none
			if len(o) > 0 {
				own = o
				break
			}
		}
	}
	number := make(map[int]int, len(at)) // by position
	items := make([]item, len(at))
	for k, i := range at {
		number[i] = k
		v := r.replicas[0].params[i].Value()
		items[k] = item{v.DType(), v.Bytes()}
	}
	var order []int
	for _, i := range own {
		if k, ok := number[i]; ok {
			order = append(order, k)
			delete(number, i)
		}
	}
	for k := len(at) - 1; k >= 0; k-- { // those that are frozen now
		if _, ok := number[at[k]]; ok {
			order = append(order, k)
		}
	}
	l := newLayout(items, order)
	if r.layouts == nil {
		r.layouts = map[string]layout{}
	}
	r.layouts[key] = l
	return l, nil
}

// known reports whether the ranks have agreed on the order of these gradients.
func (r *run) known(at []int) bool {
	_, ok := r.layouts[positionsOf(at)]
	return ok
}

// sumOverRanks returns buckets for gradients at these positions, times factor.
func (r *run) sumOverRanks(at []int, factor float64) *buckets {
	l, err := r.layout(at)
	if err != nil {
		panic(err)
	}
	return newBuckets(l, len(at), factor, func(flat *locus.Tensor) *collective.Pending {
		return r.ranks.g.AllReduce(r.ranks.ctx, flat, collective.Sum)
	})
}

// gradients is [replica.backward] that notes in which order the gradients become final, where that is
// needed.
func (r *run) gradients(p *replica, sc *locus.Scope, args []*locus.Tensor, trained []int, scale *locus.Tensor) (grads, seen []*locus.Tensor) {
	if r.ranks == nil && len(r.replicas) == 1 || p != r.replicas[0] {
		return p.backward(sc, args, trained, r.scaler, scale, nil)
	}
	grads = make([]*locus.Tensor, len(trained))
	share := p.share()
	_, seen = p.backward(sc, args, trained, r.scaler, scale, r.noting(trained, func(k int, g *locus.Tensor) {
		if grads[k] = g; share != 1 {
			grads[k] = g.Mul(share)
			g.Free()
		}
	}))
	return grads, seen
}

// noting returns put, which also notes the order of the calls.
func (r *run) noting(trained []int, put func(k int, g *locus.Tensor)) func(k int, g *locus.Tensor) {
	r.order = make([]int, 0, len(trained))
	return func(k int, g *locus.Tensor) {
		r.order = append(r.order, trained[k])
		put(k, g)
	}
}
