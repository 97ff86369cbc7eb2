// Command unscoped compares plain code, whose garbage the collector finds, with
// the same code in a scope: time per turn and peak memory, in turns in one process.
package main

import (
	"flag"
	"fmt"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

func main() {
	var device locus.Device
	flag.TextVar(&device, "device", locus.TryGPU(), "where to run")
	n := flag.Int("n", 16<<20, "elements of a large tensor")
	seconds := flag.Float64("seconds", 0.5, "time per case and turn")
	turns := flag.Int("turns", 3, "turns")
	flag.Parse()

	x, y := device.Rand(*n), device.Rand(*n)
	net := nn.To(nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)), device)
	opt := optim.SGD(nn.Parameters(net), 0.1, optim.SGDOptions{})
	images, labels := device.Rand(256, 784), device.Randint(0, 10, 256)
	for _, c := range []struct {
		name string
		run  func(use func(*locus.Tensor) *locus.Tensor)
	}{
		{"x + y", func(use func(*locus.Tensor) *locus.Tensor) { use(x).Add(y) }},
		{"(x+2).exp()*y", func(use func(*locus.Tensor) *locus.Tensor) { use(x).Add(2).Exp().Mul(y) }},
		{"MLP, Backward and Step", func(use func(*locus.Tensor) *locus.Tensor) {
			locus.CrossEntropy(net.Forward(use(images)), labels, locus.CrossEntropyOptions{}).Backward()
			opt.Step()
		}},
	} {
		plain := func() { c.run(func(t *locus.Tensor) *locus.Tensor { return t }) }
		scoped := func() { locus.Scoped(func(s *locus.Scope) { c.run(s.Use) }) }
		best, peak := [2]float64{1e9, 1e9}, [2]int64{}
		var collections, waited float64 // of plain code, per turn
		for range *turns {
			for i, f := range []func(){scoped, plain} {
				m := measure(device, f, *seconds)
				best[i], peak[i] = min(best[i], m.seconds), max(peak[i], m.peak)
				collections, waited = m.collections, m.waited
			}
		}
		fmt.Printf("%-24s scoped %9.1f µs %8.1f MiB, plain %9.1f µs %8.1f MiB: %.2f × the time, %.2f × the peak; %.3f collections, %.1f µs waited per turn\n", c.name,
			best[0]*1e6, float64(peak[0])/(1<<20), best[1]*1e6, float64(peak[1])/(1<<20), best[1]/best[0], float64(peak[1])/float64(peak[0]), collections, waited*1e6)
	}
}

// figures are those of a turn, and the peak of all.
type figures struct {
	seconds     float64
	peak        int64
	collections float64
	waited      float64 // seconds, for collections
}

func measure(d locus.Device, f func(), seconds float64) figures {
	d.Collect()
	for range 30 { // the pool learns how much garbage it has to allow
		f()
	}
	check(d.Synchronize())
	d.ResetPeak()
	before := d.MemoryStats()
	start, n := time.Now(), 0
	for time.Since(start).Seconds() < seconds {
		for range 10 {
			f()
		}
		check(d.Synchronize())
		n += 10
	}
	turns := float64(n)
	took := time.Since(start).Seconds()
	s := d.MemoryStats()
	return figures{took / turns, s.Peak, float64(s.Collections-before.Collections) / turns, (s.Waited - before.Waited).Seconds() / turns}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
