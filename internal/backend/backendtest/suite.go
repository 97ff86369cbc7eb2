// Package backendtest is the conformance suite that every backend calls from
// its tests:
//
//	func TestConformance(t *testing.T) {
//		backendtest.Run(t, func() backend.Device { return cpu.Open() })
//	}
//
// It runs every op on every element type and sample of package sample against
// a slow reference of its own, goes on with random cases, and then tests the
// contract of package backend: order, copies, memory limits, failures, events,
// and use from many goroutines.
//
// A compiled test binary (go test -c) carries it to machines without Go; there,
// -backendtest.random=100000 -backendtest.seed=7 tries more random cases.
package backendtest

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/op/sample"
)

var (
	randomCases = flag.Int("backendtest.random", 1500, "how many random cases to try")
	randomSeed  = flag.Uint64("backendtest.seed", 1, "the seed of the random cases")
	listOps     = flag.Bool("backendtest.list", false, "print the names of the device's ops, one a line, and test nothing")
)

// Option changes what the suite expects.
type Option func(*suite)

// Without lists ops outside the fused family that the backend is known to lack.
func Without(ids ...op.ID) Option {
	return func(s *suite) { s.without = append(s.without, ids...) }
}

// Only leaves everything out but the samples of some ops: for a second way of
// computing them on a device that has passed the whole suite.
func Only(ids ...op.ID) Option {
	return func(s *suite) { s.only = append(s.only, ids...) }
}

// Varies is for devices whose results need not repeat their bits: recordings may differ from
// single calls by roundings.
func Varies() Option { return func(s *suite) { s.varies = true } }

// Run tests a kind of device. open returns a new device, or another handle of one
// that exists; it is called several times.
func Run(t *testing.T, open func() backend.Device, options ...Option) {
	s := &suite{open: open, dev: open(), unsupported: map[string]bool{}}
	for _, o := range options {
		o(s)
	}
	if *listOps {
		s.list()
		return
	}
	s.pool = memory.NewPool(s.dev)
	info := s.dev.Info()
	start := time.Now()
	if s.only == nil {
		t.Run("Supports", s.testSupports)
	}
	t.Run("Ops", s.testOps)
	if s.only == nil {
		t.Run("Random", s.testRandom)
		t.Run("Contract", s.testContract)
	}
	verdict := "PASS"
	if t.Failed() {
		verdict = "FAIL"
	}
	fmt.Printf("%s: %s (%s): %d cases of %d op/dtype pairs and %d random ones in %v; %d cases failed; fused pairs left out: %d\n",
		verdict, info.Name, info.Backing, s.cases.Load(), s.pairs, s.random.Load(), time.Since(start).Round(time.Millisecond), s.failed.Load(), len(s.unsupported))
}

// list prints the ops that the device has a kernel for.
func (s *suite) list() {
	for _, def := range op.All() {
		for _, d := range sample.DTypes(def.ID) {
			if def.Family != op.ViewFamily && s.dev.Supports(def.ID, d) {
				fmt.Println(def.Name)
				break
			}
		}
	}
}

// suite is one run on one kind of device.
type suite struct {
	open    func() backend.Device
	dev     backend.Device
	pool    *memory.Pool
	without []op.ID
	only    []op.ID // nil means all
	varies  bool    // bits need not repeat

	pairs                 int
	cases, random, failed atomic.Int64
	unsupported           map[string]bool // fused op and dtype
}

func label() memory.Label { return memory.Label{DType: "bytes", Shape: "test"} }

// testSupports checks that a device has kernels for everything that the table
// accepts, except the fused family, and claims none that the table refuses.
func (s *suite) testSupports(t *testing.T) {
	for _, def := range op.All() {
		if def.Family == op.ViewFamily {
			continue // has no kernel anywhere
		}
		accepted := sample.DTypes(def.ID)
		for _, d := range dtype.All {
			got := s.dev.Supports(def.ID, d)
			switch {
			case !slices.Contains(accepted, d):
				if got {
					t.Errorf("claims to support %s of %s, which the op table refuses", def.Name, d)
				}
			case got:
			case def.Family == op.FusedFamily:
				s.unsupported[def.Name+"/"+d.String()] = true
			case !slices.Contains(s.without, def.ID):
				t.Errorf("does not support %s of %s", def.Name, d)
			}
		}
		if s.dev.Supports(def.ID, dtype.Invalid) {
			t.Errorf("claims to support %s of no dtype", def.Name)
		}
	}
}

