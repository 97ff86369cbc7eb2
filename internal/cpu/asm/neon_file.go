package main

import (
	"bytes"
	"fmt"
	"log"

	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/printer"
)

// A neonFn is a function for arm64.
type neonFn struct {
	name, doc, signature string
	double               bool
	emit                 func(v *vk)
}

// neonVec lists the functions of the table for arm64.
func neonVec() (out []neonFn) {
	for _, f := range table {
		for _, t := range f.typesList() {
			if f.hasNEON(t) {
				c := classes[f.class]
				out = append(out, neonFn{
					f.asmName(t, "NEON"), "is " + f.name + t + " for n > 0.",
					"func(" + subst(c.asmParams, t) + ") " + asmResult(c.result, t), t == "F64", f.emit,
				})
			}
		}
	}
	return out
}

// neonFile writes functions of a package.
func neonFile(pkg string, fns []neonFn) (asm, stubs []byte) {
	k := &neonState{places: map[string]int{}}
	var body bytes.Buffer
	file := ir.NewFile()
	for _, f := range fns {
		fn := f.compile(k)
		neonPrint(&body, fn)
		file.AddSection(fn)
	}
	var s bytes.Buffer
	fmt.Fprint(&s, "\n#include \"textflag.h\"\n\n")
	for i, w := range k.table {
		fmt.Fprintf(&s, "DATA %s<>+%d(SB)/8, $0x%016x\n", neonConstants, 8*i, w)
	}
	if len(k.table) > 0 {
		fmt.Fprintf(&s, "GLOBL %s<>(SB), RODATA|NOPTR, $%d\n", neonConstants, 8*len(k.table))
	}
	if bytes.Contains(body.Bytes(), []byte("neonMask<>")) {
		fmt.Fprint(&s, "\n// From 4n bytes before the middle on, n lanes of ones.\n")
		for i := range 4 {
			fmt.Fprintf(&s, "DATA neonMask<>+%d(SB)/8, $0x%016x\n", 8*i, []uint64{1<<64 - 1, 0}[i/2])
		}
		fmt.Fprint(&s, "GLOBL neonMask<>(SB), RODATA|NOPTR, $32\n")
	}
	s.Write(body.Bytes())
	d, err := printer.NewStubs(printer.Config{Pkg: pkg, Argv: []string{"asm"}}).Print(file)
	if err != nil {
		log.Fatal(err)
	}
	return s.Bytes(), d
}

// compile emits a function with as many vectors per turn, four at most, as leave
// registers for all its constants; two must do, with constants read where they are used.
func (f neonFn) compile(k *neonState) *ir.Function {
	try := func(unroll, limit int) (*ir.Function, error) {
		k.limit, k.unroll = limit, unroll
		k.held, k.order = map[string]V{}, nil
		v := &vk{bits: 128, double: f.double, k: k}
		v.ctx = neonBegin(f.name, " "+f.doc, f.signature)
		k.base = v.ctx.GP64()
		v.ctx.Comment(neonPrologue)
		f.emit(v)
		v.ctx.Instruction(&ir.Instruction{Opcode: "RET", IsTerminal: true})
		file, err := v.ctx.Result()
		if err != nil {
			log.Fatalf("%s: %v", f.name, err)
		}
		fn := file.Functions()[0]
		v.prologue(fn)
		weave(v.ctx, file)
		coalesce(fn)
		return fn, neonCompile.Execute(file)
	}
	for unroll := 4; unroll >= 2; unroll-- {
		if fn, err := try(unroll, 32); err == nil {
			return fn
		}
	}
	for limit := 31; ; limit-- {
		fn, err := try(2, limit)
		if err == nil {
			return fn
		}
		if limit == 0 {
			log.Fatalf("%s: %v", f.name, err)
		}
	}
}
