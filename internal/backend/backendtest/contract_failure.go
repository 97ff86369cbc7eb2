package backendtest

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/op/sample"
)

func (s *suite) testOutOfMemory(t *testing.T) {
	r := s.rig(t)
	total, _ := s.dev.Memory()
	if total == 0 {
		t.Skip("the device does not know how much memory it has")
	}
	for range 3 {
		if _, err := s.dev.Allocate(int(total) + 1); !errors.Is(err, memory.ErrExhausted) {
			t.Fatalf("asking for more than there is returned %v, want memory.ErrExhausted", err)
		}
	}
	var e *memory.Exhausted
	if _, err := s.pool.Allocate(int(total)+1, label); !errors.As(err, &e) {
		t.Fatalf("through the pool: %v", err)
	}
	a := r.put(repeated(100, 1))
	r.bump(a, 100, 1)
	r.want(a, 100, 2) // and it goes on
}

// badCall is a call that fails because of its data, found only when it runs.
func (r *rig) badCall(id op.ID, d dtype.DType, bad int64) *backend.Call {
	x := r.put(repeated(6, 1))
	idx := make([]byte, 4*d.Size())
	for i, v := range []int64{0, 5, bad, 2} {
		sample.PutInt(d, idx, i, v)
	}
	c := &backend.Call{Op: id, Attrs: op.Axis{}, In: []backend.View{vector(x, dtype.Float32, 6), vector(r.put(idx), d, 4)}}
	n := 4
	if id == op.ScatterAdd || id == op.Scatter || id == op.IndexAdd {
		c.In = append(c.In, vector(r.put(repeated(4, 1)), dtype.Float32, 4))
		n = 6
	}
	c.Out = vector(r.alloc(4*n), dtype.Float32, n)
	return c
}

// Failures that depend on the data come out once, name their op, and leave
// the device in order.
func (s *suite) testFailure(t *testing.T) {
	for _, id := range []op.ID{op.Take, op.Gather, op.ScatterAdd, op.Scatter, op.IndexAdd} {
		if !s.dev.Supports(id, dtype.Float32) {
			continue
		}
		for _, d := range dtype.Indices.List() {
			for _, bad := range []int64{6, -1, math.MinInt32} {
				for _, wait := range []string{"Synchronize", "CopyOut"} {
					t.Run(fmt.Sprintf("%s %s %d %s", id, d, bad, wait), func(t *testing.T) {
						s.oneFailure(&rig{t, s.dev, s.pool}, id, d, bad, wait)
					})
				}
			}
		}
	}
	r := s.rig(t)
	first, second := r.badCall(op.Take, dtype.Int64, 6), r.badCall(op.Gather, dtype.Int64, 6)
	if err := r.dev.Run(first); err != nil {
		return // a synchronous device reports each from Run
	}
	errs := []error{r.dev.Run(second), r.dev.Synchronize(), r.dev.Synchronize()}
	var async *backend.AsyncError
	if errs[0] != nil || !errors.As(errs[1], &async) || async.Op != op.Take || errs[2] != nil {
		t.Errorf("of two failures the first must be reported, once: %v", errs)
	}
}

func (s *suite) oneFailure(r *rig, id op.ID, d dtype.DType, bad int64, wait string) {
	x := r.put(repeated(6, 1))
	err := r.dev.Run(r.badCall(id, d, bad))
	if err == nil {
		r.bump(x, 6, 1) // what is queued behind is not lost
		if wait == "CopyOut" {
			err = r.dev.CopyOut(make([]byte, 4), x, 0)
		} else {
			err = r.dev.Synchronize()
		}
		var async *backend.AsyncError
		if !errors.As(err, &async) {
			r.t.Fatalf("%s returned %v, want an *AsyncError", wait, err)
		}
		if async.Op != id {
			r.t.Errorf("it names %s", async.Op)
		}
	} else {
		r.bump(x, 6, 1)
	}
	if !errors.Is(err, op.ErrIndex) {
		r.t.Errorf("%v is not an op.ErrIndex", err)
	}
	if err := r.dev.Synchronize(); err != nil {
		r.t.Errorf("reported again: %v", err)
	}
	r.want(x, 6, 2)
}
