// Package ring moves and reduces main memory among ranks, each rank sending to the next and
// receiving from the one before: over TCP, and through shared memory where all ranks are on
// one machine that has it. It needs nothing but a network.
//
// All-reduce is a reduce-scatter and an all-gather: each rank sends about twice the memory,
// whatever the number of ranks, which is the least possible. Two ranks send each other all
// they have where that is little: as many bytes, and half the waits. Memory travels in segments;
// one that has arrived is reduced and passed on while the next is on its way. Each element
// is summed in the order of the ring, beginning behind the rank that its part belongs to,
// and its sum is copied to all; two ranks that both add do so in the order of ranks. So
// results are the same bits on every rank and in every run.
package ring
