package cpu

import (
	"unsafe"

	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/cpu/vec"
)

// The gradient of a row takes two readings of it: one for the sums of h = g·weight
// and of h·x̂, and one for the result, rstd·(h - mean(h) - x̂·mean(h·x̂)).

func (j *norm[S, T]) backward() {
	if j.vector && (j.gradWeight != nil || j.gradBias != nil) {
		j.backwardColumns()
		return
	}
	// The sums of every piece, which the parameters' gradients are sums of.
	s, sums := scratchOf[float64](2 * j.rows * j.pieces)
	j.forRows(func(r int, b *[4][]T) { j.backwardRow(r, sums[2*r*j.pieces:][:2*j.pieces], b, nil) })
	if j.gradWeight != nil || j.gradBias != nil {
		j.parameters(sums)
	}
	s.free()
}

// backwardRow makes x's gradient of a row; b is nil for a long one. sums has room for
// two numbers per piece: the sums of g and of g·x̂. Where every element has its own
// parameters, also takes the terms of their gradients, unless it is nil.
func (j *norm[S, T]) backwardRow(r int, sums []float64, b *[4][]T, also *normTerms[T]) {
	if b != nil {
		j.gradSums(r, 0, j.pieces, sums, b)
	} else {
		j.gradSumsLong(r, sums)
	}
	var meanH, meanHX float64
	for i := range j.pieces {
		w := 1.0
		if j.weight != nil && !j.vector {
			_, _, p := j.at(r, i)
			w = float64(j.weight[p])
		}
		meanH += w * sums[2*i]
		meanHX += w * sums[2*i+1]
	}
	meanH, meanHX = meanH/float64(j.n), meanHX/float64(j.n)
	if j.RMS {
		meanH = 0
	}
	if b != nil {
		j.gradApply(r, 0, j.pieces, meanH, meanHX, b, also)
		return
	}
	j.gradApplyLong(r, meanH, meanHX, also)
}

func (j *norm[S, T]) gradSumsLong(r int, sums []float64) {
	j.inPieces(func(lo, hi int, b *[4][]T) float64 { j.gradSums(r, lo, hi, sums, b); return 0 })
}

func (j *norm[S, T]) gradApplyLong(r int, meanH, meanHX float64, also *normTerms[T]) {
	j.inPieces(func(lo, hi int, b *[4][]T) float64 { j.gradApply(r, lo, hi, meanH, meanHX, b, also); return 0 })
}

// normTerms takes g·x̂ and g of the elements of a row, which begins at base: gx and,
// where g does not lie as it is computed with, g; or of a long row acc, to which
// both are added in turn.
type normTerms[T float] struct {
	base  int
	gx, g []T
	acc   []float64
}

// moment returns the mean, zero if there is none, and 1/√(variance + eps) of a row.
func (j *norm[S, T]) moment(r int) (mean, rstd T) {
	if j.mean != nil {
		mean = j.mean[r]
	}
	return mean, j.rstd[r]
}

// gradSums fills in the sums of pieces: of g and g·x̂, or, where every element has
// its own parameters, of h and h·x̂.
func (j *norm[S, T]) gradSums(r, lo, hi int, sums []float64, b *[4][]T) {
	mean, rstd := j.moment(r)
	for i := lo; i < hi; i++ {
		off, n, p := j.at(r, i)
		x, g := j.get(b[0], j.x, off, n), j.get(b[1], j.g, off, n)
		if j.vector && j.weight != nil {
			times(b[3][:n], g, j.weight[p:p+n])
			g = b[3][:n]
		}
		sums[2*i] = sumOf(g)
		sums[2*i+1] = centeredDot(g, x, mean, sums[2*i], b[2]) * float64(rstd)
	}
}

// centeredDot returns the sum of g·(x - mean); sum is the sum of g. Products of
// float32 are exact in float64, where the two sums may cancel: there are digits to
// spare.
func centeredDot[T float](g, x []T, mean T, sum float64, buf []T) float64 {
	if _, ok := any(mean).(float32); ok {
		if s := dot64(g, x) - float64(mean)*sum; s-s == 0 {
			return s
		}
	}
	shift(buf[:len(x)], x, mean)
	return dot64(g, buf[:len(x)])
}

// gradApply makes x's gradient of pieces.
func (j *norm[S, T]) gradApply(r, lo, hi int, meanH, meanHX float64, b *[4][]T, also *normTerms[T]) {
	mean, rstd := j.moment(r)
	scale := float64(rstd)
	minus, slope := T(-meanH*scale), T(-meanHX*scale*scale)
	for i := lo; i < hi; i++ {
		off, n, p := j.at(r, i)
		x, g, dst, buf := j.get(b[0], j.x, off, n), j.get(b[1], j.g, off, n), j.to(b[2], off, n), b[3][:n]
		final := dst
		if j.stream || j.added != nil {
			dst = b[2][:n]
		}
		switch {
		case j.weight == nil:
			affine(dst, g, T(scale), minus)
		case j.vector:
			times(dst, g, j.weight[p:p+n])
			affine(dst, dst, T(scale), minus)
		default:
			affine(dst, g, T(scale)*j.weight[p], minus)
		}
		subMul(buf, x, mean, slope)
		switch {
		case j.stream:
			vec.AddStreamF32(any(final).([]float32), any(dst).([]float32), any(buf).([]float32))
		case j.added != nil:
			addTo(dst, buf)
			j.finish(final, dst, buf, off)
		default:
			addTo(dst, buf)
			j.done(dst, off)
		}
		if also == nil {
			continue
		}
		at := off - also.base
		if also.acc == nil {
			buf = also.gx[at : at+n]
		}
		subMul(buf, x, mean, rstd)
		times(buf, buf, g)
		if also.g != nil {
			copy(also.g[at:at+n], g)
		}
		if also.acc != nil {
			acc := also.acc[2*at:][:2*n]
			for i, v := range g {
				acc[2*i] += float64(buf[i])
				acc[2*i+1] += float64(v)
			}
		}
	}
}

