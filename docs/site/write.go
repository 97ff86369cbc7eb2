package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
)

//go:embed assets
var assets embed.FS

var layout = template.Must(template.ParseFS(assets, "assets/page.html"))

// view is what the layout of a page shows.
type view struct {
	Title, Root    string // Root leads to the site's first folder: "../"
	Home           bool
	Body           template.HTML
	Menu           []menu
	Contents       []heading
	Previous, Next *item
}

type menu struct {
	Title string
	Items []item
}

type item struct {
	Title, Address string
	Current        bool
}

// marker is a file that only a site has, so that nothing else is ever replaced.
const marker = ".locus-site"

// write puts the site into a folder.
func (s *site) write(out string) error {
	entries, err := os.ReadDir(out)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	if len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(out, marker)); err != nil {
			return fmt.Errorf("the folder %s has files that are not a site's: choose another with -o", out)
		}
		for _, e := range entries {
			if err := os.RemoveAll(filepath.Join(out, e.Name())); err != nil {
				return err
			}
		}
	}
	files := map[string][]byte{marker: nil}
	for _, name := range []string{"site.css", "site.js"} {
		b, err := assets.ReadFile("assets/" + name)
		if err != nil {
			return err
		}
		files["assets/"+name] = b
	}
	index, err := json.Marshal(s.index())
	if err != nil {
		return err
	}
	// A script and not JSON: pages that are opened as files may load scripts only.
	files["assets/search.js"] = fmt.Appendf(nil, "siteIndex(%s);\n", index)
	for name := range s.files {
		b, err := os.ReadFile(s.path(name))
		if err != nil {
			return err
		}
		files[name] = b
	}
	for _, p := range s.pages {
		var b bytes.Buffer
		if err := layout.Execute(&b, s.view(p)); err != nil {
			return fmt.Errorf("%s: %w", p.source, err)
		}
		files[p.address()] = b.Bytes()
	}
	for name, content := range files {
		to := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(to, content, 0o666); err != nil {
			return err
		}
	}
	return nil
}

func (s *site) view(p *page) view {
	v := view{Title: p.title, Root: relative(p.address(), ""), Home: p.source == "README.md", Body: template.HTML(p.html)}
	at := func(q *page) item { return item{q.name, relative(p.address(), q.address()), p == q} }
	for _, x := range s.sections {
		m := menu{Title: x.title}
		for _, q := range x.pages {
			m.Items = append(m.Items, at(q))
		}
		v.Menu = append(v.Menu, m)
	}
	order := s.order()
	for i, q := range order {
		if q == p && i > 0 {
			b := at(order[i-1])
			v.Previous = &b
		}
		if q == p && i+1 < len(order) {
			n := at(order[i+1])
			v.Next = &n
		}
	}
	for _, h := range p.headings[1:] {
		if h.level == 2 {
			v.Contents = append(v.Contents, h)
		}
	}
	return v
}

// ID and Text are for the layout.
func (h heading) ID() string   { return h.id }
func (h heading) Text() string { return h.text }
