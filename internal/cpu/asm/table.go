package main

import (
	"bytes"
	"fmt"
	"strings"
)

// A fn is one function of package vec. The table drives both the assembly and
// the Go file that dispatches between it and the plain Go version.
type fn struct {
	name   string // without the type suffix, e.g. Add
	doc    string // what it does, after the name
	class  string
	types  string // "F32", "F64", or both; "" for names that carry no suffix
	asm    string // types with assembly
	go_    string // the plain Go function
	small  string // bound on |a| for the assembly; beyond it plain Go takes over
	own    bool   // package vec dispatches by hand
	stream bool   // has a version for results larger than the caches, on amd64
	amd64  bool   // has no version for NEON
	emit   func(v *vk)
}

// A class is a signature shape. T stands for the element type.
type class struct {
	params, result string // of the Go function
	length         string // slice whose length counts
	others         string // slices that must be at least as long, comma-separated
	asmParams      string
	call           string // arguments to the assembly
	goCall         string
	empty          string // what to return when there is nothing to do
	takes          reach
}

// reach is how many elements the assembly takes; plain Go takes the others.
type reach int

const (
	all    reach = iota
	blocks       // of 16 elements
	pairs        // of vectors
)

var classes = map[string]class{
	"unary":            {"dst, a []T", "", "dst", "a", "dst, a *T, n int", "&dst[0], &a[0], n", "dst, a", "", all},
	"binary":           {"dst, a, b []T", "", "dst", "a,b", "dst, a, b *T, n int", "&dst[0], &a[0], &b[0], n", "dst, a, b", "", all},
	"scalar":           {"dst, a []T, s T", "", "dst", "a", "dst, a *T, s T, n int", "&dst[0], &a[0], s, n", "dst, a, s", "", all},
	"scalar2":          {"dst, a []T, s, t T", "", "dst", "a", "dst, a *T, s, t T, n int", "&dst[0], &a[0], s, t, n", "dst, a, s, t", "", all},
	"axpy":             {"dst []T, s T, x []T", "", "dst", "x", "dst, a *T, s T, n int", "&dst[0], &x[0], s, n", "dst, s, x", "", all},
	"blend":            {"dst, a []T, s T, b []T, t T", "", "dst", "a,b", "dst, a, b *T, s, t T, n int", "&dst[0], &a[0], &b[0], s, t, n", "dst, a, s, b, t", "", all},
	"ternary":          {"dst, a, b, c []T", "", "dst", "a,b,c", "dst, a, b, c *T, n int", "&dst[0], &a[0], &b[0], &c[0], n", "dst, a, b, c", "", all},
	"compare":          {"dst []uint8, a, b []T", "", "dst", "a,b", "dst *uint8, a, b *T, n int", "&dst[0], &a[0], &b[0], n", "dst, a, b", "", blocks},
	"compareS":         {"dst []uint8, a []T, s T", "", "dst", "a", "dst *uint8, a *T, s T, n int", "&dst[0], &a[0], s, n", "dst, a, s", "", blocks},
	"select":           {"dst []T, mask []uint8, a, b []T", "", "dst", "mask,a,b", "dst *T, mask *uint8, a, b *T, n int", "&dst[0], &mask[0], &a[0], &b[0], n", "dst, mask, a, b", "", blocks},
	"reduce":           {"a []T", "float64", "a", "", "a *T, n int", "&a[0], n", "a", "return 0", all},
	"reduce2":          {"a []T", "(sum, sumsq float64)", "a", "", "a *T, n int", "&a[0], n", "a", "return 0, 0", all},
	"reduceS64":        {"a []T, mean float64", "float64", "a", "", "a *T, s float64, n int", "&a[0], mean, n", "a, mean", "return 0", all},
	"dot":              {"a, b []T", "float64", "a", "b", "a, b *T, n int", "&a[0], &b[0], n", "a, b", "return 0", all},
	"reduceMax":        {"a []T", "T", "a", "", "a *T, n int", "&a[0], n", "a", "return T(math.Inf(-1))", all},
	"reduceMin":        {"a []T", "T", "a", "", "a *T, n int", "&a[0], n", "a", "return T(math.Inf(1))", all},
	"sumExp":           {"a []T, m T", "float64", "a", "", "a *T, s T, n int", "&a[0], m, n", "a, m", "return 0", all},
	"expSub":           {"dst, a []T, m T", "float64", "dst", "a", "dst, a *T, s T, n int", "&dst[0], &a[0], m, n", "dst, a, m", "return 0", all},
	"scalarTo16":       {"dst []uint16, a []float32, s float32", "", "dst", "a", "dst *uint16, a *float32, s float32, n int", "&dst[0], &a[0], s, n", "dst, a, s", "", blocks},
	"powHalf":          {result: "float32", asmParams: "dst *uint16, a *float32, s, t float32, n int"},
	"powGradHalf":      {asmParams: "p, d *uint16, a, b *float32, s, t, u, w float32, n int"},
	"from16":           {"dst []float32, a []uint16", "", "dst", "a", "dst *float32, a *uint16, n int", "&dst[0], &a[0], n", "dst, a", "", blocks},
	"to16":             {"dst []uint16, a []float32", "", "dst", "a", "dst *uint16, a *float32, n int", "&dst[0], &a[0], n", "dst, a", "", blocks},
	"from8":            {"dst []float32, a []uint8", "", "dst", "a", "dst *float32, a *uint8, n int", "&dst[0], &a[0], n", "dst, a", "", blocks},
	"from32":           {"dst []float32, a []int32", "", "dst", "a", "dst *float32, a *int32, n int", "&dst[0], &a[0], n", "dst, a", "", blocks},
	"average":          {"dst, a, b []T", "", "dst", "a,b", "dst, a, b *T, n int", "", "", "", all},
	"spread":           {"dst, also, a []T", "", "a", "dst,also", "dst, also, a *T, n int", "", "", "", all},
	"largest":          {"dst, also, a, b, grad []T", "", "grad", "dst,also,a,b", "dst, also, a, b, grad *T, n int", "", "", "", all},
	"sumRows":          {params: "acc []float64, rows *[Rows]*T, ahead int", length: "acc", asmParams: "acc *float64, rows *[8]*T, ahead, n int", call: "&acc[0], rows, ahead, n", goCall: "acc, rows, n", takes: pairs},
	"extremeRows":      {params: "acc []T, rows *[Rows]*T, ahead int", length: "acc", asmParams: "acc *T, rows *[8]*T, ahead, n int", call: "&acc[0], rows, ahead, n", goCall: "acc, rows, n", takes: pairs},
	"take":             {asmParams: "dst, src *uint8, idx *int64, n, size int"},
	"split":            {asmParams: "even, odd, a *T, n int"},
	"join":             {asmParams: "dst, even, odd *T, n int"},
	"claim":            {asmParams: "dst, grad, a, m *T, n int"},
	"transpose1":       {asmParams: "dst *uint8, pitch int, src *uint8, from, rows, columns int"},
	"transpose2":       {asmParams: "dst *uint16, pitch int, src *uint16, from, rows, columns int"},
	"transpose4":       {asmParams: "dst *uint32, pitch int, src *uint32, from, rows, columns int"},
	"transpose8":       {asmParams: "dst *uint64, pitch int, src *uint64, from, rows, columns int"},
	"transposeStream1": {asmParams: "dst *uint8, pitch int, src *uint8, from int, buf *byte, tiles int"},
	"transposeStream2": {asmParams: "dst *uint16, pitch int, src *uint16, from int, buf *byte, tiles int"},
	"transposeStream4": {asmParams: "dst *uint32, pitch int, src *uint32, from int, buf *byte, tiles int"},
	"transposeStream8": {asmParams: "dst *uint64, pitch int, src *uint64, from int, buf *byte, tiles int"},
	"philox":           {"dst []uint32, key, block uint64", "", "dst", "", "dst *uint32, key, block uint64, n int", "", "", "", all},
	"fromWords":        {"dst []float32, a []uint32", "", "dst", "a", "dst *float32, a *uint32, n int", "&dst[0], &a[0], n", "dst, a", "", blocks},
	"from64":           {"dst []float32, a []int64", "", "dst", "a", "dst *float32, a *int64, n int", "&dst[0], &a[0], n", "dst, a", "", blocks},
}

