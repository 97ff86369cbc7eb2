// Package collectivetest is the suite that every engine of package collective must pass. Each
// rank calls [Run] with its handle, in a goroutine or in a process of its own.
package collectivetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
)

// Config says what a rank tries.
type Config struct {
	Devices []locus.Device // where its operands are; the CPU if empty
	Large   int            // elements of the largest tensors; 0: 300,001
	Short   bool           // fewer shapes
}

var (
	dtypes = []locus.DType{locus.Float32, locus.Float16, locus.BFloat16, locus.Float64, locus.Int32, locus.Int64, locus.Uint8, locus.Bool}
	ops    = []collective.Op{collective.Sum, collective.Mean, collective.Max, collective.Min, collective.Product}
	shapes = [][]int{{}, {0}, {1}, {7}, {3, 5}, {0, 4}, {2, 0}, {13, 1, 3}, {1000}}
)

// Run tries all collectives with all types and ops on tensors of many sizes, and wrong use.
// The group works before and after it. It returns what was wrong.
func Run(ctx context.Context, g *collective.Group, cfg Config) error {
	r := &rank{ctx: ctx, g: g, size: g.Size(), me: g.Rank()}
	if len(cfg.Devices) == 0 {
		cfg.Devices = []locus.Device{locus.CPU()}
	}
	if cfg.Large == 0 {
		cfg.Large = 300_001
	}
	tried := shapes
	if cfg.Short {
		tried = [][]int{{}, {0}, {7}, {3, 5}}
	}
	for _, d := range cfg.Devices {
		r.device = d
		for _, dt := range dtypes {
			for _, shape := range tried {
				r.all(dt, shape)
			}
		}
		r.large(cfg.Large)
		r.messages()
		r.several()
		r.strided()
		r.wrong()
	}
	r.check("Barrier", g.Barrier(ctx))
	return errors.Join(r.errs...)
}

type rank struct {
	ctx      context.Context
	g        *collective.Group
	me, size int
	device   locus.Device
	errs     []error
}

func (r *rank) failf(format string, args ...any) {
	if len(r.errs) < 20 {
		r.errs = append(r.errs, fmt.Errorf("rank %d of %d on %s: "+format, append([]any{r.me, r.size, r.device}, args...)...))
	}
}

func (r *rank) check(what string, err error) bool {
	if err != nil {
		r.failf("%s: %w", what, err)
	}
	return err == nil
}

// number is what rank k holds at position i: few different small numbers, so that sums and
// products are exact in every type.
func number(dt locus.DType, k, i int) float64 {
	v := (i*7 + k*3 + i*k) % 5
	switch dt {
	case locus.Bool:
		return float64(v % 2)
	case locus.Uint8:
		return float64(v)
	}
	return float64(v - 2)
}

func (r *rank) tensor(dt locus.DType, shape []int, k int) *locus.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	v := make([]float64, n)
	for i := range v {
		v[i] = number(dt, k, i)
	}
	if len(shape) == 0 {
		return r.device.From(v[0]).Cast(dt)
	}
	return r.device.From(v, shape...).Cast(dt)
}

// reduced is what op makes of all ranks' numbers.
func (r *rank) reduced(dt locus.DType, op collective.Op, i int) float64 {
	acc := number(dt, 0, i)
	for k := 1; k < r.size; k++ {
		v := number(dt, k, i)
		switch op {
		case collective.Max:
			acc = max(acc, v)
		case collective.Min:
			acc = min(acc, v)
		case collective.Product:
			acc *= v
		default:
			acc += v
		}
	}
	if op == collective.Mean {
		acc /= float64(r.size)
	}
	if dt == locus.Uint8 {
		acc = float64(uint8(int64(acc)))
	}
	return acc
}

var tolerance = map[locus.DType]float64{locus.Float32: 1e-6, locus.Float64: 1e-14, locus.Float16: 2e-3, locus.BFloat16: 1e-2}

// same compares a result with what it should be.
func (r *rank) same(what string, got *locus.Tensor, err error, dt locus.DType, shape []int, want func(i int) float64, exact bool) {
	if !r.check(what, err) {
		return
	}
	if got == nil {
		r.failf("%s: no result", what)
		return
	}
	if got.DType() != dt || !slices.Equal(got.Shape(), shape) || got.Device() != r.device {
		r.failf("%s: the result is %s %v on %s, want %s %v", what, got.DType(), got.Shape(), got.Device(), dt, shape)
		return
	}
	if got.IsView() {
		r.failf("%s: the result does not own its memory", what)
	}
	v := locus.ToSlice[float64](got.Cast(locus.Float64))
	for i := range v {
		w := want(i)
		if v[i] != w && (exact || !(math.Abs(v[i]-w) <= tolerance[dt]*math.Abs(w))) {
			r.failf("%s: element %d of %v is %v, want %v", what, i, shape, v[i], w)
			break
		}
	}
	got.Free()
}

