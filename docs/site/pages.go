package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// page is a page of the site. Paths are the module's, with slashes: the site has the
// same folders, so a link between two pages only changes its ending.
type page struct {
	source string // docs/data.md; a folder that is shown with its files: deploy
	title  string
	name   string // in the navigation
	made   bool   // not from Markdown
	document
}

// address is where the page is on the site.
func (p *page) address() string {
	switch {
	case path.Base(p.source) == "README.md":
		return path.Join(path.Dir(p.source), "index.html")
	case path.Ext(p.source) == ".md":
		return strings.TrimSuffix(p.source, ".md") + ".html"
	}
	return p.source + "/index.html"
}

// section is a part of the navigation.
type section struct {
	title string
	pages []*page
}

// site is all that is written.
type site struct {
	root     string
	pages    []*page // in the order of their sources
	bySource map[string]*page
	sections []section
	unlisted []string
	api      []*library
	names    map[string]string // where nn.Linear and the like are explained
	files    map[string]bool   // what pages show or link to and is no page
}

const guide, more = "docs/README.md", "More"

// build reads and converts everything, and checks all links.
func build(root string) (*site, error) {
	s := &site{root: root, bySource: map[string]*page{}, names: map[string]string{}, files: map[string]bool{}}
	for _, pattern := range []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/*.md", "examples/README.md", "examples/*/README.md", "bench/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			source, err := filepath.Rel(root, f)
			if err != nil {
				return nil, err
			}
			s.add(filepath.ToSlash(source))
		}
	}
	if s.bySource[guide] == nil {
		return nil, fmt.Errorf("%s is missing in %s: run this in the module's folder, or say with -root where it is", guide, root)
	}
	if err := s.readAPI(); err != nil {
		return nil, err
	}
	var problems []error
	for i := 0; i < len(s.pages); i++ { // pages for folders come at the end
		if s.pages[i].made {
			continue
		}
		if err := s.convert(s.pages[i]); err != nil {
			problems = append(problems, fmt.Errorf("%s, %w", s.pages[i].source, err))
		}
	}
	for _, p := range s.pages {
		problems = append(problems, s.checkAnchors(p)...)
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	s.arrange()
	return s, nil
}

func (s *site) add(source string) *page {
	p := &page{source: source}
	s.pages = append(s.pages, p)
	s.bySource[source] = p
	return p
}

// convert fills in a page.
func (s *site) convert(p *page) error {
	var text string
	if path.Ext(p.source) == ".md" {
		b, err := os.ReadFile(s.path(p.source))
		if err != nil {
			return err
		}
		text = string(b)
	} else {
		text = "# " + p.source + "\n"
	}
	// A folder with its README, or without one, is shown with its code.
	folder := path.Dir(p.source)
	if path.Ext(p.source) != ".md" {
		folder = p.source
	}
	if folder == p.source || strings.HasPrefix(folder, "examples/") {
		code, err := s.code(folder)
		if err != nil {
			return err
		}
		text += code
	}
	var err error
	p.document, err = convert(text, func(l link) (string, error) { return s.resolve(p, l) }, func(code string) string { return s.explained(p, code) })
	if err != nil {
		return err
	}
	if len(p.headings) == 0 || p.headings[0].level != 1 {
		return errors.New("line 1: the page does not begin with a heading: # Title")
	}
	p.title = p.headings[0].text
	p.name = p.title
	return nil
}

var languages = map[string]string{".go": "go", ".sh": "sh", ".py": "python", ".yaml": "yaml"}

// code is Markdown that shows the text files of a folder; tests are left out.
func (s *site) code(folder string) (string, error) {
	entries, err := os.ReadDir(s.path(folder))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, e := range entries {
		ext := path.Ext(e.Name())
		language, known := languages[ext]
		if e.IsDir() || strings.HasSuffix(e.Name(), "_test.go") || !known && ext != "" {
			continue
		}
		text, err := os.ReadFile(s.path(path.Join(folder, e.Name())))
		if err != nil {
			return "", err
		}
		ticks := "````"
		fmt.Fprintf(&b, "\n## %s\n\n%s%s\n%s\n%s\n", e.Name(), ticks, language, strings.TrimSuffix(string(text), "\n"), ticks)
	}
	return b.String(), nil
}

func (s *site) path(source string) string { return filepath.Join(s.root, filepath.FromSlash(source)) }

