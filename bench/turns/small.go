//go:build unix

package main

import (
	"fmt"
	"log"
	"os"
	"syscall"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// computed returns the microseconds that this process has computed so far.
func computed() float64 {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		log.Fatal(err)
	}
	return float64(r.Utime.Sec+r.Stime.Sec)*1e6 + float64(r.Utime.Usec+r.Stime.Usec)
}

// least prints the least time that a call of f has taken, over nine rounds of n calls.
func least(name string, n int, f func()) {
	b := 1e18
	f()
	for range 9 {
		s := computed()
		for range n {
			f()
		}
		b = min(b, (computed()-s)/float64(n))
	}
	fmt.Printf("%s\t%.3f µs\n", name, b)
}

func small() {
	if os.Getenv("LOCUS_THREADS") != "1" || os.Getenv("GOMAXPROCS") != "1" {
		log.Fatal("turns: threads that wait count as computing: set LOCUS_THREADS=1 and GOMAXPROCS=1")
	}
	d := locus.CPU()
	a, c := d.Rand(2, 3), d.Rand(2, 3)
	scoped := func(n int, f func(x *locus.Tensor)) func() {
		return func() {
			locus.Scoped(func(s *locus.Scope) {
				x := s.Use(a)
				for range n {
					f(x)
				}
			})
		}
	}
	least("add (2, 3), in no scope", 50000, func() { a.Add(c) })
	least("100 adds (2, 3) in a scope", 500, scoped(100, func(x *locus.Tensor) { x.Add(c) }))
	least("100 x·2 (2, 3) in a scope", 500, scoped(100, func(x *locus.Tensor) { x.Mul(2) }))
	least("100 exp (2, 3) in a scope", 500, scoped(100, func(x *locus.Tensor) { x.Exp() }))
	least("100 sums (2, 3) in a scope", 500, scoped(100, func(x *locus.Tensor) { x.Sum(1) }))
	least("100 transposes in a scope", 500, scoped(100, func(x *locus.Tensor) { x.T() }))
	m := d.Rand(32, 32)
	least("100 products 32×32 in a scope", 100, func() {
		locus.Scoped(func(s *locus.Scope) {
			x := s.Use(m)
			for range 100 {
				x.MatMul(x)
			}
		})
	})
	w := d.Rand(3, 3).RequireGrad()
	least("gradient of (x·w).Sum(), 2×3", 3000, func() {
		locus.Scoped(func(s *locus.Scope) { locus.GradOf(s.Use(a).MatMul(w).Sum(), w) })
	})
	net := nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
	params := nn.Parameters(net)
	opt := optim.SGD(params, 0.1, optim.SGDOptions{})
	step := func(x, y *locus.Tensor) func() {
		return func() {
			locus.Scoped(func(s *locus.Scope) {
				loss := locus.CrossEntropy(net.Forward(s.Use(x)), y, locus.CrossEntropyOptions{})
				opt.StepWith(locus.Grad([]*locus.Tensor{loss}, nn.Values(params), locus.FreeGraph))
			})
		}
	}
	least("MLP step, batch 1", 200, step(d.Rand(1, 784), d.Randint(0, 10, 1)))
	least("MLP step, batch 256", 8, step(d.Rand(256, 784), d.Randint(0, 10, 256)))
}
