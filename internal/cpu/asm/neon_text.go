package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/reg"
)

// avo knows amd64 only, but what it does between an emitter and a printer, liveness and
// the choice of registers, holds for arm64 as well: its 32 vector registers are V0 to V31
// here, and the general registers that are handed out are R0 to R15 without R4, so never
// those that Go for arm64 or an operating system reserves. This file adds arm64's
// instructions and the printer.
//
// An instruction is either one of neonForms, which become words because Go's assembler
// lacks most of them, or a line of Go's assembly with places for operands.

// A form is how an instruction of the table is encoded: dst and up to two sources at bits
// 0, 5 and 16, or one source and a shift.
type form struct {
	word    uint32
	name    string
	regs    []string // how each register is written, "v%d.4s"
	adds    bool     // dst is a source, too
	suffix  string
	shift   int  // bits of the lanes, for instructions with an immediate shift
	toRight bool // a shift counts down from 2*shift
}

var neonForms = map[string]form{}

func init() {
	arr := func(s ...string) (r []string) {
		for _, x := range s {
			switch x {
			case "s", "d", "w", "h":
				r = append(r, x+"%d")
			case "s[0]", "d[0]", "h[0]":
				r = append(r, "v%d."+x)
			default:
				r = append(r, "v%d."+x)
			}
		}
		return r
	}
	add := func(key string, f form) {
		if _, ok := neonForms[key]; ok {
			panic("twice: " + key)
		}
		neonForms[key] = f
	}
	// Lanes of float32 or 32 bits, and of float64 or 64 bits.
	for _, i := range []struct {
		name   string
		s, d   uint32
		n      int
		adds   bool
		suffix string
	}{
		{"fadd", 0x4e20d400, 0x4e60d400, 3, false, ""},
		{"fsub", 0x4ea0d400, 0x4ee0d400, 3, false, ""},
		{"fmul", 0x6e20dc00, 0x6e60dc00, 3, false, ""},
		{"fdiv", 0x6e20fc00, 0x6e60fc00, 3, false, ""},
		{"fmax", 0x4e20f400, 0x4e60f400, 3, false, ""},
		{"fmin", 0x4ea0f400, 0x4ee0f400, 3, false, ""},
		{"fmla", 0x4e20cc00, 0x4e60cc00, 3, true, ""},
		{"fmls", 0x4ea0cc00, 0x4ee0cc00, 3, true, ""},
		{"faddp", 0x6e20d400, 0x6e60d400, 3, false, ""},
		{"fcmeq", 0x4e20e400, 0x4e60e400, 3, false, ""},
		{"fcmge", 0x6e20e400, 0x6e60e400, 3, false, ""},
		{"fcmgt", 0x6ea0e400, 0x6ee0e400, 3, false, ""},
		{"add", 0x4ea08400, 0x4ee08400, 3, false, ""},
		{"sub", 0x6ea08400, 0x6ee08400, 3, false, ""},
		{"cmtst", 0x4ea08c00, 0x4ee08c00, 3, false, ""},
		{"zip1", 0x4e803800, 0x4ec03800, 3, false, ""},
		{"zip2", 0x4e807800, 0x4ec07800, 3, false, ""},
		{"uzp1", 0x4e801800, 0x4ec01800, 3, false, ""},
		{"uzp2", 0x4e805800, 0x4ec05800, 3, false, ""},
		{"fneg", 0x6ea0f800, 0x6ee0f800, 2, false, ""},
		{"fabs", 0x4ea0f800, 0x4ee0f800, 2, false, ""},
		{"fsqrt", 0x6ea1f800, 0x6ee1f800, 2, false, ""},
		{"frintn", 0x4e218800, 0x4e618800, 2, false, ""},
		{"frintm", 0x4e219800, 0x4e619800, 2, false, ""},
		{"frintp", 0x4ea18800, 0x4ee18800, 2, false, ""},
		{"frintz", 0x4ea19800, 0x4ee19800, 2, false, ""},
		{"fcvtns", 0x4e21a800, 0x4e61a800, 2, false, ""},
		{"scvtf", 0x4e21d800, 0x4e61d800, 2, false, ""},
		{"frecpe", 0x4ea1d800, 0x4ee1d800, 2, false, ""},
		{"fcmlt", 0x4ea0e800, 0x4ee0e800, 2, false, ", #0.0"},
	} {
		for _, t := range []string{"4s", "2d"} {
			w := i.s
			if t == "2d" {
				w = i.d
			}
			key := i.name + "." + t
			if i.suffix != "" {
				key = i.name + "0." + t
			}
			add(key, form{word: w, name: i.name, regs: arr([]string{t, t, t}[:i.n]...), adds: i.adds, suffix: i.suffix})
		}
	}
	// Whole vectors.
	for _, i := range []struct {
		name string
		word uint32
		n    int
		adds bool
	}{
		{"and", 0x4e201c00, 3, false},
		{"bic", 0x4e601c00, 3, false},
		{"orr", 0x4ea01c00, 3, false},
		{"eor", 0x6e201c00, 3, false},
		{"bsl", 0x6e601c00, 3, true},
		{"bit", 0x6ea01c00, 3, true},
		{"bif", 0x6ee01c00, 3, true},
		{"mvn", 0x6e205800, 2, false},
	} {
		add(i.name, form{word: i.word, name: i.name, regs: arr([]string{"16b", "16b", "16b"}[:i.n]...), adds: i.adds})
	}
	// Lanes that differ.
	for _, i := range []struct {
		key  string
		word uint32
		regs string
		adds bool
	}{
		{"mov", 0x4ea01c00, "16b 16b", false},
		{"fcvtl", 0x0e617800, "2d 2s", false},
		{"fcvtl2", 0x4e617800, "2d 4s", false},
		{"fcvtn", 0x0e616800, "2s 2d", false},
		{"fcvtn2", 0x4e616800, "4s 2d", true},
		{"fcvtl.half", 0x0e217800, "4s 4h", false},
		{"fcvtl2.half", 0x4e217800, "4s 8h", false},
		{"fcvtn.half", 0x0e216800, "4h 4s", false},
		{"fcvtn2.half", 0x4e216800, "8h 4s", true},
		{"uzp1.8h", 0x4e401800, "8h 8h 8h", false},
		{"uzp1.16b", 0x4e001800, "16b 16b 16b", false},
		{"uzp2.8h", 0x4e405800, "8h 8h 8h", false},
		{"zip1.8h", 0x4e403800, "8h 8h 8h", false},
		{"zip2.8h", 0x4e407800, "8h 8h 8h", false},
		{"zip1.16b", 0x4e003800, "16b 16b 16b", false},
		{"zip2.16b", 0x4e007800, "16b 16b 16b", false},
		{"umull", 0x2ea0c000, "2d 2s 2s", false},
		{"umull2", 0x6ea0c000, "2d 4s 4s", false},
		{"cmtst.16b", 0x4e208c00, "16b 16b 16b", false},
		{"fmaxv", 0x6e30f800, "s 4s", false},
		{"fminv", 0x6eb0f800, "s 4s", false},
		{"umaxv", 0x6eb0a800, "s 4s", false},
		{"faddp.d", 0x7e70d800, "d 2d", false},
		{"fmaxp.d", 0x7e70f800, "d 2d", false},
		{"fminp.d", 0x7ef0f800, "d 2d", false},
		{"dup.4s", 0x4e040400, "4s s[0]", false},
		{"dup.2d", 0x4e080400, "2d d[0]", false},
		{"fmov.w", 0x1e260000, "w s", false},
	} {
		name, _, _ := strings.Cut(i.key, ".")
		add(i.key, form{word: i.word, name: name, regs: arr(strings.Fields(i.regs)...), adds: i.adds})
	}
	// Shifts, the lanes' bits and the amount together at bit 16.
	for _, i := range []struct {
		key   string
		word  uint32
		regs  string
		bits  int
		right bool
		adds  bool
	}{
		{"shl.4s", 0x4f005400, "4s 4s", 32, false, false},
		{"shl.2d", 0x4f005400, "2d 2d", 64, false, false},
		{"ushr.4s", 0x6f000400, "4s 4s", 32, true, false},
		{"ushr.2d", 0x6f000400, "2d 2d", 64, true, false},
		{"sshr.4s", 0x4f000400, "4s 4s", 32, true, false},
		{"sshr.16b", 0x4f000400, "16b 16b", 8, true, false},
		{"usra.4s", 0x6f001400, "4s 4s", 32, true, true},
		{"ushll.8h", 0x2f00a400, "8h 8b", 8, false, false},
		{"ushll2.8h", 0x6f00a400, "8h 16b", 8, false, false},
		{"ushll.4s", 0x2f00a400, "4s 4h", 16, false, false},
		{"ushll2.4s", 0x6f00a400, "4s 8h", 16, false, false},
		{"sshll.8h", 0x0f00a400, "8h 8b", 8, false, false},
		{"sshll2.8h", 0x4f00a400, "8h 16b", 8, false, false},
		{"sshll.4s", 0x0f00a400, "4s 4h", 16, false, false},
		{"sshll2.4s", 0x4f00a400, "4s 8h", 16, false, false},
		{"sshll.2d", 0x0f00a400, "2d 2s", 32, false, false},
		{"sshll2.2d", 0x4f00a400, "2d 4s", 32, false, false},
	} {
		name, _, _ := strings.Cut(i.key, ".")
		add(i.key, form{word: i.word, name: name, regs: arr(strings.Fields(i.regs)...), shift: i.bits, toRight: i.right, adds: i.adds})
	}
	// shll shifts by the lanes' size and shll2 those of the upper half.
	add("shll.4s", form{word: 0x2e613800, name: "shll", regs: arr("4s", "4h"), suffix: ", #16"})
	add("shll2.4s", form{word: 0x6e613800, name: "shll2", regs: arr("4s", "8h"), suffix: ", #16"})
	add("movi0", form{word: 0x6f00e400, name: "movi", regs: arr("2d"), suffix: ", #0"})
}

