//go:build !amd64

package gemm

func hasBlocks() bool { return false }

func (t *blocks) run(rows, cols int) { t.runGo(rows, cols) }
