package notebooks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// cell is what is of interest here of a notebook's cell.
type cell struct {
	Type    string            `json:"cell_type"`
	ID      string            `json:"id"`
	Source  []string          `json:"source"`
	Outputs []json.RawMessage `json:"outputs"`
}

func (c cell) text() string { return strings.Join(c.Source, "") }

func readCells(t *testing.T, path string) []cell {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var book struct {
		Cells    []cell `json:"cells"`
		Format   int    `json:"nbformat"`
		Metadata struct {
			Kernel struct {
				Name string `json:"name"`
			} `json:"kernelspec"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(text, &book); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if book.Format != 4 || book.Metadata.Kernel.Name != "gonb" || len(book.Cells) == 0 {
		t.Fatalf("%s: format %d, kernel %q, %d cells; want a notebook of format 4 for gonb", path, book.Format, book.Metadata.Kernel.Name, len(book.Cells))
	}
	ids := map[string]bool{}
	for _, c := range book.Cells {
		if c.ID == "" || ids[c.ID] || c.Type != "code" && c.Type != "markdown" || c.text() == "" {
			t.Errorf("%s: cell %q: its id is taken, its type %q unknown, or it is empty", path, c.ID, c.Type)
		}
		if len(c.Outputs) > 0 {
			t.Errorf("%s: cell %q was saved with its outputs; clear them", path, c.ID)
		}
		ids[c.ID] = true
	}
	return book.Cells
}

func books(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("*.ipynb")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no notebooks: %v", err)
	}
	return paths
}

var initName = regexp.MustCompile(`(?m)^func init_\w+\(`)

// program makes one Go program of a notebook, by GoNB's rules: what stands below
// %% is a main function, all else is declared for every cell, functions init_… are
// init functions, and lines that begin with ! are for the shell.
func program(cells []cell) string {
	var imports, declarations, mains, calls strings.Builder
	for i, c := range cells {
		if c.Type != "code" || strings.HasPrefix(c.text(), "!") {
			continue
		}
		if body, ok := strings.CutPrefix(c.text(), "%%\n"); ok {
			fmt.Fprintf(&mains, "func cell%d() {\n%s\n}\n\n", i, body)
			fmt.Fprintf(&calls, "\tfmt.Println(%q)\n\tcell%d()\n", "== "+c.ID, i)
			continue
		}
		text := initName.ReplaceAllString(c.text(), "func init(")
		if strings.HasPrefix(text, "import (") {
			head, rest, _ := strings.Cut(text, "\n)\n")
			imports.WriteString(head + "\n)\n")
			text = rest
		}
		declarations.WriteString(text + "\n\n")
	}
	return "package main\n\n" + imports.String() + declarations.String() + mains.String() + "func main() {\n" + calls.String() + "}\n"
}

// gonbui stands in for GoNB's package of that name, which shows things in a
// notebook: here it says what it was to show.
const gonbui = `package gonbui

import "fmt"

func DisplaySvg(svg string) { fmt.Printf("picture of %d bytes, %s\n", len(svg), svg[:4]) }
func Sync()                 {}
`

// The cells of all notebooks compile and run, each after those before it.
func TestCellsRun(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range books(t) {
		t.Run(path, func(t *testing.T) {
			cells := readCells(t, path)
			dir := t.TempDir()
			write := func(name, text string) {
				name = filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			read := func(name string) string {
				text, err := os.ReadFile(filepath.Join(root, name))
				if err != nil {
					t.Fatal(err)
				}
				return string(text)
			}
			write("gonb/go.mod", "module github.com/janpfeifer/gonb\n")
			write("gonb/gonbui/gonbui.go", gonbui)
			// A go.mod beside the repository's own, with one module more.
			write("go.mod", read("go.mod")+"\nrequire github.com/janpfeifer/gonb v0.0.0\nreplace github.com/janpfeifer/gonb => "+filepath.ToSlash(filepath.Join(dir, "gonb"))+"\n")
			write("go.sum", read("go.sum"))
			write("main.go", program(cells))

			cmd := exec.Command("go", "run", "-modfile", filepath.Join(dir, "go.mod"), filepath.Join(dir, "main.go"))
			cmd.Dir = root
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "LOCUS_VIRTUAL_GPUS=", "LOCUS_CUDA=off")
			var out, problems bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &problems
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s\n%s", err, problems.String(), program(cells))
			}
			for _, part := range []string{"operands are on different devices", "on gpu:1", "device to host", "validation accuracy", "<svg", "on [gpu:0 gpu:1]"} {
				if !strings.Contains(out.String(), part) {
					t.Errorf("%q is missing from\n%s", part, out.String())
				}
			}
		})
	}
}

// With Jupyter and GoNB installed, the notebooks run there too.
func TestJupyter(t *testing.T) {
	jupyter, err := exec.LookPath("jupyter")
	if err != nil {
		t.Skip("not run: jupyter is not installed (pip install jupyter nbconvert)")
	}
	kernels, err := exec.Command(jupyter, "kernelspec", "list").CombinedOutput()
	if err != nil || !slices.Contains(strings.Fields(string(kernels)), "gonb") {
		t.Skipf("not run: jupyter has no kernel gonb (go install github.com/janpfeifer/gonb@latest && gonb --install): %v\n%s", err, kernels)
	}
	for _, path := range books(t) {
		done := filepath.Join(t.TempDir(), "done.ipynb")
		out, err := exec.Command(jupyter, "nbconvert", "--to", "notebook", "--execute", "--ExecutePreprocessor.timeout=300", "--output", done, path).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", path, err, out)
		}
		text, err := os.ReadFile(done)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"operands are on different devices", "validation accuracy", "<svg"} {
			if !bytes.Contains(text, []byte(part)) {
				t.Errorf("%s: %q is missing from the outputs", path, part)
			}
		}
	}
}
