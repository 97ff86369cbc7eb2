//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// productParams is Product of kernels/product.cuh.
type productParams struct {
	a, b, bias, c, partial          uintptr
	m, n, k, lda, ldb, stepA, stepB int64
	batch, chunk                    int64
	splits, wideA, wideB, act       int32
}

// activations are the numbers of op.Activations: Act of kernels/product.cuh.
var activations = func() (n [op.NumOps]int32) {
	for i, act := range op.Activations {
		n[act] = int32(i + 1)
	}
	return n
}()

func (g *product) params() productParams {
	return productParams{a: g.a.addr, b: g.b.addr, bias: g.bias, c: g.c, m: int64(g.m), n: int64(g.n), k: int64(g.k),
		lda: int64(g.a.ld), ldb: int64(g.b.ld), stepA: int64(g.a.step), stepB: int64(g.b.step), batch: int64(g.batch), chunk: int64(g.k), splits: 1,
		act: activations[g.act]}
}

// ownGemm queues a product by this package's kernels. One with a bias or an
// activation must have an a that is not transposed.
func (d *Device) ownGemm(t dtype.DType, g *product) error {
	p := g.params()
	if t.IsFloat() && (g.k <= 1024 && g.work() <= smallWork || g.k <= 512 && ceil(g.m, 32)*ceil(g.n, 32)*g.batch <= 4*d.card.sms) {
		return d.smallGemm(t, g, &p)
	}
	file, kernel, name := "gemm", "", typeName(t)
	tileM, tileN, shared := 0, 0, 0
	switch {
	case d.canWGMMA(t, g):
		return d.hopperGemm(t, g)
	case d.canMMA(t, g):
		file, kernel, tileM, tileN, shared = "gemm_sm80", "gemm_mma_", 128, 256, mmaShared(t, g)
		switch t {
		case dtype.Float32:
			name = "tf32"
		case dtype.Float64:
			file, tileN = "gemm_f64_sm80", 64
			if d.hopper() {
				file, kernel = "gemm_f64_sm90", "gemm_mma16_"
			}
		}
	case t.IsFloat() && t != dtype.Float64 && ceil(g.m, 128)*ceil(g.n, 128)*g.batch >= d.card.sms:
		kernel, tileM, tileN = "gemm128_", 128, 128
	default:
		kernel, tileM, tileN = "gemm64_", 64, 64
	}
	layout := layouts[g.layout()]
	if g.ends() && file == "gemm" {
		layout = "end_" + layout
	}
	e := tileM * 8 / 256 // elements of a load: E of kernels/gemm.cuh
	p.wideA, p.wideB = g.a.aligned(e, t.Size(), g.batch), g.b.aligned(e, t.Size(), g.batch)
	blocks := ceil(g.m, tileM) * ceil(g.n, tileN)
	// Few results with long sums: blocks share the sums.
	if splits := min(ceil(d.card.sms, blocks*g.batch), g.k/256); splits > 1 {
		p.chunk = int64(ceil(ceil(g.k, splits), 32) * 32)
		p.splits = int32(ceil(g.k, int(p.chunk)))
		var err error
		p.partial, err = d.workspace(int(p.splits) * g.batch * g.m * g.n * max(4, t.Size()))
		if d.refused(err) {
			p.splits, p.chunk, err = 1, int64(g.k), nil // slower, without
		}
		if err != nil {
			return err
		}
	}
	if err := runKernel(d, file, kernel+layout+name, &p, grid{x: blocks, y: min(g.batch, 65535), z: int(p.splits), threads: 256, shared: shared}); err != nil {
		return err
	}
	if p.splits == 1 {
		return d.activateRest(t, g)
	}
	if g.ends() {
		return runKernel(d, "gemm", "gemm_sum_"+typeName(t), &p, oneEach(g.batch*g.m*g.n))
	}
	return d.sumSplits(t, p.partial, g.c, int(p.splits), g.batch*g.m*g.n)
}

// smallGemm queues a product whose time is spent waiting, not on arithmetic.
func (d *Device) smallGemm(t dtype.DType, g *product, p *productParams) error {
	at, stem := g.layout(), "gemm_small_"
	name := layouts[at]
	if g.ends() {
		at, stem = at+len(layouts), "gemm_small_end_"
	}
	k := d.found.small[at][t]
	if k == nil {
		var err error
		if k, err = d.kernel("gemm", stem+name+typeName(t)); err != nil {
			return err
		}
		d.found.small[at][t] = k
	}
	*paramsOf[productParams](d, k) = *p
	const tile = 16
	return d.launch(k, grid{x: ceil(g.m, tile) * ceil(g.n, tile), y: min(g.batch, 65535), threads: 256})
}

