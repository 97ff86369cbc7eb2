package backendtest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// recorded records a call that has run, on a device that can, and compares what replays
// write with the bits that Run wrote, or with what is expected where bits vary. fill makes the results, and what they replace, what
// they were before.
func (s *suite) recorded(dev backend.Device, call *backend.Call, fill func() error, got [][]byte, views []*backend.View, results []*expected) error {
	recorder, ok := dev.(backend.Recorder)
	if !ok {
		return nil
	}
	first := *call
	late := false
	first.Attrs, late = otherNumbers(call.Attrs)
	r, err := recorder.RecordCalls([]*backend.Call{&first}, []bool{late})
	if errors.Is(err, op.ErrUnsupported) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	defer r.Close()
	if late {
		if err := r.Set(0, call); err != nil {
			return fmt.Errorf("set: %w", err)
		}
	}
	for turn := range 2 {
		if err := fill(); err != nil {
			return err
		}
		if err := r.Replay(); err != nil {
			return fmt.Errorf("replay %d: %w", turn, err)
		}
		for i, v := range views {
			again := make([]byte, len(got[i]))
			if err := dev.CopyOut(again, v.Block, 0); err != nil {
				return fmt.Errorf("replay %d: %w", turn, err)
			}
			if s.varies {
				if err := results[i].checkAll(again); err != nil {
					return fmt.Errorf("replay %d: %w", turn, err)
				}
			} else if !bytes.Equal(again, got[i]) {
				return fmt.Errorf("replay %d: result %d has other bits than Run's", turn, i)
			}
		}
	}
	return nil
}

// otherNumbers returns attributes that differ in the numbers that may change from one
// replay to the next, if there are any.
func otherNumbers(a op.Attrs) (op.Attrs, bool) {
	switch a := a.(type) {
	case op.Random:
		a.Key++
		return a, true
	case op.Update:
		a.Rate, a.Decay, a.Root = a.Rate+1, a.Decay+1, a.Root+1
		return a, true
	case op.Scales:
		a.A, a.B = a.A+1, a.B+1
		return a, true
	case op.Adam:
		a.Rate, a.Root = a.Rate+1, a.Root+1
		return a, true
	}
	return a, false
}

// testRecording checks what a recording promises beside its results.
func (s *suite) testRecording(t *testing.T) {
	r := s.rig(t)
	recorder, ok := r.dev.(backend.Recorder)
	if !ok {
		t.Skip("the device does not record")
	}
	const n = 100 << 10
	a, b := r.put(repeated(n, 1)), r.alloc(4*n)
	plus := func(out, in *backend.View, v float32) *backend.Call {
		return &backend.Call{Op: op.Add, In: []backend.View{*in, scalar32(n, v)}, Out: *out}
	}
	va, vb := vector(a, dtype.Float32, n), vector(b, dtype.Float32, n)
	calls := []*backend.Call{plus(&vb, &va, 1), plus(&va, &vb, 1)} // a += 2
	for _, c := range calls {
		r.ok(r.dev.Run(c))
	}
	rec, err := recorder.RecordCalls(calls, nil)
	if errors.Is(err, op.ErrUnsupported) {
		t.Skip(err)
	}
	r.ok(err)
	defer rec.Close()
	r.want(a, n, 3) // recording runs nothing
	r.ok(rec.Replay())
	r.bump(a, n, 1) // in the order of the calls
	r.ok(rec.Replay())
	r.want(a, n, 8)
	for i := range 3 { // and of copies, which may run beside it
		r.ok(r.dev.CopyIn(a, repeated(n, float64(10*i)), func() {}))
		r.ok(rec.Replay())
		r.want(a, n, float64(10*i+2))
	}
	if err := rec.Set(0, calls[0]); err == nil {
		t.Error("a call can be changed that was not recorded as late")
	}

	// What fails in a replay is reported once and names the op.
	bad := r.badCall(op.Take, dtype.Int64, 6)
	failing, err := recorder.RecordCalls([]*backend.Call{calls[0], bad, calls[1]}, nil)
	r.ok(err)
	for range 2 {
		err := failing.Replay()
		if err == nil {
			err = r.dev.Synchronize()
			var async *backend.AsyncError
			if !errors.As(err, &async) || async.Op != op.Take {
				t.Errorf("a bad index in a replay returned %v", err)
			}
		}
		if !errors.Is(err, op.ErrIndex) {
			t.Errorf("%v is not an op.ErrIndex", err)
		}
		r.ok(r.dev.Synchronize())
	}
	failing.Close()
	r.ok(r.dev.CopyIn(a, repeated(n, 1), func() {}))
	r.ok(rec.Replay())
	rec.Close() // while it is queued
	rec.Close()
	r.want(a, n, 3)
	if err := rec.Replay(); err == nil {
		t.Error("a closed recording is replayed")
	}
	if err := rec.Set(0, calls[0]); err == nil {
		t.Error("a closed recording is changed")
	}
}
