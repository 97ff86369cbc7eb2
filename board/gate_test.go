package board

import (
	"testing"

	"github.com/locusml/locus/internal/op"
)

// TestNilArguments has what used to be a foreign panic. This package knows nothing
// of tensors: in a program that does, what it panics with is a *locus.Error.
func TestNilArguments(t *testing.T) {
	b := new(Board)
	defer b.Close()
	if b.WritePNG(nil) == nil || b.WriteSVG(nil) == nil {
		t.Error("a nil writer is accepted")
	}
	for what, f := range map[string]func(){
		"Subscribe of nil": func() { b.Subscribe(nil) },
		"a nil board":      func() { (*Board)(nil).Draw("loss", 0, 0, 1) },
		"a zero progress":  func() { new(Progress).Close() },
	} {
		func() {
			defer func() {
				if _, ok := recover().(*op.Problem); !ok {
					t.Errorf("%s: no error", what)
				}
			}()
			f()
		}()
	}
	if s := Scale(9).String(); s != "Scale(9)" {
		t.Error(s)
	}
}
