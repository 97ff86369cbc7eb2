// Package engine is the contract of what moves and reduces main memory among the ranks of
// a group: package ring does it over TCP, package mpi by way of an MPI library.
package engine

import (
	"context"
	"errors"

	"github.com/locusml/locus/dtype"
)

// Op is how the elements of several ranks become one.
type Op uint8

// The ops, in the order of package collective's.
const (
	Sum Op = iota
	Mean
	Max
	Min
	Product
)

// Call is one collective. Memory is contiguous and belongs to the engine until the method
// returns. In and Out do not overlap.
type Call struct {
	Seq   uint64 // the number of the collective in its group
	Kind  uint64 // a number that stands for what it is: collective, op, shape and type
	DType dtype.DType
	Op    Op
	Root  int    // of Broadcast and Reduce
	In    []byte // nil where the rank contributes nothing
	Out   []byte // nil where the rank receives nothing
	// Parts are the borders of the ranks' parts in elements, one more than there are ranks:
	// rank i has those from Parts[i] up to Parts[i+1].
	Parts []int
}

// Host is an engine for main memory. Collectives are called one after the other, in the
// same order on all ranks, which have compared what they are about to do. Results are the
// same bits on all ranks, whatever the timing. After an error, or when a context ends in
// the middle of a call, nothing more is called but Close.
type Host interface {
	Name() string // "ring"
	// AllReduce reduces In of all ranks to Out.
	AllReduce(ctx context.Context, c *Call) error
	// Reduce reduces In of all ranks to Out of the root.
	Reduce(ctx context.Context, c *Call) error
	// Broadcast copies the root's In to the others' Out.
	Broadcast(ctx context.Context, c *Call) error
	// AllGather copies In of all ranks, each its part, to Out.
	AllGather(ctx context.Context, c *Call) error
	// ReduceScatter reduces In of all ranks; Out gets the rank's part.
	ReduceScatter(ctx context.Context, c *Call) error
	// Send and Recv copy from one rank to another, in order between any two ranks, beside
	// collectives and each other. What describes the tensor: where the two sides differ, Recv
	// fails with an error that shows both.
	Send(ctx context.Context, to int, data []byte, what string) error
	Recv(ctx context.Context, from int, data []byte, what string) error
	// Close ends the rank's part. broken says that the group has ended with a fault: then
	// nothing waits for other ranks.
	Close(broken bool)
}

// Even returns the borders of size parts of n elements that differ by one at most, the
// larger ones first.
func Even(n, size int) []int {
	parts := make([]int, size+1)
	for i := range size {
		parts[i+1] = parts[i] + n/size
		if i < n%size {
			parts[i+1]++
		}
	}
	return parts
}

// Mismatch is the error of a message that is not what the receiver expects.
type Mismatch struct{ Msg string }

func (e *Mismatch) Error() string { return e.Msg }

// ErrAbandoned is the error of a call that was left behind when its context ended: its memory
// is still in use and must stay for as long as the process.
var ErrAbandoned = errors.New("a call that cannot be broken off was left behind")
