package locus_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

// Two virtual GPUs with a small memory serve every test of this package.
const gpuMemory = 64 << 20

var virtualGPUs = locus.AddVirtualGPUs(2, gpuMemory)

func TestDevicesAreValues(t *testing.T) {
	if locus.GPU() != locus.GPU(0) || locus.GPU(0) == locus.GPU(1) || locus.CPU() != locus.CPU(3) {
		t.Error("devices do not compare as values")
	}
	var zero locus.Device
	if zero != locus.CPU() {
		t.Error("the zero device is not the CPU")
	}
	m := map[locus.Device]int{locus.CPU(): 1, locus.GPU(1): 2}
	if m[locus.GPU(1)] != 2 {
		t.Error("a device is no map key")
	}
	if s := locus.GPU(3).String(); s != "gpu:3" {
		t.Error(s)
	}
	if b, err := json.Marshal(map[string]locus.Device{"d": locus.GPU(1)}); err != nil || string(b) != `{"d":"gpu:1"}` {
		t.Error(string(b), err)
	}
	var back struct{ D locus.Device }
	if err := json.Unmarshal([]byte(`{"d":"cuda:1"}`), &back); err != nil || back.D != locus.GPU(1) {
		t.Error(back, err)
	}
}

func TestTryGPU(t *testing.T) {
	if locus.NumGPUs() < 2 {
		t.Fatal("the virtual GPUs are missing")
	}
	if locus.TryGPU() != locus.GPU() || locus.TryGPU(1) != locus.GPU(1) {
		t.Error("TryGPU does not find GPUs that exist")
	}
	if locus.TryGPU(10000) != locus.CPU() {
		t.Error("TryGPU does not fall back")
	}
	all := locus.TryAllGPUs()
	if len(all) != locus.NumGPUs() || all[0] != locus.GPU(0) {
		t.Error(all)
	}
	infos := locus.Devices()
	if len(infos) != 1+locus.NumGPUs() || infos[0].Device != locus.CPU() || infos[0].Name == "" {
		t.Error(infos)
	}
	for _, g := range virtualGPUs {
		info := infos[1+g.Index()]
		if info.Total != gpuMemory || info.Free > info.Total || !strings.Contains(info.Name, "virtual") || info.Backing == "" {
			t.Errorf("%+v", info)
		}
	}
}

func TestParseDevice(t *testing.T) {
	good := map[string]locus.Device{
		"cpu": locus.CPU(), "CPU": locus.CPU(), "cpu:0": locus.CPU(), "cpu:7": locus.CPU(), "cpu(1)": locus.CPU(), "/CPU:0": locus.CPU(),
		"gpu": locus.GPU(), "gpu:0": locus.GPU(), "gpu:1": locus.GPU(1), "GPU:12": locus.GPU(12), "cuda": locus.GPU(), "cuda:1": locus.GPU(1),
		"gpu(1)": locus.GPU(1), "gpu()": locus.GPU(), "/GPU:1": locus.GPU(1), "/device:GPU:1": locus.GPU(1), " gpu:1 ": locus.GPU(1),
	}
	for s, want := range good {
		if d, err := locus.ParseDevice(s); err != nil || d != want {
			t.Errorf("ParseDevice(%q) = %v, %v", s, d, err)
		}
	}
	for _, s := range []string{"", "gp", "gpu:", "gpu:-1", "gpu:x", "gpu:1x", "gpu(1", "gpu1", "tpu", "gpu:99999999999999999999", "gpu:1:2", "/", "gpu:１"} {
		_, err := locus.ParseDevice(s)
		if !errors.Is(err, locus.ErrDevice) || !strings.Contains(err.Error(), "cpu, gpu:0, gpu:1") {
			t.Errorf("ParseDevice(%q): %v", s, err)
		}
	}
	if _, err := locus.ParseDevice("gpv:1"); !strings.Contains(err.Error(), `"gpu:1"`) {
		t.Errorf("no suggestion: %v", err)
	}
}

func FuzzParseDevice(f *testing.F) {
	for _, s := range []string{"cpu", "gpu:1", "cuda:0", "gpu(1)", "/GPU:1", "/device:cpu:0", "gpu:x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := locus.ParseDevice(s)
		if err != nil {
			if !errors.Is(err, locus.ErrDevice) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		again, err := locus.ParseDevice(d.String())
		if err != nil || again != d {
			t.Fatalf("%q parses to %v, which parses to %v, %v", s, d, again, err)
		}
	})
}

func TestMissingDevice(t *testing.T) {
	err := locus.Try(func() { locus.GPU(99).Ones(2) })
	if !errors.Is(err, locus.ErrDevice) {
		t.Fatal(err)
	}
	for _, part := range []string{"gpu:99", "cpu, gpu:0", "TryGPU(99)"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
	if err := locus.GPU(99).Synchronize(); !errors.Is(err, locus.ErrDevice) {
		t.Error(err)
	}
}

func TestDefaultDevice(t *testing.T) {
	old := locus.SetDefaultDevice(virtualGPUs[1])
	defer locus.SetDefaultDevice(old)
	if old != locus.CPU() {
		t.Error("the default was", old)
	}
	if d := locus.Zeros(2).Device(); d != virtualGPUs[1] {
		t.Error(d)
	}
	if d := locus.From([]float32{1}).Device(); d != virtualGPUs[1] {
		t.Error(d)
	}
	if err := locus.Try(func() { locus.SetDefaultDevice(locus.GPU(99)) }); !errors.Is(err, locus.ErrDevice) {
		t.Error(err)
	}
}

func TestParseBytes(t *testing.T) {
	for s, want := range map[string]int64{"10": 10, "1KiB": 1024, "512MiB": 512 << 20, "2 gib": 2 << 30, "1.5kB": 1500, "3b": 3} {
		if n, err := locus.ParseBytes(s); err != nil || n != want {
			t.Errorf("ParseBytes(%q) = %d, %v", s, n, err)
		}
	}
	for _, s := range []string{"", "x", "-1", "1XB", "nan", "1e300GiB"} {
		if n, err := locus.ParseBytes(s); err == nil {
			t.Errorf("ParseBytes(%q) = %d", s, n)
		}
	}
}
