package vec

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkF32 reports bytes moved per second; Copy is the yardstick.
func BenchmarkF32(b *testing.B) {
	for _, n := range []int{1 << 10, 1 << 16, 1 << 24} {
		x, y, d := make([]float32, n), make([]float32, n), make([]float32, n)
		for i := range x {
			x[i], y[i] = float32(i%1000)/100-5, float32(i%777)/100+0.5
		}
		for _, f := range []struct {
			name    string
			streams int
			f       func()
		}{
			{"Copy", 2, func() { copy(d, x) }},
			{"Add", 3, func() { AddF32(d, x, y) }},
			{"AddStream", 3, func() { AddStreamF32(d, x, y) }},
			{"MulSStream", 2, func() { MulSStreamF32(d, x, 3) }},
			{"GeluStream", 2, func() { GeluStreamF32(d, x) }},
			{"MulS", 2, func() { MulSF32(d, x, 3) }},
			{"Axpy", 3, func() { AxpyF32(d, 0.5, x) }},
			{"Max", 3, func() { MaxF32(d, x, y) }},
			{"Relu", 2, func() { ReluF32(d, x) }},
			{"Exp", 2, func() { ExpF32(d, x) }},
			{"Log", 2, func() { LogF32(d, y) }},
			{"Tanh", 2, func() { TanhF32(d, x) }},
			{"Sigmoid", 2, func() { SigmoidF32(d, x) }},
			{"Gelu", 2, func() { GeluF32(d, x) }},
			{"GeluTanh", 2, func() { GeluTanhF32(d, x) }},
			{"Erf", 2, func() { ErfF32(d, x) }},
			{"Sin", 2, func() { SinF32(d, x) }},
			{"Pow", 3, func() { PowF32(d, y, x) }},
			{"Sum", 1, func() { SumF32(x) }},
			{"SumSq", 1, func() { SumSqF32(x) }},
			{"Dot", 2, func() { DotF32(x, y) }},
			{"ReduceMax", 1, func() { ReduceMaxF32(x) }},
			{"ArgMax", 1, func() { ArgMaxF32(x) }},
			{"ExpSub", 2, func() { ExpSubF32(d, x, 5) }},
		} {
			b.Run(fmt.Sprintf("%s/%d", f.name, n), func(b *testing.B) {
				b.SetBytes(int64(4 * n * f.streams))
				// The shortest run tells the most on a shared machine.
				best := time.Hour
				for b.Loop() {
					t := time.Now()
					f.f()
					best = min(best, time.Since(t))
				}
				b.ReportMetric(float64(4*n*f.streams)/float64(best.Nanoseconds()), "best-GB/s")
			})
		}
	}
}
