package docs

import (
	"bytes"
	"errors"
	"flag"
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

// A page has a program of its Go blocks, in order; a block that begins with
// "package main" is a program of its own. What a block prints stands in its
// "// Output:" comment. Programs run in an empty folder; pictures that a page shows
// from the folder pictures are those that its programs have saved there.
type page struct {
	name     string
	text     string
	programs []program
}

// program is a list of blocks, or a single one that is complete.
type program struct {
	blocks   []string
	complete bool
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
		p := page{name: filepath.Base(f), text: string(text)}
		var rest program
		for _, m := range fence.FindAllStringSubmatch(string(text), -1) {
			if strings.HasPrefix(m[1], "package main\n") {
				p.programs = append(p.programs, program{[]string{m[1]}, true})
			} else {
				rest.blocks = append(rest.blocks, m[1])
			}
		}
		if len(rest.blocks) > 0 {
			p.programs = append(p.programs, rest)
		}
		l = append(l, p)
	}
	return l
}

var imports = map[string]string{
	"json": "encoding/json", "image": "image", "color": "image/color", "png": "image/png", "strconv": "strconv", "http": "net/http", "httptest": "net/http/httptest", "filepath": "path/filepath", "slices": "slices", "io": "io", "sync": "sync", "bytes": "bytes",
	"checkpoint": "github.com/locusml/locus/weights/checkpoint",
	"fmt":        "fmt", "errors": "errors", "log": "log", "os": "os", "context": "context", "time": "time", "math": "math", "strings": "strings",
	"locus": "github.com/locusml/locus", "nn": "github.com/locusml/locus/nn", "optim": "github.com/locusml/locus/optim",
	"data": "github.com/locusml/locus/data", "train": "github.com/locusml/locus/train", "weights": "github.com/locusml/locus/weights",
	"collective": "github.com/locusml/locus/collective", "export": "github.com/locusml/locus/export",
	"board": "github.com/locusml/locus/board", "dtype": "github.com/locusml/locus/dtype",
	"metric": "github.com/locusml/locus/train/metric",
}

// declares finds blocks of declarations.
var declares = regexp.MustCompile(`(?m)^func `)

const mark = "\x00block"

// source is the program's text. Each block ends with a mark, so that its output can
// be told from the next one's.
func (p program) source() ([]byte, error) {
	if p.complete {
		return []byte(p.blocks[0]), nil
	}
	var body, declared strings.Builder
	for _, b := range p.blocks {
		if declares.MatchString(b) { // functions and methods, which cannot stand in another
			declared.WriteString(b)
			b = ""
		}
		fmt.Fprintf(&body, "%s\nprint_(%q)\n", b, mark)
	}
	source := "package main\nfunc print_(s string) { os.Stdout.WriteString(s + \"\\n\") }\n" + declared.String() + "func main() {\n" + body.String() + "\n}\n"
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "page", source, parser.ParseComments)
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

// want returns what a block's comment says it prints; ok is false if it says nothing.
func want(block string) (string, bool) {
	_, after, ok := strings.Cut(block, "// Output:\n")
	if !ok {
		return "", false
	}
	var lines []string
	for _, l := range strings.Split(strings.TrimRight(after, "\n"), "\n") {
		l = strings.TrimPrefix(l, "\t")
		if !strings.HasPrefix(l, "//") {
			break
		}
		lines = append(lines, strings.TrimPrefix(strings.TrimPrefix(l, "//"), " "))
	}
	return strings.Join(lines, "\n"), true
}

var update = flag.Bool("update", false, "keep the pictures that the programs draw")

// Every Go block of the guide and the README compiles, runs and prints what it
// says, and every picture of the guide is drawn by the page that shows it.
func TestSnippets(t *testing.T) {
	if testing.Short() {
		t.Skip("not run: -short leaves out building the pages' programs")
	}
	for _, p := range pages(t) {
		if len(p.programs) == 0 {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			folder := t.TempDir()
			for i, prog := range p.programs {
				prog.run(t, folder, fmt.Sprintf("snippet_%s_%d", strings.TrimSuffix(p.name, ".md"), i))
			}
			for _, m := range picture.FindAllStringSubmatch(p.text, -1) {
				drawn, err := os.ReadFile(filepath.Join(folder, "pictures", m[1]))
				if err != nil {
					t.Errorf("the page shows a picture that no program of it draws: %v", err)
					continue
				}
				kept := filepath.Join("pictures", m[1])
				if *update {
					if err := errors.Join(os.MkdirAll("pictures", 0o777), os.WriteFile(kept, drawn, 0o666)); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := os.Stat(kept); err != nil {
					t.Errorf("%v; go test ./docs -update keeps it", err)
				}
			}
		})
	}
}

var picture = regexp.MustCompile(`\]\(pictures/([^)]+)\)`)

// run builds the program as a package of the module, without writing it there, and
// runs it in a folder.
func (p program) run(t *testing.T, folder, name string) {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	source, err := p.source()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	real := filepath.Join(dir, "main.go")
	if err := os.WriteFile(real, source, 0o644); err != nil {
		t.Fatal(err)
	}
	virtual := filepath.Join(root, "docs", name, "main.go")
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, fmt.Appendf(nil, `{"Replace":{%q:%q}}`, virtual, real), 0o644); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "program")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", binary, "-overlay", overlay, "./docs/"+name)
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if problems, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, problems, source)
	}
	cmd := exec.Command(binary)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "LOCUS_VIRTUAL_GPUS=", "LOCUS_CUDA=off")
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
}

var inline = regexp.MustCompile("`[^`\n]*`")

// Links between pages, and to files of the module, lead somewhere.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:\s]+)(#[^)]*)?\)`)
	for _, p := range pages(t) {
		folder := "."
		if p.name == "README.md" && !strings.Contains(p.text, "# The guide") {
			folder = ".."
		}
		text := inline.ReplaceAllString(fence.ReplaceAllString(p.text, ""), "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(folder, filepath.FromSlash(m[1]))); err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
		}
	}
}

// The commands of the page about the command work, in their order.
func TestCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("not run: -short leaves out building the command")
	}
	text, err := os.ReadFile("command.md")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, name := range []string{"houses.csv", "new.csv"} {
		table, err := os.ReadFile(filepath.Join("..", "examples", "regression", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), table, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	binary := filepath.Join(t.TempDir(), "locus")
	build := exec.Command("go", "build", "-o", binary, "../cmd/locus")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	commands := regexp.MustCompile(`(?m)^\$ locus (.*)$`).FindAllStringSubmatch(string(text), -1)
	if len(commands) < 5 {
		t.Fatalf("%d commands", len(commands))
	}
	for _, m := range commands {
		cmd := exec.Command(binary, strings.Fields(m[1])...)
		cmd.Dir = folder
		cmd.Env = append(os.Environ(), "LOCUS_VIRTUAL_GPUS=", "LOCUS_CUDA=off")
		if out, err := cmd.CombinedOutput(); err != nil && !strings.HasPrefix(m[1], "doctor") { // which reports what the machine lacks
			t.Errorf("locus %s: %v\n%s", m[1], err, out)
		}
	}
}
