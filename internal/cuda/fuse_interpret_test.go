//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/program/programtest"
	"github.com/locusml/locus/internal/ptx"
)

// Without a card, what surrounds the ops' bodies in fused kernels is tested by an
// interpreter of PTX: how elements are found, loaded, packed and stored.

// interpreted is the CPU with fused kernels that are interpreted.
type interpreted struct {
	*cpu.Device
	kernels int
	modes   map[ptx.Mode]int
}

// simple are ops whose bodies the interpreter knows, and whose bits are the same on all
// machines.
var simple = map[op.ID]dtype.Set{
	op.Add: dtype.Numbers, op.Sub: dtype.Numbers, op.Mul: dtype.Set(0).With(dtype.Float32, dtype.Float64, dtype.BFloat16, dtype.Int64), op.Neg: dtype.Set(0).With(dtype.Float32, dtype.Float64, dtype.BFloat16),
	op.Where: dtype.Any, op.Copy: dtype.Any, op.Greater: dtype.Set(0).With(dtype.Float32, dtype.BFloat16, dtype.Float64), op.Equal: dtype.Set(0).With(dtype.Int32, dtype.Int64, dtype.Uint8), op.Not: dtype.Bools, op.Div: dtype.Set(0).With(dtype.Float32, dtype.Float64),
	op.ReluGrad: dtype.Set(0).With(dtype.Float32, dtype.BFloat16),
}

func (d *interpreted) Fuses(id op.ID, t, out dtype.DType) bool {
	return simple[id].Has(t) && t != dtype.Float16 && (*Device)(nil).Fuses(id, t, out)
}

func (d *interpreted) Run(c *backend.Call) error {
	if c.Op != op.FusedOps {
		return d.Device.Run(c)
	}
	e := c.Attrs.(*op.Expression)
	// As a card sees it.
	seen := *c
	at := func(v backend.View) backend.View {
		if v.Block != nil {
			v.Block = &memory.Block{Region: memory.Region{Addr: uintptr(v.Block.Ptr), Size: v.Block.Size}}
		}
		return v
	}
	seen.In, seen.More, seen.Out = nil, nil, at(c.Out)
	blocks := []*memory.Block{c.Out.Block}
	for _, v := range c.In {
		seen.In = append(seen.In, at(v))
		if v.Block != nil {
			blocks = append(blocks, v.Block)
		}
	}
	for _, v := range c.More {
		seen.More = append(seen.More, at(v))
		blocks = append(blocks, v.Block)
	}
	w := fusedWidth(e)
	modes, possible := fusedModes(&seen, e, w)
	if !possible {
		return fmt.Errorf("no kernel for %s", e)
	}
	for i := range c.In {
		d.modes[modes[i]]++
	}
	text, _, err := scalars().Render(fusedText(&seen, e, modes, w))
	if err != nil {
		return err
	}
	d.kernels++
	var params [64]uint64
	fusedParams(params[:], &seen)
	m, err := newMachine(text, params[:], blocks)
	if err != nil {
		return err
	}
	for block := range ceil(c.Out.Elements(), ptx.Threads*w) {
		for thread := range ptx.Threads {
			if err := m.run(uint64(block), uint64(thread)); err != nil {
				return fmt.Errorf("%w in\n%s", err, text)
			}
		}
	}
	return nil
}

// TestFusedKernelsInterpreted compares random programs on an interpreted card with the
// same, not fused, on the CPU.
func TestFusedKernelsInterpreted(t *testing.T) {
	d := &interpreted{Device: cpu.Open(), modes: map[ptx.Mode]int{}}
	fused := 0
	for seed := range uint64(20) {
		fused += programtest.Check(t, 5000+seed, 40+int(seed)%60, d)
	}
	t.Logf("%d kernels of %d steps; operands by mode: %v", d.kernels, fused, d.modes)
	for m := ptx.Constant; m <= ptx.Scattered; m++ {
		if d.modes[m] == 0 {
			t.Errorf("no operand has mode %d", m)
		}
	}
}

// machine interprets a kernel.
type machine struct {
	code   []instruction
	labels map[string]int
	regs   []uint64
	preds  []bool
	params []uint64
	blocks []*memory.Block
}

type instruction struct {
	guard  int // a predicate's number + 1; negative: its opposite
	op     []string
	args   []arg
	target string
}

