package cpu

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestMeminfo(t *testing.T) {
	total, available := parseMeminfo([]byte("MemTotal:       16384 kB\nMemFree:  1 kB\nMemAvailable:    4096 kB\nHugePages_Total:       0\nodd line\n"))
	if total != 16<<20 || available != 4<<20 {
		t.Errorf("total %d, available %d", total, available)
	}
	total, free := systemMemory()
	if total < 64<<20 || free <= 0 || free > total {
		t.Errorf("this machine: %d of %d bytes free", free, total)
	}
}

// Large blocks ask for huge pages: the kernel marks such memory with "hg".
func TestLargeBlocksAskForHugePages(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage/enabled"); err != nil {
		t.Skip("the kernel has no transparent huge pages: ", err)
	}
	r, err := Open().Allocate(4 * hugePage)
	if err != nil {
		t.Fatal(err)
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skip("the kernel does not tell how memory is mapped: ", err)
	}
	middle, inside := uintptr(r.Ptr)+2*hugePage, false
	for line := range strings.Lines(string(smaps)) {
		var from, to uintptr
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			inside = from <= middle && middle < to
		}
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && inside {
			if !slices.Contains(strings.Fields(flags), "hg") {
				t.Errorf("flags of the memory: %s", flags)
			}
			runtime.KeepAlive(r.Ptr)
			return
		}
	}
	t.Error("the block is not mapped")
}
