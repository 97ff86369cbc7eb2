package main

import (
	"regexp"
	"strings"
)

// entry is what the search finds: a part of a page, from one heading to the next.
type entry struct {
	Page    string `json:"p"` // the page's title
	Heading string `json:"h,omitempty"`
	Address string `json:"a"`
	Text    string `json:"t"`
}

var (
	headingTag = regexp.MustCompile(`<h[1-6] id="([^"]*)">`)
	here       = regexp.MustCompile(`<a class="here".*?</a>`)
	blockEnd   = regexp.MustCompile(`</(p|li|td|th|pre|h[1-6])>`)
	spaces     = regexp.MustCompile(`\s+`)
)

// index is what the search looks through: all text, by heading.
func (s *site) index() (l []entry) {
	for _, p := range s.pages {
		titles := map[string]string{}
		for _, h := range p.headings {
			titles[h.id] = h.text
		}
		text := here.ReplaceAllString(p.html, "")
		marks := headingTag.FindAllStringSubmatchIndex(text, -1)
		for i, m := range marks {
			end := len(text)
			if i+1 < len(marks) {
				end = marks[i+1][0]
			}
			id := text[m[2]:m[3]]
			e := entry{Page: p.title, Address: p.address()}
			if i > 0 {
				e.Heading = titles[id]
				e.Address += "#" + id
			}
			_, body, _ := strings.Cut(text[m[0]:end], "</h") // without the heading itself
			body = blockEnd.ReplaceAllString("</h"+body, " $0")
			e.Text = strings.TrimSpace(spaces.ReplaceAllString(plainText(body), " "))
			l = append(l, e)
		}
	}
	return l
}
