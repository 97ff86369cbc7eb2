// Package printable makes text that comes from a file fit for a terminal.
package printable

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns s with everything that is not a printable character written as an
// escape, such as \x1b, \n or \u202e: a name from a file must not move the
// cursor, change colors, forge lines or turn the direction of writing.
func Text(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if unicode.IsPrint(r) && !(r == utf8.RuneError && n == 1) {
			b.WriteString(s[:n])
		} else {
			quoted := strconv.Quote(s[:n])
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		s = s[n:]
	}
	return b.String()
}
