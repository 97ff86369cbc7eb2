package backendtest

import (
	"math"
	"slices"

	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/op/sample"
)

func fused(id op.ID, a op.Attrs, e *expected, in []*array) {
	e.scale = make([]float64, e.len())
	switch id {
	case op.GlobalNorm:
		globalNorm(e, in)
	case op.ScaleAll:
		scaleAll(e, in)
	case op.CastAll:
		castAll(e, in)
	case op.UpdateAll:
		updateAll(a.(op.Update), e, in)
	case op.CrossEntropy:
		crossEntropy(e, in)
	case op.CrossEntropyGrad:
		crossEntropyGrad(e, in)
	case op.Normalized, op.BatchNorm:
		normalize(id, a.(op.Normalize), e, in)
	case op.NormalizeGrad, op.BatchNormGrad:
		normalizeGrad(id, a.(op.Normalize), e, in)
	case op.Recurrent:
		recurrent(a.(op.Recurrence), e, in)
	case op.RecurrentGrad:
		recurrentGrad(a.(op.Recurrence), e, in)
	case op.Attend:
		attend(a.(op.Attention), e, in)
		byRows(id, a.(op.Attention), e, in)
	case op.AttendGrad:
		attendGrad(a.(op.Attention), e, in)
		byRows(id, a.(op.Attention), e, in)
	case op.GridSample, op.GridSampleGradInput, op.GridSampleGradGrid:
		gridSample(id, a.(op.Grid), e, in)
	case op.CTC, op.CTCGrad:
		ctc(id, a.(op.Alignment), e, in)
	case op.Linear:
		linear(a.(op.Epilogue).Act, e, in)
	case op.ConvAct:
		convolveAct(a.(op.ConvEpilogue), e, in)
	case op.Blend, op.BlendSquare:
		blend(id, a.(op.Scales), e, in)
	case op.AdamStep:
		adamStep(a.(op.Adam), e, in)
	case op.Softmax, op.SoftmaxGrad, op.LogSoftmax, op.LogSoftmaxGrad:
		for _, g := range groups(e.shape, op.AxesOf(a.(op.Axis).Axis)) {
			e.units = max(e.units, lengthUnits(len(g)))
			softmax(id, e, in, g)
		}
	default:
		noReference(id)
	}
}

func blend(id op.ID, a op.Scales, e *expected, in []*array) {
	for i := range e.floats {
		x, y := in[0].floats[i], in[1].floats[i]
		if id == op.BlendSquare {
			y *= y
		}
		e.floats[i] = a.A*x + a.B*y
		e.scale[i] = math.Abs(a.A*x) + math.Abs(a.B*y)
	}
}

func adamStep(a op.Adam, e *expected, in []*array) {
	for i := range e.floats {
		p, m, v := in[0].floats[i], in[1].floats[i], in[2].floats[i]
		step := a.Rate * m / (math.Sqrt(v)*a.Root + a.Eps)
		e.floats[i] = a.Keep*p - step
		e.scale[i] = math.Abs(a.Keep*p) + math.Abs(step)
	}
}

// softmax evaluates the four ops of its kind on one line.
func softmax(id op.ID, e *expected, in []*array, g []int) {
	x := in[0].floats
	var sum, size float64
	switch id {
	case op.Softmax, op.LogSoftmax:
		m := math.Inf(-1)
		for _, i := range g {
			m = math.Max(m, x[i])
		}
		for _, i := range g {
			sum += math.Exp(x[i] - m)
		}
		for _, i := range g {
			if id == op.Softmax {
				e.floats[i] = math.Exp(x[i]-m) / sum
				e.scale[i] = e.floats[i] * (1 + math.Abs(x[i]-m))
				if math.IsInf(x[i], -1) {
					e.scale[i] = 0
				}
			} else {
				e.floats[i] = (x[i] - m) - math.Log(sum)
				e.scale[i] = math.Abs(x[i]-m) + math.Log(sum) + 1
			}
		}
	case op.SoftmaxGrad:
		y := in[1].floats
		for _, i := range g {
			sum += x[i] * y[i]
			size += math.Abs(x[i] * y[i])
		}
		for _, i := range g {
			e.floats[i] = y[i] * (x[i] - sum)
			e.scale[i] = math.Abs(y[i]) * (math.Abs(x[i]) + size)
		}
	case op.LogSoftmaxGrad:
		y := in[1].floats
		for _, i := range g {
			sum += x[i]
			size += math.Abs(x[i])
		}
		for _, i := range g {
			e.floats[i] = x[i] - math.Exp(y[i])*sum
			e.scale[i] = math.Abs(x[i]) + math.Exp(y[i])*size
		}
	}
}

