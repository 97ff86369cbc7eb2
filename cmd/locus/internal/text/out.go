// Package text lays out what the command prints: colors, tables, bars and
// wrapped text that fit the terminal, and plain text where there is none.
package text

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/term"
)

// Out is where text goes and what can be shown there. It remembers the first
// error of a write, so that callers need not look at each: see [Out.Err]. Goroutines may
// write to it at the same time.
type Out struct {
	to       *sink
	Width    int // columns
	Terminal bool
	Color    bool
	Unicode  bool
}

// sink is what an Out and its copies share.
type sink struct {
	mu  sync.Mutex
	w   io.Writer
	err error
}

// New finds out what w can show. Color needs a terminal and no NO_COLOR; the
// width is that of the terminal, else COLUMNS, else 80.
func New(w io.Writer, env func(string) string) *Out {
	o := &Out{to: &sink{w: w}, Width: 80, Unicode: true}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		o.Terminal = env("TERM") != "dumb"
		o.Color = o.Terminal && env("NO_COLOR") == "" && (runtime.GOOS != "windows" || env("WT_SESSION") != "")
		o.Unicode = unicode(runtime.GOOS, env)
		if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
			o.Width = columns
		}
	} else if n, err := strconv.Atoi(env("COLUMNS")); err == nil && n > 0 {
		o.Width = n
	}
	o.Width = min(max(o.Width, 40), 200)
	return o
}

// unicode reports whether the terminal's locale knows more than ASCII.
func unicode(goos string, env func(string) string) bool {
	if goos == "windows" || goos == "darwin" {
		return true
	}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := env(name); v != "" {
			v = strings.ToLower(strings.ReplaceAll(v, "-", ""))
			return strings.Contains(v, "utf8")
		}
	}
	return false
}

// Write writes as it is.
func (o *Out) Write(p []byte) (int, error) {
	s := o.to
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.w.Write(p)
	s.err = err
	return n, err
}

// Err is the first error of a write.
func (o *Out) Err() error {
	o.to.mu.Lock()
	defer o.to.mu.Unlock()
	return o.to.err
}

// Printf prints.
func (o *Out) Printf(format string, args ...any) { fmt.Fprintf(o, format, args...) }

// Println prints a line.
func (o *Out) Println(args ...any) { fmt.Fprintln(o, args...) }

// Text prints a paragraph, wrapped.
func (o *Out) Text(s string) {
	for _, line := range Wrap(s, min(o.Width, 100)) {
		o.Println(line)
	}
}

// A Style is a way to set text off.
type Style string

// The styles, as ANSI codes.
const (
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	Blue   Style = "34"
	Cyan   Style = "36"
)

// Style sets s off where colors are shown.
func (o *Out) Style(st Style, s string) string {
	if !o.Color || s == "" {
		return s
	}
	return "\x1b[" + string(st) + "m" + s + "\x1b[0m"
}

// Mark returns a sign for good, bad or in between.
func (o *Out) Mark(st Style) string {
	signs := map[Style][2]string{Green: {"✓", "ok"}, Red: {"✗", "no"}, Yellow: {"!", "! "}, Dim: {"·", "- "}}
	s := signs[st][0]
	if !o.Unicode {
		s = signs[st][1]
	}
	return o.Style(st, s)
}

// Heading prints a title.
func (o *Out) Heading(s string) { o.Println(o.Style(Bold, s)) }

// Rule returns a line across the terminal.
func (o *Out) Rule() string {
	c := "─"
	if !o.Unicode {
		c = "-"
	}
	return o.Style(Dim, strings.Repeat(c, min(o.Width, 160)))
}

// Bar shows a part of a whole.
func (o *Out) Bar(part float64, width int) string {
	part = min(max(part, 0), 1)
	full := int(part*float64(width) + 0.5)
	if part > 0 && full == 0 {
		full = 1
	}
	a, b := "█", "░"
	if !o.Unicode {
		a, b = "#", "."
	}
	st := Green
	switch {
	case part > 0.9:
		st = Red
	case part > 0.7:
		st = Yellow
	}
	return o.Style(st, strings.Repeat(a, full)) + o.Style(Dim, strings.Repeat(b, width-full))
}

// To returns an Out that looks the same and writes to w.
func (o *Out) To(w io.Writer) *Out {
	c := *o
	c.to = &sink{w: w}
	return &c
}
