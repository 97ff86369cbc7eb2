package locus_test

import (
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// WithDevice is for the calling goroutine, nests, and ends however f does.
func TestWithDevice(t *testing.T) {
	g := locus.AddVirtualGPUs(2, 64<<20)
	at := func(what string, want locus.Device) {
		t.Helper()
		if got := locus.DefaultDevice(); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	locus.WithDevice(g[0], func() {
		at("inside", g[0])
		for name, x := range map[string]*locus.Tensor{"Ones": locus.Ones(2), "From": locus.From([]float32{1}), "Rand": locus.Rand(2),
			"As": locus.As(locus.Int64).Zeros(2), "Linear": nn.Linear(2, 3).Weight.Value(), "BatchNorm": nn.BatchNorm(3).RunningMean.Value()} {
			if x.Device() != g[0] {
				t.Errorf("%s is on %v", name, x.Device())
			}
		}
		var wg sync.WaitGroup
		wg.Go(func() { at("in a goroutine that f started", locus.CPU()) })
		wg.Wait()
		locus.WithDevice(g[1], func() { at("nested", g[1]) })
		at("after the nested call", g[0])
		locus.WithDevice(locus.CPU(), func() { at("the CPU inside of a GPU", locus.CPU()) })
		if old := locus.SetDefaultDevice(g[1]); old != locus.CPU() {
			t.Errorf("SetDefaultDevice returned %v", old)
		}
		at("after SetDefaultDevice", g[0])
		wg.Go(func() { at("of the program", g[1]) })
		wg.Wait()
	})
	at("outside", g[1])
	if old := locus.SetDefaultDevice(locus.CPU()); old != g[1] {
		t.Errorf("SetDefaultDevice returned %v", old)
	}
	err := locus.Try(func() { locus.WithDevice(g[0], func() { locus.Ones(2).Add(locus.Ones(3)) }) })
	if !errors.Is(err, locus.ErrShape) {
		t.Error(err)
	}
	at("after a panic", locus.CPU())
	done := make(chan bool)
	go func() {
		defer close(done)
		locus.WithDevice(g[0], runtime.Goexit)
	}()
	<-done
	at("after a goroutine that ended inside", locus.CPU())
}

func TestWithDeviceRefuses(t *testing.T) {
	called := false
	if err := locus.Try(func() { locus.WithDevice(locus.GPU(1000), func() { called = true }) }); !errors.Is(err, locus.ErrDevice) || called {
		t.Error(err, called)
	}
	if err := locus.Try(func() { locus.WithDevice(locus.CPU(), nil) }); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
}

// Many goroutines, each with a device of its own.
func TestWithDeviceOfManyGoroutines(t *testing.T) {
	g := locus.AddVirtualGPUs(3, 64<<20)
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			want := g[i%3]
			for range 50 {
				locus.WithDevice(want, func() {
					if d := locus.DefaultDevice(); d != want {
						t.Errorf("%v instead of %v", d, want)
					}
				})
				if d := locus.DefaultDevice(); d != locus.CPU() {
					t.Errorf("outside: %v", d)
				}
			}
		})
	}
	wg.Wait()
}
