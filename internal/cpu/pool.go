package cpu

import (
	"math"

	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu/pool"
	"github.com/locusml/locus/internal/cpu/vec"
	"github.com/locusml/locus/internal/op"
)

func init() {
	register(op.MaxPoolIndices, dtype.Uint8, maxPoolIndices[uint8])
	register(op.MaxPoolIndices, dtype.Int32, maxPoolIndices[int32])
	register(op.MaxPoolIndices, dtype.Int64, maxPoolIndices[int64])
	register(op.MaxPoolIndices, dtype.Float32, maxPoolIndices[float32])
	register(op.MaxPoolIndices, dtype.Float64, maxPoolIndices[float64])
	for _, h := range halfTypes {
		register(op.MaxPoolIndices, h.dtype, h.maxPoolIndices)
	}

	inf := math.Inf(-1)
	register(op.MaxPool, dtype.Uint8, maxPool[uint8](0))
	register(op.MaxPool, dtype.Int32, maxPool[int32](math.MinInt32))
	register(op.MaxPool, dtype.Int64, maxPool[int64](math.MinInt64))
	register(op.MaxPool, dtype.Float32, maxPool(float32(inf)))
	register(op.MaxPool, dtype.Float64, maxPool(inf))
	registerHalves(op.MaxPool, allImages, func(c *backend.Call, dst []float32, in [3][]float32) {
		maxPoolPlanes(c, dst, in[0], float32(inf))
	})
	registerDense(op.MaxPoolGrad, allImages, maxPoolGrad[float32], maxPoolGrad[float64])
	registerDense(op.AvgPool, allImages, avgPool[float32], avgPool[float64])
	registerDense(op.AvgPoolGrad, allImages, avgPoolGrad[float32], avgPoolGrad[float64])
}

// window is a pooling window's way over one axis.
type window struct{ size, kernel, stride, pad, dilation int }

func windows(a *op.Pool, h, w int) (y, x window) {
	return window{h, a.Kernel[0], a.Stride[0], a.Pad[0], a.Dilation[0]},
		window{w, a.Kernel[1], a.Stride[1], a.Pad[1], a.Dilation[1]}
}

// span returns the elements that window number i has inside the axis: n of
// them from `from` on, dilation apart.
func (w *window) span(i int) (from, n int) {
	from = i*w.stride - w.pad
	k := 0
	if from < 0 {
		k = (-from + w.dilation - 1) / w.dilation
	}
	end := w.kernel
	if last := from + (w.kernel-1)*w.dilation; last >= w.size {
		end = (w.size - from + w.dilation - 1) / w.dilation
	}
	return from + k*w.dilation, max(0, end-k)
}

// planes calls f for every plane of a result of (N, C, …, …).
func planes(shape []int, work int, f func(plane int)) {
	pool.For(shape[0]*shape[1], max(1, grainExpensive/max(work, 1)), func(lo, hi int) {
		for p := lo; p < hi; p++ {
			f(p)
		}
	})
}

// eachPlane is planes with room for so many float32.
func eachPlane(shape []int, work, room int, f func(plane int, room []float32)) {
	pool.For(shape[0]*shape[1], max(1, grainExpensive/max(work, 1)), func(lo, hi int) {
		s, buf := scratchOf[float32](room)
		for p := lo; p < hi; p++ {
			f(p, buf)
		}
		s.free()
	})
}

// largestIn finds the first largest element of a window; the first NaN is the
// largest. For a window that has no element inside it returns 0.
func largestIn[T number](x []T, width, y, ny, dy, c, nc, dc int) int {
	if ny == 0 || nc == 0 {
		return 0
	}
	at := y*width + c
	best := x[at]
	for i := range ny {
		p := (y+i*dy)*width + c
		for range nc {
			if v := x[p]; v > best || v != v && best == best {
				best, at = v, p
			}
			p += dc
		}
	}
	return at
}

// largestAt is largestIn for window (i, j).
func largestAt[T number](x []T, width, i, j int, wy, wx *window) int {
	y, ny := wy.span(i)
	c, nc := wx.span(j)
	return largestIn(x, width, y, ny, wy.dilation, c, nc, wx.dilation)
}

// eachWindow calls f with the place of every window's largest element.
func eachWindow[T number](a *op.Pool, x []T, h, w, oh, ow int, f func(out, at int)) {
	wy, wx := windows(a, h, w)
	for i := range oh {
		y, ny := wy.span(i)
		for j := range ow {
			c, nc := wx.span(j)
			f(i*ow+j, largestIn(x, w, y, ny, wy.dilation, c, nc, wx.dilation))
		}
	}
}

