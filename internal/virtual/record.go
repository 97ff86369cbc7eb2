package virtual

import (
	"errors"
	"slices"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu"
	"github.com/locusml/locus/internal/op"
)

// A recording of a virtual GPU is a copy of the calls, which a replay queues as one task.

type recording struct {
	device *Device
	late   []bool
	work   *recorded
	queued bool // a task has the work: it must not change any more
	closed bool
}

// recorded are calls and their kernels.
type recorded struct {
	calls   []*backend.Call
	kernels []func(*backend.Call) error
}

// RecordCalls keeps copies of the calls.
func (d *Device) RecordCalls(calls []*backend.Call, late []bool) (backend.Recording, error) {
	r := &recording{device: d, late: slices.Clone(late), work: &recorded{}}
	for _, c := range calls {
		k, ok := cpu.Kernel(c.Op, c.KernelType())
		if !ok {
			return nil, op.Problemf(op.ErrUnsupported, "virtual GPU %d has no kernel for %s of %s", d.index, c.Op, c.KernelType())
		}
		own := *c
		own.In, own.More = slices.Clone(c.In), slices.Clone(c.More)
		r.work.calls, r.work.kernels = append(r.work.calls, &own), append(r.work.kernels, k)
	}
	return r, nil
}

// Set changes the attributes of a call.
func (r *recording) Set(i int, c *backend.Call) error {
	switch {
	case r.closed:
		return errors.New("the recording is closed")
	case i < 0 || i >= len(r.late) || !r.late[i]:
		return errors.New("the call was not recorded as one whose attributes change")
	}
	if r.queued {
		r.work = &recorded{slices.Clone(r.work.calls), r.work.kernels}
		r.queued = false
	}
	own := *r.work.calls[i]
	own.Attrs = c.Attrs
	r.work.calls[i] = &own
	return nil
}

// Replay queues the calls.
func (r *recording) Replay() error {
	if r.closed {
		return errors.New("the recording is closed")
	}
	if err := r.device.gone(); err != nil {
		return err
	}
	r.queued = true
	r.device.stream.enqueue(task{device: r.device, work: r.work})
	return nil
}

// Close forgets the calls.
func (r *recording) Close() { r.closed, r.work = true, nil }
