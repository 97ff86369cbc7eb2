package gate_test

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/weights"
)

// A call may not take longer or allocate more than this: the arguments are such
// that honest work is small.
const (
	tooLong = 5 * time.Second
	tooMuch = 1 << 30
)

// skipped are the functions that garbage is not for, and why.
var skipped = map[string]string{
	"board.Progress.Printf":    "formats whatever it is given, as fmt does",
	"nn.LoadOption":            "a program cannot name its argument",
	"nn.Option":                "a program cannot name its argument",
	"train.Trainer.Fit":        "trains for as long as it is told to; package train has a fuzzer of its own",
	"train.Trainer.FitContext": "see Fit",
	"train.NewFlags":           "package flag panics where a name is taken",
	"locus.UseBLAS":            "loads a library into the process, whose work is then not ours",
}

// TestGarbage calls every exported function and method with garbage: nil, zero
// values, freed tensors, huge and negative sizes, NaN, mixed devices. Nothing but
// a *locus.Error may come out, soon and without much memory.
//
// LOCUS_GARBAGE=1m goes on for a minute, with another seed each time;
// LOCUS_GARBAGE_SEED=n repeats a run; LOCUS_GARBAGE_ONLY=nn.Lin calls only what
// the regular expression matches.
func TestGarbage(t *testing.T) {
	if os.Getenv("LOCUS_GARBAGE_CHILD") != "" {
		child(t)
		return
	}
	length, seed := 4*time.Second, int64(1)
	if testing.Short() {
		length = time.Second
	}
	if s := os.Getenv("LOCUS_GARBAGE"); s != "" {
		var err error
		if length, err = time.ParseDuration(s); err != nil {
			t.Fatal(err)
		}
		seed = time.Now().UnixNano() % 1e6
	}
	if s := os.Getenv("LOCUS_GARBAGE_SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseInt(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	// A process of its own, since garbage may end it. Each takes a while, so that
	// what earlier calls left behind does not pile up.
	failures := map[string]bool{}
	for end := time.Now().Add(length); time.Now().Before(end); seed++ {
		length := min(time.Until(end), 10*time.Second)
		for _, f := range try(t, seed, length) {
			name, _, _ := strings.Cut(f, "\n")
			if !failures[name] {
				t.Errorf("seed %d: %s", seed, f)
			}
			failures[name] = true
		}
	}
}

// try runs a child and returns what it found.
func try(t *testing.T, seed int64, length time.Duration) []string {
	folder := t.TempDir()
	last := folder + "/../last-call"
	c := exec.Command(os.Args[0], "-test.run=^TestGarbage$", "-test.v")
	c.Dir = folder
	c.Env = append(os.Environ(), "LOCUS_GARBAGE_CHILD="+length.String(), "LOCUS_GARBAGE_SEED="+fmt.Sprint(seed), "LOCUS_GARBAGE_LAST="+last,
		"HOME="+folder, "XDG_CACHE_HOME="+folder, "HTTPS_PROXY=127.0.0.1:1", "HTTP_PROXY=127.0.0.1:1")
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	var found []string
	var report []string
	lines := bufio.NewScanner(&out)
	lines.Buffer(nil, 1<<20)
	var tail []string
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "GARBAGE END"):
			found = append(found, strings.Join(report, "\n"))
			report = nil
		case strings.HasPrefix(line, "GARBAGE "):
			report = append(report, strings.TrimPrefix(line, "GARBAGE "))
		case strings.HasPrefix(line, "CALLS "):
			t.Logf("seed %d: %s", seed, line)
		default:
			tail = append(tail, line)
		}
	}
	if err != nil {
		call, _ := os.ReadFile(last)
		name, _, _ := bytes.Cut(bytes.TrimRight(call, " \x00"), []byte("("))
		if i := slices.IndexFunc(tail, func(s string) bool { return strings.HasPrefix(s, "panic:") || strings.HasPrefix(s, "fatal error:") }); i >= 0 {
			tail = tail[i:]
		}
		if len(tail) > 60 {
			tail = tail[:60]
		}
		found = append(found, fmt.Sprintf("%s ends the process (%v)\n  %s\n%s", name, err, bytes.TrimRight(call, " \x00\n"), strings.Join(tail, "\n")))
	}
	return found
}

