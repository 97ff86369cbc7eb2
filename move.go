package locus

import (
	"unsafe"

	"github.com/locusml/locus/internal/callsite"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/trace"
)

// To returns the tensor on device d: t itself if it is there already, else a copy.
// A gradient that flows back through it is moved back.
func (t *Tensor) To(d Device) *Tensor {
	t.check("To")
	p := d.open("To")
	if p.root() == t.place.root() {
		return t
	}
	return t.copyTo(p)
}

// CopyTo returns a copy of the tensor on device d, always in new memory.
func (t *Tensor) CopyTo(d Device) *Tensor {
	t.check("CopyTo")
	return t.copyTo(d.open("CopyTo"))
}

func (t *Tensor) copyTo(p *place) *Tensor {
	if p.root() == t.place.root() {
		return apply(op.Copy, nil, t)
	}
	if l := t.lane; l != nil {
		out := t.shown("To", l.level, len(t.shape)).copyTo(p).behind(l.level)
		t.moved(out)
		return out
	}
	src := t.contiguous()
	out := allocate(p, "To", src.spec(), scopeOf([]*Tensor{t}), nil)
	if p.of != nil {
		recordMove(out, src)
	} else {
		move(out, src, callsite.Here(1))
	}
	if src != t {
		src.Free()
	}
	t.moved(out)
	return out
}

var moveRule = &ownRule{name: "to"}

func init() { // it refers to itself
	moveRule.back = func(n *node, g *Tensor) []*Tensor { return []*Tensor{g.To(n.inputs[0].Device())} }
}

// moved notes that out is t in another place: gradients are moved back.
func (t *Tensor) moved(out *Tensor) {
	if tracked([]*Tensor{t}) {
		out.node = &node{own: moveRule, inputs: []*Tensor{t}, out: out}
	}
}

// recordMove makes the copy a step of the function that is traced. Host data from outside
// of it becomes a constant.
func recordMove(dst, src *Tensor) {
	src.hold("To")
	defer src.letGo()
	r := dst.place.backend.(*trace.Recorder)
	err := error(nil)
	if src.place.host {
		err = r.CopyIn(dst.block, src.hostBytes(), nil)
	} else {
		err = r.Move(src.place.root().now().backend.(*trace.Recorder), src.view(), dst.view())
	}
	if err != nil {
		fail("To", err, src)
	}
}

// move copies src, which is contiguous, to dst on another device, for a line of the
// program.
func move(dst, src *Tensor, site callsite.Site) {
	src.hold("To")
	defer src.letGo()
	if !dst.block.TryHold() { // another goroutine closed its scope
		dst.failClosed("To")
	}
	defer dst.letGo()
	n := src.Bytes()
	from, to := src.place, dst.place
	kind := DeviceToDevice
	switch {
	case from.host:
		kind = HostToDevice
	case to.host:
		kind = DeviceToHost
	}
	transferAt(site, kind, from, to, n, func() {
		if n == 0 {
			return
		}
		var err error
		switch kind {
		case HostToDevice:
			src.block.Hold() // until the device has read it
			err = copyIn(to.backend, dst.block, src.hostBytes(), src.block.LetGo)
		case DeviceToHost:
			err = from.backend.CopyOut(dst.hostBytes(), src.block, src.offset*src.dtype.Size())
		case DeviceToDevice:
			err = movePeer(dst, src, n)
		}
		if err != nil {
			fail("To", err, src)
		}
	})
}

// movePeer copies between two GPUs, through the host if there is no direct way.
func movePeer(dst, src *Tensor, n int) error {
	if src.offset != 0 {
		src = apply(op.Copy, nil, src.detach())
		defer src.Free() // the device that copies holds it
	}
	ok, err := dst.place.backend.CopyFrom(dst.block, src.place.backend, src.block, n)
	if ok || err != nil {
		return err
	}
	staging := allocatePinned(src.spec(), nil)
	if staging == nil {
		staging = allocate(machine.cpu, "To", src.spec(), nil, nil)
	}
	defer staging.Free()
	if err := src.place.backend.CopyOut(staging.hostBytes(), src.block, 0); err != nil {
		return err
	}
	staging.block.Hold()
	return dst.place.backend.CopyIn(dst.block, staging.hostBytes(), staging.block.LetGo)
}

// hostBytes returns the memory of a contiguous tensor on the CPU.
func (t *Tensor) hostBytes() []byte {
	return unsafe.Slice((*byte)(unsafe.Add(t.block.Ptr, t.offset*t.dtype.Size())), t.Bytes())
}
