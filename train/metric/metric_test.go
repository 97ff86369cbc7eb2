package metric_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/train/metric"
)

var gpus = locus.AddVirtualGPUs(3, 256<<20)

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }

// scores are those whose largest is at the given classes.
func scores(classes int, at ...int) *locus.Tensor {
	return locus.From(at).OneHot(classes).Cast(locus.Float32)
}

// The examples of scikit-learn's own documentation, with what it prints for them.
func TestDocumentedValues(t *testing.T) {
	three := func() (*locus.Tensor, *locus.Tensor) {
		return scores(3, 0, 2, 1, 0, 0, 1), locus.From([]int{0, 1, 2, 0, 1, 2})
	}
	regression := func() (*locus.Tensor, *locus.Tensor) {
		return locus.From([]float32{2.5, 0, 2, 8}), locus.From([]float32{3, -0.5, 2, 7})
	}
	columns := func() (*locus.Tensor, *locus.Tensor) {
		return locus.From([][]float32{{0, 2}, {-1, 2}, {8, -5}}), locus.From([][]float32{{0.5, 1}, {-1, 1}, {7, -6}})
	}
	for name, c := range map[string]struct {
		m    metric.Metric
		data func() (*locus.Tensor, *locus.Tensor)
		want []float64
	}{
		"accuracy_score": {metric.Accuracy(), func() (*locus.Tensor, *locus.Tensor) { return scores(4, 0, 2, 1, 3), locus.From([]int{0, 1, 2, 3}) }, []float64{0.5}},
		"macro":          {metric.PrecisionRecallF1(3, metric.Macro), three, []float64{2.0 / 9, 1.0 / 3, 4.0 / 15}},
		"micro":          {metric.PrecisionRecallF1(3, metric.Micro), three, []float64{1.0 / 3, 1.0 / 3, 1.0 / 3}},
		"weighted":       {metric.PrecisionRecallF1(3, metric.Weighted), three, []float64{2.0 / 9, 1.0 / 3, 4.0 / 15}},
		"precision":      {metric.Precision(3, metric.Macro), three, []float64{2.0 / 9}},
		"recall":         {metric.Recall(3, metric.Macro), three, []float64{1.0 / 3}},
		"f1":             {metric.F1(3, metric.Macro), three, []float64{4.0 / 15}},
		"absent class": {metric.F1(5, metric.Macro), func() (*locus.Tensor, *locus.Tensor) {
			return scores(5, 0, 2, 1, 0, 0, 1), locus.From([]int{0, 1, 2, 0, 1, 2})
		}, []float64{4.0 / 15}},
		"top_k_accuracy_score": {metric.TopK(2), func() (*locus.Tensor, *locus.Tensor) {
			return locus.From([][]float32{{.5, .2, .2}, {.3, .4, .2}, {.2, .4, .3}, {.7, .2, .1}}), locus.From([]int{0, 1, 2, 2})
		}, []float64{0.75}},
		"mean_absolute_error": {metric.MAE(), regression, []float64{0.5}},
		"mean_squared_error":  {metric.MSE(), regression, []float64{0.375}},
		"rmse":                {metric.RMSE(), regression, []float64{math.Sqrt(0.375)}},
		"mae, columns":        {metric.MAE(), columns, []float64{0.75}},
		"mse, columns":        {metric.MSE(), columns, []float64{4.25 / 6}},
		"r2_score":            {metric.R2(), regression, []float64{1 - 1.5/29.1875}}, // 0.948…
		"r2_score, columns":   {metric.R2(), columns, []float64{0.936800526662278}},
		"r2_score, perfect": {metric.R2(), func() (*locus.Tensor, *locus.Tensor) {
			return locus.From([]float32{-2, -2, -2}), locus.From([]float32{-2, -2, -2})
		}, []float64{1}},
		"r2_score, constant": {metric.R2(), func() (*locus.Tensor, *locus.Tensor) {
			return locus.From([]float32{-2, -2, -2 + 1e-3}), locus.From([]float32{-2, -2, -2})
		}, []float64{0}},
		"r2_score, mean": {metric.R2(), func() (*locus.Tensor, *locus.Tensor) {
			return locus.From([]float32{2, 2, 2}), locus.From([]float32{1, 2, 3})
		}, []float64{0}},
		"r2_score, reversed": {metric.R2(), func() (*locus.Tensor, *locus.Tensor) {
			return locus.From([]float32{3, 2, 1}), locus.From([]float32{1, 2, 3})
		}, []float64{-3}},
		"r2_score, one": {metric.R2(), func() (*locus.Tensor, *locus.Tensor) { return locus.From([]float32{3}), locus.From([]float32{1}) }, []float64{math.NaN()}},
		"roc_auc_score": {metric.AUC(0), func() (*locus.Tensor, *locus.Tensor) {
			return locus.From([]float32{.1, .4, .35, .8}), locus.From([]int{0, 0, 1, 1})
		}, []float64{0.75}},
		"auc of equal scores": {metric.AUC(0), func() (*locus.Tensor, *locus.Tensor) { return locus.Ones(4), locus.From([]int{0, 0, 1, 1}) }, []float64{0.5}},
		"auc of one class":    {metric.AUC(0), func() (*locus.Tensor, *locus.Tensor) { return locus.Ones(4), locus.From([]int{1, 1, 1, 1}) }, []float64{math.NaN()}},
		"perplexity":          {metric.Perplexity(nil), func() (*locus.Tensor, *locus.Tensor) { return locus.Zeros(6, 7), locus.From([]int{0, 1, 2, 3, 4, 6}) }, []float64{7}},
		"perplexity, padded":  {metric.Perplexity(new(-100)), func() (*locus.Tensor, *locus.Tensor) { return locus.Zeros(3, 7), locus.From([]int{0, -100, -100}) }, []float64{7}},
		"binary": {metric.PrecisionRecallF1(2, metric.Binary), func() (*locus.Tensor, *locus.Tensor) {
			return locus.From([]float32{-1, 2, 0.5, -3, 0}).Reshape(5, 1), locus.From([]float32{0, 1, 0, 1, 1}).Reshape(5, 1)
		}, []float64{0.5, 1.0 / 3, 0.4}},
	} {
		for _, d := range []locus.Device{locus.CPU(), gpus[0], locus.TryGPU()} {
			y, target := c.data()
			m := metric.NewMeter(c.m)
			m.Add(y.To(d), target.To(d))
			values := m.Values()
			for i, n := range c.m.Names() {
				if got := values[n]; !near(got, c.want[i]) && !(math.IsNaN(got) && math.IsNaN(c.want[i])) {
					// float32 inputs such as 0.1 are off by their rounding
					if math.Abs(got-c.want[i]) > 1e-6 {
						t.Errorf("%s on %s: %s is %v, want %v", name, d, n, got, c.want[i])
					}
				}
			}
			if len(values) != len(c.want) {
				t.Errorf("%s: %v", name, values)
			}
		}
	}
}

