package optest

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/locusml/locus"
)

// TestCount holds the suite to its size.
func TestCount(t *testing.T) {
	dtypes, samples := map[string]bool{}, map[string]bool{}
	for _, c := range records(t) {
		lookup(t, c)
		dtypes[c.Op+c.DType.String()] = true
		samples[fmt.Sprint(c.Op, c.Sample)] = true
	}
	n, r := len(records(t)), len(table())
	t.Logf("%d ops, %d op × dtype × sample cases (%d samples, %d op × dtype)", r, n, len(samples), len(dtypes))
	if n < 1500 {
		t.Errorf("%d cases, want at least 1500", n)
	}
	if r < 150 {
		t.Errorf("%d ops, want at least 150", r)
	}
	for name, o := range table() {
		recorded := 0
		for _, d := range o.DTypes.List() {
			if dtypes[name+d.String()] {
				recorded++
			}
		}
		if recorded == 0 {
			t.Errorf("%s has no records: add samples to testdata/ops.py or more.py, and run testdata/record.py", name)
		}
	}
}

// TestForward compares what ops compute with what PyTorch does, on every device;
// the virtual GPU with the CPU bit by bit.
func TestForward(t *testing.T) {
	cpu := map[*Case][][]byte{}
	onDevices(t, func(t *testing.T, d locus.Device) {
		for i, c := range records(t) {
			if i%every(5) != 0 {
				continue
			}
			o := lookup(t, c)
			var out []*locus.Tensor
			if err := guarded(func() {
				out = c.Call(o, d, c.Inputs(d, c.DType))
				if len(out) != len(c.Out) {
					t.Errorf("%s: gave %d results, want %d", c, len(out), len(c.Out))
					return
				}
				for k, got := range out {
					if err := c.Out[k].check(got, o, 0); err != nil {
						t.Errorf("%s%s: result %d %v", c, describe(c), k, err)
					}
					if got.Device() != d {
						t.Errorf("%s: result %d is on %s", c, k, got.Device())
					}
				}
				switch {
				case d == locus.CPU():
					cpu[c] = bits(out)
				case d == virtual && !sameBits(cpu[c], bits(out)):
					t.Errorf("%s: the virtual GPU's result is not the CPU's", c)
				}
			}); err != nil {
				t.Errorf("%s%s: %v", c, describe(c), err)
			}
		}
	})
}

// describe lists the operands' shapes and the attributes.
func describe(c *Case) string {
	s := " "
	for _, a := range c.In {
		s += fmt.Sprint(a.Shape)
	}
	if len(c.attrs) > 0 {
		s += fmt.Sprint(c.attrs)
	}
	return s
}

func bits(ts []*locus.Tensor) [][]byte {
	var l [][]byte
	for _, t := range ts {
		var b []byte
		for _, v := range values(t) {
			u := math.Float64bits(v)
			if v != v { // NaN has many forms
				u = 1
			}
			for range 8 {
				b = append(b, byte(u))
				u >>= 8
			}
		}
		l = append(l, b)
	}
	return l
}

func sameBits(a, b [][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}
