package main

import (
	"encoding/json"
	"html"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// once builds the site of this module in a folder, and reads it as name and content.
var once = sync.OnceValues(func() (built, error) {
	b := built{files: map[string]string{}}
	var err error
	if b.site, err = build("../.."); err != nil {
		return b, err
	}
	out, err := os.MkdirTemp("", "site")
	if err != nil {
		return b, err
	}
	defer os.RemoveAll(out)
	for range 2 { // the second replaces the first
		if err := b.site.write(out); err != nil {
			return b, err
		}
	}
	return b, fs.WalkDir(os.DirFS(out), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(out, filepath.FromSlash(name)))
		b.files[name] = string(content)
		return err
	})
})

type built struct {
	site  *site
	files map[string]string
}

func whole(t *testing.T) (*site, map[string]string) {
	t.Helper()
	b, err := once()
	if err != nil {
		t.Fatal(err)
	}
	return b.site, b.files
}

var (
	tag       = regexp.MustCompile(`<([a-z][a-z0-9]*)((?:\s+[a-z-]+(?:="[^"]*")?)*)\s*>`)
	attribute = regexp.MustCompile(`([a-z-]+)="([^"]*)"`)
	remote    = regexp.MustCompile(`(?i)^\s*(https?:)?//`)
)

// Every link and picture of the written pages leads to a file of the site, and to a
// place in it; nothing is loaded from elsewhere.
func TestLinks(t *testing.T) {
	_, files := whole(t)
	ids := map[string]map[string]bool{}
	for name, content := range files {
		if path.Ext(name) == ".html" {
			ids[name] = map[string]bool{}
			for _, m := range regexp.MustCompile(`\sid="([^"]*)"`).FindAllStringSubmatch(content, -1) {
				if ids[name][m[1]] {
					t.Errorf("%s has two elements #%s", name, m[1])
				}
				ids[name][m[1]] = true
			}
		}
	}
	if len(ids) < 40 {
		t.Fatalf("%d pages", len(ids))
	}
	checked := 0
	for name, content := range files {
		if path.Ext(name) != ".html" {
			continue
		}
		for _, m := range tag.FindAllStringSubmatch(content, -1) {
			for _, a := range attribute.FindAllStringSubmatch(m[2], -1) {
				to := html.UnescapeString(a[2])
				switch {
				case a[1] != "href" && a[1] != "src" && a[1] != "srcset":
				case remote.MatchString(to):
					if m[1] != "a" { // a link is followed only when the reader asks for it
						t.Errorf("%s loads %s", name, to)
					}
				case strings.HasPrefix(to, "data:"):
				default:
					target, anchor, _ := strings.Cut(to, "#")
					file := name
					if target != "" {
						file = path.Join(path.Dir(name), target)
					}
					if _, ok := files[file]; !ok {
						t.Errorf("%s: %s leads nowhere", name, to)
					} else if anchor != "" && !ids[file][anchor] {
						t.Errorf("%s: %s leads to no place of the page", name, to)
					}
					checked++
				}
			}
		}
	}
	if checked < 1000 {
		t.Errorf("%d links checked", checked)
	}
	for _, name := range []string{"assets/site.css", "assets/site.js"} {
		if m := regexp.MustCompile(`https?://|url\(|@import|//[a-z]+\.[a-z]`).FindString(files[name]); m != "" {
			t.Errorf("%s has %q", name, m)
		}
	}
	for name, content := range files {
		if path.Ext(name) == ".svg" {
			rest := strings.ReplaceAll(content, `xmlns="http://www.w3.org/2000/svg"`, "")
			if strings.Contains(rest, "http://") || strings.Contains(rest, "https://") {
				t.Errorf("%s refers to another host", name)
			}
		}
	}
}

// Names of the API in the guide's text exist, and lead to where they are explained.
func TestNames(t *testing.T) {
	s, files := whole(t)
	span := regexp.MustCompile(`<code>([^<]*)</code>`)
	found := 0
	for _, p := range s.pages {
		if path.Dir(p.source) != "docs" || p.source == "docs/design.md" || p.source == "docs/versions.md" { // which speak of the past
			continue
		}
		if strings.HasPrefix(p.source, "docs/from-") || p.source == "docs/op-names.md" { // and these of other frameworks
			continue
		}
		for _, m := range span.FindAllStringSubmatch(p.html, -1) {
			code := html.UnescapeString(m[1])
			if name := s.missing(code); name != "" {
				t.Errorf("%s: there is no %s", p.source, name)
			}
			if s.explained(p, code) != "" {
				found++
			}
		}
	}
	if found < 300 {
		t.Errorf("%d names of the API in the guide", found)
	}
	if !strings.Contains(files["docs/networks.html"], `<a href="../api/nn/index.html#CopyTo"><code>nn.CopyTo</code></a>`) {
		t.Error("nn.CopyTo in the guide does not lead to the API")
	}
	if c := files["docs/from-pytorch.html"]; !strings.Contains(c, "<td><code>net = nn.Sequential(nn.LazyLinear(1))</code></td>") || !strings.Contains(c, "<a href=\"../api/locus/index.html#From") && !strings.Contains(c, "../api/train/index.html#New") {
		t.Error("code of PyTorch leads to our API, or ours does not")
	}
	if !strings.Contains(files["docs/ops.html"], `<a href="../api/locus/index.html#Tensor.Sqrt"><code>Tensor.Sqrt</code></a>`) {
		t.Error("the table of ops does not lead to the API")
	}
	if c := files["api/nn/index.html"]; !strings.Contains(c, `id="BatchNormLayer.Forward"`) || !strings.Contains(c, ">Example") || !strings.Contains(c, ">Output<") {
		t.Error("the page of nn lacks methods or examples")
	}
}