// encode returns an instruction's word and how LLVM writes it.
func (f form) encode(r []int, shift int) (word uint32, text string) {
	word = f.word
	var t []string
	for i, n := range r {
		word |= uint32(n) << []int{0, 5, 16}[i]
		t = append(t, fmt.Sprintf(f.regs[i], n))
	}
	if f.name == "mov" { // orr with the source twice
		word |= uint32(r[1]) << 16
	}
	text = f.name + " " + strings.Join(t, ", ") + f.suffix
	if f.shift > 0 {
		at := f.shift + shift
		if f.toRight {
			at = 2*f.shift - shift
		}
		word |= uint32(at) << 16
		text += fmt.Sprintf(", #%d", shift)
	}
	return word, text
}

// op emits an instruction of neonForms: the register it writes, its sources, and for a
// shift the amount.
func (v *vk) op(key string, ops ...Op) {
	f, ok := neonForms[key]
	if !ok {
		panic("no instruction " + key)
	}
	if want := len(f.regs) + min(f.shift, 1); len(ops) != want {
		panic(fmt.Sprintf("%s takes %d operands", key, want))
	}
	i := &ir.Instruction{Opcode: key, Operands: ops, Outputs: ops[:1:1], Inputs: append([]Op(nil), ops[1:len(f.regs)]...)}
	if f.adds {
		i.Inputs = append(i.Inputs, ops[0])
	}
	v.ctx.Instruction(i)
}

