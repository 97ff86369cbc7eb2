package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"go/types"
	"html"
	"regexp"
	"strings"
)

// codeBlock is a block of code as HTML, colored by its language.
func codeBlock(language, code string) string {
	text := html.EscapeString(code)
	switch language {
	case "go":
		text = colorGo(code)
	case "sh", "console", "python", "yaml":
		text = colorShell(code)
	}
	return fmt.Sprintf("<div class=\"code\"><pre tabindex=\"0\"><code>%s</code></pre></div>\n", text)
}

// colorGo marks the tokens of Go code, which need not be a whole program.
func colorGo(code string) string {
	var s scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(code))
	s.Init(file, []byte(code), func(token.Position, string) {}, scanner.ScanComments)
	var b strings.Builder
	done := 0
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.SEMICOLON && text != ";" { // put there by the scanner
			continue
		}
		at := file.Offset(pos)
		if !tok.IsLiteral() && !tok.IsKeyword() && tok != token.COMMENT {
			continue
		}
		b.WriteString(html.EscapeString(code[done:at]))
		done = at + len(text)
		class := ""
		switch {
		case tok.IsKeyword():
			class = "k"
		case tok == token.COMMENT:
			class = "c"
		case tok == token.STRING, tok == token.CHAR:
			class = "s"
		case tok == token.IDENT:
			if types.Universe.Lookup(text) != nil {
				class = "t"
			} else if strings.HasPrefix(code[done:], "(") {
				class = "f"
			}
		default:
			class = "n"
		}
		if class == "" {
			b.WriteString(html.EscapeString(text))
		} else {
			fmt.Fprintf(&b, `<span class="%s">%s</span>`, class, html.EscapeString(text))
		}
	}
	b.WriteString(html.EscapeString(code[done:]))
	return b.String()
}

var shellComment = regexp.MustCompile(`(?m)(^|[ \t])(#.*)$`)

// colorShell marks comments.
func colorShell(code string) string {
	return shellComment.ReplaceAllString(html.EscapeString(code), `$1<span class="c">$2</span>`)
}
