package gemm

import "unsafe"

// The transforms in plain Go.
func genericTransforms(mr int) *transforms {
	const lanes = 8
	return &transforms{
		lanes: lanes,
		filters: func(dst, src *byte, plane, n int) {
			to := unsafe.Slice((*float32)(unsafe.Pointer(dst)), 15*plane/4+n*mr)
			from := unsafe.Slice((*float32)(unsafe.Pointer(src)), 9*n*mr)
			for i := range n {
				transformFilters(to[i*mr:], from[9*i*mr:], plane/4, mr, mr)
			}
		},
		in: func(t *byte) {
			(*tilesIn)(unsafe.Pointer(t)).transform(lanes, func(a, b, c, d float32) [4]float32 { return [4]float32{a - c, b + c, c - b, b - d} })
		},
		grad: func(t *byte) {
			(*tilesIn)(unsafe.Pointer(t)).transform(lanes, func(a, b, _, _ float32) [4]float32 { return [4]float32{a, a + b, a - b, b} })
		},
		out: func(t *byte) { (*tilesOut)(unsafe.Pointer(t)).transform(lanes) },
	}
}

// transformFilters transforms h filters at one place of the depth of a panel of mr.
func transformFilters(to, from []float32, plane, mr, h int) {
	spread := func(a, b, c float32) [4]float32 {
		s, h := (a+c)*0.5, b*0.5
		return [4]float32{a, s + h, s - h, c}
	}
	for r := range h {
		var cols [3][4]float32
		for j := range cols {
			cols[j] = spread(from[j*mr+r], from[(3+j)*mr+r], from[(6+j)*mr+r])
		}
		for i := range 4 {
			for j, u := range spread(cols[0][i], cols[1][i], cols[2][i]) {
				to[(4*i+j)*plane+r] = u
			}
		}
	}
}

func at(p unsafe.Pointer, offset int) *float32 { return (*float32)(unsafe.Add(p, offset)) }

func (t *tilesIn) transform(lanes int, spread func(a, b, c, d float32) [4]float32) {
	for c := range t.n {
		for _, r := range unsafe.Slice((*tileRun)(t.runs), t.count) {
			for l := range lanes {
				var rows [4][4]float32
				for i, from := range r.rows {
					var x [4]float32
					for j := range x {
						if from != outside && r.mask[2*l+j] != 0 {
							x[j] = *at(t.x, c*t.step+from+4*(2*l+j))
						}
					}
					rows[i] = spread(x[0], x[1], x[2], x[3])
				}
				for j := range 4 {
					for i, v := range spread(rows[0][j], rows[1][j], rows[2][j], rows[3][j]) {
						*at(t.dst, (4*i+j)*t.plane+c*t.pitch+r.dst+4*l) = v
					}
				}
			}
		}
	}
}

func (t *tilesOut) transform(lanes int) {
	gather := func(a, b, c, d float32) [2]float32 { return [2]float32{a + b + c, b - c - d} }
	t.bad = 0
	for o := range t.n {
		for l := range lanes {
			var sums [4][2]float32
			for j := range sums {
				var m [4]float32
				for i := range m {
					m[i] = *at(t.src, (4*i+j)*t.plane+o*t.pitch+4*l)
				}
				sums[j] = gather(m[0], m[1], m[2], m[3])
			}
			for i := range 2 {
				for j, y := range gather(sums[0][i], sums[1][i], sums[2][i], sums[3][i]) {
					if t.mask[l] != 0 && y-y != 0 {
						t.bad = 1
					}
					if px := 2*l + j; px < t.px[0] || px >= lanes && px-lanes < t.px[1] {
						*at(t.rows[i], o*t.steps[i]+4*px) = y
					}
				}
			}
		}
	}
}
