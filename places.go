package locus

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/locusml/locus/internal/backend"
	"github.com/locusml/locus/internal/cpu"
	"github.com/locusml/locus/internal/gate"
	"github.com/locusml/locus/internal/memory"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/units"
	"github.com/locusml/locus/internal/virtual"
)

// place is an open device: what a Device names.
type place struct {
	device   Device
	backend  backend.Device
	arranger backend.Arranger // backend, if it knows images that lie channels last
	pool     *memory.Pool
	of       *place // what it stands in for while a function is traced; nil as a rule
	host     bool   // ops run on the calling goroutine; reading a value is not a transfer
}

// machine is what this process can use. GPUs are looked for when first asked for.
var machine struct {
	cpu     *place
	once    sync.Once
	mu      sync.Mutex
	gpus    atomic.Pointer[[]*place]
	whyNone error // why no real GPU was found
}

func init() {
	machine.cpu = newPlace(Device{}, cpu.Open())
	machine.cpu.host = true
}

func newPlace(d Device, b backend.Device) *place {
	pool := memory.NewPool(b).Drain(func() { b.Record().Wait() }).Behind(func() func() bool { return b.Record().Done })
	a, _ := b.(backend.Arranger)
	return &place{device: d, backend: b, arranger: a, pool: pool}
}

// gpus lists the open GPUs: real ones first, then virtual ones.
func gpus() []*place {
	machine.once.Do(func() {
		var found []backend.Device
		found, machine.whyNone = openGPUs()
		found = splitFromEnv(found)
		n, size, err := virtualFromEnv(os.Getenv("LOCUS_VIRTUAL_GPUS"))
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		for i := range n {
			found = append(found, virtual.New(i, size))
		}
		addGPUs(found)
	})
	if l := machine.gpus.Load(); l != nil {
		return *l
	}
	return nil
}

func addGPUs(found []backend.Device) []Device {
	machine.mu.Lock()
	defer machine.mu.Unlock()
	var list []*place
	if old := machine.gpus.Load(); old != nil {
		list = slices.Clone(*old)
	}
	var added []Device
	for _, b := range found {
		d := Device{gpu: true, index: int32(len(list))}
		list = append(list, newPlace(d, b))
		added = append(added, d)
	}
	machine.gpus.Store(&list)
	return added
}

// AddVirtualGPUs adds n GPUs that live in host memory, numbered after those
// that are there, and returns them. Each has its own memory with a limit of
// memory bytes (0: 1 GiB), its own ordered stream and its own counters, and
// behaves as a real one: mixing devices and running out of memory fail alike.
// The environment variable LOCUS_VIRTUAL_GPUS=2 (or 2:512MiB) does the same
// at the start of a program.
func AddVirtualGPUs(n int, memory int64) []Device {
	if memory < 0 {
		failf("AddVirtualGPUs", ErrArgument, nil, "cannot add GPUs of %d bytes", memory)
	}
	first := 0
	for _, p := range gpus() {
		if _, ok := p.backend.(*virtual.Device); ok {
			first++
		}
	}
	gate.Check("AddVirtualGPUs", gate.Count("the number of virtual GPUs to add", n, 0, maxVirtual-first))
	found := make([]backend.Device, n)
	for i := range found {
		found[i] = virtual.New(first+i, memory)
	}
	return addGPUs(found)
}

// maxVirtual is the most virtual GPUs that a program may have.
const maxVirtual = 1024

// virtualFromEnv reads "2" or "2:512MiB".
func virtualFromEnv(s string) (n int, size int64, err error) {
	if s == "" {
		return 0, 0, nil
	}
	bad := fmt.Errorf("locus: LOCUS_VIRTUAL_GPUS=%q is not a number of GPUs such as 2, or 2:512MiB; no virtual GPUs added", s)
	count, limit, hasLimit := strings.Cut(s, ":")
	n, err = strconv.Atoi(strings.TrimSpace(count))
	if err != nil || n < 0 || n > maxVirtual {
		return 0, 0, bad
	}
	if !hasLimit {
		return n, 0, nil
	}
	if size, err = ParseBytes(limit); err != nil || size <= 0 {
		return 0, 0, bad
	}
	return n, size, nil
}

