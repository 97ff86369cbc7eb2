// Command parallel shows work that overlaps although the program is one goroutine that
// calls one op after the other: each GPU has a queue of its own, so independent work
// on two GPUs runs at the same time, and data goes to a GPU while it computes.
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"time"

	"github.com/locusml/locus"
)

func main() {
	if err := run(os.Stdout, 512, 8, 5); err != nil {
		log.Fatal(err)
	}
}

func run(w io.Writer, n, products, rounds int) error {
	if k := locus.NumGPUs(); k < 2 {
		fmt.Fprintf(w, "%d GPU(s) found; adding virtual ones, which share this machine's cores.\nFor one core each: LOCUS_THREADS=1\n\n", k)
		locus.AddVirtualGPUs(2-k, 512<<20)
	}
	first, second := locus.GPU(0), locus.GPU(1)
	if err := computing(w, first, second, n, products, rounds); err != nil {
		return err
	}
	return copying(w, first, n, products, rounds)
}

// computing runs the same products on one device after the other, and on both at once.
func computing(w io.Writer, first, second locus.Device, n, products, rounds int) error {
	a := first.Key(locus.NewKey(1)).Rand(n, n)
	b := a.CopyTo(second)
	work := func(x *locus.Tensor) {
		locus.Scoped(func(s *locus.Scope) {
			for range products {
				s.Use(x).MatMul(x)
			}
		})
	}
	times, err := medians(rounds,
		func() error { // a wait in between
			work(a)
			if err := first.Synchronize(); err != nil {
				return err
			}
			work(b)
			return second.Synchronize()
		},
		func() error { // both are queued before either is done
			work(a)
			work(b)
			if err := first.Synchronize(); err != nil {
				return err
			}
			return second.Synchronize()
		})
	if err != nil {
		return err
	}
	line := locus.Profile(func() { work(a); work(b) })
	fmt.Fprintf(w, "%d products of %d×%d on each of %s and %s\n", products, n, n, first, second)
	fmt.Fprintf(w, "  one device after the other  %10v\n  both queued, then a wait    %10v   %.2f times as fast\n", times[0].Round(time.Microsecond), times[1].Round(time.Microsecond), times[0].Seconds()/times[1].Seconds())
	fmt.Fprintf(w, "  by the timeline, both were at work in %.0f %% of the time of the busier one\n\n", 100*overlap(line, first, second))
	return nil
}

// overlap is the part of the busier device's time in which the other was busy too.
func overlap(t *locus.Timeline, a, b locus.Device) float64 {
	return t.Overlap(a, b).Seconds() / max(t.Busy(a), t.Busy(b)).Seconds()
}

// copying sends batches to a GPU that computes meanwhile.
func copying(w io.Writer, gpu locus.Device, n, products, rounds int) error {
	x := gpu.Key(locus.NewKey(1)).Rand(n, n)
	// Page-locked memory, from which a GPU fetches by itself.
	batch := locus.CPU().Key(locus.NewKey(2)).Rand(16*n, n).Pin()
	compute := func(s *locus.Scope) {
		for range products {
			s.Use(x).MatMul(x)
		}
	}
	send := func(s *locus.Scope) {
		for range products {
			s.Use(batch).To(gpu) // does not wait
		}
	}
	in := func(fs ...func(*locus.Scope)) func() error {
		return func() error {
			s := locus.NewScope()
			defer s.Close()
			for _, f := range fs {
				f(s)
			}
			return gpu.Synchronize()
		}
	}
	apart := func() error {
		if err := in(compute)(); err != nil {
			return err
		}
		return in(send)()
	}
	times, err := medians(rounds, in(compute), in(send), apart, in(send, compute))
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%d copies of %.0f MB to %s beside %d products\n", products, float64(batch.Bytes())/1e6, gpu, products)
	for i, name := range []string{"products alone", "copies alone", "one, a wait, the other", "both queued"} {
		fmt.Fprintf(w, "  %-26s  %10v\n", name, times[i].Round(time.Microsecond))
	}
	fmt.Fprintf(w, "  both at once: %.2f times as fast as apart\n", times[2].Seconds()/times[3].Seconds())
	return nil
}

// medians runs functions in turn, after one run of each that does not count.
func medians(rounds int, fs ...func() error) ([]time.Duration, error) {
	all := make([][]time.Duration, len(fs))
	for round := range rounds + 1 {
		for i, f := range fs {
			start := time.Now()
			if err := f(); err != nil {
				return nil, err
			}
			if round > 0 {
				all[i] = append(all[i], time.Since(start))
			}
		}
	}
	result := make([]time.Duration, len(fs))
	for i, l := range all {
		slices.Sort(l)
		result[i] = l[len(l)/2]
	}
	return result, nil
}
