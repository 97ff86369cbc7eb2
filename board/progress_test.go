package board

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/locusml/locus/internal/testio"
)

// halfway is a run of 10 epochs of 235 steps at 1,000 steps per second, in the middle of epoch 3.
func halfway(look look) *Progress {
	p := &Progress{plan: Plan{Epochs: 10, Steps: 235, Unit: "step"}, look: look, epoch: 3, begin: time.Now()}
	p.steps.Store(146)
	p.rate = rate{sum: 1000, weight: 1}
	p.metrics = []metric{{"loss", 0.43125}, {"acc", 0.8534}, {"lr", 0.1}, {"grad_norm", 12.345}}
	return p
}

func TestProgressLine(t *testing.T) {
	tests := []struct {
		width int
		look  look
		want  string
	}{
		{160, look{unicode: true}, "epoch 3/10  ██████████▍░░░░░░░░░░░░░░░░░░░░░░░░░░░░░   26%  146/235  1,000 step/s  ETA 0:02  loss 0.4313  acc 0.8534  lr 0.1  grad_norm 12.35"},
		{80, look{unicode: true}, "epoch 3/10  ███▍░░░░░░░░░   26%  1,000 step/s  ETA 0:02  loss 0.4313  acc 0.8534"},
		{80, look{}, "epoch 3/10  [##.........]   26%  1,000 step/s  ETA 0:02  loss 0.4313  acc 0.8534"},
		{60, look{}, "[####.............]   26%  ETA 0:02  loss 0.4313  acc 0.8534"},
		{30, look{}, "[###.........]   26%  ETA 0:02"},
		{12, look{}, " 26%"},
		{2, look{}, " 2"},
	}
	for _, test := range tests {
		got := halfway(test.look).line(test.width)
		if columns(got) > test.width {
			t.Errorf("width %d: line takes %d columns", test.width, columns(got))
		}
		if got != test.want {
			t.Errorf("width %d:\ngot  %q\nwant %q", test.width, got, test.want)
		}
	}
	for width := 1; width < 300; width++ {
		colored := halfway(look{true, true}).line(width)
		if n := columns(stripColor(colored)); n > width {
			t.Errorf("width %d: line takes %d columns", width, n)
		}
		if plain := halfway(look{unicode: true}).line(width); stripColor(colored) != plain {
			t.Errorf("width %d: color changes the text from %q to %q", width, plain, colored)
		}
	}
}

func TestProgressParts(t *testing.T) {
	tests := []struct {
		name  string
		state state
		want  string
	}{
		{"download", state{plan: Plan{Title: "train.gz", Steps: 26_421_880, Unit: "B"}, step: 5_000_000, fraction: 0.189, rate: 1.25e6, left: 17 * time.Second},
			"train.gz  18%  5 MB/26.4 MB  1.25 MB/s  ETA 0:17"},
		{"download of unknown size", state{plan: Plan{Unit: "B"}, step: 1500, fraction: -1, left: -1, elapsed: 3 * time.Second}, "1.5 kB  0:03"},
		{"nothing known", state{plan: Plan{Unit: "step"}, step: 12345, fraction: -1, rate: 0.1, left: -1, elapsed: 100 * time.Hour}, "12,345 step  10.0 s/step  4d 04h"},
		{"at the start", state{plan: Plan{Epochs: 2, Steps: 5, Unit: "batch"}, epoch: 1, left: -1}, "epoch 1/2  0%  0/5  ETA --:--"},
		{"epochs without end", state{plan: Plan{Steps: 5, Unit: "step"}, epoch: 7, step: 5, fraction: 1, rate: 99.94, done: true, elapsed: 3723 * time.Second}, "epoch 7  100%  5/5  99.9 step/s  in 1:02:03"},
		{"diverged", state{plan: Plan{Unit: "step"}, fraction: -1, left: -1, metrics: []metric{{"loss", math.NaN()}}}, "0 step  0:00  loss NaN"},
	}
	for _, test := range tests {
		var texts []string
		for _, p := range test.state.parts() {
			texts = append(texts, strings.TrimSpace(p.text))
		}
		if got := strings.Join(texts, "  "); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestProgressInATerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out testio.Buffer
		p := newProgress(&out, Plan{Epochs: 2, Steps: 100}, func() int { return 80 }, look{unicode: true})
		time.Sleep(20 * time.Millisecond) // so that steps and paints never fall on the same moment
		for epoch := 1; epoch <= 2; epoch++ {
			p.Epoch(epoch)
			for range 100 {
				p.Add(1)
				time.Sleep(50 * time.Millisecond)
			}
			p.Set("loss", 1/float64(epoch))
			p.Printf("epoch %d is done\n", epoch)
		}
		p.Close()
		p.Close()
		text := out.String()
		if strings.Contains(text, "\x1b") {
			t.Error("there is an escape, but no color was allowed")
		}
		screen := render(text, 80)
		want := []string{
			"epoch 1 is done",
			"epoch 2 is done",
			"epoch 2/2  " + strings.Repeat("█", 21) + "  100%  100/100  20.0 step/s  in 0:10  loss 0.5",
		}
		if got := strings.Join(screen, "\n"); got != strings.Join(want, "\n") {
			t.Errorf("the screen shows\n%s\nwant\n%s", got, strings.Join(want, "\n"))
		}
		if !strings.HasSuffix(text, "\n") {
			t.Error("no line break at the end")
		}
		// In the middle, rate and time left are right.
		if !strings.Contains(text, "20.0 step/s  ETA 0:05") {
			t.Errorf("no line tells of 20 steps per second and 5 s left: %q", text)
		}
	})
}

