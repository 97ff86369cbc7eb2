package sample

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// poolings by the sizes of x and of the result's last two axes.
var poolings = []struct {
	x      [4]int
	out    [2]int
	a      op.Pool
	layout Layout
}{
	{[4]int{1, 1, 1, 1}, [2]int{1, 1}, pool(1, 1, 0, 1, false), Contiguous},
	{[4]int{1, 2, 4, 4}, [2]int{2, 2}, pool(2, 2, 0, 1, false), Contiguous},
	{[4]int{2, 1, 5, 7}, [2]int{3, 5}, pool(3, 1, 0, 1, false), Contiguous},
	{[4]int{2, 2, 5, 6}, [2]int{3, 3}, pool(3, 2, 1, 1, false), Transposed},
	{[4]int{2, 2, 5, 6}, [2]int{3, 3}, pool(2, 2, 0, 1, true), Mixed},
	{[4]int{1, 1, 6, 6}, [2]int{3, 3}, pool(3, 2, 0, 1, true), Contiguous}, // the last windows stick out
	{[4]int{1, 2, 3, 3}, [2]int{2, 2}, pool(2, 2, 1, 1, true), Swapped},
	{[4]int{0, 2, 4, 4}, [2]int{2, 2}, pool(2, 2, 0, 1, false), Contiguous},
	{[4]int{1, 1, 5, 5}, [2]int{2, 2}, pool(2, 3, 0, 1, false), BroadcastFirst}, // steps over elements
	{[4]int{1, 3, 4, 6}, [2]int{2, 4}, op.Pool{Kernel: [2]int{3, 2}, Stride: [2]int{2, 2}, Pad: [2]int{1, 1}, Dilation: [2]int{1, 1}}, Reversed},
	{[4]int{4, 8, 13, 17}, [2]int{6, 8}, pool(3, 2, 0, 1, false), Contiguous},
	{[4]int{4, 16, 28, 28}, [2]int{14, 14}, pool(2, 2, 0, 1, false), Contiguous},
	{[4]int{2, 3, 7, 6}, [2]int{3, 3}, pool(2, 2, 0, 1, false), Contiguous}, // a row is left over
	{[4]int{2, 2, 7, 8}, [2]int{4, 4}, pool(2, 2, 0, 1, true), Contiguous},  // the last windows have one row
	{[4]int{1, 2, 8, 7}, [2]int{2, 2}, pool(3, 3, 0, 1, false), Contiguous}, // both are left over
	// Dilation is only for maxima: these come last.
	{[4]int{1, 2, 7, 7}, [2]int{3, 3}, pool(3, 1, 0, 2, false), Contiguous},
	{[4]int{2, 1, 7, 8}, [2]int{3, 3}, pool(3, 2, 1, 2, false), Stepped},
}

func pool(kernel, stride, pad, dilation int, ceil bool) op.Pool {
	return op.Pool{Kernel: [2]int{kernel, kernel}, Stride: [2]int{stride, stride}, Pad: [2]int{pad, pad},
		Dilation: [2]int{dilation, dilation}, CeilMode: ceil}
}

func (b *builder) pooling() {
	for _, p := range poolings {
		x, out := p.x[:], []int{p.x[0], p.x[1], p.out[0], p.out[1]}
		if op.Elements(x) >= bigFrom && b.d != dtype.Float32 {
			continue
		}
		dilated := p.a.Dilation != [2]int{1, 1}
		switch b.def.ID {
		case op.MaxPool, op.MaxPoolIndices:
			t := b.d
			if b.def.ID == op.MaxPoolIndices {
				t = dtype.Int64
			}
			for _, v := range []Domain{Distinct, Few, Gaps} {
				b.addTyped(p.a, t, out, b.in(x, p.layout, v))
			}
		case op.MaxPoolGrad:
			for _, v := range []Domain{Distinct, Few} {
				b.add(p.a, x, b.in(out, p.layout, Ordinary), b.in(x, p.layout, v))
			}
		case op.AvgPool, op.AvgPoolGrad:
			if dilated {
				continue
			}
			for _, count := range []bool{false, true} {
				p.a.CountPad = count
				if b.def.ID == op.AvgPool {
					b.add(p.a, out, b.in(x, p.layout, Ordinary))
				} else {
					p.a.Size = [2]int{x[2], x[3]}
					b.add(p.a, x, b.in(out, p.layout, Ordinary))
				}
			}
		}
	}
}
