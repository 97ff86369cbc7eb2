package optest

import (
	"bytes"
	"errors"
	"regexp"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/export"
	"github.com/locusml/locus/internal/op"
)

var opNames = regexp.MustCompile(`(?m) = ([a-z0-9_]+)\(`)

// exported saves a function and loads it.
func exported(t *testing.T, what string, f func(args ...*locus.Tensor) []*locus.Tensor, in []*locus.Tensor) *export.Program {
	var file bytes.Buffer
	if err := export.Write(&file, locus.Compile(f), in...); err != nil {
		t.Errorf("%s is not saved: %v", what, err)
		return nil
	}
	p, err := export.Read(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Errorf("%s is not loaded: %v", what, err)
		return nil
	}
	return p
}

// checkExported runs a function that was exported on device d on all devices. Its bits are
// the function's on d; a virtual GPU computes as the CPU does.
func checkExported(t *testing.T, what string, d locus.Device, f func(args ...*locus.Tensor) []*locus.Tensor, in []*locus.Tensor) *export.Program {
	p := exported(t, what, f, in)
	if p == nil {
		return nil
	}
	want := bits(f(in...))
	for _, at := range devices() {
		args := make([]*locus.Tensor, len(in))
		for i := range in {
			args[i] = in[i].To(at)
		}
		var got []*locus.Tensor
		err := guarded(func() { got = p.On(at).Call(args...) })
		own := at == d || !isReal(at) && !isReal(d)
		switch {
		case !own && errors.Is(err, locus.ErrUnsupported): // the op is not there, whoever asks for it
		case err != nil:
			t.Errorf("%s on %s: %v\n%s", what, at, err, p)
		case own && !sameBits(want, bits(got)):
			t.Errorf("%s: what was loaded on %s differs\n%s", what, at, p)
		}
	}
	return p
}

func isReal(d locus.Device) bool { return d.IsGPU() && d != virtual }

// TestExported compares every op of the table, alone and with its gradients, with the
// same saved to a file and loaded.
func TestExported(t *testing.T) {
	onDevices(t, func(t *testing.T, d locus.Device) {
		seen, n := map[string]bool{}, 0
		see := func(p *export.Program) {
			if p == nil {
				return
			}
			n++
			for _, m := range opNames.FindAllStringSubmatch(p.String(), -1) {
				seen[m[1]] = true
			}
		}
		count := map[string]int{} // by op, so that records of one do not choose those of others
		for _, c := range records(t) {
			o := lookup(t, c)
			in := c.Inputs(d, c.DType)
			i := count[c.Op]
			count[c.Op]++
			if i%(3*every(2)) != 0 || o.waiting(c, d, in) || unkeyed[c.Op] {
				continue
			}
			if err := guarded(func() {
				see(checkExported(t, c.String()+describe(c), d, func(args ...*locus.Tensor) []*locus.Tensor { return c.Call(o, d, args) }, in))
				if c.Grad != nil && o.Differentiable() {
					see(checkExported(t, "gradient of "+c.String()+describe(c), d, func(args ...*locus.Tensor) []*locus.Tensor {
						return gradients(c, o, d, args, locus.FreeGraph)
					}, in))
				}
			}); err != nil {
				t.Errorf("%s%s: %v", c, describe(c), err)
			}
		}
		for _, def := range op.All() {
			// What optimizers compute takes numbers that change from call to call.
			if op.Portable(def.ID) && !seen[def.Name] && def.ID != op.UpdateAll && every(2) == 1 {
				t.Errorf("%s was in no program: it needs a public op that uses it, and records of that op (testdata)", def)
			}
		}
		t.Logf("%d functions compared, %d ops seen", n, len(seen))
	})
}

// TestExportedGraphs compares random graphs and their gradients with the same from a file.
func TestExportedGraphs(t *testing.T) {
	for seed := range 100 / every(10) {
		data := randomBytes(uint64(seed), 13)
		if err := guarded(func() {
			checkExported(t, "a graph", locus.CPU(), func(...*locus.Tensor) []*locus.Tensor {
				return runGraph(data, locus.CPU(), locus.Float32, locus.FreeGraph).tensors()
			}, nil)
		}); err != nil {
			t.Errorf("%v\n%x", err, data)
		}
	}
}
