package collectivetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
)

// Messages tries messages between all ranks on a device, each large enough to go from card to
// card where that is possible, with collectives in between. It returns what was wrong.
//
// queued says that a collective is done for the host when its device has it queued.
func Messages(ctx context.Context, g *collective.Group, d locus.Device, seed uint64, queued bool) error {
	r := &rank{ctx: ctx, g: g, size: g.Size(), me: g.Rank(), device: d}
	r.types()
	r.viewed()
	r.mixed()
	r.bothSendFirst()
	for i := range uint64(4) {
		r.shuffled(rand.New(rand.NewPCG(seed+i, uint64(r.me))))
	}
	r.crossed(queued)
	r.check("Barrier", g.Barrier(ctx))
	return errors.Join(r.errs...)
}

// others calls f for each other rank.
func (r *rank) others(f func(k int)) {
	for k := range r.size {
		if k != r.me {
			f(k)
		}
	}
}

// wait waits for all of a list.
func (r *rank) wait(what string, list []*collective.Pending) {
	for _, p := range list {
		_, err := p.Wait()
		r.check(what, err)
	}
}

// types exchanges tensors of all types with all ranks, both ways at a time.
func (r *rank) types() {
	shape := []int{300_001}
	for _, dt := range dtypes {
		x := r.tensor(dt, shape, r.me)
		var sent []*collective.Pending
		r.others(func(k int) { sent = append(sent, r.g.Send(r.ctx, x, k)) })
		r.others(func(k int) {
			got, err := r.g.Recv(r.ctx, x, k).Wait()
			r.same(fmt.Sprintf("Recv of %s from %d", dt, k), got, err, dt, shape, func(i int) float64 { return number(dt, k, i) }, true)
		})
		r.wait("Send", sent)
	}
}

// viewed sends what does not lie in order and is freed when Wait has returned.
func (r *rank) viewed() {
	const n = 300
	r.others(func(k int) {
		x := r.tensor(locus.Float32, []int{n, n}, r.me)
		sent := r.g.Send(r.ctx, x.T(), k)
		got, err := r.g.Recv(r.ctx, x, k).Wait()
		r.wait("Send of a view", []*collective.Pending{sent})
		x.Free()
		r.same(fmt.Sprintf("Recv of a view from %d", k), got, err, locus.Float32, []int{n, n}, func(i int) float64 { return number(locus.Float32, k, i%n*n+i/n) }, true)
	})
}

// mixed sends between the device and main memory, in turns with messages within the device.
func (r *rank) mixed() {
	shape, device := []int{70_000}, r.device
	defer func() { r.device = device }()
	for turn := range 6 {
		from, to := device, device
		switch turn % 3 {
		case 1:
			from = locus.CPU()
		case 2:
			to = locus.CPU()
		}
		r.device = from
		x := r.tensor(locus.Float32, shape, r.me+turn)
		var sent []*collective.Pending
		r.others(func(k int) { sent = append(sent, r.g.Send(r.ctx, x, k)) })
		r.device = to
		like := r.tensor(locus.Float32, shape, 0)
		r.others(func(k int) {
			got, err := r.g.Recv(r.ctx, like, k).Wait()
			r.same(fmt.Sprintf("Recv on %s from %d on %s", to, k, from), got, err, locus.Float32, shape, func(i int) float64 { return number(locus.Float32, k+turn, i) }, true)
		})
		r.wait("Send", sent)
	}
}

// bothSendFirst waits for a Send before it calls Recv, on both sides.
func (r *rank) bothSendFirst() {
	if other := r.me ^ 1; other < r.size {
		for turn := range 3 {
			shape := []int{70_000 << turn} // 0.3 to 1.1 MB
			x := r.tensor(locus.Float32, shape, r.me+turn)
			r.wait("Send before Recv", []*collective.Pending{r.g.Send(r.ctx, x, other)})
			got, err := r.g.Recv(r.ctx, x, other).Wait()
			r.same("Recv after Send", got, err, locus.Float32, shape, func(i int) float64 { return number(locus.Float32, other+turn, i) }, true)
		}
	}
}

