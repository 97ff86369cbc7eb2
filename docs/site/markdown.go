package main

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"unicode"
)

// The Markdown of the guide is a small part of GitHub's: headings with #, paragraphs,
// fenced code, tables, lists, quotes, rules, and inside a line code, **bold**,
// *italic*, links and pictures; comments are left out. What is neither that nor plain text (HTML, above all)
// is an error with its line, so that a page cannot look right on GitHub and wrong here.

// heading is a heading of a page.
type heading struct {
	level int
	id    string
	text  string // without markup
}

// document is a converted page.
type document struct {
	html     string
	headings []heading
	links    []link
}

// link is a link or picture as it stands in the text.
type link struct {
	line    int
	to      string
	label   string
	picture bool
	under   int // how many headings stand above it
}

// converter turns Markdown into HTML.
type converter struct {
	resolve func(l link) (string, error)
	explain func(code string) string // where code is explained, or ""
	inLink  bool                     // code is not explained here: a link has no links in it
	out     strings.Builder
	doc     document
	ids     map[string]int
	line    int // of the text at hand, for errors
	err     error
}

// row is a line of the source with its number.
type row struct {
	number int
	text   string
}

// convert turns the Markdown of a page into HTML.
// Resolve returns the address of a link on the site; explain, which may be nil, tells where
// code that is a name of the API is explained.
func convert(source string, resolve func(link) (string, error), explain func(code string) string) (document, error) {
	c := &converter{resolve: resolve, explain: explain, ids: map[string]int{}}
	var rows []row
	for i, l := range strings.Split(strings.ReplaceAll(source, "\r\n", "\n"), "\n") {
		rows = append(rows, row{i + 1, strings.TrimRight(l, " \t")})
	}
	c.blocks(rows, false)
	c.doc.html = c.out.String()
	return c.doc, c.err
}

func (c *converter) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("line %d: %s", c.line, fmt.Sprintf(format, args...))
	}
}

var (
	headingLine = regexp.MustCompile(`^(#{1,6}) +(.+?)( +#+)?$`)
	fenceLine   = regexp.MustCompile("^(```+) *([a-z]*)$")
	itemLine    = regexp.MustCompile(`^([-*]|\d+\.) +`)
	ruleLine    = regexp.MustCompile(`^(-{3,}|\*{3,})$`)
	tableRule   = regexp.MustCompile(`^\|?( *:?-+:? *\|)+( *:?-+:? *)?$`)
)

// blocks converts lines. A tight list's paragraphs have no tags of their own.
func (c *converter) blocks(rows []row, tight bool) {
	for len(rows) > 0 {
		l := rows[0].text
		c.line = rows[0].number
		var n int
		switch {
		case l == "":
			n = 1
		case strings.HasPrefix(l, "<!--"): // a comment, for those who read the source
			for n = 1; n < len(rows) && !strings.Contains(rows[n-1].text, "-->"); n++ {
			}
		case fenceLine.MatchString(l):
			n = c.fence(rows)
		case headingLine.MatchString(l):
			n = 1
			m := headingLine.FindStringSubmatch(l)
			c.heading(len(m[1]), m[2])
		case ruleLine.MatchString(l):
			n = 1
			c.out.WriteString("<hr>\n")
		case itemLine.MatchString(l):
			n = c.list(rows)
		case strings.HasPrefix(l, ">"):
			n = c.quote(rows)
		case len(rows) > 1 && strings.HasPrefix(l, "|") && tableRule.MatchString(rows[1].text):
			n = c.table(rows)
		default:
			n = c.paragraph(rows, tight)
		}
		rows = rows[n:]
	}
}

// begins tells whether a line begins a block that ends a paragraph.
func begins(l string) bool {
	return l == "" || strings.HasPrefix(l, "<!--") || fenceLine.MatchString(l) || headingLine.MatchString(l) || itemLine.MatchString(l) || strings.HasPrefix(l, ">") || strings.HasPrefix(l, "|")
}

func (c *converter) paragraph(rows []row, tight bool) int {
	n := 1
	for n < len(rows) && !begins(strings.TrimLeft(rows[n].text, " ")) {
		n++
	}
	text := c.lines(rows[:n])
	if tight {
		c.out.WriteString(text + "\n")
	} else {
		fmt.Fprintf(&c.out, "<p>%s</p>\n", text)
	}
	return n
}

// lines converts the text of lines that belong together.
func (c *converter) lines(rows []row) string {
	var parts []string
	for _, r := range rows {
		parts = append(parts, strings.TrimLeft(r.text, " "))
	}
	return c.inline(strings.Join(parts, "\n"))
}

func (c *converter) heading(level int, text string) {
	c.inLink = true // nor has a heading
	converted := c.inline(text)
	c.inLink = false
	plain := plainText(converted)
	id := slug(plain)
	if n := c.ids[id]; n > 0 {
		c.ids[id]++
		id = fmt.Sprintf("%s-%d", id, n)
	} else {
		c.ids[id] = 1
	}
	c.doc.headings = append(c.doc.headings, heading{level, id, plain})
	if level == 1 {
		fmt.Fprintf(&c.out, "<h1 id=%q>%s</h1>\n", id, converted)
		return
	}
	fmt.Fprintf(&c.out, "<h%d id=%q>%s <a class=\"here\" href=\"#%s\" aria-label=\"link to this section\">#</a></h%d>\n", level, id, converted, id, level)
}

