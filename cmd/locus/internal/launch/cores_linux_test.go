package launch

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestDivide(t *testing.T) {
	threads := func(cpu int) (processor, core int) { return cpu / 2 % 2, cpu % 2 } // cores 0 and 1 of processors 0 and 1, two threads each
	for _, c := range []struct {
		cores []int
		n     int
		want  string
	}{
		{[]int{0, 1, 2, 3, 4, 5, 6, 7}, 2, "[[0 4 1 5] [2 6 3 7]]"},
		{[]int{0, 1, 2, 3, 4, 5, 6, 7}, 4, "[[0 4] [1 5] [2 6] [3 7]]"},
		{[]int{0, 1, 4, 5}, 3, "[[0] [4] [1 5]]"},
		{[]int{2, 7}, 2, "[[2] [7]]"},
		{[]int{2, 7}, 3, "[]"},
	} {
		if got := fmt.Sprint(divide(c.cores, threads, c.n)); got != c.want {
			t.Errorf("%v for %d: %s, not %s", c.cores, c.n, got, c.want)
		}
	}
}

// Ranks have cores of their own, unless they are to use more threads than that. The launcher
// keeps its cores.
func TestCores(t *testing.T) {
	want := shares(2)
	if want == nil {
		t.Skip("not run: this machine lets the test use one core only")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after, all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	cores := func(threads string) string {
		var r result
		s := r.spec(2, "sh", "-c", `grep Cpus_allowed: /proc/$$/status`)
		s.Env = append(s.Env, "LOCUS_THREADS="+threads)
		if err := Run(t.Context(), s); err != nil {
			t.Fatalf("%v\n%s", err, &r.errs)
		}
		return r.out.String()
	}
	masks := map[string]bool{}
	for _, l := range sorted(cores("1")) {
		_, mask, _ := strings.Cut(l, "Cpus_allowed:")
		masks[strings.TrimSpace(mask)] = true
	}
	if len(masks) != 2 {
		t.Errorf("two ranks have the cores %v", masks)
	}
	masks = map[string]bool{}
	for _, l := range sorted(cores(fmt.Sprint(len(want[0]) + 1))) {
		_, mask, _ := strings.Cut(l, "Cpus_allowed:")
		masks[strings.TrimSpace(mask)] = true
	}
	if len(masks) != 1 {
		t.Errorf("two ranks with more threads than half the cores have the cores %v", masks)
	}
	if err := unix.SchedGetaffinity(0, &after); err != nil || after != before || after == all {
		t.Error("the launcher's cores have changed", err)
	}
}
