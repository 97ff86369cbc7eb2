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

// at returns the address of element number i.
func (r *renderer) at(base, i string, size int) string {
	a := r.long()
	r.put("mad.lo.u64 %s, %s, %d, %s;", a, i, size, base)
	return a
}

// find returns the place of element first+plus of the result in an operand with strides.
func (r *renderer) find(first string, plus int, strides []int) string {
	left := r.word()
	r.put("cvt.u32.u64 %s, %s;", left, first)
	if plus > 0 {
		r.put("add.u32 %s, %s, %d;", left, left, plus)
	}
	place := r.long()
	r.put("mov.u64 %s, 0;", place)
	shape, strides := merged(r.k.Shape, strides)
	for d := len(shape) - 1; d >= 0; d-- {
		index := left
		if d > 0 {
			quotient := r.word()
			index = r.word()
			r.put("div.u32 %s, %s, %d;", quotient, left, shape[d])
			r.put("mul.lo.u32 %s, %s, %d;", index, quotient, shape[d])
			r.put("sub.u32 %s, %s, %s;", index, left, index)
			left = quotient
		}
		if strides[d] != 0 {
			long := r.long()
			r.put("cvt.u64.u32 %s, %s;", long, index)
			r.put("mad.lo.s64 %s, %s, %d, %s;", place, long, strides[d], place)
		}
	}
	return place
}

// merged drops axes of size 1 and merges neighbors that lie as one.
func merged(shape, strides []int) (s, t []int) {
	for i, n := range shape {
		if n == 1 {
			continue
		}
		if last := len(s) - 1; last >= 0 && t[last] == n*strides[i] {
			s[last] *= n
			t[last] = strides[i]
			continue
		}
		s, t = append(s, n), append(t, strides[i])
	}
	if len(s) == 0 {
		return []int{1}, []int{0}
	}
	return s, t
}

// memory is the type of an element in memory.
func memory(size int) string { return [...]string{1: "u8", 2: "u16", 4: "b32", 8: "b64"}[size] }

func (r *renderer) loadEach(at string, size int, values []string) {
	for j := range values {
		values[j] = r.register(size)
		r.put("ld.global.%s %s, [%s+%d];", memory(size), values[j], at, j*size)
	}
}

// loadWide loads all values by as few instructions as possible, of 16 bytes each where
// there are as many.
func (r *renderer) loadWide(at string, size int, values []string) {
	if len(values) == 1 {
		r.loadEach(at, size, values)
		return
	}
	if size < 4 && len(values)*size >= 4 { // whole words, which are then divided
		words := make([]string, len(values)*size/4)
		r.loadWide(at, 4, words)
		per := 4 / size
		for j := range values {
			values[j] = r.word()
			if j%per == 0 && per > 1 {
				r.put("and.b32 %s, %s, %d;", values[j], words[j/per], 1<<(8*size)-1)
				continue
			}
			r.put("bfe.u32 %s, %s, %d, %d;", values[j], words[j/per], j%per*8*size, 8*size)
		}
		return
	}
	per := min(len(values), 4, 16/size)
	for j := range values {
		values[j] = r.register(size)
	}
	for j := 0; j < len(values); j += per {
		if per == 1 {
			r.put("ld.global.%s %s, [%s+%d];", memory(size), values[j], at, j*size)
			continue
		}
		r.put("ld.global.v%d.%s {%s}, [%s+%d];", per, memory(size), strings.Join(values[j:j+per], ", "), at, j*size)
	}
}

// storeWide is the opposite of loadWide.
func (r *renderer) storeWide(at string, size int, values []string) {
	if size < 4 && len(values)*size >= 4 {
		per := 4 / size
		words := make([]string, len(values)/per)
		for w := range words {
			words[w] = values[w*per]
			for j := 1; j < per; j++ {
				next := r.word()
				r.put("shl.b32 %s, %s, %d;", next, values[w*per+j], j*8*size)
				r.put("or.b32 %s, %s, %s;", next, next, words[w])
				words[w] = next
			}
		}
		values, size = words, 4
	}
	per := min(len(values), 4, 16/size)
	for j := 0; j < len(values); j += per {
		if per == 1 {
			r.put("st.global.%s [%s+%d], %s;", memory(size), at, j*size, values[j])
			continue
		}
		r.put("st.global.v%d.%s [%s+%d], {%s};", per, memory(size), at, j*size, strings.Join(values[j:j+per], ", "))
	}
}

