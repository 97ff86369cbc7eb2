//go:build linux || darwin

// Command gen compiles the kernels in the folder above to (compressed) PTX:
//
//	go generate ./internal/cuda
//
// It needs no GPU and no CUDA toolkit, only NVRTC, the compiler as a library. It
// is found by -nvrtc or LOCUS_NVRTC, or under its soname. Version 11.8 is the one
// to use (pip download nvidia-cuda-nvrtc-cu11), because the PTX of later ones
// does not load on older drivers. Files named …_sm90 need one of version 12
// (-nvrtc12 or LOCUS_NVRTC12; nvidia-cuda-nvrtc-cu12). With -ptxas (or ptxas on the PATH) every file is
// assembled for the cards it must run on.
//
// The first line of each file holds a hash of its sources, which a test compares.
package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/locusml/locus/internal/cuda/kernels"
)

var force bool

func main() {
	dir := flag.String("dir", "kernels", "the folder with the .cu files")
	lib := flag.String("nvrtc", os.Getenv("LOCUS_NVRTC"), "the NVRTC library")
	lib12 := flag.String("nvrtc12", os.Getenv("LOCUS_NVRTC12"), "the NVRTC library of CUDA 12, for the files named …_sm90")
	ptxas := flag.String("ptxas", "ptxas", "the PTX assembler, to check the result with; empty: no check")
	flag.BoolVar(&force, "force", false, "compile files that are in step with their sources too")
	flag.Parse()
	if err := run(*dir, *lib, *lib12, *ptxas); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(dir, lib, lib12, ptxas string) error {
	if ptxas != "" {
		if _, err := exec.LookPath(ptxas); err != nil {
			fmt.Fprintln(os.Stderr, "gen: no ptxas, so the PTX is not checked:", err)
			ptxas = ""
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.cu"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no .cu files in %s (%v)", dir, err)
	}
	heavy, err := kernels.HeavyIn(os.DirFS(dir))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "heavy.go"), []byte(kernels.HeavyFile(heavy)), 0o644); err != nil {
		return err
	}
	var errs []error
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".cu")
		with := &nvrtc{lib: lib, soname: "libnvrtc.so.11.2"}
		if strings.HasSuffix(name, "_sm90") {
			with = &nvrtc{lib: lib12, soname: "libnvrtc.so.12"}
		}
		errs = append(errs, compile(with, dir, name, ptxas))
	}
	return errors.Join(errs...)
}

func compile(n *nvrtc, dir, name, ptxas string) error {
	start := time.Now()
	t := kernels.TargetOf(name)
	src, err := os.ReadFile(filepath.Join(dir, name+".cu"))
	if err != nil {
		return err
	}
	hash, err := kernels.Hash(os.DirFS(dir), name)
	if err != nil {
		return err
	}
	if old, err := kernels.PTX(name); err == nil && !force && strings.HasPrefix(old, kernels.HashLine(hash)+"\n") {
		return nil // in step already
	}
	if err := n.open(); err != nil {
		return err
	}
	ptx, err := n.compile(name, string(src), "--gpu-architecture=compute_"+t.Arch, "-I"+dir, "--std=c++17", "--diag-suppress=186,177")
	if err != nil {
		return fmt.Errorf("%s.cu: %w", name, err)
	}
	// The compiler writes its own version of the language; the kernels need no
	// more than this one, as ptxas confirms.
	ptx = regexp.MustCompile(`(?m)^\.version .*$`).ReplaceAllString(ptx, ".version "+t.Version)
	ptx = regexp.MustCompile(`(?m)^\s*//.*\n`).ReplaceAllString(ptx, "")
	ptx = regexp.MustCompile(`(?m)^\s*\.pragma "used_bytes_mask.*\n`).ReplaceAllString(ptx, "") // a hint that older versions do not know
	ptx = regexp.MustCompile(`\n{2,}`).ReplaceAllString(ptx, "\n")
	ptx = kernels.HashLine(hash) + "\n" + strings.TrimLeft(ptx, "\n")
	if ptxas != "" {
		if err := check(ptxas, name, ptx, t.Check); err != nil {
			return err
		}
	}
	var z bytes.Buffer
	w, err := gzip.NewWriterLevel(&z, gzip.BestCompression)
	if err != nil {
		return err
	}
	if _, err := w.Write([]byte(ptx)); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, name+".ptx.gz"), z.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Printf("%-14s %4d kernels %5d KB, compressed %4d KB  %.1f s\n", name, strings.Count(ptx, ".visible .entry"), len(ptx)>>10, z.Len()>>10, time.Since(start).Seconds())
	return nil
}

