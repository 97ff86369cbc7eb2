package text

import (
	"go/scanner"
	"go/token"
	"strings"
)

// Code returns lines of Go code in color, where there is color.
func (o *Out) Code(lines []string) []string {
	if !o.Color {
		return lines
	}
	src := []byte(strings.Join(lines, "\n"))
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(src))
	var s scanner.Scanner
	s.Init(file, src, func(token.Position, string) {}, scanner.ScanComments)
	var b strings.Builder
	at := 0
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			break
		}
		if tok == token.SEMICOLON && lit == "\n" {
			continue
		}
		start := file.Offset(pos)
		if lit == "" {
			lit = tok.String()
		}
		b.Write(src[at:start])
		b.WriteString(o.token(tok, lit))
		at = start + len(lit)
	}
	b.Write(src[at:])
	return strings.Split(b.String(), "\n")
}

func (o *Out) token(tok token.Token, lit string) string {
	var st Style
	switch {
	case tok.IsKeyword():
		st = Blue
	case tok == token.COMMENT:
		st = Dim
	case tok == token.STRING || tok == token.CHAR:
		st = Green
	case tok == token.INT || tok == token.FLOAT:
		st = Cyan
	default:
		return lit
	}
	parts := strings.Split(lit, "\n") // each line has its own color
	for i, p := range parts {
		parts[i] = o.Style(st, p)
	}
	return strings.Join(parts, "\n")
}
