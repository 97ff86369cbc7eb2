package cpu

import "testing"

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
