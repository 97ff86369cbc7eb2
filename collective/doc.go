// Package collective lets several ranks compute together: processes on one machine or on many, or
// the devices of one program. Each rank has a number. Collectives reduce, copy or exchange the
// tensors of all ranks, on the devices where they live.
//
//	g, err := collective.Join(ctx) // the ranks that locus launch, mpirun, srun or torchrun started
//	if err != nil {
//		log.Fatal(err)
//	}
//	defer g.Close()
//	sum, err := g.AllReduce(ctx, grad, collective.Sum).Wait()
//
// Every rank calls the same collectives with tensors of the same shape and type in the same
// order. Calls return at once; [Pending.Wait] returns the result, which has memory of its
// own on the device of the rank's operand, no history, and belongs to no scope. The operand
// must not be freed before.
//
// Ranks compare what they are about to do: where they differ, each gets an error that shows
// the difference. When a rank dies, hangs or fails, the others get an error that names it,
// and the group is over: every later call returns the same error.
//
// Results are the same bits on all ranks and do not depend on timing. The bits may depend on
// the number of ranks and on the engine, as any order of summation does.
package collective