// canMMA reports whether the tensor cores can do a product: they read 16 bytes
// at a time.
func (d *Device) canMMA(t dtype.DType, g *product) bool {
	if d.card.major < 8 || !t.IsFloat() || t == dtype.Float32 && !tf32.Load() {
		return false
	}
	v := 16 / t.Size()
	return g.a.aligned(v, t.Size(), g.batch) == 1 && g.b.aligned(v, t.Size(), g.batch) == 1 && mmaShared(t, g) <= d.card.sharedMax
}

// hopper reports whether the card runs the files named …_sm90, and the driver knows
// their version of PTX.
func (d *Device) hopper() bool {
	return d.card.major == 9 && d.card.minor == 0 && d.card.drv.version >= 12000
}

// canWGMMA reports whether Hopper's tensor cores should do a product: there are
// enough results to keep them busy, and float32 operands lie along k or can be copied
// so that they do.
func (d *Device) canWGMMA(t dtype.DType, g *product) bool {
	along := !g.a.trans && g.b.trans
	return t != dtype.Float64 && d.hopper() && d.canMMA(t, g) &&
		(t != dtype.Float32 || g.k%4 == 0 && (along || g.batch == 1)) && ceil(g.m, 128)*ceil(g.n, 256)*g.batch >= d.card.sms/2
}

// hopperGemm queues a product by kernels/gemm_sm90.cu. TF32 wants both operands
// along k; those that are not are copied.
func (d *Device) hopperGemm(t dtype.DType, g *product) error {
	p := g.params()
	name := layouts[g.layout()] + typeName(t)
	if t == dtype.Float32 {
		name = "nt_tf32"
		room := 0
		if g.a.trans {
			room = (g.m*g.k*t.Size() + 255) &^ 255
		}
		work, err := d.workspace(room + g.n*g.k*t.Size())
		if err != nil {
			return err
		}
		if g.a.trans {
			v := backend.View{Block: blockAt(g.a.addr), Shape: []int{g.m, g.k}, Strides: []int{1, g.a.ld}, DType: t}
			if err := d.copyView(&v, work); err != nil {
				return err
			}
			p.a, p.lda = work, int64(g.k)
		}
		if !g.b.trans {
			v := backend.View{Block: blockAt(g.b.addr), Shape: []int{g.n, g.k}, Strides: []int{1, g.b.ld}, DType: t}
			if err := d.copyView(&v, work+uintptr(room)); err != nil {
				return err
			}
			p.b, p.ldb = work+uintptr(room), int64(g.k)
		}
	}
	const shared = 4*(128+256)*128 + 1024 // STAGES tiles, and room to align them
	if err := runKernel(d, "gemm_sm90", "gemm_wgmma_"+name, &p, grid{x: ceil(g.m, 128) * ceil(g.n, 256), y: min(g.batch, 65535), threads: 256, shared: shared}); err != nil {
		return err
	}
	return d.activateRest(t, g)
}

// layouts are the parts of kernels' names that say how the operands are stored,
// and layout says which it is.
var layouts = [...]string{"nn_", "nt_", "tn_", "tt_"}

func (g *product) layout() int {
	n := 0
	if g.a.trans {
		n = 2
	}
	if g.b.trans {
		n++
	}
	return n
}

// mmaShared is the shared memory of a block of kernels/gemm_sm80.cu, or for
// float64 of kernels/gemm_f64.cuh.
func mmaShared(t dtype.DType, g *product) int {
	if t == dtype.Float64 {
		tile := func(rows int, alongK bool) int { // padded
			if alongK {
				return rows * (16 + 4) * 8
			}
			return 16 * (rows + 4) * 8
		}
		return 3 * (tile(128, !g.a.trans) + tile(64, g.b.trans))
	}
	const stages = 4
	size := 128*64 + 256*64
	if t == dtype.Float32 { // padded rows
		if g.a.trans {
			size += 16 * 32
		}
		if !g.b.trans {
			size += 16 * 32
		}
	}
	return stages * size
}

// aligned reports (1 or 0, as kernels want it) whether e elements can be loaded at once everywhere.
func (x *matrix) aligned(e, size, batch int) int32 {
	if x.addr%uintptr(e*size) == 0 && x.ld%e == 0 && (batch == 1 || x.step%e == 0) {
		return 1
	}
	return 0
}

func blockAt(addr uintptr) *memory.Block { return &memory.Block{Region: memory.Region{Addr: addr}} }
