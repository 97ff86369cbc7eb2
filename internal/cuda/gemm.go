//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/memory"
)

// productParams is Product of kernels/gemm.cu.
type productParams struct {
	a, b, c, partial                uintptr
	m, n, k, lda, ldb, stepA, stepB int64
	batch, chunk                    int64
	splits, wideA, wideB, _         int32
}

// ownGemm queues a product by this package's kernels.
func (d *Device) ownGemm(t dtype.DType, g *product) error {
	tile := 64
	if t.IsFloat() && t != dtype.Float64 && ceil(g.m, 128)*ceil(g.n, 128)*g.batch >= d.card.sms {
		tile = 128
	}
	blocks := ceil(g.m, tile) * ceil(g.n, tile)
	p := productParams{a: g.a.addr, b: g.b.addr, c: g.c, m: int64(g.m), n: int64(g.n), k: int64(g.k),
		lda: int64(g.a.ld), ldb: int64(g.b.ld), stepA: int64(g.a.step), stepB: int64(g.b.step), batch: int64(g.batch), chunk: int64(g.k), splits: 1}
	e := tile * 8 / 256 // elements of a load: E of kernels/gemm.cuh
	p.wideA, p.wideB = g.a.wide(e, t.Size(), g.batch), g.b.wide(e, t.Size(), g.batch)
	// Few results with long sums: blocks share the sums.
	if splits := min(ceil(d.card.sms, blocks*g.batch), g.k/256); splits > 1 {
		p.chunk = int64(ceil(ceil(g.k, splits), 8) * 8)
		p.splits = int32(ceil(g.k, int(p.chunk)))
		var err error
		if p.partial, err = d.workspace(int(p.splits) * g.batch * g.m * g.n * max(4, t.Size())); err != nil {
			return err
		}
	}
	name := []byte{'n', 'n'}
	if g.a.trans {
		name[0] = 't'
	}
	if g.b.trans {
		name[1] = 't'
	}
	kernel := "gemm64_"
	if tile == 128 {
		kernel = "gemm128_"
	}
	if err := runKernel(d, "gemm", kernel+string(name)+"_"+typeName(t), &p, blocks, min(g.batch, 65535), int(p.splits), 256, 0); err != nil || p.splits == 1 {
		return err
	}
	return d.sumSplits(t, p.partial, g.c, int(p.splits), g.batch*g.m*g.n)
}

// wide reports whether e elements can be loaded at once everywhere.
func (x *matrix) wide(e, size, batch int) int32 {
	if x.addr%uintptr(e*size) == 0 && x.ld%e == 0 && (batch == 1 || x.step%e == 0) {
		return 1
	}
	return 0
}

func blockAt(addr uintptr) *memory.Block { return &memory.Block{Region: memory.Region{Addr: addr}} }
