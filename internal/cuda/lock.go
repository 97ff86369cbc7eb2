//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"runtime"
	"sync"
	"syscall"
	"unsafe"
)

// hugePage is the size of a large page, and of the smallest memory that is worth one.
const hugePage = 2 << 20

// mapped holds the memory that lockPages has mapped, by address.
var mapped struct {
	mu sync.Mutex
	m  map[uintptr][]byte
}

// lockPages returns page-locked memory; a context is current. The driver's own
// allocation is slow, because it gets and clears one page after the other. So large
// memory is mapped here, in huge pages where there are any, touched by several
// threads, and the driver only locks it: a fifth of the time. Where that is not
// possible, the driver does it all.
func lockPages(drv *driver, size int) (uintptr, Result) {
	if size >= hugePage {
		if p, ok := mapPages(drv, size); ok {
			return p, success
		}
	}
	var p uintptr
	r := drv.MemHostAlloc(&p, uint64(size), hostPortable)
	return p, r
}

func mapPages(drv *driver, size int) (uintptr, bool) {
	b, err := syscall.Mmap(-1, 0, size+hugePage, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return 0, false
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	off := int((start+hugePage-1)&^(hugePage-1) - start)
	pages := b[off : off+size]
	_ = syscall.Madvise(pages, syscall.MADV_HUGEPAGE) // small pages do as well
	touch(pages)
	p := start + uintptr(off)
	if drv.MemHostRegister(p, uint64(size), hostPortable) != success {
		_ = syscall.Munmap(b) // it was mapped
		return 0, false
	}
	mapped.mu.Lock()
	defer mapped.mu.Unlock()
	if mapped.m == nil {
		mapped.m = map[uintptr][]byte{}
	}
	mapped.m[p] = b
	return p, true
}

// touch makes the system provide the pages, with several threads at a time.
func touch(b []byte) {
	const page = 4096
	threads := min(8, runtime.GOMAXPROCS(0), (len(b)+hugePage-1)/hugePage)
	part := ceil(ceil(len(b), threads), hugePage) * hugePage
	var wg sync.WaitGroup
	for from := 0; from < len(b); from += part {
		wg.Go(func() {
			for i := from; i < min(from+part, len(b)); i += page {
				b[i] = 0
			}
		})
	}
	wg.Wait()
}

// unlockPages frees what lockPages returned; a context is current.
func unlockPages(drv *driver, p uintptr) error {
	mapped.mu.Lock()
	b, ok := mapped.m[p]
	delete(mapped.m, p)
	mapped.mu.Unlock()
	if !ok {
		return drv.check("cuMemFreeHost", drv.MemFreeHost(p))
	}
	if err := drv.check("cuMemHostUnregister", drv.MemHostUnregister(p)); err != nil {
		return err // it stays mapped: the device may reach it
	}
	return syscall.Munmap(b)
}