func linear(act op.ID, e *expected, in []*array) {
	x, w := in[0], in[1]
	n, k := w.shape[0], w.shape[1]
	e.units = lengthUnits(k)
	if act != op.Invalid && act != op.Relu {
		e.units += 4
		e.halves++ // the sum may be rounded before the activation
	}
	if len(in) == 3 {
		e.halves++ // the product may be rounded before the bias is added
	}
	e.before = make([]float64, e.len())
	for o := range e.len() {
		i, j := o/n, o%n
		sum, size := 0.0, 0.0
		for l := range k {
			t := float64(x.floats[i*k+l] * w.floats[j*k+l])
			sum += t
			size += math.Abs(t)
		}
		if e.halves > 1 {
			e.before[o] = math.Abs(sum)
		}
		if len(in) == 3 {
			sum += in[2].floats[j]
			size += math.Abs(in[2].floats[j])
			e.before[o] = max(e.before[o], math.Abs(sum))
		}
		e.floats[o], e.scale[o] = sum, size // no activation is much steeper than 1
		if act != op.Invalid {
			e.floats[o] = unaryOf(act)(sum)
		}
	}
}

// attentionRow returns the weights of row i of matrix b, the sizes of what the
// scores are sums of, and the logarithm that attention saves; no weights if all is
// hidden. In are q, k, v and perhaps a mask.
func attentionRow(a op.Attention, in []*array, b, i int) (weights, sizes []float64, saved float64) {
	q, k := in[0], in[1]
	r := len(q.shape)
	rows, depth, keys := q.shape[r-2], q.shape[r-1], k.shape[r-2]
	scores, all := make([]float64, keys), make([]int, keys)
	sizes = make([]float64, keys)
	for j := range keys {
		all[j] = j
		for l := range depth {
			t := q.floats[(b*rows+i)*depth+l] * k.floats[(b*keys+j)*depth+l] * a.Scale
			scores[j] += t
			sizes[j] += math.Abs(t)
		}
		hidden := a.Causal && j > i
		if len(in) == 4 {
			m := (b*rows+i)*keys + j
			if in[3].floats != nil {
				scores[j] += in[3].floats[m]
			} else {
				hidden = hidden || in[3].ints[m] == 0
			}
		}
		if hidden {
			scores[j] = math.Inf(-1)
		}
	}
	lse, _ := logSumExp(scores, all)
	if math.IsInf(lse, -1) {
		return nil, nil, math.Inf(1)
	}
	for j, s := range scores {
		scores[j] = math.Exp(s - lse)
	}
	return scores, sizes, lse
}

// complete fills the operands that depend on others: what attention, the
// normalizations and the loss of classes have made for their gradients.
func complete(c sample.Sample, tensors []sample.Tensor) {
	switch c.Op {
	case op.AttendGrad:
		forward := arrays(slices.Concat(tensors[1:4], tensors[6:]))
		saved, rows := &tensors[5], c.In[5].Shape[len(c.In[5].Shape)-1]
		for i := range saved.Floats {
			_, _, x := attentionRow(c.Attrs.(op.Attention), forward, i/rows, i%rows)
			saved.Floats[i] = sample.PutFloat(saved.DType, saved.Bytes, i, x)
		}
	case op.NormalizeGrad, op.BatchNormGrad:
		completeNorm(c, tensors)
	case op.CrossEntropyGrad:
		completeClasses(c, tensors)
	case op.RecurrentGrad:
		completeRecurrence(c, tensors)
	case op.CTCGrad:
		completeCTC(c, tensors)
	}
}

