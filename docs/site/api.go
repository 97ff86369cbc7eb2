package main

import (
	"bytes"
	"fmt"
	"go/ast"
	gobuild "go/build"
	"go/doc"
	"go/doc/comment"
	"go/format"
	"go/parser"
	"go/printer"
	"go/token"
	"html"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
)

// packages are those that have a page: what programs import.
var packages = []string{".", "nn", "optim", "data", "train", "train/metric", "board", "weights", "weights/checkpoint", "export", "collective", "dtype"}

const module = "github.com/locusml/locus"

// library is a package with its documentation.
type library struct {
	*doc.Package
	folder string
	set    *token.FileSet
	page   *page
}

// readAPI reads the packages, makes a page for each, and notes where each exported name
// is explained.
func (s *site) readAPI() error {
	for _, folder := range packages {
		at, err := gobuild.ImportDir(s.path(folder), 0)
		if err != nil {
			if _, statErr := os.Stat(s.path(path.Join(folder, "doc.go"))); statErr != nil {
				continue // what tests build the site of has no packages
			}
			return err
		}
		l := &library{folder: folder, set: token.NewFileSet()}
		var files []*ast.File
		for _, name := range slices.Concat(at.GoFiles, at.TestGoFiles, at.XTestGoFiles) {
			if strings.HasSuffix(name, "_test.go") && !strings.Contains(name, "example") {
				continue // only examples are of interest there
			}
			f, err := parser.ParseFile(l.set, s.path(path.Join(folder, name)), nil, parser.ParseComments)
			if err != nil {
				return err
			}
			files = append(files, f)
		}
		if l.Package, err = doc.NewFromFiles(l.set, files, path.Join(module, folder)); err != nil {
			return err
		}
		l.page = s.add("api/" + l.Name)
		l.page.title, l.page.name, l.page.made = "Package "+l.Name, l.Name, true
		s.api = append(s.api, l)
		for _, f := range l.Funcs {
			s.names[l.Name+"."+f.Name] = l.page.address() + "#" + f.Name
		}
		for _, v := range slices.Concat(l.Consts, l.Vars) {
			s.note(l, v)
		}
		for _, t := range l.Types {
			for _, v := range slices.Concat(t.Consts, t.Vars) {
				s.note(l, v)
			}
			s.names[l.Name+"."+t.Name] = l.page.address() + "#" + t.Name
			for _, m := range members(t) {
				s.names[l.Name+"."+m] = l.page.address() + "#" + m
			}
			for _, f := range t.Funcs {
				s.names[l.Name+"."+f.Name] = l.page.address() + "#" + f.Name
			}
			for _, m := range t.Methods {
				s.names[l.Name+"."+t.Name+"."+m.Name] = l.page.address() + "#" + t.Name + "." + m.Name
			}
		}
	}
	for _, l := range s.api {
		l.page.document = s.library(l)
	}
	return nil
}

// note keeps where values are explained.
func (s *site) note(l *library, v *doc.Value) {
	for _, name := range v.Names {
		if ast.IsExported(name) {
			s.names[l.Name+"."+name] = l.page.address() + "#" + name
		}
	}
}

// reference is code that begins with a package's name and one of its own.
var reference = regexp.MustCompile(`^[a-z]+\.[A-Z]\w*(\.[A-Z]\w*)?`)

// opTable is the page whose names are those of package locus, without its name.
const opTable = "docs/ops.md"

var opName = regexp.MustCompile(`^[A-Z]\w*(\.[A-Z]\w*)?$`)

// missing returns the name that code begins with if it should be one of the API and is
// not there.
func (s *site) missing(code string) string {
	name := reference.FindString(code)
	of, _, ok := strings.Cut(name, ".")
	known := ok && slices.ContainsFunc(s.api, func(l *library) bool { return l.Name == of })
	if !known || s.names[name] != "" {
		return ""
	}
	return name
}

// explained returns where the name that code begins with is explained, or "".
func (s *site) explained(p *page, code string) string {
	name := reference.FindString(code)
	if p.source == opTable && opName.MatchString(code) {
		name = "locus." + code
	}
	if to := s.names[name]; to != "" {
		return relative(p.address(), to)
	}
	// A constructor and what is called on its result: train.New.
	if i := strings.LastIndexByte(name, '.'); i > strings.IndexByte(name, '.') && s.names[name[:i]] != "" {
		return relative(p.address(), s.names[name[:i]])
	}
	return ""
}

// library makes the page of a package.
func (s *site) library(l *library) document {
	w := &apiWriter{site: s, library: l}
	w.heading(1, "", "Package "+l.Name)
	w.out.WriteString(codeBlock("go", fmt.Sprintf("import %q\n", l.ImportPath)))
	w.text(l.Doc)
	w.examples(l.Examples)
	w.values(l.Consts)
	w.values(l.Vars)
	if len(l.Funcs) > 0 {
		w.heading(2, "functions", "Functions")
		w.functions(l.Funcs)
	}
	for _, t := range l.Types {
		w.heading(2, t.Name, t.Name)
		w.members(t)
		w.declaration(t.Decl)
		w.text(t.Doc)
		w.examples(t.Examples)
		w.values(t.Consts)
		w.values(t.Vars)
		w.functions(t.Funcs)
		w.functions(t.Methods)
	}
	w.doc.html = w.out.String()
	return w.doc
}

