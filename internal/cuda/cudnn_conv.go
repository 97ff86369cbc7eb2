//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"math"
	"slices"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// Convolutions by cuDNN's backend interface: its functions with an algorithm for an
// argument do not reach the tensor cores in half precision in our layout, nor some of the fastest
// kernels for float32, and a call of them costs the host several times as much.
const (
	dnnEngines   = 90000 // the version from which it is asked
	dnnPlans     = 4     // how many of its plans are tried
	dnnAlignment = 16    // bytes, of tensors
)

// What cuDNN says of an engine that matters to us.
const (
	noteTensorCores = 1 << 0 // of float32: TF32
	noteShortens    = 1 << 1 // operands become a shorter type
	noteVaries      = 1 << 4 // bits do not repeat
	noteStrictNaN   = 1 << 9
	noteCompiles    = 1 << 0 // of its behavior: the kernel is compiled at its first use
)

// plainEngines are cuDNN's numbers of engines that were seen to keep a float32's digits.
// The notes are not enough for that: engine 17 for the gradient of a weight has none and
// is Winograd's algorithm, by its speed and its errors. Engine 67, the other fast one for
// it, adds everything up in one chain, which leaves four digits where that is long.
var plainEngines = map[op.ID][]int64{op.Conv2D: {70}, op.ConvGradInput: {2, 74}}

// allowed reports whether an engine may compute elements of a type: in a fixed order,
// without losing digits. For other types than float32, engines that use the tensor cores
// are allowed: one of the others was off by more than a rounding of float16. Kernels that
// must be compiled would make the first call slow.
func allowed(id op.ID, t dtype.DType, tf32 bool, e dnnEngineInfo) bool {
	needed, fine := uint32(noteTensorCores), uint32(noteTensorCores|noteStrictNaN)
	switch {
	case t == dtype.Float32 && !tf32:
		needed, fine = 0, noteStrictNaN
		if !slices.Contains(plainEngines[id], e.id) {
			return false
		}
	case t == dtype.Float32:
		fine |= noteShortens
	}
	return e.numbers&needed == needed && e.numbers&^fine == 0 && e.behavior&noteCompiles == 0
}

// images is how the images or filters of a view lie. An axis of size 1 gets a stride
// that makes sense, with the channels last or not: cuDNN looks at all of them.
func images(v *backend.View, last bool) matrices4 {
	var shape [4]int64
	for i, n := range v.Shape {
		shape[i] = int64(n)
	}
	m := inOrder(shape)
	if last {
		m.strides = [4]int64{shape[1] * shape[2] * shape[3], 1, shape[1] * shape[3], shape[1]}
	}
	for i, s := range v.Strides {
		if v.Shape[i] > 1 {
			m.strides[i] = int64(s)
		}
	}
	return m
}

// convolve describes a convolution or a gradient. In memory are the call's operands, then
// its result.
func (g *dnnGraph) convolve(c *backend.Call) {
	a, t := c.Attrs.(op.Conv), c.Out.DType
	compute, number, one := dtype.Float32, uintptr(typeFloat), int64(math.Float32bits(1))
	if t == dtype.Float64 {
		compute, number, one = t, typeDouble, int64(math.Float64bits(1))
	}
	both := func(v [2]int) []int64 { return []int64{int64(v[0]), int64(v[1])} }
	how := g.create(dnnConvolution)
	g.set(how, attrConvType, typeElement, int64(dnnTypes[compute]))
	g.set(how, attrConvMode, typeConvMode, crossCorrelation)
	g.set(how, attrConvAxes, typeInt64, 2)
	g.set(how, attrConvApart, typeInt64, both(a.Dilation)...)
	g.set(how, attrConvStride, typeInt64, both(a.Stride)...)
	g.set(how, attrConvBefore, typeInt64, both(a.Pad)...)
	g.set(how, attrConvAfter, typeInt64, both(a.Pad)...)
	g.finish(how)

	tensors, last := map[*backend.View]uintptr{}, channelsLast(c)
	for _, v := range []*backend.View{&c.In[0], &c.In[1], &c.Out} {
		tensors[v] = g.given(t, images(v, last)).desc
	}
	kind, first := uintptr(dnnForwardOp), uintptr(attrForward)
	switch c.Op {
	case op.ConvGradInput:
		kind, first = dnnDataOp, attrData
	case op.ConvGradWeight:
		kind, first = dnnFilterOp, attrFilter
	}
	x, w, y := convRoles(c)
	o := g.create(kind)
	g.set(o, first, number, one) // what the result is multiplied with,
	g.set(o, first+1, number, 0) // and what was there before
	g.setDesc(o, first+2, how)
	g.setDesc(o, first+3, tensors[w])
	g.setDesc(o, first+4, tensors[x])
	g.setDesc(o, first+5, tensors[y])
	g.add(o)
}

