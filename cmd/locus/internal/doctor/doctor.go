// Package doctor looks for everything that Locus can use on a machine and says
// what was found, what was not, and what to do about it.
package doctor

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/cmd/locus/internal/text"
	"github.com/locusml/locus/internal/cachedir"
	"github.com/locusml/locus/internal/cpu"
	"github.com/locusml/locus/internal/units"
)

// Status is how a check ended.
type Status string

// The ends of a check.
const (
	OK      Status = "ok"
	Missing Status = "missing" // not there, and not needed
	Warning Status = "warning" // works, but not as it should
	Problem Status = "problem" // does not work
)

// Check is one thing that was looked for.
type Check struct {
	Name   string   `json:"name"`
	Status Status   `json:"status"`
	Found  string   `json:"found"`
	More   []string `json:"more,omitempty"` // for those who want to know
	Fix    string   `json:"fix,omitempty"`
}

// System is what the doctor looks at besides devices; tests have others.
type System struct {
	Env     func(string) string
	Environ []string // all of it, as os.Environ
	Root    string   // what stands before /dev, /proc, /sys and /usr
	GOOS    string
	WhyNo   error // why there is no real GPU
}

// Here is this machine.
func Here(env func(string) string) System {
	return System{Env: env, Environ: os.Environ(), Root: "/", GOOS: runtime.GOOS, WhyNo: locus.WhyNoGPU()}
}

// Examine makes all checks.
func Examine(s System) []Check {
	checks := []Check{processor()}
	checks = append(checks, s.blas()...)
	checks = append(checks, s.graphics()...)
	for _, i := range locus.Devices()[1:] {
		checks = append(checks, gpu(i)...)
	}
	checks = append(checks, s.virtual(), s.collectives())
	checks = append(checks, s.variables()...)
	return append(checks, s.fashion(), s.cache())
}

func processor() Check {
	i := locus.Devices()[0]
	c := Check{Name: "CPU", Status: OK, Found: fmt.Sprintf("%s (%s)", i.Name, i.Backing)}
	if i.Total > 0 {
		c.Found += fmt.Sprintf(", %s of %s free", units.Bytes(i.Free), units.Bytes(i.Total))
	}
	if err := computes(i.Device); err != nil {
		return Check{Name: c.Name, Status: Problem, Found: err.Error(), Fix: "please report this with the name of the processor"}
	}
	switch {
	case runtime.GOMAXPROCS(0) < runtime.NumCPU():
		c.More = append(c.More, fmt.Sprintf("uses %d of %d cores: GOMAXPROCS, or the container's limit", runtime.GOMAXPROCS(0), runtime.NumCPU()))
	case strings.Contains(i.Backing, "plain Go"):
		c.Status, c.Fix = Warning, "this processor has no vector instructions that Locus knows; products are slow"
	}
	return c
}

// blas looks at the library that multiplies matrices, if one was asked for.
func (s System) blas() []Check {
	c := Check{Name: "BLAS", Status: OK}
	asked := strings.TrimSpace(s.Env("LOCUS_BLAS"))
	if asked != "" && cpu.BLAS() == nil { // once more, for the error
		if err := cpu.UseBLAS(asked); err != nil {
			first, rest, _ := strings.Cut(err.Error(), "\n")
			c.Status, c.Found, c.Fix = Problem, first, "set LOCUS_BLAS to openblas, mkl or the path of a library, or unset it: nothing needs it"
			if rest != "" {
				c.More = strings.Split(rest, "\n")
			}
			return []Check{c}
		}
	}
	l := locus.CPU().Details().Libraries
	if len(l) == 0 {
		return nil // not asked for, not needed: not worth a line
	}
	c.Found = l[0].Path + " for " + l[0].Serves
	if why := cpu.SlowBLAS(); why != "" {
		c.Status, c.Fix = Warning, why
	}
	return []Check{c}
}

// computes multiplies two matrices and compares with what must come out.
func computes(d locus.Device) error {
	const n = 65
	var worst float64
	err := locus.Try(func() {
		locus.Scoped(func(s *locus.Scope) {
			a := s.Adopt(d.Arange(n*n).Cast(locus.Float32)).Reshape(n, n).Mod(7)
			got := locus.ToSlice[float32](a.MatMul(s.Adopt(d.Eye(n))).Add(a))
			for i, v := range got {
				worst = max(worst, math.Abs(float64(v)-2*float64(i%7)))
			}
		})
	})
	if err != nil {
		return err
	}
	if worst != 0 {
		return fmt.Errorf("%s computes wrongly: a product is off by %v", d, worst)
	}
	return nil
}

