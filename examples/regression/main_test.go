package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestMain makes the test's binary the program where a test asks for it.
func TestMain(m *testing.M) {
	if os.Getenv("REGRESSION_PROGRAM") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// program runs the program in a process and a folder of its own.
func program(t *testing.T, folder string, args ...string) (string, error) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "REGRESSION_PROGRAM=1")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestTrainThenPredictElsewhere(t *testing.T) {
	table, err := filepath.Abs("houses.csv")
	if err != nil {
		t.Fatal(err)
	}
	houses, err := os.ReadFile("new.csv")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	model := filepath.Join(folder, "m.safetensors")
	out, err := program(t, folder, "-data", table, "-model", model, "train")
	if err != nil {
		t.Fatal(err, out)
	}
	number := func(pattern string) float64 {
		m := regexp.MustCompile(pattern).FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("no %s in\n%s", pattern, out)
		}
		v, _ := strconv.ParseFloat(m[1], 64)
		return v
	}
	// The noise of the prices is 4.5 %, about 14 thousand.
	if rmse, r2 := number(`never seen: RMSE ([\d.]+)`), number(`R² ([\d.]+)`); rmse > 25 || r2 < 0.93 {
		t.Errorf("the model is poor:\n%s", out)
	}
	if epochs, best := number(`stopped after (\d+)`), number(`best epoch (\d+)`); epochs >= 300 || best != epochs-25 {
		t.Errorf("no early stopping:\n%s", out)
	}

	// Another process, in a folder without the training data.
	use := t.TempDir()
	if err := os.WriteFile(filepath.Join(use, "new.csv"), houses, 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err = program(t, use, "-model", model, "predict", "new.csv"); err != nil {
		t.Fatal(err, out)
	}
	var prices []float64
	for _, m := range regexp.MustCompile(`house \d: (\d+) thousand`).FindAllStringSubmatch(out, -1) {
		v, _ := strconv.ParseFloat(m[1], 64)
		prices = append(prices, v)
	}
	// 62·3.1·0.82 less age and so on; the last is in a district that the model has not seen.
	if len(prices) != 4 || prices[0] > 200 || prices[1] < 400 || prices[2] < 250 || prices[3] < 100 || prices[3] > 400 {
		t.Errorf("prices\n%s", out)
	}

	for want, args := range map[string][]string{
		"no such file":           {"-model", "none", "predict", "new.csv"},
		"say train":              {},
		`no column "year"`:       {"-model", model, "predict", "lacks.csv"},
		"not a model of this":    {"-model", "other.safetensors", "predict", "new.csv"},
		"there is no column":     {"-data", "new.csv", "-model", "x", "train"},
		`"many" is not a number`: {"-model", model, "predict", "words.csv"},
	} {
		write := func(name, s string) {
			if err := os.WriteFile(filepath.Join(use, name), []byte(s), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		write("lacks.csv", "area,rooms\n1,2\n")
		write("words.csv", "area,rooms,year,district,heating,garden\nmany,1,1,a,b,1\n")
		write("other.safetensors", "\x02\x00\x00\x00\x00\x00\x00\x00{}")
		if out, err := program(t, use, args...); err == nil || !strings.Contains(out, want) {
			t.Errorf("%q: want %q, got %q", args, want, out)
		}
	}
}