// reported is how many failing samples of one op and dtype are described.
const reported = 3

func (s *suite) testOps(t *testing.T) {
	for _, def := range op.All() {
		if def.Family == op.ViewFamily || s.only != nil && !slices.Contains(s.only, def.ID) {
			continue
		}
		t.Run(def.Name, func(t *testing.T) {
			for _, d := range sample.DTypes(def.ID) {
				if !s.dev.Supports(def.ID, d) {
					continue // testSupports has counted it
				}
				s.pairs++
				t.Run(d.String(), func(t *testing.T) {
					failed := 0
					for _, c := range sample.Of(def.ID, d) {
						if thinned(c) {
							continue
						}
						s.cases.Add(1)
						if err := s.try(s.dev, s.pool, c); err != nil {
							s.failed.Add(1)
							if failed++; failed <= reported {
								t.Errorf("%s: %v", c, err)
							}
						}
					}
					if failed > reported {
						t.Errorf("and %d more samples", failed-reported)
					}
				})
			}
		})
	}
}

// everyth returns n if one in n samples is tried; with -short as few as under the
// race detector, for tools that watch every access.
func everyth() int {
	if testing.Short() {
		return max(thinning, 10)
	}
	return thinning
}

// thinned reports whether the sample is left out to save time.
func thinned(c sample.Sample) bool {
	every := everyth()
	if c.Big {
		every = 1 + every/4
	}
	return (c.Index+int(c.Op))%every != 0
}

// filler is what results hold before a kernel writes them, and guard how much
// of it follows them: what a kernel leaves out, or writes beyond, shows.
const filler, guard = 0x7B, 64

// try runs one sample on a device and compares.
func (s *suite) try(dev backend.Device, pool *memory.Pool, c sample.Sample) error {
	tensors := c.Tensors()
	complete(c, tensors)
	call := &backend.Call{Op: c.Op, Attrs: c.Attrs, In: make([]backend.View, len(tensors))}
	var blocks []*memory.Block
	defer func() {
		for _, b := range blocks {
			b.Free()
		}
	}()
	put := func(data []byte) (*memory.Block, error) {
		b, err := pool.Allocate(len(data), label)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
		return b, dev.CopyIn(b, data, func() {})
	}
	for i, x := range tensors {
		v := backend.View{Offset: x.Offset, Shape: x.Shape, Strides: x.Strides, DType: x.DType, Bits: x.Bits}
		if x.Bytes != nil {
			b, err := put(x.Bytes)
			if err != nil {
				return err
			}
			v.Block = b
		}
		call.In[i] = v
	}
	want := evaluate(c, tensors)
	result := func(e *expected) (backend.View, error) {
		b, err := pool.Allocate(e.len()*e.dtype.Size()+guard, label)
		if err == nil {
			blocks = append(blocks, b)
		}
		return backend.View{Block: b, Shape: e.shape, Strides: op.Strides(e.shape), DType: e.dtype}, err
	}
	inPlace := false
	run := func(results ...*expected) error {
		views, got := make([]*backend.View, len(results)), make([][]byte, len(results))
		call.More = make([]backend.View, len(results)-1)
		for i, e := range results {
			v, err := result(e)
			if err != nil {
				return err
			}
			if views[i] = &call.Out; i > 0 {
				views[i] = &call.More[i-1]
			}
			*views[i], got[i] = v, make([]byte, e.len()*e.dtype.Size()+guard)
		}
		fill := func() error {
			for i, v := range views {
				if err := dev.CopyIn(v.Block, bytes.Repeat([]byte{filler}, len(got[i])), func() {}); err != nil {
					return err
				}
				if inPlace {
					if err := s.replace(dev, call, tensors, i, v.Block); err != nil {
						return err
					}
				}
			}
			return nil
		}
		if err := fill(); err != nil {
			return err
		}
		if err := dev.Run(call); err != nil {
			return fmt.Errorf("run: %w", err)
		}
		for i, e := range results {
			if err := dev.CopyOut(got[i], views[i].Block, 0); err != nil {
				return fmt.Errorf("copy out: %w", err)
			}
			if err := e.checkAll(got[i]); err != nil {
				return err
			}
		}
		return s.recorded(dev, call, fill, got, views, results)
	}
	saves := op.Get(c.Op).Saves
	if len(want.more) == 0 || saves {
		if err := run(want); err != nil {
			return err
		}
	}
	if len(want.more) > 0 && want.len() > 0 {
		if err := run(append([]*expected{want}, want.more...)...); err != nil {
			return fmt.Errorf("with all results: %w", err)
		}
	}
	all := []*expected{want}
	if !saves {
		all = append(all, want.more...)
	}
	if want.len() > 0 && replaces(&c, tensors, len(all)) {
		operands := slices.Clone(call.In)
		inPlace = true
		if err := run(all...); err != nil {
			return fmt.Errorf("in place: %w", err)
		}
		call.In = operands
	}
	for i, x := range tensors {
		if x.Bytes == nil || c.Big {
			continue
		}
		after := make([]byte, len(x.Bytes))
		if err := dev.CopyOut(after, call.In[i].Block, 0); err != nil {
			return err
		}
		if !bytes.Equal(after, x.Bytes) {
			return fmt.Errorf("changed operand %d", i)
		}
	}
	return nil
}

