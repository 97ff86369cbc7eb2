package optest

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/op"
)

// Exported is an exported function or method of package locus that returns tensors.
type Exported struct {
	Name string // as in [Op]
	Doc  string // its first sentence
}

// ExportedOps reads the source of package locus in dir and lists the exported
// functions and methods whose results are tensors.
func ExportedOps(dir string) ([]Exported, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, p := range paths {
		if strings.HasSuffix(p, "_test.go") {
			continue
		}
		src, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(fset, p, src, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	pkg, err := doc.NewFromFiles(fset, files, "github.com/locusml/locus")
	if err != nil {
		return nil, err
	}
	var l []Exported
	add := func(prefix string, funcs []*doc.Func) {
		for _, f := range funcs {
			if ast.IsExported(f.Name) && givesTensor(f.Decl) {
				l = append(l, Exported{prefix + f.Name, pkg.Synopsis(f.Doc)})
			}
		}
	}
	add("", pkg.Funcs)
	for _, t := range pkg.Types {
		add("", t.Funcs)
		if ast.IsExported(t.Name) {
			add(t.Name+".", t.Methods)
		}
	}
	slices.SortFunc(l, func(a, b Exported) int { return strings.Compare(a.Name, b.Name) })
	return l, nil
}

func givesTensor(f *ast.FuncDecl) bool {
	if f.Type.Results == nil {
		return false
	}
	for _, r := range f.Type.Results.List {
		t := r.Type
		if s, ok := t.(*ast.ArrayType); ok {
			t = s.Elt
		}
		if p, ok := t.(*ast.StarExpr); ok {
			if id, ok := p.X.(*ast.Ident); ok && id.Name == "Tensor" {
				return true
			}
		}
	}
	return false
}

// elsewhere are functions that return tensors and are not ops of the table, each with
// the reason. What they do is tested where they are.
var elsewhere = map[string]string{
	"Tensor.To": "moves", "Tensor.CopyTo": "moves", "Tensor.Pin": "moves", "Fetched.Wait": "moves",
	"Tensor.Detach": "gradients", "Tensor.RequireGrad": "gradients", "Tensor.Grad": "gradients", "Tensor.TakeGrad": "gradients", "Tensor.SetGrad": "gradients", "Grad": "gradients", "GradOf": "gradients",
	"VJP": "takes a function", "JVP": "takes a function", "Vmap": "takes a function", "Checkpoint": "takes a function", "Compiled.Call": "runs a function",
	"Custom": "takes a function", "ValueAndGrad": "takes a function",
	"Scope.Use": "memory", "Scope.Adopt": "memory", "Scope.Keep": "memory",
	"ScaleAll": "lists: what Tensor.Mul returns", "CastAll": "lists: what Tensor.Cast returns", "Unscale": "lists", "ClipFactor": "lists", "AverageAll": "frees its operands",
	"BatchNormRunning": "BatchNorm and what Tensor.Blend returns for its statistics",
	"Maker.Rand":       "random", "Maker.Randn": "random", "Maker.Randint": "random", "Maker.Permutation": "random",
	"Maker.Uniform": "random", "Maker.Normal": "random", "Maker.Exponential": "random", "Bernoulli": "random", "Multinomial": "random", "Categorical": "random",
}

// Missing lists exported ops that the table does not have.
func Missing(exported []Exported) []string {
	known := map[string]bool{}
	for _, o := range Table() {
		known[o.Name] = true
	}
	var missing []string
	for _, e := range exported {
		name := e.Name
		switch {
		case known[name] || elsewhere[name] != "":
			continue
		case known["Device."+name]:
			continue
		case strings.HasPrefix(name, "Device."): // the same as Maker's, with the defaults
			name = "Maker." + strings.TrimPrefix(name, "Device.")
		case !strings.Contains(name, "."):
			name = "Maker." + name
		}
		if !known[name] && elsewhere[name] == "" {
			missing = append(missing, e.Name)
		}
	}
	return missing
}

// Page writes the list of ops for the docs.
func Page(exported []Exported, r *Records) string {
	docs := map[string]string{}
	for _, e := range exported {
		docs[e.Name] = e.Doc
	}
	cases := map[string]int{}
	for _, c := range r.Cases {
		cases[c.Op]++
	}
	ops := Table()
	var b strings.Builder
	fmt.Fprintf(&b, `# Ops

This page is made from the table in internal/optest, from which the tests are
made too: `+"`go test ./internal/optest -run TestPage -update`"+`. The %d ops below are compared
with PyTorch %s in %d cases (op × element type × sample), on the CPU and on every GPU.

* **Types** are the element types that the operands may have; all others are an ErrDType.
* **Gradient** says whether gradients pass. Where they do, so do gradients of gradients; finite
  differences check both.
* **Errors** are the errors of misuse besides ErrDType; see the list of kinds in the package's documentation.
  Operands on two devices are an ErrDevice, freed ones an ErrFreed, nil and zero ones (new(locus.Tensor)) an ErrArgument, everywhere.
`, len(ops), strings.Split(r.Torch, "+")[0], len(r.Cases))
	last := ""
	for _, o := range ops {
		if o.Group != last {
			last = o.Group
			fmt.Fprintf(&b, "\n## %s\n\n| Op | What it returns | Types | Gradient | Errors | Cases |\n|---|---|---|---|---|---|\n", o.Group)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %d |\n", o.Name, escape(docs[o.Name]), typeNames(o.DTypes), gradientMark(o), errorNames(o), cases[o.Name])
	}
	return b.String()
}

func escape(s string) string { return strings.NewReplacer("|", `\|`, "[", "", "]", "").Replace(s) }

func gradientMark(o *Op) string {
	if o.Differentiable() {
		return "yes"
	}
	return ""
}

// typeNames names the sets that have a name.
func typeNames(s dtype.Set) string {
	switch s {
	case dtype.Any:
		return "all"
	case dtype.Numbers:
		return "numbers"
	case dtype.Floats:
		return "floats"
	case dtype.Ints:
		return "integers"
	case dtype.Integral:
		return "integers, bool"
	}
	return s.String()
}

// errorNames lists the kinds of errors that the table has calls for.
func errorNames(o *Op) string {
	var names []string
	for _, k := range []struct {
		kind error
		name string
	}{{locus.ErrShape, "ErrShape"}, {locus.ErrAxis, "ErrAxis"}, {locus.ErrIndex, "ErrIndex"}, {locus.ErrMatrix, "ErrMatrix"}, {op.ErrArgument, "ErrArgument"}} {
		if slices.ContainsFunc(o.Bad, func(b Bad) bool { return b.Kind == k.kind }) {
			names = append(names, k.name)
		}
	}
	return strings.Join(names, ", ")
}
