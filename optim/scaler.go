package optim

import (
	"fmt"
	"math"

	"github.com/locusml/locus"
)

// Scaler keeps small float16 gradients from vanishing: the loss is multiplied by
// a scale before the gradient is taken, and the gradients are divided by it
// afterwards. Where gradients overflow, the step is skipped and the scale halved;
// after many good steps it is doubled. All of it stays on the device: whether a
// step counts is a tensor that chooses between old and new values. It may be part of
// a compiled function.
//
//	scaler := optim.NewScaler(device)
//	for … {
//		half := nn.Lower(s, net, locus.Float16)
//		loss := …
//		scaler.Step(opt, locus.Grad([]*locus.Tensor{scaler.Scale(loss)}, nn.Values(params)))
//	}
type Scaler struct {
	scale, good *locus.Tensor // float32, one element, in no scope
}

const (
	firstScale  = 1 << 16
	growthSteps = 2000
)

// NewScaler makes a scaler for parameters on device d.
func NewScaler(d locus.Device) *Scaler {
	return &Scaler{d.Full(firstScale), d.Zeros()}
}

// ready panics unless s was made by NewScaler.
func (s *Scaler) ready() *Scaler {
	if s == nil || s.scale == nil {
		fail(locus.ErrArgument, "optim.Scaler", "the scaler is nil or a zero value", "make it with optim.NewScaler")
	}
	return s
}

// Scale returns the loss times the scale; the loss may be on another device. It may
// be called from several goroutines.
func (s *Scaler) Scale(loss *locus.Tensor) *locus.Tensor {
	scale := s.get(scaleCell)
	checkTensor("optim.Scaler.Scale", "", "the loss", loss)
	if sc := loss.Scope(); sc != nil {
		scale = sc.Use(scale)
	}
	return loss.Mul(scale.To(loss.Device()).Cast(loss.DType()))
}

// Unscale divides gradients by the scale, and returns whether all of them are finite: one
// bool, for [Optimizer.StepIf]. Entries may be nil.
func (s *Scaler) Unscale(grads []*locus.Tensor) (out []*locus.Tensor, ok *locus.Tensor) {
	scale := s.get(scaleCell)
	for i, g := range grads {
		if g != nil {
			checkTensor("optim.Scaler.Unscale", "", fmt.Sprintf("gradient %d", i), g)
			scale = scale.To(g.Device())
		}
	}
	return locus.Unscale(grads, scale)
}

// Update adjusts the scale after a step, by whether it counted.
func (s *Scaler) Update(ok *locus.Tensor) {
	checkTensor("optim.Scaler.Update", "", "ok", ok)
	oldScale, oldGood := s.get(scaleCell), s.get(goodCell)
	ok = ok.Reshape().To(oldScale.Device())
	good := ok.Where(oldGood.Add(1), 0)
	grow := good.Ge(growthSteps)
	scale := ok.Where(grow.Where(oldScale.Mul(2), oldScale), oldScale.Mul(0.5).Maximum(1))
	good = grow.Where(0, good)
	for _, t := range []*locus.Tensor{scale, good} {
		if sc := t.Scope(); sc != nil {
			sc.Keep(t)
		}
	}
	oldScale.Free()
	oldGood.Free()
	s.set(scaleCell, scale)
	s.set(goodCell, good)
}

// Step takes a step of o with the gradients of a scaled loss, unless they overflow, and
// adjusts the scale. Nothing waits. To clip, do it in between:
//
//	grads, ok := scaler.Unscale(grads)
//	grads, _ = locus.ClipGlobalNorm(grads, 1)
//	opt.StepIf(ok, grads)
//	scaler.Update(ok)
func (s *Scaler) Step(o *Optimizer, grads []*locus.Tensor) {
	o.ready()
	locus.NoGrad(func() {
		locus.Scoped(func(sc *locus.Scope) {
			used := make([]*locus.Tensor, len(grads))
			any := false
			for i, g := range grads {
				if g != nil {
					checkTensor("optim.Scaler.Step", "", fmt.Sprintf("gradient %d", i), g)
					used[i], any = sc.Use(g.Detach()), true
				}
			}
			if !any {
				o.StepWith(grads)
				return
			}
			out, ok := s.Unscale(used)
			o.StepIf(ok, out)
			s.Update(ok)
		})
	})
}

// Value reads the scale, which waits for the device.
func (s *Scaler) Value() float64 { return s.get(scaleCell).Item() }

// State returns what the scaler remembers by name, for a checkpoint. The next
// update frees it.
func (s *Scaler) State() map[string]*locus.Tensor {
	return map[string]*locus.Tensor{"scale": s.get(scaleCell), "good": s.get(goodCell)}
}

// SetState restores what State returned. The tensors are copied.
func (s *Scaler) SetState(state map[string]*locus.Tensor) error {
	const op = "optim.Scaler.SetState"
	var scale, good *locus.Tensor
	err := locus.Try(func() {
		d := s.get(scaleCell).Device()
		for name, into := range map[string]**locus.Tensor{"scale": &scale, "good": &good} {
			t := state[name]
			checkTensor(op, "", name, t)
			if t.Len() != 1 || t.DType() != locus.Float32 {
				fail(locus.ErrShape, op, fmt.Sprintf("%s is %s %v; want one float32", name, t.DType(), t.Shape()), "")
			}
			c := t.Detach().Reshape().CopyTo(d)
			if sc := c.Scope(); sc != nil {
				sc.Keep(c)
			}
			*into = c
		}
		if v := scale.Item(); !(v >= 1) || math.IsInf(v, 0) {
			fail(locus.ErrArgument, op, fmt.Sprintf("the scale is %v; want a finite number, at least 1", v), "")
		}
	})
	if err == nil {
		s.set(scaleCell, scale)
		s.set(goodCell, good)
	}
	return err
}
