package main

import (
	"strings"
	"testing"
)

func TestMarkdown(t *testing.T) {
	for source, want := range map[string]string{
		"a\n<!-- b -->\n\n<!-- c\nd -->\ne":     "<p>a</p>\n<p>e</p>",
		"a\nb":                                  "<p>a\nb</p>",
		"`a<b` & c < d":                         "<p><code>a&lt;b</code> &amp; c &lt; d</p>",
		"`` a`b ``":                             "<p><code>a`b</code></p>",
		"**a `*` b** *c* 2 * 3 * 4":             "<p><strong>a <code>*</code> b</strong> <em>c</em> 2 * 3 * 4</p>",
		"**`a` b**":                             "<p><strong><code>a</code> b</strong></p>",
		"*a **b** c*":                           "<p><em>a <strong>b</strong> c</em></p>",
		`\*a\* &lt; x[1]`:                       "<p>*a* &lt; x[1]</p>",
		"[`x[0]`](to)":                          `<p><a href="to"><code>x[0]</code></a></p>`,
		"![a \"b\"](to)":                        `<p><img src="to" alt="a &#34;b&#34;" loading="lazy"></p>`,
		"- a\n- b\n  c\nd":                      "<ul>\n<li>a\n</li>\n<li>b\nc\nd\n</li>\n</ul>",
		"- a\n  - b\n- c":                       "<ul>\n<li>a\n<ul>\n<li>b\n</li>\n</ul>\n</li>\n<li>c\n</li>\n</ul>",
		"3. a\n\n   b\n\n4. c":                  "<ol start=\"3\">\n<li><p>a</p>\n<p>b</p>\n</li>\n<li><p>c</p>\n</li>\n</ol>",
		"- a\n\n  ```\n  x\n  ```\n":            "<ul>\n<li><p>a</p>\n<div class=\"code\"><pre tabindex=\"0\"><code>x\n</code></pre></div>\n</li>\n</ul>",
		"- a\n\nb":                              "<ul>\n<li>a\n</li>\n</ul>\n<p>b</p>",
		"> a\n> b":                              "<blockquote>\n<p>a\nb</p>\n</blockquote>",
		"| a | b |\n|---|--:|\n| `x\\|y` | 2 |": "<div class=\"wide\" tabindex=\"0\"><table>\n<thead><tr><th>a</th><th class=\"right\">b</th></tr>\n</thead>\n<tbody>\n<tr><td><code>x|y</code></td><td class=\"right\">2</td></tr>\n</tbody></table></div>",
		"| | |\n|---|---|\n| a | b |":           "<div class=\"wide\" tabindex=\"0\"><table>\n<tbody>\n<tr><td>a</td><td>b</td></tr>\n</tbody></table></div>",
	} {
		d, err := convert(source, func(l link) (string, error) { return l.to, nil }, nil)
		if got := strings.TrimSpace(d.html); err != nil || got != want {
			t.Errorf("%q becomes\n%s\nwant\n%s (%v)", source, got, want, err)
		}
	}
}

// Headings have the anchors that GitHub gives them.
func TestAnchors(t *testing.T) {
	d, err := convert("# A\n## The CPU: threads, and a `BLAS` library\n## A\n### A", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"a", "the-cpu-threads-and-a-blas-library", "a-1", "a-2"}
	for i, h := range d.headings {
		if h.id != want[i] {
			t.Errorf("%q has the anchor %q, want %q", h.text, h.id, want[i])
		}
	}
}

func TestColors(t *testing.T) {
	got := colorGo("for i := range 3 { f(\"<\", x.Len()) } // …\n\ty := a …")
	want := `<span class="k">for</span> i := <span class="k">range</span> <span class="n">3</span> { <span class="f">f</span>(<span class="s">&#34;&lt;&#34;</span>, x.<span class="f">Len</span>()) } <span class="c">// …</span>` + "\n\ty := a …"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := plainText(colorGo("a := `x\ny` /* b\n */ + '\\''")); got != "a := `x\ny` /* b\n */ + '\\''" {
		t.Errorf("coloring changes the text: %q", got)
	}
	if got := colorShell("go test ./... # all\necho \"#\""); got != "go test ./... <span class=\"c\"># all</span>\necho &#34;#&#34;" {
		t.Error(got)
	}
}
