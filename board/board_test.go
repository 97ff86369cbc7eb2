package board

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"unicode/utf8"
)

// pointsOf returns what a series shows.
func pointsOf(b *Board, name string) []xy {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.byName[name]; s != nil {
		return s.curve.points()
	}
	return nil
}

func TestDrawAveragesEveryN(t *testing.T) {
	tests := []struct {
		name   string
		everyN []int // of each point i, which is (i, 10i)
		flush  bool
		want   []xy
	}{
		{"each", []int{1, 1, 1}, false, []xy{{0, 0}, {1, 10}, {2, 20}}},
		{"zero is one", []int{0, -3}, false, []xy{{0, 0}, {1, 10}}},
		{"pairs", []int{2, 2, 2, 2}, false, []xy{{0.5, 5}, {2.5, 25}}},
		{"rest waits", []int{3, 3, 3, 3}, false, []xy{{1, 10}}},
		{"rest with flush", []int{3, 3, 3, 3, 3}, true, []xy{{1, 10}, {3.5, 35}}},
		{"smaller n ends a group", []int{5, 5, 2}, false, []xy{{1, 10}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var b Board
			for i, n := range test.everyN {
				b.Draw("loss", float64(i), float64(10*i), n)
			}
			if test.flush {
				b.Flush()
			}
			if got := pointsOf(&b, "loss"); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestExtremeValuesStayAsTheyAre(t *testing.T) {
	var b Board
	b.Draw("s", 0, math.MaxFloat64, 1)
	b.Draw("s", 1, math.Inf(-1), 1)
	if got := pointsOf(&b, "s"); got[0].y != math.MaxFloat64 || !math.IsInf(got[1].y, -1) {
		t.Errorf("got %v", got)
	}
}

func TestPanelsAndColors(t *testing.T) {
	var b Board
	if err := b.SetAxes("", Axes{XLabel: "epoch"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"acc/train", "acc/val", "lr", "loss/train", "loss/val/top", "/odd", "odd/"} {
		b.Draw(name, 1, 1, 1)
	}
	var got []string
	for _, p := range b.figure().panels {
		for _, c := range p.curves {
			got = append(got, fmt.Sprintf("%s|%s|%s|%s|%d", p.name, p.axes.Title, p.axes.XLabel, c.label, c.color))
		}
	}
	want := []string{
		"||epoch|lr|2", "||epoch|/odd|4", "||epoch|odd/|5", // the main panel comes first
		"acc|acc|epoch|train|0", "acc|acc|epoch|val|1",
		"loss|loss|epoch|train|0", "loss|loss|epoch|val/top|3", // train has one color everywhere
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestSetAxesRefusesWhatCannotBeDrawn(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	tests := []struct {
		axes Axes
		want string // part of the error; "" if fine
	}{
		{Axes{}, ""},
		{Axes{YLim: [2]float64{-1, 1}, XLim: [2]float64{0, 10}}, ""},
		{Axes{YLim: [2]float64{1e-4, 1}, YScale: Log}, ""},
		{Axes{YLim: [2]float64{2, 1}}, "YLim is [2, 1]: the first must be below"},
		{Axes{XLim: [2]float64{3, 3}}, "XLim is [3, 3]"},
		{Axes{XLim: [2]float64{0, inf}}, "two finite numbers"},
		{Axes{XLim: [2]float64{nan, 1}}, "two finite numbers"},
		{Axes{XLim: [2]float64{-math.MaxFloat64, math.MaxFloat64}}, "two finite numbers"},
		{Axes{YLim: [2]float64{0, 1}, YScale: Log}, "begin above 0"},
		{Axes{XScale: 9}, "use board.Linear or board.Log"},
	}
	for _, test := range tests {
		var b Board
		err := b.SetAxes("p", test.axes)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: error %v, want %q", test.axes, err, test.want)
		}
		if err != nil && len(b.axes) != 0 {
			t.Errorf("%+v: set in spite of the error", test.axes)
		}
	}
}

func TestSubscribersSeeAllPointsInOrder(t *testing.T) {
	var b Board
	b.Draw("s", -1, 0, 1) // before: not delivered
	var first, second []float64
	cancelFirst := b.Subscribe(func(points []Point) {
		for _, p := range points {
			first = append(first, p.X)
		}
	})
	cancelSecond := b.Subscribe(func(points []Point) { second = append(second, float64(len(points))) })
	for i := range 5000 {
		b.Draw("s", float64(i), 0, 1)
	}
	cancelFirst()
	cancelFirst() // again is harmless
	b.Draw("s", 5000, 0, 1)
	cancelSecond()
	if len(first) != 5000 || first[0] != 0 || first[4999] != 4999 {
		t.Errorf("first got %d points", len(first))
	}
	for i, x := range first {
		if x != float64(i) {
			t.Fatalf("point %d is %v", i, x)
		}
	}
	total := 0.0
	for _, n := range second {
		total += n
	}
	if total != 5001 {
		t.Errorf("second got %v points, want 5001", total)
	}
}

func TestSlowSubscriberNeverStopsDraw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Board
		block := make(chan struct{})
		s, cancel := b.subscribe(0, func([]Point) { <-block })
		s.limit = 100
		b.Draw("s", 0, 0, 1)
		synctest.Wait() // it has the first point now, and sits on it
		for i := range s.limit + 10 {
			b.Draw("s", float64(i), 0, 1)
		}
		if got := s.lost.Load(); got != 10 {
			t.Errorf("lost %d points, want 10", got)
		}
		close(block)
		cancel()
	})
}

func TestManyGoroutines(t *testing.T) {
	var b Board
	var seen int
	cancel := b.Subscribe(func(points []Point) { seen += len(points) })
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			for i := range 500 {
				b.Draw(fmt.Sprintf("panel%d/s%d", g%2, g), float64(i), 1, 1)
				if i%100 == 0 {
					b.SetAxes("", Axes{Title: "t"})
					b.figure()
					b.Flush()
				}
			}
		})
	}
	group.Wait()
	cancel()
	if seen != 8*500 {
		t.Errorf("saw %d points", seen)
	}
}

