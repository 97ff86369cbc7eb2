package house

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRooms: CONTRIBUTING lists every package, and nothing that does not exist. A package
// below another may be named in the line of that one instead of having its own.
func TestRooms(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "## The house\n\n```\n")
	list, _, found := strings.Cut(list, "```\n")
	if !found {
		t.Fatal("CONTRIBUTING.md has no list under \"The house\"")
	}
	rooms := map[string]string{".": ""} // what each line says, by the names that it begins with
	for line := range strings.Lines(list) {
		names, about, found := strings.Cut(strings.TrimSpace(line), "  ")
		if !found && names != "" {
			t.Errorf("%q does not say what the room is for", names)
		}
		for _, name := range strings.Fields(strings.TrimSuffix(names, "(root)")) {
			rooms[name] = about
			if info, err := os.Stat(filepath.Join(root, name)); name != "locus" && (err != nil || !info.IsDir()) {
				t.Errorf("CONTRIBUTING.md lists %s, which does not exist", name)
			}
		}
	}
	packages := map[string]bool{}
	for _, file := range tracked(t) {
		if dir := path.Dir(file); strings.HasSuffix(file, ".go") && !strings.Contains("/"+dir+"/", "/testdata/") {
			packages[dir] = true
		}
	}
	for dir := range packages {
		if top, _, _ := strings.Cut(dir, "/"); top == "cmd" || top == "examples" || top == "bench" || top == "docs" || top == "scripts" {
			continue // collections of programs
		}
		if _, listed := rooms[dir]; listed {
			continue
		}
		word := regexp.MustCompile(`\b` + path.Base(dir) + `\b`)
		above := path.Dir(dir)
		for above != "." && rooms[above] == "" {
			above = path.Dir(above)
		}
		if !word.MatchString(rooms[above]) {
			t.Errorf("CONTRIBUTING.md does not list %s", dir)
		}
	}
}
