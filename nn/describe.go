package nn

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/internal/units"
)

// Describe returns a table of a network's layers that have tensors, without
// running it: the path of each, its parameters and buffers with their shapes, how
// many numbers they hold, their memory and their device. [Summarize] runs a network
// and knows the shapes of results too.
func Describe(m any) string {
	var rows [][]string
	total, bytes := 0, 0
	kinds := map[string]string{}
	eachLayer(m, func(path string, l any) { kinds[path] = layerKind(l) })
	for _, e := range State(m) {
		path, name := "", e.Name
		if i := strings.LastIndexByte(e.Name, '.'); i >= 0 {
			path, name = e.Name[:i], e.Name[i+1:]
		}
		shape, count, size, where := "not made yet", 0, 0, ""
		if v := e.Value(); v != nil {
			shape, count, size, where = op.ShapeString(v.Shape()), v.Len(), v.Bytes(), v.Device().String()
			if v.DType() != locus.Float32 {
				shape += " " + v.DType().String()
			}
		}
		if e.Kind == Trained && e.Frozen() {
			name += " (frozen)"
		}
		if e.Kind == Trained {
			total += count
		}
		bytes += size
		text := name + " " + shape
		if n := len(rows); n > 0 && rows[n-1][0] == path {
			last := rows[n-1]
			last[2] += ", " + text
			old, _ := strconv.Atoi(last[3])
			oldSize, _ := strconv.Atoi(last[4])
			last[3], last[4] = strconv.Itoa(old+count), strconv.Itoa(oldSize+size)
			continue
		}
		rows = append(rows, []string{path, kinds[path], text, strconv.Itoa(count), strconv.Itoa(size), where})
	}
	for _, r := range rows {
		n, _ := strconv.Atoi(r[4])
		r[4] = units.Bytes(n)
	}
	if len(rows) == 0 {
		return "a network without parameters\n"
	}
	var b strings.Builder
	writeTable(&b, append([][]string{{"path", "layer", "tensors", "numbers", "memory", "device"}}, rows...), 3, 4)
	fmt.Fprintf(&b, "%d parameters, %s\n", total, units.Bytes(bytes))
	return b.String()
}

// layerKind is the name of a layer's type as its constructor has it.
func layerKind(l any) string {
	t := reflect.TypeOf(l)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return strings.TrimSuffix(t.Name(), "Layer")
}

// String returns the table of [Describe].
func (s *SequentialLayer) String() string {
	if s == nil {
		return "no network"
	}
	return Describe(s)
}

// String returns a table of the tensors: names in the order of layers, types,
// shapes, memory, devices.
func (t Tree) String() string {
	if len(t) == 0 {
		return "an empty tree\n"
	}
	rows := [][]string{{"name", "type", "shape", "memory", "device"}}
	names := t.Names()
	slices.SortFunc(names, Natural)
	for _, n := range names {
		x := t[n]
		if x == nil || !x.DType().Valid() {
			rows = append(rows, []string{n, "nil", "", "", ""})
			continue
		}
		rows = append(rows, []string{n, x.DType().String(), op.ShapeString(x.Shape()), units.Bytes(x.Bytes()), x.Device().String()})
	}
	var b strings.Builder
	writeTable(&b, rows, 3)
	return b.String()
}

// Natural compares names as people sort them: numbers in them by value, so that
// layer 3 comes before layer 11.
func Natural(a, b string) int {
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x != "" && y != "" {
			p, q := strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
			if len(p) != len(q) {
				return len(p) - len(q)
			}
			if c := strings.Compare(p, q); c != 0 {
				return c
			}
			if len(x) != len(y) {
				return len(x) - len(y)
			}
			a, b = a[len(x):], b[len(y):]
			continue
		}
		if a[0] != b[0] {
			return int(a[0]) - int(b[0])
		}
		a, b = a[1:], b[1:]
	}
	return len(a) - len(b)
}

// digits returns the number that s begins with.
func digits(s string) string {
	n := 0
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return s[:n]
}

// writeTable writes rows with columns as wide as their widest cell; those at right
// are aligned to the right.
func writeTable(b *strings.Builder, rows [][]string, right ...int) {
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, c := range r {
			widths[i] = max(widths[i], len([]rune(c)))
		}
	}
	for _, r := range rows {
		var line strings.Builder
		for i, c := range r {
			pad := strings.Repeat(" ", widths[i]-len([]rune(c)))
			if slices.Contains(right, i) {
				c = pad + c
			} else {
				c += pad
			}
			line.WriteString(c + "  ")
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}
