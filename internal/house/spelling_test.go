package house

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const root = "../.."

// tracked returns the files of the repository, relative to its root. What git does not
// know is not ours to check.
func tracked(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("git", "ls-files", "-z")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("git ls-files, which lists the files to check: %v", err)
	}
	files := strings.Split(strings.Trim(string(out), "\x00"), "\x00")
	if len(files) < 500 {
		t.Fatalf("git lists %d files, want the whole repository", len(files))
	}
	return files
}

// british are the British forms of a word in lower case. Verbs in -ise are listed by
// their stems, since many words that end so are no such verbs (noise, otherwise).
var british = regexp.MustCompile(`^(` + strings.Join([]string{
	`.*(behavi|col|fav|flav|hon|hum|lab|neighb|rum)our.*`,
	`.{3,}isations?`,
	`.*(apolog|categor|character|custom|diagonal|discret|emphas|factor|final|general|initial|linear|local|material|maxim|memor|minim|normal|optim|organ|orthogonal|parallel|penal|priorit|quant|random|raster|real|recogn|regular|serial|special|stabil|standard|summar|synchron|token|util|vector|visual)is(e[drs]?|ers|ing)`,
	`.*(anal|paral)ys(e[drs]?|ing)`,
	`.*cent(re|red|res|ring)`, `.*(fib|lit|met|theat)res?`,
	`grey.*`, `(ana|cata|dia)logues?`,
	`.*(cancel|channel|label|level|marshal|model|signal|total|travel|tunnel)l(ed|ing|ers?)`,
	`(burn|learn)t`, `misspelt`, `programmes?`,
	`(acknowledge|judge)ments?`, `artefacts?`, `(de|of)fences?`, `licences?`, `(among|whil)st`,
}, "|") + `)$`)

// words are runs of letters; names are taken apart where a capital begins a word.
var words = regexp.MustCompile(`[A-Z]?[a-z]+`)

// kept are the words that stay, by file: old names that are deprecated, and a book's text.
var kept = map[string][]string{
	"CHANGELOG.md":                         {"Grey", "Utilisation", "utilisation"},
	"cmd/locus/internal/card/card.go":      {"utilisation"},
	"cmd/locus/internal/card/card_test.go": {"utilisation"},
	"data/examples_test.go":                {"Grey"},
	"data/imagefolder.go":                  {"Grey"},
	"data/imagefolder_test.go":             {"Grey"},
	"data/text_test.go":                    {"Traveller"},
	"internal/house/spelling_test.go":      nil, // any
	"telemetry.go":                         {"Utilisation"},
	"telemetry_test.go":                    {"Utilisation"},
}

// TestSpelling: one spelling, the American one of Go's own library and documentation.
func TestSpelling(t *testing.T) {
	american := map[string]bool{} // words that were looked at: most occur often
	for _, name := range tracked(t) {
		stay, some := kept[name]
		if some && stay == nil || filepath.Base(name) == "go.sum" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
			continue // removed in the working tree, or no text
		}
		used := map[string]bool{}
		for _, at := range words.FindAllIndex(text, -1) {
			word := text[at[0]:at[1]]
			if american[string(word)] {
				continue
			}
			w := string(word)
			switch {
			case !british.MatchString(strings.ToLower(w)):
				american[w] = true
			case slices.Contains(stay, w):
				used[w] = true
			default:
				t.Errorf("%s:%d: %q: the repository is written in American spelling", name, 1+bytes.Count(text[:at[0]], []byte("\n")), w)
			}
		}
		for _, w := range stay {
			if !used[w] {
				t.Errorf("%s does not have %q any more: take it out of the list of what is kept", name, w)
			}
		}
	}
}

// The pattern finds what it is there for, and no words that only look like it.
func TestBritish(t *testing.T) {
	for _, w := range strings.Fields("colours neighbouring normalisation normalisations vectorised analyse centred centre grey greyscale cancelled unmarshalling learnt programme optimiser misspelt whilst") {
		if !british.MatchString(w) {
			t.Errorf("%s is taken for American", w)
		}
	}
	for _, w := range strings.Fields("color noise otherwise elementwise precise optimistic optimism normal isolation disabled analysis emphasis four hour parameter labeled cancellation excellent labelloc canceled programmer promised serial learn center raise fenced sfence") {
		if british.MatchString(w) {
			t.Errorf("%s is taken for British", w)
		}
	}
	if got := words.FindAllString("parseColour SVGColours utilisation_percent", -1); !slices.Equal(got, []string{"parse", "Colour", "Colours", "utilisation", "percent"}) {
		t.Errorf("words %q", got)
	}
}
