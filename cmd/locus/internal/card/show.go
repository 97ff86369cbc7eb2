package card

import (
	"fmt"
	"strings"

	"github.com/locusml/locus/cmd/locus/internal/text"
	"github.com/locusml/locus/internal/units"
)

// wide is the number of columns from which a device takes one row.
const wide = 120

// Show prints the machine.
func (m Machine) Show(o *text.Out) {
	if o.Width >= wide {
		m.table(o)
	} else {
		m.list(o)
	}
	if m.NoGPU != "" {
		o.Println()
		o.Text(o.Style(text.Yellow, "No real GPU") + ": " + m.NoGPU + ".")
		o.Text("To fix: " + m.Hint + ".")
		if !m.hasGPU() {
			o.Text("Meanwhile --virtual-gpus 2 (or LOCUS_VIRTUAL_GPUS=2) adds GPUs that live in main memory.")
		}
	}
}

func (m Machine) hasGPU() bool {
	for _, c := range m.Devices {
		if c.Device.IsGPU() {
			return true
		}
	}
	return false
}

// list prints a few lines a device.
func (m Machine) list(o *text.Out) {
	for i, c := range m.Devices {
		if i > 0 {
			o.Println()
		}
		o.Println(text.Pad(o.Style(text.Bold, c.Device.String()), 8) + o.Style(text.Bold, c.Name))
		line := func(s string) { o.Println("        " + s) }
		for _, l := range text.Wrap(c.backing(), o.Width-8) {
			line(o.Style(text.Dim, l))
		}
		line(c.bar(o, 24))
		if s := c.sensors(); s != "" {
			line(s)
		}
		for _, l := range c.Libraries {
			line(o.Style(text.Dim, text.CutMiddle(fmt.Sprintf("%-8s %s", l.Name, l.Path), o.Width-8)))
		}
	}
}

// table prints a row per device, and the libraries below.
func (m Machine) table(o *text.Out) {
	t := &text.Table{Head: []string{"device", "name", "memory", "load", "temp", "power", "backed by"}, Right: map[int]bool{3: true, 4: true, 5: true}, Shrink: 6}
	for _, c := range m.Devices {
		load, temp, power := c.figures()
		t.Add(o.Style(text.Bold, c.Device.String()), c.Name, c.bar(o, 16), load, temp, power, c.shortBacking())
	}
	o.Table(t, 0)
	for _, c := range m.Devices {
		for i, l := range c.Libraries {
			if i == 0 {
				o.Println()
			}
			o.Println(o.Style(text.Dim, text.CutMiddle(fmt.Sprintf("%s  %-8s %s (%s)", c.Device, l.Name, l.Path, l.Serves), o.Width)))
		}
	}
}

func (c Card) shortBacking() string {
	if c.Kind == "virtual gpu" {
		return c.Backing + ", computed by the CPU"
	}
	return c.Backing
}

func (c Card) backing() string {
	s := c.shortBacking()
	if c.Multiprocessors > 0 {
		s += fmt.Sprintf(", %d multiprocessors", c.Multiprocessors)
	}
	if c.PCI != "" {
		s += ", PCI " + c.PCI
	}
	return s
}

func (c Card) bar(o *text.Out, width int) string {
	if c.Memory.Total <= 0 {
		return "memory unknown"
	}
	part := float64(c.Memory.Used) / float64(c.Memory.Total)
	return fmt.Sprintf("%s %s of %s", o.Bar(part, width), units.Bytes(c.Memory.Used), units.Bytes(c.Memory.Total))
}

// figures returns what the sensors measure.
func (c Card) figures() (load, temp, power string) {
	s := c.Sensors
	if s == nil {
		return "-", "-", "-"
	}
	load, temp, power = "-", "-", "-"
	if s.Utilization != nil {
		load = fmt.Sprintf("%d %%", *s.Utilization)
	}
	if s.Temperature != nil {
		temp = fmt.Sprintf("%d °C", *s.Temperature)
	}
	if s.Power != nil {
		power = fmt.Sprintf("%.0f W", *s.Power)
	}
	return load, temp, power
}

// sensors returns them in a line, "" if there are none.
func (c Card) sensors() string {
	if c.Sensors == nil {
		return c.NoSensors
	}
	load, temp, power := c.figures()
	return strings.Join([]string{"load " + load, temp, power}, "   ")
}