// callee is a function or a method of something.
type callee struct {
	name   string
	fn     reflect.Value // a function, or
	recv   reflect.Type  // the receiver's type
	method string
}

func callees() []callee {
	var l []callee
	for name, f := range functions {
		l = append(l, callee{name: name, fn: reflect.ValueOf(f)})
	}
	for _, t := range types {
		name := t.String()
		switch {
		case t.Kind() == reflect.Interface:
			for i := range t.NumMethod() {
				l = append(l, callee{name: name + "." + t.Method(i).Name, recv: t, method: t.Method(i).Name})
			}
			continue
		case t.Kind() == reflect.Func:
			l = append(l, callee{name: name, recv: t})
		}
		// Methods of the value, then those of its pointer alone.
		for i := range t.NumMethod() {
			l = append(l, callee{name: name + "." + t.Method(i).Name, recv: t, method: t.Method(i).Name})
		}
		for p, i := reflect.PointerTo(t), 0; i < p.NumMethod(); i++ {
			m := p.Method(i).Name
			if _, ok := t.MethodByName(m); !ok {
				l = append(l, callee{name: name + "." + m, recv: p, method: m})
			}
		}
	}
	l = slices.DeleteFunc(l, func(c callee) bool { return skipped[c.name] != "" })
	slices.SortFunc(l, func(a, b callee) int { return cmp.Compare(a.name, b.name) })
	return l
}

// child makes call after call, and prints what should not happen.
func child(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("LOCUS_GARBAGE_CHILD"))
	if err != nil {
		t.Fatal(err)
	}
	seed, _ := strconv.ParseInt(os.Getenv("LOCUS_GARBAGE_SEED"), 10, 64)
	last, err := os.Create(os.Getenv("LOCUS_GARBAGE_LAST"))
	if err != nil {
		t.Fatal(err)
	}
	writeFiles(t)
	m := newMaker(seed)
	all := callees()
	if only := os.Getenv("LOCUS_GARBAGE_ONLY"); only != "" {
		match := regexp.MustCompile(only)
		all = slices.DeleteFunc(all, func(c callee) bool { return !match.MatchString(c.name) })
	}
	seen := map[string]bool{}
	report := func(name, what, call, more string) {
		key := name + " " + what
		if seen[key] {
			return
		}
		seen[key] = true
		for _, line := range strings.Split(fmt.Sprintf("%s: %s\n  %s\n%s", name, what, call, more), "\n") {
			fmt.Println("GARBAGE", line)
		}
		fmt.Println("GARBAGE END")
	}
	var w watch
	go w.run(report)
	n, refused := 0, 0
	for end := time.Now().Add(length); time.Now().Before(end); n++ {
		c := all[m.rng.Intn(len(all))]
		fn, args, text := m.draw(c)
		if !fn.IsValid() {
			continue
		}
		last.WriteAt([]byte(fmt.Sprintf("%-2000.2000s", text)), 0)
		w.begin(c.name, text)
		var out []reflect.Value
		p, refusal, stack := catch(func() { out = call(fn, args) })
		if p == nil && out == nil {
			refused++
		}
		w.end(report)
		if p != nil {
			report(c.name, fmt.Sprintf("panics: %v", p), text, stack)
		}
		if refusal != nil && !names(refusal, c, args) {
			report(c.name, fmt.Sprintf("its error says that %q was called", refusal.Op), text, refusal.Error())
		}
		m.mu.Lock()
		for _, v := range out {
			m.keep(v, text)
			if v.Kind() == reflect.Slice && v.Type().Elem() == tensorType && v.Len() < 20 {
				for i := range v.Len() {
					m.keep(v.Index(i), text)
				}
			}
		}
		m.mu.Unlock()
		locus.Guard(locus.Allow)
		locus.SetDefaultDevice(locus.CPU())
		locus.AllowTF32(false)
		locus.AllowNondeterminism(false)
	}
	fmt.Println("CALLS", n, "of", len(all), "functions and methods;", refused, "were refused")
}

