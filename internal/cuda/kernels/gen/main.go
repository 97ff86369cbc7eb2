//go:build linux || darwin

// Command gen compiles the kernels in the folder above to (compressed) PTX:
//
//	go generate ./internal/cuda
//
// It needs no GPU and no CUDA toolkit, only NVRTC, the compiler as a library: two
// versions of it, and exactly those, because the same sources must make the same PTX
// everywhere. (They almost do: from run to run, NVRTC 11.8 loads one constant of classes.cu
// earlier or later, so compiling it again may show as a difference that means nothing.)
//
//	pip download --no-deps nvidia-cuda-nvrtc-cu11==11.8.89   -nvrtc or LOCUS_NVRTC
//	pip download --no-deps nvidia-cuda-nvrtc-cu12==12.9.86   -nvrtc12 or LOCUS_NVRTC12
//
// The first compiles all files but those named …_sm90: the PTX of later versions does
// not load on older drivers. The second compiles those. Without the flags and variables
// they are looked for by their sonames and in Python's folders. Another version is
// refused unless -another-nvrtc is given; after the pinned versions change, -force
// compiles everything again.
//
// With -ptxas (or ptxas on the PATH; it is part of nvidia-cuda-nvcc-cu12) every file is
// assembled for the cards that it must run on, and a kernel that spills more than a few
// registers is an error. Without ptxas nothing is checked, which gen says.
//
// It also writes heavy.go, which tells the Go side the widths of kernels. The first
// line of each PTX file holds a hash of its sources without their comments, which a test
// compares.
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
	"time"

	"github.com/locusml/locus/internal/cuda/kernels"
	"github.com/locusml/locus/internal/dynlib"
)

var force bool

// The versions of NVRTC.
const (
	nvrtc11 = "11.8.89"
	nvrtc12 = "12.9.86" // for what only Hopper runs
)

func main() {
	dir := flag.String("dir", "kernels", "the folder with the .cu files")
	lib := flag.String("nvrtc", os.Getenv("LOCUS_NVRTC"), "the NVRTC library")
	lib12 := flag.String("nvrtc12", os.Getenv("LOCUS_NVRTC12"), "the NVRTC library of CUDA 12, for the files named …_sm90")
	ptxas := flag.String("ptxas", "ptxas", "the PTX assembler, to check the result with; empty: no check")
	another := flag.Bool("another-nvrtc", false, "take NVRTC of any version: the PTX is then not that of others")
	flag.BoolVar(&force, "force", false, "compile files that are in step with their sources too")
	flag.Parse()
	if err := run(*dir, *ptxas, func(name string) *nvrtc { return compilerOf(name, *lib, *lib12, *another) }); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// compilerOf returns the compiler of the file name.cu; lib and lib12 are the files to
// load, or empty.
func compilerOf(name, lib, lib12 string, another bool) *nvrtc {
	version, wheel, soname := nvrtc11, "cu11", "libnvrtc.so.11.2"
	if strings.HasSuffix(name, "_sm90") {
		lib, version, wheel, soname = lib12, nvrtc12, "cu12", "libnvrtc.so.12"
	}
	n := &nvrtc{want: version, another: another}
	n.find = dynlib.Library{Name: "NVRTC " + version, Names: []string{soname}, Folders: dynlib.Wheels("nvidia/cuda_nvrtc/lib"),
		Remedy: "pip download --no-deps nvidia-cuda-nvrtc-" + wheel + "==" + version + ", and name its library with a flag: see -help"}
	if lib != "" {
		n.find.Names, n.find.Folders = []string{lib}, nil
	}
	return n
}

func run(dir, ptxas string, compiler func(name string) *nvrtc) error {
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
	compilers := map[string]*nvrtc{} // by version
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".cu")
		with := compiler(name)
		if compilers[with.want] == nil {
			compilers[with.want] = with
		}
		errs = append(errs, compile(compilers[with.want], dir, name, ptxas))
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
	ptx = kernels.HashLine(hash) + "\n" + normalize(ptx, t.Version)
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

// normalize removes from the compiler's text what does not depend on the source
// alone.
func normalize(ptx, version string) string {
	for _, r := range []struct{ pattern, by string }{
		// The compiler writes its own version of the language; the kernels need no more
		// than this one, as ptxas confirms.
		{`(?m)^\.version .*$`, ".version " + version},
		{`(?m)^\s*//.*\n`, ""},
		{`(?m)[ \t]*// callseq .*$`, ""},              // counted through all files of one run
		{`(?m)^\s*\.pragma "used_bytes_mask.*\n`, ""}, // a hint that older versions do not know
		{`\n{2,}`, "\n"},
	} {
		ptx = regexp.MustCompile(r.pattern).ReplaceAllString(ptx, r.by)
	}
	return strings.TrimLeft(ptx, "\n")
}
