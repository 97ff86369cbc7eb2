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
	b.WriteString("petal,color,species,note\n")
	for i := range 100 {
		kind, petal, color := "iris", 500+i%7, "blue"
		if i%2 == 0 {
			kind, petal, color = "rose", 900+i%5, "red"
		}
		if i%9 == 0 {
			color = ""
		}
		fmt.Fprintf(&b, "%d,%s,%s,%d\n", petal, color, kind, i)
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
	write("new.csv", "note,color,petal\n1,red,902\n2,green,503\n")
	s := good(t, "predict", weights, "new.csv", "--top", "1")
	if a, c := strings.Index(s, "rose"), strings.Index(s, "iris"); a < 0 || c < a || !strings.Contains(s, "new.csv, row 2") {
		t.Error(s)
	}
	write("flowers.csv", b.String())
	write("short.csv", "a,b\n1,x\n")
	write("gap.csv", "a,y\n"+strings.Repeat("1,2.5\n", 30)+"3,\n"+numbered(40))
	write("lacks.csv", "color\nred\n")
	for args, want := range map[string]string{
		"train --out none --data flowers.csv --task classes":                  "--target names another column", // the notes are all different
		"train --out none --data flowers.csv --task klasses":                  "did you mean",
		"train --out none --data flowers.csv --target species --task numbers": "not a number",
		"train --out none --task numbers":                                     "for the column of a CSV file",
		"train --out none --data flowers.csv --target specis":                 "species",
		"train --out none --data flowers.csv --target species --model lenet":  "softmax or mlp",
		"train --out none --data short.csv":                                   "1 rows; want at least 5",
		"train --out none --data gap.csv":                                     "no number in row 30",
		"train --out none --data nothere.csv":                                 "no such file or folder",
		"train --out none --data no/such/folder":                              "no such file or folder",
		"train --out none --target x":                                         "a column of a CSV file",
		"predict " + weights + " lacks.csv":                                   "petal",
	} {
		if r := call("80", strings.Fields(args)...); r.code == 0 || !strings.Contains(r.err, want) {
			t.Errorf("%s: %+v", args, r)
		}
	}
}

// numbered is rows with different numbers.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d,%d\n", i, 3*i)
	}
	return b.String()
}

// Tables that spreadsheets write with semicolons or tabs are read too.
func TestOtherSeparators(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, comma := range map[string]string{"semicolons.csv": ";", "tabs.csv": "\t"} {
		rows := strings.ReplaceAll("x,y\n"+numbered(60), ",", comma)
		if err := os.WriteFile(name, []byte(rows), 0o666); err != nil {
			t.Fatal(err)
		}
		good(t, "train", "--data", name, "--target", "y", "--epochs", "2")
		if s := good(t, "predict", filepath.Join("runs", strings.TrimSuffix(name, ".csv")+"-mlp", "weights.safetensors"), name); strings.Count(s, "row") != 60 {
			t.Error(s)
		}
	}
}

// Numbers are learned where a column has many of them: trained, resumed, tested,
// compared, and used without the table.
func TestTrainOnNumbers(t *testing.T) {
	t.Chdir(t.TempDir())
	var b strings.Builder
	b.WriteString("area,district,price\n")
	for i := range 150 {
		area, extra := 40+i*7%101, 0
		district := "north"
		if i%3 == 0 {
			district, extra = "south", 100
		}
		fmt.Fprintf(&b, "%d,%s,%d\n", area, district, 3*area+extra+i%5)
	}
	write := func(name, s string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(s), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("houses.csv", b.String())
	s := good(t, "train", "--data", "houses.csv", "--epochs", "60")
	if !strings.Contains(s, "test RMSE") || strings.Contains(s, "accuracy") || !strings.Contains(s, "on the test set") {
		t.Error(s)
	}
	good(t, "train", "--data", "houses.csv", "--epochs", "61", "--resume")
	weights := filepath.Join("runs", "houses-mlp", "weights.safetensors")
	var out struct{ Test struct{ RMSE, R2 float64 } }
	parse(t, good(t, "predict", weights, "--json"), &out)
	if out.Test.RMSE > 25 || out.Test.R2 < 0.9 {
		t.Errorf("%+v", out)
	}
	if s := good(t, "predict", weights); !strings.Contains(s, "R²") || !strings.Contains(s, "30 rows") {
		t.Error(s)
	}
	if s := good(t, "inspect", weights); !strings.Contains(s, "test_rmse") || !strings.Contains(s, "numbers") {
		t.Error(s)
	}
	// A table that has changed is measured as the network was trained: not scaled anew.
	write("houses.csv", strings.ReplaceAll(b.String(), "north", "west"))
	parse(t, good(t, "predict", weights, "--json"), &out)
	if out.Test.RMSE < 1 || out.Test.R2 < 0 {
		t.Errorf("%+v", out)
	}
	if err := os.Remove("houses.csv"); err != nil {
		t.Fatal(err)
	}
	write("new.csv", "district,area\nnorth,100\nsouth,100\n")
	s = good(t, "predict", weights, "new.csv")
	var north, south float64
	if n, err := fmt.Sscan(strings.NewReplacer("new.csv, row 1", "", "new.csv, row 2", "").Replace(s), &north, &south); n != 2 || err != nil || north < 260 || north > 340 || south-north < 60 {
		t.Errorf("%d %v: %s", n, err, s)
	}
	write("houses.csv", b.String())
	good(t, "train", "--data", "houses.csv", "--epochs", "3", "--model", "softmax")
	if s := good(t, "compare", "runs/houses-mlp", "runs/houses-softmax"); !strings.Contains(s, "test RMSE") || strings.Contains(s, "accuracy") || !strings.Contains(s, "best: runs/houses-mlp, RMSE") {
		t.Error(s)
	}
	if r := call("80", "predict", weights, "--data", "houses.csv"); r.code != 0 {
		t.Errorf("%+v", r)
	}
}
