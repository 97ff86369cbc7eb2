// Allreduce measures an all-reduce of float32 numbers over the ranks that a launcher has
// started, and checks the sum:
//
//	go build -o allreduce ./bench/allreduce
//	locus launch -n 2 ./allreduce                    the ring
//	mpirun -np 2 ./allreduce                         the MPI library
//	mpirun -np 2 ./allreduce-c                       the same from C: mpicc -O2 -o allreduce-c bench/allreduce.c
//	locus launch -n 2 ./allreduce -device gpu:0      NCCL, beside bench/allreduce_nccl.c
//
// bench/allreduce.sh does all of these in turns.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/collective"
)

func main() {
	n := flag.Int("n", 25_000_000, "float32 numbers")
	reps := flag.Int("reps", 20, "times")
	device := flag.String("device", "cpu", "where the tensors are")
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
	x, one := d.Full(float64(g.Rank()+1), *n), d.Ones(1)
	sum := func(x *locus.Tensor) (y *locus.Tensor, queued time.Duration) {
		started := time.Now()
		y, err := g.AllReduce(ctx, x, collective.Sum).Wait()
		queued = time.Since(started)
		if err == nil {
			err = d.Synchronize()
		}
		if err != nil {
			log.Fatal(err)
		}
		return y, queued
	}
	const warm = 3
	var times, queues []time.Duration
	for i := range warm + *reps {
		none, _ := sum(one) // a barrier, as in C: after g.Barrier the ranks start further apart
		none.Free()
		started := time.Now()
		y, queued := sum(x)
		if i >= warm {
			times, queues = append(times, time.Since(started)), append(queues, queued)
		}
		if v, want := y.Max().Item(), float64(g.Size()*(g.Size()+1)/2); v != want || y.Min().Item() != want {
			log.Fatalf("a sum is %v, not %v", v, want)
		}
		y.Free()
	}
	slices.Sort(times)
	slices.Sort(queues)
	if g.Rank() == 0 {
		ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
		fmt.Printf("%s, %d ranks, %.0f MB: best %.3f ms, median %.3f ms, of which Wait had returned after %.3f\n", g.Engine(d), g.Size(), float64(*n)*4/1e6,
			ms(times[0]), ms(times[len(times)/2]), ms(queues[len(queues)/2]))
	}
}
