//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

func init() {
	runners[op.CTC] = (*Device).runCTC
	runners[op.CTCGrad] = (*Device).runCTC
}

// ctcParams is Paths of kernels/ctc.cu.
type ctcParams struct {
	out, alpha, room                              uintptr
	x, targets, steps, labels, grad, loss         uintptr
	flag                                          uintptr
	time, classes, width, rows                    uint64
	xs                                            [3]int64
	ts                                            [2]int64
	as                                            [3]int64
	stepStep, labelStep, gradStep, lossStep       int64
	op, blank, wideTargets, wideSteps, wideLabels int32
	saves                                         int32
}

func (d *Device) runCTC(c *backend.Call) error {
	x, targets, steps, labels := &c.In[0], &c.In[1], &c.In[2], &c.In[3]
	batch, width := x.Shape[0], 2*targets.Shape[1]+1
	p := ctcParams{out: c.Out.Block.Addr, x: start(x), targets: start(targets), steps: start(steps), labels: start(labels), flag: d.flagDev,
		time: uint64(x.Shape[1]), classes: uint64(x.Shape[2]), width: uint64(width), rows: uint64(x.Shape[1]),
		xs: [3]int64{int64(x.Strides[0]), int64(x.Strides[1]), int64(x.Strides[2])}, ts: [2]int64{int64(targets.Strides[0]), int64(targets.Strides[1])},
		stepStep: int64(steps.Strides[0]), labelStep: int64(labels.Strides[0]), op: int32(c.Op), blank: int32(c.Attrs.(op.Alignment).Blank),
		wideTargets: wideIndex(targets.DType), wideSteps: wideIndex(steps.DType), wideLabels: wideIndex(labels.DType)}
	size := 4 // of what is computed with
	if x.DType == dtype.Float64 {
		size = 8
	}
	var err error
	switch {
	case c.Op == op.CTCGrad:
		g, alpha, loss := &c.In[4], &c.In[5], &c.In[6]
		p.grad, p.gradStep, p.loss, p.lossStep = start(g), int64(g.Strides[0]), start(loss), int64(loss.Strides[0])
		p.alpha, p.as = start(alpha), [3]int64{int64(alpha.Strides[0]), int64(alpha.Strides[1]), int64(alpha.Strides[2])}
		p.room, err = d.workspace(batch * width * 4 * size)
	case len(c.More) > 0:
		p.alpha, p.saves = start(&c.More[0]), 1
	default:
		p.rows = 2
		p.alpha, err = d.workspace(batch * 2 * width * size)
	}
	if err != nil {
		return err
	}
	return runKernel(d, "ctc", c.Op.String()+"_"+typeName(x.DType), &p, grid{x: batch, threads: min(512, 32*ceil(width, 32))})
}