// fewForEngine is up to how many channels the gradient of an input is made by engine 2:
// engine 74 works on many channels at once, wanted or not. On an H200 they take 15 and
// 31 µs for LeNet's 6 channels, 67 and 30 for 32, 61 and 7 for 64.
const fewForEngine = 8

// chooseBySize chooses how to do a small convolution: by the first plan that is allowed,
// else by our own kernels. An algorithm would cost the host more than the card needs:
// of LeNet's convolutions on an H200, whose kernels take 10 to 30 µs, 18 to 48 µs per call.
// Float32 stays float32 even where TF32 is allowed: the tensor cores make nothing of this
// size faster, and the layout that they need makes it slower.
func (n *dnn) chooseBySize(d *Device, c *backend.Call, p *convPlan, aligned bool) {
	// The first plan for half precision makes 0 of infinities (conformance, on an H200).
	if !aligned || ownFew(c) || c.Out.DType.Size() == 2 {
		return
	}
	_, w, _ := convRoles(c)
	n.addPlans(d, c, p, false)
	if c.Op == op.ConvGradInput && w.Shape[1] <= fewForEngine {
		if i := slices.IndexFunc(p.choices, func(by convChoice) bool { return by.engine == 2 }); i > 0 {
			p.choices[0], p.choices[i] = p.choices[i], p.choices[0]
		}
	}
	p.keepFirst()
}

// ownFew reports whether our own kernels for few channels in a group do a call.
func ownFew(c *backend.Call) bool {
	_, w, _ := convRoles(c)
	taps, groups := w.Shape[2]*w.Shape[3], c.Attrs.(op.Conv).Groups
	switch c.Op {
	case op.Conv2D:
		return fewOutputs(w.Shape[0]/groups, w.Shape[1]*taps, taps)
	case op.ConvGradInput:
		return w.Shape[1] <= fewChannels && taps <= fewTaps
	case op.ConvGradWeight: // a tile for each of many groups would be empty
		return groups > 1 && w.Shape[1] == 1 && w.Shape[0] == groups
	}
	return false
}

// addPlans adds what the backend interface would do for a call to the choices.
func (n *dnn) addPlans(d *Device, c *backend.Call, p *convPlan, tf32 bool) {
	if !n.lib.hasGraphs(dnnEngines) {
		return
	}
	g := newDNNGraph(n.lib, &d.c)
	p.graph = g
	g.convolve(c)
	found := 0
	for _, config := range g.configs(n.handle, dnnConfigs) {
		e, ok := g.engine(config)
		if varying.Load() {
			e.numbers &^= noteVaries
		}
		var plan dnnPlan
		if ok = ok && found < dnnPlans && allowed(c.Op, c.Out.DType, tf32, e); ok {
			plan, ok = g.build(n.handle, config)
		}
		if ok && plan.memory > dnnMemory {
			g.drop(plan.desc)
			ok = false
		}
		if !ok {
			g.drop(config)
			continue
		}
		p.choices = append(p.choices, convChoice{plan: plan.desc, engine: e.id, memory: uint64(plan.memory)})
		found++
	}
	if found == 0 {
		g.forget()
		p.graph = nil
	}
}

// keepFirst forgets all choices but the best.
func (p *convPlan) keepFirst() {
	rest := p.choices[min(len(p.choices), 1):]
	p.choices = p.choices[:len(p.choices)-len(rest)]
	if p.graph == nil {
		return
	}
	if len(p.choices) == 0 || p.choices[0].plan == 0 {
		p.graph.forget()
		p.graph = nil
		return
	}
	for _, by := range rest {
		if by.plan != 0 {
			p.graph.drop(by.plan)
		}
	}
}
