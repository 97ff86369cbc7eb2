// Package examplecheck checks that examples show a package's whole interface: that
// every exported function, and every option, is used by an Example function that the
// tests run. An example belongs to the reference as much as the comment does, and is
// forgotten more easily.
package examplecheck

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Check fails the test for every exported function and option of the package in dir that
// no Example uses. Functions are those of the package itself, without methods. Options
// are functions too, or the exported fields of option structs: those whose names end in
// Options, and those that an exported function takes by value. Only examples that have
// an "// Output:" count, because others are not run; one without is reported.
//
// A function counts where the body of an example names it. A field counts where a
// composite literal sets it, or an assignment to a variable that was declared in the same
// example with the struct's name.
//
// What needs no example is in exempt, by name ("Join", "Options.Workers"), with the
// reason. An exemption that has become needless is reported as well, so that the list
// stays true.
func Check(t testing.TB, dir string, exempt map[string]string) {
	t.Helper()
	findings, err := find(dir, exempt)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		t.Error(f)
	}
}

// find returns what Check reports, in order.
func find(dir string, exempt map[string]string) ([]string, error) {
	code, tests, err := parse(dir)
	if err != nil {
		return nil, err
	}
	if len(code) == 0 {
		return nil, fmt.Errorf("no Go files in %s", dir)
	}
	self, err := importPath(dir)
	if err != nil {
		return nil, err
	}
	wanted := exported(code)
	used := map[string]bool{}
	var findings []string
	for _, file := range tests {
		name := nameIn(file, self)
		for _, e := range doc.Examples(file) {
			if e.Output == "" && !e.EmptyOutput {
				findings = append(findings, fmt.Sprintf("Example%s is not run: end it with an // Output: comment", e.Name))
				continue
			}
			if name == "" && strings.HasSuffix(file.Name.Name, "_test") {
				continue // of another package's things
			}
			collect(e.Code, name, used)
		}
	}
	for _, w := range wanted {
		reason, excused := exempt[w]
		switch {
		case excused && used[w]:
			findings = append(findings, fmt.Sprintf("%s is exempt from having an example, and has one: delete the exemption", w))
		case excused && strings.TrimSpace(reason) == "":
			findings = append(findings, fmt.Sprintf("%s is exempt from having an example without a reason: write it down", w))
		case !excused && !used[w]:
			findings = append(findings, fmt.Sprintf("no Example uses %s: write one, with an // Output: comment", w))
		}
	}
	for name := range exempt {
		if !slices.Contains(wanted, name) {
			findings = append(findings, fmt.Sprintf("%s is exempt from having an example, and is no exported function or option: delete the exemption", name))
		}
	}
	slices.Sort(findings)
	return findings, nil
}

// parse returns the syntax of a folder's Go files, those of tests apart.
func parse(dir string) (code, tests []*ast.File, err error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, nil, err
	}
	set := token.NewFileSet()
	for _, p := range paths {
		file, err := parser.ParseFile(set, p, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, nil, err
		}
		if strings.HasSuffix(p, "_test.go") {
			tests = append(tests, file)
		} else {
			code = append(code, file)
		}
	}
	return code, tests, nil
}

// importPath returns the path by which the package in dir is imported.
func importPath(dir string) (string, error) {
	at, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for root := at; ; root = filepath.Dir(root) {
		text, err := os.ReadFile(filepath.Join(root, "go.mod"))
		if err == nil {
			rest, err := filepath.Rel(root, at)
			if err != nil {
				return "", err
			}
			for line := range strings.Lines(string(text)) {
				if module, ok := strings.CutPrefix(strings.TrimSpace(line), "module "); ok {
					return path.Join(strings.TrimSpace(module), filepath.ToSlash(rest)), nil
				}
			}
			return "", fmt.Errorf("%s names no module", filepath.Join(root, "go.mod"))
		}
		if filepath.Dir(root) == root {
			return "", fmt.Errorf("%s is in no module: no go.mod above it", dir)
		}
	}
}

// nameIn returns what a test file calls the package: "" if it is of the package itself
// or does not import it.
func nameIn(file *ast.File, self string) string {
	for _, i := range file.Imports {
		if strings.Trim(i.Path.Value, `"`) != self {
			continue
		}
		if i.Name != nil {
			return i.Name.Name
		}
		return path.Base(self)
	}
	return ""
}

