// Package kernels holds the CUDA kernels of Locus: the .cu sources, the PTX that
// gen makes of them, and what both need to agree on.
package kernels

import (
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strings"
)

//go:embed *.ptx.gz
var compiled embed.FS

// Names lists the compiled files, without their endings.
func Names() []string {
	files, err := fs.Glob(compiled, "*.ptx.gz")
	if err != nil {
		panic(err) // the pattern is right
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(f, ".ptx.gz")
	}
	return files
}

// PTX returns the text of a compiled file.
func PTX(name string) (string, error) {
	f, err := compiled.Open(name + ".ptx.gz")
	if err != nil {
		return "", err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(z)
	return string(text), err
}

// Target says what a file is compiled for: the oldest architecture that runs
// it, the version of the PTX language, and the architectures it is checked with.
type Target struct {
	Arch, Version string
	Check         []string
}

// TargetOf returns the target of the file name.cu. What needs the tensor cores'
// bfloat16 says so in its name.
func TargetOf(name string) Target {
	switch {
	case strings.HasSuffix(name, "_sm90"):
		return Target{"90a", "8.0", []string{"90a"}}
	case strings.HasSuffix(name, "_sm80"):
		return Target{"80", "7.0", []string{"80", "90"}}
	}
	return Target{"70", "7.0", []string{"70", "80", "90"}}
}

var (
	include = regexp.MustCompile(`(?m)^#include "(.*)"`)
	// comment is what Code leaves out. Sources have no block comments, and no // in
	// strings, as a test checks.
	comment = regexp.MustCompile(`[ \t]*//.*`)
	blank   = regexp.MustCompile(`(?m)^\s*\n`)
)

// Code returns a source without its comments, which have no part in the PTX.
func Code(src []byte) []byte { return blank.ReplaceAll(comment.ReplaceAll(src, nil), nil) }

// Hash identifies the code of name.cu with everything it includes and the target it is
// compiled for. Comments may change without compiling again.
func Hash(dir fs.FS, name string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, TargetOf(name).Arch, TargetOf(name).Version)
	seen := map[string]bool{}
	var add func(file string) error
	add = func(file string) error {
		if seen[file] {
			return nil
		}
		seen[file] = true
		src, err := fs.ReadFile(dir, file)
		if err != nil {
			return err
		}
		h.Write(Code(src))
		for _, m := range include.FindAllSubmatch(src, -1) {
			if err := add(string(m[1])); err != nil {
				return err
			}
		}
		return nil
	}
	if err := add(name + ".cu"); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// HashLine is the first line of a PTX file.
func HashLine(hash string) string { return "// sources " + hash + "; made by go generate, do not edit" }
