package main

import (
	"fmt"
	"slices"

	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The lanes of NEON: what the methods of vk mean in arm64's instructions. A vector is 128
// bits. A mask is a vector of ones and zeros, as under AVX2. Memory is never an operand, and
// fused multiply-adds overwrite what they add to.

// neon reports whether the code is for arm64.
func (v *vk) neon() bool { return v.bits == 128 }

// neonState is what the functions of a file and the emitters of one have in common.
type neonState struct {
	table  []uint64 // of all constants of the file, two words each
	places map[string]int

	// Of one function: constants that stay in a register, at most limit of them.
	limit  int
	held   map[string]V
	order  []string
	base   reg.GPVirtual
	unroll int // vectors of a turn at most
}

const neonConstants = "neonConstants"

// t is the suffix of an instruction on floating-point lanes, and on whole integers of
// their size.
func (v *vk) t() string {
	if v.double {
		return ".2d"
	}
	return ".4s"
}

// neonNames has the instructions of bin.
var neonNames = map[string]string{
	"VADDPS": "fadd", "VSUBPS": "fsub", "VMULPS": "fmul", "VDIVPS": "fdiv", "VMAXPS": "fmax", "VMINPS": "fmin",
	"VPADDD": "add", "VPADDQ": "add", "VPSUBD": "sub", "VPSUBQ": "sub",
	"VANDPS": "and", "VORPS": "orr", "VXORPS": "eor",
}

// neonBin emits d = x op y.
func (v *vk) neonBin(name string, x, y Op) V {
	n := neonNames[name]
	if _, whole := neonForms[n]; !whole {
		n += v.t()
	}
	d := v.reg()
	v.op(n, d, v.in(x), v.in(y))
	return d
}

// place is where a constant lies in the table.
func (k *neonState) place(m Mem) int {
	if at, ok := k.places[m.Symbol.Name]; ok {
		return at
	}
	var size int
	var word uint64
	if _, err := fmt.Sscanf(m.Symbol.Name, "c%d_%x", &size, &word); err != nil {
		panic(err)
	}
	if size == 32 {
		word |= word << 32
	}
	at := 8 * len(k.table)
	k.table = append(k.table, word, word)
	k.places[m.Symbol.Name] = at
	return at
}

// fresh loads a constant into a register that may be overwritten.
func (v *vk) fresh(m Mem) V {
	d := v.reg()
	v.text("FMOVQ <M, >F", Mem{Base: v.k.base, Disp: v.k.place(m)}, d)
	return d
}

// held returns a register with a constant, which must stay as it is. It is loaded at the
// function's beginning if there is room.
func (v *vk) held(m Mem) V {
	k := v.k
	if r, ok := k.held[m.Symbol.Name]; ok {
		return r
	}
	if len(k.order) == k.limit {
		return v.fresh(m)
	}
	r := v.reg()
	k.held[m.Symbol.Name] = r
	k.order = append(k.order, m.Symbol.Name)
	return r
}

const neonPrologue = "neon: constants"

// prologue puts the loads of constants where the function begins.
func (v *vk) prologue(fn *ir.Function) {
	at := slices.IndexFunc(fn.Nodes, func(n ir.Node) bool {
		c, ok := n.(*ir.Comment)
		return ok && c.Lines[0] == neonPrologue
	})
	body := slices.Clone(fn.Nodes[at+1:])
	fn.Nodes = fn.Nodes[:at]
	if len(v.k.order) > 0 || used(body, v.k.base) {
		v.text("MOVD $"+neonConstants+"<>(SB), >R", v.k.base)
	}
	for _, name := range v.k.order {
		v.text("FMOVQ <M, >F", Mem{Base: v.k.base, Disp: v.k.place(Mem{Symbol: Symbol{Name: name}})}, v.k.held[name])
	}
	fn.Nodes = append(fn.Nodes, body...)
}

// neonCopy puts memory, a constant or a register into a new register.
func (v *vk) neonCopy(a Op) V {
	if m, ok := a.(Mem); ok {
		if isConstant(m) {
			return v.fresh(m)
		}
		d := v.reg()
		v.text("FMOVQ <M, >F", m, d)
		return d
	}
	d := v.reg()
	v.op("mov", d, a)
	return d
}

func (v *vk) store(x V, m Mem) {
	if v.neon() {
		v.text("FMOVQ <F, =M", x, m)
		return
	}
	v.ctx.VMOVUPS(x, m)
}

// neonFma is z + x*y, or z - x*y with fmls.
func (v *vk) neonFma(name string, x, y, z Op) V {
	d := v.copy(z)
	v.op(name+v.t(), d, v.in(x), v.in(y))
	return d
}

func (v *vk) neonCmp(pred int, x, y Op) M {
	a, b := v.in(x), v.in(y)
	d := v.reg()
	not := false
	switch pred {
	case eq, ne:
		v.op("fcmeq"+v.t(), d, a, b)
		not = pred == ne
	case gt:
		v.op("fcmgt"+v.t(), d, a, b)
	case ge:
		v.op("fcmge"+v.t(), d, a, b)
	case lt, nlt:
		v.op("fcmgt"+v.t(), d, b, a)
		not = pred == nlt
	case le, nle:
		v.op("fcmge"+v.t(), d, b, a)
		not = pred == nle
	case unord:
		v.op("fcmeq"+v.t(), d, a, a)
		if a != b {
			e := v.reg()
			v.op("fcmeq"+v.t(), e, b, b)
			d = v.and(d, e)
		}
		not = true
	default:
		panic("no such comparison")
	}
	if not {
		n := v.reg()
		v.op("mvn", n, d)
		return n
	}
	return d
}

func (v *vk) neonBlend(m M, t, f Op) V {
	d := v.copy(m)
	v.op("bsl", d, v.in(t), v.in(f))
	return d
}

func (v *vk) neonShift(name string, x V, n uint64) V {
	d := v.reg()
	v.op(name+v.t(), d, x, U32(n))
	return d
}

// one emits d = name(x).
func (v *vk) one(name string, x Op) V {
	d := v.reg()
	v.op(name, d, v.in(x))
	return d
}

// two emits d = name(x, y).
func (v *vk) two(name string, x, y Op) V {
	d := v.reg()
	v.op(name, d, v.in(x), v.in(y))
	return d
}
