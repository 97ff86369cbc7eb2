// Command sanitize runs NVIDIA's compute-sanitizer over the CUDA kernels, op by op
// of the conformance suite, several processes at a time:
//
//	go run ./scripts/sanitize
//
// It needs a GPU and the CUDA toolkit. It checks this package's own kernels
// (cuBLAS and cuDNN are switched off) with a sample of every op's cases: watching
// each access makes a kernel a hundred times slower. On a machine without Go, take
// the two programs there:
//
//	CGO_ENABLED=0 go test -c -o cuda.test ./internal/cuda
//	CGO_ENABLED=0 go build ./scripts/sanitize
//	./sanitize -test ./cuda.test
//
// It prints a line for each op and tool, and fails unless all are clean. What the
// tools said about an op that is not is in the folder that -logs names.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

var (
	binary    = flag.String("test", "", "the compiled tests of ./internal/cuda; compiled now if not given")
	sanitizer = flag.String("sanitizer", "compute-sanitizer", "the program")
	tools     = flag.String("tools", "memcheck,racecheck,initcheck,synccheck", "which checks")
	only      = flag.String("ops", "", "a regular expression that an op's name must match; all without it")
	processes = flag.Int("j", 8, "processes at a time")
	groups    = flag.Int("groups", 16, "in how many processes the ops of a check run")
	limit     = flag.Duration("timeout", 2*time.Minute, "how long one process may take")
	budget    = flag.Duration("budget", time.Hour, "how long one check may take; ops that are not through by then get no verdict")
	all       = flag.Bool("all", false, "every case of an op, not a sample")
	logs      = flag.String("logs", filepath.Join(os.TempDir(), "locus-sanitize"), "the folder for the tools' words")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "sanitize:", err)
		os.Exit(1)
	}
}

func run() error {
	if *binary == "" {
		dir, err := os.MkdirTemp("", "sanitize")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		*binary = filepath.Join(dir, "cuda.test")
		build := exec.Command("go", "test", "-c", "-o", *binary, "./internal/cuda")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return fmt.Errorf("compiling the tests: %w\n%s", err, out)
		}
	}
	if _, err := exec.LookPath(*sanitizer); err != nil {
		return fmt.Errorf("%w: it comes with the CUDA toolkit, in bin or extras/compute-sanitizer", err)
	}
	var err error
	if *binary, err = filepath.Abs(*binary); err != nil {
		return err
	}
	if err := os.MkdirAll(*logs, 0o755); err != nil {
		return err
	}
	ops, err := list()
	if err != nil {
		return err
	}
	dirty := 0
	for _, tool := range strings.Split(*tools, ",") {
		start := time.Now()
		verdicts := check(tool, ops)
		bad := 0
		for _, op := range ops {
			fmt.Printf("%-10s %-24s %s\n", tool, op, verdicts[op])
			if verdicts[op] != clean {
				bad++
			}
		}
		took := time.Since(start).Round(time.Second)
		if bad == 0 {
			fmt.Printf("%s: clean over %d ops in %v\n", tool, len(ops), took)
		} else {
			fmt.Printf("%s: NOT CLEAN, %d of %d ops, in %v; see %s\n", tool, bad, len(ops), took, *logs)
		}
		dirty += bad
	}
	if dirty > 0 {
		return fmt.Errorf("%d of %d verdicts are not clean", dirty, len(ops)*len(strings.Split(*tools, ",")))
	}
	return nil
}

// list asks the tests for the ops that have kernels.
func list() ([]string, error) {
	filter, err := regexp.Compile(*only)
	if err != nil {
		return nil, err
	}
	out, err := exec.Command(*binary, "-test.run", "^TestConformance$", "-backendtest.list").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("listing the ops: %w\n%s", err, out)
	}
	var ops []string
	for _, name := range strings.Fields(string(out)) {
		if name != "PASS" && filter.MatchString(name) {
			ops = append(ops, name)
		}
	}
	if len(ops) == 0 {
		return nil, fmt.Errorf("there is nothing to check: is there a GPU? The tests said\n%s", out)
	}
	return ops, nil
}

const clean = "clean"

// check returns a tool's verdict on each op. Ops run in groups, since starting a
// process takes longer than an op; those of a group that is not clean run again
// one by one, to tell which it is.
func check(tool string, ops []string) map[string]string {
	parts := make([][]string, min(*groups, len(ops)))
	for i, op := range ops {
		parts[i%len(parts)] = append(parts[i%len(parts)], op)
	}
	ctx, cancel := context.WithTimeout(context.Background(), *budget)
	defer cancel()
	verdicts := map[string]string{}
	var again [][]string
	each(ctx, parts, func(part []string, verdict string, mu *sync.Mutex) {
		mu.Lock()
		defer mu.Unlock()
		for _, op := range part {
			verdicts[op] = verdict
			if verdict != clean {
				again = append(again, []string{op})
			}
		}
	}, tool)
	each(ctx, again, func(part []string, verdict string, mu *sync.Mutex) {
		mu.Lock()
		defer mu.Unlock()
		verdicts[part[0]] = verdict
	}, tool)
	return verdicts
}

// each runs a tool over groups of ops, several at a time.
func each(ctx context.Context, parts [][]string, done func(part []string, verdict string, mu *sync.Mutex), tool string) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	slots := make(chan struct{}, *processes)
	for _, part := range parts {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			done(part, sanitize(ctx, tool, part), &mu)
		})
	}
	wg.Wait()
}

// sanitize runs a tool over some ops in one process and returns its verdict.
func sanitize(ctx context.Context, tool string, ops []string) string {
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	if ctx.Err() != nil {
		return "no verdict: out of time"
	}
	args := []string{"--tool", tool, "--error-exitcode", "99", *binary, "-test.v", "-test.timeout", limit.String(), "-test.run", "^TestConformance$/^Ops$/^(" + strings.Join(ops, "|") + ")$"}
	if !*all {
		args = append(args, "-test.short")
	}
	cmd := exec.CommandContext(ctx, *sanitizer, args...)
	cmd.WaitDelay = time.Second // the program it starts may hold the output open
	cmd.Dir = filepath.Dir(*binary)
	cmd.Env = append(os.Environ(), "LOCUS_CUBLAS=off", "LOCUS_CUBLASLT=off", "LOCUS_CUDNN=off", "LOCUS_CUFFT=off", "LOCUS_CUSOLVER=off")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	verdict := judge(out.String(), ops, err)
	switch {
	case ctx.Err() != nil:
		verdict = "no verdict: out of time"
	case verdict == clean:
		return clean
	}
	name := filepath.Join(*logs, tool+"-"+ops[0]+".log")
	if err := os.WriteFile(name, out.Bytes(), 0o644); err != nil {
		return verdict + " (" + err.Error() + ")"
	}
	return verdict
}

var summary = regexp.MustCompile(`(?m)^=+ (?:ERROR|RACECHECK) SUMMARY: (.*)$`)

// judge reads a run's output: clean means that every op was tried, passed, and
// that the tool says so too.
func judge(out string, ops []string, err error) string {
	for _, op := range ops {
		if !strings.Contains(out, "--- PASS: TestConformance/Ops/"+op+" ") {
			return "did not pass"
		}
	}
	m := summary.FindStringSubmatch(out)
	if m == nil {
		return "the tool gave no summary"
	}
	if err != nil || !slices.ContainsFunc([]string{"0 errors", "0 hazards displayed (0 errors, 0 warnings)"}, func(s string) bool { return strings.HasPrefix(m[1], s) }) {
		return strings.TrimSpace(m[1])
	}
	return clean
}
