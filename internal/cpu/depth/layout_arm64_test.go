package depth

import (
	"testing"
	"unsafe"
)

func TestPaddedLayout(t *testing.T) {
	var p padded
	for i, got := range []uintptr{
		unsafe.Offsetof(p.x), unsafe.Offsetof(p.y), unsafe.Offsetof(p.w), unsafe.Offsetof(p.rowX),
		unsafe.Offsetof(p.rowY), unsafe.Offsetof(p.rows), unsafe.Offsetof(p.columns),
	} {
		if want := uintptr(8 * i); got != want {
			t.Errorf("field %d is at %d, the assembly expects %d", i, got, want)
		}
	}
}
