package optest

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/locusml/locus"
)

// every thins out what is slow under the race detector, and with -short: such
// tests look at each n-th case only.
func every(n int) int {
	if raceEnabled || testing.Short() {
		return n
	}
	return 1
}

var virtual locus.Device

func TestMain(m *testing.M) {
	flag.Parse()
	virtual = locus.AddVirtualGPUs(1, 256<<20)[0]
	os.Exit(m.Run())
}

// devices lists where everything must work: the CPU, a virtual GPU, and every
// real one.
func devices() []locus.Device {
	l := []locus.Device{locus.CPU(), virtual}
	for _, d := range locus.Devices() {
		if d.Device.IsGPU() && !strings.HasPrefix(d.Name, "virtual") {
			l = append(l, d.Device)
		}
	}
	return l
}

// onDevices runs a test on every device.
func onDevices(t *testing.T, f func(t *testing.T, d locus.Device)) {
	for _, d := range devices() {
		t.Run(strings.ReplaceAll(d.String(), ":", ""), func(t *testing.T) { f(t, d) })
	}
}

var load = sync.OnceValues(func() (*Records, error) {
	r := &Records{}
	for _, name := range []string{"ops", "more", "volumes", "linalg"} {
		more, err := Load("../../testdata/" + name + ".bin.gz")
		if err != nil {
			return nil, err
		}
		if r.Torch != "" && more.Torch != r.Torch {
			return nil, fmt.Errorf("the records are of PyTorch %s and %s; record all again", r.Torch, more.Torch)
		}
		r.Torch, r.Cases = more.Torch, append(r.Cases, more.Cases...)
	}
	return r, nil
})

func records(t testing.TB) []*Case {
	r, err := load()
	if err != nil {
		t.Fatal(err)
	}
	return r.Cases
}

var table = sync.OnceValue(func() map[string]*Op {
	m := map[string]*Op{}
	for _, o := range Table() {
		if m[o.Name] != nil {
			panic(o.Name + " is twice in the table")
		}
		m[o.Name] = o
	}
	return m
})

// lookup returns the op of a case.
func lookup(t testing.TB, c *Case) *Op {
	o := table()[c.Op]
	if o == nil {
		t.Fatalf("%s is recorded but not in the table", c.Op)
	}
	return o
}

// guarded calls f and turns panics that are not a locus.Error into errors too, so
// that one op's bug does not hide the others'.
func guarded(f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v, from %s", r, origin())
		}
	}()
	return locus.Try(f)
}

// origin names the functions on the way to a panic, innermost first.
func origin() string {
	pcs := make([]uintptr, 16)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs)])
	var names []string
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, "runtime.") {
			names = append(names, fmt.Sprintf("%s:%d", f.File[strings.LastIndex(f.File, "/")+1:], f.Line))
		}
		if !more || len(names) == 8 {
			return strings.Join(names, " < ")
		}
	}
}
