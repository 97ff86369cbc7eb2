// Message measures what a message of float32 numbers takes from one rank to another, over the
// ranks that a launcher has started, and checks the values:
//
//	go build -o message ./bench/message
//	locus launch -n 2 ./message                                          main memory, over TCP
//	locus launch -n 2 ./message -device gpu:0                            GPUs, by NCCL where it serves them
//	LOCUS_COLLECTIVE=ring locus launch -n 2 ./message -device gpu:0      GPUs, by way of main memory
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"slices"
	"strings"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
)

var (
	n      = flag.Int("n", 25_000_000, "float32 numbers")
	reps   = flag.Int("reps", 20, "times")
	device = flag.String("device", "cpu", "where the tensors are")
)

const warm = 10 // pairs of cards get to know each other meanwhile

func main() {
	flag.Parse()
	d, err := locus.ParseDevice(*device)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	g, err := collective.Join(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	if g.Size() < 2 {
		log.Fatal("a message takes two ranks: start it with locus launch -n 2")
	}
	r := &rank{ctx, g, d, d.Full(float64(g.Rank()+1), *n)}
	back, at := r.measure(r.pingPong)
	next, _ := r.measure(r.toTheNext)
	way := "main memory"
	if r.byNCCL() {
		way = "NCCL"
	}
	if g.Rank() == 0 {
		mb := float64(*n) * 4 / 1e6
		ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
		fmt.Printf("%s, %d ranks, %.1f MB by %s: one way, half of there and back, median %.3f ms (best %.3f, %.1f GB/s); every rank to the next at a time %.3f ms\n",
			d, g.Size(), mb, way, ms(back)/2, ms(at)/2, 2*mb/1e3/at.Seconds(), ms(next))
	}
}

// rank is this process.
type rank struct {
	ctx context.Context
	g   *collective.Group
	d   locus.Device
	x   *locus.Tensor
}

func (r *rank) check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// measure returns the median and the best time of f, which all ranks begin together.
func (r *rank) measure(f func() (y *locus.Tensor, from int)) (median, best time.Duration) {
	var times []time.Duration
	for i := range warm + *reps {
		r.check(errors.Join(r.d.Synchronize(), r.g.Barrier(r.ctx)))
		started := time.Now()
		y, from := f()
		r.check(r.d.Synchronize())
		if i >= warm {
			times = append(times, time.Since(started))
		}
		if y != nil {
			if lo, hi, want := y.Min().Item(), y.Max().Item(), float64(from+1); lo != want || hi != want {
				log.Fatalf("%v to %v have come, not %v", lo, hi, want)
			}
			y.Free()
		}
	}
	slices.Sort(times)
	return times[len(times)/2], times[0]
}

// pingPong sends rank 0's tensor to rank 1 and back; others have nothing to do.
func (r *rank) pingPong() (y *locus.Tensor, from int) {
	switch r.g.Rank() {
	case 0:
		sent := r.g.Send(r.ctx, r.x, 1)
		y, err := r.g.Recv(r.ctx, r.x, 1).Wait()
		r.check(err)
		_, err = sent.Wait()
		r.check(err)
		return y, 0
	case 1:
		y, err := r.g.Recv(r.ctx, r.x, 0).Wait()
		r.check(err)
		_, err = r.g.Send(r.ctx, y, 0).Wait()
		r.check(err)
		return y, 0
	}
	return nil, 0
}

// toTheNext sends from each rank to the next.
func (r *rank) toTheNext() (y *locus.Tensor, from int) {
	size, me := r.g.Size(), r.g.Rank()
	sent := r.g.Send(r.ctx, r.x, (me+1)%size)
	y, err := r.g.Recv(r.ctx, r.x, (me+size-1)%size).Wait()
	r.check(err)
	_, err = sent.Wait()
	r.check(err)
	return y, (me + size - 1) % size
}

// byNCCL sends once more and reports whether that went from card to card.
func (r *rank) byNCCL() bool {
	by := false
	for _, s := range locus.Profile(func() {
		r.toTheNext()
		r.check(r.d.Synchronize())
		time.Sleep(50 * time.Millisecond) // it is noted when the card has done it
	}).Spans {
		by = by || s.Name == "Send" && strings.HasSuffix(s.Detail, ", by NCCL")
	}
	return by
}
