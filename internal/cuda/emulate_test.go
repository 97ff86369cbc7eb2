//go:build linux && amd64 && !nocuda

package cuda

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/backend/backendtest"
	"github.com/locusml/locus/internal/op"
)

// Kernels whose sources have no instructions of PTX but these run on a CPU, compiled as C++
// with kernels/emulate/emulate.h.
var emulable = strings.NewReplacer(
	`f32 f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h.x)); return f;`, `return (f32)as<_Float16>(h.x);`,
	`asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.x) : "f"(f));`, `h.x = as<u16>((_Float16)f);`,
	`f32 r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r;`, `return exp2f(x);`,
	`asm volatile("st.global.cs.v2.u64 [%0], {%1, %2};" ::"l"(p), "l"(v.lo), "l"(v.hi) : "memory");`, `*p = v;`,
	`asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x * 1.4426950408889634f));`, `r = exp2f(x * 1.4426950408889634f);`,
	`asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(r.w[0]) : "l"(p) : "memory");`, `r.s = *p;`,
	`asm volatile("ld.global.cg.v2.u32 {%0, %1}, [%2];" : "=r"(r.w[0]), "=r"(r.w[1]) : "l"(p) : "memory");`, `r.s = *p;`,
	`asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(r.w[0]), "=r"(r.w[1]), "=r"(r.w[2]), "=r"(r.w[3]) : "l"(p) : "memory");`, `r.s = *p;`,
	`DEV f32 settled(f32 x) { asm("" : "+f"(x)); return x; }`, `DEV f32 settled(f32 x) { return x; }`,
	`extern __shared__ __align__(128) char room[];`, `alignas(128) static char room[256 << 10];`,
)

// emulation compiles sources of kernels, and returns what runs them. It takes a C++ compiler,
// and is asked for: LOCUS_EMULATE=1.
func emulation(t *testing.T, sources ...string) func(l launched) {
	if os.Getenv("LOCUS_EMULATE") != "1" {
		t.Skip("kernels are run on the CPU with LOCUS_EMULATE=1, which takes g++")
	}
	dir := t.TempDir()
	all, err := filepath.Glob("kernels/*.cu*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(all, "kernels/emulate/emulate.h") {
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(name)), []byte(emulable.Replace(string(text))), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	libs := map[string]uintptr{}
	run := map[string]func(f uintptr, gx, gy, gz, n uint32, p unsafe.Pointer, size uint32) int32{}
	for _, s := range sources {
		out := filepath.Join(dir, s+".so")
		c := exec.Command("g++", "-x", "c++", "-std=c++17", "-O1", "-ffp-contract=off", "-w", "-fPIC", "-shared", "-include", "emulate.h", "-o", out, s+".cu")
		c.Dir = dir
		if text, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", s, err, text[:min(len(text), 4000)])
		}
		lib, err := purego.Dlopen(out, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err != nil {
			t.Fatal(err)
		}
		var f func(f uintptr, gx, gy, gz, n uint32, p unsafe.Pointer, size uint32) int32
		purego.RegisterLibFunc(&f, lib, "emulate")
		libs[s], run[s] = lib, f
	}
	var mu sync.Mutex
	return func(l launched) {
		mu.Lock()
		defer mu.Unlock()
		for s, lib := range libs {
			k, err := purego.Dlsym(lib, l.kernel)
			if err != nil {
				continue
			}
			if run[s](k, uint32(l.grid[0]), uint32(l.grid[1]), uint32(l.grid[2]), uint32(l.block), unsafe.Pointer(&l.params), uint32(len(l.params)*8)) != 0 {
				t.Errorf("%s: its threads wait for each other", l.kernel)
			}
			return
		}
		t.Errorf("%s is not among the sources that are emulated", l.kernel)
	}
}

// The conformance suite for ops whose kernels can be emulated: what the device queues is
// computed on the CPU, by the kernels' sources. The card has no tensor cores.
func TestEmulatedConformance(t *testing.T) {
	run := emulation(t, "pool", "index", "create", "unary", "attention", "sort", "index_rows", "reduce", "normalize_pixels", "normalize")
	open := func() backend.Device {
		f, devices := openFake(t, 1)
		f.emulate = run
		devices[0].card.major = 7
		return devices[0]
	}
	backendtest.Run(t, open, backendtest.Only(op.MaxPool, op.MaxPoolGrad, op.AvgPool, op.AvgPoolGrad, op.IndexAdd, op.ScatterAdd, op.Attend, op.AttendGrad,
		op.Sum, op.Prod, op.Max, op.Min, op.LogSumExp, op.Norm, op.ArgMax, op.ArgMin, op.BatchNorm, op.BatchNormGrad))
	t.Run("varying", func(t *testing.T) {
		defer SetVarying(Varying())
		SetVarying(true)
		backendtest.Run(t, open, backendtest.Only(op.IndexAdd, op.ScatterAdd))
	})
}