// check assembles the PTX and fails where a kernel spills registers.
func check(ptxas, name, ptx string, archs []string) error {
	f, err := os.CreateTemp("", name+"*.ptx")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.WriteString(ptx); err != nil {
		return err
	}
	f.Close()
	errs := make([]error, len(archs))
	var wg sync.WaitGroup
	for i, arch := range archs {
		wg.Go(func() {
			out, err := exec.Command(ptxas, "-v", "-arch=sm_"+arch, "-o", "/dev/null", f.Name()).CombinedOutput()
			if err != nil {
				errs[i] = fmt.Errorf("%s for sm_%s: %w\n%s", name, arch, err, tail(string(out)))
				return
			}
			entry := ""
			for line := range strings.Lines(string(out)) {
				if strings.Contains(line, "Compiling entry function") {
					entry = line
				}
				if strings.Contains(line, "spill stores") && !strings.Contains(line, " 0 bytes spill stores") {
					fmt.Printf("  sm_%s spills: %s  %s", arch, entry, line)
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func tail(s string) string {
	if len(s) > 4000 {
		return s[:4000]
	}
	return s
}

type nvrtc struct {
	lib, soname      string
	create           func(p *uintptr, src, name string, n int32, headers, includes unsafe.Pointer) int32
	compileProgram   func(p uintptr, n int32, opts **byte) int32
	ptxSize, logSize func(p uintptr, n *uintptr) int32
	ptx, log         func(p uintptr, b *byte) int32
}

func (n *nvrtc) open() error {
	if n.lib == "" {
		n.lib = n.soname
	}
	h, err := purego.Dlopen(n.lib, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return fmt.Errorf("NVRTC was not found (pip download nvidia-cuda-nvrtc-cu11 and -cu12, and set LOCUS_NVRTC and LOCUS_NVRTC12 to their libraries): %w", err)
	}
	for f, name := range map[any]string{&n.create: "nvrtcCreateProgram", &n.compileProgram: "nvrtcCompileProgram",
		&n.ptxSize: "nvrtcGetPTXSize", &n.ptx: "nvrtcGetPTX", &n.logSize: "nvrtcGetProgramLogSize", &n.log: "nvrtcGetProgramLog"} {
		purego.RegisterLibFunc(f, h, name)
	}
	return nil
}

func (n *nvrtc) compile(name, src string, opts ...string) (string, error) {
	var p uintptr
	if rc := n.create(&p, src, name+".cu", 0, nil, nil); rc != 0 {
		return "", fmt.Errorf("nvrtcCreateProgram: %d", rc)
	}
	args := make([]*byte, len(opts))
	for i, o := range opts {
		args[i] = &append([]byte(o), 0)[0]
	}
	rc := n.compileProgram(p, int32(len(opts)), &args[0])
	var size uintptr
	n.logSize(p, &size)
	log := make([]byte, size+1)
	n.log(p, &log[0])
	if text := strings.TrimRight(string(log), "\x00\n"); text != "" {
		fmt.Fprintln(os.Stderr, tail(text))
	}
	if rc != 0 {
		return "", fmt.Errorf("nvrtc error %d", rc)
	}
	n.ptxSize(p, &size)
	out := make([]byte, size)
	n.ptx(p, &out[0])
	return string(out[:size-1]), nil
}