// text emits a line of Go's assembly. In it, <N stands for an operand that is read and >N for one
// that is written, N being how it is printed: R a general register, F or V one of vectors,
// $ an immediate, M memory or a parameter, L a label, and = for one that is both.
func (v *vk) text(text string, ops ...Op) {
	i := &ir.Instruction{Opcode: text}
	for k, m := range place.FindAllString(text, -1) {
		op := ops[k]
		i.Operands = append(i.Operands, op)
		if m[1] == 'L' {
			i.IsBranch, i.IsConditional = true, !strings.HasPrefix(text, "B ")
			continue
		}
		if m[0] != '>' {
			i.Inputs = append(i.Inputs, op)
		}
		if m[0] != '<' {
			i.Outputs = append(i.Outputs, op)
		}
	}
	if i.IsBranch { // avo wants the label first
		n := len(i.Operands) - 1
		i.Operands = append([]Op{i.Operands[n]}, i.Operands[:n]...)
	}
	v.ctx.Instruction(i)
}

var place = regexp.MustCompile(`[<>=][RFV$ML]`)

// number is a register's number.
func number(o Op) int { return int(reg.ToPhysical(o.(reg.Register)).PhysicalIndex()) }

// neonText writes an instruction.
func neonText(i *ir.Instruction) string {
	if f, ok := neonForms[i.Opcode]; ok {
		var r []int
		for _, o := range i.Operands[:len(f.regs)] {
			r = append(r, number(o))
		}
		shift := 0
		if f.shift > 0 {
			shift = int(i.Operands[len(f.regs)].(Constant).(U32))
		}
		w, text := f.encode(r, shift)
		return fmt.Sprintf("WORD $0x%08x // %s", w, text)
	}
	ops := i.Operands
	if i.IsBranch {
		ops = append(append([]Op(nil), ops[1:]...), ops[0])
	}
	k := -1
	return place.ReplaceAllStringFunc(i.Opcode, func(m string) string {
		k++
		switch m[1] {
		case 'R', 'F', 'V':
			return fmt.Sprintf("%c%d", m[1], number(ops[k]))
		case '$':
			return fmt.Sprintf("$%d", ops[k].(U32))
		case 'L':
			return string(ops[k].(LabelRef))
		}
		mem := ops[k].(Mem)
		if mem.Symbol.Name != "" {
			return mem.Asm()
		}
		if mem.Disp == 0 {
			return fmt.Sprintf("(R%d)", number(mem.Base))
		}
		return fmt.Sprintf("%d(R%d)", mem.Disp, number(mem.Base))
	})
}

