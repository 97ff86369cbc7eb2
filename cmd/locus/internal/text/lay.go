package text

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// Len is the number of columns that s takes.
func Len(s string) int { return utf8.RuneCountInString(escapes.ReplaceAllString(s, "")) }

// Pad fills s up with blanks.
func Pad(s string, width int) string {
	if n := width - Len(s); n > 0 {
		return s + strings.Repeat(" ", n)
	}
	return s
}

// Cut shortens s, which has no colors, to a width, and shows that it did.
func Cut(s string, width int) string {
	if Len(s) <= width || width < 1 {
		return s
	}
	return string([]rune(s)[:width-1]) + "…"
}

// CutMiddle is like Cut but keeps both ends, for paths.
func CutMiddle(s string, width int) string {
	r := []rune(s)
	if len(r) <= width || width < 3 {
		return s
	}
	left := (width - 1) / 2
	return string(r[:left]) + "…" + string(r[len(r)-(width-1-left):])
}

// Wrap breaks text at blanks into lines of at most width columns. Words that are
// longer stay whole. Line breaks in s are kept.
func Wrap(s string, width int) []string {
	var lines []string
	for _, paragraph := range strings.Split(s, "\n") {
		line := ""
		for _, word := range strings.Fields(paragraph) {
			if line != "" && Len(line)+1+Len(word) > width {
				lines = append(lines, line)
				line = ""
			}
			if line != "" {
				line += " "
			}
			line += word
		}
		lines = append(lines, line)
	}
	return lines
}

// Fold breaks lines that are longer than width, at blanks where there are some,
// and indents what follows. Other than Wrap it keeps blanks, so that code and
// tables stay aligned.
func Fold(lines []string, width int) []string {
	var out []string
	for _, l := range lines {
		r := []rune(strings.TrimRight(l, " "))
		indent := len(r) - len([]rune(strings.TrimLeft(string(r), " ")))
		for len(r) > width {
			at := width
			for i := width; i > max(indent, width/3); i-- {
				if r[i] == ' ' {
					at = i
					break
				}
			}
			out = append(out, strings.TrimRight(string(r[:at]), " "))
			rest := strings.TrimLeft(string(r[at:]), " ")
			r = []rune(strings.Repeat(" ", min(indent+2, width/3)) + rest)
		}
		out = append(out, string(r))
	}
	return out
}

// Beside prints two blocks of lines next to each other.
func (o *Out) Beside(left, right []string, leftWidth int) {
	bar := " │ "
	if !o.Unicode {
		bar = " | "
	}
	for i := range max(len(left), len(right)) {
		var l, r string
		if i < len(left) {
			l = left[i]
		}
		if i < len(right) {
			r = right[i]
		}
		o.Println(strings.TrimRight(Pad(l, leftWidth)+o.Style(Dim, bar)+r, " "))
	}
}

// Table is a table with a heading. Columns named in Right are aligned to the
// right; the one named in Shrink is cut where there is too little room.
type Table struct {
	Head   []string
	Right  map[int]bool
	Shrink int
	Rows   [][]string
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Table prints a table that fits the width, indented.
func (o *Out) Table(t *Table, indent int) {
	widths := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		for i, c := range row {
			widths[i] = max(widths[i], Len(c))
		}
	}
	total := indent - 2
	for _, w := range widths {
		total += w + 2
	}
	if over := total - o.Width; over > 0 && t.Shrink >= 0 {
		widths[t.Shrink] = max(8, widths[t.Shrink]-over)
	}
	line := func(row []string, st Style) {
		var b strings.Builder
		b.WriteString(strings.Repeat(" ", indent))
		for i, c := range row {
			if Len(c) > widths[i] {
				c = CutMiddle(c, widths[i])
			}
			pad := strings.Repeat(" ", widths[i]-min(widths[i], Len(c)))
			if st != "" {
				c = o.Style(st, c)
			}
			if t.Right[i] {
				c = pad + c
			} else {
				c += pad
			}
			b.WriteString(c)
			if i < len(row)-1 {
				b.WriteString("  ")
			}
		}
		o.Println(strings.TrimRight(b.String(), " "))
	}
	line(t.Head, Dim)
	for _, row := range t.Rows {
		line(row, "")
	}
}