func legal(dt locus.DType, op collective.Op) bool {
	if dt == locus.Bool {
		return op == collective.Max || op == collective.Min
	}
	return op != collective.Mean || dt.IsFloat()
}

// all tries every collective on tensors of one type and shape.
func (r *rank) all(dt locus.DType, shape []int) {
	x := r.tensor(dt, shape, r.me)
	defer x.Free()
	n := x.Len()
	width := 1
	if len(shape) > 0 {
		for _, d := range shape[1:] {
			width *= d
		}
	}
	for _, op := range ops {
		if !legal(dt, op) {
			continue
		}
		name := fmt.Sprintf("%s %s %v", op, dt, shape)
		want := func(i int) float64 { return r.reduced(dt, op, i) }
		exact := op != collective.Mean
		got, err := r.g.AllReduce(r.ctx, x, op).Wait()
		r.same("AllReduce "+name, got, err, dt, shape, want, exact)

		root := n % r.size
		got, err = r.g.Reduce(r.ctx, x, op, root).Wait()
		if r.me == root {
			r.same("Reduce "+name, got, err, dt, shape, want, exact)
		} else if r.check("Reduce "+name, err) && got != nil {
			r.failf("Reduce %s to rank %d returned a tensor", name, root)
		}
		if len(shape) > 0 {
			from, to := collective.Part(shape[0], r.me, r.size)
			part := slices.Concat([]int{to - from}, shape[1:])
			got, err = r.g.ReduceScatter(r.ctx, x, op).Wait()
			r.same("ReduceScatter "+name, got, err, dt, part, func(i int) float64 { return want(from*width + i) }, exact)
		}
	}
	name := fmt.Sprintf("%s %v", dt, shape)
	root := (n + 1) % r.size
	got, err := r.g.Broadcast(r.ctx, x, root).Wait()
	r.same(fmt.Sprintf("Broadcast %s from %d", name, root), got, err, dt, shape, func(i int) float64 { return number(dt, root, i) }, true)

	all := []int{r.size}
	if len(shape) > 0 {
		all = slices.Concat([]int{r.size * shape[0]}, shape[1:])
	}
	got, err = r.g.AllGather(r.ctx, x).Wait()
	r.same("AllGather "+name, got, err, dt, all, func(i int) float64 { return number(dt, i/max(n, 1), i%max(n, 1)) }, true)
	if len(shape) > 0 {
		from, to := collective.Part(shape[0], r.me, r.size)
		mine := x.Slice(locus.R(from, to))
		got, err = r.g.AllGatherParts(r.ctx, mine, shape[0]).Wait()
		r.same("AllGatherParts "+name, got, err, dt, shape, func(i int) float64 {
			k := 0
			for _, to := collective.Part(shape[0], k, r.size); i >= to*width; _, to = collective.Part(shape[0], k, r.size) {
				k++
			}
			return number(dt, k, i)
		}, true)
	}
}

// large tries memory of many segments, numbers whose sums are rounded, and that all ranks
// have the same bits.
func (r *rank) large(n int) {
	for _, dt := range []locus.DType{locus.Float32, locus.BFloat16} {
		x := r.device.Key(locus.NewKey(uint64(17 + r.me))).Rand(n).Cast(dt)
		sum := make([]float64, n)
		for k := range r.size {
			v := locus.ToSlice[float32](locus.CPU().Key(locus.NewKey(uint64(17 + k))).Rand(n).Cast(dt).Cast(locus.Float32))
			for i := range sum {
				sum[i] += float64(v[i])
			}
		}
		got, err := r.g.AllReduce(r.ctx, x, collective.Sum).Wait()
		if !r.check("AllReduce of many", err) {
			return
		}
		again, err := r.g.AllReduce(r.ctx, x, collective.Sum).Wait()
		if !r.check("AllReduce of many", err) {
			return
		}
		v, w := locus.ToSlice[float32](got.Cast(locus.Float32)), locus.ToSlice[float32](again.Cast(locus.Float32))
		if !slices.Equal(v, w) {
			r.failf("a sum of %d %s is not the same the second time", n, dt)
		}
		for i := range v {
			if !(math.Abs(float64(v[i])-sum[i]) <= tolerance[dt]*float64(r.size)*sum[i]) {
				r.failf("a sum of %d %s: element %d is %v, want %v", n, dt, i, v[i], sum[i])
				break
			}
		}
		all, err := r.g.AllGather(r.ctx, got).Wait()
		if !r.check("AllGather of many", err) {
			return
		}
		u := locus.ToSlice[float32](all.Cast(locus.Float32))
		for k := range r.size {
			if !slices.Equal(u[k*n:(k+1)*n], v) {
				r.failf("rank %d has other bits in a sum of %d %s", k, n, dt)
			}
		}
		copied, err := r.g.Broadcast(r.ctx, x, r.size-1).Wait()
		if r.check("Broadcast of many", err) {
			want := locus.ToSlice[float32](locus.CPU().Key(locus.NewKey(uint64(17 + r.size - 1))).Rand(n).Cast(dt).Cast(locus.Float32))
			if !slices.Equal(locus.ToSlice[float32](copied.Cast(locus.Float32)), want) {
				r.failf("a broadcast of %d %s is not what was sent", n, dt)
			}
		}
	}
}