// all metrics of a classifier of 2 classes and of a regression, for tests of meters.
func all() []metric.Metric {
	return []metric.Metric{metric.Accuracy(), metric.TopK(2), metric.PrecisionRecallF1(4, metric.Macro), metric.As("micro_", metric.F1(4, metric.Micro)),
		metric.As("weighted_", metric.PrecisionRecallF1(4, metric.Weighted)), metric.ConfusionMatrix(4), metric.Perplexity(nil)}
}

// Whatever the batches and the devices, metrics are those of all examples at once,
// computed here by plain loops.
func TestUnevenBatchesOnSeveralDevices(t *testing.T) {
	const n = 157
	k := locus.NewKey(3).Split(4)
	logits := locus.CPU().Key(k[0]).Randn(n, 4).Mul(2)
	target := locus.CPU().As(locus.Int64).Key(k[1]).Randint(0, 3, n) // class 3 never occurs
	score := locus.CPU().Key(k[2]).Randn(n, 1)
	two := locus.CPU().As(locus.Int64).Key(k[3]).Randint(0, 2, n)
	values := locus.CPU().Key(k[0]).Randn(n, 2).Add(100)
	guess := values.Add(locus.CPU().Key(k[1]).Randn(n, 2))
	sets := []struct {
		metrics []metric.Metric
		y, want *locus.Tensor
	}{
		{all(), logits, target},
		{[]metric.Metric{metric.AUC(0), metric.Accuracy(), metric.F1(2, metric.Binary)}, score, two},
		{[]metric.Metric{metric.MAE(), metric.MSE(), metric.RMSE(), metric.R2()}, guess, values},
	}
	want := byLoops(logits, target, score, two, guess, values)
	for _, devices := range [][]locus.Device{{locus.CPU()}, gpus[:1], gpus[:2], gpus, {locus.TryGPU(), locus.CPU()}} {
		for _, sizes := range [][]int{{n}, {1, 156}, {100, 50, 7}, {3, 1, 1, 152}} {
			got := map[string]float64{}
			var table [][]float64
			for i, set := range sets {
				meters := make([]*metric.Meter, len(devices))
				for i := range meters {
					meters[i] = metric.NewMeter(set.metrics...)
				}
				from := 0
				for b, size := range sizes {
					d := devices[b%len(devices)]
					locus.Scoped(func(s *locus.Scope) {
						meters[b%len(devices)].Add(s.Use(set.y.Narrow(0, from, from+size)).To(d), s.Use(set.want.Narrow(0, from, from+size)).To(d))
					})
					from += size
				}
				r := metric.Read(meters...)
				for k, v := range r.Values {
					if i == 1 {
						k = "two " + k
					}
					got[k] = v
				}
				if i == 0 {
					table = r.Tables["confusion_matrix"]
				}
			}
			for k, v := range want.values {
				tolerance := 1e-6
				if k == "two auc" {
					tolerance = 1e-4 // bins
				}
				if g, ok := got[k]; !ok || math.Abs(g-v) > tolerance {
					t.Errorf("on %v in batches of %v: %s is %v, want %v", devices, sizes, k, g, v)
				}
			}
			if len(got) != len(want.values) {
				t.Errorf("%d numbers, want %d: %v", len(got), len(want.values), got)
			}
			if fmt.Sprint(table) != fmt.Sprint(want.table) {
				t.Errorf("%v, want %v", table, want.table)
			}
		}
	}
}

