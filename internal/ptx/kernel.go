package ptx

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// Threads is the number of threads of a block.
const Threads = 256

// Mode is how a thread, which makes some neighboring elements, finds those of an
// operand.
type Mode uint8

// The modes.
const (
	Constant  Mode = iota // a parameter
	Uniform               // one element in memory
	Wide                  // in the order of the result, aligned: one load for all
	Each                  // in the order of the result: a load for each
	Row                   // the last axis is contiguous, a multiple of the width and aligned: one load for all
	Splat                 // the last axis is broadcast and a multiple of the width: one load for all
	Scattered             // by strides: a load for each
)

// Input is an operand of a kernel.
type Input struct {
	Mode    Mode
	Size    int   // bytes of an element
	Strides []int // in elements, for those modes that need them
}

// Operand is what a node reads: an input, or the result of an earlier node.
type Operand struct {
	Node  bool
	Index int
}

// Node is an op of a kernel.
type Node struct {
	Body string // in the library; "" passes its operand on
	In   []Operand
	Size int // bytes of its result's elements
}

// Kernel is a pass over operands. Its parameter is a structure of 8-byte words: the
// number of elements, where each result goes, and where each input lies, or its bits.
type Kernel struct {
	Width   int   // elements that a thread makes: a power of two
	Shape   []int // of the results, for inputs with strides; fewer than 2^31 elements then
	Inputs  []Input
	Nodes   []Node
	Results []int
}

// ParamBytes is the size of the parameter.
func (k *Kernel) ParamBytes() int { return 8 * (1 + len(k.Results) + len(k.Inputs)) }

// Render returns the kernel's text, which is a module, and its name, which stands for
// the text.
func (l *Library) Render(k *Kernel) (text, name string, err error) {
	r := &renderer{l: l, k: k}
	if err := r.kernel(); err != nil {
		return "", "", err
	}
	sum := sha256.Sum256([]byte(l.header + r.b.String()))
	name = "fused_" + hex.EncodeToString(sum[:12])
	var t strings.Builder
	t.WriteString(l.header)
	fmt.Fprintf(&t, ".visible .entry %s(\n\t.param .align 8 .b8 %s_param_0[%d]\n)\n.maxntid %d, 1, 1\n{\n", name, name, k.ParamBytes(), Threads)
	if r.words > 0 {
		fmt.Fprintf(&t, "\t.reg .b32 %%v<%d>;\n", r.words)
	}
	fmt.Fprintf(&t, "\t.reg .b64 %%w<%d>;\n\t.reg .pred %%q<4>;\n", r.longs)
	t.WriteString(strings.ReplaceAll(r.b.String(), "PARAMS", name+"_param_0"))
	t.WriteString("}\n")
	return t.String(), name, nil
}

type renderer struct {
	l            *Library
	k            *Kernel
	b            strings.Builder
	words, longs int // registers
	scopes       int
}

func (r *renderer) put(format string, args ...any) { fmt.Fprintf(&r.b, "\t"+format+"\n", args...) }

func (r *renderer) word() string { r.words++; return fmt.Sprintf("%%v%d", r.words-1) }
func (r *renderer) long() string { r.longs++; return fmt.Sprintf("%%w%d", r.longs-1) }

// register returns a new one for an element of so many bytes.
func (r *renderer) register(size int) string {
	if size == 8 {
		return r.long()
	}
	return r.word()
}

