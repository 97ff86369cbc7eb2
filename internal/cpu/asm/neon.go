package main

import (
	"bytes"
	"fmt"
	"strings"
)

// neonKernels writes the arm64 micro-kernels, as text: avo knows amd64 only.
// Each computes t.tiles tiles of 8 rows and 1 or 2 vectors from packed panels
// of A, with packed panels of B or, in the "rows" version, a B whose rows begin
// at t.starts. The sums are stored as they are, or with flagBeta added to C.
func neonKernels() (asm, stubs []byte) {
	s, g := &bytes.Buffer{}, &bytes.Buffer{}
	fmt.Fprint(s, "\n#include \"textflag.h\"\n")
	fmt.Fprint(g, "\npackage gemm\n")
	for _, double := range []bool{false, true} {
		for _, k := range []neon{{double, 2, false}, {double, 1, true}, {double, 2, true}} {
			k.emit(s)
			fmt.Fprintf(g, "\n// %s computes t.tiles tiles of 8 rows and %d vectors of packed panels", k.name(), k.nv)
			if k.rows {
				fmt.Fprint(g, " of A and a B whose rows begin at t.starts")
			}
			fmt.Fprintf(g, ".\n//\n//go:noescape\nfunc %s(t *byte)\n", k.name())
		}
	}
	return s.Bytes(), g.Bytes()
}

type neon struct {
	double bool
	nv     int
	rows   bool
}

func (k neon) name() string {
	return "kern" + map[bool]string{false: "F32", true: "F64"}[k.double] + fmt.Sprintf("R8V%d", k.nv) + map[bool]string{false: "", true: "Rows"}[k.rows] + "NEON"
}

func (k neon) lanes() int {
	if k.double {
		return 2
	}
	return 4
}

// fmla adds vector n times an element of vector m to d. Go's assembler lacks
// this form: FMLA Vd, Vn, Vm.S[i] (or .D[i]).
func (k neon) fmla(d, n, m, i int) uint32 {
	if k.double {
		return 0x4fc01000 | uint32(i)<<11 | uint32(m)<<16 | uint32(n)<<5 | uint32(d)
	}
	return 0x4f801000 | uint32(i&1)<<21 | uint32(i>>1)<<11 | uint32(m)<<16 | uint32(n)<<5 | uint32(d)
}

// fadd adds vector m to d; Go's assembler lacks FADD of vectors.
func (k neon) fadd(d, m int) uint32 {
	op := uint32(0x4e20d400)
	if k.double {
		op = 0x4e60d400
	}
	return op | uint32(m)<<16 | uint32(d)<<5 | uint32(d)
}

// list is n registers from v on.
func (k neon) list(v, n int) string {
	var r []string
	for i := range n {
		r = append(r, fmt.Sprintf("V%d.%s", v+i, map[bool]string{false: "S4", true: "D2"}[k.double]))
	}
	return "[" + strings.Join(r, ", ") + "]"
}

func (k neon) emit(w *bytes.Buffer) {
	p := func(f string, a ...any) { fmt.Fprintf(w, "\t"+f+"\n", a...) }
	label := func(l string) { fmt.Fprintf(w, "\n%s:\n", l) }
	// A's vectors are V0 to V7, B's from V8 on, the sums from V16 on.
	va := 8 / k.lanes() // vectors of A per step
	unroll := 8 / va
	steps := func(n int) {
		for v := 0; v < n*va; v += min(4, n*va) {
			c := min(4, n*va)
			p("VLD1.P %d(R8), %s", 16*c, k.list(v, c))
		}
		if k.rows {
			for u := range n {
				p("MOVD.P 8(R13), R14")
				p("ADD R9, R14")
				p("VLD1 (R14), %s", k.list(8+u*k.nv, k.nv))
			}
		} else {
			for v := 0; v < n*k.nv; v += min(4, n*k.nv) {
				c := min(4, n*k.nv)
				p("VLD1.P %d(R9), %s", 16*c, k.list(8+v, c))
			}
		}
		for u := range n {
			for i := range 8 {
				for j := range k.nv {
					p("WORD $0x%08x", k.fmla(16+i*k.nv+j, 8+u*k.nv+j, u*va+i/k.lanes(), i%k.lanes()))
				}
			}
		}
	}
	fmt.Fprintf(w, "\n// func %s(t *byte)\nTEXT ·%s(SB), NOSPLIT, $0-8\n", k.name(), k.name())
	p("MOVD t+0(FP), R0")
	p("MOVD %d(R0), R1", tA)
	p("MOVD %d(R0), R3", tC)
	p("MOVD %d(R0), R4", tLdc)
	p("MOVD %d(R0), R5", tTiles)
	p("MOVD %d(R0), R6", tStepA)
	p("MOVD %d(R0), R7", tStepC)
	p("MOVD %d(R0), R15", tFlags)
	label("tile")
	for i := range 8 * k.nv {
		p("VEOR V%d.B16, V%d.B16, V%d.B16", 16+i, 16+i, 16+i)
	}
	p("MOVD R1, R8")
	p("MOVD %d(R0), R9", tB)
	p("MOVD %d(R0), R10", tK)
	if k.rows {
		p("MOVD %d(R0), R13", tStarts)
	}
	p("LSR $%d, R10, R11", unroll/2)
	p("CBZ R11, rest")
	label("loop")
	steps(unroll)
	p("SUB $1, R11")
	p("CBNZ R11, loop")
	label("rest")
	p("AND $%d, R10", unroll-1)
	p("CBZ R10, store")
	label("single")
	steps(1)
	p("SUB $1, R10")
	p("CBNZ R10, single")
	label("store")
	p("MOVD R3, R12")
	p("TBZ $0, R15, plain")
	for i := range 8 {
		p("VLD1 (R12), %s", k.list(0, k.nv))
		for j := range k.nv {
			p("WORD $0x%08x", k.fadd(16+i*k.nv+j, j))
		}
		p("ADD R4, R12")
	}
	p("MOVD R3, R12")
	label("plain")
	for i := range 8 {
		p("VST1 %s, (R12)", k.list(16+i*k.nv, k.nv))
		p("ADD R4, R12")
	}
	p("ADD R6, R1")
	p("ADD R7, R3")
	p("SUB $1, R5")
	p("CBNZ R5, tile")
	p("RET")
}
