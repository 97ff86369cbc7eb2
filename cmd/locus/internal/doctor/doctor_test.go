package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/cpu/blas/blastest"
)

var errNotFound = errors.New("no NVIDIA GPU can be used: the CUDA driver was not found; tried, in this order:\nlibcuda.so.1: cannot open\n/usr/lib/wsl/lib/libcuda.so.1: cannot open")

// root makes a folder that looks like the root of a machine.
func root(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func find(t *testing.T, checks []Check, name string) Check {
	t.Helper()
	for _, c := range checks {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no check %q in %+v", name, checks)
	return Check{}
}

func TestGraphics(t *testing.T) {
	card := map[string]string{"sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n", "sys/bus/pci/devices/0000:01:00.0/class": "0x030200\n"}
	audio := map[string]string{"sys/bus/pci/devices/0000:01:00.1/vendor": "0x10de\n", "sys/bus/pci/devices/0000:01:00.1/class": "0x040300\n"}
	for _, c := range []struct {
		name   string
		files  map[string]string
		why    error
		status Status // of the driver
		card   Status
		fix    string
	}{
		{"no card", nil, errNotFound, Missing, Missing, "nothing to do"},
		{"only its sound", audio, errNotFound, Missing, Missing, "nothing to do"},
		{"card without driver", card, errNotFound, Problem, OK, "install NVIDIA's driver"},
		{"in a container", map[string]string{"proc/driver/nvidia/version": "NVRM version: 580\nGCC"}, errNotFound, Problem, Missing, "install NVIDIA's driver"},
		{"switched off", card, errors.New("no NVIDIA GPU can be used: the CUDA driver: switched off by LOCUS_CUDA=off"), Missing, OK, "unset LOCUS_CUDA"},
	} {
		t.Run(c.name, func(t *testing.T) {
			checks := System{Env: os.Getenv, Root: root(t, c.files), GOOS: "linux", WhyNo: c.why}.graphics()
			driver := find(t, checks, "NVIDIA driver")
			if driver.Status != c.status || !strings.Contains(driver.Fix, c.fix) || strings.Contains(driver.Found, "\n") {
				t.Errorf("%+v", driver)
			}
			if got := find(t, checks, "NVIDIA card"); got.Status != c.card {
				t.Errorf("%+v", got)
			}
			if c.why == errNotFound && len(driver.More) != 2 {
				t.Errorf("the paths that were tried are %q", driver.More)
			}
		})
	}
	if checks := (System{GOOS: "darwin", WhyNo: errNotFound}).graphics(); len(checks) != 1 || !strings.Contains(checks[0].Fix, "Linux") || !strings.Contains(checks[0].Fix, "AMD, Apple and Intel") {
		t.Errorf("%+v", checks)
	}
	if checks := (System{GOOS: "linux"}).graphics(); checks != nil {
		t.Errorf("with a GPU: %+v", checks)
	}
}

func TestVariables(t *testing.T) {
	env := map[string]string{"LD_LIBRARY_PATH": "/usr/local/cuda/lib64/stubs", "CUDA_VISIBLE_DEVICES": "-1"}
	checks := System{Env: func(n string) string { return env[n] }}.variables()
	if c := find(t, checks, "environment"); len(c.More) != 2 {
		t.Errorf("%+v", c)
	}
	for _, name := range []string{"LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES"} {
		if c := find(t, checks, name); c.Status != Warning || c.Fix == "" {
			t.Errorf("%+v", c)
		}
	}
}

func TestExamineHere(t *testing.T) {
	locus.AddVirtualGPUs(1, 16<<20)
	checks := Examine(Here(os.Getenv))
	for _, c := range checks {
		if c.Name == "" || c.Found == "" || c.Status == Problem {
			t.Errorf("%+v", c)
		}
	}
	if c := find(t, checks, "CPU"); c.Status == Missing {
		t.Errorf("%+v", c)
	}
	if c := find(t, checks, "virtual GPUs"); c.Status != OK {
		t.Errorf("%+v", c)
	}
}

// Every library that a card can use has a row, whether it is there or not, and the
// variables that the fixes name are known.
func TestLibraries(t *testing.T) {
	checks := libraries("gpu:0", []locus.Library{{Name: "cuFFT", Path: "/lib/libcufft.so.12", Serves: "Fourier transforms"}})
	if c := find(t, checks, "gpu:0 cuFFT"); c.Status != OK || c.Found != "/lib/libcufft.so.12 for Fourier transforms" {
		t.Errorf("%+v", c)
	}
	for _, name := range []string{"cuBLAS", "cuBLASLt", "cuDNN", "cuSOLVER", "NVML"} {
		if c := find(t, checks, "gpu:0 "+name); c.Status != Warning || !strings.Contains(c.Fix, "LOCUS_"+strings.ToUpper(name)) || !slices.Contains(known, "LOCUS_"+strings.ToUpper(name)) {
			t.Errorf("%+v", c)
		}
	}
}

// A device that cannot compute is a problem with a fix.
func TestGPUThatFails(t *testing.T) {
	c := gpu(locus.DeviceInfo{Device: locus.GPU(1 << 10), Name: "a card that fell off the bus"})[0]
	if c.Status != Problem || c.Fix == "" || strings.Contains(c.Found, "\n") {
		t.Errorf("%+v", c)
	}
}

func TestCache(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", dir)
	t.Setenv("HOME", dir)
	t.Setenv("LocalAppData", dir)
	if c := (System{Env: os.Getenv}).cache(); c.Status != OK || !strings.HasPrefix(c.Found, dir) {
		t.Errorf("%+v", c)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("the check left %v", left)
	}
}

func TestBLAS(t *testing.T) {
	with := func(value string) System {
		return System{Env: func(name string) string {
			if name == "LOCUS_BLAS" {
				return value
			}
			return ""
		}}
	}
	for _, value := range []string{"", "off"} {
		if checks := with(value).blas(); len(checks) != 0 {
			t.Errorf("LOCUS_BLAS=%q: %+v", value, checks)
		}
	}
	c := find(t, with(filepath.Join(t.TempDir(), "none.so")).blas(), "BLAS")
	if c.Status != Problem || !strings.Contains(c.Found, "BLAS library") || !strings.Contains(c.Fix, "LOCUS_BLAS") {
		t.Errorf("a file that is not there: %+v", c)
	}
	l := blastest.Open(t)
	defer locus.UseBLAS("off")
	c = find(t, with(l.Path).blas(), "BLAS")
	if c.Status == Problem || !strings.Contains(c.Found, l.Path) {
		t.Errorf("%s: %+v", l.Path, c)
	}
}

// Values and names that cannot be meant are found.
func TestVariablesThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct{ value, fix string }{
		"LOCUS_CPU_LEVEL": {"foo", "generic"}, "LOCUS_THREADS": {"-3", "1 or more"}, "LOCUS_VIRTUAL_GPUS": {"two", "512MiB"}, "LOCUS_VIRTUAL_GPU": {"2", "did you mean LOCUS_VIRTUAL_GPUS?"},
		"LOCUS_BANANA": {"1", "unset it"},
	} {
		s := System{Env: func(n string) string {
			if n == name {
				return c.value
			}
			return ""
		}, Environ: []string{name + "=" + c.value, "HOME=/"}}
		checks := s.values()
		if len(checks) != 1 || checks[0].Name != name || checks[0].Status != Warning || !strings.Contains(checks[0].Fix, c.fix) {
			t.Errorf("%s: %+v", name, checks)
		}
	}
	for name, v := range map[string]string{"LOCUS_CPU_LEVEL": "Generic", "LOCUS_THREADS": " 4 ", "LOCUS_VIRTUAL_GPUS": "2:64MiB", "LOCUS_CUDA": "off", "LOCUS_TEST_CHILD": "1", "PATH": "x"} {
		s := System{Env: func(n string) string {
			if n == name {
				return v
			}
			return ""
		}, Environ: []string{name + "=" + v}}
		if checks := s.values(); len(checks) != 0 {
			t.Errorf("%s=%s: %+v", name, v, checks)
		}
	}
}