// kernel writes the body: what every thread needs, the path of threads all of whose
// elements exist, and the path of the last threads.
func (r *renderer) kernel() error {
	k := r.k
	if k.Width < 1 || k.Width > 16 || k.Width&(k.Width-1) != 0 {
		return fmt.Errorf("a width of %d", k.Width)
	}
	n, first, end := r.long(), r.long(), r.long()
	block, thread := r.word(), r.word()
	r.put("ld.param.u64 %s, [PARAMS];", n)
	r.put("mov.u32 %s, %%ctaid.x;", block)
	r.put("mov.u32 %s, %%tid.x;", thread)
	base := r.long()
	r.put("mul.wide.u32 %s, %s, %d;", base, block, Threads*k.Width)
	offset := r.long()
	r.put("mul.wide.u32 %s, %s, %d;", offset, thread, k.Width)
	r.put("add.u64 %s, %s, %s;", first, base, offset)
	r.put("add.u64 %s, %s, %d;", end, first, k.Width)

	params := make([]string, len(k.Results)+len(k.Inputs))
	for i := range params {
		params[i] = r.long()
		r.put("ld.param.u64 %s, [PARAMS+%d];", params[i], 8+8*i)
		if i < len(k.Results) || k.Inputs[i-len(k.Results)].Mode != Constant {
			r.put("cvta.to.global.u64 %s, %s;", params[i], params[i])
		}
	}
	outs, ins := params[:len(k.Results)], params[len(k.Results):]
	same := make([]string, len(k.Inputs)) // what is the same for all elements
	for i, in := range k.Inputs {
		switch in.Mode {
		case Constant:
			same[i] = ins[i]
			if in.Size < 8 {
				same[i] = r.word()
				r.put("cvt.u32.u64 %s, %s;", same[i], ins[i])
			}
		case Uniform:
			same[i] = r.register(in.Size)
			r.put("ld.global.%s %s, [%s];", memory(in.Size), same[i], ins[i])
		}
	}
	if k.Width > 1 {
		r.put("setp.gt.u64 %%q0, %s, %s;", end, n)
		r.put("@%%q0 bra LAST;")
		if err := r.elements(first, outs, ins, same, k.Width); err != nil {
			return err
		}
		r.put("bra.uni DONE;")
		r.b.WriteString("LAST:\n")
	}
	// The elements that are left, one at a time.
	r.put("setp.ge.u64 %%q1, %s, %s;", first, n)
	r.put("@%%q1 bra DONE;")
	if err := r.elements(first, outs, ins, same, 1); err != nil {
		return err
	}
	if k.Width > 1 {
		r.put("add.u64 %s, %s, 1;", first, first)
		r.put("bra.uni LAST;")
	}
	r.b.WriteString("DONE:\n")
	r.put("ret;")
	return nil
}

// elements writes the code that makes width elements from number first on.
func (r *renderer) elements(first string, outs, ins, same []string, width int) error {
	k := r.k
	values := make([][]string, len(k.Inputs)) // by input and element
	for i, in := range k.Inputs {
		values[i] = make([]string, width)
		switch {
		case same[i] != "":
			for j := range values[i] {
				values[i][j] = same[i]
			}
		case in.Mode == Wide, in.Mode == Each:
			at := r.at(ins[i], first, in.Size)
			if in.Mode == Wide {
				r.loadWide(at, in.Size, values[i])
			} else {
				r.loadEach(at, in.Size, values[i])
			}
		case in.Mode == Row && width > 1:
			r.loadWide(r.at(ins[i], r.find(first, 0, in.Strides), in.Size), in.Size, values[i])
		case in.Mode == Splat && width > 1:
			r.loadEach(r.at(ins[i], r.find(first, 0, in.Strides), in.Size), in.Size, values[i][:1])
			for j := range values[i] {
				values[i][j] = values[i][0]
			}
		default:
			for j := range values[i] {
				r.loadEach(r.at(ins[i], r.find(first, j, in.Strides), in.Size), in.Size, values[i][j:j+1])
			}
		}
	}
	nodes := make([][]string, len(k.Nodes))
	for i := range nodes {
		nodes[i] = make([]string, width)
		for j := range nodes[i] {
			var err error
			if nodes[i][j], err = r.node(&k.Nodes[i], j, values, nodes); err != nil {
				return err
			}
		}
	}
	for i, n := range k.Results {
		size := k.Nodes[n].Size
		r.storeWide(r.at(outs[i], first, size), size, nodes[n])
	}
	return nil
}
