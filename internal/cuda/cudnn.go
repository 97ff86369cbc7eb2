//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/locusml/locus/dtype"
)

// dnnLibrary is cuDNN, by the functions that versions 8 and 9 share.
type dnnLibrary struct {
	path                                       string
	create, setStream                          uintptr
	newTensor, setTensor, newFilter, setFilter uintptr
	newConv, setConv, setGroups, setMath       uintptr
	forward, backwardData, backwardFilter      uintptr
	adviseForward, adviseData, adviseFilter    uintptr

	version uintptr
	graph   struct { // the backend interface
		create, set, get, finish, execute, destroy uintptr
	}
	compiler sync.Once // is loaded
}

// hasGraphs reports whether the library has the backend interface as of a version.
func (l *dnnLibrary) hasGraphs(since uintptr) bool {
	g := &l.graph
	return l.version >= since && g.create != 0 && g.set != 0 && g.get != 0 && g.finish != 0 && g.execute != 0 && g.destroy != 0
}

// loadCompiler loads what cuDNN compiles some of its kernels with, when they are first
// used: we may find it where cuDNN does not look.
func (l *dnnLibrary) loadCompiler(drv *driver) {
	l.compiler.Do(func() {
		_, _ = libNVRTC.open(drv.version / 1000) // cuDNN says no if it finds none
	})
}

// loadDNN finds cuDNN.
func loadDNN(drv *driver) (*dnnLibrary, error) {
	return loadedDNN.get(func() (*dnnLibrary, error) { return findDNN(drv.version / 1000) })
}

func findDNN(major int) (*dnnLibrary, error) {
	h, err := libDNN.open(major)
	if err != nil {
		return nil, err
	}
	l := &dnnLibrary{}
	if err := h.Symbols(map[string]*uintptr{
		"cudnnCreate": &l.create, "cudnnSetStream": &l.setStream,
		"cudnnCreateTensorDescriptor": &l.newTensor, "cudnnSetTensor4dDescriptorEx": &l.setTensor,
		"cudnnCreateFilterDescriptor": &l.newFilter, "cudnnSetFilter4dDescriptor": &l.setFilter,
		"cudnnCreateConvolutionDescriptor": &l.newConv, "cudnnSetConvolution2dDescriptor": &l.setConv,
		"cudnnSetConvolutionGroupCount": &l.setGroups, "cudnnSetConvolutionMathType": &l.setMath,
		"cudnnConvolutionForward": &l.forward, "cudnnConvolutionBackwardData": &l.backwardData, "cudnnConvolutionBackwardFilter": &l.backwardFilter,
		"cudnnGetConvolutionForwardAlgorithm_v7":        &l.adviseForward,
		"cudnnGetConvolutionBackwardDataAlgorithm_v7":   &l.adviseData,
		"cudnnGetConvolutionBackwardFilterAlgorithm_v7": &l.adviseFilter,
	}, l.backend()); err != nil {
		return nil, err
	}
	l.path = h.Path()
	if version := h.Symbol("cudnnGetVersion"); version != 0 {
		l.version, _, _ = purego.SyscallN(version)
	}
	return l, nil
}

// backend says which function of the backend interface is which.
func (l *dnnLibrary) backend() map[string]*uintptr {
	g := &l.graph
	return map[string]*uintptr{"cudnnBackendCreateDescriptor": &g.create, "cudnnBackendSetAttribute": &g.set,
		"cudnnBackendGetAttribute": &g.get, "cudnnBackendFinalize": &g.finish, "cudnnBackendExecute": &g.execute,
		"cudnnBackendDestroyDescriptor": &g.destroy}
}

// dnn is a device's handle of cuDNN and the plans it has made.
type dnn struct {
	lib         *dnnLibrary
	handle      uintptr
	unavailable bool
	plans       map[convKey]*convPlan
	attentions  map[attentionKey]*attentionPlan

	// What calls point to.
	one32, zero32 float32
	one64, zero64 float64
	count         int32
	perf          [16]algorithmPerf
}

// algorithmPerf is cudnnConvolutionFwdAlgoPerf_t and its likes.
type algorithmPerf struct {
	algorithm, status int32
	_                 [2]int32
	memory            uint64
	deterministic     int32
	math              int32
	_                 [4]int32
}

// cudnn returns the device's handle, or nil without cuDNN. Between begin and end.
func (d *Device) cudnn() (*dnn, error) {
	if d.dry() {
		return nil, errAgain
	}
	if d.libs.dnn == nil {
		if d.capturing() {
			return nil, d.again(func() error { _, err := d.cudnn(); return err })
		}
		n, err := d.newDNN()
		if err != nil {
			return nil, err
		}
		d.libs.dnn = n
	}
	if d.libs.dnn.unavailable {
		return nil, nil
	}
	return d.libs.dnn, nil
}

func (d *Device) newDNN() (*dnn, error) {
	n := &dnn{one32: 1, one64: 1, plans: map[convKey]*convPlan{}, attentions: map[attentionKey]*attentionPlan{}}
	lib, err := loadDNN(d.card.drv)
	if err != nil {
		n.unavailable = true
		return n, nil
	}
	n.lib = lib
	if !n.made(d, lib.create, &n.handle) {
		if !d.work.pressed {
			return nil, notStarted(libDNN)
		}
		n.unavailable = true
		return n, nil
	}
	if !n.try(d, lib.setStream, n.handle, d.stream) {
		n.unavailable = true
		return n, nil
	}
	nowInUse(libDNN.Name)
	return n, nil
}

// try calls a function and reports whether it succeeded.
func (n *dnn) try(d *Device, fn uintptr, args ...uintptr) bool {
	d.c.fn = fn
	copy(d.c.a[:], args)
	return int32(d.c.doWide()) == 0
}

// made calls a function that makes an object.
func (n *dnn) made(d *Device, fn uintptr, object *uintptr) bool {
	ok := n.try(d, fn, uintptr(unsafe.Pointer(&d.word)))
	*object = d.word
	return ok
}

func (n *dnn) tensor(d *Device, t dtype.DType, shape, strides []int, desc *uintptr) bool {
	if !n.made(d, n.lib.newTensor, desc) {
		return false
	}
	a := []uintptr{*desc, dnnTypes[t]}
	for _, v := range [][]int{shape, strides} {
		for _, x := range v {
			a = append(a, uintptr(x))
		}
	}
	return n.try(d, n.lib.setTensor, a...)
}
