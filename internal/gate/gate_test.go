package gate_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/gate"
)

func TestCount(t *testing.T) {
	for n, ok := range map[int]bool{-1: false, 0: false, 1: true, 5: true, 6: false, 1 << 40: false} {
		if err := gate.Count("layers", n, 1, 5); (err == nil) != ok || err != nil && !errors.Is(err, locus.ErrArgument) {
			t.Errorf("%d of 1 to 5: %v", n, err)
		}
	}
}

func TestGiven(t *testing.T) {
	for what, v := range map[string]any{
		"nil": nil, "a pointer": (*int)(nil), "a function": (func())(nil), "a reader in an interface": io.Reader((*bytes.Buffer)(nil)), "a map": map[string]int(nil),
	} {
		if err := gate.Given("it", v); !errors.Is(err, locus.ErrArgument) {
			t.Errorf("%s that is nil: %v", what, err)
		}
	}
	for what, v := range map[string]any{"a number": 0, "a struct": struct{}{}, "a function": func() {}, "a pointer": new(int), "an empty slice": []int{}} {
		if err := gate.Given("it", v); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestCheck makes sure that what comes out is the error that programs know.
func TestCheck(t *testing.T) {
	gate.Check("f", nil, nil)
	gate.Receiver("f", true, "")
	err := locus.Try(func() { gate.Check("f", nil, gate.Count("layers", 9, 1, 5)) })
	var e *locus.Error
	if !errors.As(err, &e) || e.Op != "f" || e.Kind != locus.ErrArgument || e.Msg != "layers is 9; the most is 5" {
		t.Errorf("%#v", err)
	}
	err = locus.Try(func() { gate.Receiver("f", false, "use New") })
	if !errors.As(err, &e) || e.Fix != "use New" {
		t.Errorf("%#v", err)
	}
}