// arg is an operand: a register, a constant, an address, or several registers.
type arg struct {
	reg    int // -1: none
	value  uint64
	offset uint64
	many   []int
	text   string
}

var (
	declared = regexp.MustCompile(`^\.reg \.(\w+)\s+(%\w+?)(?:<(\d+)>)?\s*;$`)
	register = regexp.MustCompile(`^%\w+$`)
)

func newMachine(text string, params []uint64, blocks []*memory.Block) (*machine, error) {
	_, body, _ := strings.Cut(text, "\n{\n")
	m := &machine{labels: map[string]int{}, params: params, blocks: blocks}
	scopes := []map[string]int{{}}
	declare := func(name string) {
		scopes[len(scopes)-1][name] = len(m.regs)
		m.regs, m.preds = append(m.regs, 0), append(m.preds, false)
	}
	find := func(name string) (int, error) {
		for i := len(scopes) - 1; i >= 0; i-- {
			if r, ok := scopes[i][name]; ok {
				return r, nil
			}
		}
		return 0, fmt.Errorf("register %s is not declared", name)
	}
	for _, s := range strings.Split(body, "\n") {
		s = strings.TrimSpace(s)
		switch {
		case s == "":
			continue
		case s == "{":
			scopes = append(scopes, map[string]int{})
			continue
		case s == "}":
			scopes = scopes[:len(scopes)-1]
			continue
		case strings.HasSuffix(s, ":"):
			m.labels[strings.TrimSuffix(s, ":")] = len(m.code)
			continue
		}
		if d := declared.FindStringSubmatch(s); d != nil {
			if d[3] == "" {
				declare(d[2])
			}
			n, _ := strconv.Atoi(d[3]) // 0 for a single one
			for i := range n {
				declare(d[2] + strconv.Itoa(i))
			}
			continue
		}
		var in instruction
		s = strings.TrimSuffix(s, ";")
		if strings.HasPrefix(s, "@") {
			g, rest, _ := strings.Cut(s, " ")
			not := strings.HasPrefix(g, "@!")
			r, err := find(strings.TrimPrefix(strings.TrimPrefix(g, "@"), "!"))
			if err != nil {
				return nil, err
			}
			if in.guard = r + 1; not {
				in.guard = -in.guard
			}
			s = strings.TrimSpace(rest)
		}
		name, rest, _ := strings.Cut(strings.ReplaceAll(s, "\t", " "), " ")
		in.op = strings.Split(name, ".")
		if in.op[0] == "bra" {
			in.target = strings.TrimSpace(rest)
			m.code = append(m.code, in)
			continue
		}
		rest = strings.TrimSpace(rest)
		for rest != "" {
			var a string
			if strings.HasPrefix(rest, "{") {
				a, rest, _ = strings.Cut(rest, "}")
			} else {
				a, rest, _ = strings.Cut(rest, ",")
				rest = "," + rest
			}
			rest = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(rest), ","))
			x, err := parseArg(strings.TrimSpace(a), find)
			if err != nil {
				return nil, err
			}
			in.args = append(in.args, x)
		}
		m.code = append(m.code, in)
	}
	return m, nil
}

func parseArg(a string, find func(string) (int, error)) (x arg, err error) {
	x.reg, x.text = -1, a
	switch {
	case strings.HasPrefix(a, "{"):
		for _, r := range strings.Split(a[1:], ",") {
			n, err := find(strings.TrimSpace(r))
			if err != nil {
				return x, err
			}
			x.many = append(x.many, n)
		}
	case strings.HasPrefix(a, "["):
		base, offset, _ := strings.Cut(strings.Trim(a, "[]"), "+")
		x.offset, _ = strconv.ParseUint(offset, 10, 64) // "" is 0
		if register.MatchString(base) {
			x.reg, err = find(base)
		}
	case a == "%ctaid.x", a == "%tid.x":
	case register.MatchString(a):
		x.reg, err = find(a)
	case strings.HasPrefix(a, "0f"), strings.HasPrefix(a, "0d"):
		x.value, err = strconv.ParseUint(a[2:], 16, 64)
	default:
		var v int64
		v, err = strconv.ParseInt(a, 10, 64)
		x.value = uint64(v)
	}
	return x, err
}

