package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The user's own table: trained, tested, and used on rows without the target after
// the training data is gone.
func TestTrainOnATable(t *testing.T) {
	t.Chdir(t.TempDir())
	var b strings.Builder
	b.WriteString("petal,colour,species,note\n")
	for i := range 100 {
		kind, petal, colour := "iris", 500+i%7, "blue"
		if i%2 == 0 {
			kind, petal, colour = "rose", 900+i%5, "red"
		}
		if i%9 == 0 {
			colour = ""
		}
		fmt.Fprintf(&b, "%d,%s,%s,%d\n", petal, colour, kind, i)
	}
	write := func(name, s string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(s), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("flowers.csv", b.String())
	if s := good(t, "train", "--data", "flowers.csv", "--target", "species", "--epochs", "10"); !strings.Contains(s, "100.0 %") || !strings.Contains(s, "runs/flowers-mlp/") {
		t.Error(s)
	}
	good(t, "train", "--data", "flowers.csv", "--epochs", "11", "--resume") // with the target of before
	weights := filepath.Join("runs", "flowers-mlp", "weights.safetensors")
	if s := good(t, "predict", weights); !strings.Contains(s, "20 of 20 right") {
		t.Error(s)
	}
	if err := os.Remove("flowers.csv"); err != nil {
		t.Fatal(err)
	}
	write("new.csv", "note,colour,petal\n1,red,902\n2,green,503\n")
	s := good(t, "predict", weights, "new.csv", "--top", "1")
	if a, c := strings.Index(s, "rose"), strings.Index(s, "iris"); a < 0 || c < a || !strings.Contains(s, "new.csv, row 2") {
		t.Error(s)
	}
	write("flowers.csv", b.String())
	write("short.csv", "a,b\n1,x\n")
	write("lacks.csv", "colour\nred\n")
	for args, want := range map[string]string{
		"train --out none --data flowers.csv":                                "--target names another column", // the notes are all different
		"train --out none --data flowers.csv --target specis":                "species",
		"train --out none --data flowers.csv --target species --model lenet": "softmax or mlp",
		"train --out none --data short.csv":                                  "classes in 1 rows",
		"train --out none --target x":                                        "a column of a CSV file",
		"predict " + weights + " lacks.csv":                                  "petal",
	} {
		if r := call("80", strings.Fields(args)...); r.code == 0 || !strings.Contains(r.err, want) {
			t.Errorf("%s: %+v", args, r)
		}
	}
}