func goType(t string) string {
	if t == "F64" {
		return "float64"
	}
	return "float32"
}

// subst puts the element type in place of the word T.
func subst(s, t string) string {
	for _, r := range []string{"[]T", "*T", " T", "(T"} {
		s = strings.ReplaceAll(s, r, r[:len(r)-1]+goType(t))
	}
	if strings.HasPrefix(s, "T(") {
		s = goType(t) + s[1:]
	}
	if s == "T" {
		s = goType(t)
	}
	return s
}

func lower(s string) string {
	// Leading capitals that begin an acronym or type name fall together.
	if strings.HasPrefix(s, "BF16") || strings.HasPrefix(s, "F16") || strings.HasPrefix(s, "F32") || strings.HasPrefix(s, "U8") || strings.HasPrefix(s, "I32") || strings.HasPrefix(s, "I64") {
		i := strings.Index(s, "To")
		return strings.ToLower(s[:i]) + s[i:]
	}
	return strings.ToLower(s[:1]) + s[1:]
}

func (f fn) typesList() []string {
	if f.types == "" {
		return []string{""}
	}
	return strings.Fields(f.types)
}

func (f fn) hasAsm(t string) bool {
	if f.emit == nil {
		return false
	}
	if t == "" {
		return f.asm != "none"
	}
	for _, s := range strings.Fields(f.asm) {
		if s == t {
			return true
		}
	}
	return false
}

