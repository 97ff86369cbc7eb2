package vec

import "unsafe"

// StreamBytes is the size of a whole result from which the Stream versions of
// functions pay: more than the last-level cache keeps. They write dst past the
// caches, which saves reading it first and leaves the caches to others, but
// makes the next reader fetch it from memory. The decision belongs to the
// caller, who alone knows the size of the whole result when this package sees
// a part of it. dst must not be an operand's slice, or nothing is gained. NEON has
// no such versions: arm64's CPUs notice by themselves that whole lines are written.
const StreamBytes = 32 << 20

// lines finds the whole cache lines of dst: how many elements come before the
// first, and how many the lines hold; 0 if there is no code for them.
func lines(dst []float32) (head, n int) {
	if !streams() || len(dst) < 64 {
		return 0, 0
	}
	head = int(-uintptr(unsafe.Pointer(&dst[0]))&63) / 4
	return head, (len(dst) - head) &^ 15
}

// streams reports whether there is code that writes past the caches.
func streams() bool { return level == AVX2 || level == AVX512 }