// ParseBytes reads a size such as 1073741824, 512MiB, 2 GiB, 100MB.
func ParseBytes(s string) (int64, error) {
	t := strings.ToLower(strings.TrimSpace(s))
	unit := int64(1)
	for _, u := range []struct {
		suffix string
		bytes  int64
	}{{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40}, {"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12}, {"b", 1}} {
		if rest, ok := strings.CutSuffix(t, u.suffix); ok {
			t, unit = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	f, err := strconv.ParseFloat(t, 64)
	if err != nil || !(f >= 0) || f*float64(unit) > 1<<62 {
		return 0, &Error{Kind: ErrArgument, Op: "ParseBytes", Msg: fmt.Sprintf("%q is not a size such as 512MiB or 2GB", s)}
	}
	return int64(f * float64(unit)), nil
}

// find returns the open device that d names, or nil.
func (d Device) find() *place {
	if !d.gpu {
		return machine.cpu.now()
	}
	if l := gpus(); int(d.index) < len(l) {
		return l[d.index].now()
	}
	return nil
}

// open returns the open device that d names and panics if there is none.
func (d Device) open(name string) *place {
	p := d.find()
	if p == nil {
		fail(name, &op.Problem{Kind: ErrDevice, Msg: fmt.Sprintf("%s does not exist; visible are %s", d, visible()),
			Fix: fmt.Sprintf("locus.TryGPU(%d) uses the CPU where there is no such GPU; LOCUS_VIRTUAL_GPUS=%d adds virtual ones", d.index, d.index+1)})
	}
	return p
}

// Exists reports whether tensors can be created on d in this process.
func (d Device) Exists() bool { return d.find() != nil }

// NumGPUs is the number of GPUs, real and virtual.
func NumGPUs() int { return len(gpus()) }

// TryGPU returns the GPU with the given index (0 if none is given) if it exists,
// else the CPU.
func TryGPU(index ...int) Device {
	if d := GPU(index...); d.Exists() {
		return d
	}
	return CPU()
}

// TryAllGPUs returns all GPUs, or the CPU alone if there is none: never an empty
// list.
func TryAllGPUs() []Device {
	if d := allDevices()[1:]; len(d) > 0 {
		return d
	}
	return []Device{CPU()}
}

func allDevices() []Device {
	l := []Device{{}}
	for _, p := range gpus() {
		l = append(l, p.device)
	}
	return l
}

func visible() string {
	var names []string
	for _, d := range allDevices() {
		names = append(names, d.String())
	}
	return strings.Join(names, ", ")
}

// DeviceInfo describes a device to people.
type DeviceInfo struct {
	Device  Device
	Name    string // "NVIDIA H200", "AMD EPYC", "virtual GPU 0"
	Backing string // what does the work there
	Total   int64  // bytes of memory
	Free    int64  // of these, not in use by any process
}

// Devices lists everything that this process can use: the CPU, then the GPUs.
func Devices() []DeviceInfo {
	var l []DeviceInfo
	for _, d := range allDevices() {
		p := d.find()
		info := p.backend.Info()
		total, free := p.backend.Memory()
		l = append(l, DeviceInfo{d, info.Name, info.Backing, total, free})
	}
	return l
}

// WhyNoGPU says why no real GPU was found, or nil if one was.
func WhyNoGPU() error {
	gpus()
	return machine.whyNone
}

// String returns one line.
func (i DeviceInfo) String() string {
	s := fmt.Sprintf("%-6s %s (%s)", i.Device, i.Name, i.Backing)
	if i.Total > 0 {
		s += fmt.Sprintf(", %s of %s free", units.Bytes(i.Free), units.Bytes(i.Total))
	}
	return s
}

// Synchronize waits until everything queued on d has run, and returns what
// failed since the last wait.
func (d Device) Synchronize() error {
	return Try(func() {
		p := d.open("Synchronize")
		transfer(Wait, p, p, 0, func() {
			if err := p.backend.Synchronize(); err != nil {
				fail("Synchronize", err)
			}
		})
	})
}
