package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	code    = regexp.MustCompile("`([^`]*)`")
	defined = regexp.MustCompile(`^([\w, ]+?) := `)
)

// names are what the expressions of op-names.md are written with.
const names = `package main

import "github.com/locusml/locus"

var (
	x, y, a, b, c, i, m, s, v, src, q, k, w, l, t, loss, probs, grid, theta, lengths, targetLengths *locus.Tensor
	lo, hi, mean, std, rate, beta, threshold, p                float64
	key                                                        locus.Key
	n                                                          int
	grads                                                      []*locus.Tensor
	f                                                          func(args ...*locus.Tensor) *locus.Tensor
)

func main() {
`

// TestNamesExist compiles the last column of the tables of op names: every function
// and method there exists and takes these arguments.
func TestNamesExist(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("op-names.md")
	if err != nil {
		t.Fatal(err)
	}
	var body strings.Builder
	rows := 0
	for at, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| PyTorch ") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		last := code.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(cells) < 3 || len(last) == 0 {
			t.Errorf("op-names.md:%d: no column with the names of Locus: %s", at+1, line)
		}
		for _, c := range last {
			fmt.Fprintf(&body, "//line op-names.md:%d\n\t{ %s", at+1, c[1])
			if d := defined.FindStringSubmatch(c[1]); d != nil {
				fmt.Fprintf(&body, "; %s = %s", regexp.MustCompile(`\w+`).ReplaceAllString(d[1], "_"), d[1])
			}
			body.WriteString(" }\n")
		}
		rows++
	}
	if rows < 90 {
		t.Errorf("%d rows, want at least 90", rows)
	}
	dir := t.TempDir()
	real, overlay := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json")
	virtual := filepath.Join(root, "docs", "snippet_names", "main.go")
	for path, content := range map[string]string{real: names + body.String() + "}\n", overlay: fmt.Sprintf(`{"Replace":{%q:%q}}`, virtual, real)} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "build", "-gcflags=-e", "-overlay", overlay, "-o", os.DevNull, "./docs/snippet_names")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
