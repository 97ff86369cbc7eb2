package docs

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A page is one program: its Go blocks in order. What a block prints stands in its
// "// Output:" comment.
type page struct {
	name   string
	blocks []string
}

var fence = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

func pages(t *testing.T) []page {
	files, err := filepath.Glob("*.md")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	var l []page
	for _, f := range append(files, "../README.md") {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		p := page{name: filepath.Base(f)}
		for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
			p.blocks = append(p.blocks, m[1])
		}
		if len(p.blocks) > 0 {
			l = append(l, p)
		}
	}
	return l
}

var imports = map[string]string{
	"fmt": "fmt", "errors": "errors", "log": "log", "os": "os", "context": "context", "time": "time", "math": "math", "strings": "strings",
	"locus": "github.com/locusml/locus", "nn": "github.com/locusml/locus/nn", "optim": "github.com/locusml/locus/optim",
	"data": "github.com/locusml/locus/data", "train": "github.com/locusml/locus/train", "weights": "github.com/locusml/locus/weights",
	"collective": "github.com/locusml/locus/collective", "sync": "sync",
	"board": "github.com/locusml/locus/board", "dtype": "github.com/locusml/locus/dtype",
	"metric": "github.com/locusml/locus/train/metric",
}

const mark = "\x00block"

// program makes a page's program. Each block ends with a mark, so that its output
// can be told from the next one's.
func (p page) program() ([]byte, error) {
	if strings.HasPrefix(strings.TrimSpace(p.blocks[0]), "package main") {
		return []byte(p.blocks[0]), nil
	}
	var body strings.Builder
	for _, b := range p.blocks {
		fmt.Fprintf(&body, "%s\nprint_(%q)\n", b, mark)
	}
	source := "package main\nfunc print_(s string) { os.Stdout.WriteString(s + \"\\n\") }\nfunc main() {\n" + body.String() + "\n}\n"
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, p.name, source, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	// Variables that a page only shows are used, for the compiler's sake.
	var unused strings.Builder
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Name.Name != "main" {
			continue
		}
		for _, s := range f.Body.List {
			if a, ok := s.(*ast.AssignStmt); ok && a.Tok == token.DEFINE {
				for _, e := range a.Lhs {
					if id, ok := e.(*ast.Ident); ok && id.Name != "_" {
						fmt.Fprintf(&unused, "_ = %s\n", id.Name)
					}
				}
			}
		}
	}
	source = strings.TrimSuffix(strings.TrimSpace(source), "}") + unused.String() + "}\n"
	var head strings.Builder
	head.WriteString("package main\nimport (\n")
	names := make([]string, 0, len(imports))
	for n := range imports {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		if regexp.MustCompile(`\b` + n + `\.[A-Z]`).MatchString(source) {
			fmt.Fprintf(&head, "%q\n", imports[n])
		}
	}
	head.WriteString(")\n")
	return format.Source([]byte(strings.Replace(source, "package main\n", head.String(), 1)))
}

// want gives what a block's comment says it prints; ok is false if it says nothing.
func want(block string) (string, bool) {
	_, after, ok := strings.Cut(block, "// Output:\n")
	if !ok {
		return "", false
	}
	var lines []string
	for _, l := range strings.Split(strings.TrimRight(after, "\n"), "\n") {
		lines = append(lines, strings.TrimPrefix(strings.TrimPrefix(l, "//"), " "))
	}
	return strings.Join(lines, "\n"), true
}

// Every Go block of the guide and the README compiles, runs and prints what it
// says.
func TestSnippets(t *testing.T) {
	if testing.Short() {
		t.Skip("not run: -short leaves out building the pages' programs")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages(t) {
		t.Run(p.name, func(t *testing.T) {
			source, err := p.program()
			if err != nil {
				t.Fatal(err)
			}
			// The program stands in the module without being written there.
			dir := t.TempDir()
			real := filepath.Join(dir, "main.go")
			if err := os.WriteFile(real, source, 0o644); err != nil {
				t.Fatal(err)
			}
			virtual := filepath.Join(root, "docs", "snippet_"+strings.TrimSuffix(p.name, ".md"), "main.go")
			overlay := filepath.Join(dir, "overlay.json")
			if err := os.WriteFile(overlay, fmt.Appendf(nil, `{"Replace":{%q:%q}}`, virtual, real), 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("go", "run", "-overlay", overlay, "./"+filepath.ToSlash(filepath.Dir(virtual)[len(root)+1:]))
			cmd.Dir = root
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "LOCUS_VIRTUAL_GPUS=", "LOCUS_CUDA=off")
			var out, problems bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &problems
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s\n%s", err, problems.String(), source)
			}
			got := strings.Split(out.String(), mark+"\n")
			for i, b := range p.blocks {
				if w, ok := want(b); ok && strings.TrimSpace(got[i]) != strings.TrimSpace(w) {
					t.Errorf("block %d prints\n%s\nand says\n%s", i+1, got[i], w)
				}
			}
		})
	}
}
