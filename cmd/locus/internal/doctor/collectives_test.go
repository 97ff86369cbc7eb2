package doctor

import (
	"strings"
	"testing"

	"github.com/locusml/locus"
)

func TestCollectives(t *testing.T) {
	for _, name := range []string{"RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "LOCUS_COLLECTIVE"} {
		t.Setenv(name, "")
	}
	c := System{}.collectives()
	if c.Status != OK || !strings.HasPrefix(c.Found, "ring for main memory") || len(c.More) != 3 || !strings.HasPrefix(c.More[1], "mpi (not used): ") {
		t.Errorf("%+v", c)
	}
	t.Setenv("LOCUS_COLLECTIVE", "pigeon")
	if c := (System{}).collectives(); c.Status != Warning || !strings.Contains(c.Found, "pigeon") {
		t.Errorf("%+v", c)
	}
	t.Setenv("LOCUS_COLLECTIVE", "ring")
	t.Setenv("RANK", "1")
	t.Setenv("WORLD_SIZE", "2")
	if c := (System{}).collectives(); c.Status != OK || !strings.Contains(c.Found, "rank 1 of 2") {
		t.Errorf("%+v", c)
	}
}

func TestTokenIsNotShown(t *testing.T) {
	s := System{Env: func(name string) string {
		if name == "LOCUS_TOKEN" {
			return "hush"
		}
		return ""
	}, Root: t.TempDir()}
	for _, c := range s.variables() {
		if strings.Contains(c.Found+strings.Join(c.More, " "), "hush") {
			t.Errorf("%+v", c)
		}
	}
}

func TestMulti(t *testing.T) {
	for _, name := range []string{"RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "LOCUS_COLLECTIVE"} {
		t.Setenv(name, "")
	}
	names := func(l []Check) (s string) {
		for _, c := range l {
			if c.Status != OK {
				t.Errorf("%+v", c)
			}
			s += c.Name + "; "
		}
		return s
	}
	if got := names(Multi(t.Context())); got != "collectives; all-reduce; " {
		t.Error(got)
	}
	locus.AddVirtualGPUs(2, 256<<20)
	if got := names(Multi(t.Context())); got != "GPU to GPU; collectives; all-reduce; " {
		t.Error(got)
	}
}