// neonCompile chooses registers for a function.
var neonCompile = pass.Concat(
	pass.Verify,
	pass.FunctionPass(pass.PruneJumpToFollowingLabel),
	pass.FunctionPass(pass.PruneDanglingLabels),
	pass.FunctionPass(pass.LabelTarget),
	pass.FunctionPass(pass.CFG),
	pass.FunctionPass(pass.Liveness),
	pass.FunctionPass(pass.AllocateRegisters),
	pass.FunctionPass(pass.BindRegisters),
	pass.FunctionPass(pass.VerifyAllocation),
)

// neonPrint writes a function whose registers are chosen.
func neonPrint(w *bytes.Buffer, fn *ir.Function) {
	fmt.Fprintf(w, "\n// func %s%s\nTEXT ·%s(SB), NOSPLIT, $0-%d\n", fn.Name, fn.Signature.String(), fn.Name, fn.ArgumentBytes())
	for _, n := range fn.Nodes {
		switch n := n.(type) {
		case ir.Label:
			fmt.Fprintf(w, "\n%s:\n", n)
		case *ir.Instruction:
			fmt.Fprintf(w, "\t%s\n", neonText(n))
		}
	}
}

// coalesce takes out copies of registers that are not used any more: the copy's register
// is renamed.
func coalesce(fn *ir.Function) {
	for {
		at := -1
		var from, to reg.Register
		block := 0 // where the copy's basic block begins
		for k, n := range fn.Nodes {
			switch n := n.(type) {
			case ir.Label:
				block = k
			case *ir.Instruction:
				if n.IsBranch {
					block = k
				}
				if n.Opcode != "mov" {
					continue
				}
				d, s := n.Operands[0].(reg.Register), n.Operands[1].(reg.Register)
				if used(fn.Nodes[:block], s) || used(fn.Nodes[k+1:], s) || used(fn.Nodes[:k], d) {
					continue
				}
				at, from, to = k, s, d
			}
			if at >= 0 {
				break
			}
		}
		if at < 0 {
			return
		}
		fn.Nodes = append(fn.Nodes[:at:at], fn.Nodes[at+1:]...)
		for _, i := range fn.Instructions() {
			for _, l := range [][]Op{i.Operands, i.Inputs, i.Outputs} {
				for k, o := range l {
					if r, ok := o.(reg.Register); ok && r.ID() == from.ID() {
						l[k] = to
					}
				}
			}
		}
	}
}

func used(nodes []ir.Node, r reg.Register) bool {
	for _, n := range nodes {
		if i, ok := n.(*ir.Instruction); ok {
			for _, o := range i.Registers() {
				if o.ID() == r.ID() {
					return true
				}
			}
		}
	}
	return false
}

// neonBegin starts a function in a context of its own.
func neonBegin(name, doc, signature string) *build.Context {
	ctx := build.NewContext()
	ctx.Function(name)
	ctx.Attributes(build.NOSPLIT)
	ctx.Pragma("noescape")
	ctx.Doc(name + doc)
	ctx.SignatureExpr(signature)
	return ctx
}
