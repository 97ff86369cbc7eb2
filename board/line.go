package board

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/width"
)

const (
	minBar = 10
	maxBar = 40
)

// part is a piece of the progress line. The least important one goes first where there is no room.
type part struct {
	text string
	rank int // 0 is the most important
}

// line is the progress line in at most width columns, or in full and without a bar if width is 0. The caller holds p.mu.
func (p *Progress) line(width int) string {
	s := p.state()
	parts := s.parts()
	if width == 0 {
		texts := make([]string, len(parts))
		for i, part := range parts {
			texts[i] = strings.TrimSpace(part.text)
		}
		return strings.Join(texts, "  ")
	}
	bar := 0
	if s.fraction >= 0 {
		bar = minBar + 2
	}
	taken := func() int {
		n := bar
		for i, part := range parts {
			n += columns(part.text)
			if i > 0 {
				n += 2
			}
		}
		return n
	}
	for len(parts) > 1 && taken() > width {
		worst := 0
		for i := range parts {
			if parts[i].rank >= parts[worst].rank {
				worst = i
			}
		}
		parts = slices.Delete(parts, worst, worst+1)
	}
	if taken() > width {
		bar = 0
	}
	var b strings.Builder
	for i, part := range parts {
		if i > 0 {
			b.WriteString("  ")
		}
		if part.rank == rankPercent && bar > 0 {
			b.WriteString(drawBar(s.fraction, min(maxBar, minBar+width-taken()), p.look))
			b.WriteString("  ")
		}
		b.WriteString(cut(part.text, width))
	}
	return b.String()
}

const (
	rankPercent = iota
	rankLeft
	rankMetric // and the one after it for the second metric
	_
	rankEpoch
	rankRate
	rankCount
	rankTitle
	rankMore // metrics from the third on
)

// parts are the pieces of the line from left to right; the bar goes before the percentage.
func (s state) parts() []part {
	var parts []part
	add := func(rank int, format string, args ...any) {
		parts = append(parts, part{fmt.Sprintf(format, args...), rank})
	}
	unit := s.plan.Unit
	if s.plan.Title != "" {
		add(rankTitle, "%s", s.plan.Title)
	}
	switch {
	case s.plan.Epochs > 0:
		add(rankEpoch, "epoch %d/%d", s.epoch, s.plan.Epochs)
	case s.epoch > 0:
		add(rankEpoch, "epoch %d", s.epoch)
	}
	if s.fraction >= 0 {
		add(rankPercent, "%3d%%", int(s.fraction*100))
	}
	switch {
	case s.plan.Steps > 0:
		add(rankCount, "%s/%s", formatCount(float64(s.step), unit), formatCount(float64(s.plan.Steps), unit))
	case unit == "B":
		add(rankCount, "%s", formatCount(float64(s.step), unit))
	default:
		add(rankCount, "%s %s", formatCount(float64(s.step), unit), unit)
	}
	if s.rate > 0 {
		add(rankRate, "%s", formatRate(s.rate, unit))
	}
	switch {
	case s.done:
		add(rankLeft, "in %s", formatDuration(s.elapsed))
	case s.left >= 0:
		add(rankLeft, "ETA %s", formatDuration(s.left))
	case s.fraction >= 0:
		add(rankLeft, "ETA --:--")
	default:
		add(rankLeft, "%s", formatDuration(s.elapsed))
	}
	for i, m := range s.metrics {
		rank := rankMetric + i
		if i > 1 {
			rank = rankMore + i
		}
		add(rank, "%s %s", m.name, strconv.FormatFloat(m.value, 'g', 4, 64))
	}
	return parts
}

// drawBar draws a bar of n columns.
func drawBar(fraction float64, n int, l look) string {
	if !l.unicode {
		full := int(fraction * float64(n-2))
		return "[" + strings.Repeat("#", full) + strings.Repeat(".", n-2-full) + "]"
	}
	eighths := int(fraction * float64(8*n))
	done := strings.Repeat("█", eighths/8)
	if eighths%8 > 0 {
		done += string([]rune(" ▏▎▍▌▋▊▉")[eighths%8])
	}
	rest := strings.Repeat("░", n-(eighths+7)/8)
	if !l.color {
		return done + rest
	}
	return "\x1b[36m" + done + "\x1b[0;2m" + rest + "\x1b[0m"
}

// stripColor removes what drawBar adds for color.
func stripColor(s string) string {
	return colors.Replace(s)
}

var colors = strings.NewReplacer("\x1b[36m", "", "\x1b[0;2m", "", "\x1b[0m", "")

// columns is the number of terminal cells that s takes.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += cells(r)
	}
	return n
}

func cells(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// cut shortens s to at most n columns.
func cut(s string, n int) string {
	taken := 0
	for i, r := range s {
		if taken += cells(r); taken > n {
			return s[:i]
		}
	}
	return s
}

// formatCount writes 12,345, or 12.3 kB if the unit is bytes.
func formatCount(v float64, unit string) string {
	if unit == "B" {
		return formatSize(v)
	}
	digits := strconv.FormatInt(int64(v), 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

func formatSize(v float64) string {
	for _, unit := range []string{"B", "kB", "MB", "GB"} {
		if v < 999.5 {
			return trimZero(strconv.FormatFloat(v, 'f', max(0, 2-int(math.Log10(max(1, v)))), 64)) + " " + unit
		}
		v /= 1000
	}
	return trimZero(strconv.FormatFloat(v, 'f', 2, 64)) + " TB"
}

// formatRate writes 1,234 step/s, 3.2 step/s or 12 s/step.
func formatRate(rate float64, unit string) string {
	switch {
	case unit == "B":
		return formatSize(rate) + "/s"
	case rate >= 100:
		return formatCount(math.Round(rate), unit) + " " + unit + "/s"
	case rate >= 0.95:
		return strconv.FormatFloat(rate, 'f', 1, 64) + " " + unit + "/s"
	}
	return strconv.FormatFloat(1/rate, 'f', 1, 64) + " s/" + unit
}

// formatDuration writes 0:07, 12:34, 1:02:03 or 2d 03h.
func formatDuration(d time.Duration) string {
	s := int64(d.Round(time.Second).Seconds())
	switch {
	case s >= 2*86400:
		return fmt.Sprintf("%dd %02dh", s/86400, s/3600%24)
	case s >= 3600:
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// trimZero drops zeros at the end of a decimal fraction.
func trimZero(s string) string {
	if !strings.Contains(s, ".") {
		return s
	}
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}