// shuffled starts messages and collectives in an order of this rank's own, but for those that
// must be in order, and then waits for them.
func (r *rank) shuffled(random *rand.Rand) {
	const each, n = 4, 70_000
	type series struct {
		kind, peer, next int
	}
	all := []*series{{}}
	r.others(func(k int) { all = append(all, &series{kind: 1, peer: k}, &series{kind: 2, peer: k}) })
	type started struct {
		*collective.Pending
		what string
		want float64
	}
	var list []started
	for len(all) > 0 {
		at := random.IntN(len(all))
		s := all[at]
		value := float64(10*s.next + r.me)
		switch s.kind {
		case 0:
			sum := float64(10*s.next*r.size + r.size*(r.size-1)/2)
			list = append(list, started{r.g.AllReduce(r.ctx, r.device.Full(value, n), collective.Sum), "AllReduce among messages", sum})
		case 1:
			list = append(list, started{r.g.Send(r.ctx, r.device.Full(value, n), s.peer), "Send among collectives", -1})
		case 2:
			list = append(list, started{r.g.Recv(r.ctx, r.device.Zeros(n), s.peer), "Recv among collectives", float64(10*s.next + s.peer)})
		}
		if s.next++; s.next == each {
			all = append(all[:at], all[at+1:]...)
		}
	}
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for _, s := range list {
		got, err := s.Wait()
		if s.want >= 0 {
			r.same(s.what, got, err, locus.Float32, []int{n}, func(int) float64 { return s.want }, true)
		} else {
			r.check(s.what, err)
		}
	}
}

// crossed has two ranks wait for a message and for a collective in different order, in the
// ways in which neither needs the other's second call for its first.
func (r *rank) crossed(queued bool) {
	const few = 70_000
	sum := func() *collective.Pending {
		return r.g.AllReduce(r.ctx, r.device.Full(float64(r.me+1), few), collective.Sum)
	}
	added := func(what string, p *collective.Pending) {
		got, err := p.Wait()
		r.same(what, got, err, locus.Float32, []int{few}, func(int) float64 { return float64(r.size * (r.size + 1) / 2) }, true)
	}
	received := func(what string, p *collective.Pending, n int) {
		got, err := p.Wait()
		r.same(what, got, err, locus.Float32, []int{n}, func(int) float64 { return 7 }, true)
	}
	added("AllReduce", sum())                 // the next one of this kind does not wait for the others' word
	for _, n := range []int{few, 1_500_000} { // the second is more than a connection takes in
		like := r.device.Zeros(n)
		sending := func(to int) []*collective.Pending {
			return []*collective.Pending{r.g.Send(r.ctx, r.device.Full(7, n), to)}
		}
		for turn := range 6 {
			r.check("Barrier", r.g.Barrier(r.ctx))
			other, first := r.me^1, (r.me+turn)%2 == 0
			switch {
			case other >= r.size && (turn < 4 || queued):
				added("AllReduce", sum())
			case other >= r.size:
			case turn < 2 && first: // a Send while a collective is under way
				p := sum()
				r.wait("Send behind AllReduce", sending(other))
				added("AllReduce before Send", p)
			case turn < 2:
				received("Recv before AllReduce", r.g.Recv(r.ctx, like, other), n)
				added("AllReduce behind Recv", sum())
			case turn < 4 && first: // a Recv while a collective is under way
				p := sum()
				q := r.g.Recv(r.ctx, like, other)
				added("AllReduce before Recv", p)
				received("Recv behind AllReduce", q, n)
			case first && queued: // a Recv behind what the card does with the sum
				y, err := sum().Wait()
				if r.check("AllReduce before Recv", err) {
					z := y.Add(1)
					received("Recv behind the use of a sum", r.g.Recv(r.ctx, like, other), n)
					z.Free()
				}
			case turn < 4 || queued:
				r.wait("Send before AllReduce", sending(other))
				added("AllReduce behind Send", sum())
			}
		}
	}
}
