//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"errors"
	"runtime"

	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
)

// Ops work in rooms: memory that the pool of their result lends them while they are
// queued. Because the device has one stream, the next op may have it at once.
//
// An op is queued as a whole, with the device held. The pool cannot make room
// meanwhile: it waits for the device, and finalizers use it. So an op that finds no
// room in the cache gives up with errShort; with makes room with the device let go,
// and the op is queued from its start. Ops read their operands and write their
// results, so what they had queued already does no harm.

// The rooms of an op.
const (
	workRoom  = iota // between one launch and the next
	copyRoom         // of copies of operands that a kernel cannot read where they lie
	stateRoom        // of an op that is made of others, which use the first two
	numRooms
)

// room is working memory of the op that is being queued. Guarded by the device's mu.
type room struct {
	memory.Region
	asked   bool  // for, by this op
	limit   int   // from this size on the pool has refused it; 0: it has not
	refusal error // why: a *memory.Exhausted
}

// shortage is what an op gave up for.
type shortage struct{ room, size int }

// workspace is the memory of the op that is being queued. Guarded by the device's mu.
type workspace struct {
	pool    *memory.Pool // where it comes from
	rooms   [numRooms]room
	short   shortage // what the op gave up for
	pressed bool     // everything was tried to make room for the driver: libraries do without
	counts  uintptr  // the counters of kernels/reduce.cu, all 0 between launches; they stay
	capture *capture // whose rooms ops get while calls are recorded
}

// errShort is what an op returns that must be queued again when there is room. It is passed
// on as it is: an op does with less memory only when everything was tried, which refused
// reports.
var errShort = errors.New("no working memory is cached")

// refused reports whether err means that there is no more memory, whatever is tried:
// then the op does with less. Between begin and end.
func (d *Device) refused(err error) bool {
	return err != nil && (isRefusal(err) || d.work.pressed && isExhausted(err))
}

func isRefusal(err error) bool {
	var e *memory.Exhausted
	return errors.As(err, &e)
}

// isExhausted reports whether memory, of the pool's or of the driver's own, ran out.
func isExhausted(err error) bool {
	return errors.Is(err, memory.ErrExhausted) || errors.Is(err, op.ErrOutOfMemory)
}

// workspace returns at least size bytes between begin and end. They are valid until
// the next call of workspace, and at most until the op is queued.
func (d *Device) workspace(size int) (uintptr, error) { return d.work.room(d.last, workRoom, size) }

// copyspace is another workspace, for copies of operands that a kernel cannot
// read where they lie.
func (d *Device) copyspace(size int) (uintptr, error) { return d.work.room(d.last, copyRoom, size) }

// statespace is a workspace of ops that are made of others: it stays while those use
// workspace and copyspace.
func (d *Device) statespace(size int) (uintptr, error) { return d.work.room(d.last, stateRoom, size) }

// room returns memory for the op id, or errShort.
func (w *workspace) room(id op.ID, which, size int) (uintptr, error) {
	if w.capture != nil {
		return w.capture.room(which, size)
	}
	r := &w.rooms[which]
	if size <= r.Size {
		return r.Addr, nil
	}
	if r.limit > 0 && size >= r.limit {
		return 0, r.refusal
	}
	r.asked = true
	if r.Size > 0 { // what is queued is done with it before anything else has it
		w.pool.Return(r.Region)
		r.Region = memory.Region{}
	}
	region, ok := w.pool.LendCached(size, workspaceOf[id])
	if !ok {
		w.short = shortage{which, size}
		return 0, errShort
	}
	r.Region = region
	return r.Addr, nil
}

// workspaceOf is what a report of memory says of an op's workspace.
var workspaceOf = func() (l [op.NumOps]memory.Label) {
	for i := range l {
		l[i] = memory.Label{DType: "workspace", Shape: "of " + op.ID(i).String()}
	}
	return l
}()

// with queues an op that f describes, with working memory from pool. f runs between
// begin and end, and again from the start where memory was short.
func (d *Device) with(pool *memory.Pool, id op.ID, f func() error) error {
	if err := d.begin(); err != nil {
		return err
	}
	d.work.pool, d.last, d.among = pool, id, 0
	err := f()
	if err != nil && (errors.Is(err, errShort) || isExhausted(err)) {
		err = d.insist(id, f, err)
	}
	if w := &d.work; w.rooms[workRoom].asked || w.rooms[copyRoom].asked || w.rooms[stateRoom].asked {
		w.leave()
	}
	d.end()
	return err
}

// leave returns the rooms behind what is queued.
func (w *workspace) leave() {
	for _, r := range w.rooms {
		if r.Size > 0 {
			w.pool.Return(r.Region)
		}
	}
	w.rooms = [numRooms]room{}
}

// insist makes room and queues an op again until it has what it needs, does with less,
// or fails with a *memory.Exhausted.
func (d *Device) insist(id op.ID, f func() error, err error) error {
	pool := d.work.pool
	for attempt := 0; errors.Is(err, errShort) || isExhausted(err) && !isRefusal(err); {
		cause, short, pressed := err, d.work.short, d.work.pressed
		isShort := errors.Is(err, errShort)
		var region memory.Region
		err = nil
		lost := d.letGo(func() {
			switch {
			case isShort:
				region, err = pool.Lend(short.size, workspaceOf[id])
			case pressed:
				err = pool.Exhausted(0, workspaceOf[id], cause)
			default: // the driver, or a library, has found no room for itself
				pressed = !pool.Relieve(attempt)
				attempt++
			}
		})
		d.work.pressed = pressed
		if isShort {
			r := &d.work.rooms[short.room]
			if r.Region = region; isRefusal(err) {
				r.limit, r.refusal, err = short.size, err, nil // it may do with less
			}
		}
		if lost != nil {
			err = lost
		}
		if err == nil {
			err = f()
		}
	}
	d.work.pressed = false
	return err
}

// letGo runs f, which may use and wait for the device, in the midst of an op.
func (d *Device) letGo(f func()) error {
	rooms, pool, last := d.work.rooms, d.work.pool, d.last
	d.work.rooms, d.work.pressed = [numRooms]room{}, false // they are this op's
	d.end()
	f()
	d.mu.Lock()
	d.work.rooms, d.work.pool, d.last = rooms, pool, last
	err := d.enter()
	if err != nil {
		runtime.LockOSThread() // which end undoes
	}
	return err
}