func maxPoolIndices[T number](c *backend.Call) error {
	if c.Out.Elements() > 0 {
		x, s := denseOf[T](&c.In[0])
		maxPoolIndicesPlanes(c, x)
		release(s)
	}
	return nil
}

func maxPoolIndicesHalf[H half](c *backend.Call) error {
	if c.Out.Elements() > 0 {
		up, _ := conversions[H]()
		x, s := widened(&c.In[0], up)
		maxPoolIndicesPlanes(c, x)
		s.free()
	}
	return nil
}

func maxPoolIndicesPlanes[T number](c *backend.Call, x []T) {
	a, dst := c.Attrs.(op.Pool), elements[int64](&c.Out, c.Out.Elements())
	h, w, oh, ow := c.In[0].Shape[2], c.In[0].Shape[3], c.Out.Shape[2], c.Out.Shape[3]
	planes(c.Out.Shape, oh*ow*a.Kernel[0]*a.Kernel[1], func(p int) {
		to := dst[p*oh*ow:][:oh*ow]
		eachWindow(&a, x[p*h*w:][:h*w], h, w, oh, ow, func(out, at int) { to[out] = int64(at) })
	})
}

func maxPool[T number](lowest T) kernel {
	return func(c *backend.Call) error {
		if n := c.Out.Elements(); n > 0 {
			x, s := denseOf[T](&c.In[0])
			maxPoolPlanes(c, elements[T](&c.Out, n), x, lowest)
			release(s)
		}
		return nil
	}
}

// maxPoolPlanes computes what gathering at max_pool_indices would. lowest is for
// planes that have no element at all.
func maxPoolPlanes[T number](c *backend.Call, dst, x []T, lowest T) {
	a := c.Attrs.(op.Pool)
	h, w, oh, ow := c.In[0].Shape[2], c.In[0].Shape[3], c.Out.Shape[2], c.Out.Shape[3]
	if h*w == 0 {
		fillWords(dst, lowest)
		return
	}
	wy, wx := windows(&a, h, w)
	// Columns of windows that lie inside the rows as a whole.
	inside := func(j int) bool { _, n := wx.span(j); return n == a.Kernel[1] && j*wx.stride >= wx.pad }
	j0, j1 := 0, ow
	for j0 < ow && !inside(j0) {
		j0++
	}
	for j1 > j0 && !inside(j1-1) {
		j1--
	}
	pairs := a.Kernel == [2]int{2, 2} && wy.tiled(oh) && wx.tiled(ow)
	if to, ok := any(dst).([]float32); ok && !pairs {
		if q, ok := newPhases(&a, h, w, oh, ow); ok {
			x := any(x).([]float32)
			eachPlane(c.Out.Shape, h*w, q.all()+q.size(), func(p int, room []float32) {
				q.max(to[p*oh*ow:][:oh*ow], x[p*h*w:][:h*w], room[:q.all()], room[q.all():])
			})
			return
		}
	}
	planes(c.Out.Shape, oh*ow*a.Kernel[0]*a.Kernel[1], func(p int) {
		in, out := x[p*h*w:][:h*w], dst[p*oh*ow:][:oh*ow]
		if to, ok := any(out).([]float32); ok && pairs {
			for i := range oh {
				rows := any(in[2*i*w:][:2*w]).([]float32)
				vec.LargestPairsF32(to[i*ow:][:ow], rows[:2*ow], rows[w:][:2*ow])
			}
			return
		}
		for i := range oh {
			y, ny := wy.span(i)
			row := out[i*ow:][:ow]
			for j := 0; j < ow; j++ {
				if j == j0 && ny > 0 && j1 > j0 {
					maxRows(row[j0:j1], in, w, y, ny, j0*wx.stride-wx.pad, &wy, &wx)
					j = j1 - 1
					continue
				}
				col, nc := wx.span(j)
				row[j] = in[largestIn(in, w, y, ny, wy.dilation, col, nc, wx.dilation)]
			}
		}
	})
}

// maxRows takes the maxima of a row of windows that begin at column c.
func maxRows[T number](dst, x []T, width, y, ny, c int, wy, wx *window) {
	for i := range ny {
		row := x[(y+i*wy.dilation)*width:][:width]
		for k := range wx.kernel {
			at := c + k*wx.dilation
			if i == 0 && k == 0 {
				for j := range dst {
					dst[j] = row[at]
					at += wx.stride
				}
				continue
			}
			for j, m := range dst {
				dst[j] = max(m, row[at])
				at += wx.stride
			}
		}
	}
}

