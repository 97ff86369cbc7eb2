//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// depthParams is Depth of kernels/depthwise_pixels.cu.
type depthParams struct {
	out, x, w, g, partial, arrived uintptr
	pixels, chunk                  uint64
	xs, gs, os                     [3]int64
	channels, h, wd, oh, ow        int32
	kernel, stride, pad, dilation  [2]int32
	chunks, wide, _                int32
}

// depthTaps is DEPTH_TAPS.
const depthTaps = 25

// depthwise reports whether a convolution has one filter per channel and the kernels for
// images channels last can compute it.
func depthwise(c *backend.Call) bool {
	a := c.Attrs.(op.Conv)
	_, w, _ := convRoles(c)
	return a.Groups > 1 && w.Shape[0] == a.Groups && w.Shape[1] == 1 && w.Shape[2]*w.Shape[3] <= depthTaps
}

// places are the distances from one image, row and pixel to the next.
func places(v *backend.View) [3]int64 {
	return [3]int64{int64(v.Strides[0]), int64(v.Strides[2]), int64(v.Strides[3])}
}

// depthPixels queues such a convolution.
func (d *Device) depthPixels(c *backend.Call) error {
	a, t := c.Attrs.(op.Conv), c.Out.DType
	x, w, y := convRoles(c)
	p := depthParams{out: c.Out.Block.Addr, channels: int32(x.Shape[1]), h: int32(x.Shape[2]), wd: int32(x.Shape[3]), oh: int32(y.Shape[2]), ow: int32(y.Shape[3]),
		xs: places(x), gs: places(y), os: places(&c.Out)}
	for i := range 2 {
		p.kernel[i], p.stride[i], p.pad[i], p.dilation[i] = int32(w.Shape[2+i]), int32(a.Stride[i]), int32(a.Pad[i]), int32(a.Dilation[i])
	}
	made := y // whose pixels are counted
	switch c.Op {
	case op.Conv2D:
		p.x = addr(x)
	case op.ConvGradInput:
		made, p.g = x, addr(y)
	case op.ConvGradWeight:
		p.x, p.g = addr(x), addr(y)
	}
	if c.Op != op.ConvGradWeight {
		weight := *w
		if err := d.inOrder([]*backend.View{&weight}, (*backend.View).Contiguous); err != nil {
			return err
		}
		p.w = addr(&weight)
	}
	channels, n, taps := int(p.channels), lanes(t), w.Shape[2]*w.Shape[3]
	for _, v := range []*backend.View{x, y} {
		for _, s := range places(v) {
			if s%int64(n) != 0 {
				n = 1
			}
		}
	}
	if channels%n != 0 || (p.x|p.g)%16 != 0 || c.Op != op.ConvGradWeight && p.out%16 != 0 {
		n = 1
	}
	suffix := "_" + typeName(t)
	if n > 1 {
		suffix = "_wide" + suffix
	}
	p.wide = 1
	for p.wide < 32 && int(p.wide)*n < channels {
		p.wide *= 2
	}
	p.pixels = uint64(made.Elements() / channels)
	columns, down, pixels := ceil(channels, int(p.wide)*n), pixelThreads/int(p.wide), int(p.pixels)
	if c.Op != op.ConvGradWeight {
		p.chunk = uint64(down * max(1, min(8, pixels*columns/(down*4*d.card.sms))))
		name := map[op.ID]string{op.Conv2D: "depth_forward", op.ConvGradInput: "depth_grad_input"}[c.Op]
		return runKernel(d, "depthwise_pixels", name+suffix, &p, grid{x: ceil(pixels, int(p.chunk)), y: columns, threads: pixelThreads})
	}
	name, z := "depth_grad_weight", taps
	if taps%3 == 0 {
		name, z = "depth_grad_weight_rows", taps/3
	}
	chunks := max(1, min(ceil(4*d.card.sms, columns*z), ceil(pixels, 4*down), 65535))
	p.chunk = uint64(ceil(ceil(pixels, chunks), down) * down)
	p.chunks = int32(ceil(pixels, int(p.chunk)))
	var err error
	if p.partial, p.arrived, err = d.shared(int(p.chunks)*channels*taps*max(4, t.Size()), columns*z); err != nil {
		return err
	}
	return runKernel(d, "depthwise_pixels", name+suffix, &p, grid{x: columns, y: int(p.chunks), z: z, threads: pixelThreads})
}
