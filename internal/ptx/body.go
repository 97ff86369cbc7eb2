// Package ptx writes fused kernels as PTX text, which NVIDIA's driver compiles: a pass
// over some operands that computes several ops for each element.
//
// What the ops compute is not written here. It is the text that the CUDA compiler has
// made of the same sources as the kernels of single ops (kernels/scalars.cu), taken
// apart into bodies and put together again: so the math is as accurate, and the bits
// are the same.
package ptx

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Library has the bodies of ops on one element, by name. Any number of goroutines may
// use it.
type Library struct {
	header string            // version and target
	texts  map[string]string // of kernels, from their parameters on

	mu     sync.Mutex
	bodies map[string]*body // those that were asked for; nil where there is none
}

// body is the text of an op on one element.
type body struct {
	params string // the name of the parameter in the text
	lines  []line
}

// line is a line of a body. What it does with memory is kept apart.
type line struct {
	kind   kind
	text   string // text: the line; load: the destination; store: what is stored
	guard  string // leave: the condition, "" or like "@%p1 "
	typ    string // load, store: like "u16"
	number int    // load: of the operand
}

type kind uint8

const (
	plain kind = iota
	load       // of an operand
	store      // of the result
	leave
)

var (
	parameter = regexp.MustCompile(`\.param [^)]* (\w+)\[\d+\]\s*\)`)
	header    = regexp.MustCompile(`(?m)^\.(version|target|address_size) .*\n`)
	ldParam   = regexp.MustCompile(`^ld\.param\.(\w+)\s+(%\w+), \[([%\w]+)(?:\+(\d+))?\];$`)
	stGlobal  = regexp.MustCompile(`^st\.global\.(\w+)\s+\[%\w+\], (\S+);$`)
	address   = regexp.MustCompile(`^mov\.[bu]64\s+(%\w+), ([%\w]+);$`)
	leaving   = regexp.MustCompile(`^(@!?%\w+\s+)?ret;$`)
	product   = regexp.MustCompile(`^((?:@!?%\w+\s+)?mul)\.(f32|f64)(\s+)(%\w+),`)
	total     = regexp.MustCompile(`^(?:@!?%\w+\s+)?(?:add|sub)\.(?:f32|f64)\s+%\w+, ([^,]+), ([^;]+);$`)
	passing   = regexp.MustCompile(`^(?:@!?%\w+\s+)?(?:mov|neg|selp)\.\w+\s+(%\w+), ([^;]*);$`)
)

