package locus

import (
	"slices"
	"sync"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// launch is the working space of one op, used again since a device is done with
// it when Run returns.
type launch struct {
	call  backend.Call
	in    []backend.View
	specs []op.Spec
}

// release puts l back for the next op. It drops the operands' memory and the
// attributes; the rest is small, and clearing it would take longer than a small op.
func (l *launch) release() {
	for i := range l.call.In {
		l.call.In[i].Block = nil
	}
	clear(l.call.More)
	l.call.Out.Block, l.call.Attrs, l.call.In, l.call.More = nil, nil, nil, l.call.More[:0]
	launches.Put(l)
}

var launches = sync.Pool{New: func() any { return &launch{in: make([]backend.View, 3), specs: make([]op.Spec, 3)} }}

// apply runs one primitive: the only way from an expression to a kernel. It
// checks operands and rule once, puts the result where the operands are, and
// notes what a gradient would need.
func apply(id op.ID, attrs op.Attrs, in ...*Tensor) *Tensor {
	def := op.Get(id)
	p := checkOperands(def.Name, in)
	out, _ := applyOn(p, def, attrs, in, false)
	return out
}

// applyAll runs a primitive with several results and returns all of them. Those
// behind the first have no history unless the op has Parts.
func applyAll(id op.ID, attrs op.Attrs, in ...*Tensor) []*Tensor {
	def := op.Get(id)
	p := checkOperands(def.Name, in)
	out, more := applyOn(p, def, attrs, in, false)
	return append([]*Tensor{out}, more...)
}

// create runs a primitive without operands.
func create(p *place, id op.ID, attrs op.Attrs) *Tensor {
	out, _ := applyOn(p, op.Get(id), attrs, nil, false)
	return out
}

// applyOn is apply at p. With saves, the results that the op saves for its gradient are
// there although none is recorded.
func applyOn(p *place, def *op.Def, attrs op.Attrs, in []*Tensor, saves bool) (out *Tensor, more []*Tensor) {
	l := launches.Get().(*launch)
	if len(in) > len(l.in) {
		l.in, l.specs = make([]backend.View, len(in)), make([]op.Spec, len(in))
	}
	views, specs := l.in[:len(in)], l.specs[:len(in)]
	var shape []int
	if def.Broadcasts() {
		shape = broadcastShape(def, in)
	}
	sliced := false
	for i, t := range in {
		v := &views[i]
		t.viewAs(v)
		sliced = sliced || t.lane != nil
		if shape != nil && !sameShape(v.Shape, shape) {
			v.Strides = expandStrides(v.Shape, v.Strides, shape)
			v.Shape = shape
		}
		specs[i] = op.Spec{DType: v.DType, Shape: v.Shape}
	}
	spec, err := op.Check(def.ID, attrs, specs)
	if err != nil {
		fail(def.Name, err, in...)
	}
	track := spec.DType.IsFloat() && tracked(in) // bools and integers pass no gradient
	if track && def.Parts || !p.backend.Supports(def.ID, def.KernelType(specs, spec)) {
		return compose(p, def, attrs, slices.Clone(in)) // a copy, so that in can stay on the stack
	}
	if sliced {
		return applyBatched(p, def, attrs, slices.Clone(in), track, saves)
	}
	scope := scopeOf(in)
	last := false
	if len(spec.Shape) == 4 && p.arranges() {
		var copies []*Tensor
		if last, copies = p.arrange(l, def, attrs, in, spec, scope); copies != nil {
			l.release()
			return applyTurned(p, def, attrs, slices.Clone(in), copies, track, saves)
		}
	}
	out = allocate(p, def.Name, spec, scope, in)
	l.call.Op, l.call.Attrs, l.call.In = def.ID, attrs, views
	out.viewAs(&l.call.Out)
	if last {
		l.turn(out)
	}
	if def.More != nil && (track || saves || !def.Saves) {
		for _, s := range def.More(attrs, specs) {
			t := allocate(p, def.Name, s, scope, nil)
			more, l.call.More = append(more, t), append(l.call.More, t.view())
		}
	}
	if out.Len() > 0 {
		err = run(p, def, l, in, out, more)
	}
	l.release()
	if err != nil {
		out.Free()
		for _, t := range more {
			t.Free()
		}
		failOn(p, def.Name, err, in)
	}
	if track {
		out.node = &node{def: def, attrs: attrs, inputs: slices.Clone(in), out: out, saved: more}
	}
	return out, more
}

// run runs a kernel, and holds on to the memory that it uses meanwhile.
func run(p *place, def *op.Def, l *launch, in []*Tensor, out *Tensor, more []*Tensor) error {
	if i := hold(in); i >= 0 {
		out.Free()
		in[i].failFreed(def.Name)
	}
	if out.scope.Load() == nil { // no other goroutine has the results yet
		err := backend.Queue(p.backend, &l.call)
		letGo(in)
		return err
	}
	// Another goroutine may close the results' scope.
	if !out.block.TryHold() || hold(more) >= 0 {
		letGo(in)
		out.failClosed(def.Name)
	}
	err := backend.Queue(p.backend, &l.call)
	letGo(more)
	out.block.LetGo()
	letGo(in)
	return err
}

// hold keeps the operands' memory from being reused until letGo. If one of them
// was freed it holds none and returns its position, else -1.
func hold(in []*Tensor) int {
	for i, t := range in {
		if t.block != nil && !t.block.TryHold() {
			letGo(in[:i])
			return i
		}
	}
	return -1
}

func letGo(in []*Tensor) {
	for _, t := range in {
		if t.block != nil {
			t.block.LetGo()
		}
	}
}

// failClosed is the error of an op whose scope was closed while it ran.
func (t *Tensor) failClosed(name string) {
	fail(name, &op.Problem{Kind: ErrFreed, Msg: "the scope of the operands was closed by another goroutine while the op ran",
		Fix: "close a scope when nothing computes in it any more"}, t)
}

// checkOperands makes sure that there is something to work on, that nothing
// was freed, and that all live in one place, which it returns.
func checkOperands(name string, in []*Tensor) *place {
	var p *place
	for _, t := range in {
		t.check(name)
		switch {
		case t.constant || t.place == p:
		case p == nil:
			p = t.place
		case t.place.root() == p.root(): // of a trace and of its surroundings
			if t.place.of != nil {
				p = t.place
			}
		default:
			failMixed(name, in)
		}
	}
	return p.now()
}

// failMixed reports operands on two devices, with the operand that could move: to
// a GPU rather than to the CPU, else to where most of the bytes are.
func failMixed(name string, in []*Tensor) {
	usable(name, in)
	bytes := map[*place]int{}
	var most *place
	for _, t := range in {
		if t.constant {
			continue
		}
		at := t.place.root()
		bytes[at] += t.Bytes() + 1
		switch {
		case most == nil || most.host && !at.host:
			most = at
		case most.host == at.host && bytes[at] > bytes[most]:
			most = at
		}
	}
	problem := &op.Problem{Kind: ErrDevice, Msg: "operands are on different devices; nothing is moved silently"}
	for i, t := range in {
		if !t.constant && t.place.root() != most {
			problem.Fix = "move operand " + itoa(i) + " first: .To(" + goName(most.device) + ")"
			break
		}
	}
	fail(name, problem, in...)
}

func broadcastShape(def *op.Def, in []*Tensor) []int {
	shape := in[0].shape
	for _, t := range in[1:] {
		if !sameShape(t.shape, shape) {
			shapes := make([][]int, len(in))
			for i := range in {
				shapes[i] = in[i].shape
			}
			s, err := op.Broadcast(shapes...)
			if err != nil {
				fail(def.Name, err, in...)
			}
			return s
		}
	}
	return shape
}

func sameShape(a, b []int) bool { return slices.Equal(a, b) }

// expandStrides returns the strides under which a tensor looks like one of shape.
func expandStrides(from, strides, shape []int) []int {
	out := make([]int, len(shape))
	lead := len(shape) - len(from)
	for i, n := range from {
		if n != 1 || shape[lead+i] == 1 {
			out[lead+i] = strides[i]
		}
	}
	return out
}

// allocate makes a contiguous tensor with unset contents that belongs to scope
// s, or to the collector if s is nil.
func allocate(p *place, name string, spec op.Spec, s *Scope, in []*Tensor) *Tensor {
	t, err := allocateFrom(p.pool, p, spec, s, in)
	if err != nil {
		failOn(p, name, err, in)
	}
	return t
}

// allocateFrom is allocate from a certain pool of p's memory.
func allocateFrom(pool *memory.Pool, p *place, spec op.Spec, s *Scope, in []*Tensor) (*Tensor, error) {
	size := op.Elements(spec.Shape) * spec.DType.Size()
	block, err := pool.Allocate(size, func() memory.Label {
		return memory.Label{DType: spec.DType.String(), Shape: op.ShapeString(spec.Shape)}
	})
	if err != nil {
		return nil, err
	}
	t := &Tensor{shape: spec.Shape, dtype: spec.DType, owner: true, place: p, block: block}
	t.strides = contiguousStrides(spec.Shape, in)
	if s == nil || !s.group.Add(block) {
		block.Manage()
	} else {
		t.scope.Store(s)
	}
	return t, nil
}

// contiguousStrides returns the strides of a contiguous tensor, borrowed from an
// operand where one has them.
func contiguousStrides(shape []int, in []*Tensor) []int {
	if op.Elements(shape) == 1 { // both are all ones
		return shape
	}
	for _, t := range in {
		if len(shape) > 0 && len(t.shape) == len(shape) && &t.shape[0] == &shape[0] && isCanonical(shape, t.strides) {
			return t.strides
		}
	}
	return op.Strides(shape)
}

func isCanonical(shape, strides []int) bool {
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		if strides[i] != n {
			return false
		}
		n *= max(shape[i], 1)
	}
	return true
}
