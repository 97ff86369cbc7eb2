package locus

import (
	"bytes"
	"strings"
	"testing"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/virtual"
)

// sided is a GPU that says of its larger copies that they run on a second stream.
type sided struct {
	*virtual.Device
	opened, closed int
}

func (s *sided) Side(open bool) backend.Event {
	if open {
		s.opened++
	} else {
		s.closed++
	}
	return s.Record()
}

func (s *sided) Aside(n int) bool { return n >= 4096 }

// What runs beside ops has a row of its own, by the device's clock, and is not what the
// device is busy with.
func TestProfileBeside(t *testing.T) {
	gpu := &sided{Device: virtual.New(901, 1<<20)}
	d := addGPUs([]backend.Device{gpu})[0]
	x := CPU().Ones(1024).Pin()
	line := Profile(func() {
		y := x.To(d)
		x.Slice(R(0, 10)).To(d) // among the ops
		y.Add(1)
		if seen, err := lend.Beside(gpu, "AllReduce", "of all", 4096, func() error { return nil }); !seen || err != nil {
			t.Errorf("%v, %v", seen, err)
		}
	})
	var rows []string
	var ops, beside int
	for _, s := range line.Spans {
		switch {
		case s.Beside:
			beside++
			rows = append(rows, s.Row()+": "+s.Name+", "+s.Kind())
			if s.Device != d || s.Host || s.Bytes != 4096 || s.End < s.Start {
				t.Errorf("%+v", s)
			}
		case !s.Host:
			ops++
		}
	}
	if want := d.String() + ", beside: host to device, program;" + d.String() + ", beside: AllReduce, program"; strings.Join(rows, ";") != want || ops != 1 || gpu.opened != 2 || gpu.closed != 2 {
		t.Errorf("%q, %d ops, opened %d times and closed %d times", rows, ops, gpu.opened, gpu.closed)
	}
	long := &Timeline{Spans: []Span{{Device: d, Name: "host to device", Beside: true, End: 5}, {Device: d, Name: "add", Start: 1, End: 3}}, Total: 5}
	if busy := long.Busy(d); busy != 2 {
		t.Errorf("busy for %v", busy)
	}
	if s := line.String(); !strings.Contains(s, "beside: AllReduce") || !strings.Contains(s, "beside: host to device") {
		t.Errorf("%s", s)
	}
	var b bytes.Buffer
	if err := line.WriteTrace(&b); err != nil || !strings.Contains(b.String(), d.String()+", beside") {
		t.Errorf("%v: %s", err, &b)
	}
	if seen, err := lend.Beside(gpu, "AllReduce", "", 0, func() error { return nil }); seen || err != nil || gpu.opened != 2 {
		t.Errorf("without a profile: %v, %v", seen, err)
	}
}