// maxPoolGrad: operands gradient and x.
func maxPoolGrad[T float](c *backend.Call, dst []T, in [3][]T) {
	a := c.Attrs.(op.Pool)
	h, w, oh, ow := c.Out.Shape[2], c.Out.Shape[3], c.In[0].Shape[2], c.In[0].Shape[3]
	wy, wx := windows(&a, h, w)
	to32, ok := any(dst).([]float32)
	if ok && a.Kernel == [2]int{2, 2} && wy.tiled(oh) && wx.tiled(ow) {
		g, x := any(in[0]).([]float32), any(in[1]).([]float32)
		planes(c.Out.Shape, h*w, func(p int) {
			largestPairsGrad(to32[p*h*w:][:h*w], x[p*h*w:][:h*w], g[p*oh*ow:][:oh*ow], w, oh, ow)
		})
		return
	}
	if q, inPhases := newPhases(&a, h, w, oh, ow); ok && inPhases {
		g, x := any(in[0]).([]float32), any(in[1]).([]float32)
		n, m := q.all(), q.size()
		eachPlane(c.Out.Shape, h*w, 2*(n+m), func(p int, room []float32) {
			q.maxGrad(to32[p*h*w:][:h*w], g[p*oh*ow:][:oh*ow], x[p*h*w:][:h*w], room[:n], room[n:2*n], room[2*n:][:m], room[2*n+m:])
		})
		return
	}
	planes(c.Out.Shape, h*w+oh*ow*a.Kernel[0]*a.Kernel[1], func(p int) {
		to, g := dst[p*h*w:][:h*w], in[0][p*oh*ow:][:oh*ow]
		clear(to)
		eachWindow(&a, in[1][p*h*w:][:h*w], h, w, oh, ow, func(out, at int) { to[at] += g[out] })
	})
}

// largestPairsGrad is maxPoolGrad for a plane and windows of 2×2 side by side.
func largestPairsGrad(to, x, g []float32, w, oh, ow int) {
	for i := range oh {
		first, second := to[2*i*w:][:w], to[(2*i+1)*w:][:w]
		vec.LargestPairsGradF32(first[:2*ow], second[:2*ow], x[2*i*w:], x[(2*i+1)*w:], g[i*ow:][:ow])
		clear(first[2*ow:])
		clear(second[2*ow:])
	}
	clear(to[2*oh*w:])
}

// share is the weight of one element of a window of ny by nx elements.
func share(a *op.Pool, ny, nx int) float64 {
	if a.CountPad {
		ny, nx = a.Kernel[0], a.Kernel[1]
	}
	return 1 / float64(max(1, ny*nx))
}

// spans returns the windows of an axis: where they begin and how many elements they have inside.
func (w *window) spans(n int) (from, count []int) {
	from, count = make([]int, n), make([]int, n)
	for i := range n {
		from[i], count[i] = w.span(i)
	}
	return from, count
}

// tiled reports whether the windows lie side by side, none of them cut off.
func (w *window) tiled(n int) bool {
	return w.pad == 0 && w.stride == w.kernel && (w.dilation == 1 || w.kernel == 1) && n*w.kernel <= w.size
}

// fewTaps is the size of windows up to which averages are summed as float32.
const fewTaps = 16

func avgPool[T float](c *backend.Call, dst []T, in [3][]T) {
	a := c.Attrs.(op.Pool)
	h, w, oh, ow := c.In[0].Shape[2], c.In[0].Shape[3], c.Out.Shape[2], c.Out.Shape[3]
	wy, wx := windows(&a, h, w)
	fromY, countY := wy.spans(oh)
	fromX, countX := wx.spans(ow)
	to32, ok := any(dst).([]float32)
	if ok && a.Kernel == [2]int{2, 2} && wy.tiled(oh) && wx.tiled(ow) {
		x := any(in[0]).([]float32)
		planes(c.Out.Shape, h*w, func(p int) { averagePairs(to32[p*oh*ow:][:oh*ow], x[p*h*w:][:h*w], w, ow) })
		return
	}
	one := func(x, to []T, i, j int) {
		ny, nx := countY[i], countX[j]
		s := 0.0
		for k := range ny {
			at := (fromY[i]+k*wy.dilation)*w + fromX[j]
			for range nx {
				s += float64(x[at])
				at += wx.dilation
			}
		}
		to[i*ow+j] = T(s * share(&a, ny, nx))
	}
	if q, inPhases := newPhases(&a, h, w, oh, ow); ok && inPhases && a.Kernel[0]*a.Kernel[1] <= fewTaps {
		eachPlane(c.Out.Shape, h*w, q.all()+q.size(), func(p int, room []float32) {
			x, to := in[0][p*h*w:][:h*w], dst[p*oh*ow:][:oh*ow]
			q.average(any(to).([]float32), any(x).([]float32), room[:q.all()], room[q.all():])
			q.borders(func(i, j int) { one(x, to, i, j) })
		})
		return
	}
	planes(c.Out.Shape, oh*ow*a.Kernel[0]*a.Kernel[1], func(p int) {
		x, to := in[0][p*h*w:][:h*w], dst[p*oh*ow:][:oh*ow]
		for i := range oh {
			for j := range ow {
				one(x, to, i, j)
			}
		}
	})
}