func TestCloseTwice(t *testing.T) {
	var b Board
	b.Draw("s", 1, 2, 10)
	for range 2 {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := pointsOf(&b, "s"); len(got) != 1 {
		t.Errorf("Close did not flush: %v", got)
	}
	b.Draw("s", 2, 3, 1) // still possible
}

func TestDrawDoesNotAllocate(t *testing.T) {
	var b Board
	for i := range 5000 {
		b.Draw("loss", float64(i), 1, 1)
	}
	if n := testing.AllocsPerRun(1000, func() { b.Draw("loss", 1, 2, 1) }); n != 0 {
		t.Errorf("Draw allocates %v times", n)
	}
}

func FuzzCleanName(f *testing.F) {
	for _, s := range []string{"loss", "a\nb\x00c", "\xff\xfe", "loss/train", "\u2028", "名前", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		clean := cleanName(name)
		if !utf8.ValidString(clean) || strings.ContainsAny(clean, "\x00\n\r\t\u0085\u2028\u2029") || cleanName(clean) != clean {
			t.Errorf("%q became %q", name, clean)
		}
		var b Board
		b.Draw(name, 1, 1, 1)
		b.Draw(clean, 2, 1, 1)
		if len(b.series) != 1 {
			t.Errorf("%q and %q are two series", name, clean)
		}
	})
}

func BenchmarkDraw(b *testing.B) {
	b.Run("alone", func(b *testing.B) {
		var board Board
		for i := range b.N {
			board.Draw("loss", float64(i), 1, 1)
		}
	})
	b.Run("logged", func(b *testing.B) {
		var board Board
		defer board.Subscribe(func([]Point) {})()
		for i := range b.N {
			board.Draw("loss", float64(i), 1, 1)
		}
	})
}