func (f fn) hasNEON(t string) bool { return f.hasAsm(t) && !f.amd64 }

// levels returns the levels for which a function has assembly, in the order in which they are
// tried.
func (f fn) levels(t string) []string {
	if f.hasNEON(t) {
		return []string{"AVX512", "AVX2", "NEON"}
	}
	return []string{"AVX512", "AVX2"}
}

// asmName is the assembly function for element type t at a level.
func (f fn) asmName(t, level string) string { return lower(f.name) + t + level }

func (f fn) streamName(level string) string { return lower(f.name) + "StreamF32" + level }

func (f fn) asmResult() string {
	c := classes[f.class]
	return c.result
}

// pair is how many elements two vectors have.
func pair(t, level string) int {
	bytes := map[string]int{"AVX512": 64, "AVX2": 32, "NEON": 16}[level]
	if t == "F64" {
		return 2 * bytes / 8
	}
	return 2 * bytes / 4
}

func vecDispatch() []byte {
	var w bytes.Buffer
	fmt.Fprintf(&w, "package vec\n\nimport \"math\"\n\n")
	for _, f := range table {
		c, ok := classes[f.class]
		if !ok {
			panic(f.class)
		}
		if f.own {
			continue
		}
		for _, t := range f.typesList() {
			doc := f.doc
			if t == "F64" && strings.Contains(f.types, "F32") {
				doc = "is " + f.name + "F32 for float64."
			}
			fmt.Fprintf(&w, "// %s%s %s\n", f.name, t, doc)
			fmt.Fprintf(&w, "func %s%s(%s) %s {\n", f.name, t, subst(c.params, t), subst(c.result, t))
			if c.takes == pairs {
				fmt.Fprintf(&w, "n := 0\nswitch level {\n")
				for _, l := range f.levels(t) {
					fmt.Fprintf(&w, "case %s:\nif n = len(%s) &^ %d; n > 0 {\n%s(%s)\n}\n", l, c.length, pair(t, l)-1, f.asmName(t, l), c.call)
				}
				fmt.Fprintf(&w, "}\n%s(%s)\n}\n\n", f.go_, c.goCall)
				continue
			}
			fmt.Fprintf(&w, "n := len(%s)\nif n == 0 {\n%s\n}\n", c.length, strings.TrimSuffix("return "+subst(strings.TrimPrefix(c.empty, "return "), t), " "))
			args := c.goCall
			for _, o := range strings.Split(c.others, ",") {
				if o != "" {
					fmt.Fprintf(&w, "%s = %s[:n]\n", o, o)
				}
			}
			ret := ""
			if c.result != "" {
				ret = "return "
			}
			switch {
			case f.hasAsm(t) && f.small != "":
				fmt.Fprintf(&w, "switch level {\n")
				for _, l := range f.levels(t) {
					fmt.Fprintf(&w, "case %s:\nbounded(dst, a, %s, %s, %s)\nreturn\n", l, f.small, f.asmName(t, l), f.go_+"["+goType(t)+"]")
				}
				fmt.Fprintf(&w, "}\n")
			case f.hasAsm(t) && c.takes == blocks:
				fmt.Fprintf(&w, "if m := n &^ 15; m > 0 {\n")
				call := strings.TrimSuffix(c.call, "n") + "m"
				fmt.Fprintf(&w, "switch level {\n")
				for _, l := range f.levels(t) {
					fmt.Fprintf(&w, "case %s:\n%s(%s)\n", l, f.asmName(t, l), call)
				}
				fmt.Fprintf(&w, "default:\nm = 0\n}\nif m == n {\nreturn\n}\n")
				for _, o := range strings.Split(c.length+","+c.others, ",") {
					fmt.Fprintf(&w, "%s = %s[m:]\n", o, o)
				}
				fmt.Fprintf(&w, "}\n")
			case f.hasAsm(t):
				fmt.Fprintf(&w, "switch level {\n")
				for _, l := range f.levels(t) {
					fmt.Fprintf(&w, "case %s:\n%s%s(%s)\n", l, ret, f.asmName(t, l), c.call)
					if ret == "" {
						fmt.Fprintf(&w, "return\n")
					}
				}
				fmt.Fprintf(&w, "}\n")
			}
			fmt.Fprintf(&w, "%s%s(%s)\n}\n\n", ret, f.go_, args)
			if f.stream && t == "F32" {
				streamDispatch(&w, f, c)
			}
		}
	}
	return w.Bytes()
}