// replaced returns the operand in whose place the op may write result r, if the sample
// has one that lies as the result does; else -1.
func replaced(id op.ID, a op.Attrs, tensors []sample.Tensor, r int) int {
	if len(tensors) == 0 {
		return -1
	}
	def := op.Get(id)
	specs := make([]op.Spec, len(tensors))
	for i, x := range tensors {
		specs[i] = op.Spec{DType: x.DType, Shape: x.Shape}
	}
	out, err := op.Check(id, a, specs)
	if err != nil {
		return -1
	}
	if r > 0 {
		out = def.More(a, specs)[r-1]
	}
	for k := range tensors {
		i := (k + op.Elements(out.Shape)) % len(tensors) // sometimes the first, sometimes the last
		x := tensors[i]
		if def.Over(a, r, i) && x.Bytes != nil && x.DType == out.DType && slices.Equal(x.Shape, out.Shape) && op.IsContiguous(x.Shape, x.Strides) {
			return i
		}
	}
	return -1
}

func replaces(c *sample.Sample, tensors []sample.Tensor, results int) bool {
	for r := range results {
		if replaced(c.Op, c.Attrs, tensors, r) >= 0 {
			return true
		}
	}
	return false
}

// replace makes the operand that result i may be written over lie where the result
// lies, in b, as it does in an optimizer's step and in programs.
func (s *suite) replace(dev backend.Device, call *backend.Call, tensors []sample.Tensor, i int, b *memory.Block) error {
	at := replaced(call.Op, call.Attrs, tensors, i)
	if at < 0 {
		return nil
	}
	x := tensors[at]
	v := &call.In[at]
	v.Block, v.Offset = b, 0
	size := x.DType.Size()
	return dev.CopyIn(b, x.Bytes[x.Offset*size:][:op.Elements(x.Shape)*size], func() {})
}

func (s *suite) testRandom(t *testing.T) {
	failed := 0
	for i := range *randomCases / everyth() {
		c, ok := randomSample(*randomSeed, i)
		if !ok || !s.dev.Supports(c.Op, c.DType) {
			continue
		}
		s.random.Add(1)
		if err := s.try(s.dev, s.pool, c); err != nil {
			s.failed.Add(1)
			if failed++; failed <= 20 {
				t.Errorf("random case %d: %s %+v: %v", i, c, c.Attrs, err)
			}
		}
	}
	if failed > 20 {
		t.Errorf("and %d more random cases", failed-20)
	}
}

// together runs f in several goroutines and returns their errors.
func together(n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
