package nn

import (
	"unsafe"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/trace"
)

// While a function is traced (locus.Compile), cells stay as they are: what the
// function reads from them and puts into them is the trace's, and arrives in the
// cells when the program has run. Other goroutines do not notice.

// traced reports whether the calling goroutine traces, and the cell is not one that
// the trace itself has made.
func (l *lazy) traced() bool {
	t := trace.Current()
	return t != nil && l.made != t
}

type parameterHolder struct{ p *Parameter }

func (h parameterHolder) Load() any { return h.p.value.Load() }

func (h parameterHolder) Store(v any) {
	t := v.(*locus.Tensor)
	if !t.IsView() || t.RequiresGrad() == h.p.frozen.Load() { // else it is as leaf would make it
		t = h.p.leaf(t)
	}
	h.p.value.Store(t)
}

type bufferHolder struct{ b *Buffer }

func (h bufferHolder) Load() any {
	if v := h.b.value.Load(); v != nil {
		return v.t
	}
	return (*locus.Tensor)(nil)
}

func (h bufferHolder) Store(v any) {
	h.b.mu.Lock()
	defer h.b.mu.Unlock()
	h.b.replace(v.(*locus.Tensor), true)
}

// Spare claims the value for a program that writes the new one over it. It reports
// false if the program may have a handle of it; see bufferValue.
func (h bufferHolder) Spare() bool {
	v := h.b.value.Load()
	return v != nil && v.made && v.seen.CompareAndSwap(unseen, claimed)
}

// Unspare undoes Spare.
func (h bufferHolder) Unspare() {
	if v := h.b.value.Load(); v != nil {
		v.seen.CompareAndSwap(claimed, unseen)
	}
}

// fieldHolder is a field of type *locus.Tensor.
type fieldHolder struct {
	at   **locus.Tensor
	kind Kind
}

func (e Entry) holder() fieldHolder {
	return fieldHolder{e.field.Addr().Interface().(**locus.Tensor), e.Kind}
}

func (h fieldHolder) Load() any { return *h.at }

// Address is where the tensor stands; see package plain.
func (h fieldHolder) Address() unsafe.Pointer { return unsafe.Pointer(h.at) }

func (h fieldHolder) Store(v any) {
	t := v.(*locus.Tensor).Detach()
	if h.kind == Trained {
		t = t.RequireGrad()
	}
	*h.at = t
}

func init() {
	trace.Holders = append(trace.Holders, func(cell any) (trace.Holder, func(any)) {
		switch c := cell.(type) {
		case *Parameter:
			c.Value() // of a nil parameter an error
			return parameterHolder{c}, nil
		case *Buffer:
			c.checkNil()
			return bufferHolder{c}, nil
		case Entry:
			switch {
			case c.param != nil:
				return parameterHolder{c.param}, nil
			case c.buffer != nil:
				return bufferHolder{c.buffer}, nil
			}
			c.checkPlace("Value")
			h := c.holder()
			return h, func(v any) { *h.at, _ = v.(*locus.Tensor) }
		}
		return nil, nil
	})
}
