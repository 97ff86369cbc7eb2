package cpu

import (
	"bufio"
	"bytes"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"
)

// modelName is the processor's name as the kernel reports it.
var modelName = sync.OnceValue(func() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return genericName()
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		key, value, ok := strings.Cut(s.Text(), ":")
		if key = strings.TrimSpace(key); ok && (key == "model name" || key == "Model") {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return genericName()
})

// preferHugePages asks for huge pages for the part of b that covers whole ones. Most
// systems use them only where they are asked for; a system that has none refuses, and
// small pages do.
func preferHugePages(b []byte) {
	head := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (hugePage - 1))
	if n := (len(b) - head) &^ (hugePage - 1); n > 0 {
		syscall.Madvise(b[head:head+n], syscall.MADV_HUGEPAGE)
	}
}

// systemMemory reads /proc/meminfo and the limits of the process's cgroup,
// which in a container are the ones that count.
func systemMemory() (total, free int64) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0
	}
	total, free = parseMeminfo(b)
	for _, g := range memoryCgroups() {
		limit, ok := readInt(g.limit)
		if !ok || limit <= 0 || limit >= 1<<60 { // v1 writes a huge number for none
			continue
		}
		total = min(total, limit)
		if used, ok := readInt(g.usage); ok {
			// Pages of the file cache count as used but are released on demand.
			free = min(free, max(0, limit-used+reclaimable(g.stat)))
		}
	}
	return total, free
}

func parseMeminfo(b []byte) (total, available int64) {
	for line := range bytes.Lines(b) {
		f := strings.Fields(string(line))
		if len(f) < 2 {
			continue
		}
		kb, err := strconv.ParseInt(f[1], 10, 64)
		if err != nil {
			continue
		}
		switch f[0] {
		case "MemTotal:":
			total = kb << 10
		case "MemAvailable:":
			available = kb << 10
		}
	}
	return total, available
}

type cgroup struct{ limit, usage, stat string }

// memoryCgroups lists the files of the memory cgroups that this process is
// in, innermost first: the tightest limit of them all holds.
var memoryCgroups = sync.OnceValue(func() []cgroup {
	b, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	var l []cgroup
	for line := range bytes.Lines(b) {
		f := strings.SplitN(strings.TrimSpace(string(line)), ":", 3)
		if len(f) != 3 {
			continue
		}
		root, v1 := "/sys/fs/cgroup", false
		switch {
		case f[0] == "0" && f[1] == "":
		case strings.Contains(","+f[1]+",", ",memory,"):
			root, v1 = "/sys/fs/cgroup/memory", true
		default:
			continue
		}
		for p := path.Clean("/" + f[2]); ; p = path.Dir(p) {
			dir := path.Join(root, p)
			g := cgroup{path.Join(dir, "memory.max"), path.Join(dir, "memory.current"), path.Join(dir, "memory.stat")}
			if v1 {
				g.limit, g.usage = path.Join(dir, "memory.limit_in_bytes"), path.Join(dir, "memory.usage_in_bytes")
			}
			if _, ok := readInt(g.limit); ok {
				l = append(l, g)
			}
			if p == "/" {
				break
			}
		}
	}
	return l
})

// readInt reads a file that holds one number; "max" is none.
func readInt(file string) (int64, bool) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil
}

func reclaimable(stat string) int64 {
	b, err := os.ReadFile(stat)
	if err != nil {
		return 0
	}
	var n int64
	for line := range bytes.Lines(b) {
		key, value, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		if key == "inactive_file" {
			n, _ = strconv.ParseInt(value, 10, 64)
		}
	}
	return n
}
