package virtual

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/op"
)

// A virtual GPU can be lost as a card is whose memory fails: from some op on it computes
// nothing more, and every call says so.

// fault is whether and when the device is lost.
type fault struct {
	left atomic.Int64 // ops until then; 0: never
	runs atomic.Int64 // ops so far
	lost atomic.Pointer[backend.LostError]
}

var errFault = errors.New("an uncorrectable memory error (of a virtual GPU, which was asked for)")

// LoseAfter makes the device fail at the n-th op that it runs from now on.
func (d *Device) LoseAfter(n int64) { d.fault.left.Store(n) }

// Runs returns how many ops the device has run, with those that are queued.
func (d *Device) Runs() int64 {
	d.stream.wait(d.stream.issued.Load())
	return d.fault.runs.Load()
}

// loseFromEnv does so for the GPU and the op that LOCUS_LOSE_GPU names: "1:200".
func (d *Device) loseFromEnv() {
	s := os.Getenv("LOCUS_LOSE_GPU")
	if s == "" {
		return
	}
	gpu, at, _ := strings.Cut(s, ":")
	i, err1 := strconv.Atoi(gpu)
	n, err2 := strconv.ParseInt(at, 10, 64)
	switch {
	case err1 != nil || err2 != nil || i < 0 || n < 1:
		fmt.Fprintf(os.Stderr, "locus: LOCUS_LOSE_GPU=%q is not a virtual GPU and the number of an op such as 1:200; none is lost\n", s)
	case i == d.index:
		d.LoseAfter(n)
	}
}

// fails reports whether the op at hand is not computed, because the device is lost before
// or with it.
func (d *Device) fails(id op.ID) bool {
	d.fault.runs.Add(1)
	if d.fault.lost.Load() != nil {
		return true
	}
	if d.fault.left.Load() == 0 || d.fault.left.Add(-1) != 0 {
		return false
	}
	l := &backend.LostError{On: d, Device: d.Info().Name, Cause: errFault}
	d.stream.failure.CompareAndSwap(nil, &backend.AsyncError{Op: id, Err: l}) // before others learn of it
	d.fault.lost.Store(l)
	return true
}

// gone returns what every call on a lost device does: the first one that sees it names
// the op.
func (d *Device) gone() error {
	l := d.fault.lost.Load()
	if l == nil {
		return nil
	}
	if e := d.stream.failure.Swap(nil); e != nil {
		return e
	}
	return l
}
