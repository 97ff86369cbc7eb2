package locus

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/locusml/locus/internal/memory"
)

// A device that finds no room for an op's workspace, or whose driver has none, reports
// out of memory, with the device's name and what holds its memory.
func TestOutOfMemoryOfAnOp(t *testing.T) {
	p := &place{device: GPU(3)}
	holder := memory.Holder{Label: memory.Label{DType: "workspace", Shape: "of sort"}, Bytes: 2 << 20}
	for want, exhausted := range map[string]*memory.Exhausted{
		"workspace of argsort needs 3 MiB":       {Label: memory.Label{DType: "workspace", Shape: "of argsort"}, Asked: 3 << 20},
		"out of memory: the driver has no room:": {Cause: errors.New("the driver has no room: 2")},
	} {
		exhausted.Largest = []memory.Holder{holder}
		err := Try(func() { failOn(p, "argsort", fmt.Errorf("queueing: %w", exhausted), nil) })
		var e *Error
		if !errors.Is(err, ErrOutOfMemory) || !errors.As(err, &e) || e.Memory == nil || e.Memory.Device != GPU(3) {
			t.Fatalf("got %+v", err)
		}
		for _, s := range []string{want, "gpu:3: ", "workspace of sort\n", "fix: "} {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("%q does not say %q", err, s)
			}
		}
		if strings.Contains(err.Error(), "made at") {
			t.Errorf("%q says where a workspace was made", err)
		}
	}
}