type loops struct {
	values map[string]float64
	table  [][]float64
}

// byLoops computes the metrics as their definitions say.
func byLoops(logits, target, score, two, guess, values *locus.Tensor) loops {
	l, want := locus.ToSlice[float32](logits), locus.ToSlice[int64](target)
	n, classes := len(want), 4
	out := loops{values: map[string]float64{}, table: make([][]float64, classes)}
	for i := range out.table {
		out.table[i] = make([]float64, classes)
	}
	var right, top, entropy float64
	for i := range n {
		row := l[i*classes : (i+1)*classes]
		best, above := 0, 0
		sum := 0.0
		for c, v := range row {
			if v > row[best] {
				best = c
			}
			if v > row[want[i]] {
				above++
			}
			sum += math.Exp(float64(v))
		}
		if best == int(want[i]) {
			right++
		}
		if above < 2 {
			top++
		}
		entropy += math.Log(sum) - float64(row[want[i]])
		out.table[want[i]][best]++
	}
	out.values["accuracy"], out.values["top_2_accuracy"] = right/float64(n), top/float64(n)
	out.values["perplexity"] = math.Exp(entropy / float64(n))
	out.values["micro_f1"] = right / float64(n)
	for c := range classes {
		var got, was float64
		for i := range classes {
			got += out.table[i][c]
			was += out.table[c][i]
		}
		p, r := out.table[c][c]/math.Max(got, 1), out.table[c][c]/math.Max(was, 1)
		f := 0.0
		if p+r > 0 {
			f = 2 * p * r / (p + r)
		}
		for k, v := range map[string]float64{"precision": p, "recall": r, "f1": f} {
			out.values[k] += v / float64(classes)
			out.values["weighted_"+k] += v * was / float64(n)
		}
	}
	s, b := locus.ToSlice[float32](score), locus.ToSlice[int64](two)
	var won, pairs, tp, fp, fn, ok float64
	for i := range n {
		switch {
		case s[i] > 0 && b[i] == 1:
			tp++
		case s[i] > 0:
			fp++
		case b[i] == 1:
			fn++
		}
		if (s[i] > 0) == (b[i] == 1) {
			ok++
		}
		for j := range n {
			if b[i] == 1 && b[j] == 0 {
				pairs++
				if s[i] > s[j] {
					won++
				}
			}
		}
	}
	out.values["two auc"], out.values["two accuracy"], out.values["two f1"] = won/pairs, ok/float64(n), 2*tp/(2*tp+fp+fn)
	g, v := locus.ToSlice[float32](guess), locus.ToSlice[float32](values)
	var abs, square float64
	for i := range g {
		d := float64(g[i]) - float64(v[i])
		abs += math.Abs(d)
		square += d * d
	}
	out.values["mae"], out.values["mse"], out.values["rmse"] = abs/float64(2*n), square/float64(2*n), math.Sqrt(square/float64(2*n))
	for c := range 2 {
		var mean, residual, spread float64
		for i := range n {
			mean += float64(v[2*i+c]) / float64(n)
		}
		for i := range n {
			residual += math.Pow(float64(g[2*i+c])-float64(v[2*i+c]), 2)
			spread += math.Pow(float64(v[2*i+c])-mean, 2)
		}
		out.values["r2"] += (1 - residual/spread) / 2
	}
	return out
}

