package main

import (
	"slices"
	"strings"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
	"github.com/mmcloughlin/avo/x86"
)

// An elementary function is one long chain of instructions that wait for each other,
// and a core's schedulers hold two or three such chains at most. So the chains of
// several vectors are woven together: then an instruction's operands are about ready
// when it comes.

const (
	weaveBegin = "weave: begin"
	weaveNext  = "weave: next"
	weaveEnd   = "weave: end"
)

// woven emits n independent chains, which weave merges into one.
func woven(ctx *build.Context, n int, chain func(i int)) {
	ctx.Comment(weaveBegin)
	for i := range n {
		if i > 0 {
			ctx.Comment(weaveNext)
		}
		chain(i)
	}
	ctx.Comment(weaveEnd)
}

// weave takes the marks out of a file and an instruction of each chain in turn.
//
// A constant that all chains use is loaded once for all.
func weave(ctx *build.Context, f *ir.File) {
	for _, fn := range f.Functions() {
		var out []ir.Node
		var chains [][]ir.Node
		for _, node := range fn.Nodes {
			mark := ""
			if c, ok := node.(*ir.Comment); ok && len(c.Lines) == 1 {
				mark = c.Lines[0]
			}
			switch {
			case mark == weaveBegin:
				chains = [][]ir.Node{nil}
			case mark == weaveNext:
				chains = append(chains, nil)
			case mark == weaveEnd:
				for i := 0; ; i++ {
					before := len(out)
					if load := share(ctx, chains, i); load != nil {
						out = append(out, load)
					}
					for _, c := range chains {
						if i < len(c) {
							out = append(out, c[i])
						}
					}
					if len(out) == before {
						break
					}
				}
				chains = nil
			case chains != nil:
				k := len(chains) - 1
				chains[k] = append(chains[k], node)
			default:
				out = append(out, node)
			}
		}
		fn.Nodes = out
	}
}

// share looks at instruction i of all chains. If they differ in registers only and
// read the same constant, it makes them read it from a register, and returns the
// instruction that loads it there.
func share(ctx *build.Context, chains [][]ir.Node, i int) ir.Node {
	var same []*ir.Instruction
	var constant operand.Mem
	for _, c := range chains {
		if i >= len(c) {
			return nil
		}
		in, ok := c[i].(*ir.Instruction)
		if !ok {
			return nil
		}
		k := slices.IndexFunc(in.Operands, isConstant)
		if k < 0 {
			return nil
		}
		m := in.Operands[k].(operand.Mem)
		if len(same) > 0 && (m != constant || in.Opcode != same[0].Opcode) {
			return nil
		}
		constant = m
		same = append(same, in)
	}
	if len(same) < 2 {
		return nil
	}
	if strings.HasPrefix(same[0].Opcode, "VBROADCAST") {
		return nil // each loads it into a register of its own
	}
	to, with := ctx.YMM(), x86.VMOVUPS
	for _, r := range same[0].Registers() {
		if r.Kind() != reg.KindVector || r.Size() != 64 {
			continue
		}
		to, with = ctx.ZMM(), x86.VBROADCASTSS
		if loadConstant(constant) == "VBROADCASTSD" {
			with = x86.VBROADCASTSD
		}
		break
	}
	load, err := with(constant, to)
	if err != nil {
		panic(err)
	}
	for _, in := range same {
		if slices.Equal(in.Suffixes, []string{"BCST"}) {
			in.Suffixes = nil
		}
		for _, l := range [][]operand.Op{in.Operands, in.Inputs} {
			for k, o := range l {
				if o == operand.Op(constant) {
					l[k] = to
				}
			}
		}
	}
	return load
}
