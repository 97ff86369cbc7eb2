package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Field offsets of depth's type padded; depth's tests compare them.
const (
	paddedX       = 0
	paddedY       = 8
	paddedW       = 16
	paddedRowX    = 24
	paddedRowY    = 32
	paddedRows    = 40
	paddedColumns = 48
)

// neonDepth lists the convolutions of a plane with a 3×3 filter.
func neonDepth() (out []neonFn) {
	for _, stride := range []int{1, 2} {
		out = append(out, neonFn{
			fmt.Sprintf("stride%dNEON", stride), fmt.Sprintf("convolves a plane that has its padding with a 3×3 filter that moves by %d.", stride),
			"func(t *byte)", false, func(v *vk) { v.neonConvolve(stride) },
		})
	}
	return out
}

// neonConvolve goes down the plane, a vector of columns at a time and four rows of the
// result; the last vector ends where the row does, over results that are there already.
func (v *vk) neonConvolve(stride int) {
	t := v.ptr("t")
	w := v.field(t, paddedW)
	var taps []V
	for range 9 {
		taps = append(taps, v.spread(w))
		v.bump(4, w)
	}
	pitch, rowY := v.field(t, paddedRowX), v.field(t, paddedRowY)
	left, j := v.field(t, paddedColumns), v.ctx.GP64()
	v.text("SUB $4, =R", left)
	v.text("MOVD $0, >R", j)
	v.ctx.Label("vector")
	x, y, n := v.field(t, paddedX), v.field(t, paddedY), v.field(t, paddedRows)
	v.text(fmt.Sprintf("ADD <R<<%d, =R", 1+stride), j, x)
	v.text("ADD <R<<2, =R", j, y)
	row := func(p reg.GPVirtual) []V {
		if stride == 1 {
			return []V{v.load(Mem{Base: p}), v.load(Mem{Base: p, Disp: 4}), v.load(Mem{Base: p, Disp: 8})}
		}
		a := v.loads(p, 2)
		b, c := v.load(Mem{Base: p, Disp: 8}), v.load(Mem{Base: p, Disp: 24})
		return []V{v.two("uzp1.4s", a[0], a[1]), v.two("uzp2.4s", a[0], a[1]), v.two("uzp1.4s", b, c)}
	}
	turn := func(u int) func() {
		return func() {
			acc := make([]V, u)
			q := v.ctx.GP64()
			v.text("MOVD <R, >R", x, q)
			for i := range (u-1)*stride + 3 {
				l := row(q)
				for o := range acc {
					k := i - o*stride
					if k < 0 || k > 2 {
						continue
					}
					for c, e := range l {
						if k == 0 && c == 0 {
							acc[o] = v.mul(e, taps[0])
						} else {
							v.acc(acc[o], e, taps[3*k+c])
						}
					}
				}
				v.text("ADD <R, =R", pitch, q)
				if i == u*stride-1 {
					v.text("MOVD <R, >R", q, x)
				}
			}
			for _, r := range acc {
				v.store(r, Mem{Base: y})
				v.text("ADD <R, =R", rowY, y)
			}
		}
	}
	v.count(n, "rows", 4, turn(4))
	v.text("BEQ <L", LabelRef("next"))
	v.count(n, "row", 1, turn(1))
	v.ctx.Label("next")
	v.text("CMP <R, <R", left, j)
	v.text("BGE <L", LabelRef("end"))
	v.text("ADD $4, =R", j)
	v.text("CMP <R, <R", left, j)
	v.text("CSEL GT, <R, =R, >R", left, j, j)
	v.text("B <L", LabelRef("vector"))
	v.ctx.Label("end")
}