// messages exchanges tensors between neighbors, both ways at a time, in order.
func (r *rank) messages() {
	if r.size == 1 {
		return
	}
	next, prev := (r.me+1)%r.size, (r.me+r.size-1)%r.size
	shapes := [][]int{{3}, {}, {0}, {70_001}}
	var sent, received []*collective.Pending
	for _, s := range shapes {
		x := r.tensor(locus.Float32, s, r.me)
		sent = append(sent, r.g.Send(r.ctx, x, next), r.g.Send(r.ctx, x, prev))
		received = append(received, r.g.Recv(r.ctx, x, prev), r.g.Recv(r.ctx, x, next))
	}
	for i, p := range received {
		s := shapes[i/2]
		from := prev
		if i%2 == 1 {
			from = next
		}
		got, err := p.Wait()
		r.same(fmt.Sprintf("Recv %v from %d", s, from), got, err, locus.Float32, s, func(i int) float64 { return number(locus.Float32, from, i) }, true)
	}
	for _, p := range sent {
		if got, err := p.Wait(); r.check("Send", err) && got != nil {
			r.failf("Send returned a tensor")
		}
	}
}

// several starts collectives without waiting for those before.
func (r *rank) several() {
	var pending []*collective.Pending
	for i := range 20 {
		pending = append(pending, r.g.AllReduce(r.ctx, r.device.Full(float64(i*(r.me+1)), 10+i), collective.Sum))
	}
	sum := float64(r.size * (r.size + 1) / 2)
	for i, p := range pending {
		got, err := p.Wait()
		r.same("AllReduce among several", got, err, locus.Float32, []int{10 + i}, func(int) float64 { return float64(i) * sum }, true)
		if !p.Done() {
			r.failf("a collective that was waited for is not done")
		}
	}
}

// strided reduces views that do not lie in order, and operands in a scope that is closed
// after Wait.
func (r *rank) strided() {
	locus.Scoped(func(s *locus.Scope) {
		x := s.Use(r.tensor(locus.Float32, []int{4, 6}, r.me))
		got, err := r.g.AllReduce(r.ctx, x.T().Slice(locus.R(1, 5, 2)), collective.Sum).Wait()
		if !r.check("AllReduce of a view", err) {
			return
		}
		s.Close()
		r.same("AllReduce of a view", got, nil, locus.Float32, []int{2, 4}, func(i int) float64 {
			return r.reduced(locus.Float32, collective.Sum, i%4*6+1+i/4*2)
		}, true)
	})
}

// wrong makes mistakes, the same on all ranks, after which the group goes on.
func (r *rank) wrong() {
	x := r.device.Ones(4)
	freed := r.device.Ones(4)
	freed.Free()
	ints := r.device.As(locus.Int64).Ones(4)
	bools := x.Gt(0)
	for _, c := range []struct {
		name string
		p    *collective.Pending
		kind error
	}{
		{"nil", r.g.AllReduce(r.ctx, nil, collective.Sum), locus.ErrArgument},
		{"new(Tensor)", r.g.AllReduce(r.ctx, new(locus.Tensor), collective.Sum), locus.ErrArgument},
		{"freed", r.g.AllReduce(r.ctx, freed, collective.Sum), locus.ErrFreed},
		{"no op", r.g.AllReduce(r.ctx, x, 99), locus.ErrArgument},
		{"mean of integers", r.g.AllReduce(r.ctx, ints, collective.Mean), locus.ErrDType},
		{"sum of bools", r.g.ReduceScatter(r.ctx, bools, collective.Sum), locus.ErrDType},
		{"root too large", r.g.Broadcast(r.ctx, x, r.size), locus.ErrArgument},
		{"root below 0", r.g.Reduce(r.ctx, x, collective.Sum, -1), locus.ErrArgument},
		{"to itself", r.g.Send(r.ctx, x, r.me), locus.ErrArgument},
		{"from nobody", r.g.Recv(r.ctx, x, -1), locus.ErrArgument},
		{"scalar", r.g.ReduceScatter(r.ctx, x.Sum(), collective.Sum), locus.ErrShape},
		{"rows", r.g.AllGatherParts(r.ctx, r.device.Ones(1000), 3), locus.ErrShape},
	} {
		var e *locus.Error
		if _, err := c.p.Wait(); !errors.Is(err, c.kind) || !errors.As(err, &e) {
			r.failf("%s: the error is %v, want a %v", c.name, err, c.kind)
		}
	}
	got, err := r.g.AllReduce(r.ctx, x, collective.Sum).Wait()
	r.same("AllReduce after wrong use", got, err, locus.Float32, []int{4}, func(int) float64 { return float64(r.size) }, true)
}
