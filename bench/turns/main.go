// Command turns times what people run most: a small add, products, a step of an MLP.
// Built at two commits and run in turns on one machine, it tells what a change costs.
//
//	turns          on the first GPU
//	turns cpu      on the CPU
//	turns small    small ops on one thread of the CPU, by the time that the process has
//	               computed: for machines that do other work meanwhile
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

func best(n int, f func(), sync func()) float64 {
	b := 1e9
	f()
	sync()
	for range 7 {
		s := time.Now()
		for range n {
			f()
		}
		sync()
		b = min(b, time.Since(s).Seconds()/float64(n)*1e6)
	}
	return b
}

func main() {
	d := locus.TryGPU()
	if len(os.Args) > 1 {
		d = locus.CPU()
		if os.Args[1] == "small" {
			small()
			return
		}
	}
	sync := func() { d.Synchronize() }
	a, c := d.Rand(2, 3), d.Rand(2, 3)
	add := best(20000, func() { a.Add(c) }, sync)
	scoped := best(200, func() {
		locus.Scoped(func(s *locus.Scope) {
			x := s.Use(a)
			for range 100 {
				x.Add(c)
			}
		})
	}, sync) / 100
	m := d.Rand(100, 100)
	prod := best(1, func() {
		locus.Scoped(func(s *locus.Scope) {
			x := s.Use(m)
			for range 1000 {
				x.MatMul(x).Norm()
			}
		})
	}, sync) / 1000
	net := nn.To(nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)), d)
	params := nn.Parameters(net)
	opt := optim.SGD(params, 0.1, optim.SGDOptions{})
	x, y := d.Rand(256, 784), d.Randint(0, 10, 256)
	mlp := best(100, func() {
		locus.Scoped(func(s *locus.Scope) {
			loss := locus.CrossEntropy(net.Forward(s.Use(x)), y, locus.CrossEntropyOptions{})
			opt.StepWith(locus.Grad([]*locus.Tensor{loss}, nn.Values(params), locus.FreeGraph))
		})
	}, sync)
	fmt.Printf("add %.3f µs, scoped add %.3f, product+norm %.2f, MLP step %.1f\n", add, scoped, prod, mlp)
}