// Scores of sequences and pictures: classes along axis 1.
func TestClassesAlongAxis1(t *testing.T) {
	k := locus.NewKey(9).Split(2)
	y := locus.CPU().Key(k[0]).Randn(3, 4, 5)
	target := locus.CPU().As(locus.Int64).Key(k[1]).Randint(0, 4, 3, 5)
	a, b := metric.NewMeter(all()...), metric.NewMeter(all()...)
	a.Add(y, target)
	b.Add(y.MoveAxis(1, 2).Reshape(15, 4), target.Reshape(15))
	for k, v := range a.Values() {
		if !near(v, b.Values()[k]) {
			t.Errorf("%s: %v and %v", k, v, b.Values()[k])
		}
	}
	if fmt.Sprint(a.Tables()) != fmt.Sprint(b.Tables()) {
		t.Error(a.Tables(), b.Tables())
	}
}

// A batch that does not fit is an error and changes nothing.
func TestWhatDoesNotFit(t *testing.T) {
	y, target := scores(3, 0, 1, 2), locus.From([]int{0, 1, 1})
	for name, f := range map[string]struct {
		do   func()
		kind error
	}{
		"shapes":            {func() { metric.NewMeter(metric.MAE()).Add(locus.Ones(3, 1), locus.Ones(3)) }, locus.ErrShape},
		"r2 of a number":    {func() { metric.NewMeter(metric.R2()).Add(locus.Ones(), locus.Ones()) }, locus.ErrShape},
		"too few targets":   {func() { metric.NewMeter(metric.Accuracy()).Add(y, locus.From([]int{0})) }, locus.ErrShape},
		"classes":           {func() { metric.NewMeter(metric.F1(4, metric.Macro)).Add(y, target) }, locus.ErrShape},
		"top 4 of 3":        {func() { metric.NewMeter(metric.TopK(4)).Add(y, target) }, locus.ErrShape},
		"auc of 3":          {func() { metric.NewMeter(metric.AUC(0)).Add(y, target) }, locus.ErrShape},
		"auc of class 2":    {func() { metric.NewMeter(metric.AUC(0)).Add(locus.Ones(2), locus.From([]int{1, 2})) }, locus.ErrIndex},
		"class 3 of 3":      {func() { metric.NewMeter(metric.ConfusionMatrix(3)).Add(y, locus.From([]int{0, 1, 3})) }, locus.ErrIndex},
		"class -1":          {func() { metric.NewMeter(metric.ConfusionMatrix(3)).Add(y, locus.From([]int{0, 1, -1})) }, locus.ErrIndex},
		"class 3 of 3 (f1)": {func() { metric.NewMeter(metric.F1(3, metric.Micro)).Add(y, locus.From([]int{0, 1, 3})) }, locus.ErrIndex},
		"twice":             {func() { metric.NewMeter(metric.MAE(), metric.MAE()) }, locus.ErrArgument},
		"table twice":       {func() { metric.NewMeter(metric.ConfusionMatrix(2), metric.ConfusionMatrix(2)) }, locus.ErrArgument},
		"nil":               {func() { metric.NewMeter(nil) }, locus.ErrArgument},
		"nil output":        {func() { metric.NewMeter(metric.MAE()).Add(nil, y) }, locus.ErrArgument},
		"nil meter":         {func() { (*metric.Meter)(nil).Add(y, y) }, locus.ErrArgument},
		"k":                 {func() { metric.TopK(0) }, locus.ErrArgument},
		"one class":         {func() { metric.F1(1, metric.Macro) }, locus.ErrArgument},
		"average":           {func() { metric.F1(3, 0) }, locus.ErrArgument},
		"binary":            {func() { metric.F1(3, metric.Binary) }, locus.ErrArgument},
		"bins":              {func() { metric.AUC(1) }, locus.ErrArgument},
		"func":              {func() { metric.Func("x", nil, nil) }, locus.ErrArgument},
		"as":                {func() { metric.As("x", nil) }, locus.ErrArgument},
	} {
		if err := locus.Try(f.do); !errors.Is(err, f.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
	m := metric.NewMeter(metric.Accuracy(), metric.F1(3, metric.Macro))
	m.Add(y, target)
	before := m.Values()
	if err := locus.Try(func() { m.Add(scores(4, 1, 2), locus.From([]int{1, 2})) }); err == nil {
		t.Fatal("four classes were counted as three")
	}
	if after := m.Values(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("%v became %v", before, after)
	}
}

// Counts are exact beyond what float32 can count.
func TestManyExamples(t *testing.T) {
	m := metric.NewMeter(metric.Accuracy(), metric.ConfusionMatrix(2))
	state := map[string]*locus.Tensor{"0.0": locus.CPU().As(locus.Int64).Full(1 << 30), "0.1": locus.CPU().As(locus.Int64).Full(1 << 31),
		"1.0": locus.CPU().As(locus.Int64).Full(1<<30, 4)}
	if err := m.SetState(state); err != nil {
		t.Fatal(err)
	}
	m.Add(scores(2, 0), locus.From([]int{0}))
	if c := m.Tables()["confusion_matrix"]; c[0][0] != 1<<30+1 || c[1][1] != 1<<30 {
		t.Error(c)
	}
	if a := m.Values()["accuracy"]; a != (1<<30+1.0)/(1<<31+1.0) {
		t.Error(a)
	}
}

func TestStateOfMeters(t *testing.T) {
	y, target := scores(4, 0, 1, 2, 3, 3), locus.From([]int{0, 1, 1, 2, 3})
	a := metric.NewMeter(all()...)
	a.Add(y, target)
	b := metric.NewMeter(all()...)
	if err := b.SetState(a.State()); err != nil {
		t.Fatal(err)
	}
	a.Add(y.Flip(0), target)
	b.Add(y.Flip(0), target)
	if fmt.Sprint(a.Values(), a.Tables()) != fmt.Sprint(b.Values(), b.Tables()) {
		t.Error(a.Values(), b.Values())
	}
	if err := metric.NewMeter(metric.MAE()).SetState(a.State()); !errors.Is(err, locus.ErrArgument) || !strings.Contains(err.Error(), "same metrics") {
		t.Error(err)
	}
	a.Reset()
	if v := a.Values(); len(v) != 0 {
		t.Error(v)
	}
	if n := a.Names(); !slices.Contains(n, "weighted_recall") || len(n) != 10 {
		t.Error(n)
	}
}

// A state of other metrics is an error where it is read, and no panic of the runtime.
func TestStateOfOtherMetrics(t *testing.T) {
	all := []metric.Metric{metric.Accuracy(), metric.TopK(2), metric.F1(3, metric.Macro), metric.AUC(4), metric.ExactAUC(), metric.MAE(), metric.R2(), metric.Perplexity(nil), metric.ConfusionMatrix(3)}
	for _, m := range all {
		for _, state := range []map[string]*locus.Tensor{{}, {"0.0": locus.As(locus.Int64).Ones(5)}, {"0.0": locus.As(locus.Int64).Ones(2), "0.1": locus.As(locus.Int64).Ones(3)}} {
			meter := metric.NewMeter(m)
			if err := meter.SetState(state); err != nil {
				t.Errorf("%T: %v", m, err)
			}
			err := locus.Try(func() { metric.Read(meter) })
			if len(state) == 0 && err != nil || len(state) > 0 && !errors.Is(err, locus.ErrArgument) {
				t.Errorf("%T with %d sums: %v", m, len(state), err)
			}
		}
	}
}

// A loop by hand leaves nothing behind but the sums, and adding waits for nothing.
func TestMetersMemoryAndWaits(t *testing.T) {
	d := gpus[1]
	y, target := scores(4, 0, 1, 2, 3).To(d), locus.From([]int{0, 1, 1, 2}).To(d)
	m := metric.NewMeter(all()...)
	m.Add(y, target)
	d.Synchronize()
	before := d.MemoryStats().InUse
	locus.ResetLedger()
	for range 50 {
		m.Add(y, target)
	}
	if n := locus.Ledger().Count(locus.DeviceToHost, locus.Wait); n != 0 {
		t.Errorf("%d waits", n)
	}
	d.Synchronize()
	if after := d.MemoryStats().InUse; after > before {
		t.Errorf("%d bytes in use before, %d after", before, after)
	}
	locus.ResetLedger()
	m.Values()
	if n := locus.Ledger().Count(locus.DeviceToHost); n != 1 {
		t.Errorf("%d readings", n)
	}
}

func ExampleMeter() {
	m := metric.NewMeter(metric.Accuracy(), metric.ConfusionMatrix(2))
	for range 3 {
		output, target := locus.From([][]float32{{2, 1}, {0, 1}}), locus.From([]int{0, 0})
		m.Add(output, target)
	}
	fmt.Println(m.Values()["accuracy"], m.Tables()["confusion_matrix"])
	// Output: 0.5 [[3 3] [0 0]]
}