func writeFiles(t *testing.T) {
	x := locus.Ones(2, 3)
	if err := errors.Join(os.WriteFile("file.csv", []byte("a,b\n1,2\nx,\n"), 0o666), weights.SaveNPY("file.npy", x),
		weights.SaveNPZ("file.npz", map[string]*locus.Tensor{"x": x}), weights.Save("file.safetensors", map[string]*locus.Tensor{"x": x}, nil)); err != nil {
		t.Fatal(err)
	}
}

// draw chooses a receiver and arguments. The function is invalid where there is
// no receiver yet.
func (m *maker) draw(c callee) (fn reflect.Value, args []argument, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := c.name
	fn = c.fn
	template, like := m.templates[c.name]
	like = like && m.chance(0.7)
	if c.recv != nil {
		var r argument
		if like {
			r, template = argument{reflect.ValueOf(template[0]), "as in the template"}, template[1:]
		}
		if !like || m.chance(0.1) {
			r = m.receiver(c.recv)
		}
		if !r.v.IsValid() || r.v.Kind() == reflect.Interface && r.v.IsNil() {
			return reflect.Value{}, nil, ""
		}
		name = "(" + r.text + ")." + c.method
		switch {
		case c.method != "":
			fn = r.v.MethodByName(c.method)
		case r.v.IsNil():
			return reflect.Value{}, nil, ""
		default:
			fn = r.v
		}
	}
	t := fn.Type()
	for i := range t.NumIn() {
		if like && m.chance(0.65) {
			args = append(args, m.vary(argument{reflect.ValueOf(template[i]), "as in the template"}))
			continue
		}
		if t.IsVariadic() && i == t.NumIn()-1 {
			args = append(args, m.list(t.In(i), pick(m, []int{0, 0, 1, 1, 1, 2, 3, 4}), 0))
		} else {
			args = append(args, m.value(t.In(i), 0))
		}
	}
	var texts []string
	for _, a := range args {
		texts = append(texts, a.text)
	}
	return fn, args, c.name + "(" + strings.Join(texts, ", ") + ") as " + name
}

// vary changes one field of a struct of options, or one element of a list, or nothing.
func (m *maker) vary(a argument) argument {
	t := a.v.Type()
	switch {
	case m.chance(0.5):
	case t.Kind() == reflect.Struct && t.NumField() > 0:
		v := reflect.New(t).Elem()
		v.Set(a.v)
		if i := m.rng.Intn(t.NumField()); t.Field(i).IsExported() {
			b := m.value(t.Field(i).Type, 1)
			v.Field(i).Set(b.v)
			return argument{v, a.text + " with " + t.Field(i).Name + ": " + b.text}
		}
	case t.Kind() == reflect.Slice && a.v.Len() > 0:
		v := reflect.MakeSlice(t, a.v.Len(), a.v.Len())
		reflect.Copy(v, a.v)
		i, b := m.rng.Intn(v.Len()), m.value(t.Elem(), 1)
		v.Index(i).Set(b.v)
		return argument{v, fmt.Sprintf("%s with [%d]: %s", a.text, i, b.text)}
	}
	return a
}

// receiver draws one: mostly something that a call has returned, else a zero value or nil.
func (m *maker) receiver(t reflect.Type) argument {
	if t.Kind() == reflect.Interface {
		return m.implementation(t, 0)
	}
	if t == tensorType {
		return m.value(t, 0)
	}
	if old := m.pool[t]; len(old) > 0 && m.chance(0.8) {
		return pick(m, old)
	}
	if t.Kind() == reflect.Pointer {
		if m.chance(0.3) {
			return argument{reflect.Zero(t), "(" + t.String() + ")(nil)"}
		}
		return argument{reflect.New(t.Elem()), "new(" + t.Elem().String() + ")"}
	}
	return m.value(t, 0)
}

