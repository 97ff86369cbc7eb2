package nn

import "github.com/locusml/locus"

// To moves a network to device d, in place: every parameter and buffer that is
// not there already is replaced by a copy on d, and lazy layers make theirs
// there. It returns m.
func To[M any](m M, d locus.Device) M {
	for _, e := range State(m) {
		e.place(d)
		if v := e.Value(); v != nil && v.Device() != d {
			e.replace(v.Detach().To(d), true)
		}
	}
	return m
}

// Cast converts a network's floating-point parameters and buffers to another
// floating-point type, in place; lazy layers will make theirs in it. It returns m.
func Cast[M any](m M, dt locus.DType) M {
	if !dt.IsFloat() {
		fail(locus.ErrDType, "nn.Cast", "the parameters of a network are floating-point numbers, not "+dt.String(), "")
	}
	for _, e := range State(m) {
		v := e.Value()
		if l := e.lazy(); l != nil && (v == nil || v.DType().IsFloat()) {
			l.known.dtype = dt
		}
		if v != nil && v.DType().IsFloat() && v.DType() != dt {
			e.replace(v.Detach().Cast(dt), true)
		}
	}
	return m
}

// CopyTo makes a replica of a network on device d: a network of the same
// structure whose parameters and buffers are always new memory, also when d is
// where m lives, and which shares no state with m. Its dropout layers draw other
// masks than m's: which ones depends only on m and on how many replicas it had
// before. Everything else is copied as it stands, except functions, channels
// and pointers to things that hold no tensors, which are shared. Another goroutine
// may train m meanwhile; some parameters are then of a later step than others.
func CopyTo[M any](m M, d locus.Device) M {
	return replicate(m, d, (*randomState).replica)
}

// replicate is CopyTo with another choice of what dropout layers draw from.
func replicate[M any](m M, d locus.Device, random func(*randomState) *randomState) M {
	copied := func(t *locus.Tensor) *locus.Tensor { return t.Detach().CopyTo(d) }
	out := cloneAll(&cloner{
		parameter: func(p *Parameter) *Parameter {
			q := p.unmade()
			if t := p.read(copied); t != nil {
				q.replace(t)
			}
			return q
		},
		buffer: func(b *Buffer) *Buffer {
			q := b.unmade()
			if t := b.Value(); t != nil {
				q.replace(copied(t), true)
			}
			return q
		},
		tensor: func(t *locus.Tensor) *locus.Tensor {
			if t.RequiresGrad() {
				return copied(t).RequireGrad()
			}
			return copied(t)
		},
		random: random,
	}, m)
	for _, e := range State(out) {
		e.place(d)
	}
	return out
}

// Device returns the device of a network's parameters. It is an error that names
// two of them if they are on different devices; a network without parameters
// is on the CPU.
func Device(m any) (locus.Device, error) {
	var first *Entry
	for _, e := range State(m) {
		v := e.Value()
		if v == nil {
			continue
		}
		if first == nil {
			first = &e
			continue
		}
		if a := first.Value(); a.Device() != v.Device() {
			return locus.Device{}, &locus.Error{Kind: locus.ErrDevice, Op: "nn.Device",
				Msg: "the network is on two devices: " + first.Name + " on " + a.Device().String() + ", " + e.Name + " on " + v.Device().String(),
				Fix: "move all of it with nn.To(net, device)"}
		}
	}
	if first != nil {
		return first.Value().Device(), nil
	}
	for _, e := range State(m) {
		if e.param != nil {
			return e.param.Device(), nil
		}
	}
	return locus.CPU(), nil
}
