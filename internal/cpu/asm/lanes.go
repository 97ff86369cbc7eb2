package main

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// V is a vector register. Functions below return fresh ones, so bodies read
// like expressions; avo assigns the registers.
type V = reg.VecVirtual

// M is a lane mask: a vector of ones and zeros under AVX2 and NEON, a K register
// under AVX-512.
type M = reg.Register

// vk emits the vector code of one function at one width.
type vk struct {
	ctx    *build.Context
	bits   int
	double bool // lanes are float64
	fn     fn
	consts map[string]Mem
	labels int
	stream bool // stores bypass the caches
	ahead  bool // fetch what lies behind the first operand, the next row of a matrix
	k      *neonState
}

func (v *vk) wide() bool { return v.bits == 512 }

func (v *vk) level() string {
	switch {
	case v.wide():
		return "AVX512"
	case v.neon():
		return "NEON"
	}
	return "AVX2"
}

func (v *vk) es() int {
	if v.double {
		return 8
	}
	return 4
}

func (v *vk) lanes() int { return v.bits / 8 / v.es() }

// as returns the emitter for the other lane type.
func (v *vk) as(double bool) *vk {
	w := *v
	w.double = double
	return &w
}

func (v *vk) reg() V {
	switch {
	case v.wide():
		return v.ctx.ZMM()
	case v.neon():
		return v.ctx.XMM()
	}
	return v.ctx.YMM()
}

func (v *vk) label(s string) string {
	v.labels++
	return fmt.Sprintf("%s%d", s, v.labels)
}

// ins emits an instruction; "PS" at its end becomes "PD" for float64 lanes,
// and "_D" a bitwise instruction's "Q" form.
func (v *vk) ins(name string, ops ...Op) {
	if v.double {
		if s, ok := strings.CutSuffix(name, "PS"); ok {
			name = s + "PD"
		}
	}
	m := reflect.ValueOf(v.ctx).MethodByName(name)
	if v.wide() && slices.ContainsFunc(ops, isConstant) {
		// A vector of constants may lie across two cache lines, one of them cannot.
		if b := reflect.ValueOf(v.ctx).MethodByName(name + "_BCST"); b.IsValid() {
			m = b
		}
	}
	if !m.IsValid() {
		panic("no instruction " + name)
	}
	var args []reflect.Value
	for _, o := range ops {
		args = append(args, reflect.ValueOf(o))
	}
	m.Call(args)
}

// constant places 64-bit or 32-bit words, repeated to fill a vector, in the
// read-only data.
func (v *vk) constant(word uint64, size int) Mem {
	key := fmt.Sprintf("c%d_%0*x", size*8, size*2, word)
	if v.wide() {
		key += "w"
	}
	if v.neon() {
		return Mem{Symbol: Symbol{Name: key}}
	}
	if m, ok := v.consts[key]; ok {
		return m
	}
	m := v.ctx.StaticGlobal(key)
	v.ctx.DataAttributes(build.RODATA | build.NOPTR)
	for o := 0; o < v.bits/8; o += size {
		if size == 4 {
			v.ctx.AddDatum(o, U32(word))
		} else {
			v.ctx.AddDatum(o, U64(word))
		}
	}
	v.consts[key] = m
	return m
}

// c is a floating-point constant in memory.
func (v *vk) c(x float64) Op {
	if v.double {
		return v.constant(math.Float64bits(x), 8)
	}
	return v.constant(uint64(math.Float32bits(float32(x))), 4)
}

// ci is an integer constant in memory, of the lanes' size.
func (v *vk) ci(x int64) Op {
	if v.double {
		return v.constant(uint64(x), 8)
	}
	return v.constant(uint64(uint32(x)), 4)
}

// isConstant reports whether o is a vector of constants.
func isConstant(o Op) bool {
	m, ok := o.(Mem)
	return ok && (strings.HasPrefix(m.Symbol.Name, "c32_") || strings.HasPrefix(m.Symbol.Name, "c64_"))
}

// loadConstant returns the instruction that loads such a constant into a register of
// 512 bits.
func loadConstant(m Mem) string {
	if strings.HasPrefix(m.Symbol.Name, "c64_") {
		return "VBROADCASTSD"
	}
	return "VBROADCASTSS"
}

func isMem(o Op) bool { _, ok := o.(Mem); return ok }

// in puts an operand into a register if it is not in one.
func (v *vk) in(o Op) V {
	if r, ok := o.(V); ok {
		return r
	}
	if v.neon() && isConstant(o) {
		return v.held(o.(Mem))
	}
	return v.load(o.(Mem))
}

func (v *vk) load(m Mem) V { return v.copy(m) }

func (v *vk) copy(a Op) V {
	if v.neon() {
		return v.neonCopy(a)
	}
	d := v.reg()
	if v.wide() && isConstant(a) {
		reflect.ValueOf(v.ctx).MethodByName(loadConstant(a.(Mem))).Call([]reflect.Value{reflect.ValueOf(a), reflect.ValueOf(d)})
	} else {
		v.ctx.VMOVUPS(a, d)
	}
	return d
}

// bin emits d = x op y; y may be in memory.
func (v *vk) bin(name string, x, y Op) V {
	if v.neon() {
		return v.neonBin(name, x, y)
	}
	d := v.reg()
	v.ins(name, y, v.in(x), d)
	return d
}
func (v *vk) toInt32(x V) V {
	if v.neon() {
		return v.one("fcvtns"+v.t(), x)
	}
	d := v.reg()
	v.ctx.VCVTPS2DQ(x, d)
	return d
}

func (v *vk) fromInt32(x Op) V {
	if v.neon() {
		return v.one("scvtf"+v.t(), x)
	}
	d := v.reg()
	v.ctx.VCVTDQ2PS(x, d)
	return d
}

// low views a register's lower half.
func (v *vk) low(x V) reg.Register {
	if v.wide() {
		return x.AsY()
	}
	return x.AsX()
}

// high extracts the upper half of x.
func (v *vk) high(x V) reg.Register {
	d := v.reg()
	if v.wide() {
		v.ctx.VEXTRACTF64X4(Imm(1), x, d.AsY())
		return d.AsY()
	}
	v.ctx.VEXTRACTF128(Imm(1), x, d.AsX())
	return d.AsX()
}

// widenLow and widenHigh convert half the float32 lanes of x to float64.
func (v *vk) widenLow(x V) V {
	if v.neon() {
		return v.one("fcvtl", x)
	}
	return v.widen(v.low(x))
}

func (v *vk) widenHigh(x V) V {
	if v.neon() {
		return v.one("fcvtl2", x)
	}
	return v.widen(v.high(x))
}

func (v *vk) widen(half Op) V {
	d := v.reg()
	v.ctx.VCVTPS2PD(half, d)
	return d
}

// narrow rounds two vectors of float64 to one of float32.
func (v *vk) narrow(lo, hi V) V {
	if v.neon() {
		d := v.one("fcvtn", lo)
		v.op("fcvtn2", d, hi)
		return d
	}
	d, t := v.zero(), v.reg() // zeroed, or avo takes the upper half for an input
	if v.wide() {
		v.ctx.VCVTPD2PS(lo, d.AsY())
		v.ctx.VCVTPD2PS(hi, t.AsY())
		v.ctx.VINSERTF64X4(Imm(1), t.AsY(), d, d)
	} else {
		v.ctx.VCVTPD2PSY(lo, d.AsX())
		v.ctx.VCVTPD2PSY(hi, t.AsX())
		v.ctx.VINSERTF128(Imm(1), t.AsX(), d, d)
	}
	return d
}
