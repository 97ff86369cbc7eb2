//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"
	"os"
	"unsafe"

	"github.com/locusml/locus/internal/disk"
)

// driver is libcuda.so.1. Functions that only set things up are Go functions;
// those on the way of every op are addresses for [call].
type driver struct {
	path    string
	version int         // 12040 is CUDA 12.4
	name    string      // the driver and its compiler, see driverName
	cache   *disk.Cache // of what it has compiled; nil: there is none

	Init                    func(flags uint32) Result
	DriverGetVersion        func(v *int32) Result
	GetErrorString          func(r Result, s **byte) Result
	DeviceGetCount          func(n *int32) Result
	DeviceGet               func(d *int32, ordinal int32) Result
	DeviceGetName           func(buf *byte, n int32, d int32) Result
	DeviceGetAttribute      func(v *int32, attr int32, d int32) Result
	DeviceTotalMem          func(n *uint64, d int32) Result
	DeviceGetPCIBusId       func(buf *byte, n int32, d int32) Result
	DevicePrimaryCtxRetain  func(ctx *uintptr, d int32) Result
	DeviceCanAccessPeer     func(can *int32, d, peer int32) Result
	CtxEnablePeerAccess     func(ctx uintptr, flags uint32) Result
	StreamCreate            func(s *uintptr, flags uint32) Result
	ModuleLoadDataEx        func(m *uintptr, image *byte, n uint32, opts *int32, vals *uintptr) Result
	LinkCreate              func(n uint32, opts *int32, vals *uintptr, state *uintptr) Result
	LinkAddData             func(state uintptr, kind int32, data *byte, size uint64, name *byte, n uint32, opts *int32, vals *uintptr) Result
	LinkComplete            func(state uintptr, image *uintptr, size *uint64) Result
	LinkDestroy             func(state uintptr) Result
	ModuleGetFunction       func(f *uintptr, m uintptr, name *byte) Result
	FuncSetAttribute        func(f uintptr, attr int32, v int32) Result
	MemAlloc                func(p *uintptr, n uint64) Result
	MemFree                 func(p uintptr) Result
	MemGetInfo              func(free, total *uint64) Result
	MemHostAlloc            func(p *uintptr, n uint64, flags uint32) Result
	MemFreeHost             func(host uintptr) Result
	MemHostRegister         func(host uintptr, n uint64, flags uint32) Result
	MemHostUnregister       func(host uintptr) Result
	MemHostGetDevicePointer func(p *uintptr, host uintptr, flags uint32) Result

	// Addresses of the hot functions.
	ctxSetCurrent, launchKernel, memcpyHtoDAsync, memcpyDtoHAsync, memcpyPeerAsync,
	eventCreate, eventRecord, eventQuery, eventSynchronize, eventElapsedTime,
	streamSynchronize, streamWaitEvent uintptr

	graphs graphFunctions
}

// setUp and hot say which function of the library fills which field.
func (d *driver) setUp() map[string]any {
	return map[string]any{
		"cuInit": &d.Init, "cuDriverGetVersion": &d.DriverGetVersion, "cuGetErrorString": &d.GetErrorString,
		"cuDeviceGetCount": &d.DeviceGetCount, "cuDeviceGet": &d.DeviceGet, "cuDeviceGetName": &d.DeviceGetName,
		"cuDeviceGetAttribute": &d.DeviceGetAttribute, "cuDeviceTotalMem_v2": &d.DeviceTotalMem,
		"cuDeviceGetPCIBusId":      &d.DeviceGetPCIBusId,
		"cuDevicePrimaryCtxRetain": &d.DevicePrimaryCtxRetain, "cuDeviceCanAccessPeer": &d.DeviceCanAccessPeer,
		"cuCtxEnablePeerAccess": &d.CtxEnablePeerAccess, "cuStreamCreate": &d.StreamCreate,
		"cuModuleLoadDataEx": &d.ModuleLoadDataEx, "cuModuleGetFunction": &d.ModuleGetFunction,
		"cuLinkCreate_v2": &d.LinkCreate, "cuLinkAddData_v2": &d.LinkAddData, "cuLinkComplete": &d.LinkComplete, "cuLinkDestroy": &d.LinkDestroy,
		"cuFuncSetAttribute": &d.FuncSetAttribute,
		"cuMemAlloc_v2":      &d.MemAlloc, "cuMemFree_v2": &d.MemFree, "cuMemGetInfo_v2": &d.MemGetInfo,
		"cuMemHostAlloc": &d.MemHostAlloc, "cuMemFreeHost": &d.MemFreeHost,
		"cuMemHostRegister_v2": &d.MemHostRegister, "cuMemHostUnregister": &d.MemHostUnregister,
		"cuMemHostGetDevicePointer_v2": &d.MemHostGetDevicePointer,
	}
}

func (d *driver) hot() map[string]*uintptr {
	return map[string]*uintptr{
		"cuCtxSetCurrent": &d.ctxSetCurrent, "cuLaunchKernel": &d.launchKernel,
		"cuMemcpyHtoDAsync_v2": &d.memcpyHtoDAsync, "cuMemcpyDtoHAsync_v2": &d.memcpyDtoHAsync,
		"cuMemcpyPeerAsync": &d.memcpyPeerAsync,
		"cuEventCreate":     &d.eventCreate, "cuEventRecord": &d.eventRecord, "cuEventQuery": &d.eventQuery,
		"cuEventSynchronize": &d.eventSynchronize, "cuEventElapsedTime": &d.eventElapsedTime,
		"cuStreamSynchronize": &d.streamSynchronize, "cuStreamWaitEvent": &d.streamWaitEvent,
	}
}

// loadDriver opens libcuda and starts it.
func loadDriver() (*driver, error) {
	h, err := libCUDA.open(0)
	if err != nil {
		return nil, err
	}
	d := &driver{}
	if err := h.Symbols(d.hot(), d.graphs.all()); err != nil {
		return nil, err
	}
	if err := h.Functions(d.setUp()); err != nil {
		return nil, err
	}
	d.path = h.Path()
	d.cache = kernelCache(os.Getenv("LOCUS_KERNEL_CACHE"))
	return d, nil
}

// check turns a result into an error.
func (d *driver) check(name string, r Result) error {
	if r == success {
		return nil
	}
	e := &Error{Call: name, Result: r}
	if _, known := results[r]; !known && d.GetErrorString != nil {
		var s *byte
		if d.GetErrorString(r, &s) == success && s != nil {
			e.Text = cString(s)
		}
	}
	return e
}

func cString(p *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

func cBytes(s string) *byte {
	b := append([]byte(s), 0)
	return &b[0]
}

// minDriver is the oldest driver whose PTX compiler takes our kernels.
const minDriver = 11000

func cudaVersion(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }
