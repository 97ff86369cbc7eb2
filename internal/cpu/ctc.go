package cpu

import (
	"math"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/op"
)

func init() {
	registerCTC(dtype.Float32, nativeLines[float32]())
	registerCTC(dtype.Float64, nativeLines[float64]())
	for _, h := range halfTypes {
		h.ctc()
	}
}

func registerCTC[S any, T float](d dtype.DType, io lineIO[S, T]) {
	register(op.CTC, d, func(c *backend.Call) error { return ctc(c, io) })
	register(op.CTCGrad, d, func(c *backend.Call) error { return ctcGrad(c, io) })
}

// ctcLine is one sequence with its target.
type ctcLine[T float] struct {
	states []int  // the class of each state
	over   []bool // whether a path may come from two states before
	x      []T    // (steps, states): what is known of each state's class
	steps  int
}

// ctcLines calls f for each sequence, which it does with several at once. A label or a length
// out of range is an error, and then f is called for none.
func ctcLines[S any, T float](c *backend.Call, io lineIO[S, T], f func(n int, a *ctcLine[T])) error {
	x, blank := &c.In[0], c.Attrs.(op.Alignment).Blank
	batch, time, classes := x.Shape[0], x.Shape[1], x.Shape[2]
	most := c.In[1].Shape[1]
	steps, s1, err := indices(&c.In[2], time+1, 0)
	if err != nil {
		return err
	}
	defer release(s1)
	lengths, s2, err := indices(&c.In[3], most+1, 0)
	if err != nil {
		return err
	}
	defer release(s2)
	targets, s3, err := ctcTargets(&c.In[1], lengths, classes)
	if err != nil {
		return err
	}
	defer release(s3)
	var data []S
	if time > 0 {
		data = whole[S](x)
	}
	pool.For(batch, max(1, grainExpensive/(8*time*(2*most+1)+1)), func(lo, hi int) {
		var one [1]S
		var wide [1]T
		for n := lo; n < hi; n++ {
			a := &ctcLine[T]{steps: int(steps[n])}
			labels := targets[n*most : n*most+int(lengths[n])]
			for i, k := range labels {
				a.states = append(a.states, blank, int(k))
				a.over = append(a.over, false, int(k) != blank && i > 0 && k != labels[i-1])
			}
			a.states, a.over = append(a.states, blank), append(a.over, false)
			a.x = make([]T, 0, a.steps*len(a.states))
			for t := range a.steps {
				row := x.Offset + n*x.Strides[0] + t*x.Strides[1]
				for _, k := range a.states {
					at := row + k*x.Strides[2]
					if io.load == nil {
						a.x = append(a.x, any(data).([]T)[at])
						continue
					}
					one[0] = data[at]
					io.load(wide[:], one[:])
					a.x = append(a.x, wide[0])
				}
			}
			f(n, a)
		}
	})
	return nil
}

// ctcTargets returns the labels as they lie, padding included, after checking those that count.
func ctcTargets(v *backend.View, lengths []int64, classes int) ([]int64, *scratch, error) {
	all, s := wideIndices(v)
	if len(all) == 0 {
		return nil, nil, nil
	}
	for i, l := range lengths {
		for j, k := range all[i*v.Shape[1] : i*v.Shape[1]+int(l)] {
			if k < 0 || k >= int64(classes) {
				err := outOfRange(k, v.Shape, i*v.Shape[1]+j, classes, 0)
				release(s)
				return nil, nil, err
			}
		}
	}
	return all, s, nil
}

// logSum3 returns log(eᵃ + eᵇ + eᶜ).
func logSum3(a, b, c float64) float64 {
	m := max(a, b, c)
	if math.IsInf(m, -1) {
		return m
	}
	return m + math.Log(math.Exp(a-m)+math.Exp(b-m)+math.Exp(c-m))
}

func ctc[S any, T float](c *backend.Call, io lineIO[S, T]) error {
	out := elements[T](&c.Out, c.Out.Elements())
	time, width := c.In[0].Shape[1], 2*c.In[1].Shape[1]+1
	var saved []T
	if len(c.More) > 0 && time > 0 {
		saved = elements[T](&c.More[0], len(out)*time*width)
	}
	never := math.Inf(-1)
	return ctcLines(c, io, func(n int, a *ctcLine[T]) {
		l := len(a.states)
		last, next := make([]float64, l), make([]float64, l)
		var to []T
		if saved != nil {
			to = saved[n*time*width : (n+1)*time*width]
			for i := range to {
				to[i] = T(never)
			}
		}
		for s := range last { // before the first step a path is in front of the first state
			last[s] = never
		}
		for t := range a.steps {
			for s := range next {
				from, one, two := last[s], never, never
				switch {
				case t == 0 && s < 2:
					from = 0
				case t > 0:
					if s > 0 {
						one = last[s-1]
					}
					if a.over[s] {
						two = last[s-2]
					}
				}
				next[s] = logSum3(from, one, two) + float64(a.x[t*l+s])
				if to != nil {
					to[t*width+s] = T(next[s])
				}
			}
			last, next = next, last
		}
		switch {
		case a.steps == 0 && l == 1:
			out[n] = 0
		case l == 1:
			out[n] = T(-last[0])
		default:
			out[n] = T(-logSum3(last[l-1], last[l-2], never))
		}
	})
}

func ctcGrad[S any, T float](c *backend.Call, io lineIO[S, T]) error {
	time, classes, width := c.In[0].Shape[1], c.In[0].Shape[2], 2*c.In[1].Shape[1]+1
	g, s1 := denseOf[T](&c.In[4])
	alpha, s2 := denseOf[T](&c.In[5])
	loss, s3 := denseOf[T](&c.In[6])
	defer release(s1, s2, s3)
	out := elements[S](&c.Out, c.Out.Elements())
	clear(out)
	never := math.Inf(-1)
	return ctcLines(c, io, func(n int, a *ctcLine[T]) {
		if total := float64(loss[n]); math.IsInf(total, 0) || total != total && g[n] == 0 {
			return
		}
		l := len(a.states)
		last, next := make([]float64, l), make([]float64, l)
		row := make([]T, classes)
		for t := a.steps - 1; t >= 0; t-- {
			clear(row)
			for s := range next {
				from, one, two := last[s], never, never
				switch {
				case t == a.steps-1 && s >= l-2:
					from = 0
				case t == a.steps-1:
					from = never
				default:
					if s+1 < l {
						one = last[s+1]
					}
					if s+2 < l && a.over[s+2] {
						two = last[s+2]
					}
				}
				rest := logSum3(from, one, two) // of the paths behind t
				next[s] = rest + float64(a.x[t*l+s])
				row[a.states[s]] -= T(math.Exp(float64(alpha[(n*time+t)*width+s])+rest+float64(loss[n]))) * g[n]
			}
			last, next = next, last
			to := out[(n*time+t)*classes:][:classes]
			if io.store == nil {
				copy(any(to).([]T), row)
			} else {
				io.store(to, row)
			}
		}
	})
}
