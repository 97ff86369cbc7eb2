package locus_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
)

// Memory under load: many goroutines read tensors while others free them, close their
// scopes, and train. Every tensor has one number in all its elements, which no other
// tensor has; so a reader sees at once if it got the bytes of another one. It may find
// that the tensor was freed, and nothing else may go wrong.
//
// LOCUS_STRESS=60s sets how long all of the tests here take together.
func stressTime(t testing.TB) time.Duration {
	total := 5 * time.Second
	if s := os.Getenv("LOCUS_STRESS"); s != "" {
		var err error
		if total, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
	}
	return total / time.Duration(4*len(stressDevices()))
}

// stressSizes are those of small blocks, which are cut from slabs, and of large ones.
// Every tensor has two axes.
var stressSizes = []int{2, 64, 600, 1500, 20000}

// held is a tensor and the number in it.
type held struct {
	t      *locus.Tensor
	number float64
}

// watch counts what readers found.
type watch struct {
	t                   testing.TB
	wrong, freed, right atomic.Int64
	stop                atomic.Bool
}

// found reports something that must not be; a handful is enough.
func (w *watch) found(format string, args ...any) {
	if w.wrong.Add(1) <= 8 {
		w.t.Errorf(format, args...)
	} else {
		w.stop.Store(true)
	}
}

// all checks that every element is the number.
func (w *watch) all(how string, got []float32, want float64) {
	for i, v := range got {
		if float64(v) != want {
			w.found("%s: element %d of %d is %v, want %v", how, i, len(got), v, want)
			return
		}
	}
	w.right.Add(1)
}

// read reads a tensor in one of many ways and reports whether it is still there.
func (w *watch) read(r *rand.Rand, h held, elsewhere locus.Device) bool {
	x, want := h.t, h.number
	how := ""
	err := locus.Try(func() {
		switch r.IntN(12) {
		case 0:
			how = "ToSlice"
			w.all(how, locus.ToSlice[float32](x), want)
		case 1:
			how = "Copy"
			y := x.Copy()
			w.all(how, locus.ToSlice[float32](y), want)
			y.Free()
		case 2:
			how = "Item"
			if got := x.Index(1, x.Dim(1)-1).Item(); got != want {
				w.found("Item: %v, want %v", got, want)
			}
		case 3:
			how = "an op"
			y := x.Mul(2).Sub(x)
			w.all(how, locus.ToSlice[float32](y), want)
		case 4:
			how = "an op on views"
			y := x.T().Add(0).T().Narrow(1, 0, 1)
			w.all(how, locus.ToSlice[float32](y), want)
		case 5:
			how = "an op in a scope"
			locus.Scoped(func(s *locus.Scope) {
				u := s.Use(x)
				w.all(how, locus.ToSlice[float32](u.Add(1).Maximum(u).Sub(1)), want)
			})
		case 6:
			how = "Max and Min"
			if low, high := x.Min().Item(), x.Max().Item(); low != want || high != want {
				w.found("elements from %v to %v, want %v", low, high, want)
			}
		case 7:
			how = "String"
			got, _, _ := strings.Cut(x.Narrow(1, 0, 1).String(), " float32")
			should, _, _ := strings.Cut(locus.CPU().Full(want, 2, 1).String(), " float32")
			if got != should && !strings.Contains(got, "given back") && !strings.Contains(got, "freed") {
				w.found("String:\n%s\nwant\n%s", got, should)
			}
		case 8:
			how = "CopyToSlice"
			got := make([]float32, x.Len())
			locus.CopyToSlice(got, x)
			w.all(how, got, want)
		case 9:
			how = "To another device"
			w.all(how, locus.ToSlice[float32](x.To(elsewhere)), want)
		case 10:
			how = "Concat"
			y := locus.Concat(0, x, x)
			w.all(how, locus.ToSlice[float32](y), want)
			y.Free()
		case 11:
			how = "a sum of products"
			if got := x.Narrow(1, 0, 1).T().MatMul(x.Narrow(1, 0, 1).OnesLike()).Item(); got != 2*want {
				w.found("a product: %v, want %v", got, 2*want)
			}
		}
	})
	switch {
	case err == nil:
		return true
	case errors.Is(err, locus.ErrFreed):
		w.freed.Add(1)
		return false
	}
	w.found("%s: %v", how, err)
	return false
}

