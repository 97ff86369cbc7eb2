package vec

import "unsafe"

// A Word is an element as far as moving it is concerned.
type Word interface {
	uint8 | uint16 | uint32 | uint64
}

// Transpose stores src[at+r+c*from] at dst[r*pitch+c] for r < rows and
// c < columns.
func Transpose[W Word](dst []W, pitch int, src []W, at, from, rows, columns int) {
	if rows <= 0 || columns <= 0 {
		return
	}
	// Both ends of both sides, or a panic, before assembly trusts them.
	_ = dst[(rows-1)*pitch+columns-1]
	_, _ = src[at], src[at+rows-1]
	_, _ = src[at+(columns-1)*from], src[at+(columns-1)*from+rows-1]
	r, c := 0, 0 // what is done
	if level != Generic {
		side := blockOf[W]()
		strip := streamRun / int(unsafe.Sizeof(dst[0]))
		if m, n := rows&^(side.rows-1), columns&^(side.columns-1); m > 0 && n > 0 {
			// In strips of few rows, so that a line of the result is whole
			// before it leaves the cache.
			for c = n; r < m; {
				k := min(strip, m-r)
				transposeBlocks(&dst[r*pitch], pitch, &src[at+r], from, k, c)
				r += k
			}
		}
	}
	transposeGo(dst[c:], pitch, src, at+c*from, from, r, columns-c)
	if r < rows {
		transposeGo(dst[r*pitch:], pitch, src, at+r, from, rows-r, columns)
	}
}

// block is what the assembly transposes at a time.
type block struct{ rows, columns int }

func blockOf[W Word]() block {
	var z W
	size := unsafe.Sizeof(z)
	if level == NEON { // 16 bytes of each column
		return block{int(16 / size), []int{8, 4}[size/8]}
	}
	switch size {
	case 1, 2:
		return block{16, 8}
	case 4:
		return block{8, 8}
	}
	return block{4, 4}
}

func transposeBlocks[W Word](dst *W, pitch int, src *W, from, rows, columns int) {
	switch d := any(dst).(type) {
	case *uint8:
		s := any(src).(*uint8)
		switch level {
		case AVX512:
			transpose1AVX512(d, pitch, s, from, rows, columns)
		case AVX2:
			transpose1AVX2(d, pitch, s, from, rows, columns)
		case NEON:
			transpose1NEON(d, pitch, s, from, rows, columns)
		}
	case *uint16:
		s := any(src).(*uint16)
		switch level {
		case AVX512:
			transpose2AVX512(d, pitch, s, from, rows, columns)
		case AVX2:
			transpose2AVX2(d, pitch, s, from, rows, columns)
		case NEON:
			transpose2NEON(d, pitch, s, from, rows, columns)
		}
	case *uint32:
		s := any(src).(*uint32)
		switch level {
		case AVX512:
			transpose4AVX512(d, pitch, s, from, rows, columns)
		case AVX2:
			transpose4AVX2(d, pitch, s, from, rows, columns)
		case NEON:
			transpose4NEON(d, pitch, s, from, rows, columns)
		}
	case *uint64:
		s := any(src).(*uint64)
		switch level {
		case AVX512:
			transpose8AVX512(d, pitch, s, from, rows, columns)
		case AVX2:
			transpose8AVX2(d, pitch, s, from, rows, columns)
		case NEON:
			transpose8NEON(d, pitch, s, from, rows, columns)
		}
	}
}

// tileSide is the side of plain Go's tiles: of float32, a row of a tile is a
// cache line, and so is a column.
const tileSide = 16

// transposeGo is Transpose in tiles. One is read into a buffer by whole cache lines
// of the source and written from there by whole ones of the result: where strides are
// powers of two, lines of either side compete for the same places in the cache and
// are soon evicted.
func transposeGo[W Word](dst []W, pitch int, src []W, at, from, rows, columns int) {
	var buf [tileSide * tileSide]W
	for r0 := 0; r0 < rows; r0 += tileSide {
		height := min(tileSide, rows-r0)
		for c0 := 0; c0 < columns; c0 += tileSide {
			width := min(tileSide, columns-c0)
			f := at + r0 + c0*from
			if height < tileSide || width < tileSide { // at the edges
				for c := range width {
					copy(buf[c*tileSide:][:height], src[f+c*from:])
				}
				for r := range height {
					to := dst[(r0+r)*pitch+c0:][:width]
					for c := range to {
						to[c] = buf[c*tileSide+r]
					}
				}
				continue
			}
			for c := range tileSide {
				*(*[tileSide]W)(buf[c*tileSide:]) = *(*[tileSide]W)(src[f : f+tileSide])
				f += from
			}
			for r := range tileSide {
				to := (*[tileSide]W)(dst[(r0+r)*pitch+c0:])
				to[0], to[1], to[2], to[3] = buf[r], buf[tileSide+r], buf[2*tileSide+r], buf[3*tileSide+r]
				to[4], to[5], to[6], to[7] = buf[4*tileSide+r], buf[5*tileSide+r], buf[6*tileSide+r], buf[7*tileSide+r]
				to[8], to[9], to[10], to[11] = buf[8*tileSide+r], buf[9*tileSide+r], buf[10*tileSide+r], buf[11*tileSide+r]
				to[12], to[13], to[14], to[15] = buf[12*tileSide+r], buf[13*tileSide+r], buf[14*tileSide+r], buf[15*tileSide+r]
			}
		}
	}
}

// StreamTile is the tile of TransposeStream in rows and columns, 0 if there is
// no code for it: a cache line of the source high and a run of two of the
// result wide.
func StreamTile[W Word]() (rows, columns int) {
	if !streams() {
		return 0, 0
	}
	var z W
	size := int(unsafe.Sizeof(z))
	return streamLine / size, streamRun / size
}

const streamLine, streamRun = 64, 128

// TransposeStream is Transpose for results that do not fit the caches (see
// StreamBytes), of one column of tiles of StreamTile. dst and its rows begin at
// a cache line.
func TransposeStream[W Word](dst []W, pitch int, src []W, at, from, tiles int) {
	rows, columns := StreamTile[W]()
	_ = dst[(tiles*rows-1)*pitch+columns-1]
	_, _ = src[at], src[at+tiles*rows-1]
	_, _ = src[at+(columns-1)*from], src[at+(columns-1)*from+tiles*rows-1]
	var buf [streamLine * streamRun]byte // the most that a tile of any width has
	wide := level == AVX512
	switch d := any(&dst[0]).(type) {
	case *uint8:
		if s := any(&src[at]).(*uint8); wide {
			transposeStream1AVX512(d, pitch, s, from, &buf[0], tiles)
		} else {
			transposeStream1AVX2(d, pitch, s, from, &buf[0], tiles)
		}
	case *uint16:
		if s := any(&src[at]).(*uint16); wide {
			transposeStream2AVX512(d, pitch, s, from, &buf[0], tiles)
		} else {
			transposeStream2AVX2(d, pitch, s, from, &buf[0], tiles)
		}
	case *uint32:
		if s := any(&src[at]).(*uint32); wide {
			transposeStream4AVX512(d, pitch, s, from, &buf[0], tiles)
		} else {
			transposeStream4AVX2(d, pitch, s, from, &buf[0], tiles)
		}
	case *uint64:
		if s := any(&src[at]).(*uint64); wide {
			transposeStream8AVX512(d, pitch, s, from, &buf[0], tiles)
		} else {
			transposeStream8AVX2(d, pitch, s, from, &buf[0], tiles)
		}
	}
}
