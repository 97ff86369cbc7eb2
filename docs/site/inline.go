package main

import (
	"fmt"
	"html"
	"strings"
	"unicode/utf8"
)

// inline converts what stands inside a block.
func (c *converter) inline(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		n := 0
		switch s[0] {
		case '\\':
			if len(s) > 1 && strings.IndexByte("\\`*_{}[]()#+-.!|<>", s[1]) >= 0 {
				b.WriteString(html.EscapeString(s[1:2]))
				n = 2
			}
		case '`':
			n = c.code(&b, s)
		case '*':
			n = c.emphasis(&b, s)
		case '!', '[':
			n = c.link(&b, s)
		case '<':
			if len(s) > 1 && (s[1] == '/' || s[1] == '!' || s[1] >= 'a' && s[1] <= 'z' || s[1] >= 'A' && s[1] <= 'Z') {
				c.fail("HTML in the text: %.20q; write &lt;, code or Markdown", s)
			}
		case '&':
			if end := strings.IndexByte(s, ';'); end > 1 && end < 10 && html.UnescapeString(s[:end+1]) != s[:end+1] {
				b.WriteString(s[:end+1])
				n = end + 1
			}
		}
		if n == 0 {
			_, n = utf8.DecodeRuneInString(s)
			b.WriteString(html.EscapeString(s[:n]))
		}
		s = s[n:]
	}
	return b.String()
}

// code converts a span of code at the beginning of s and returns its length, or 0.
func (c *converter) code(b *strings.Builder, s string) int {
	ticks := s[:len(s)-len(strings.TrimLeft(s, "`"))]
	rest := s[len(ticks):]
	for at := 0; ; {
		i := strings.Index(rest[at:], ticks)
		if i < 0 {
			c.fail("code without an end: %.20q", s)
			return 0
		}
		i += at
		after := rest[i:]
		run := len(after) - len(strings.TrimLeft(after, "`"))
		if run != len(ticks) {
			at = i + run
			continue
		}
		text := rest[:i]
		if len(ticks) > 1 {
			text = strings.TrimSpace(text)
		}
		code := "<code>" + html.EscapeString(strings.ReplaceAll(text, "\n", " ")) + "</code>"
		if c.explain != nil && !c.inLink {
			if to := c.explain(text); to != "" {
				code = fmt.Sprintf(`<a href="%s">%s</a>`, html.EscapeString(to), code)
			}
		}
		b.WriteString(code)
		return len(ticks) + i + run
	}
}

// emphasis converts *…* or **…** at the beginning of s and returns its length, or 0
// where the stars stand for themselves.
func (c *converter) emphasis(b *strings.Builder, s string) int {
	mark, tag := "*", "em"
	if strings.HasPrefix(s, "**") {
		mark, tag = "**", "strong"
	}
	rest := s[len(mark):]
	if rest == "" || strings.IndexByte(" \n*", rest[0]) >= 0 {
		return 0
	}
	for at := 0; at < len(rest); {
		switch {
		case rest[at] == '`':
			var skipped strings.Builder
			at += max(1, c.code(&skipped, rest[at:]))
		case rest[at] == '\\':
			at += 2
		case at > 0 && strings.HasPrefix(rest[at:], mark) && rest[at-1] != ' ' && !(mark == "*" && strings.HasPrefix(rest[at:], "**")):
			fmt.Fprintf(b, "<%s>%s</%s>", tag, c.inline(rest[:at]), tag)
			return 2*len(mark) + at
		case mark == "*" && strings.HasPrefix(rest[at:], "**"):
			at += 2
		default:
			at++
		}
	}
	return 0
}

// link converts a link or picture at the beginning of s and returns its length, or 0.
func (c *converter) link(b *strings.Builder, s string) int {
	text, picture := strings.CutPrefix(s, "!")
	if !strings.HasPrefix(text, "[") {
		return 0
	}
	close, depth := -1, 0
	for i := 0; i < len(text) && close < 0; i++ {
		switch text[i] {
		case '`':
			var skipped strings.Builder
			i += max(1, c.code(&skipped, text[i:])) - 1
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				close = i
			}
		}
	}
	if close < 0 || !strings.HasPrefix(text[close:], "](") {
		return 0
	}
	end := strings.IndexByte(text[close:], ')')
	if end < 0 {
		return 0
	}
	label := text[1:close]
	l := link{c.line, text[close+2 : close+end], label, picture, len(c.doc.headings)}
	c.doc.links = append(c.doc.links, l)
	to, err := c.resolve(l)
	if err != nil {
		c.fail("%v", err)
	}
	if picture {
		fmt.Fprintf(b, `<img src="%s" alt="%s" loading="lazy">`, html.EscapeString(to), html.EscapeString(label))
	} else {
		outer := c.inLink
		c.inLink = true
		text := c.inline(label)
		c.inLink = outer
		fmt.Fprintf(b, `<a href="%s">%s</a>`, html.EscapeString(to), text)
	}
	return len(s) - len(text) + close + end + 1
}