func (m *machine) host(at uint64, size int) (unsafe.Pointer, error) {
	for _, b := range m.blocks {
		if off := at - uint64(uintptr(b.Ptr)); off < uint64(b.Size) && off+uint64(size) <= uint64(b.Size) {
			if at%uint64(size) != 0 {
				return nil, fmt.Errorf("%d bytes at an address that is not aligned", size)
			}
			return unsafe.Add(b.Ptr, off), nil
		}
	}
	return nil, fmt.Errorf("%d bytes outside of all operands", size)
}

func sizeOfType(t string) int {
	n, _ := strconv.Atoi(t[1:]) // of the interpreter's own tables
	return n / 8
}

// run runs one thread.
func (m *machine) run(block, thread uint64) error {
	get := func(a *arg) uint64 {
		switch {
		case a.text == "%ctaid.x":
			return block
		case a.text == "%tid.x":
			return thread
		case a.reg >= 0:
			return m.regs[a.reg]
		}
		return a.value
	}
	for pc, steps := 0, 0; ; pc++ {
		if steps++; steps > 100000 {
			return fmt.Errorf("it does not end")
		}
		in := &m.code[pc]
		if g := in.guard; g != 0 && m.preds[max(g, -g)-1] != (g > 0) {
			continue
		}
		o := in.op
		typ := o[len(o)-1]
		switch o[0] {
		case "ret":
			return nil
		case "bra":
			at, ok := m.labels[in.target]
			if !ok {
				return fmt.Errorf("there is no label %s", in.target)
			}
			pc = at - 1
			continue
		case "ld", "st":
			if o[1] == "param" {
				m.regs[in.args[0].reg] = m.params[in.args[1].offset/8]
				continue
			}
			if err := m.access(in, typ); err != nil {
				return err
			}
			continue
		case "setp":
			p, err := holds(o[1], typ, get(&in.args[1]), get(&in.args[2]))
			if err != nil {
				return err
			}
			m.preds[in.args[0].reg] = p
			continue
		case "selp":
			v := get(&in.args[2])
			if m.preds[in.args[3].reg] {
				v = get(&in.args[1])
			}
			m.regs[in.args[0].reg] = narrow(v, typ)
			continue
		}
		if typ == "pred" {
			a, b := m.preds[in.args[1].reg], m.preds[in.args[2].reg]
			switch o[0] {
			case "and":
				a = a && b
			case "or":
				a = a || b
			default:
				return fmt.Errorf("%v", o)
			}
			m.preds[in.args[0].reg] = a
			continue
		}
		var v [4]uint64
		for i := range in.args[1:] {
			v[i] = get(&in.args[1+i])
		}
		r, err := compute(o, typ, v)
		if err != nil {
			return err
		}
		m.regs[in.args[0].reg] = r
	}
}

func (m *machine) access(in *instruction, typ string) error {
	size := sizeOfType(typ)
	to, from := &in.args[0], &in.args[1]
	values, address := to, from
	if in.op[0] == "st" {
		values, address = from, to
	}
	regs := values.many
	if regs == nil {
		regs = []int{values.reg}
	}
	p, err := m.host(m.regs[address.reg]+address.offset, size*len(regs))
	if err != nil {
		return err
	}
	for i, r := range regs {
		q := unsafe.Add(p, i*size)
		if in.op[0] == "st" {
			switch size {
			case 1:
				*(*uint8)(q) = uint8(m.regs[r])
			case 2:
				*(*uint16)(q) = uint16(m.regs[r])
			case 4:
				*(*uint32)(q) = uint32(m.regs[r])
			default:
				*(*uint64)(q) = m.regs[r]
			}
			continue
		}
		switch size {
		case 1:
			m.regs[r] = uint64(*(*uint8)(q))
		case 2:
			m.regs[r] = uint64(*(*uint16)(q))
		case 4:
			m.regs[r] = uint64(*(*uint32)(q))
		default:
			m.regs[r] = *(*uint64)(q)
		}
	}
	return nil
}

// narrow keeps the bits of a type.
func narrow(v uint64, typ string) uint64 {
	switch sizeOfType(typ) {
	case 1:
		return uint64(uint8(v))
	case 2:
		return uint64(uint16(v))
	case 4:
		return uint64(uint32(v))
	}
	return v
}

