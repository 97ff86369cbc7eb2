package bench

import (
	"fmt"
	"math"

	"github.com/locusml/locus"
)

// Way is one way to log the norms.
type Way struct {
	Name      string `json:"name"`
	Time      Timing `json:"time"`
	Transfers int64  `json:"transfers"` // copies and waits of one run, by the ledger
}

// Log is the third exercise, on one device.
type Log struct {
	Products int           `json:"products"`
	N        int           `json:"n"`
	Devices  []LogOnDevice `json:"devices"`
}

// LogOnDevice is the exercise on one device.
type LogOnDevice struct {
	Device locus.Device `json:"device"`
	Each   Way          `json:"each"`    // every norm read when it is known
	Kept   Way          `json:"kept"`    // norms kept on the device, read at the end
	Batch  Way          `json:"batched"` // all products as one
}

const (
	logProducts = 1000
	logSize     = 100
)

func (m *meter) log() error {
	l := &Log{Products: logProducts, N: logSize}
	for _, d := range []locus.Device{locus.CPU(), m.Results.GPU.Device} {
		row, err := m.logOn(d)
		if err != nil {
			return err
		}
		l.Devices = append(l.Devices, row)
	}
	m.Log = l
	return nil
}

func (m *meter) logOn(d locus.Device) (LogOnDevice, error) {
	a := d.Key(locus.NewKey(1)).Rand(logSize, logSize)
	b := d.Key(locus.NewKey(2)).Rand(logSize, logSize)
	defer a.Free()
	defer b.Free()
	want := a.MatMul(b).Norm().Item()
	check := func(norms []float32) {
		if len(norms) != logProducts || math.Abs(float64(norms[logProducts-1])-want) > 1e-3*want {
			panic(fmt.Sprintf("a norm is wrong: %v, not %v", norms[len(norms)-1], want))
		}
	}
	each := func(s *locus.Scope) {
		norms := make([]float32, logProducts)
		for i := range norms {
			inner := locus.NewScope()
			norms[i] = float32(inner.Use(a).MatMul(b).Norm().Item())
			inner.Close()
		}
		check(norms)
	}
	kept := func(s *locus.Scope) {
		log := make([]*locus.Tensor, logProducts)
		for i := range log {
			inner := locus.NewScope()
			log[i] = s.Adopt(inner.Keep(inner.Use(a).MatMul(b).Norm()))
			inner.Close()
		}
		check(locus.ToSlice[float32](locus.Stack(0, log...)))
	}
	batched := func(s *locus.Scope) {
		batch := s.Use(a).Reshape(1, logSize, logSize).Expand(logProducts, logSize, logSize)
		check(locus.ToSlice[float32](batch.MatMul(b).Norm(1, 2)))
	}
	t, err := m.compare(each, kept, batched)
	if err != nil {
		return LogOnDevice{}, err
	}
	return LogOnDevice{Device: d,
		Each:  Way{"read each time", t[0], transfers(each)},
		Kept:  Way{"kept on the device", t[1], transfers(kept)},
		Batch: Way{"one batched product", t[2], transfers(batched)}}, nil
}

// transfers counts the copies and waits of one run.
func transfers(f func(s *locus.Scope)) int64 {
	count := func() (n int64) {
		for _, e := range locus.Ledger() {
			n += e.Count
		}
		return n
	}
	before := count()
	locus.Scoped(f)
	return count() - before
}