// close makes sure that the assembler does not go on where an op ends. It may make one
// instruction, which rounds once, of a product and a sum without a rounding mode. Inside
// of an op it does so in kernels of that op alone, too; across ops it must not. So
// products that are the op's result get a rounding mode, which prevents it.
func (b *body) close() error {
	results := map[string]bool{} // registers that become the result
	for _, l := range b.lines {
		if l.kind == store {
			results[l.text] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, l := range b.lines {
			m := passing.FindStringSubmatch(l.text)
			if l.kind != plain || m == nil || !results[m[1]] {
				continue
			}
			for _, from := range strings.Split(m[2], ", ") {
				if strings.HasPrefix(from, "%") && !results[from] {
					results[from], grown = true, true
				}
			}
		}
	}
	products := map[string]bool{}
	for i := range b.lines {
		l := &b.lines[i]
		if m := product.FindStringSubmatch(l.text); l.kind == plain && m != nil && results[m[4]] {
			l.text = product.ReplaceAllString(l.text, "$1.rn.$2$3$4,")
			products[m[4]] = true
		}
	}
	for _, l := range b.lines {
		if m := total.FindStringSubmatch(l.text); l.kind == plain && m != nil && (products[m[1]] || products[m[2]]) {
			return errAmbiguous
		}
	}
	return nil
}

// errAmbiguous is the error of a body in which a product is the result and part of a
// sum: whether the assembler fuses it there cannot be kept apart from what follows.
var errAmbiguous = errors.New("a product is the result and part of a sum")

// mark begins a kernel: at the start of a line, before its name.
const mark = "\n.visible .entry "

// Parse takes the text of scalars.cu apart. What is in it is looked at when it is asked
// for.
func Parse(text string) (*Library, error) {
	l := &Library{texts: map[string]string{}, bodies: map[string]*body{}}
	head, rest, _ := strings.Cut(text, mark)
	l.header = strings.Join(header.FindAllString(head, -1), "")
	for _, k := range strings.Split(rest, mark) {
		if name, after, ok := strings.Cut(k, "("); ok {
			l.texts[name], _, _ = strings.Cut(after+"\n", "\n}\n")
		}
	}
	if strings.Count(l.header, "\n") != 3 || len(l.texts) == 0 {
		return nil, errors.New("no kernels, or no header, in the text")
	}
	return l, nil
}

// body returns a body, or nil if there is none that can be used.
func (l *Library) body(name string) (*body, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if b, ok := l.bodies[name]; ok {
		return b, nil
	}
	var b *body
	// Calls of other functions, and memory of a thread's own, are left to kernels of
	// single ops: what needs them takes so long that fusing would save little.
	if text, ok := l.texts[name]; ok && !strings.Contains(text, "call") && !strings.Contains(text, ".local") && !strings.Contains(text, ".shared") {
		head, lines, _ := strings.Cut(text, "{\n")
		m := parameter.FindStringSubmatch(head)
		if m == nil {
			return nil, fmt.Errorf("%s does not have exactly one parameter", name)
		}
		var err error
		if b, err = parseBody(m[1], lines); err != nil && !errors.Is(err, errAmbiguous) {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	l.bodies[name] = b
	return b, nil
}

// Has reports whether there is a body of that name.
func (l *Library) Has(name string) bool {
	b, err := l.body(name)
	return b != nil && err == nil
}

// Lines is the length of a body.
func (l *Library) Lines(name string) int {
	if b, _ := l.body(name); b != nil {
		return len(b.lines)
	}
	return 0
}

// outAt is where the pointer to the result lies in the parameter, behind three operands.
const outAt = 24

func parseBody(param, text string) (*body, error) {
	b := &body{params: param}
	pointers := map[string]bool{param: true}
	stores := 0
	for _, s := range strings.Split(text, "\n") {
		s = strings.TrimSpace(s)
		if s == "" {
			continue
		}
		if m := address.FindStringSubmatch(s); m != nil && pointers[m[2]] {
			pointers[m[1]] = true
			continue
		}
		if m := ldParam.FindStringSubmatch(s); m != nil {
			at, _ := strconv.Atoi(m[4]) // "" is 0
			switch {
			case !pointers[m[3]] || at%8 != 0 || at > outAt:
				return nil, fmt.Errorf("it reads its parameter in an unknown way: %s", s)
			case at == outAt: // where the result would go
				b.lines = append(b.lines, line{text: "mov.u64 " + m[2] + ", 0;"})
			default:
				b.lines = append(b.lines, line{kind: load, typ: m[1], text: m[2], number: at / 8})
			}
			continue
		}
		if m := stGlobal.FindStringSubmatch(s); m != nil {
			b.lines = append(b.lines, line{kind: store, typ: m[1], text: m[2]})
			stores++
			continue
		}
		if m := leaving.FindStringSubmatch(s); m != nil {
			b.lines = append(b.lines, line{kind: leave, guard: m[1]})
			continue
		}
		if strings.Contains(s, "ld.") && !strings.Contains(s, "ld.global.nc") || strings.Contains(s, "st.") || strings.Contains(s, param) || strings.Contains(s, "__cudart") {
			return nil, fmt.Errorf("it uses memory in an unknown way: %s", s)
		}
		b.lines = append(b.lines, line{text: s})
	}
	if stores == 0 {
		return nil, fmt.Errorf("it has no result")
	}
	if err := b.close(); err != nil {
		return nil, err
	}
	if end := len(b.lines) - 1; b.lines[end].kind == leave && b.lines[end].guard == "" {
		b.lines = b.lines[:end]
	}
	return b, nil
}
