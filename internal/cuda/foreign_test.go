//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"errors"
	"testing"

	"github.com/locusml/locus/internal/memory"
)

// What fails is released all the same, once, and the device goes on.
func TestForeignFails(t *testing.T) {
	f, devices := openFake(t, 1)
	d := devices[0]
	in, out := block(t, d, 1<<20), block(t, d, 1<<20)
	broken := errors.New("broken")
	for _, c := range []struct {
		call  string
		queue error
	}{{"", broken}, {"cuStreamWaitEvent", nil}, {"cuEventRecord", nil}} {
		if c.call != "" {
			f.results[c.call] = 1
		}
		released := 0
		_, err := d.Foreign([]*memory.Block{in}, out, func(uintptr) error { return c.queue }, func() { released++ })
		if err == nil || released != 1 || c.queue != nil && !errors.Is(err, broken) {
			t.Errorf("%q: %v, released %d times", c.call, err, released)
		}
		f.results[c.call] = success
		done := make(chan struct{})
		e, err := d.Foreign([]*memory.Block{in}, nil, func(uintptr) error { return nil }, func() { close(done) })
		if err != nil {
			t.Fatalf("after %q: %v", c.call, err)
		}
		<-done
		if !e.Done() {
			t.Error("released before the device has passed it")
		}
	}
}

// A profile's marks on the second stream: behind everything queued so far, and at its end.
func TestSide(t *testing.T) {
	f, devices := openFake(t, 1)
	d := devices[0]
	if e := d.Side(false); !e.Done() { // there is no such stream yet
		t.Error("an event without a stream is not done")
	}
	from, to := d.Side(true), d.Side(false)
	from.Wait()
	to.Wait()
	if to.Since(from) < 0 || d.Aside(smallSlot) || !d.Aside(smallSlot+1) {
		t.Error("the marks are out of order, or copies are where they are not")
	}
	f.results["cuEventRecord"] = 700
	if e := d.Side(true); !e.Done() || d.Synchronize() == nil {
		t.Error("a mark of a lost device is not done")
	}
}
