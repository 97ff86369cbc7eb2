package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/weights"
)

func TestDidYouMean(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"trian", "did you mean train?"}, {"train --modle mlp", "did you mean --model?"}, {"train --model mpl", "did you mean mlp?"}, {"train --data digit", "did you mean digits?"},
		{"train --virtual-gpu 2", "did you mean --virtual-gpus?"}, {"--virtual-gpus 1 prdict x", "did you mean predict?"},
	} {
		if r := call("80", strings.Fields(c.args)...); r.code != ExitUsage || !strings.Contains(r.err, c.want) {
			t.Errorf("%s: %+v", c.args, r)
		}
	}
	for _, args := range []string{"banana", "train --banana 3"} {
		if r := call("80", strings.Fields(args)...); r.code != ExitUsage || strings.Contains(r.err, "did you mean") {
			t.Errorf("%s: %+v", args, r)
		}
	}
}

// Long names stay whole, and layer 3 comes before layer 11.
func TestInspectNames(t *testing.T) {
	long := "transformer.encoder.blocks.of.the.network.attention.projection.of.queries.layers."
	path := filepath.Join(t.TempDir(), "w.safetensors")
	if err := weights.Save(path, map[string]*locus.Tensor{long + "11.weight": locus.Ones(2), long + "3.weight": locus.Ones(2)}, nil); err != nil {
		t.Fatal(err)
	}
	r := call("60", "inspect", path)
	a, b := strings.Index(r.out, long+"3.weight"), strings.Index(r.out, long+"11.weight")
	if r.code != 0 || a < 0 || b < 0 || a > b {
		t.Errorf("%d %d\n%s%s", a, b, r.out, r.err)
	}
}
