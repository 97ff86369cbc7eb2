//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/locusml/locus/internal/cachedir"
	"github.com/locusml/locus/internal/disk"
	"github.com/locusml/locus/internal/dynlib"
)

// The driver compiles PTX for the card, which takes it 10 to 500 ms per kernel. The
// results are kept on disk by this package: in many containers the driver's own cache is
// switched off or does not last. Kernels that a program will need are compiled by several
// threads at a time; see prepare.go.

// cacheLimit bounds the folder of compiled kernels: some thousands of them.
const cacheLimit = 256 << 20

// kernelCache returns the cache of compiled kernels, nil where it is switched off or
// there is no place for it. The variable LOCUS_KERNEL_CACHE says off, or names a folder.
func kernelCache(value string) *disk.Cache {
	switch {
	case dynlib.IsOff(value):
		return nil
	case value != "":
		return &disk.Cache{Dir: value, Limit: cacheLimit}
	}
	folder, err := cachedir.Path()
	if err != nil {
		return nil
	}
	return &disk.Cache{Dir: filepath.Join(folder, "kernels"), Limit: cacheLimit}
}

// driverName identifies the driver whose compiler is used: other versions may make
// other code of the same text.
func driverName(path string, version int) string {
	name := fmt.Sprint("CUDA ", version)
	if file, err := filepath.EvalSymlinks(path); err == nil {
		name += " " + filepath.Base(file) // such as libcuda.so.580.95.05
	}
	if b, err := disk.ReadFile("/sys/module/nvidia/version", 1<<10); err == nil {
		name += " " + strings.TrimSpace(string(b))
	}
	return name
}

// jitVersion changes when this package asks the driver for different code of the same
// text.
const jitVersion = "1"

// key identifies what the driver makes of a text for the card.
func (c *card) key(text string) disk.Key {
	return disk.KeyOf("kernel", jitVersion, c.drv.name, fmt.Sprintf("%d.%d", c.major, c.minor), text)
}

// job is a kernel that is being compiled, or has been.
type job struct {
	done  chan struct{} // closed when it is
	image []byte        // the card's code; nil: the driver could not, and says why when it loads the text
}

func (j *job) ready() bool {
	select {
	case <-j.done:
		return true
	default:
		return false
	}
}

// compilers bounds the kernels that are compiled at the same time.
var compilers = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))

// known returns the job of a kernel if it is underway, or on disk and so done; else nil.
func (c *card) known(name, text string) *job {
	c.mu.Lock()
	defer c.mu.Unlock()
	if j := c.jobs[name]; j != nil {
		return j
	}
	image, ok := c.drv.cache.Get(c.key(text))
	if !ok {
		return nil
	}
	j := c.newJob(name)
	j.image = image
	close(j.done)
	return j
}

// newJob notes a job. c.mu is held.
func (c *card) newJob(name string) *job {
	if c.jobs == nil {
		c.jobs = map[string]*job{}
	}
	j := &job{done: make(chan struct{})}
	c.jobs[name] = j
	return j
}

// compile returns the job of a kernel, which it begins in the background unless it is
// known.
func (c *card) compile(name, text string) *job {
	if j := c.known(name, text); j != nil {
		return j
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if j := c.jobs[name]; j != nil { // begun in between
		return j
	}
	j := c.newJob(name)
	go func() {
		compilers <- struct{}{}
		defer func() { <-compilers }()
		defer close(j.done)
		j.image = c.assembleAndKeep(text)
	}()
	return j
}

// assembleAndKeep is assemble, and puts what it returns on disk. nil means that the
// driver could not, for whatever reason.
func (c *card) assembleAndKeep(text string) []byte {
	image, err := c.assemble(text)
	if err != nil {
		return nil
	}
	c.drv.cache.Put(c.key(text), image)
	return image
}

// jitPTX is CU_JIT_INPUT_PTX.
const jitPTX = 1

// assemble has the driver make the card's code of a text. It holds no device.
func (c *card) assemble(text string) ([]byte, error) {
	if err := c.start(); err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	k := calls.Get().(*call)
	defer calls.Put(k)
	k.first, k.fn, k.a[0] = 0, c.drv.ctxSetCurrent, c.ctx
	if err := c.drv.check("cuCtxSetCurrent", Result(k.do())); err != nil {
		return nil, err
	}
	var state, image uintptr
	var size uint64
	if err := c.drv.check("cuLinkCreate", c.drv.LinkCreate(0, nil, nil, &state)); err != nil {
		return nil, err
	}
	defer c.drv.LinkDestroy(state) // the image is copied
	if err := c.drv.check("cuLinkAddData", c.drv.LinkAddData(state, jitPTX, cBytes(text), uint64(len(text)+1), cBytes("kernel"), 0, nil, nil)); err != nil {
		return nil, err
	}
	if err := c.drv.check("cuLinkComplete", c.drv.LinkComplete(state, &image, &size)); err != nil {
		return nil, err
	}
	return copyOf(image, size), nil
}
