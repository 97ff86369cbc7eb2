//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/locusml/locus/internal/cuda/kernels"
	"github.com/locusml/locus/internal/op"
)

// kernel is a function on a card.
type kernel struct {
	name   string
	handle uintptr
	params int // bytes of its parameter structure
	shared int // bytes of dynamic shared memory it has been allowed
}

// kernelTable holds kernels that have been found, by op and element type: looking a
// name up would take too long beside queueing the kernel.
type kernelTable [op.NumOps][16]*kernel

// kernelsFound are the kernels of a device that ops have used.
type kernelsFound struct {
	elementwise kernelTable
	reduces     [3]kernelTable // by rowKernel, colKernel and tileKernel
	small       [6][16]*kernel // of small products, by layout (the last two: with bias and activation) and element type
}

// ptxFile is a file of PTX, divided into the texts of its kernels. The driver
// compiles a module as a whole, so each kernel is loaded as a module of its own, made
// of the file's declarations and the kernel: what a program does not use costs it
// nothing.
type ptxFile struct {
	shared  string            // header and declarations
	kernels map[string]string // by name
}

var ptxFiles struct {
	sync.Mutex
	m map[string]*ptxFile
}

func ptxFileOf(name string) (*ptxFile, error) {
	ptxFiles.Lock()
	defer ptxFiles.Unlock()
	if f := ptxFiles.m[name]; f != nil {
		return f, nil
	}
	text, err := kernels.PTX(name)
	if err != nil {
		return nil, err
	}
	if ptxFiles.m == nil {
		ptxFiles.m = map[string]*ptxFile{}
	}
	f := splitPTX(text)
	ptxFiles.m[name] = f
	return f, nil
}

// entryMark begins a kernel: at the start of a line, before its name.
const entryMark = "\n.visible .entry "

// splitPTX takes a file apart. The compiler writes each kernel from its
// .visible line to a closing brace at the start of a line.
func splitPTX(text string) *ptxFile {
	f := &ptxFile{kernels: map[string]string{}}
	var shared strings.Builder
	for {
		before, rest, found := strings.Cut(text, entryMark)
		shared.WriteString(before)
		if !found {
			f.shared = shared.String()
			return f
		}
		name, _, _ := strings.Cut(rest, "(")
		body, after, _ := strings.Cut(rest, "\n}\n")
		f.kernels[name] = entryMark + body + "\n}\n"
		text = rest[len(rest)-len(after)-1:] // with the line's end, which the next mark begins with
	}
}

// source returns a module that holds one kernel, and the bytes of its parameter.
func source(file, name string) (text string, params int, err error) {
	f, err := ptxFileOf(file)
	if err != nil {
		return "", 0, err
	}
	k := f.kernels[name]
	if k == "" {
		return "", 0, fmt.Errorf("there is no kernel %s in %s.ptx", name, file)
	}
	return f.shared + k, paramBytes(k), nil
}

const (
	jitErrorLog     = 5
	jitErrorLogSize = 6
	funcMaxShared   = 8
)

// kernel returns a function by file and name, loading it at first use. Between
// begin and end.
func (d *Device) kernel(file, name string) (*kernel, error) {
	return d.kernelOf(name, func() (string, int, error) { return source(file, name) })
}

// kernelOf returns a function by name, loading the module that text returns at first
// use. Between begin and end.
func (d *Device) kernelOf(name string, text func() (string, int, error)) (*kernel, error) {
	c := d.card
	c.mu.Lock()
	k := c.kernels[name]
	c.mu.Unlock()
	if k != nil {
		return k, nil
	}
	if d.dry() {
		return d.rec.capture.standIn(name, text)
	}
	if d.capturing() {
		return nil, d.again(func() error { _, err := d.load(name, text); return err })
	}
	return d.load(name, text)
}

