package main

import (
	"math"
	"testing"
)

func TestAllReduce(t *testing.T) {
	l := link{bytes: 100e9, latency: 5e-6}
	c := cluster{gpus: 8, inside: l, outside: link{bytes: 10e9, latency: 10e-6}}
	for _, x := range []struct {
		n    int
		want float64
	}{
		{1, 0},
		{2, 1e9/100e9 + 2*5e-6},         // each sends half twice
		{8, 14.0/8*1e9/100e9 + 14*5e-6}, // the ring of a server
		{16, 14.0/8*1e9/100e9 + 14*5e-6 + 125e6/10e9 + 20e-6}, // and an eighth between two servers
	} {
		if got := c.allReduce(1e9, x.n); math.Abs(got-x.want) > 1e-9 {
			t.Errorf("over %d GPUs: %v, want %v", x.n, got, x.want)
		}
	}
	// Few bytes between many servers go over trees.
	if r, s := ring(1e3, 128, l), tree(1e3, 128, l); s >= r {
		t.Errorf("a tree takes %v, a ring %v", s, r)
	}
}

func TestStep(t *testing.T) {
	fast := cluster{gpus: 8, inside: link{1e15, 0}, outside: link{1e15, 0}}
	slow := cluster{gpus: 8, inside: link{1e9, 1e-5}, outside: link{1e9, 1e-5}}
	w := work{step: 10e-3, update: 1e-3, gradients: 100e6}
	if e := w.efficiency(fast, 64); math.Abs(e-1) > 1e-3 {
		t.Errorf("with links that take no time the efficiency is %v", e)
	}
	if e := w.efficiency(slow, 1); math.Abs(e-1) > 1e-12 {
		t.Errorf("alone it is %v", e)
	}
	last := 1.0
	for n := 2; n <= 1024; n *= 2 {
		e := w.efficiency(slow, n)
		if e > last || e <= 0 {
			t.Errorf("%d GPUs: %v after %v", n, e, last)
		}
		last = e
	}
	// What links cannot hide is all of the gradients' time but what backward covers.
	if got, want := w.time(slow, 2), 3e-3+100e6/1e9+1e-3; got < want || got > want+6e-3 {
		t.Errorf("bound by links: %v, want about %v", got, want)
	}
}
