package locus

import (
	"time"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/program"
)

func init() {
	lend.Memory = func(name string, tensor any) lend.Loan {
		t := tensor.(*Tensor)
		t.check(name)
		t.single(name)
		readable(name)
		if !t.IsContiguous() {
			failf(name, ErrShape, []*Tensor{t}, "the elements do not lie in order")
		}
		t.hold(name)
		return lend.Loan{Backend: t.place.backend, Block: t.block, Offset: t.offset * t.dtype.Size(), Size: t.Bytes(), Host: t.place.host}
	}
	lend.Backend = func(tensor any) backend.Device { return tensor.(*Tensor).place.root().backend }
	lend.Make = func(name string, device any, pinned bool, d DType, shape []int) any {
		spec := op.Spec{DType: d, Shape: shape}
		if pinned {
			if t := allocatePinned(spec, nil); t != nil {
				return t
			}
		}
		return allocate(device.(Device).open(name), name, spec, nil, nil)
	}
	lend.Profiling = func() bool { return profiling.Load() != nil }
	lend.Span = func(device any, name, detail string, bytes int, start time.Time) {
		if p := profiling.Load(); p != nil {
			p.note(Span{Device: device.(Device), Name: name, Detail: detail, Bytes: int64(bytes), Host: true, Start: start.Sub(p.began), End: time.Since(p.began)})
		}
	}
	lend.Beside = func(on backend.Device, name, detail string, bytes int, run func() error) (seen bool, err error) {
		p := profiling.Load()
		s, ok := on.(backend.Sider)
		if p == nil || !ok || placeOf(on) == nil {
			return false, run()
		}
		return true, p.beside(s, on, &ran{name: name, detail: detail, bytes: int64(bytes)}, run)
	}
	lend.Error = func(name string, err error) error { return newError(name, err, nil) }
	lend.Own = func(tensor any) any { return tensor.(*Tensor).owned() }
	lend.Readable = readable
	lend.Export = func(compiled any, args []any) (*program.Portable, []lend.ExportedWeight) {
		list := make([]*Tensor, len(args))
		for i, a := range args {
			list[i] = a.(*Tensor)
		}
		return exportProgram(compiled.(*Compiled), list)
	}
	lend.Import = func(p *program.Portable, weights []any, device any) any {
		list := make([]*Tensor, len(weights))
		for i, w := range weights {
			list[i] = w.(*Tensor)
		}
		return importProgram(p, list, device.(Device))
	}
	lend.Single = func(name string, tensor any) { tensor.(*Tensor).single(name) }
}
