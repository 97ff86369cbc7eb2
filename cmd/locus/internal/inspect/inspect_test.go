package inspect

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/weights"
	"github.com/locusml/locus/weights/checkpoint"
)

func file(t *testing.T, meta map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.safetensors")
	tensors := map[string]*locus.Tensor{
		"w": locus.From([][]float32{{1, 2, 3}, {-4, 5, float32(math.NaN())}}),
		"n": locus.From(int64(7)),
		"e": locus.Zeros(0, 4),
	}
	if err := weights.Save(path, tensors, meta); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLookIntoFile(t *testing.T) {
	f, err := Look(file(t, map[string]string{"a": "b"}), true, 0)
	if err != nil {
		t.Fatal(err)
	}
	if f.Format != "safetensors" || f.Elements != 7 || f.Bytes != 32 || f.Metadata["a"] != "b" || len(f.Tensors) != 3 {
		t.Errorf("%+v", f)
	}
	for _, x := range f.Tensors {
		if x.Name != "w" {
			continue
		}
		s := x.Stats
		if x.Type != "float32" || s == nil || s.Min != -4 || s.Max != 5 || math.Abs(s.Mean-1.4) > 1e-6 || s.NotFinite != 1 || math.Abs(s.Std-3.0067) > 1e-3 {
			t.Errorf("%+v %+v", x, s)
		}
	}
	if f, err := Look(file(t, nil), false, 0); err != nil || f.Tensors[0].Stats != nil {
		t.Errorf("values were read unasked: %v %+v", err, f)
	}
}

func TestLookIntoCheckpoints(t *testing.T) {
	dir := t.TempDir()
	d, err := checkpoint.Open(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	var last checkpoint.Entry
	for i := range 3 {
		if last, err = d.Save(map[string]*locus.Tensor{"w": locus.Zeros(i + 1)}, map[string]int{"epoch": i}); err != nil {
			t.Fatal(err)
		}
	}
	f, err := Look(dir, false, 0)
	if err != nil || f.Number != last.Number || len(f.Others) != 2 || !strings.Contains(string(f.State), "2") || f.Elements != 3 {
		t.Fatalf("%v %+v", err, f)
	}
	whole, _, _ := d.List()
	if f, err := Look(whole[0].Path, false, 0); err != nil || f.Elements != 1 {
		t.Errorf("one of them: %v %+v", err, f)
	}
	if err := os.WriteFile(filepath.Join(last.Path, "manifest.json"), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if f, err := Look(dir, false, 0); err != nil || f.Elements != 2 || len(f.Broken) != 1 {
		t.Errorf("with a broken one: %v %+v", err, f)
	}
}

func TestLookErrors(t *testing.T) {
	dir := t.TempDir()
	if _, err := Look(filepath.Join(dir, "none"), false, 0); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if _, err := Look(dir, false, 0); err == nil || !strings.Contains(err.Error(), "without checkpoints") {
		t.Errorf("%v", err)
	}
	bad := filepath.Join(dir, "bad.npz")
	if err := os.WriteFile(bad, []byte("PK\x03\x04 broken"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Look(bad, false, 0); !errors.Is(err, weights.ErrFormat) {
		t.Errorf("%v", err)
	}
}

func TestConvertThereAndBack(t *testing.T) {
	from := file(t, map[string]string{"a": "b"})
	dir := filepath.Dir(from)
	npz, back := filepath.Join(dir, "m.npz"), filepath.Join(dir, "back.safetensors")
	c, err := Convert(from, npz, 0, false, 0)
	if err != nil || c.Tensors != 3 || len(c.Dropped) != 1 || c.Bytes == 0 {
		t.Fatalf("%v %+v", err, c)
	}
	if _, err := Convert(npz, back, locus.BFloat16, false, 0); err != nil {
		t.Fatal(err)
	}
	f, err := weights.Open(back)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := f.Load("w", locus.CPU())
	if err != nil {
		t.Fatal(err)
	}
	if w.DType() != locus.BFloat16 || w.Index(1, 0).Item() != -4 {
		t.Errorf("%v", w)
	}
	if n, err := f.Load("n", locus.CPU()); err != nil || n.DType() != locus.Int64 || n.Int() != 7 {
		t.Errorf("%v %v", n, err)
	}
}

func TestConvertNPY(t *testing.T) {
	dir := t.TempDir()
	one := filepath.Join(dir, "one.npy")
	if err := weights.SaveNPY(one, locus.Ones(2)); err != nil {
		t.Fatal(err)
	}
	named := filepath.Join(dir, "named.safetensors")
	if _, err := Convert(one, named, 0, false, 0); err != nil {
		t.Fatal(err)
	}
	if f, err := Look(named, false, 0); err != nil || f.Tensors[0].Name != "one" {
		t.Errorf("%v %+v", err, f)
	}
	if _, err := Convert(named, filepath.Join(dir, "again.npy"), 0, false, 0); err != nil {
		t.Error(err)
	}
}

func TestConvertErrors(t *testing.T) {
	from := file(t, nil)
	dir := filepath.Dir(from)
	for _, c := range []struct{ from, to, want string }{
		{from, filepath.Join(dir, "m.pt"), "must end in"},
		{from, from, "--force"},
		{from, filepath.Join(dir, "m.npy"), "holds one tensor"},
		{filepath.Join(dir, "none"), filepath.Join(dir, "x.npz"), "none"},
		{from, filepath.Join(dir, "no", "folder.npz"), "folder"},
	} {
		if _, err := Convert(c.from, c.to, 0, false, 0); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s to %s: %v", c.from, c.to, err)
		}
	}
	if _, err := Convert(from, from, 0, true, 0); err != nil {
		t.Errorf("with force: %v", err)
	}
}
