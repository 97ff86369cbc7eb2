package house

import (
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	fences = regexp.MustCompile("(?ms)^```.*?^```")
	spans  = regexp.MustCompile("`([^`\n]+)`")
	paths  = regexp.MustCompile(`^[\w.*/-]+(/|\.(go|cu|cuh|s|py|md|sh|yaml|json))$|^[\w.*-]+(/[\w.*-]+)+$`)
	idents = regexp.MustCompile(`[A-Za-z_]\w*`)
)

// elsewhere are names that are not in the repository: what its programs make, and the
// system's.
var elsewhere = []string{"site/index.html", "madvise"}

// TestNamesInDesign: what the documents on the code name in backquotes exists: files and
// folders where they are said to be, and identifiers somewhere in the code. (The names of
// the API in the guide are checked with the site, and links too.)
func TestNamesInDesign(t *testing.T) {
	files := tracked(t)
	known := codeWords(t, files)
	for _, doc := range []string{"docs/design.md", "CONTRIBUTING.md"} {
		text, err := os.ReadFile(filepath.Join(root, doc))
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for at, line := range strings.Split(string(fences.ReplaceAllFunc(text, blank)), "\n") {
			for _, m := range spans.FindAllStringSubmatch(line, -1) {
				span := m[1]
				found++
				switch {
				case strings.HasPrefix(span, "go ") || strings.HasPrefix(span, "make ") || slices.Contains(elsewhere, span):
				case paths.MatchString(span):
					if !someFile(files, strings.TrimPrefix(strings.TrimSuffix(span, "/"), "./")) {
						t.Errorf("%s:%d: there is no file or folder %s", doc, at+1, span)
					}
				default:
					for _, w := range namesIn(span) {
						if !known[w] && !slices.Contains(elsewhere, w) {
							t.Errorf("%s:%d: %q: %s is nowhere in the code", doc, at+1, span, w)
						}
					}
				}
			}
		}
		if found < 50 {
			t.Errorf("%s has %d names in backquotes, want at least 50", doc, found)
		}
	}
}

// namesIn returns the identifiers of an expression that are names of something: the only
// one, or those that are exported, called, selected or of several words.
func namesIn(span string) (names []string) {
	for _, at := range idents.FindAllStringIndex(span, -1) {
		w := span[at[0]:at[1]]
		if w == span || w[0] >= 'A' && w[0] <= 'Z' && len(w) > 1 || strings.Contains(w, "_") ||
			at[0] > 0 && span[at[0]-1] == '.' || at[1] < len(span) && span[at[1]] == '(' {
			names = append(names, w)
		}
	}
	return names
}

// someFile reports whether a pattern is the path of a tracked file or folder, from the root
// or from any folder.
func someFile(files []string, pattern string) bool {
	quoted := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `[^/]*`)
	path := regexp.MustCompile(`(^|/)` + quoted + `(/|$)`)
	return slices.ContainsFunc(files, path.MatchString)
}

func blank(b []byte) []byte { return []byte(strings.Repeat("\n", strings.Count(string(b), "\n"))) }

// codeWords returns the words of all code but comments: identifiers and what strings have.
func codeWords(t *testing.T, files []string) map[string]bool {
	words := map[string]bool{}
	for _, f := range files {
		ext := filepath.Ext(f)
		if !slices.Contains([]string{".go", ".cu", ".cuh", ".py"}, ext) && f != ".ci/run" || strings.HasPrefix(f, "internal/house/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, f))
		if err != nil {
			continue // removed in the working tree
		}
		add := func(s string) {
			for _, w := range idents.FindAllString(s, -1) {
				words[w] = true
			}
		}
		if ext != ".go" {
			add(string(text))
			continue
		}
		set := token.NewFileSet()
		var s scanner.Scanner
		s.Init(set.AddFile(f, -1, len(text)), text, nil, 0)
		for {
			_, kind, literal := s.Scan()
			if kind == token.EOF {
				break
			}
			switch kind {
			case token.IDENT:
				words[literal] = true
			case token.STRING:
				add(literal)
			}
		}
	}
	if len(words) < 10000 {
		t.Fatalf("%d words in the code", len(words))
	}
	return words
}

func TestNamesIn(t *testing.T) {
	for span, want := range map[string]string{
		"apply": "apply", "dev.As(locus.Int64).Zeros(3)": "As Int64 Zeros", "op.Def.More": "Def More",
		"LOCUS_CUDNN_TIMING=off": "LOCUS_CUDNN_TIMING", "x + y": "", "update_all": "update_all",
	} {
		if got := strings.Join(namesIn(span), " "); got != want {
			t.Errorf("%s: %s, want %s", span, got, want)
		}
	}
	files := []string{"internal/cpu/conv_blocks.go", "docs/site/main.go"}
	for pattern, want := range map[string]bool{"conv_blocks*.go": true, "internal/cpu": true, "cpu/conv_blocks.go": true, "conv.go": false, "docs/site": true, "site/index.html": false} {
		if someFile(files, pattern) != want {
			t.Errorf("%s: %t", pattern, !want)
		}
	}
}
