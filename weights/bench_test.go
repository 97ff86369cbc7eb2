package weights

import (
	"path/filepath"
	"testing"

	"github.com/locusml/locus"
)

// BenchmarkLoad maps a file and copies 64 MiB from the system's cache.
func BenchmarkLoad(b *testing.B) {
	path := filepath.Join(b.TempDir(), "w")
	if err := Save(path, map[string]*locus.Tensor{"w": locus.CPU().Ones(16 << 20)}, nil); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(64 << 20)
	for b.Loop() {
		f, err := Open(path)
		if err != nil {
			b.Fatal(err)
		}
		x, err := f.Load("w", locus.CPU())
		if err != nil {
			b.Fatal(err)
		}
		x.Free()
		f.Close()
	}
}

// BenchmarkSave includes waiting for the disk.
func BenchmarkSave(b *testing.B) {
	path := filepath.Join(b.TempDir(), "w")
	w := map[string]*locus.Tensor{"w": locus.CPU().Ones(16 << 20)}
	b.SetBytes(64 << 20)
	for b.Loop() {
		if err := Save(path, w, nil); err != nil {
			b.Fatal(err)
		}
	}
}