// pairsAtOnce is how many windows of 2×2 the vector functions take at least. Shorter
// rows are computed as if they were as long: the next row overwrites the surplus.
const pairsAtOnce = 8

// averagePairs is a plane of averages of 2×2 elements, rows of ow of them.
func averagePairs(to, x []float32, w, ow int) {
	for ; len(to) >= ow && ow > 0; to, x = to[ow:], x[min(2*w, len(x)):] {
		n := max(ow, pairsAtOnce)
		if len(to) < n || len(x) < w+2*n {
			n = ow
		}
		vec.AveragePairsF32(to[:n], x, x[w:])
	}
}

func avgPoolGrad[T float](c *backend.Call, dst []T, in [3][]T) {
	a := c.Attrs.(op.Pool)
	h, w, oh, ow := c.Out.Shape[2], c.Out.Shape[3], c.In[0].Shape[2], c.In[0].Shape[3]
	wy, wx := windows(&a, h, w)
	fromY, countY := wy.spans(oh)
	fromX, countX := wx.spans(ow)
	one := func(to, g []T, i, j int) {
		ny, nx := countY[i], countX[j]
		d := T(float64(g[i*ow+j]) * share(&a, ny, nx))
		for k := range ny {
			at := (fromY[i]+k*wy.dilation)*w + fromX[j]
			for range nx {
				to[at] += d
				at += wx.dilation
			}
		}
	}
	tiled := wy.tiled(oh) && wx.tiled(ow)
	_, ok := any(dst).([]float32)
	if q, inPhases := newPhases(&a, h, w, oh, ow); ok && inPhases && !tiled {
		eachPlane(c.Out.Shape, h*w, q.all()+q.size(), func(p int, room []float32) {
			to, g := dst[p*h*w:][:h*w], in[0][p*oh*ow:][:oh*ow]
			q.spread(any(to).([]float32), any(g).([]float32), room[:q.all()], room[q.all():])
			q.borders(func(i, j int) { one(to, g, i, j) })
		})
		return
	}
	planes(c.Out.Shape, h*w+oh*ow*a.Kernel[0]*a.Kernel[1], func(p int) {
		to, g := dst[p*h*w:][:h*w], in[0][p*oh*ow:][:oh*ow]
		if tiled {
			spread(to, g, w, oh, ow, a.Kernel)
			return
		}
		clear(to)
		for i := range oh {
			for j := range ow {
				one(to, g, i, j)
			}
		}
	})
}

// spread is avgPoolGrad for windows side by side: each element of a plane gets its share once.
func spread[T float](to, g []T, w, oh, ow int, kernel [2]int) {
	if x, ok := any(to).([]float32); ok && kernel == [2]int{2, 2} {
		spreadPairs(x, any(g).([]float32), w, oh, ow)
		return
	}
	each := 1 / float64(kernel[0]*kernel[1])
	for i := range oh {
		rows := to[i*kernel[0]*w:][:kernel[0]*w]
		first := rows[:w]
		at := 0
		for _, x := range g[i*ow:][:ow] {
			d := T(float64(x) * each)
			for range kernel[1] {
				first[at] = d
				at++
			}
		}
		clear(first[ow*kernel[1]:])
		for k := 1; k < kernel[0]; k++ {
			copy(rows[k*w:], first)
		}
	}
	clear(to[oh*kernel[0]*w:])
}

// spreadPairs is spread for windows of 2×2.
func spreadPairs(to, g []float32, w, oh, ow int) {
	for i := range oh {
		rows, n := to[2*i*w:], max(ow, pairsAtOnce)
		if len(rows) < w+2*n || len(g) < i*ow+n {
			n = ow
		}
		vec.SpreadPairsF32(rows, rows[w:], g[i*ow:][:n])
		if w > 2*ow {
			clear(rows[2*ow : w])
			clear(rows[w+2*ow : 2*w])
		}
	}
	clear(to[2*oh*w:])
}
