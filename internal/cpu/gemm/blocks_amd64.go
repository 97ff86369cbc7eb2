package gemm

import (
	"unsafe"

	"github.com/locusml/locus/internal/cpu/vec"
)

func hasBlocks() bool { return vec.Products() == vec.AMX && tilesGranted() }

func (t *blocks) run(rows, cols int) {
	if !hasBlocks() {
		t.runGo(rows, cols)
		return
	}
	p := (*byte)(unsafe.Pointer(t))
	switch {
	case rows == 32 && cols == 32:
		blocksR32V2AMX(p)
	case rows == 32:
		blocksR32V1AMX(p)
	case cols == 32:
		blocksR16V2AMX(p)
	default:
		blocksR16V1AMX(p)
	}
}
