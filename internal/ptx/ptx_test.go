package ptx

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus/internal/cuda/kernels"
	"github.com/locusml/locus/internal/op"
)

func library(t testing.TB) *Library {
	t.Helper()
	text, err := kernels.PTX("scalars")
	if err != nil {
		t.Fatal(err)
	}
	l, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Every op has a body but those that call functions or need memory, and one that is
// ambiguous.
func TestParse(t *testing.T) {
	l := library(t)
	var missing []string
	for name := range l.texts {
		b, err := l.body(name)
		if err != nil {
			t.Error(err)
		}
		if b == nil {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	var want []string
	for _, f := range []string{"sin", "cos", "tan"} {
		for _, typ := range []string{"f16", "bf16", "f32", "f64"} {
			want = append(want, f+"_"+typ)
		}
	}
	want = append(want, "pow_f64", "acosh_f64")
	slices.Sort(want)
	if !slices.Equal(missing, want) {
		t.Errorf("no bodies of %v, want of %v", missing, want)
	}
	if !strings.Contains(l.header, ".version 7.0\n") || !strings.Contains(l.header, ".target sm_70\n") {
		t.Errorf("header %q", l.header)
	}
	for _, bad := range []string{"", l.header} {
		if _, err := Parse(bad); err == nil {
			t.Error("a text without bodies is taken")
		}
	}
	text, err := kernels.PTX("scalars")
	if err != nil {
		t.Fatal(err)
	}
	strange, err := Parse(strings.ReplaceAll(text, "st.global.f32", "st.global.v2.f32"))
	if err != nil {
		t.Fatal(err)
	}
	if strange.Has("add_f32") || !strange.Has("add_f64") {
		t.Error("a store of another kind is taken for a result")
	}
}

// A product that is an op's result says how it rounds, so that it is not fused with a
// sum of the next op.
func TestResultsAreRounded(t *testing.T) {
	l := library(t)
	for name, want := range map[string]string{"mul_f32": "mul.rn.f32", "mul_f64": "mul.rn.f64", "square_f32": "mul.rn.f32", "exp_f32": "mul.rn.f32", "tanh_grad_f32": "mul.rn.f32"} {
		var text strings.Builder
		b, err := l.body(name)
		if err != nil || b == nil {
			t.Fatal(name, err)
		}
		for _, line := range b.lines {
			text.WriteString(line.text + "\n")
		}
		if !strings.Contains(text.String(), want) {
			t.Errorf("%s has no %s:\n%s", name, want, text.String())
		}
	}
	// What is inside of an op stays as the compiler wrote it.
	b, _ := l.body("tanh_grad_f32")
	for _, line := range b.lines {
		if strings.HasPrefix(line.text, "sub.rn.") {
			t.Errorf("tanh_grad_f32: %s", line.text)
		}
	}
}

// assembler finds ptxas, or skips the test.
func assembler(t *testing.T) func(arch, text string) error {
	path, err := exec.LookPath("ptxas")
	if err != nil {
		t.Skip("no ptxas on the PATH: the text is not assembled (it is part of nvidia-cuda-nvcc-cu12)")
	}
	dir := t.TempDir()
	return func(arch, text string) error {
		file := filepath.Join(dir, "k.ptx")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
		out, err := exec.Command(path, "-arch=sm_"+arch, "-o", filepath.Join(dir, "k.cubin"), file).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}
}

// sizes of operands and result by a body's name.
func sizesOf(name string) (in []int, out int) {
	size := map[string]int{"b8": 1, "u8": 1, "u16": 2, "f16": 2, "bf16": 2, "u32": 4, "i32": 4, "f32": 4, "u64": 8, "i64": 8, "f64": 8}
	parts := strings.Split(name, "_")
	s := size[parts[len(parts)-1]]
	stem := strings.Join(parts[:len(parts)-1], "_")
	switch {
	case parts[0] == "cast":
		return []int{size[parts[1]]}, s
	case stem == "where":
		return []int{1, s, s}, s
	case slices.Contains([]string{"eq", "ne", "lt", "le", "gt", "ge"}, stem):
		return []int{s, s}, 1
	case slices.Contains([]string{"isnan", "isinf", "isfinite", "not"}, stem):
		return []int{s}, 1
	}
	if d, ok := op.ByName(stem); ok && d.Family == op.BinaryFamily {
		return []int{s, s}, s
	}
	return []int{s}, s
}

// random makes a kernel of random bodies over inputs of random modes.
func random(r *rand.Rand, names []string) *Kernel {
	k := &Kernel{Width: 1 << r.IntN(4), Shape: []int{6, 8, 16}}
	have := map[int][]Operand{}
	modes := []Mode{Constant, Uniform, Wide, Each, Row, Splat, Scattered}
	for _, size := range []int{1, 2, 4, 8} {
		for range 2 {
			in := Input{Mode: modes[r.IntN(len(modes))], Size: size}
			switch in.Mode {
			case Row:
				in.Strides = []int{0, 16, 1}
			case Splat:
				in.Strides = []int{8, 1, 0}
			case Scattered:
				in.Strides = []int{-3, 0, 5}
			}
			have[size] = append(have[size], Operand{Index: len(k.Inputs)})
			k.Inputs = append(k.Inputs, in)
		}
	}
	for range 1 + r.IntN(8) {
		name := names[r.IntN(len(names))]
		in, out := sizesOf(name)
		n := Node{Body: name, Size: out}
		for _, s := range in {
			n.In = append(n.In, have[s][r.IntN(len(have[s]))])
		}
		have[out] = append(have[out], Operand{Node: true, Index: len(k.Nodes)})
		if r.IntN(3) == 0 {
			k.Results = append(k.Results, len(k.Nodes))
		}
		k.Nodes = append(k.Nodes, n)
	}
	if len(k.Results) == 0 {
		k.Results = []int{len(k.Nodes) - 1}
	}
	return k
}

// Every body, and kernels of random ones, are renderable, and PTX that the assembler
// takes.
func TestRenderedKernelsAssemble(t *testing.T) {
	l := library(t)
	var names []string
	for name := range l.texts {
		if l.Has(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var texts []string
	for from := 0; from < len(names); from += 12 { // each body, some at a time
		k := &Kernel{Width: 2}
		at := map[int]int{}
		for _, name := range names[from:min(from+12, len(names))] {
			in, out := sizesOf(name)
			n := Node{Body: name, Size: out}
			for _, s := range in {
				if _, ok := at[s]; !ok {
					at[s] = len(k.Inputs)
					k.Inputs = append(k.Inputs, Input{Mode: Wide, Size: s})
				}
				n.In = append(n.In, Operand{Index: at[s]})
			}
			k.Results = append(k.Results, len(k.Nodes))
			k.Nodes = append(k.Nodes, n)
		}
		text, _, err := l.Render(k)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		text, name, err := l.Render(random(r, names))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text, ".entry "+name+"(") || strings.Contains(text, "PARAMS") {
			t.Fatalf("the text lacks its name:\n%s", text)
		}
		texts = append(texts, text)
	}
	if testing.Short() {
		texts = texts[:4]
	}
	assemble := assembler(t)
	for i, text := range texts {
		arch := []string{"70", "90"}[i%2]
		if err := assemble(arch, text); err != nil {
			t.Fatalf("sm_%s: %v\n%s", arch, err, text)
		}
	}
}

// A kernel's name stands for its text: the same for the same kernel, another for another.
func TestNames(t *testing.T) {
	l := library(t)
	k := func(body string) *Kernel {
		return &Kernel{Width: 4, Inputs: []Input{{Mode: Wide, Size: 4}}, Nodes: []Node{{Body: body, In: []Operand{{}}, Size: 4}}, Results: []int{0}}
	}
	_, a, err := l.Render(k("exp_f32"))
	if err != nil {
		t.Fatal(err)
	}
	_, b, _ := l.Render(k("exp_f32"))
	_, c, _ := l.Render(k("log_f32"))
	if a != b || a == c {
		t.Errorf("%s, %s, %s", a, b, c)
	}
	for _, bad := range []*Kernel{k("sin_f32"), k("add_f32"), k("exp_f64"), {Width: 3}} {
		if _, _, err := l.Render(bad); err == nil {
			t.Errorf("%+v is rendered", bad)
		}
	}
}