// parameters adds up the pieces' sums to the gradients of weight and bias.
func (j *norm[S, T]) parameters(sums []float64) {
	s, acc := scratchOf[float64](2 * j.params)
	clear(acc)
	for r := range j.rows {
		for i := range j.pieces {
			_, _, p := j.at(r, i)
			at := 2 * (r*j.pieces + i)
			acc[2*p] += sums[at+1]
			acc[2*p+1] += sums[at]
		}
	}
	j.putParams(func(p int) (w, b float64) { return acc[2*p], acc[2*p+1] })
	s.free()
}

// putParams stores the gradients of weight and bias, as far as they are wanted.
func (j *norm[S, T]) putParams(f func(p int) (w, b float64)) {
	s, wide := scratchOf[T](2 * j.params)
	for p := range j.params {
		w, b := f(p)
		wide[p], wide[j.params+p] = T(w), T(b)
	}
	for i, dst := range [][]S{j.gradWeight, j.gradBias} {
		if dst == nil {
			continue
		}
		if src := wide[i*j.params:][:j.params]; j.io.store != nil {
			j.io.store(dst, src)
		} else {
			copy(convert[T](dst), src)
		}
	}
	s.free()
}

// backwardColumns is backward where every element of a row has its own parameters,
// whose gradients are sums over rows: eight rows at a time, in float64. Groups
// of rows have accumulators of their own, which are added in order.
func (j *norm[S, T]) backwardColumns() {
	// A row may have a part of the parameters: then so many rows have all of them.
	if j.n >= longLine {
		j.backwardLong()
		return
	}
	turns := j.params / j.n // rows until the parameters repeat
	most := max(1, min(64, j.rows*j.n/grainCheap, j.rows/16))
	per := (j.rows-1)/most + 1
	per = (per-1)/(turns*vec.Rows)*turns*vec.Rows + turns*vec.Rows // full turns, eight rows of each
	groups := (j.rows-1)/per + 1
	room, acc := scratchOf[float64](groups * 2 * j.params)
	clear(acc)
	pool.For(groups, 1, func(lo, hi int) {
		s, b := normBuffers[T]()
		sr, sums := scratchOf[float64](2 * j.pieces)
		sp, rows := scratchOf[T]((2*vec.Rows + 1) * j.n) // of g·x̂, of g, and zeros
		zero := rows[2*vec.Rows*j.n:]
		clear(zero)
		var gx, g [vec.Rows]*T
		var also normTerms[T]
		for k := lo; k < hi; k++ {
			w, bias := acc[2*k*j.params:][:j.params], acc[(2*k+1)*j.params:][:j.params]
			end := min(j.rows, (k+1)*per)
			for turn := range turns {
				for r := k*per + turn; r < end; {
					count := 0
					for ; count < vec.Rows && r < end; r += turns {
						also.base, also.gx = r*j.rowStep, rows[count*j.n:][:j.n]
						gx[count] = unsafe.SliceData(also.gx)
						if j.io.load == nil {
							g[count] = unsafe.SliceData(convert[T](j.g[also.base:]))
						} else {
							also.g = rows[(vec.Rows+count)*j.n:][:j.n]
							g[count] = unsafe.SliceData(also.g)
						}
						j.backwardRow(r, sums, &b, &also)
						count++
					}
					for ; count < vec.Rows; count++ {
						gx[count], g[count] = &zero[0], &zero[0]
					}
					p := turn * j.n
					sumRows(w[p:p+j.n], &gx)
					sumRows(bias[p:p+j.n], &g)
				}
			}
		}
		release(s, sr, sp)
	})
	total := acc[:2*j.params]
	for k := 1; k < groups; k++ {
		addTo(total, acc[2*k*j.params:][:2*j.params])
	}
	j.putParams(func(p int) (w, b float64) { return total[p], total[j.params+p] })
	room.free()
}

// backwardLong is backwardColumns for long rows, one after the other: their pieces
// go to the threads.
func (j *norm[S, T]) backwardLong() {
	s, sums := scratchOf[float64](2 * j.pieces)
	room, acc := scratchOf[float64](2 * j.params)
	clear(acc)
	for r := range j.rows {
		j.backwardRow(r, sums, nil, &normTerms[T]{base: r*j.rowStep - r*j.perRow%j.params, acc: acc})
	}
	j.putParams(func(p int) (w, b float64) { return acc[2*p], acc[2*p+1] })
	release(s, room)
}
