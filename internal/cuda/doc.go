// Package cuda runs Locus on NVIDIA GPUs through the driver alone: libcuda.so.1
// is loaded when it is there, never linked, so a program built without cgo on a
// machine without CUDA uses the GPU of the machine it lands on. Kernels are
// embedded as PTX (see kernels/), and NVIDIA's libraries are used where they are found:
//
//	library   serves                         switch off or choose a file
//	cuBLAS    matrix products                LOCUS_CUBLAS=off or a path; off is cuBLASLt too
//	cuBLASLt  single ones, with bias too     LOCUS_CUBLASLT=off or a path
//	cuDNN     convolutions, long attention   LOCUS_CUDNN=off or a path
//	cuSOLVER  factors of large matrices      LOCUS_CUSOLVER=off or a path
//	cuFFT     Fourier transforms             LOCUS_CUFFT=off or a path
//	NVML      load, heat and power           LOCUS_NVML=off or a path
//	libcuda   everything                     LOCUS_CUDA=off or a path
//
// Without them the package's own kernels do the work; Fourier transforms and linear
// algebra are computed in main memory by the CPU's. The build tag nocuda
// leaves everything out, for a fully static binary. LOCUS_CUDA_BLOCKING=1 waits
// after each op, so that a fault in a kernel is reported by the op that caused it; then
// nothing is recorded.
//
// Kernels are compiled to PTX by go generate ./internal/cuda; see kernels/gen for
// what that needs. They run on cards from compute capability 7.0 and drivers from CUDA 11.0
// on; the tensor cores' bfloat16 and TF32, and with them fast attention of float32, need 8.0, and wgmma 9.0 and CUDA 12.
//
// Results repeat exactly from run to run on one kind of card. For large convolutions
// cuDNN's algorithms are timed, once: what was chosen is stored in the cache folder
// (LOCUS_CACHE; see package choices). LOCUS_CUDNN_TIMING=off takes cuDNN's advice instead,
// where the cache cannot be relied on. SetVarying allows algorithms whose bits do not
// repeat.
//
// The layers, lowest first: call_*.go (how a C function is called), library.go and
// driver.go (NVIDIA's libraries, the driver's functions), result.go (their results as Go
// errors), device.go, and one file per family of ops. A Device consists of parts:
// caller.go (calls), queue.go (the stream), workspace.go, libraries.go, module.go
// (kernels), memory.go, event.go, stage.go, copyin.go, copyout.go and flight.go (copies),
// graph.go and capture.go (many calls recorded as one), launches.go (counters).
package cuda