// load loads a kernel.
func (d *Device) load(name string, from func() (string, int, error)) (*kernel, error) {
	c := d.card
	text, params, err := from()
	if err != nil {
		return nil, err
	}
	module, err := d.loadModule(name, text)
	if err != nil {
		return nil, err
	}
	k := &kernel{name: name, params: params}
	if err := d.result("cuModuleGetFunction", d.current().ModuleGetFunction(&k.handle, module, cBytes(name))); err != nil {
		return nil, fmt.Errorf("loading kernel %s: %w", name, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.jobs, name)
	if other := c.kernels[name]; other != nil {
		return other, nil
	}
	c.kernels[name] = k
	return k, nil
}

// loadModule loads what the driver makes of a text, or has made before.
func (d *Device) loadModule(name, text string) (module uintptr, err error) {
	var image []byte
	if j := d.card.known(name, text); j != nil {
		<-j.done
		image = j.image
	} else if d.card.drv.cache != nil {
		image = d.card.assembleAndKeep(text) // at once: it does not wait for those in the background
	}
	// An image that is refused, for whatever reason, is made again of the text.
	if len(image) > 0 && d.current().ModuleLoadDataEx(&module, &image[0], 0, nil, nil) == success {
		return module, nil
	}
	log := make([]byte, 4096)
	options := []int32{jitErrorLog, jitErrorLogSize}
	values := []uintptr{uintptr(unsafe.Pointer(&log[0])), uintptr(len(log))}
	if err := d.result("cuModuleLoadDataEx", d.current().ModuleLoadDataEx(&module, cBytes(text), 2, &options[0], &values[0])); err != nil {
		return 0, fmt.Errorf("loading kernel %s: %w %s", name, err, strings.TrimRight(string(log), "\x00"))
	}
	return module, nil
}

// paramBytes reads the size of a kernel's one parameter off its head, which is
// like (.param .align 8 .b8 add_f32_param_0[392]).
func paramBytes(kernel string) int {
	head, _, _ := strings.Cut(kernel, ")")
	_, size, _ := strings.Cut(head, "_param_0[")
	size, _, _ = strings.Cut(size, "]")
	n, _ := strconv.Atoi(size) // 0 if there is none, which no structure has
	return n
}

// allow raises the kernel's limit of dynamic shared memory.
func (d *Device) allow(k *kernel, shared int) error {
	if shared <= 48<<10 || shared <= k.shared {
		return nil
	}
	if err := d.result("cuFuncSetAttribute", d.current().FuncSetAttribute(k.handle, funcMaxShared, int32(shared))); err != nil {
		return err
	}
	k.shared = shared
	return nil
}

// grid is how much of a kernel runs: blocks along three axes, the threads of each, and
// the bytes of dynamic shared memory of each. 0 along y and z means 1.
type grid struct{ x, y, z, threads, shared int }

// oneEach is a grid with a thread for each of n elements.
func oneEach(n int) grid { return grid{x: ceil(n, blockThreads), threads: blockThreads} }

// launch queues k with the parameters that lie in d.params.
func (d *Device) launch(k *kernel, g grid) error {
	if d.dry() {
		return nil
	}
	if err := d.allow(k, g.shared); err != nil {
		return err
	}
	if c := d.rec.capture; c != nil {
		return c.launch(d, k, g)
	}
	d.count.Kernels++
	return d.send(k, g, d.stream)
}

// send queues k on a stream.
func (d *Device) send(k *kernel, g grid, stream uintptr) error {
	c := &d.c
	c.fn = d.card.drv.launchKernel
	c.a[0] = k.handle
	c.a[1], c.a[2], c.a[3] = uintptr(g.x), uintptr(max(g.y, 1)), uintptr(max(g.z, 1))
	c.a[4], c.a[5], c.a[6] = uintptr(g.threads), 1, 1
	c.a[7], c.a[8], c.a[9], c.a[10] = uintptr(g.shared), stream, uintptr(unsafe.Pointer(&d.args)), 0
	if r := Result(c.do()); r != success {
		return d.launchFailed(k, r)
	}
	return nil
}

func (d *Device) launchFailed(k *kernel, r Result) error {
	return fmt.Errorf("kernel %s: %w", k.name, d.result("cuLaunchKernel", r))
}

// paramsOf returns the device's parameter block as kernel k's structure, whose
// size both sides must agree on.
func paramsOf[P any](d *Device, k *kernel) *P {
	var p P
	if int(unsafe.Sizeof(p)) != k.params || unsafe.Sizeof(p) > unsafe.Sizeof(d.params) {
		panic(fmt.Sprintf("cuda: kernel %s takes %d bytes of parameters, not %T of %d", k.name, k.params, p, unsafe.Sizeof(p)))
	}
	return (*P)(unsafe.Pointer(&d.params))
}

// runKernel launches a kernel by name with parameters p.
func runKernel[P any](d *Device, file, name string, p *P, g grid) error {
	k, err := d.kernel(file, name)
	if err != nil {
		return err
	}
	*paramsOf[P](d, k) = *p
	return d.launch(k, g)
}
