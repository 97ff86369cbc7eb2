//go:build !linux || !(amd64 || arm64) || nocuda

package cuda

import (
	"errors"
	"sync/atomic"

	"github.com/locusml/locus/internal/backend"
)

// Device is a GPU; this build has none.
type Device struct{ backend.Device }

// Library is a file of NVIDIA's that does a part of the work.
type Library struct{ Name, Path, Serves string }

// Details describes a card; this build has none.
type Details struct {
	ComputeCapability, Driver, PCI string
	Multiprocessors                int
	Memory                         int64
	Libraries                      []Library
}

// Telemetry is the state of a card; this build has none.
type Telemetry struct {
	Utilization, Temperature int
	Power                    float64
	MemoryUsed               int64
}

var errNoCUDA = errors.New("no NVIDIA GPU can be used: this program was built without CUDA (it needs linux on amd64 or arm64, and no build tag nocuda)")

// Open reports that this build has no CUDA.
func Open() ([]*Device, error) { return nil, errNoCUDA }

// Details is never reached: there are no devices.
func (*Device) Details() Details { return Details{} }

// Telemetry is never reached: there are no devices.
func (*Device) Telemetry() (Telemetry, error) { return Telemetry{}, errNoCUDA }

// Launches is never reached: there are no devices.
func (*Device) Launches() Launches { return Launches{} }

// Split is never reached: there are no devices.
func (*Device) Split(...int64) ([]*Device, error) { return nil, errNoCUDA }

// SetTF32 does nothing in this build.
func SetTF32(on bool) { tf32.Store(on) }

// TF32 reports whether float32 products may use TF32.
func TF32() bool { return tf32.Load() }

var tf32 atomic.Bool
