package ptx

import (
	"strings"
)

// Addresses, loads and stores.

// at returns the address of element number i.
func (r *renderer) at(base, i string, size int) string {
	a := r.long()
	r.put("mad.lo.u64 %s, %s, %d, %s;", a, i, size, base)
	return a
}

// find returns the place of element first+plus of the result in an operand with strides.
func (r *renderer) find(first string, plus int, strides []int) string {
	left := r.word()
	r.put("cvt.u32.u64 %s, %s;", left, first)
	if plus > 0 {
		r.put("add.u32 %s, %s, %d;", left, left, plus)
	}
	place := r.long()
	r.put("mov.u64 %s, 0;", place)
	shape, strides := merged(r.k.Shape, strides)
	for d := len(shape) - 1; d >= 0; d-- {
		index := left
		if d > 0 {
			quotient := r.word()
			index = r.word()
			r.put("div.u32 %s, %s, %d;", quotient, left, shape[d])
			r.put("mul.lo.u32 %s, %s, %d;", index, quotient, shape[d])
			r.put("sub.u32 %s, %s, %s;", index, left, index)
			left = quotient
		}
		if strides[d] != 0 {
			long := r.long()
			r.put("cvt.u64.u32 %s, %s;", long, index)
			r.put("mad.lo.s64 %s, %s, %d, %s;", place, long, strides[d], place)
		}
	}
	return place
}

// merged drops axes of size 1 and merges neighbors that lie as one.
func merged(shape, strides []int) (s, t []int) {
	for i, n := range shape {
		if n == 1 {
			continue
		}
		if last := len(s) - 1; last >= 0 && t[last] == n*strides[i] {
			s[last] *= n
			t[last] = strides[i]
			continue
		}
		s, t = append(s, n), append(t, strides[i])
	}
	if len(s) == 0 {
		return []int{1}, []int{0}
	}
	return s, t
}

// memory is the type of an element in memory.
func memory(size int) string { return [...]string{1: "u8", 2: "u16", 4: "b32", 8: "b64"}[size] }

func (r *renderer) loadEach(at string, size int, values []string) {
	for j := range values {
		values[j] = r.register(size)
		r.put("ld.global.%s %s, [%s+%d];", memory(size), values[j], at, j*size)
	}
}

// loadWide loads all values by as few instructions as possible, of 16 bytes each where
// there are as many.
func (r *renderer) loadWide(at string, size int, values []string) {
	if len(values) == 1 {
		r.loadEach(at, size, values)
		return
	}
	if size < 4 && len(values)*size >= 4 { // whole words, which are then divided
		words := make([]string, len(values)*size/4)
		r.loadWide(at, 4, words)
		per := 4 / size
		for j := range values {
			values[j] = r.word()
			if j%per == 0 && per > 1 {
				r.put("and.b32 %s, %s, %d;", values[j], words[j/per], 1<<(8*size)-1)
				continue
			}
			r.put("bfe.u32 %s, %s, %d, %d;", values[j], words[j/per], j%per*8*size, 8*size)
		}
		return
	}
	per := min(len(values), 4, 16/size)
	for j := range values {
		values[j] = r.register(size)
	}
	for j := 0; j < len(values); j += per {
		if per == 1 {
			r.put("ld.global.%s %s, [%s+%d];", memory(size), values[j], at, j*size)
			continue
		}
		r.put("ld.global.v%d.%s {%s}, [%s+%d];", per, memory(size), strings.Join(values[j:j+per], ", "), at, j*size)
	}
}

// storeWide is the opposite of loadWide.
func (r *renderer) storeWide(at string, size int, values []string) {
	if size < 4 && len(values)*size >= 4 {
		per := 4 / size
		words := make([]string, len(values)/per)
		for w := range words {
			words[w] = values[w*per]
			for j := 1; j < per; j++ {
				next := r.word()
				r.put("shl.b32 %s, %s, %d;", next, values[w*per+j], j*8*size)
				r.put("or.b32 %s, %s, %s;", next, next, words[w])
				words[w] = next
			}
		}
		values, size = words, 4
	}
	per := min(len(values), 4, 16/size)
	for j := 0; j < len(values); j += per {
		if per == 1 {
			r.put("st.global.%s [%s+%d], %s;", memory(size), at, j*size, values[j])
			continue
		}
		r.put("st.global.v%d.%s [%s+%d], {%s};", per, memory(size), at, j*size, strings.Join(values[j:j+per], ", "))
	}
}
