package lend

import (
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/program"
)

// What collectives that are part of a compiled function need.
var (
	// Begin records that the function that the calling goroutine traces starts work, which
	// reads the *locus.Tensor x if reads is true; else x only says where. It returns what
	// the work will make, of the given type and shape.
	Begin func(name string, w program.Work, x any, reads bool, d dtype.DType, shape []int) (made any)

	// Await records that the function waits for the work, and returns its result as a
	// *locus.Tensor that other ops may use.
	Await func(name string, w program.Work, x any, reads bool, made any) any

	// View returns a *locus.Tensor on a device, in memory that belongs to somebody else.
	View func(on backend.Device, v *backend.View) any

	// CopyInto copies the elements of a contiguous *locus.Tensor to another one of the same
	// type, shape and device.
	CopyInto func(name string, to, from any)
)
