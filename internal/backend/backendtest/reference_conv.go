package backendtest

import (
	"math"

	"github.com/locusml/locus/internal/op"
)

// convolve goes over every product of the forward convolution and adds it to
// where the op wants it: out[n,o,y,x] += in[n,c,·,·]·w[o,c,·,·] and its two transposes.
func convolve(id op.ID, c op.Conv, e *expected, a, b *array) {
	var x, w, out []int // shapes
	switch id {
	case op.Conv2D:
		x, w, out = a.shape, b.shape, e.shape
	case op.ConvGradInput:
		out, w, x = a.shape, b.shape, e.shape
	case op.ConvGradWeight:
		out, x, w = a.shape, b.shape, e.shape
	}
	e.scale = make([]float64, e.len())
	terms := make([]int, e.len())
	perGroup := out[1] / c.Groups
	for n := range out[0] {
		for o := range out[1] {
			for ch := range w[1] {
				from := o/perGroup*w[1] + ch
				for oy := range out[2] {
					for ox := range out[3] {
						for ky := range w[2] {
							for kx := range w[3] {
								iy := oy*c.Stride[0] - c.Pad[0] + ky*c.Dilation[0]
								ix := ox*c.Stride[1] - c.Pad[1] + kx*c.Dilation[1]
								if iy < 0 || iy >= x[2] || ix < 0 || ix >= x[3] {
									continue
								}
								xi := ((n*x[1]+from)*x[2]+iy)*x[3] + ix
								wi := ((o*w[1]+ch)*w[2]+ky)*w[3] + kx
								oi := ((n*out[1]+o)*out[2]+oy)*out[3] + ox
								var t float64
								var at int
								switch id {
								case op.Conv2D:
									t, at = a.floats[xi]*b.floats[wi], oi
								case op.ConvGradInput:
									t, at = a.floats[oi]*b.floats[wi], xi
								case op.ConvGradWeight:
									t, at = a.floats[oi]*b.floats[xi], wi
								}
								e.floats[at] += t
								e.scale[at] += math.Abs(t)
								terms[at]++
								// Algorithms that transform blocks of an image lose a little more than sums.
								e.units = max(e.units, 2*lengthUnits(terms[at]))
							}
						}
					}
				}
			}
		}
	}
}

// convolveAct is a convolution, a bias for each channel and an activation.
func convolveAct(a op.ConvEpilogue, e *expected, in []*array) {
	convolve(op.Conv2D, a.Conv, e, in[0], in[1])
	e.before = make([]float64, e.len())
	if len(in) == 3 {
		e.halves++ // the sum may be rounded before the bias is added
	}
	if a.Act != op.Invalid && a.Act != op.Relu {
		e.units += 4
		e.halves++ // and before the activation
	}
	for i, sum := range e.floats {
		if e.halves > 1 {
			e.before[i] = math.Abs(sum)
		}
		if len(in) == 3 {
			b := in[2].floats[i/(e.shape[2]*e.shape[3])%e.shape[1]]
			sum += b
			e.scale[i] += math.Abs(b)
			e.before[i] = max(e.before[i], math.Abs(sum))
		}
		e.floats[i] = sum // no activation is much steeper than 1
		if a.Act != op.Invalid {
			e.floats[i] = unaryOf(a.Act)(sum)
		}
	}
}

// window is the elements of one image under a pooling window.
func window(p op.Pool, h, w, oy, ox int) []int {
	var l []int
	for ky := range p.Kernel[0] {
		for kx := range p.Kernel[1] {
			y, x := oy*p.Stride[0]-p.Pad[0]+ky*p.Dilation[0], ox*p.Stride[1]-p.Pad[1]+kx*p.Dilation[1]
			if y >= 0 && y < h && x >= 0 && x < w {
				l = append(l, y*w+x)
			}
		}
	}
	return l
}

func pool(id op.ID, p op.Pool, e *expected, in []*array) {
	x, out := in[0].shape, e.shape // the shapes of the forward op
	switch id {
	case op.MaxPoolGrad:
		x, out = in[1].shape, in[0].shape
	case op.AvgPoolGrad:
		x, out = e.shape, in[0].shape
	}
	h, w := x[2], x[3]
	e.exact = id == op.MaxPool
	if e.floats != nil {
		e.scale = make([]float64, e.len())
	}
	e.units = lengthUnits(p.Kernel[0] * p.Kernel[1])
	for image := range x[0] * x[1] {
		for oy := range out[2] {
			for ox := range out[3] {
				o := (image*out[2]+oy)*out[3] + ox
				under := window(p, h, w, oy, ox)
				at := make([]int, len(under))
				for k, i := range under {
					at[k] = image*h*w + i
				}
				count := float64(len(under))
				if p.CountPad {
					count = float64(p.Kernel[0] * p.Kernel[1])
				}
				switch id {
				case op.MaxPoolIndices:
					e.ints[o] = int64(under[argExtreme(in[0], at, false)])
				case op.MaxPool:
					e.set(o, in[0], at[argExtreme(in[0], at, false)])
				case op.MaxPoolGrad:
					i := at[argExtreme(in[1], at, false)]
					e.floats[i] += in[0].floats[o]
					e.scale[i] += math.Abs(in[0].floats[o])
				case op.AvgPool:
					for _, i := range at {
						e.floats[o] += in[0].floats[i] / count
						e.scale[o] += math.Abs(in[0].floats[i]) / count
					}
				case op.AvgPoolGrad:
					for _, i := range at {
						e.floats[i] += in[0].floats[o] / count
						e.scale[i] += math.Abs(in[0].floats[o]) / count
					}
				}
			}
		}
	}
}
