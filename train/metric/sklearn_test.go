package metric_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/train/metric"
)

// recorded is one set of testdata/sklearn.json, which testdata/record.py writes.
type recorded struct {
	Name    string
	Shape   []int
	Output  []float64
	Targets []int
	Target  []float64
	Values  map[string]float64
	Table   [][]float64
}

func records(t *testing.T) []recorded {
	text, err := os.ReadFile("testdata/sklearn.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Sets []recorded }
	if err := json.Unmarshal(text, &all); err != nil || len(all.Sets) < 5 {
		t.Fatal(len(all.Sets), err)
	}
	return all.Sets
}

// metrics makes those that a set has values of.
func (r recorded) metrics(t *testing.T) []metric.Metric {
	classes := max(2, r.Shape[len(r.Shape)-1])
	averages := map[string]metric.Average{"macro": metric.Macro, "micro": metric.Micro, "weighted": metric.Weighted, "binary": metric.Binary}
	single := map[string]func() metric.Metric{"accuracy": metric.Accuracy, "mae": metric.MAE, "mse": metric.MSE, "rmse": metric.RMSE, "r2": metric.R2,
		"perplexity": func() metric.Metric { return metric.Perplexity(nil) }, "auc": func() metric.Metric { return metric.ExactAUC() },
		"top_2_accuracy": func() metric.Metric { return metric.TopK(2) }, "top_3_accuracy": func() metric.Metric { return metric.TopK(3) }}
	perClass := map[string]func(int, metric.Average) metric.Metric{"precision": metric.Precision, "recall": metric.Recall, "f1": metric.F1}
	var l []metric.Metric
	for _, name := range slices.Sorted(maps.Keys(r.Values)) {
		if f := single[name]; f != nil {
			l = append(l, f())
			continue
		}
		average, kind, _ := strings.Cut(name, "_")
		f, a := perClass[kind], averages[average]
		if f == nil || a == 0 {
			t.Fatalf("%s: no metric %s", r.Name, name)
		}
		l = append(l, metric.As(average+"_", f(classes, a)))
	}
	if r.Table != nil {
		l = append(l, metric.ConfusionMatrix(classes))
	}
	return l
}

// tensors returns outputs and targets; classes are integers.
func (r recorded) tensors(dt locus.DType) (y, want *locus.Tensor) {
	y = locus.From(r.Output, r.Shape...).Cast(dt)
	want = locus.From(r.Target, r.Targets...).Cast(dt)
	if r.Values["r2"] == 0 && r.Values["mae"] == 0 {
		want = want.Cast(locus.Int64)
	}
	return y, want
}

// Every metric is what scikit-learn computes: on every device, in float32 and
// float64, and in batches of any sizes over any devices equal to one batch on one
// device.
func TestAgainstScikitLearn(t *testing.T) {
	devices := [][]locus.Device{{locus.CPU()}, gpus[:1], gpus, {gpus[1], locus.CPU()}}
	if g := locus.TryGPU(); g != gpus[0] && g.IsGPU() {
		devices = append(devices, []locus.Device{g}, []locus.Device{g, locus.CPU()})
	}
	for _, r := range records(t) {
		for _, dt := range []locus.DType{locus.Float32, locus.Float64} {
			y, target := r.tensors(dt)
			n := r.Shape[0]
			for _, l := range devices {
				for _, size := range []int{n, 1, 7, 64} {
					meters := make([]*metric.Meter, len(l))
					for i := range meters {
						meters[i] = metric.NewMeter(r.metrics(t)...)
					}
					for from, b := 0, 0; from < n; b++ {
						to := min(n, from+size+b%3) // not all of one size
						d := l[b%len(l)]
						locus.Scoped(func(s *locus.Scope) {
							meters[b%len(l)].Add(s.Use(y.Narrow(0, from, to)).To(d), s.Use(target.Narrow(0, from, to)).To(d))
						})
						from = to
					}
					got := metric.Read(meters...)
					where := fmt.Sprintf("%s, %s on %v in batches of %d", r.Name, dt, l, size)
					for name, want := range r.Values {
						tolerance := 1e-12
						if name == "perplexity" && dt == locus.Float32 {
							tolerance = 1e-6 // the logarithms are float32
						}
						if v, ok := got.Values[name]; !ok || math.Abs(v-want) > tolerance*math.Max(1, math.Abs(want)) {
							t.Errorf("%s: %s is %v, scikit-learn has %v", where, name, v, want)
						}
					}
					if len(got.Values) != len(r.Values) {
						t.Errorf("%s: %d numbers for %d", where, len(got.Values), len(r.Values))
					}
					if r.Table != nil && fmt.Sprint(got.Tables["confusion_matrix"]) != fmt.Sprint(r.Table) {
						t.Errorf("%s: %v, scikit-learn has %v", where, got.Tables, r.Table)
					}
				}
			}
		}
	}
}

// The binned area is off by no more than its documentation says: half the part of
// the pairs that share a bin.
func TestBinsOfAUC(t *testing.T) {
	for _, r := range records(t) {
		want, ok := r.Values["auc"]
		if !ok {
			continue
		}
		y, target := r.tensors(locus.Float64)
		for _, bins := range []int{16, 1024, 0} {
			m := metric.NewMeter(metric.AUC(bins))
			m.Add(y, target)
			score := r.Output
			if r.Shape[1] == 2 {
				score = locus.ToSlice[float64](y.Narrow(1, 1, 2).Sub(y.Narrow(1, 0, 1)).Flatten())
			}
			b := float64(bins)
			if bins == 0 {
				b = 1 << 16
			}
			in := func(z float64) float64 { return math.Floor((z/(1+math.Abs(z)) + 1) * b / 2) }
			var shared, pairs float64
			for i, p := range score {
				for j, q := range score {
					if r.Target[i] == 1 && r.Target[j] == 0 {
						pairs++
						if p != q && in(p) == in(q) {
							shared++
						}
					}
				}
			}
			if got := m.Values()["auc"]; math.Abs(got-want) > shared/pairs/2+1e-12 {
				t.Errorf("%s: %v in %d bins, %v exactly; %v of the pairs share a bin", r.Name, got, bins, want, shared/pairs)
			}
		}
	}
}

func TestExactAUC(t *testing.T) {
	auc := func(y, target *locus.Tensor) float64 {
		m := metric.NewMeter(metric.ExactAUC())
		m.Add(y, target)
		return m.Values()["auc"]
	}
	if v := auc(locus.From([]float32{1, float32(math.NaN()), 2}), locus.From([]int{0, 1, 1})); !math.IsNaN(v) {
		t.Error("of NaN:", v)
	}
	if v := auc(locus.Ones(3), locus.From([]int{1, 1, 1})); !math.IsNaN(v) {
		t.Error("of one class:", v)
	}
	if v := auc(locus.From([]float32{3, float32(math.Inf(-1)), float32(math.Inf(1))}).Cast(locus.BFloat16), locus.From([]float32{0, 0, 1}).Reshape(3, 1)); v != 1 {
		t.Error("of infinite scores:", v)
	}
	for name, f := range map[string]func(){
		"class 2":      func() { auc(locus.Ones(2), locus.From([]int{1, 2})) },
		"class -1":     func() { auc(locus.Ones(2), locus.From([]int{1, -1})) },
		"three scores": func() { auc(locus.Ones(2, 3), locus.From([]int{1, 0})) },
		"a number":     func() { auc(locus.Ones(1), locus.Ones()) },
	} {
		if err := locus.Try(f); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// What is collected is part of the state, stays on the device without a wait, is
// freed by Reset, and takes the memory that the metric says.
func TestCollectedStatistics(t *testing.T) {
	d := gpus[2]
	exact := metric.ExactAUC()
	m := metric.NewMeter(metric.Accuracy(), metric.As("exact_", exact))
	d.Synchronize()
	before := d.MemoryStats().InUse
	locus.ResetLedger()
	const batches, size = 40, 1000
	k := locus.NewKey(2)
	for i := range batches {
		locus.Scoped(func(s *locus.Scope) {
			y, noise := d.Key(k.Fold(uint64(i))).Randn(size), d.Key(k.Fold(uint64(1000+i))).Randn(size)
			s.Adopt(y)
			s.Adopt(noise)
			m.Add(y, y.Add(noise).Gt(0).Cast(locus.Int64))
		})
	}
	if n := locus.Ledger().Count(locus.DeviceToHost, locus.Wait); n != 0 {
		t.Errorf("%d waits", n)
	}
	d.Synchronize()
	if used := d.MemoryStats().InUse - before; used > 1.3*batches*size*int64(exact.BytesPerExample()) {
		t.Errorf("%d bytes for %d examples of %d", used, batches*size, exact.BytesPerExample())
	}
	other := metric.NewMeter(metric.Accuracy(), metric.As("exact_", metric.ExactAUC()))
	if err := other.SetState(m.State()); err != nil {
		t.Fatal(err)
	}
	y, target := d.From([]float32{9, -9}), d.From([]int{0, 1})
	m.Add(y, target)
	other.Add(y, target)
	if a, b := m.Values(), other.Values(); fmt.Sprint(a) != fmt.Sprint(b) || a["exact_auc"] < 0.7 {
		t.Error(a, b)
	}
	if err := locus.Try(func() { m.Add(d.Ones(2).Cast(locus.Float64), target) }); err == nil {
		t.Error("scores of another type were joined")
	}
	m.Reset()
	other.Reset()
	d.Synchronize()
	if after := d.MemoryStats().InUse; after > before+1024 { // y, target and what they came with
		t.Errorf("%d bytes before, %d after Reset", before, after)
	}
}

// A compiled function that collects is called each time, and says why; what is
// measured is right.
func TestCollectingIsNotCompiled(t *testing.T) {
	m, plain := metric.NewMeter(metric.ExactAUC()), metric.NewMeter(metric.ExactAUC())
	step := locus.Compile(func(a ...*locus.Tensor) []*locus.Tensor {
		y := a[0].Mul(2)
		m.Add(y, a[1])
		return []*locus.Tensor{y}
	})
	for i := range uint64(5) {
		y := locus.CPU().Key(locus.NewKey(i)).Randn(20)
		target := y.Add(locus.CPU().Key(locus.NewKey(100 + i)).Randn(20)).Gt(0).Cast(locus.Int64)
		step.Call(y, target)
		plain.Add(y.Mul(2), target)
	}
	if a, b := m.Values()["auc"], plain.Values()["auc"]; a != b || math.IsNaN(a) {
		t.Errorf("%v in a compiled function, %v outside", a, b)
	}
	if why := step.Fallback(); !strings.Contains(why, "every example") {
		t.Errorf("the reason is %q", why)
	}
}