// resolve returns the address of a link on the site, relative to the page.
func (s *site) resolve(p *page, l link) (string, error) {
	if external(l.to) {
		if l.picture {
			return "", fmt.Errorf("the picture %s is on another host: keep a copy beside the page", l.to)
		}
		return l.to, nil
	}
	target, anchor, hasAnchor := strings.Cut(l.to, "#")
	if hasAnchor {
		anchor = "#" + anchor
	}
	if target == "" {
		return anchor, nil
	}
	source := s.source(p, target)
	if strings.HasPrefix(source, "../") {
		return "", fmt.Errorf("the link %s leads out of the module", l.to)
	}
	info, err := os.Stat(s.path(source))
	if err != nil {
		return "", fmt.Errorf("the link %s leads nowhere: there is no %s", l.to, source)
	}
	to := s.bySource[source]
	if info.IsDir() {
		if to = s.bySource[path.Join(source, "README.md")]; to == nil {
			if to = s.bySource[source]; to == nil {
				to = s.add(source)
			}
		}
	}
	if to == nil {
		s.files[source] = true
		return relative(p.address(), source), nil
	}
	return relative(p.address(), to.address()) + anchor, nil
}

// source is what a link of a page means, as a path in the module.
func (s *site) source(p *page, target string) string {
	return path.Join(path.Dir(p.source), target)
}

func external(to string) bool {
	return strings.HasPrefix(to, "http://") || strings.HasPrefix(to, "https://") || strings.HasPrefix(to, "mailto:")
}

// relative is the way from one address to another.
func relative(from, to string) string {
	a, b := strings.Split(path.Dir(from), "/"), strings.Split(to, "/")
	if path.Dir(from) == "." {
		a = nil
	}
	for len(a) > 0 && len(b) > 1 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	return strings.Repeat("../", len(a)) + strings.Join(b, "/")
}

// checkAnchors finds links to headings that are not there.
func (s *site) checkAnchors(p *page) (problems []error) {
	for _, l := range p.links {
		target, anchor, ok := strings.Cut(l.to, "#")
		if !ok || external(l.to) {
			continue
		}
		to := p
		if target != "" {
			to = s.bySource[s.source(p, target)]
		}
		if to != nil && !slices.ContainsFunc(to.headings, func(h heading) bool { return h.id == anchor }) {
			problems = append(problems, fmt.Errorf("%s, line %d: %s has no heading #%s", p.source, l.line, to.source, anchor))
		}
	}
	return problems
}

// arrange makes the navigation of what docs/README.md lists: a heading is a section,
// the links below it its pages. Pages of docs/ that are not there come under More.
func (s *site) arrange() {
	g := s.bySource[guide]
	listed := map[*page]bool{g: true, s.bySource["README.md"]: true}
	begin := section{title: "Locus", pages: []*page{g}}
	if home := s.bySource["README.md"]; home != nil {
		begin.pages = []*page{home, g}
		home.name = "Overview"
	}
	s.sections = []section{begin}
	under := 0
	for _, l := range g.links {
		if l.under < 2 || external(l.to) { // below the title only
			continue
		}
		if l.under != under {
			under = l.under
			s.sections = append(s.sections, section{title: g.headings[under-1].text})
		}
		target, _, _ := strings.Cut(l.to, "#")
		p := s.bySource[s.source(g, target)]
		if p == nil {
			p = s.bySource[path.Join(s.source(g, target), "README.md")]
		}
		if p != nil && !listed[p] {
			listed[p] = true
			p.name = l.label
			last := &s.sections[len(s.sections)-1]
			last.pages = append(last.pages, p)
		}
	}
	rest := section{title: more}
	api := section{title: "Packages"}
	for _, l := range s.api {
		api.pages = append(api.pages, l.page)
	}
	for _, p := range s.pages {
		if path.Dir(p.source) == "docs" && !listed[p] {
			rest.pages = append(rest.pages, p)
			s.unlisted = append(s.unlisted, p.source)
		}
	}
	s.sections = slices.DeleteFunc(append(s.sections, api, rest), func(x section) bool { return len(x.pages) == 0 })
}

// order is the pages of the navigation, one after the other.
func (s *site) order() (l []*page) {
	for _, x := range s.sections {
		l = append(l, x.pages...)
	}
	return l
}
