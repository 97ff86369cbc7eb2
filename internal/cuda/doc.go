// Package cuda runs Locus on NVIDIA GPUs through the driver alone: libcuda.so.1
// is loaded when it is there, never linked, so a program built without cgo on a
// machine without CUDA uses the GPU of the machine it lands on. Kernels are
// embedded as PTX (see kernels/), and NVIDIA's libraries are used where they are found:
//
//	library  serves                  switch off or choose a file
//	cuBLAS   matrix products         LOCUS_CUBLAS=off or a path
//	cuDNN    convolutions            LOCUS_CUDNN=off or a path
//	NVML     load, heat and power    LOCUS_NVML=off or a path
//	libcuda  everything              LOCUS_CUDA=off or a path
//
// Without them the package's own kernels do the work. The build tag nocuda
// leaves everything out, for a fully static binary.
//
// The layers, lowest first: call_*.go (how a C function is called), driver.go
// (the functions), result.go (their results as Go errors), device.go and the files beside
// it (objects), and one file per family of ops.
package cuda