func attend(a op.Attention, e *expected, in []*array) {
	q, k, v := in[0], in[1], in[2]
	r := len(q.shape)
	rows, depth, keys, width := q.shape[r-2], q.shape[r-1], k.shape[r-2], v.shape[r-1]
	e.units = 4 * lengthUnits(max(depth, keys))
	e.halves = 4 // probabilities may be rounded before the second product
	saved := &expected{array: newArray(op.Get(op.Attend).More(nil, []op.Spec{{DType: q.dtype, Shape: q.shape}})[0]), units: e.units}
	saved.scale = make([]float64, saved.len())
	e.more = []*expected{saved}
	for b := range op.Elements(q.shape[:r-2]) {
		for i := range rows {
			weights, sizes, lse := attentionRow(a, in, b, i)
			saved.floats[b*rows+i] = lse
			for _, s := range sizes {
				saved.scale[b*rows+i] = max(saved.scale[b*rows+i], 1+s)
			}
			for j, w := range weights { // none if fully hidden: 0
				for l := range width {
					o, t := (b*rows+i)*width+l, w*v.floats[(b*keys+j)*width+l]
					e.floats[o] += t
					// An error in a score moves its probability by as much.
					e.scale[o] += math.Abs(t) * (1 + sizes[j])
				}
			}
		}
	}
}

// byRows lays the results out by rows where the attribute asks for that: they are computed as
// matrices (…, H, L, E), one after the other.
func byRows(id op.ID, a op.Attention, e *expected, in []*array) {
	if !a.Rows {
		return
	}
	q, parts, width := in[0].shape, 1, 0
	if id == op.AttendGrad {
		q, parts = in[1].shape, 3
		width = q[len(q)-1]
	} else {
		width = e.shape[len(e.shape)-1]
	}
	heads, rows := q[len(q)-3], q[len(q)-2]
	size := len(e.floats) / parts
	floats, scale := make([]float64, len(e.floats)), make([]float64, len(e.scale))
	for from := range floats {
		part, at := from/size, from%size
		col, row, head, outer := at%width, at/width%rows, at/width/rows%heads, at/width/rows/heads
		to := (((outer*rows+row)*parts+part)*heads+head)*width + col
		floats[to], scale[to] = e.floats[from], e.scale[from]
	}
	e.floats, e.scale = floats, scale
}

func attendGrad(a op.Attention, e *expected, in []*array) {
	g, q, k, v, y := in[0].floats, in[1], in[2], in[3], in[4].floats
	r := len(q.shape)
	rows, depth, keys, width := q.shape[r-2], q.shape[r-1], k.shape[r-2], v.shape[r-1]
	e.units = 8 * lengthUnits(max(depth, keys, rows, width))
	e.halves = 8 // weights and t may be rounded before the last products
	forward := append([]*array{q, k, v}, in[6:]...)
	batches := op.Elements(q.shape[:r-2])
	dk := batches * rows * depth
	dv := dk + batches*keys*depth
	add := func(o int, t, size float64) {
		e.floats[o] += t
		e.scale[o] += math.Abs(size)
	}
	for b := range batches {
		for i := range rows {
			weights, sizes, _ := attentionRow(a, forward, b, i)
			gi, yi := g[(b*rows+i)*width:][:width], y[(b*rows+i)*width:][:width]
			less, lessSize := 0.0, 0.0
			for l, x := range gi {
				less += x * yi[l]
				lessSize += math.Abs(x * yi[l])
			}
			for j, w := range weights {
				t, size := -less, lessSize
				for l, x := range gi {
					p := x * v.floats[(b*keys+j)*width+l]
					t += p
					size += math.Abs(p)
					add(dv+(b*keys+j)*width+l, w*x, w*x*(1+sizes[j]))
				}
				t *= w * a.Scale
				size *= w * a.Scale * (1 + sizes[j])
				for l := range depth {
					qi, kj := (b*rows+i)*depth+l, (b*keys+j)*depth+l
					add(qi, t*k.floats[kj], size*k.floats[kj])
					add(dk+kj, t*q.floats[qi], size*q.floats[qi])
				}
			}
		}
	}
}