type apiWriter struct {
	*site
	*library
	out strings.Builder
	doc document
}

func (w *apiWriter) heading(level int, id, text string) {
	if id == "" {
		id = slug(text)
	}
	w.doc.headings = append(w.doc.headings, heading{level, id, text})
	fmt.Fprintf(&w.out, "<h%d id=\"%s\">%s</h%d>\n", level, html.EscapeString(id), html.EscapeString(text), level)
}

// text writes a comment. Names in brackets lead to where they are explained.
func (w *apiWriter) text(s string) {
	p := w.Printer()
	p.HeadingLevel = 4
	p.HeadingID = func(*comment.Heading) string { return "" }
	p.DocLinkURL = func(l *comment.DocLink) string {
		name := l.Name
		if l.Recv != "" {
			name = l.Recv + "." + name
		}
		if l.ImportPath == "" {
			return "#" + name
		}
		for _, other := range w.api {
			if other.ImportPath == l.ImportPath {
				to := relative(w.page.address(), other.page.address())
				if name != "" {
					to += "#" + name
				}
				return to
			}
		}
		return l.DefaultURL("https://pkg.go.dev/")
	}
	w.out.Write(p.HTML(w.Parser().Parse(s)))
}

func (w *apiWriter) declaration(d ast.Decl) {
	if f, ok := d.(*ast.FuncDecl); ok {
		short := *f
		short.Body, short.Doc = nil, nil
		d = &short
	}
	if g, ok := d.(*ast.GenDecl); ok {
		short := *g
		short.Doc = nil
		d = &short
	}
	var b bytes.Buffer
	if err := format.Node(&b, w.set, d); err != nil { // it was parsed, so it can be printed
		panic(err)
	}
	w.out.WriteString(codeBlock("go", b.String()+"\n"))
}

func (w *apiWriter) values(l []*doc.Value) {
	for _, v := range l {
		for _, name := range v.Names {
			w.anchor(name)
		}
		w.declaration(v.Decl)
		w.text(v.Doc)
	}
}

// anchor makes a place that links lead to, for what has no heading.
func (w *apiWriter) anchor(id string) {
	if ast.IsExported(id[strings.LastIndexByte(id, '.')+1:]) {
		fmt.Fprintf(&w.out, "<span id=\"%s\"></span>", html.EscapeString(id))
	}
}

// members makes anchors for the fields of a struct and the methods of an interface.
func (w *apiWriter) members(t *doc.Type) {
	for _, name := range members(t) {
		w.anchor(name)
	}
}

// members returns the fields of a struct or the methods of an interface: Options.Rank.
func members(t *doc.Type) (names []string) {
	for _, spec := range t.Decl.Specs {
		var list *ast.FieldList
		switch of := spec.(*ast.TypeSpec).Type.(type) {
		case *ast.StructType:
			list = of.Fields
		case *ast.InterfaceType:
			list = of.Methods
		default:
			continue
		}
		for _, f := range list.List {
			for _, name := range f.Names {
				if name.IsExported() {
					names = append(names, t.Name+"."+name.Name)
				}
			}
		}
	}
	return names
}

func (w *apiWriter) functions(l []*doc.Func) {
	for _, f := range l {
		id := f.Name
		if f.Recv != "" {
			id = strings.TrimLeft(f.Recv, "*") + "." + f.Name
			id = regexp.MustCompile(`\[.*?\]`).ReplaceAllString(id, "")
		}
		w.heading(3, id, id)
		w.declaration(f.Decl)
		w.text(f.Doc)
		w.examples(f.Examples)
	}
}

func (w *apiWriter) examples(l []*doc.Example) {
	for _, e := range l {
		title := "Example"
		if e.Suffix != "" {
			title += " (" + e.Suffix + ")"
		}
		fmt.Fprintf(&w.out, "<p class=\"example\">%s</p>\n", html.EscapeString(title))
		if e.Doc != "" {
			w.text(e.Doc)
		}
		w.out.WriteString(codeBlock("go", w.body(e)))
		if e.Output != "" {
			fmt.Fprintf(&w.out, "<p class=\"example\">Output</p>\n%s", codeBlock("", strings.TrimSpace(e.Output)+"\n"))
		}
	}
}

// body is the code of an example, without its braces and the comment with its output.
func (w *apiWriter) body(e *doc.Example) string {
	var b bytes.Buffer
	if err := format.Node(&b, w.set, &printer.CommentedNode{Node: e.Code, Comments: e.Comments}); err != nil {
		panic(err) // it was parsed, so it can be printed
	}
	code := b.String()
	if _, ok := e.Code.(*ast.BlockStmt); !ok {
		return code + "\n" // a whole file
	}
	var lines []string
	for _, l := range strings.Split(strings.TrimSuffix(strings.TrimPrefix(code, "{\n"), "}"), "\n") {
		l = strings.TrimPrefix(l, "\t")
		if outputLine.MatchString(l) {
			break
		}
		lines = append(lines, l)
	}
	return strings.TrimSpace(strings.Join(lines, "\n")) + "\n"
}

var outputLine = regexp.MustCompile(`^// (Unordered o|O)utput:`)
