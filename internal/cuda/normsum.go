//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

func init() {
	runners[op.AddNormalize] = (*Device).runAddNorm
	runners[op.NormalizeGradAdd] = (*Device).runNormGradAdd
}

// normSumParams is the parameter of kernels/normalize_sum.cu.
type normSumParams struct {
	out, sum, a, b, x, weight, bias, mean, rstd uintptr
	rows                                        uint64
	eps                                         float64
	length, rms                                 int32
}

// runAddNorm queues a sum and its normalization: in one launch where rows are kept in
// registers, else as the two ops that they are.
func (d *Device) runAddNorm(c *backend.Call) error {
	a := c.Attrs.(op.Normalize)
	in, more := c.In[2:], c.More[1:]
	p := normSumParams{out: addr(&c.Out), sum: addr(&c.More[0]), a: addr(&c.In[0]), b: addr(&c.In[1])}
	ok := true
	for _, want := range []struct {
		is bool
		to *uintptr
	}{{a.Weight, &p.weight}, {a.Bias, &p.bias}} {
		if want.is {
			ok = ok && in[0].Contiguous()
			*want.to, in = addr(&in[0]), in[1:]
		}
	}
	if len(more) > 0 {
		if !a.RMS {
			p.mean, more = addr(&more[0]), more[1:]
		}
		p.rstd = addr(&more[0])
	}
	if ok && p.fits(c, a) {
		return d.normSum(&p, c, "add_norm", held)
	}
	// The normalization may start over for lack of memory, and a sum over its own operand
	// must not be made twice: it is made elsewhere, and copied.
	sum := c.More[0]
	inPlace := p.sum == p.a || p.sum == p.b
	if inPlace {
		size := sum.Elements() * sum.DType.Size()
		room, err := d.statespace(size)
		if err != nil {
			return err
		}
		sum.Block, sum.Offset = &memory.Block{Region: memory.Region{Addr: room, Size: size}}, 0
	}
	calls := []*backend.Call{{Op: op.Add, In: c.In[:2], Out: sum},
		{Op: op.Normalized, Attrs: a, In: append([]backend.View{sum}, c.In[2:]...), Out: c.Out, More: c.More[1:]}}
	if inPlace {
		calls = append(calls, &backend.Call{Op: op.Copy, In: []backend.View{sum}, Out: c.More[0]})
	}
	if err := d.preload(calls...); err != nil {
		return err
	}
	for _, one := range calls {
		if err := runners[one.Op](d, one); err != nil {
			return err
		}
	}
	return nil
}

// runNormGradAdd queues the gradient of a normalization and a sum with it.
func (d *Device) runNormGradAdd(c *backend.Call) error {
	a := c.Attrs.(op.Normalize)
	last := len(c.In) - 1
	p := normSumParams{out: addr(&c.Out), a: addr(&c.In[0]), x: addr(&c.In[1]), b: addr(&c.In[last])}
	in := c.In[2:last]
	ok := c.In[0].Contiguous() && c.In[1].Contiguous()
	if a.Weight {
		ok = ok && in[0].Contiguous()
		p.weight, in = addr(&in[0]), in[1:]
	}
	stats := in
	if !a.RMS {
		p.mean, in = addr(&in[0]), in[1:]
	}
	p.rstd = addr(&in[0])
	for i := range stats {
		ok = ok && stats[i].Contiguous()
	}
	grad := backend.Call{Op: op.NormalizeGrad, Attrs: a, In: c.In[:last], Out: c.Out, More: c.More}
	if ok && p.fits(c, a) {
		// What may start over for lack of memory comes first: the result may be written
		// over what is added, which must not happen twice.
		if len(c.More) > 0 {
			if err := d.normGradParams(&grad, &p); err != nil {
				return err
			}
		}
		return d.normSum(&p, c, "norm_grad_add", held/2)
	}
	size := c.Out.Elements() * c.Out.DType.Size()
	room, err := d.statespace(size)
	if err != nil {
		return err
	}
	grad.Out.Block, grad.Out.Offset = &memory.Block{Region: memory.Region{Addr: room, Size: size}}, 0
	if err := d.runNorm(&grad); err != nil {
		return err
	}
	return runners[op.Add](d, &backend.Call{Op: op.Add, In: []backend.View{c.In[last], grad.Out}, Out: c.Out})
}

// normGradParams queues the gradients of weight and bias alone.
func (d *Device) normGradParams(c *backend.Call, s *normSumParams) error {
	a := c.Attrs.(op.Normalize)
	p := normParams{g: s.a, x: s.x, mean: s.mean, rstd: s.rstd}
	var gradWeight, gradBias uintptr
	more := c.More
	if a.GradWeight {
		gradWeight, more = addr(&more[0]), more[1:]
	}
	if a.GradBias {
		gradBias = addr(&more[0])
	}
	return d.normParams(&p, c.Out.DType, &c.In[0], &c.In[1], a, a.Params[0], a.Params[1], gradWeight, gradBias)
}

// fits reports whether rows can be kept in registers, and sets what the kernels need to
// know of them.
func (p *normSumParams) fits(c *backend.Call, a op.Normalize) bool {
	n, v := op.Elements(c.Out.Shape[a.From:]), lanes(c.Out.DType)
	p.rows, p.length, p.eps = uint64(c.Out.Elements()/n), int32(n), a.Eps
	if a.RMS {
		p.rms = 1
	}
	if (a.Weight || a.Bias) && (a.Params[0] != a.From || a.Params[1] != len(c.Out.Shape)) {
		return false // not one for each element of a row
	}
	keep := held
	if p.x != 0 { // a gradient
		keep = held / 2
	}
	return n%v == 0 && n <= normThreads*v*keep && (p.out|p.sum|p.a|p.b|p.x|p.weight|p.bias)%16 == 0
}

// normSum launches a kernel with threads as normRows chooses them, so that sums have the
// same order.
func (d *Device) normSum(p *normSumParams, c *backend.Call, stem string, keep int) error {
	n, v, suffix := int(p.length), lanes(c.Out.DType), "_"+typeName(c.Out.DType)
	if n <= 32*v*held {
		return runKernel(d, "normalize_sum", stem+"_warp"+suffix, p, grid{x: ceil(int(p.rows), 4), threads: 128})
	}
	return runKernel(d, "normalize_sum", stem+suffix, p, grid{x: int(p.rows), threads: threadsFor(n, v*keep)})
}
