package bench

import (
	"github.com/locusml/locus"
	"github.com/locusml/locus/nn"
)

// Parameter is what it takes to touch a parameter of a size.
type Parameter struct {
	Elements int    `json:"elements"`
	Write    Timing `json:"write"`     // from a Go slice to the device
	Read     Timing `json:"read"`      // from the device to a Go slice
	OnDevice Timing `json:"on_device"` // scaled where it is
	ByHost   Timing `json:"by_host"`   // read, scaled in Go, written back
}

// Bytes is the size of the parameter.
func (p Parameter) Bytes() int { return 4 * p.Elements }

// Parameters is the second exercise.
type Parameters struct {
	Rows []Parameter `json:"rows"`
}

func (m *meter) parameters() error {
	r := &Parameters{}
	for _, n := range []int{1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22} {
		row, err := m.parameter(m.Results.GPU.Device, n)
		if err != nil {
			return err
		}
		r.Rows = append(r.Rows, row)
	}
	m.Parameters = r
	return nil
}

func (m *meter) parameter(d locus.Device, n int) (Parameter, error) {
	host := make([]float32, n)
	for i := range host {
		host[i] = float32(i%13) / 13
	}
	value := d.From(host)
	p := nn.NewParameter(value)
	defer func() { value.Free() }()
	// set puts a value in place and frees the one before, as an optimizer does.
	set := func(t *locus.Tensor) {
		p.Set(t)
		value.Free()
		value = t
	}
	row := Parameter{Elements: n}
	for _, what := range []struct {
		into *Timing
		f    func()
	}{
		{&row.Write, func() { set(d.From(host)) }},
		{&row.Read, func() { locus.CopyToSlice(host, p.Value()) }},
		{&row.OnDevice, func() { set(p.Value().Detach().Mul(0.999)) }},
		{&row.ByHost, func() {
			locus.CopyToSlice(host, p.Value())
			for i := range host {
				host[i] *= 0.999
			}
			set(d.From(host))
		}},
	} {
		t, err := m.time(func(*locus.Scope) {
			what.f()
			wait(d)
		})
		if err != nil {
			return row, err
		}
		*what.into = t
	}
	return row, nil
}