// exported lists the functions and options that a package exports, in order.
func exported(code []*ast.File) []string {
	structs := map[string]*ast.StructType{}
	taken := map[string]bool{}
	var names []string
	for _, file := range code {
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok {
						if st, ok := s.Type.(*ast.StructType); ok && s.Name.IsExported() {
							structs[s.Name.Name] = st
						}
					}
				}
			case *ast.FuncDecl:
				if d.Recv != nil || !d.Name.IsExported() {
					continue
				}
				names = append(names, d.Name.Name)
				for _, p := range d.Type.Params.List {
					switch of := p.Type.(type) {
					case *ast.Ident:
						taken[of.Name] = true
					case *ast.Ellipsis:
						if of, ok := of.Elt.(*ast.Ident); ok {
							taken[of.Name] = true
						}
					}
				}
			}
		}
	}
	for name, st := range structs {
		if !strings.HasSuffix(name, "Options") && !taken[name] {
			continue
		}
		for _, f := range st.Fields.List {
			for _, n := range f.Names {
				if n.IsExported() {
					names = append(names, name+"."+n.Name)
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

// collect adds what an example uses to used: functions as "Name", fields as "Type.Name".
// The example calls the package by name, or "" where it is of the package itself.
func collect(code ast.Node, name string, used map[string]bool) {
	// local returns the name of something of the package, or "".
	local := func(e ast.Expr) string {
		switch e := e.(type) {
		case *ast.SelectorExpr:
			if x, ok := e.X.(*ast.Ident); ok && name != "" && x.Name == name {
				return e.Sel.Name
			}
		case *ast.Ident:
			if name == "" || name == "." {
				return e.Name
			}
		}
		return ""
	}
	fields := func(of string, lit *ast.CompositeLit) {
		for _, e := range lit.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				if key, ok := kv.Key.(*ast.Ident); ok && of != "" {
					used[of+"."+key.Name] = true
				}
			}
		}
	}
	variables := map[string]string{} // an example's variables, by the struct they are of
	declare := func(variable ast.Expr, value ast.Expr) {
		if u, ok := value.(*ast.UnaryExpr); ok && u.Op == token.AND {
			value = u.X
		}
		lit, ok := value.(*ast.CompositeLit)
		if v, named := variable.(*ast.Ident); ok && named && lit.Type != nil && local(lit.Type) != "" {
			variables[v.Name] = local(lit.Type)
		}
	}
	ast.Inspect(code, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if of := local(n); of != "" {
				used[of] = true
			}
		case *ast.Ident:
			if of := local(n); of != "" {
				used[of] = true
			}
		case *ast.CompositeLit:
			switch of := n.Type.(type) {
			case *ast.ArrayType:
				for _, e := range n.Elts {
					if kv, ok := e.(*ast.KeyValueExpr); ok {
						e = kv.Value
					}
					if lit, ok := e.(*ast.CompositeLit); ok && lit.Type == nil {
						fields(local(of.Elt), lit)
					}
				}
			case *ast.MapType:
				for _, e := range n.Elts {
					if kv, ok := e.(*ast.KeyValueExpr); ok {
						if lit, ok := kv.Value.(*ast.CompositeLit); ok && lit.Type == nil {
							fields(local(of.Value), lit)
						}
					}
				}
			case nil: // of a slice or map, above
			default:
				fields(local(n.Type), n)
			}
		case *ast.ValueSpec:
			for i, v := range n.Names {
				if n.Type != nil && local(n.Type) != "" {
					variables[v.Name] = local(n.Type)
				} else if i < len(n.Values) {
					declare(v, n.Values[i])
				}
			}
		case *ast.AssignStmt:
			for i, left := range n.Lhs {
				if i < len(n.Rhs) {
					declare(left, n.Rhs[i])
				}
				if s, ok := left.(*ast.SelectorExpr); ok {
					if v, ok := s.X.(*ast.Ident); ok && variables[v.Name] != "" {
						used[variables[v.Name]+"."+s.Sel.Name] = true
					}
				}
			}
		}
		return true
	})
}
