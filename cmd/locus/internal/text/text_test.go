package text

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func none(string) string { return "" }

func TestNewWithoutTerminal(t *testing.T) {
	var b strings.Builder
	o := New(&b, none)
	if o.Terminal || o.Color || o.Width != 80 || !o.Unicode {
		t.Errorf("a buffer is taken for %+v", o)
	}
	for columns, want := range map[string]int{"160": 160, "7": 40, "100000": 200, "x": 80, "-1": 80} {
		if o := New(&b, func(name string) string { return map[string]string{"COLUMNS": columns}[name] }); o.Width != want {
			t.Errorf("COLUMNS=%s gives %d columns, not %d", columns, o.Width, want)
		}
	}
}

func TestUnicodeFollowsTheLocale(t *testing.T) {
	for _, c := range []struct {
		goos string
		env  map[string]string
		want bool
	}{
		{"linux", nil, false},
		{"linux", map[string]string{"LANG": "C"}, false},
		{"linux", map[string]string{"LANG": "en_GB.UTF-8"}, true},
		{"linux", map[string]string{"LC_ALL": "C", "LANG": "en_GB.UTF-8"}, false},
		{"darwin", nil, true},
	} {
		if got := unicode(c.goos, func(n string) string { return c.env[n] }); got != c.want {
			t.Errorf("%s %v: %v", c.goos, c.env, got)
		}
	}
}

func TestStyles(t *testing.T) {
	var b strings.Builder
	o := New(&b, none)
	if s := o.Style(Red, "x") + o.Mark(Green) + o.Bar(0.5, 4); strings.Contains(s, "\x1b") {
		t.Errorf("color without a terminal: %q", s)
	}
	o.Color = true
	if s := o.Style(Red, "x"); s != "\x1b[31mx\x1b[0m" || Len(s) != 1 {
		t.Errorf("%q is %d columns", s, Len(s))
	}
	o.Color, o.Unicode = false, false
	if s := o.Bar(0.5, 4) + o.Mark(Red) + o.Rule()[:1]; s != "##..no-" {
		t.Errorf("ASCII: %q", s)
	}
	for part, want := range map[float64]int{-1: 0, 0: 0, 0.001: 1, 0.5: 5, 1: 10, 7: 10} {
		if n := strings.Count(o.Bar(part, 10), "#"); n != want {
			t.Errorf("a bar of %v has %d of 10", part, n)
		}
	}
}

func TestWrapAndFold(t *testing.T) {
	if got := Wrap("one two three\n\nfour", 7); !slices.Equal(got, []string{"one two", "three", "", "four"}) {
		t.Errorf("Wrap: %q", got)
	}
	if got := Fold([]string{"  abc defg hij"}, 10); !slices.Equal(got, []string{"  abc defg", "   hij"}) {
		t.Errorf("Fold: %q", got)
	}
	for _, l := range Fold([]string{strings.Repeat("x", 95), "    " + strings.Repeat("word ", 50)}, 20) {
		if Len(l) > 20 {
			t.Errorf("%q is longer than 20", l)
		}
	}
	if CutMiddle("abcdefghij", 5) != "ab…ij" || Cut("abcdef", 3) != "ab…" || Cut("ab", 3) != "ab" {
		t.Errorf("cut: %q %q", CutMiddle("abcdefghij", 5), Cut("abcdef", 3))
	}
}

func TestTableFits(t *testing.T) {
	var b strings.Builder
	o := New(&b, none)
	o.Width = 40
	table := &Table{Head: []string{"name", "n"}, Right: map[int]bool{1: true}}
	table.Add(strings.Repeat("long", 20), "1")
	table.Add("short", "1,000")
	o.Table(table, 2)
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	if len(lines) != 3 {
		t.Fatalf("%q", lines)
	}
	for _, l := range lines {
		if Len(l) > 40 {
			t.Errorf("%q has %d columns", l, Len(l))
		}
	}
	if !strings.HasSuffix(lines[1], "      1") || !strings.HasSuffix(lines[2], "  1,000") {
		t.Errorf("not aligned:\n%s", b.String())
	}
}

func TestUnits(t *testing.T) {
	for got, want := range map[string]string{
		Count(0): "0", Count(999): "999", Count(1000): "1,000", Count(-1234567): "-1,234,567",
		Many(1, "GPU"): "1 GPU", Many(0, "GPU"): "0 GPUs",
		Duration(5): "5 ns", Duration(1500): "1.50 µs", Duration(123456 * time.Microsecond): "123 ms", Duration(12 * time.Second): "12.0 s", Duration(-time.Second): "-1.00 s", Duration(150 * time.Second): "2m30s",
		Number(9.999): "10.0", Number(0.123): "0.12", Number(1234): "1234",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestCodeColorsOnly(t *testing.T) {
	lines := []string{`for i := range 3 { // count`, `	show("x", 'y', i+1.5)`, "text := `a", "b`", "}"}
	var b strings.Builder
	o := New(&b, none)
	if !slices.Equal(o.Code(lines), lines) {
		t.Error("code changed without color")
	}
	o.Color = true
	colored := o.Code(lines)
	if plain := escapes.ReplaceAllString(strings.Join(colored, "\n"), ""); plain != strings.Join(lines, "\n") {
		t.Errorf("color changed the code:\n%s", plain)
	}
	if len(colored) != len(lines) || !strings.Contains(colored[0], "\x1b[34mfor") {
		t.Errorf("%q", colored)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestFirstErrorStays(t *testing.T) {
	o := New(full{}, none)
	o.Println("lost")
	if !errors.Is(o.Err(), os.ErrClosed) {
		t.Errorf("the error is %v", o.Err())
	}
	var b strings.Builder
	if p := o.To(&b); p.Err() != nil {
		t.Error("an Out made from one that failed has its error")
	}
}

// Goroutines may write at the same time, to an Out and its copies: for the race detector.
func TestOutFromGoroutines(t *testing.T) {
	var b strings.Builder
	o := New(&b, none)
	c := *o
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { o.Println("line") })
		wg.Go(func() { c.Println("line") })
	}
	wg.Wait()
	if o.Err() != nil || b.String() != strings.Repeat("line\n", 16) {
		t.Errorf("%v %q", o.Err(), b.String())
	}
}
