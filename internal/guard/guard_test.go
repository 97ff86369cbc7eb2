package guard

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

func TestCall(t *testing.T) {
	var none []int
	var p *Panic
	if err := Call(func() error { return nil }); err != nil {
		t.Error(err)
	}
	if err := Call(func() error { return io.EOF }); err != io.EOF {
		t.Error(err)
	}
	if err := Call(func() error { locus.Ones(2).Add(locus.Ones(3)); return nil }); !errors.Is(err, locus.ErrShape) || errors.As(err, &p) {
		t.Error(err)
	}
	err := Call(func() error { return map[int]error{0: io.EOF}[none[3]] })
	if !errors.As(err, &p) || !strings.Contains(err.Error(), "index out of range") || !strings.Contains(err.Error(), "guard_test.go:") {
		t.Error(err)
	}
	// Passed on by somebody else, it is still where it was.
	err = Call(func() error { return locus.Try(func() { panic("passed on") }) })
	if err == nil || !strings.Contains(err.Error(), "passed on at ") || !strings.Contains(err.Error(), "guard_test.go:") {
		t.Error(err)
	}
	if err := Call(func() error { panic(io.ErrUnexpectedEOF) }); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	if err := Call(func() error { panic("help") }); err == nil || !strings.Contains(err.Error(), "help") {
		t.Error(err)
	}
}

func TestGo(t *testing.T) {
	for want, f := range map[error]func() error{
		nil:     func() error { return nil },
		io.EOF:  func() error { return io.EOF },
		ErrExit: func() error { runtime.Goexit(); return nil },
	} {
		c := make(chan error)
		go Go(f, func(err error) { c <- err })
		if err := <-c; err != want {
			t.Errorf("%v, want %v", err, want)
		}
	}
}
