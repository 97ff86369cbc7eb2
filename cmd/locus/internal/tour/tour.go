// Package tour runs a program in steps and shows each step's code next to what it
// printed. The code that is shown is cut out of the source file that was
// compiled, so it is the code that runs.
package tour

import (
	"context"
	_ "embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"strings"

	"github.com/locusml/locus"
)

//go:embed program.go
var source string

// Step is a part of the tour that was run.
type Step struct {
	Title  string `json:"title"`
	Text   string `json:"text"`
	Code   string `json:"code"`
	Output string `json:"output"`
}

// MinGPUs is the number of GPUs that the tour needs; virtual ones fill up.
const MinGPUs = 2

// Prepare adds virtual GPUs where there are fewer than the tour needs and returns
// their number.
func Prepare() int {
	n := max(0, MinGPUs-locus.NumGPUs())
	locus.AddVirtualGPUs(n, 256<<20)
	return n
}

// Len is the number of steps.
func Len() int { return len(sections()) }

// stopped carries an error out of the program.
type stopped struct{ err error }

// Run runs the tour and passes each step to f when it is done. An error of f ends
// the tour. Training reports its progress to w.
func Run(ctx context.Context, progress io.Writer, f func(number int, s Step) error) (err error) {
	code := sections()
	folder, err := os.MkdirTemp("", "locus-tour-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	defer func() {
		if r := recover(); r != nil {
			s, ok := r.(stopped)
			if !ok {
				panic(r)
			}
			err = s.err
		}
	}()
	check := func(err error) {
		if err != nil {
			panic(stopped{err})
		}
	}
	var out strings.Builder
	var now Step
	n := 0
	finish := func() {
		if n > 0 {
			now.Output = strings.TrimRight(out.String(), "\n")
			check(f(n, now))
		}
		check(context.Cause(ctx))
		out.Reset()
	}
	step := func(title, text string) {
		finish()
		now = Step{Title: title, Text: text, Code: code[n]}
		n++
	}
	show := func(args ...any) { out.WriteString(strings.TrimRight(fmt.Sprintln(args...), "\n") + "\n") }
	// The tour is the same every time it is taken.
	locus.Seed(0)
	if failed := locus.Try(func() { program(ctx, progress, folder, step, show, check) }); failed != nil {
		return failed
	}
	finish()
	return nil
}

// sections cuts the body of program at the calls of step. The source is part of
// the program and was compiled, so it parses.
func sections() []string {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "program.go", source, parser.ParseComments)
	if err != nil {
		panic(err)
	}
	var body *ast.BlockStmt
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "program" {
			body = f.Body
		}
	}
	offset := func(p token.Pos) int { return fset.Position(p).Offset }
	var parts []string
	start := -1
	for _, s := range body.List {
		if isStep(s) {
			if start >= 0 {
				parts = append(parts, source[start:offset(s.Pos())])
			}
			start = offset(s.End())
		}
	}
	parts = append(parts, source[start:offset(body.Rbrace)])
	for i, p := range parts {
		parts[i] = dedent(p)
	}
	return parts
}

func isStep(s ast.Stmt) bool {
	e, ok := s.(*ast.ExprStmt)
	if !ok {
		return false
	}
	call, ok := e.X.(*ast.CallExpr)
	if !ok {
		return false
	}
	name, ok := call.Fun.(*ast.Ident)
	return ok && name.Name == "step"
}

// dedent takes the function's own indentation away, and blanks for tabs, which
// terminals show too wide.
func dedent(code string) string {
	lines := strings.Split(strings.Trim(code, "\n\t "), "\n")
	for i, l := range lines {
		l = strings.TrimPrefix(l, "\t")
		deep := len(l) - len(strings.TrimLeft(l, "\t"))
		lines[i] = strings.Repeat("    ", deep) + l[deep:]
	}
	return strings.Join(lines, "\n")
}

// picture draws images (n, 1, height, width) next to each other.
func picture(images *locus.Tensor) string {
	shades := []rune(" ░▒▓█")
	values := locus.ToSlice[float32](images)
	n, h, w := images.Dim(0), images.Dim(2), images.Dim(3)
	var b strings.Builder
	for row := range h {
		for i := range n {
			for col := range w {
				v := values[(i*h+row)*w+col]
				s := string(shades[min(len(shades)-1, max(0, int(v*float32(len(shades)))))])
				b.WriteString(s + s)
			}
			b.WriteString("  ")
		}
		b.WriteByte('\n')
	}
	return strings.TrimRight(b.String(), "\n")
}
