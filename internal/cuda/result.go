//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"fmt"

	"github.com/locusml/locus/internal/op"
)

// Result is a code that the driver returned.
type Result int32

// The results that are handled specially.
const (
	success           Result = 0
	resultOutOfMemory Result = 2
	resultNotReady    Result = 600
)

// results names what the driver may return. The names and meanings are written
// down here, because a driver that fails to start cannot be asked.
var results = map[Result][2]string{
	1:   {"CUDA_ERROR_INVALID_VALUE", "a value is out of range"},
	2:   {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	3:   {"CUDA_ERROR_NOT_INITIALIZED", "the driver is not initialized"},
	4:   {"CUDA_ERROR_DEINITIALIZED", "the driver is shutting down"},
	34:  {"CUDA_ERROR_STUB_LIBRARY", "the library is the toolkit's stub, not a driver"},
	46:  {"CUDA_ERROR_DEVICE_UNAVAILABLE", "the device is busy or unavailable"},
	100: {"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device"},
	101: {"CUDA_ERROR_INVALID_DEVICE", "no such device"},
	200: {"CUDA_ERROR_INVALID_IMAGE", "the kernel image is invalid"},
	201: {"CUDA_ERROR_INVALID_CONTEXT", "the context is invalid"},
	209: {"CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image for this device"},
	214: {"CUDA_ERROR_ECC_UNCORRECTABLE", "an uncorrectable memory error"},
	217: {"CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "no peer access between these devices"},
	218: {"CUDA_ERROR_INVALID_PTX", "the PTX could not be compiled"},
	220: {"CUDA_ERROR_NVLINK_UNCORRECTABLE", "an uncorrectable error of NVLink"},
	222: {"CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the PTX is newer than the driver"},
	226: {"CUDA_ERROR_CONTAINED", "a fault of the hardware, or of an access to another GPU, that was contained"},
	304: {"CUDA_ERROR_OPERATING_SYSTEM", "a call to the operating system failed"},
	400: {"CUDA_ERROR_INVALID_HANDLE", "an invalid handle"},
	500: {"CUDA_ERROR_NOT_FOUND", "a name was not found"},
	600: {"CUDA_ERROR_NOT_READY", "not done yet"},
	700: {"CUDA_ERROR_ILLEGAL_ADDRESS", "a kernel touched memory that is not its own"},
	701: {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "a launch needs more registers or memory than there are"},
	702: {"CUDA_ERROR_LAUNCH_TIMEOUT", "a kernel ran too long"},
	704: {"CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is on already"},
	709: {"CUDA_ERROR_CONTEXT_IS_DESTROYED", "the context is gone"},
	710: {"CUDA_ERROR_ASSERT", "an assertion in a kernel failed"},
	714: {"CUDA_ERROR_HARDWARE_STACK_ERROR", "a fault of the hardware's call stack"},
	715: {"CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction"},
	716: {"CUDA_ERROR_MISALIGNED_ADDRESS", "a misaligned address"},
	717: {"CUDA_ERROR_INVALID_ADDRESS_SPACE", "an address of the wrong kind"},
	718: {"CUDA_ERROR_INVALID_PC", "an invalid program counter"},
	719: {"CUDA_ERROR_LAUNCH_FAILED", "a kernel failed"},
	801: {"CUDA_ERROR_NOT_SUPPORTED", "not supported here"},
	802: {"CUDA_ERROR_SYSTEM_NOT_READY", "the system is not ready (is the fabric manager running?)"},
	803: {"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "the kernel module and libcuda are of different versions"},
	804: {"CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "this libcuda does not support the card"},
	806: {"CUDA_ERROR_MPS_RPC_FAILURE", "the MPS server does not answer"},
	810: {"CUDA_ERROR_MPS_CLIENT_TERMINATED", "the MPS server has ended this process' part, as a fault of any of its processes makes it do"},
	900: {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "not possible while calls are recorded"},
	901: {"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "an earlier error has ended the recording"},
	905: {"CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "something recorded depends on what is not"},
	906: {"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "something waits for all streams while calls are recorded"},
	908: {"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD", "another thread has begun the recording"},
	910: {"CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE", "a recording cannot be changed in this way"},
	999: {"CUDA_ERROR_UNKNOWN", "unknown error"},
}

func (r Result) String() string {
	if n, ok := results[r]; ok {
		return n[0]
	}
	return fmt.Sprintf("CUDA error %d", int32(r))
}

// sticky reports whether the context is broken for good after r: nothing but a
// new process helps.
func (r Result) sticky() bool {
	switch r {
	case 214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 806, 810, 999:
		return true
	}
	return false
}

// Error is a driver call that failed.
type Error struct {
	Call   string // "cuMemAlloc"
	Result Result
	Text   string // the driver's own words, where it was asked
}

func (e *Error) Error() string {
	text := e.Text
	if text == "" {
		text = results[e.Result][1]
	}
	if text == "" {
		return fmt.Sprintf("%s: %s", e.Call, e.Result)
	}
	return fmt.Sprintf("%s: %s (%s)", e.Call, e.Result, text)
}

// Is makes errors.Is(err, op.ErrOutOfMemory) work, whatever call found no memory.
func (e *Error) Is(target error) bool {
	return target == op.ErrOutOfMemory && e.Result == resultOutOfMemory
}