// node writes an op on element j and returns the register of its result. Values of up
// to 4 bytes lie in 32 bits, of which those above are 0.
func (r *renderer) node(n *Node, j int, inputs, nodes [][]string) (string, error) {
	operand := func(i int) (string, int) {
		o := n.In[i]
		if o.Node {
			return nodes[o.Index][j], r.k.Nodes[o.Index].Size
		}
		return inputs[o.Index][j], r.k.Inputs[o.Index].Size
	}
	if n.Body == "" {
		v, _ := operand(0)
		return v, nil
	}
	b, err := r.l.body(n.Body)
	if err != nil {
		return "", err
	}
	if b == nil {
		return "", fmt.Errorf("there is no body %s", n.Body)
	}
	out := r.register(n.Size)
	r.scopes++
	labels := fmt.Sprintf("$S%d_", r.scopes)
	leaves := false
	r.put("{")
	temps := 0
	for i := range b.lines {
		switch l := &b.lines[i]; l.kind {
		case load:
			if l.number >= len(n.In) {
				return "", fmt.Errorf("%s has more operands than %d", n.Body, len(n.In))
			}
			v, size := operand(l.number)
			if err := r.bring(l, v, size, &temps); err != nil {
				return "", fmt.Errorf("%s: %w", n.Body, err)
			}
		case store:
			if err := r.take(l, out, n.Size, &temps); err != nil {
				return "", fmt.Errorf("%s: %w", n.Body, err)
			}
		case leave:
			leaves = true
			r.put("%sbra %send;", l.guard, labels)
		default:
			r.put("%s", strings.ReplaceAll(l.text, "$L__", labels))
		}
	}
	if leaves {
		r.b.WriteString(labels + "end:\n")
	}
	r.put("}")
	return out, nil
}

// bytes is the size of a type of the text: 4 of "f32".
func bytes(typ string) int {
	switch typ[1:] {
	case "8":
		return 1
	case "16":
		return 2
	case "32":
		return 4
	case "64":
		return 8
	}
	return 0
}

// class is what a register of the text holds: 16, 32 or 64 bits.
func class(register string) int {
	switch strings.TrimRight(register, "0123456789") {
	case "%rs", "%h":
		return 16
	case "%r", "%f":
		return 32
	case "%rd", "%fd":
		return 64
	}
	return 0
}

// temp declares a register inside a scope.
func (r *renderer) temp(temps *int) string {
	*temps++
	name := fmt.Sprintf("%%t%d_%d", r.scopes, *temps)
	r.put(".reg .b32 %s;", name)
	return name
}

// bring puts operand v, an element of size bytes, into a register of the text.
func (r *renderer) bring(l *line, v string, size int, temps *int) error {
	want := bytes(l.typ)
	if want == 0 || want > size {
		return fmt.Errorf("it reads %s of an element of %d bytes", l.typ, size)
	}
	if want == 8 {
		r.put("mov.b64 %s, %s;", l.text, v)
		return nil
	}
	if size == 8 {
		t := r.temp(temps)
		r.put("cvt.u32.u64 %s, %s;", t, v)
		v = t
	}
	if want < size && want < 4 { // of a wider element, its lower part
		t := r.temp(temps)
		r.put("and.b32 %s, %s, %d;", t, v, 1<<(8*want)-1)
		v = t
	}
	signed := l.typ[0] == 's'
	if signed && want < 4 {
		return fmt.Errorf("it reads %s", l.typ)
	}
	switch class(l.text) {
	case 16:
		r.put("cvt.u16.u32 %s, %s;", l.text, v)
	case 32:
		r.put("mov.b32 %s, %s;", l.text, v)
	case 64:
		if signed {
			r.put("cvt.s64.s32 %s, %s;", l.text, v)
		} else {
			r.put("cvt.u64.u32 %s, %s;", l.text, v)
		}
	default:
		return fmt.Errorf("it reads into %s", l.text)
	}
	return nil
}

// take puts what the text stores into out, the register of an element of size bytes.
func (r *renderer) take(l *line, out string, size int, temps *int) error {
	if bytes(l.typ) != size {
		return fmt.Errorf("it stores %s, not an element of %d bytes", l.typ, size)
	}
	if size == 8 {
		r.put("mov.b64 %s, %s;", out, l.text)
		return nil
	}
	clean := size == 4
	switch {
	case l.text[0] != '%':
		r.put("mov.b32 %s, %s;", out, l.text)
	case class(l.text) == 16:
		r.put("cvt.u32.u16 %s, %s;", out, l.text)
		clean = size == 2
	case class(l.text) == 32:
		r.put("mov.b32 %s, %s;", out, l.text)
	case class(l.text) == 64:
		r.put("cvt.u32.u64 %s, %s;", out, l.text)
	default:
		return fmt.Errorf("it stores %s", l.text)
	}
	if !clean {
		r.put("and.b32 %s, %s, %d;", out, out, 1<<(8*size)-1)
	}
	return nil
}
