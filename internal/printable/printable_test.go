package printable

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "",
		"layer.0.weight":           "layer.0.weight",
		"größe 重み \"x\" \\":        "größe 重み \"x\" \\",
		"\x1b[31mred\x1b[0m":       `\x1b[31mred\x1b[0m`,
		"a\nb\tc\r":                `a\nb\tc\r`,
		"\x7f\u0085\u009b31m":      `\x7f\u0085\u009b31m`,
		"abc\u202edef\u2066\u200b": `abc\u202edef\u2066\u200b`,
		"\xff\xfe ok":              `\xff\xfe ok`,
		"\ufffd":                   "\ufffd",
		"\u2028":                   `\u2028`,
	} {
		if got := Text(in); got != want {
			t.Errorf("%q becomes %s, not %s", in, got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("\x1b]0;title\x07 \u202e")
	f.Fuzz(func(t *testing.T, s string) {
		got := Text(s)
		if !utf8.ValidString(got) || strings.IndexFunc(got, func(r rune) bool { return !unicode.IsPrint(r) && r != utf8.RuneError }) >= 0 {
			t.Errorf("%q becomes %q", s, got)
		}
		if Text(got) != got {
			t.Errorf("%q changes twice", s)
		}
	})
}