// slug is the anchor that GitHub gives a heading.
func slug(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			b.WriteRune(r)
		case r == ' ':
			b.WriteByte('-')
		}
	}
	return b.String()
}

func (c *converter) fence(rows []row) int {
	m := fenceLine.FindStringSubmatch(rows[0].text)
	end := 1
	for end < len(rows) && rows[end].text != m[1] {
		end++
	}
	if end == len(rows) {
		c.fail("this code block has no end")
		return end
	}
	var code strings.Builder
	for _, r := range rows[1:end] {
		code.WriteString(r.text + "\n")
	}
	c.out.WriteString(codeBlock(m[2], code.String()))
	return end + 1
}

func (c *converter) quote(rows []row) int {
	var inner []row
	n := 0
	for n < len(rows) && strings.HasPrefix(rows[n].text, ">") {
		inner = append(inner, row{rows[n].number, strings.TrimPrefix(strings.TrimPrefix(rows[n].text, ">"), " ")})
		n++
	}
	c.out.WriteString("<blockquote>\n")
	c.blocks(inner, false)
	c.out.WriteString("</blockquote>\n")
	return n
}

// list converts the items of a list, each of which holds blocks of its own.
func (c *converter) list(rows []row) int {
	kind := func(l string) string {
		if m := itemLine.FindStringSubmatch(l); m != nil {
			return m[1][len(m[1])-1:]
		}
		return ""
	}
	first := kind(rows[0].text)
	var items [][]row
	n, loose := 0, false
	for n < len(rows) && kind(rows[n].text) == first {
		marker := itemLine.FindString(rows[n].text)
		indent := strings.Repeat(" ", len(marker))
		item := []row{{rows[n].number, rows[n].text[len(marker):]}}
		for n++; n < len(rows); n++ {
			l := rows[n].text
			if after, ok := strings.CutPrefix(l, indent); ok {
				l = after
			} else if l != "" && (rows[n-1].text == "" || begins(strings.TrimLeft(l, " "))) {
				break
			}
			item = append(item, row{rows[n].number, strings.TrimRight(l, " ")})
		}
		for len(item) > 1 && item[len(item)-1].text == "" { // between items, not in one
			item = item[:len(item)-1]
			loose = loose || n < len(rows) && kind(rows[n].text) == first
		}
		for _, r := range item {
			loose = loose || r.text == ""
		}
		items = append(items, item)
	}
	tag, start := "ul", ""
	if first == "." {
		tag = "ol"
		if number, _, _ := strings.Cut(rows[0].text, "."); number != "1" {
			start = fmt.Sprintf(" start=%q", number)
		}
	}
	fmt.Fprintf(&c.out, "<%s%s>\n", tag, start)
	for _, item := range items {
		c.out.WriteString("<li>")
		c.blocks(item, !loose)
		c.out.WriteString("</li>\n")
	}
	fmt.Fprintf(&c.out, "</%s>\n", tag)
	return n
}

func (c *converter) table(rows []row) int {
	head := cells(rows[0].text)
	var right []bool
	for _, r := range cells(rows[1].text) {
		right = append(right, strings.HasSuffix(r, ":"))
	}
	line := func(r row, tag string) {
		c.line = r.number
		l := cells(r.text)
		if len(l) != len(head) || len(l) != len(right) {
			c.fail("%d cells in a table of %d columns; a | inside a cell is written \\|", len(l), len(head))
			return
		}
		c.out.WriteString("<tr>")
		for i, text := range l {
			class := ""
			switch {
			case right[i]:
				class = ` class="right"`
			case len(text) > 60: // is not squeezed where a table is wider than the page
				class = ` class="long"`
			}
			c.inLink = foreign[head[i]]
			fmt.Fprintf(&c.out, "<%s%s>%s</%s>", tag, class, c.inline(text), tag)
			c.inLink = false
		}
		c.out.WriteString("</tr>\n")
	}
	c.out.WriteString("<div class=\"wide\" tabindex=\"0\"><table>\n")
	if strings.Join(head, "") != "" {
		c.out.WriteString("<thead>")
		line(rows[0], "th")
		c.out.WriteString("</thead>\n")
	}
	c.out.WriteString("<tbody>\n")
	n := 2
	for ; n < len(rows) && strings.HasPrefix(rows[n].text, "|"); n++ {
		line(rows[n], "td")
	}
	c.out.WriteString("</tbody></table></div>\n")
	return n
}

// foreign are headings of columns with code of other frameworks, whose names are not ours.
var foreign = map[string]bool{"You wrote": true, "PyTorch": true, "jnp": true, "TensorFlow": true}

// cells divides a line of a table at every | that no backslash precedes.
func cells(l string) []string {
	l = strings.TrimSuffix(strings.TrimPrefix(l, "|"), "|")
	const bar = "\x00"
	parts := strings.Split(strings.ReplaceAll(l, `\|`, bar), "|")
	for i, p := range parts {
		parts[i] = strings.TrimSpace(strings.ReplaceAll(p, bar, "|"))
	}
	return parts
}

var tags = regexp.MustCompile(`<[^>]*>`)

// plainText is the text of HTML.
func plainText(s string) string { return html.UnescapeString(tags.ReplaceAllString(s, "")) }
