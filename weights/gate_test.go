package weights_test

import (
	"errors"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/weights"
)

// TestNilArguments has what used to be a foreign panic.
func TestNilArguments(t *testing.T) {
	var got error
	for what, f := range map[string]func(){
		"Read of nil":             func() { _, got = weights.Read(nil, 10) },
		"Write to nil":            func() { got = weights.Write(nil, nil, nil) },
		"WriteNPY to nil":         func() { got = weights.WriteNPY(nil, locus.Ones(1)) },
		"WriteNPZ to nil":         func() { got = weights.WriteNPZ(nil, nil) },
		"Save of a zero tensor":   func() { got = weights.Save(t.TempDir()+"/x", map[string]*locus.Tensor{"x": {}}, nil) },
		"Save of a nil tensor":    func() { got = weights.Save(t.TempDir()+"/x", map[string]*locus.Tensor{"x": nil}, nil) },
		"SpecOf a nil tensor":     func() { weights.SpecOf(nil) },
		"a nil file":              func() { (*weights.File)(nil).Names() },
		"a file that nobody made": func() { new(weights.File).Close() },
	} {
		got = nil
		if err := locus.Try(f); err != nil {
			got = err
		}
		if !errors.Is(got, locus.ErrArgument) {
			t.Errorf("%s: got %v, want %v", what, got, locus.ErrArgument)
		}
	}
}
