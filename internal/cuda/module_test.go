//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"strings"
	"testing"

	"github.com/locusml/locus/internal/cuda/kernels"
)

// Every kernel of every file can be loaded by itself.
func TestSplitPTX(t *testing.T) {
	for _, name := range kernels.Names() {
		text, err := kernels.PTX(name)
		if err != nil {
			t.Fatal(err)
		}
		f := splitPTX(text)
		if want := strings.Count(text, ".visible .entry "); len(f.kernels) != want || want == 0 {
			t.Errorf("%s: %d kernels of %d", name, len(f.kernels), want)
		}
		if !strings.Contains(f.shared, ".version ") || strings.Contains(f.shared, ".entry") {
			t.Errorf("%s: what the kernels share is %q", name, f.shared)
		}
		length := len(f.shared)
		for k, body := range f.kernels {
			if !strings.HasSuffix(body, "\n}\n") || strings.Count(body, ".entry") != 1 || paramBytes(body) == 0 {
				t.Errorf("%s: kernel %s is not whole", name, k)
			}
			length += len(body)
		}
		if missing := len(text) - length; missing > 0 || missing < -2*len(f.kernels) { // line ends between kernels count twice
			t.Errorf("%s: the parts have %d characters, the file %d", name, length, len(text))
		}
	}
}
