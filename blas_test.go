package locus_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/cpu/blas/blastest"
)

func TestUseBLASErrors(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "libopenblas.so"), "libnone-of-this-name.so"} {
		err := locus.UseBLAS(name)
		if err == nil || !strings.Contains(err.Error(), "UseBLAS") || !strings.Contains(err.Error(), "BLAS library") && !strings.Contains(err.Error(), "give the path") {
			t.Errorf("UseBLAS(%q): %v", name, err)
		}
	}
	if err := locus.UseBLAS("off"); err != nil {
		t.Error(err)
	}
}

// Products of all kinds of layouts agree with Locus' own, and the CPU says who
// computed them.
func TestUseBLAS(t *testing.T) {
	l := blastest.Open(t)
	a, b := locus.Randn(210, 230), locus.Randn(230, 220)
	stack := locus.Randn(3, 210, 230)
	all := func() []*locus.Tensor {
		return []*locus.Tensor{a.MatMul(b), b.T().MatMul(a.T()), stack.MatMul(b), a.Cast(locus.Float64).MatMul(b.Cast(locus.Float64)), stack.MatMul(stack.Transpose(1, 2))}
	}
	own := all()
	if err := locus.UseBLAS(l.Path); err != nil {
		t.Fatal(err)
	}
	defer locus.UseBLAS("off")
	if got := locus.CPU().Details().Libraries; len(got) != 1 || got[0].Path != l.Path || !strings.Contains(got[0].Serves, l.Name) {
		t.Errorf("the CPU names %+v", got)
	}
	if got := locus.Devices()[0].Backing; !strings.Contains(got, l.Name) {
		t.Errorf("backed by %s", got)
	}
	for i, got := range all() {
		if worst := got.Sub(own[i]).Abs().Max().Item(); worst > 2e-4 {
			t.Errorf("product %d differs by %v", i, worst)
		}
	}
}
