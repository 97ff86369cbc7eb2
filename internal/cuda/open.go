//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
)

//go:generate go run ./kernels/gen

// Attributes of a device, as the driver numbers them.
const (
	attrMultiprocessors = 16
	attrMajor           = 75
	attrMinor           = 76
	attrSharedOptIn     = 97
)

var opened struct {
	once    sync.Once
	devices []*Device
	err     error
}

// Open finds the machine's NVIDIA GPUs. It never panics and may be called often: the
// first call decides. On a machine without a usable GPU it returns an error that
// names the cause and, where there is one, the remedy. Nothing is set up on a card
// until it is used.
func Open() ([]*Device, error) {
	opened.once.Do(func() {
		d, err := loadDriver()
		if err == nil {
			opened.devices, err = d.open()
		}
		if err != nil {
			opened.err = fmt.Errorf("no NVIDIA GPU can be used: %w", err)
		}
	})
	return opened.devices, opened.err
}

// open starts the driver and lists its devices.
func (d *driver) open() ([]*Device, error) {
	if err := d.check("cuInit", d.Init(0)); err != nil {
		return nil, withRemedy(err)
	}
	var version, count int32
	if err := d.check("cuDriverGetVersion", d.DriverGetVersion(&version)); err != nil {
		return nil, err
	}
	d.version = int(version)
	d.name = driverName(d.path, d.version)
	if d.version < minDriver {
		return nil, fmt.Errorf("the driver (%s) supports CUDA %s; update it to one that supports CUDA %s or later",
			d.path, cudaVersion(d.version), cudaVersion(minDriver))
	}
	if err := d.check("cuDeviceGetCount", d.DeviceGetCount(&count)); err != nil {
		return nil, withRemedy(err)
	}
	var devices []*Device
	for i := range count {
		c, err := d.card(i)
		if err != nil {
			return nil, err
		}
		if c.major < 7 {
			continue // older than the kernels' instructions
		}
		devices = append(devices, newDevice(c, 0, c.name))
	}
	if len(devices) == 0 {
		if count > 0 {
			return nil, fmt.Errorf("the %d cards of this machine are older than compute capability 7.0", count)
		}
		return nil, withRemedy(&Error{Call: "cuDeviceGetCount", Result: 100})
	}
	return devices, nil
}

func (d *driver) card(ordinal int32) (*card, error) {
	c := &card{drv: d, ordinal: int(ordinal), kernels: map[string]*kernel{}, peers: map[*card]bool{}}
	if err := d.check("cuDeviceGet", d.DeviceGet(&c.dev, ordinal)); err != nil {
		return nil, err
	}
	buf := make([]byte, 256)
	if err := d.check("cuDeviceGetName", d.DeviceGetName(&buf[0], int32(len(buf)), c.dev)); err != nil {
		return nil, err
	}
	c.name = cString(&buf[0])
	if d.DeviceGetPCIBusId(&buf[0], int32(len(buf)), c.dev) == success {
		c.pci = cString(&buf[0])
	}
	var total uint64
	if err := d.check("cuDeviceTotalMem", d.DeviceTotalMem(&total, c.dev)); err != nil {
		return nil, err
	}
	c.total = int64(total)
	for attr, v := range map[int32]*int{attrMultiprocessors: &c.sms, attrMajor: &c.major, attrMinor: &c.minor, attrSharedOptIn: &c.sharedMax} {
		var x int32
		if err := d.check("cuDeviceGetAttribute", d.DeviceGetAttribute(&x, attr, c.dev)); err != nil {
			return nil, err
		}
		*v = int(x)
	}
	return c, nil
}

// withRemedy adds what to do about a failure to start.
func withRemedy(err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	remedy := ""
	switch e.Result {
	case 34:
		remedy = "a stub of the CUDA toolkit was loaded; take its folder out of LD_LIBRARY_PATH and install the driver"
	case 100:
		remedy = "the driver is there but shows no card"
		if v, ok := os.LookupEnv("CUDA_VISIBLE_DEVICES"); ok {
			remedy += fmt.Sprintf("; CUDA_VISIBLE_DEVICES=%q may hide it", v)
		}
	case 46, 2:
		remedy = "another process holds the card (see nvidia-smi), or its compute mode is exclusive"
	case 803:
		remedy = "the driver was updated while its kernel module was loaded: restart the machine"
	case 802:
		remedy = "start the NVIDIA fabric manager, or wait until it has started"
	case 804:
		remedy = "this libcuda comes from a compatibility package that does not support the card: remove it, or update the driver"
	}
	if nodes := deviceNodes("/dev"); nodes != "" {
		remedy = strings.TrimPrefix(remedy+"; "+nodes, "; ")
	}
	if remedy == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, remedy)
}

// deviceNodes says what is wrong with the device files, if something is.
func deviceNodes(dev string) string {
	f, err := os.OpenFile(dev+"/nvidiactl", os.O_RDWR, 0)
	switch {
	case err == nil:
		f.Close()
		return ""
	case errors.Is(err, os.ErrPermission):
		return "no permission to open " + dev + "/nvidiactl: add the user to the group that owns it (often video or render)"
	case errors.Is(err, os.ErrNotExist):
		if _, err := os.Stat(dev + "/dxg"); err == nil {
			return "" // WSL
		}
		return "there is no " + dev + "/nvidiactl: load the kernel module (nvidia-modprobe), or give the container the GPU (--gpus all)"
	}
	return err.Error()
}
