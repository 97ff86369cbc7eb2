//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"unsafe"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// Ops for which the card has no kernel are computed by the CPU's: operands are copied to
// main memory and results back, in order with what is queued. Run waits meanwhile, and so
// failures that depend on data are reported at once. Such calls cannot be recorded.

// Detours reports whether the call is computed in main memory.
func (d *Device) Detours(c *backend.Call) bool {
	switch op.Get(c.Op).Family {
	case op.LinalgFamily:
		return !d.solves(c)
	case op.FourierFamily:
		return !d.hasFFT()
	}
	return false
}

// mayDetour reports whether an op may be computed in main memory.
func mayDetour(id op.ID) bool {
	f := op.Get(id).Family
	return f == op.LinalgFamily || f == op.FourierFamily
}

// detour computes a call in main memory.
func (d *Device) detour(c *backend.Call) error {
	kernel, ok := cpu.Kernel(c.Op, c.KernelType())
	if !ok {
		return op.Problemf(op.ErrUnsupported, "the CPU has no kernel for %s of %s", c.Op, c.KernelType())
	}
	host := backend.Call{Op: c.Op, Attrs: c.Attrs, In: make([]backend.View, len(c.In)), More: make([]backend.View, len(c.More))}
	for i := range c.In {
		v, err := d.fetchView(&c.In[i])
		if err != nil {
			return err
		}
		host.In[i] = v
	}
	results := []*backend.View{&c.Out}
	host.Out = hostView(&c.Out)
	there := []*backend.View{&host.Out}
	for i := range c.More {
		host.More[i] = hostView(&c.More[i])
		results, there = append(results, &c.More[i]), append(there, &host.More[i])
	}
	if err := kernel(&host); err != nil {
		return err
	}
	for i, v := range results {
		if n := v.Elements() * v.DType.Size(); n > 0 {
			if err := d.CopyIn(v.Block, hostBytes(there[i])[:n], nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// fetchView waits for what is queued and copies the part of the block that a view spans.
func (d *Device) fetchView(v *backend.View) (backend.View, error) {
	host := *v
	lo, hi := v.Offset, v.Offset // the first and the last element
	for i, n := range v.Shape {
		if n == 0 {
			host.Block, host.Offset = hostBlock(0), 0
			return host, nil
		}
		if far := (n - 1) * v.Strides[i]; far < 0 {
			lo += far
		} else {
			hi += far
		}
	}
	size := v.DType.Size()
	host.Block, host.Offset = hostBlock((hi-lo+1)*size), v.Offset-lo
	return host, d.CopyOut(hostBytes(&host), v.Block, lo*size)
}

// hostView returns a result's view with memory of the host's.
func hostView(v *backend.View) backend.View {
	host := *v
	host.Block = hostBlock(v.Elements() * v.DType.Size())
	return host
}

// hostBlock returns memory that the collector frees.
func hostBlock(n int) *memory.Block {
	mem := make([]uint64, n/8+1) // aligned for every type
	return &memory.Block{Region: memory.Region{Ptr: unsafe.Pointer(unsafe.SliceData(mem)), Size: n}}
}

func hostBytes(v *backend.View) []byte { return unsafe.Slice((*byte)(v.Block.Ptr), v.Block.Size) }