// extend is v as a signed number.
func extend(v uint64, typ string) int64 {
	switch sizeOfType(typ) {
	case 2:
		return int64(int16(v))
	case 4:
		return int64(int32(v))
	}
	return int64(v)
}

func holds(how, typ string, a, b uint64) (bool, error) {
	if typ[0] == 'f' {
		x, y := math.Float64frombits(a), math.Float64frombits(b)
		if typ == "f32" {
			x, y = float64(math.Float32frombits(uint32(a))), float64(math.Float32frombits(uint32(b)))
		}
		switch how {
		case "eq":
			return x == y, nil
		case "neu":
			return x != y, nil
		case "lt":
			return x < y, nil
		case "le":
			return x <= y, nil
		case "gt":
			return x > y, nil
		case "ge":
			return x >= y, nil
		case "nan":
			return x != x || y != y, nil
		case "num":
			return x == x && y == y, nil
		}
		return false, fmt.Errorf("setp.%s.%s", how, typ)
	}
	x, y := extend(a, typ), extend(b, typ)
	less := x < y
	if typ[0] == 'u' {
		a, b = narrow(a, typ), narrow(b, typ)
		less = a < b
	}
	switch same := narrow(a, typ) == narrow(b, typ); how {
	case "eq":
		return same, nil
	case "ne":
		return !same, nil
	case "lt":
		return less, nil
	case "le":
		return less || same, nil
	case "gt":
		return !less && !same, nil
	case "ge":
		return !less, nil
	}
	return false, fmt.Errorf("setp.%s.%s", how, typ)
}

func compute(o []string, typ string, v [4]uint64) (uint64, error) {
	name := strings.Join(o, ".")
	f := func(i int) float32 { return math.Float32frombits(uint32(v[i])) }
	d := func(i int) float64 { return math.Float64frombits(v[i]) }
	single := func(x float32) (uint64, error) { return uint64(math.Float32bits(x)), nil }
	double := func(x float64) (uint64, error) { return math.Float64bits(x), nil }
	switch name {
	case "cvta.to.global.u64":
		return v[0], nil
	case "mul.wide.u32":
		return uint64(uint32(v[0])) * uint64(uint32(v[1])), nil
	case "mad.lo.u64", "mad.lo.s64":
		return v[0]*v[1] + v[2], nil
	case "mul.lo.u32", "mul.lo.s32", "mul.lo.s16", "mul.lo.s64":
		return narrow(v[0]*v[1], typ), nil
	case "div.u32":
		return uint64(uint32(v[0]) / uint32(v[1])), nil
	case "bfe.u32":
		return uint64(uint32(v[0]) >> v[1] & (1<<v[2] - 1)), nil
	case "cvt.u32.u64", "cvt.u64.u32", "cvt.u32.u16", "cvt.u16.u32":
		return narrow(narrow(v[0], typ), o[1]), nil
	case "cvt.s64.s32":
		return uint64(int64(int32(v[0]))), nil
	case "neg.f32":
		return v[0] ^ 1<<31, nil
	case "neg.f64":
		return v[0] ^ 1<<63, nil
	case "add.f32", "add.rn.f32":
		return single(f(0) + f(1))
	case "sub.f32", "sub.rn.f32":
		return single(f(0) - f(1))
	case "mul.f32", "mul.rn.f32":
		return single(f(0) * f(1))
	case "div.rn.f32":
		return single(f(0) / f(1))
	case "add.f64", "add.rn.f64":
		return double(d(0) + d(1))
	case "sub.f64", "sub.rn.f64":
		return double(d(0) - d(1))
	case "mul.f64", "mul.rn.f64":
		return double(d(0) * d(1))
	case "div.rn.f64":
		return double(d(0) / d(1))
	}
	switch o[0] {
	case "mov":
		return narrow(v[0], typ), nil
	case "add":
		return narrow(v[0]+v[1], typ), nil
	case "sub":
		return narrow(v[0]-v[1], typ), nil
	case "and":
		return narrow(v[0]&v[1], typ), nil
	case "or":
		return narrow(v[0]|v[1], typ), nil
	case "xor":
		return narrow(v[0]^v[1], typ), nil
	case "shl":
		return narrow(v[0]<<v[1], typ), nil
	case "shr":
		return narrow(v[0], typ) >> v[1], nil
	}
	return 0, fmt.Errorf("the interpreter does not know %s", name)
}