// others says what is not supported, where somebody may look for it.
const others = "AMD, Apple and Intel GPUs are not supported yet"

// graphics looks for NVIDIA's cards, driver and device files, from the hardware
// up, so that the first thing missing is the one to fix.
func (s System) graphics() []Check {
	if s.WhyNo == nil {
		return nil
	}
	if s.GOOS != "linux" {
		return []Check{{Name: "NVIDIA GPU", Status: Missing, Found: "this build cannot use one", Fix: "CUDA is supported on Linux only, on amd64 or arm64; " + others}}
	}
	lines := strings.Split(s.WhyNo.Error(), "\n")
	checks := []Check{s.cards(), s.module()}
	noCard := checks[0].Status == Missing && checks[1].Status == Missing
	driver := Check{Name: "NVIDIA driver", Status: Problem, Found: strings.TrimSuffix(strings.TrimSuffix(lines[0], ":"), "; tried, in this order"), More: lines[1:]}
	switch {
	case strings.Contains(driver.Found, "switched off"):
		driver.Status, driver.Fix = Missing, "unset LOCUS_CUDA"
	case noCard:
		driver.Status, driver.Fix = Missing, "nothing to do unless the machine has an NVIDIA card; in a container, pass it in (docker run --gpus all)"
	case strings.Contains(driver.Found, "was not found"):
		driver.Fix = "install NVIDIA's driver (Debian: nvidia-driver, Ubuntu: ubuntu-drivers install); no CUDA toolkit is needed"
	}
	return append(checks, driver)
}

// cards asks the PCI bus.
func (s System) cards() Check {
	var found []string
	vendors, _ := filepath.Glob(filepath.Join(s.Root, "sys/bus/pci/devices/*/vendor"))
	for _, f := range vendors {
		vendor, _ := os.ReadFile(f)
		class, _ := os.ReadFile(filepath.Join(filepath.Dir(f), "class"))
		if strings.TrimSpace(string(vendor)) == "0x10de" && strings.HasPrefix(string(class), "0x03") {
			found = append(found, filepath.Base(filepath.Dir(f)))
		}
	}
	if len(found) == 0 {
		return Check{Name: "NVIDIA card", Status: Missing, Found: "none on the PCI bus; " + others}
	}
	return Check{Name: "NVIDIA card", Status: OK, Found: text.Many(len(found), "card") + " on the PCI bus", More: found}
}

// module looks for the kernel's part of the driver.
func (s System) module() Check {
	c := Check{Name: "kernel module", Status: OK}
	b, err := os.ReadFile(filepath.Join(s.Root, "proc/driver/nvidia/version"))
	if err == nil {
		c.Found, _, _ = strings.Cut(string(b), "\n")
		return c
	}
	if _, err := os.Stat(filepath.Join(s.Root, "dev/dxg")); err == nil {
		c.Found = "WSL's /dev/dxg"
		return c
	}
	return Check{Name: c.Name, Status: Missing, Found: "not loaded (no /proc/driver/nvidia)"}
}

// gpu tries a GPU, and looks for the libraries that make a real one faster.
func gpu(i locus.DeviceInfo) []Check {
	name := i.Device.String()
	c := Check{Name: name, Status: OK, Found: fmt.Sprintf("%s (%s), %s of %s free", i.Name, i.Backing, units.Bytes(i.Free), units.Bytes(i.Total))}
	if err := computes(i.Device); err != nil {
		first, rest, _ := strings.Cut(err.Error(), "\n")
		c.Status, c.Found, c.Fix = Problem, first, "see nvidia-smi for the processes that use the card, and dmesg for errors of the driver (NVRM: Xid)"
		if rest != "" {
			c.More = strings.Split(rest, "\n")
		}
		return []Check{c}
	}
	details := i.Device.Details()
	checks := []Check{c}
	if details.Virtual {
		return checks
	}
	return append(checks, libraries(name, details.Libraries)...)
}

