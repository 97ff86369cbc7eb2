//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"cmp"
	"errors"
	"math"
	"os"
	"slices"
	"time"
	"unsafe"

	"github.com/locusml/locus/internal/backend"
)

// Which of the choices for a convolution is the fastest, by the clock.

// worthTiming is how many multiplications a convolution has for which timing the
// choices pays. For smaller ones the size alone decides, the same in every process and
// in a recording, while the clock may choose otherwise the next time.
const worthTiming = 1 << 27

// timing is off where every run must repeat the last one's bits.
var timing = os.Getenv("LOCUS_CUDNN_TIMING") != "off"

// sort times the choices on the operands, once for each kind of call, and puts the
// fastest first; if our own kernels are faster, none is left. cuDNN has a function
// for this, which times single launches on an idle card: the many kernels of a
// transform were seen to take half as long again there. A call of an algorithm costs the
// host up to 100 µs, one of a plan or of our own kernels 10: what takes the host longer
// than the card counts with the host's time. Each writes the result, and so does, last,
// the one that is chosen. Where memory is short it starts over.
func (n *dnn) sort(d *Device, c *backend.Call, p *convPlan) error {
	for { // one workspace for all, not to get another in between
		most := uint64(0)
		for _, by := range p.choices {
			most = max(most, by.memory)
		}
		_, err := d.workspace(int(most))
		if err == nil {
			break
		}
		if !d.refused(err) || most == 0 {
			return err
		}
		p.doWithLess(most)
	}
	var err error
	for i := range p.choices {
		by := &p.choices[i]
		if by.took, err = d.timed(func() error { return n.queue(d, c, p, *by) }); err != nil {
			return err
		}
	}
	slices.SortStableFunc(p.choices, func(a, b convChoice) int { return cmp.Compare(a.took, b.took) })
	best := float32(math.Inf(1))
	if len(p.choices) > 0 {
		best = p.choices[0].took
	}
	if math.IsInf(float64(best), 1) {
		p.choices = nil
	}
	// Our own kernels take a while to compile, so only where cuDNN is slow: they do
	// at most so many multiplications a millisecond on each multiprocessor.
	const ownRate = 0.11e9
	if best > float32(p.work)/float32(ownRate*d.card.sms) {
		own, err := d.timed(func() error { return d.ownConvLast(c) })
		if err != nil {
			return err
		}
		if own < best {
			p.choices = nil
		}
	}
	return nil
}

// doWithLess forgets the choices that need so much memory or more, for which there was
// no room: to try everything each time would take longer than what is left.
func (p *convPlan) doWithLess(memory uint64) {
	p.less = true
	p.choices = slices.DeleteFunc(p.choices, func(by convChoice) bool {
		if by.memory < memory {
			return false
		}
		if by.plan != 0 {
			p.graph.drop(by.plan)
		}
		return true
	})
}

// timed returns the milliseconds of what f queues, on the card or on the host if that
// takes longer; infinity if it fails; errShort if it must be queued again.
func (d *Device) timed(f func() error) (float32, error) {
	never := float32(math.Inf(1))
	switch err := f(); { // once for what happens only the first time
	case errors.Is(err, errShort):
		return never, err
	case err != nil:
		return never, nil
	}
	const times = 3
	var marks [2]uintptr
	host := time.Duration(math.MaxInt64) // the least: the others were interrupted
	for i := range marks {
		e, err := d.takeEvent(&d.events.timed)
		if err != nil {
			return never, nil
		}
		defer func() { d.events.timed.free = append(d.events.timed.free, e) }()
		marks[i] = e
		if d.record(e, d.stream) != nil {
			return never, nil
		}
		for range times * (1 - i) {
			start := time.Now()
			if f() != nil {
				return never, nil
			}
			host = min(host, time.Since(start))
		}
	}
	d.c.fn, d.c.a[0] = d.card.drv.eventSynchronize, marks[1]
	if Result(d.c.do()) != success {
		return never, nil
	}
	d.c.fn, d.c.a[0], d.c.a[1], d.c.a[2] = d.card.drv.eventElapsedTime, uintptr(unsafe.Pointer(&d.word)), marks[0], marks[1]
	if Result(d.c.do()) != success {
		return never, nil
	}
	return max(*(*float32)(unsafe.Pointer(&d.word))/times, float32(host.Seconds()*1e3)), nil
}
