package launch

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Ranks that share a machine get cores of their own, as mpirun gives them. Left to itself the
// system often has two ranks on one core and another core idle: on two cores a quarter of the
// time (bench/RESULTS.md).

// shares divides the cores that the launcher may use among n ranks. Threads of one core, and
// cores of one processor, stay together. Nil where there are fewer cores than ranks.
func shares(n int) [][]int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil // they run where the system lets them
	}
	var cores []int
	for i := range 1024 { // what a set can hold
		if set.IsSet(i) {
			cores = append(cores, i)
		}
	}
	return divide(cores, topology, n)
}

// divide divides cores of which the topology tells processor and core.
func divide(cores []int, topology func(cpu int) (processor, core int), n int) [][]int {
	if n < 1 || len(cores) < n {
		return nil
	}
	slices.SortFunc(cores, func(a, b int) int {
		pa, ca := topology(a)
		pb, cb := topology(b)
		return cmp.Or(cmp.Compare(pa, pb), cmp.Compare(ca, cb), cmp.Compare(a, b))
	})
	out := make([][]int, n)
	for i := range out {
		out[i] = cores[i*len(cores)/n : (i+1)*len(cores)/n]
	}
	return out
}

// topology returns to which processor and which of its cores a hardware thread belongs; zeros
// where the system does not say.
func topology(cpu int) (processor, core int) {
	read := func(name string) int {
		b, _ := os.ReadFile(fmt.Sprintf("/sys/devices/system/cpu/cpu%d/topology/%s", cpu, name))
		n, _ := strconv.Atoi(strings.TrimSpace(string(b)))
		return n
	}
	return read("physical_package_id"), read("core_id")
}

// startOn calls start, which starts a process, such that the process has these cores; nil: all
// that the launcher has. The goroutine must be locked to its thread, from which the process
// inherits them.
func startOn(cores []int, start func() error) error {
	var before, set unix.CPUSet
	if cores == nil || unix.SchedGetaffinity(0, &before) != nil {
		return start()
	}
	for _, c := range cores {
		set.Set(c)
	}
	if unix.SchedSetaffinity(0, &set) == nil { // else it runs where the system lets it
		defer unix.SchedSetaffinity(0, &before)
	}
	return start()
}