// stress runs workers until time is up or enough went wrong, and checks that there was
// something to see.
func stress(t *testing.T, workers ...func(w *watch, r *rand.Rand)) {
	t.Helper()
	w := &watch{t: t}
	timer := time.AfterFunc(stressTime(t), func() { w.stop.Store(true) })
	defer timer.Stop()
	var wg sync.WaitGroup
	for i, f := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 5))
			for !w.stop.Load() {
				if err := locus.Try(func() { f(w, r) }); err != nil {
					w.found("%v", err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(stressTime(t) + time.Minute):
		t.Fatal("goroutines hang")
	}
	t.Logf("%d reads were right, %d found the tensor freed, %d were wrong", w.right.Load(), w.freed.Load(), w.wrong.Load())
	if w.right.Load() == 0 && w.wrong.Load() == 0 {
		t.Errorf("no read was right: the test shows nothing")
	}
}

// stressDevices are the CPU and a virtual GPU, with another to copy to.
func stressDevices() [][2]locus.Device {
	g := stressGPUs()
	return [][2]locus.Device{{locus.CPU(), g[0]}, {g[0], locus.CPU()}, {g[1], g[0]}}
}

// stressGPUs have room for the garbage of many goroutines.
var stressGPUs = sync.OnceValue(func() []locus.Device { return locus.AddVirtualGPUs(2, 512<<20) })

// numbers are exact in float32, also when doubled.
const maxNumber = 1 << 22

// Readers, while tensors are freed and others made in their place.
func TestReadWhileFreed(t *testing.T) {
	for _, d := range stressDevices() {
		t.Run(d[0].String(), func(t *testing.T) {
			var slots [16]atomic.Pointer[held]
			var next atomic.Int64
			put := func(r *rand.Rand, k int) {
				n := float64(next.Add(1) % maxNumber)
				x := d[0].Full(n, 2, stressSizes[k%len(stressSizes)]/2)
				if r.IntN(2) == 0 { // computed on the way, with garbage of the same size
					y := x.Add(1).Sub(1)
					x.Free()
					x = y
				}
				if old := slots[k].Swap(&held{x, n}); old != nil {
					old.t.Free()
				}
			}
			r := rand.New(rand.NewPCG(1, 1))
			for k := range slots {
				put(r, k)
			}
			writer := func(_ *watch, r *rand.Rand) { put(r, r.IntN(len(slots))) }
			reader := func(w *watch, r *rand.Rand) {
				h := slots[r.IntN(len(slots))].Load()
				for range 1 + r.IntN(4) {
					if !w.read(r, *h, d[1]) {
						break
					}
				}
			}
			stress(t, writer, writer, reader, reader, reader, reader, reader, reader)
		})
	}
}

// Readers of what scopes hold, while these close.
func TestReadWhileScopesClose(t *testing.T) {
	for _, d := range stressDevices() {
		t.Run(d[0].String(), func(t *testing.T) {
			var slots [8]atomic.Pointer[held]
			var next atomic.Int64
			worker := func(_ *watch, r *rand.Rand) {
				outer, inner := locus.NewScope(), locus.NewScope()
				for range 4 {
					k := r.IntN(len(slots))
					n := float64(next.Add(1) % maxNumber)
					x := outer.Adopt(d[0].Full(n, 2, stressSizes[k%len(stressSizes)]/2))
					if r.IntN(2) == 0 {
						x = inner.Use(x).Add(1).Sub(1)
					}
					if r.IntN(4) == 0 {
						[]*locus.Scope{outer, inner}[r.IntN(2)].Keep(x)
					}
					slots[k].Store(&held{x, n})
				}
				inner.Close()
				outer.Close()
			}
			reader := func(w *watch, r *rand.Rand) {
				h := slots[r.IntN(len(slots))].Load()
				if h == nil {
					return
				}
				for range 3 {
					if !w.read(r, *h, d[1]) {
						break
					}
				}
			}
			stress(t, worker, worker, worker, reader, reader, reader, reader)
		})
	}
}

// Readers of parameters, while optimizers step: what Value gave stays as it was, or is
// freed, and is never another step's.
func TestReadWhileOptimizersStep(t *testing.T) {
	for _, d := range stressDevices() {
		t.Run(d[0].String(), func(t *testing.T) {
			type module struct{ P *nn.Parameter }
			const first = maxNumber / 8 // the numbers of one parameter begin behind those of the one before
			var modules [5]module
			var steps [5]atomic.Int64 // begun
			var workers []func(*watch, *rand.Rand)
			for k := range modules {
				m := &modules[k]
				m.P = nn.NewParameter(d[0].Full(float64(first*k), 2, stressSizes[k]/2))
				opt := optim.SGD(nn.Parameters(m), 1, optim.SGDOptions{})
				adds := []*locus.Tensor{d[0].Full(-1, 2, stressSizes[k]/2)} // each step adds 1
				workers = append(workers, func(w *watch, r *rand.Rand) {
					if steps[k].Load() == first-2 {
						time.Sleep(time.Millisecond)
						return
					}
					steps[k].Add(1)
					if r.IntN(2) == 0 {
						opt.StepWith(adds)
						return
					}
					locus.Scoped(func(s *locus.Scope) { // the usual way
						s.Use(m.P.Value()).Neg().Sum().Backward()
						opt.Step()
					})
				})
			}
			reader := func(w *watch, r *rand.Rand) {
				k := r.IntN(len(modules))
				from := max(0, steps[k].Load()-1) // the last may not be done
				v := modules[k].P.Value().Detach()
				to := steps[k].Load()
				var number float64
				err := locus.Try(func() { number = v.Index(0, 0).Item() })
				if errors.Is(err, locus.ErrFreed) {
					w.freed.Add(1)
					return
				}
				if err != nil {
					w.found("%v", err)
					return
				}
				if low, high := float64(first*k)+float64(from), float64(first*k)+float64(to); number < low || number > high {
					w.found("parameter %d is %v; its steps made it %v to %v", k, number, low, high)
					return
				}
				for range 4 {
					if !w.read(r, held{v, number}, d[1]) {
						return
					}
				}
			}
			for range 6 {
				workers = append(workers, reader)
			}
			stress(t, workers...)
		})
	}
}

// Scopes of many goroutines over the same tensors: each has its own results, whatever
// the others close, keep and free.
func TestParallelScopes(t *testing.T) {
	for _, d := range stressDevices() {
		t.Run(d[0].String(), func(t *testing.T) {
			shared := make([]held, len(stressSizes))
			for k, n := range stressSizes {
				shared[k] = held{d[0].Full(float64(k+1), 2, n/2), float64(k + 1)}
			}
			var given [4]atomic.Pointer[held] // kept ones, from one goroutine to another
			worker := func(w *watch, r *rand.Rand) {
				h := shared[r.IntN(len(shared))]
				s := locus.NewScope()
				defer s.Close()
				n := float64(r.IntN(1000))
				x := s.Use(h.t).Add(n)
				if !w.read(r, held{x, h.number + n}, d[1]) && w.wrong.Load() == 0 {
					w.found("a scope's own tensor was freed")
				}
				s.Keep(x)
				if old := given[r.IntN(len(given))].Swap(&held{x, h.number + n}); old != nil {
					s.Adopt(old.t) // ends with this scope
					if !w.read(r, *old, d[1]) && w.wrong.Load() == 0 {
						w.found("a tensor that was kept and handed over is freed")
					}
				}
			}
			stress(t, worker, worker, worker, worker, worker, worker)
			for _, h := range shared {
				if got := h.t.Max().Item(); got != h.number {
					t.Errorf("a tensor that all use is %v, not %v", got, h.number)
				}
			}
		})
	}
}
