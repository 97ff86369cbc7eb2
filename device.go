package locus

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/locusml/locus/internal/gate"
)

// Device names a place where tensors live and ops run: the CPU (all cores and
// the main memory) or one GPU. It is a plain value: compare it with ==, use it
// as a map key. The zero Device is the CPU.
//
// Naming a GPU does not need one to exist; creating a tensor there does.
//
// A Device is also where tensors are made: see [Device.Zeros], [Device.From] and
// the other methods of the same names as the package's functions.
type Device struct {
	gpu   bool
	index int32
}

// CPU is the machine's processor: all its cores. It takes an index only for
// those used to writing one; any index means the same CPU.
func CPU(index ...int) Device { return Device{} }

// GPU names the GPU with the given index, 0 if none is given.
func GPU(index ...int) Device {
	i := 0
	if len(index) > 0 {
		i = index[0]
	}
	if len(index) > 1 || i < 0 || i > 1<<20 {
		failf("GPU", ErrDevice, nil, "GPU%v is not a device; GPUs are numbered from 0", index)
	}
	return Device{gpu: true, index: int32(i)}
}

// IsGPU reports whether d is a GPU.
func (d Device) IsGPU() bool { return d.gpu }

// Index is the GPU's number; 0 for the CPU.
func (d Device) Index() int { return int(d.index) }

// String returns the canonical name: "cpu", "gpu:0".
func (d Device) String() string {
	if d.gpu {
		return "gpu:" + strconv.Itoa(int(d.index))
	}
	return "cpu"
}

// MarshalText returns the canonical name, so that a Device works in JSON and flags.
func (d Device) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads a name as [ParseDevice] does.
func (d *Device) UnmarshalText(text []byte) error {
	gate.Check("Device.UnmarshalText", gate.Made(d != nil, "unmarshal into a Device"))
	p, err := ParseDevice(string(text))
	if err == nil {
		*d = p
	}
	return err
}

// ParseDevice reads a device's name in any common spelling, in upper or
// lower case: cpu, gpu, gpu:1, cuda:1, gpu(1), /GPU:1, /device:GPU:1. It does not
// check whether that GPU exists.
func ParseDevice(s string) (Device, error) {
	name := strings.ToLower(strings.TrimSpace(s))
	rest := strings.TrimPrefix(strings.TrimPrefix(name, "/device:"), "/")
	kind := rest
	index := ""
	if i := strings.IndexAny(rest, ":("); i >= 0 {
		kind, index = rest[:i], rest[i:]
	}
	d := Device{gpu: kind == "gpu" || kind == "cuda"}
	if !d.gpu && kind != "cpu" {
		return Device{}, badDevice(s)
	}
	n, ok := parseIndex(index)
	if !ok {
		return Device{}, badDevice(s)
	}
	if d.gpu {
		d.index = n
	}
	return d, nil
}

// parseIndex reads "", ":1", "(1)" and "()".
func parseIndex(s string) (int32, bool) {
	switch {
	case s == "" || s == "()":
		return 0, true
	case strings.HasPrefix(s, ":"):
		s = s[1:]
	case strings.HasPrefix(s, "(") && strings.HasSuffix(s, ")"):
		s = s[1 : len(s)-1]
	default:
		return 0, false
	}
	if s == "" || len(s) > 6 {
		return 0, false
	}
	n := int32(0)
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + (c - '0')
	}
	return n, true
}

func badDevice(s string) error {
	e := &Error{Kind: ErrDevice, Op: "ParseDevice", Msg: fmt.Sprintf("%q is not a device; visible are %s", s, visible())}
	if near := nearestDevice(s); near != "" {
		e.Fix = fmt.Sprintf("did you mean %q?", near)
	}
	return e
}

// nearestDevice offers the visible name that takes the fewest edits, if it
// takes few.
func nearestDevice(s string) string {
	best, bestCost := "", 3
	s = strings.ToLower(s)
	if len(s) > 32 {
		return ""
	}
	for _, d := range allDevices() {
		for _, name := range []string{d.String(), strings.Replace(d.String(), ":0", "", 1)} {
			if c := editDistance(s, name); c < bestCost {
				best, bestCost = name, c
			}
		}
	}
	return best
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diag
			if a[i-1] != b[j-1] {
				cost++
			}
			diag = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
