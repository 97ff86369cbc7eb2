package bench

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/locusml/locus"
)

func TestRunAll(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for seconds")
	}
	var began []string
	r, err := Run(t.Context(), Options{Sizes: []int{2, 33}, Budget: time.Millisecond, Virtual: 256 << 20, Began: func(n string) { began = append(began, n) }})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(began, " ") != strings.Join(Names, " ") {
		t.Errorf("began %v", began)
	}
	if len(r.Products.Rows) != 2 || len(r.Parameters.Rows) == 0 || len(r.Log.Devices) != 2 || len(r.Parallel.Rows) == 0 || len(r.Overlap.Rows) == 0 {
		t.Errorf("%+v", r)
	}
	each := r.Log.Devices[1]
	if each.Each.Transfers < logProducts || each.Kept.Transfers > 10 || each.Batch.Transfers > 10 {
		t.Errorf("transfers: each %d, kept %d, batched %d", each.Each.Transfers, each.Kept.Transfers, each.Batch.Transfers)
	}
	for _, row := range r.Overlap.Rows {
		if row.Products < 1 || row.AtOnce.Median <= 0 || row.Apart.Median < row.Copy.Min {
			t.Errorf("%+v", row)
		}
	}
	if r.GPU.Virtual != (locus.WhyNoGPU() != nil) {
		t.Errorf("%+v", r.GPU)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
	checkReport(t, r)
}

func checkReport(t *testing.T, r *Results) {
	t.Helper()
	p, err := r.Page("locus test")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	html := b.String()
	if strings.Count(html, "<svg") != len(Names) || strings.Count(html, "<table") != len(Names) {
		t.Errorf("%d figures, %d tables", strings.Count(html, "<svg"), strings.Count(html, "<table"))
	}
	if r.GPU.Virtual && !strings.Contains(html, "The GPU is virtual") || r.Pair[0].Virtual && !strings.Contains(html, "Both GPUs are virtual") {
		t.Error("the report does not say that GPUs are virtual")
	}
	rest := strings.ReplaceAll(html, `xmlns="http://www.w3.org/2000/svg"`, "")
	for _, bad := range []string{"http://", "https://", "src=", "url(", "@import", "<script", "NaN", "Inf"} {
		if strings.Contains(rest, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
}

func TestRunSome(t *testing.T) {
	d := locus.AddVirtualGPUs(1, 64<<20)[0]
	r, err := Run(t.Context(), Options{Which: []string{"products"}, GPU: &d, Sizes: []int{3}, Budget: time.Microsecond})
	if err != nil || r.GPU.Device != d || r.Products == nil || r.Log != nil || r.Parallel != nil || r.Parameters != nil {
		t.Errorf("%v %+v", err, r)
	}
	if _, err := Run(t.Context(), Options{Which: []string{"nothing"}}); err == nil {
		t.Error("an exercise that is not there is no error")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	small := locus.AddVirtualGPUs(1, 1<<16)[0]
	if _, err := Run(t.Context(), Options{Which: []string{"products"}, GPU: &small, Sizes: []int{512}}); !errors.Is(err, locus.ErrOutOfMemory) {
		t.Errorf("a GPU that is too small: %v", err)
	}
}

func TestCross(t *testing.T) {
	row := func(n int, cpu, gpu float64) Product {
		return Product{N: n, CPU: Timing{Median: cpu}, GPU: Timing{Median: gpu}, Queued: Timing{Median: gpu / 4}}
	}
	waited := func(r Product) Timing { return r.GPU }
	for _, c := range []struct {
		rows []Product
		want int
	}{
		{[]Product{row(1, 1, 2), row(2, 2, 2), row(4, 9, 3), row(8, 80, 5)}, 4},
		{[]Product{row(1, 1, 2), row(2, 3, 2), row(4, 1, 3)}, 0}, // ahead once does not count
		{[]Product{row(1, 3, 2), row(2, 3, 2)}, 1},
	} {
		if got := cross(c.rows, waited); got != c.want {
			t.Errorf("%v: %d, want %d", c.rows, got, c.want)
		}
	}
	for p, want := range map[*Products]string{
		{Rows: []Product{row(8, 1, 2)}}:                            "do not cross",
		{Rows: []Product{row(8, 1, 2)}, CrossQueued: 8}:            "CPU stays ahead",
		{Rows: []Product{row(8, 1, 2)}, Cross: 8}:                  "cross at n = 8",
		{Rows: []Product{row(8, 1, 2)}, Cross: 8, CrossQueued: 16}: "from n = 16",
	} {
		if got := crossing(p, "gpu:0"); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestWords(t *testing.T) {
	at := func(s float64) Timing { return Timing{Median: s} }
	for _, c := range []struct {
		a, b float64
		want string
	}{{2, 1, "2.00 times as long as x"}, {1, 4, "4.00 times as fast as x"}, {1, 1.01, "about as long as x"}} {
		if got := against(at(c.a), at(c.b), "x"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if (&Results{Spread: 1.2}).Noise() != "" || !strings.Contains((&Results{Spread: 3}).Noise(), "3 times") {
		t.Error("noise")
	}
}
