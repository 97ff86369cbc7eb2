package nn_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

func TestDescriptions(t *testing.T) {
	net := nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.BatchNorm(4), nn.LazyLinear(2))
	nn.Freeze(net.Layers[0])
	want := `path  layer      tensors                                                                 numbers  memory  device
0     Linear     weight (frozen) (4, 3), bias (frozen) (4,)                                    16    64 B  cpu
2     BatchNorm  weight (4,), bias (4,), running_mean (4,), running_var (4,)                      16    64 B  cpu
3     Linear     weight not made yet, bias not made yet                                        0     0 B
24 parameters, 128 B
`
	got := fmt.Sprint(net)
	if normal(got) != normal(want) {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
	if s := fmt.Sprint(nn.Sequential(nn.ReLU())); s != "a network without parameters\n" {
		t.Error(s)
	}
	tree := nn.Tree{"layers.11.weight": locus.Ones(2, 3), "layers.3.weight": locus.As(locus.Int64).Zeros(2000), "x": nil}
	if s, want := tree.String(), "name              type     shape     memory  device\nlayers.3.weight   int64    (2000,)  15.6 KiB  cpu\nlayers.11.weight  float32  (2, 3)      24 B  cpu\nx                 nil\n"; normal(s) != normal(want) {
		t.Errorf("\n%s", s)
	}
	if s := (nn.Tree{}).String(); s != "an empty tree\n" {
		t.Error(s)
	}
}

// withTable has the String method of its network.
type withTable struct {
	*nn.SequentialLayer
	Head *nn.Parameter
}

func TestSummaryOfAnEmbeddedNetwork(t *testing.T) {
	m := &withTable{nn.Sequential(nn.Linear(3, 4)), nn.NewParameter(locus.Ones(2))}
	for _, r := range nn.Summarize(m, locus.Ones(1, 3)).Rows {
		if strings.Contains(r.Layer, "\n") {
			t.Errorf("%q", r.Layer)
		}
	}
}

// normal takes runs of blanks for one.
func normal(s string) string {
	var out []rune
	for _, r := range s {
		if r == ' ' && len(out) > 0 && out[len(out)-1] == ' ' {
			continue
		}
		out = append(out, r)
	}
	return string(out)
}

func TestNatural(t *testing.T) {
	names := []string{"b", "a.11.w", "a.3.w", "a.3", "a.03", "a.3.b", "a.200000000000000000000001", "a.200000000000000000000000", "", "a"}
	slices.SortFunc(names, nn.Natural)
	if got, want := fmt.Sprint(names), "[ a a.3 a.3.b a.3.w a.03 a.11.w a.200000000000000000000000 a.200000000000000000000001 b]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
