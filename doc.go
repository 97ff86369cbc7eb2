// Package locus is a deep-learning framework in which every tensor has a place.
//
// A [Device] is a small comparable value that names the CPU or a GPU, and it is
// also where tensors are made:
//
//	gpu := locus.TryGPU()      // gpu:0 if the machine has one, else the CPU
//	x := gpu.Ones(2, 3)
//	y := x.Mul(2).Add(1)       // lives where x lives
//	fmt.Println(y.To(locus.CPU()))
//
// Nothing moves unless the program says so: operands on two devices are an
// error that names both and the call that fixes it; [Tensor.To] and
// [Tensor.CopyTo] are the only ways to move, and the [Ledger] counts them.
//
// # Ops
//
// Methods of a tensor compute from it: x.Add(y), x.Sum(0), x.MatMul(y). A binary op takes a
// tensor or a Go number, which takes the tensor's element type as an untyped constant does
// in Go: a fraction does not fit an integer tensor. Two element types do not mix:
// [Tensor.Cast] converts. Shapes broadcast as in NumPy and PyTorch. Reductions take the axes
// to reduce, all if none is named, and remove them; the forms that end in Keep leave them
// with size 1, so that the result broadcasts against the operand. Negative axes count from
// the end.
//
// # Errors
//
// Inside tensor expressions a misuse (shape, dtype, device, freed tensor, out of
// memory) panics with an *[Error], because expressions must compose; [Try] turns
// it into an error. Everything at a boundary (opening, loading, fitting) returns
// an error.
//
// # Memory
//
// A tensor's memory is freed when the collector finds it unreachable, or
// at once when its [Scope] closes. Memory on a device has a limit that Go's
// collector does not see; a loop that computes in a scope holds a flat amount.
//
// # Concurrency
//
// Tensors are immutable: any goroutine may use any tensor. Ops on a GPU are
// queued in the order of the calls and return at once; reading a value waits.
//
// # Where to find what
//
// docs/ops.md lists every op. The files of this package are named for what they
// hold:
//
//   - places: device.go, places.go (what devices there are), default.go, gpus.go,
//     splitgpu.go, move.go, fetch.go, pin.go, ledger.go (transfers and the guard),
//     telemetry.go, profile.go, timeline.go
//   - tensors: tensor.go, create.go, key.go (random numbers), host.go (Go slices in
//     and out), print.go, errors.go, gate.go and arguments.go (checks of arguments)
//   - memory: memory.go (counters and reports), scope.go
//   - how an op runs: apply.go; layout.go (channels last); compose.go for ops without a
//     kernel; compile.go, tracing.go, plan.go and replay.go for functions that became
//     programs
//   - shapes: views.go, slice.go, split.go, concat.go, pad.go, arrange.go
//   - elementwise: elementwise.go, unary.go, activation.go, dropout.go, sampler.go
//   - reductions and order: reduce.go, quantile.go, scan.go, sort.go, index.go, nonzero.go
//   - matrices: matmul.go, linear.go, matrix.go, linalg.go, fft.go, einsum.go, allow.go
//     (TF32), blas.go
//   - networks: conv.go, pool.go, image.go, norm.go, attention.go, recurrent.go,
//     embedding.go, gridsample.go, loss.go, loss_class.go, ctc.go; conv3d.go and pool3d.go
//     for volumes
//   - optimizers: optimize.go, update.go (a step of all parameters), lists.go, clip.go
//   - gradients: autograd.go, engine*.go and joined.go (the backward pass), nograd.go,
//     functional.go, vmap.go; rules in grad_*.go
package locus
