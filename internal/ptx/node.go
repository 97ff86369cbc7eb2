package ptx

import (
	"fmt"
	"strings"
)

// The bodies of ops, inlined with the registers of their operands and results.

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