func call(fn reflect.Value, args []argument) []reflect.Value {
	in := make([]reflect.Value, len(args))
	t := fn.Type()
	for i, a := range args {
		in[i] = a.v
		if want := t.In(i); want.Kind() == reflect.Interface {
			in[i] = reflect.New(want).Elem()
			if a.v.IsValid() {
				in[i].Set(a.v)
			}
		}
	}
	var out []reflect.Value
	if t.IsVariadic() {
		out = fn.CallSlice(in)
	} else {
		out = fn.Call(in)
	}
	return append([]reflect.Value{}, out...) // not nil
}

// names reports whether an error names what was called, as far as it can: a function
// among the arguments calls ops itself, and what was queued earlier fails later.
func names(e *locus.Error, c callee, args []argument) bool {
	name, ok := strings.CutPrefix(c.name, "locus.")
	if !ok || e.Async || slices.ContainsFunc(args, func(a argument) bool { return a.v.IsValid() && a.v.Kind() == reflect.Func }) {
		return true
	}
	for _, plain := range []string{"Tensor.", "Device.", "Maker."} {
		name = strings.TrimPrefix(name, plain)
	}
	name, _, _ = strings.Cut(name, "[")                                                                         // of a type
	if c.method == "" && c.recv != nil || c.recv != nil && c.recv.Kind() == reflect.Interface || nested[name] { // a function value or an interface, which have no name of their own
		return true
	}
	return e.Op == name
}

// nested are functions that run a function they were given before: its ops fail under
// their own names.
var nested = map[string]bool{"Compiled.Call": true}

// catch runs f and returns what it panicked with, or the *locus.Error.
func catch(f func()) (p any, refusal *locus.Error, stack string) {
	defer func() {
		p = recover()
		e, ok := p.(*locus.Error)
		switch {
		case ok && e != nil:
			p, refusal = nil, e
			_ = e.Error()
		case p != nil:
			stack = trace(string(debug.Stack()))
		}
	}()
	f()
	return nil, nil, ""
}

// trace is the part of a stack below the panic.
func trace(s string) string {
	if _, below, ok := strings.Cut(s, "panic("); ok {
		s = below
	}
	lines := strings.Split(s, "\n")
	if i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "reflect.Value.call(") }); i > 0 {
		lines = lines[:i]
	}
	if len(lines) > 20 {
		lines = lines[:20]
	}
	return strings.Join(lines, "\n")
}

// watch makes sure that calls end soon and do not take much memory.
type watch struct {
	since     atomic.Int64 // when the present call began; 0 between calls
	name      string
	text      string
	allocated uint64
}

func (w *watch) begin(name, text string) {
	w.name, w.text = name, text
	w.allocated = allocated()
	w.since.Store(time.Now().UnixNano())
}

func (w *watch) end(report func(name, what, call, more string)) {
	w.since.Store(0)
	if n := allocated() - w.allocated; n > tooMuch {
		report(w.name, fmt.Sprintf("allocates more than %d MiB", tooMuch>>20), w.text, fmt.Sprint(n, " bytes"))
	}
	stats := locus.CPU().MemoryStats()
	if stats.Peak > tooMuch {
		report(w.name, fmt.Sprintf("makes tensors of more than %d MiB", tooMuch>>20), w.text, stats.String())
		locus.CPU().Collect()
		locus.CPU().ResetPeak()
	}
}

func (w *watch) run(report func(name, what, call, more string)) {
	for {
		time.Sleep(50 * time.Millisecond)
		since := w.since.Load()
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		slow := since != 0 && time.Since(time.Unix(0, since)) > tooLong
		if slow || memory.HeapAlloc > 4*tooMuch {
			buf := make([]byte, 1<<20)
			buf = buf[:runtime.Stack(buf, true)]
			what := "takes too long"
			if !slow {
				what = "takes too much memory"
			}
			s := string(buf)
			if i := strings.Index(s, "gate_test.call("); i >= 0 {
				from := max(strings.LastIndex(s[:i], "\n\n"), 0)
				s = s[from:min(from+3000, len(s))]
			}
			report(w.name, what, w.text, s)
			os.Exit(0)
		}
	}
}

func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