// streamDispatch writes the Stream version of f: whole cache lines go to the
// assembly, what is before and behind them to the plain version.
func streamDispatch(w *bytes.Buffer, f fn, c class) {
	slices := append([]string{c.length}, strings.Split(c.others, ",")...)
	part := func(from, to string) string {
		var a []string
		for _, p := range strings.Split(c.goCall, ", ") {
			for _, s := range slices {
				if p == s {
					p = fmt.Sprintf("%s[%s:%s]", p, from, to)
					break
				}
			}
			a = append(a, p)
		}
		return strings.Join(a, ", ")
	}
	fmt.Fprintf(w, "// %sStreamF32 is %sF32 for results that do not fit the caches; see StreamBytes.\n", f.name, f.name)
	fmt.Fprintf(w, "func %sStreamF32(%s) {\n", f.name, subst(c.params, "F32"))
	fmt.Fprintf(w, "n := len(%s)\nh, m := lines(%s)\n", c.length, c.length)
	fmt.Fprintf(w, "if m == 0 {\n%sF32(%s)\nreturn\n}\n", f.name, c.goCall)
	for _, o := range slices[1:] {
		fmt.Fprintf(w, "%s = %s[:n]\n", o, o)
	}
	fmt.Fprintf(w, "%sF32(%s)\n", f.name, part("", "h"))
	call := strings.TrimSuffix(strings.ReplaceAll(c.call, "[0]", "[h]"), "n") + "m"
	fmt.Fprintf(w, "if level == AVX512 {\n%s(%s)\n} else {\n%s(%s)\n}\n", f.streamName("AVX512"), call, f.streamName("AVX2"), call)
	fmt.Fprintf(w, "%sF32(%s)\n}\n\n", f.name, part("h+m", ""))
}

// vecOther declares the assembly functions of an architecture's levels where there are none: the
// one file that dispatches names all of them. They are never called.
func vecOther(constraint string, levels ...string) []byte {
	var w bytes.Buffer
	fmt.Fprintf(&w, "//go:build %s\n\npackage vec\n\n", constraint)
	for _, f := range table {
		c := classes[f.class]
		for _, t := range f.typesList() {
			if !f.hasAsm(t) {
				continue
			}
			for _, l := range levels {
				if l == "NEON" && !f.hasNEON(t) {
					continue
				}
				fmt.Fprintf(&w, "func %s(%s) %s { panic(\"unreachable\") }\n", f.asmName(t, l), subst(c.asmParams, t), subst(f.asmResult(), t))
				if f.stream && t == "F32" && l != "NEON" {
					fmt.Fprintf(&w, "func %s(%s) { panic(\"unreachable\") }\n", f.streamName(l), subst(c.asmParams, t))
				}
			}
		}
	}
	return w.Bytes()
}