// The search's script has an entry for what a reader would look for, and its address
// is a place of the site.
func TestSearchFindsWords(t *testing.T) {
	_, files := whole(t)
	text := strings.TrimSuffix(strings.TrimPrefix(files["assets/search.js"], "siteIndex("), ");\n")
	var entries []entry
	if err := json.Unmarshal([]byte(text), &entries); err != nil {
		t.Fatal(err)
	}
	for words, address := range map[string]string{
		"AllReduce Local":        "docs/collectives.html#ranks-of-one-program",
		"index_select Take":      "docs/op-names.html#choosing-and-ordering",
		"LOCUS_VIRTUAL_GPUS":     "docs/devices.html#virtual-gpus",
		"nn.Save metadata":       "docs/saving.html",
		"RadialBasis":            "examples/custom/index.html#maingo",
		"Tensor.Sqrt returns √x": "docs/ops.html#element-by-element",
		"add a backend":          "CONTRIBUTING.html#how-to-add-a-backend",
		"slurm":                  "deploy/index.html#slurmsh",
	} {
		ok := slices.ContainsFunc(entries, func(e entry) bool {
			for _, w := range strings.Fields(strings.ToLower(words)) {
				if !strings.Contains(strings.ToLower(e.Page+" "+e.Heading+" "+e.Text), w) {
					return false
				}
			}
			return e.Address == address
		})
		if !ok {
			t.Errorf("%q does not lead to %s", words, address)
		}
	}
	for _, e := range entries {
		file, id, _ := strings.Cut(e.Address, "#")
		if !strings.Contains(files[file], `id="`+id+`"`) && id != "" || files[file] == "" {
			t.Errorf("the search leads to %s, which is not there", e.Address)
		}
	}
}

// The navigation has the guide's order, and every page of docs/ once.
func TestOrder(t *testing.T) {
	s, files := whole(t)
	var titles []string
	seen := map[string]int{}
	for _, x := range s.sections {
		titles = append(titles, x.title)
		for _, p := range x.pages {
			seen[p.source]++
		}
	}
	want := []string{"Locus", "First steps", "Data", "Networks", "Training", "Saving", "Using", "Several devices", "Speed and memory", "Extending", "Reference", "Packages"}
	if got := slices.DeleteFunc(titles, func(x string) bool { return x == more }); !slices.Equal(got, want) {
		t.Errorf("the sections are %q, want %q", got, want)
	}
	pages, err := filepath.Glob("../*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages {
		if n := seen["docs/"+filepath.Base(p)]; n != 1 {
			t.Errorf("%s is in the navigation %d times", p, n)
		}
	}
	first := files["docs/getting-started.html"]
	if !strings.Contains(first, `<a rel="next" href="devices.html">`) || !strings.Contains(first, `<a href="getting-started.html" aria-current="page">`) {
		t.Error("getting started does not lead to devices, or is not marked in the menu")
	}
}

// small writes a module's files and builds its site.
func small(t *testing.T, files map[string]string) (*site, error) {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		p := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return build(root)
}

func TestBrokenPagesFailTheBuild(t *testing.T) {
	for text, want := range map[string]string{
		"# A\n\n[x](nowhere.md)":             "docs/a.md, line 3: the link nowhere.md leads nowhere",
		"# A\n\n\n[x](README.md#no)":         "docs/a.md, line 4: docs/README.md has no heading #no",
		"# A\n\n[x](#no)":                    "docs/a.md has no heading #no",
		"# A\n\n[x](../../etc)":              "leads out of the module",
		"# A\n\n![x](https://example.com/)":  "is on another host",
		"# A\n\n<div>":                       "line 3: HTML in the text",
		"# A\n\n```go\nx := 1":               "line 3: this code block has no end",
		"# A\n\n`x":                          "line 3: code without an end",
		"# A\n\n| a | b |\n|---|---|\n| 1 |": "line 5: 1 cells in a table of 2 columns",
		"no title":                           "does not begin with a heading",
	} {
		_, err := small(t, map[string]string{"README.md": "# R", "docs/README.md": "# G", "docs/a.md": text})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want %q", text, err, want)
		}
	}
	if _, err := build(t.TempDir()); err == nil || !strings.Contains(err.Error(), "-root") {
		t.Errorf("an empty folder: %v", err)
	}
}

// A page that nobody has listed is shown all the same.
func TestUnlistedPages(t *testing.T) {
	s, err := small(t, map[string]string{"README.md": "# R", "docs/README.md": "# G\n\n## First\n\n- [A](a.md)", "docs/a.md": "# A", "docs/new.md": "# New"})
	if err != nil {
		t.Fatal(err)
	}
	last := s.sections[len(s.sections)-1]
	if !slices.Equal(s.unlisted, []string{"docs/new.md"}) || last.title != more || last.pages[0].title != "New" {
		t.Errorf("unlisted %v, sections %+v", s.unlisted, s.sections)
	}
}

// Only a site is ever replaced.
func TestWriteKeepsOtherFolders(t *testing.T) {
	s, err := small(t, map[string]string{"README.md": "# R", "docs/README.md": "# G"})
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	mine := filepath.Join(out, "mine")
	if err := os.WriteFile(mine, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := s.write(out); err == nil {
		t.Error("a folder with other files was taken")
	}
	if _, err := os.Stat(mine); err != nil {
		t.Error(err)
	}
}
