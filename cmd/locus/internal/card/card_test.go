package card

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/cmd/locus/internal/text"
)

func show(m Machine, width int) string {
	var b strings.Builder
	o := text.New(&b, func(string) string { return "" })
	o.Width = width
	m.Show(o)
	return b.String()
}

// made is a machine with a real card, which tests do not have.
func made() Machine {
	load, temp, watts := 37, 41, 75.4
	return Machine{Devices: []Card{
		{Device: locus.CPU(), Kind: "cpu", Name: "Some CPU", Backing: "AVX2, 8 threads", Memory: Memory{64 << 30, 16 << 30, 0}},
		{Device: locus.GPU(0), Kind: "gpu", Name: "NVIDIA H200", Backing: "CUDA 13.0 driver, compute capability 9.0, cuBLAS, cuDNN", Memory: Memory{140 << 30, 132 << 30, 0},
			Sensors: &Sensors{Utilization: &load, Temperature: &temp, Power: &watts}, PCI: "0000:01:00.0", Multiprocessors: 132,
			Libraries: []locus.Library{{Name: "cuBLAS", Path: "/usr/local/cuda/targets/x86_64-linux/lib/libcublas.so.13", Serves: "matrix products"}}},
		{Device: locus.GPU(1), Kind: "gpu", Name: "NVIDIA H200", Backing: "CUDA 13.0 driver", NoSensors: "NVML was not found"},
	}}
}

func TestShow(t *testing.T) {
	for _, width := range []int{40, 80, 120, 160} {
		s := show(made(), width)
		for _, want := range []string{"gpu:0", "NVIDIA H200", "37 %", "41 °C", "75 W", "132 GiB of 140 GiB", "cuBLAS", "memory unknown"} {
			if !strings.Contains(s, want) {
				t.Errorf("at %d columns %q is missing:\n%s", width, want, s)
			}
		}
		for _, l := range strings.Split(s, "\n") {
			if text.Len(l) > width && width >= 80 {
				t.Errorf("%d columns: %q has %d", width, l, text.Len(l))
			}
		}
		if strings.Contains(s, "No real GPU") {
			t.Errorf("a GPU is there, but:\n%s", s)
		}
	}
}

// JSON only gains fields: the load has its key of earlier versions too.
func TestSensorsAsJSON(t *testing.T) {
	got, err := json.Marshal(sensors(locus.Telemetry{Utilization: 37, Temperature: -1, Power: 75.5}))
	if want := `{"utilization_percent":37,"power_watts":75.5,"utilisation_percent":37}`; err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
}

func TestLook(t *testing.T) {
	v := locus.AddVirtualGPUs(1, 8<<20)[0]
	x := v.Ones(1 << 20)
	defer x.Free()
	if err := v.Synchronize(); err != nil {
		t.Fatal(err)
	}
	m := Look()
	c := m.Devices[v.Index()+1]
	if c.Device != v || c.Kind != "virtual gpu" || c.Memory.Own != 4<<20 || c.Memory.Total != 8<<20 || c.Memory.Used < 4<<20 {
		t.Errorf("%+v", c)
	}
	if locus.WhyNoGPU() != nil {
		s := show(m, 80)
		if m.NoGPU == "" || m.Hint == "" || strings.Contains(m.NoGPU, "\n") || !strings.Contains(s, "No real GPU") {
			t.Errorf("%q, %q\n%s", m.NoGPU, m.Hint, s)
		}
	}
	b, err := json.Marshal(m)
	if err != nil || !strings.Contains(string(b), `"device":"`+v.String()+`"`) {
		t.Errorf("JSON: %v %s", err, b)
	}
}

func TestWhy(t *testing.T) {
	for _, c := range []struct{ err, why, hint string }{
		{"no NVIDIA GPU can be used: the CUDA driver was not found; tried, in this order:\nlibcuda.so.1: no", "the CUDA driver was not found", "install NVIDIA's driver"},
		{"no NVIDIA GPU can be used: this program was built without CUDA (it needs linux)", "this program was built without CUDA (it needs linux)", "linux"},
		{"no NVIDIA GPU can be used: cuInit: no device", "cuInit: no device", "doctor"},
	} {
		why, hint := Why(errors.New(c.err))
		if why != c.why || !strings.Contains(hint, c.hint) {
			t.Errorf("%q: %q, %q", c.err, why, hint)
		}
	}
}