// render is a terminal that knows \r and \n; a line that reaches the last column fails.
func render(text string, width int) []string {
	var lines []string
	var line []rune
	at := 0
	for _, r := range text {
		switch r {
		case '\r':
			at = 0
		case '\n':
			lines = append(lines, strings.TrimRight(string(line), " "))
			line, at = nil, 0
		default:
			if at >= width-1 {
				return []string{"wrapped: " + string(line)}
			}
			if at == len(line) {
				line = append(line, r)
			} else {
				line[at] = r
			}
			at++
		}
	}
	return lines
}

func TestProgressElsewhereIsQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			every time.Duration
			want  []string
		}{
			{0, []string{"10%  100/1,000  10.0 step/s  ETA 1:30", "20%  200/1,000  10.0 step/s  ETA 1:20", "25%  250/1,000  10.0 step/s  in 0:25"}},
			{-1, []string{"25%  250/1,000  10.0 step/s  in 0:25"}},
		} {
			var out testio.Buffer
			p := newProgress(&out, Plan{Steps: 1000, Every: test.every}, nil, look{true, true})
			time.Sleep(50 * time.Millisecond) // between two looks of the painter
			for range 250 {
				p.Add(1)
				time.Sleep(100 * time.Millisecond)
			}
			p.Close()
			if got := out.String(); got != strings.Join(test.want, "\n")+"\n" {
				t.Errorf("every %v: got\n%swant\n%s", test.every, got, strings.Join(test.want, "\n"))
			}
		}
	})
}

func TestProgressOnAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := NewProgress(f, Plan{Steps: 4})
	if p.width != nil {
		t.Error("a file was taken for a terminal")
	}
	p.Add(4)
	p.Printf("note %d", 1)
	p.Close()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(string(text), "\n"); len(lines) != 3 || lines[0] != "note 1" || !strings.HasPrefix(lines[1], "100%  4/4  ") || strings.ContainsAny(string(text), "\r\x1b█") {
		t.Errorf("file is %q", text)
	}
}

func TestRate(t *testing.T) {
	now := time.Unix(0, 0)
	r := rate{at: now}
	if r.value() != 0 {
		t.Error("a rate before any step")
	}
	var count int64
	feed := func(seconds int, perSecond int64) {
		for range seconds {
			now = now.Add(time.Second)
			count += perSecond
			r.update(now, count)
		}
	}
	feed(5, 100)
	if got := r.value(); math.Abs(got-100) > 1e-9 {
		t.Errorf("steady 100 reads as %v", got)
	}
	feed(60, 10)
	if got := r.value(); math.Abs(got-10) > 0.1 {
		t.Errorf("a minute after slowing to 10 it reads %v", got)
	}
	now = now.Add(time.Hour)
	r.update(now, count) // nothing done: nothing learned
	if got := r.value(); math.Abs(got-10) > 0.1 {
		t.Errorf("waiting changes the rate to %v", got)
	}
	now = now.Add(time.Minute)
	count++
	r.update(now, count)
	if got := r.value(); got > 0.1 {
		t.Errorf("one step in an hour reads as %v a second", got)
	}
}

func TestLook(t *testing.T) {
	tests := []struct {
		goos string
		env  map[string]string
		want look
	}{
		{"linux", map[string]string{"LANG": "en_GB.UTF-8"}, look{true, true}},
		{"linux", map[string]string{"LANG": "en_GB.UTF-8", "NO_COLOR": "1"}, look{false, true}},
		{"linux", map[string]string{"LANG": "en_GB.UTF-8", "LC_ALL": "C"}, look{true, false}},
		{"linux", map[string]string{"LC_CTYPE": "C.utf8"}, look{true, true}},
		{"linux", nil, look{true, false}},
		{"darwin", nil, look{true, true}},
		{"windows", nil, look{false, true}},
		{"windows", map[string]string{"WT_SESSION": "x"}, look{true, true}},
	}
	for _, test := range tests {
		if got := lookOf(test.goos, func(name string) string { return test.env[name] }); got != test.want {
			t.Errorf("%s %v: got %+v, want %+v", test.goos, test.env, got, test.want)
		}
	}
}

func TestColumns(t *testing.T) {
	for text, want := range map[string]int{"": 0, "loss": 4, "損失": 4, "e\u0301": 1, "█░▏": 3, "ｆｕｌｌ": 8} {
		if got := columns(text); got != want {
			t.Errorf("%q takes %d columns, want %d", text, got, want)
		}
	}
	if got := cut("損失ab", 5); got != "損失a" {
		t.Errorf("cut to %q", got)
	}
	if got := cut("損失ab", 3); got != "損" {
		t.Errorf("cut to %q", got)
	}
}

func TestProgressFromManyGoroutines(t *testing.T) {
	var out testio.Buffer
	p := newProgress(&out, Plan{Epochs: 1, Steps: 4000}, func() int { return 80 }, look{})
	p.Epoch(1)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 1000 {
				p.Add(1)
				p.Set("loss", float64(i))
				if i%250 == 0 {
					p.Printf("at %d", i)
				}
			}
		})
	}
	group.Wait()
	p.Close()
	if got := out.String(); !strings.Contains(got, "100%  4,000/4,000") {
		t.Errorf("got %q", got)
	}
}

func BenchmarkProgressAdd(b *testing.B) {
	p := newProgress(nil, Plan{}, nil, look{})
	defer p.Close()
	for range b.N {
		p.Add(1)
	}
}
