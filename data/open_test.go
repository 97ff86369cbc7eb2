package data

import (
	"errors"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

func TestOpen(t *testing.T) {
	train, test, err := Open("digits", Source{})
	if err != nil || train.Len() != 1437 || test.Len() != 360 {
		t.Fatal(train, test, err)
	}
	if _, _, err := Open("digit", Source{}); !errors.Is(err, locus.ErrArgument) || !strings.Contains(err.Error(), "digits, fashion-mnist, mnist") {
		t.Errorf("got %v, want an error that lists the names", err)
	}
	for _, name := range []string{"fashion-mnist", "mnist"} {
		if _, _, err := Open(name, Source{Folder: t.TempDir()}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s from an empty folder: got %v, want an error that names it", name, err)
		}
	}
}
