package sample

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// convolutions by the sizes of x, weight and result; attributes as in op.Conv.
var convolutions = []struct {
	x, w, out [4]int
	a         op.Conv
	layout    Layout
}{
	{[4]int{1, 1, 1, 1}, [4]int{1, 1, 1, 1}, [4]int{1, 1, 1, 1}, conv(1, 0, 1, 1), Contiguous},
	{[4]int{1, 1, 4, 5}, [4]int{1, 1, 2, 3}, [4]int{1, 1, 3, 3}, conv(1, 0, 1, 1), Contiguous},
	{[4]int{2, 3, 5, 4}, [4]int{2, 3, 3, 3}, [4]int{2, 2, 5, 4}, conv(1, 1, 1, 1), Contiguous},
	{[4]int{2, 3, 5, 4}, [4]int{4, 3, 1, 1}, [4]int{2, 4, 5, 4}, conv(1, 0, 1, 1), Swapped},
	{[4]int{1, 2, 7, 6}, [4]int{3, 2, 3, 2}, [4]int{1, 3, 3, 3}, conv(2, 0, 1, 1), Contiguous},
	{[4]int{1, 2, 7, 6}, [4]int{3, 2, 3, 2}, [4]int{1, 3, 4, 4}, conv(2, 1, 1, 1), Transposed},
	{[4]int{1, 2, 7, 7}, [4]int{2, 2, 3, 3}, [4]int{1, 2, 3, 3}, conv(1, 0, 2, 1), Contiguous},
	{[4]int{2, 4, 4, 4}, [4]int{6, 2, 3, 3}, [4]int{2, 6, 4, 4}, conv(1, 1, 1, 2), Contiguous},
	{[4]int{1, 3, 5, 5}, [4]int{3, 1, 3, 3}, [4]int{1, 3, 5, 5}, conv(1, 1, 1, 3), Mixed}, // depthwise
	{[4]int{1, 2, 5, 6}, [4]int{2, 2, 3, 2}, [4]int{1, 2, 7, 2},
		op.Conv{Stride: [2]int{1, 3}, Pad: [2]int{2, 1}, Dilation: [2]int{1, 2}, Groups: 1}, Contiguous},
	{[4]int{0, 2, 4, 4}, [4]int{3, 2, 3, 3}, [4]int{0, 3, 2, 2}, conv(1, 0, 1, 1), Contiguous},
	{[4]int{2, 1, 6, 6}, [4]int{2, 1, 2, 2}, [4]int{2, 2, 2, 2}, conv(3, 0, 1, 1), BroadcastFirst}, // leaves a border unread
	{[4]int{3, 3, 17, 15}, [4]int{8, 3, 5, 5}, [4]int{3, 8, 17, 15}, conv(1, 2, 1, 1), Contiguous},
	{[4]int{2, 16, 14, 14}, [4]int{24, 16, 3, 3}, [4]int{2, 24, 14, 14}, conv(1, 1, 1, 1), Contiguous},
	{[4]int{2, 8, 13, 13}, [4]int{16, 8, 3, 3}, [4]int{2, 16, 7, 7}, conv(2, 1, 1, 1), Contiguous},
	{[4]int{2, 6, 9, 10}, [4]int{14, 3, 3, 3}, [4]int{2, 14, 5, 5}, conv(2, 1, 1, 2), Transposed},  // groups of few channels
	{[4]int{4, 3, 40, 37}, [4]int{3, 1, 5, 5}, [4]int{4, 3, 40, 37}, conv(1, 2, 1, 3), Contiguous}, // depthwise, many pixels
	{[4]int{8, 1, 34, 34}, [4]int{6, 1, 5, 5}, [4]int{8, 6, 34, 34}, conv(1, 2, 1, 1), Contiguous}, // as LeNet begins
}

func conv(stride, pad, dilation, groups int) op.Conv {
	return op.Conv{Stride: [2]int{stride, stride}, Pad: [2]int{pad, pad}, Dilation: [2]int{dilation, dilation}, Groups: groups}
}

func (b *builder) convolutions() {
	for i, c := range convolutions {
		x, w, out := c.x[:], c.w[:], c.out[:]
		domains := []Domain{Ordinary}
		if n := op.Elements(x); n > 50 && n < 500 {
			domains = append(domains, Gaps)
		}
		if op.Elements(out)*op.Elements(w[1:]) > 1<<17 && b.d != dtype.Float32 {
			continue
		}
		for _, v := range domains {
			switch b.def.ID {
			case op.Conv2D:
				if v == Gaps && (c.a.Pad != [2]int{}) {
					// An infinity times the zeros around x is a matter of algorithm.
					continue
				}
				b.add(c.a, out, b.in(x, c.layout, v), b.in(w, c.layout, Ordinary))
			case op.ConvAct:
				if v == Gaps {
					continue
				}
				in := []Operand{b.in(x, c.layout, v), b.in(w, c.layout, Ordinary)}
				b.add(op.ConvEpilogue{Conv: c.a, Act: op.Activations[i%len(op.Activations)]}, out, in...)
				in = append(in, b.in(w[:1], []Layout{Contiguous, Stepped, Reversed}[i%3], Ordinary))
				b.add(op.ConvEpilogue{Conv: c.a}, out, in...)
				b.add(op.ConvEpilogue{Conv: c.a, Act: op.Relu}, out, in...)
				b.add(op.ConvEpilogue{Conv: c.a, Act: op.Activations[(i+1)%len(op.Activations)]}, out, in...)
			case op.ConvGradInput:
				if v == Gaps {
					continue
				}
				c.a.Size = [2]int{x[2], x[3]}
				b.add(c.a, x, b.in(out, c.layout, Ordinary), b.in(w, c.layout, Ordinary))
			case op.ConvGradWeight:
				if v == Gaps {
					continue
				}
				c.a.Size = [2]int{w[2], w[3]}
				b.add(c.a, w, b.in(out, c.layout, Ordinary), b.in(x, c.layout, Ordinary))
			}
		}
	}
}