// libraries has a check for each of NVIDIA's libraries that Locus can use, of which those
// in found are there.
func libraries(device string, found []locus.Library) []Check {
	var checks []Check
	for _, want := range []struct{ name, without, fix string }{
		{"cuBLAS", "batches of matrix products are slower", "install libcublas (part of the CUDA toolkit, or pip install nvidia-cublas), or point LOCUS_CUBLAS to it"},
		{"cuBLASLt", "single matrix products are slower", "install libcublas, which it is part of (pip install nvidia-cublas), or point LOCUS_CUBLASLT to it"},
		{"cuDNN", "convolutions and long attention are slower", "install libcudnn9 (or pip install nvidia-cudnn-cu13), or point LOCUS_CUDNN to it"},
		{"cuSOLVER", "factorizations of large matrices are computed in main memory", "install libcusolver (part of the CUDA toolkit, or pip install nvidia-cusolver), or point LOCUS_CUSOLVER to it; it needs cuBLAS"},
		{"cuFFT", "Fourier transforms are computed in main memory", "install libcufft (part of the CUDA toolkit, or pip install nvidia-cufft), or point LOCUS_CUFFT to it"},
		{"NVML", "load, temperature and power are not known", "it comes with the driver; point LOCUS_NVML to libnvidia-ml.so.1"},
	} {
		c := Check{Name: device + " " + want.name, Status: Warning, Found: "not found; everything works, but " + want.without, Fix: want.fix}
		if at := slices.IndexFunc(found, func(l locus.Library) bool { return l.Name == want.name }); at >= 0 {
			c = Check{Name: c.Name, Status: OK, Found: found[at].Path + " for " + found[at].Serves}
		}
		checks = append(checks, c)
	}
	return checks
}

func (s System) virtual() Check {
	n := 0
	for _, i := range locus.Devices() {
		if i.Device.Details().Virtual {
			n++
		}
	}
	if n == 0 {
		return Check{Name: "virtual GPUs", Status: Missing, Found: "none asked for", Fix: "LOCUS_VIRTUAL_GPUS=2 adds two to any Locus program"}
	}
	return Check{Name: "virtual GPUs", Status: OK, Found: fmt.Sprint(n)}
}

// variables lists those that change what Locus does.
func (s System) variables() []Check {
	var set []string
	for _, name := range append(slices.Clone(known), "OPENBLAS_CORETYPE", "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH", "GOMAXPROCS", "GOMEMLIMIT") {
		if v := s.Env(name); v != "" {
			if name == "LOCUS_TOKEN" {
				v = "(a secret)"
			}
			set = append(set, name+"="+v)
		}
	}
	c := Check{Name: "environment", Status: OK, Found: "nothing set that changes what is used"}
	if len(set) > 0 {
		c.Found, c.More = text.Many(len(set), "variable")+" set", set
	}
	checks := []Check{c}
	for _, p := range filepath.SplitList(s.Env("LD_LIBRARY_PATH")) {
		if strings.Contains(p, "stubs") {
			checks = append(checks, Check{Name: "LD_LIBRARY_PATH", Status: Warning, Found: p + " holds libraries for linking that cannot run", Fix: "take it out of LD_LIBRARY_PATH"})
		}
	}
	if v := s.Env("CUDA_VISIBLE_DEVICES"); v == "-1" || strings.EqualFold(v, "none") {
		checks = append(checks, Check{Name: "CUDA_VISIBLE_DEVICES", Status: Warning, Found: "hides all GPUs", Fix: "unset it"})
	}
	return append(checks, s.values()...)
}

func (s System) fashion() Check {
	folders := []string{filepath.Join(s.Root, "usr/share/datasets/fashion-mnist")}
	if cache, err := cachedir.Path(); err == nil {
		folders = append(folders, filepath.Join(cache, "fashion-mnist"))
	}
	for _, f := range folders {
		if found, _ := filepath.Glob(filepath.Join(f, "train-images*")); len(found) > 0 {
			return Check{Name: "Fashion-MNIST", Status: OK, Found: f}
		}
	}
	return Check{Name: "Fashion-MNIST", Status: Missing, Found: "not on this machine; the digits are part of the program",
		Fix: "locus train --data fashion-mnist --download, or apt install dataset-fashion-mnist"}
}

// cache tries the folder for downloads.
func (s System) cache() Check {
	c := Check{Name: "download folder", Status: OK}
	folder, err := cachedir.Path()
	if err != nil {
		c.Status, c.Found, c.Fix = Warning, err.Error(), "set HOME, XDG_CACHE_HOME or LOCUS_CACHE"
		return c
	}
	c.Found = folder
	at := c.Found
	for { // the nearest folder that is there
		if info, err := os.Stat(at); err == nil && info.IsDir() {
			break
		}
		if filepath.Dir(at) == at {
			break
		}
		at = filepath.Dir(at)
	}
	f, err := os.CreateTemp(at, ".locus-*")
	if err != nil {
		c.Status, c.Found, c.Fix = Warning, err.Error(), "make it writable, or set LOCUS_CACHE to a folder that is"
		return c
	}
	f.Close()
	os.Remove(f.Name())
	return c
}
