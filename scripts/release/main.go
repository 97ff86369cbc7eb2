// Command release builds the command for every platform and packs it, the same
// bytes every time from the same commit with the same Go:
//
//	go run ./scripts/release -version v0.1.0
//
// It needs Go and, for the date and the commit, git. The archives and their
// checksums are in dist/.
package main

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// platforms are those that are released.
var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "arm64"}, {"windows", "amd64"}}

type platform struct{ os, arch string }

const releaseVariable = "github.com/locusml/locus/cmd/locus/internal/cli.Release"

func main() {
	version := flag.String("version", "", "the version, such as v0.1.0 (the last tag, else v0.0.0 and the commit)")
	out := flag.String("out", "dist", "folder for the archives")
	flag.Parse()
	if err := release(*version, *out); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func release(version, out string) error {
	if version == "" {
		version = describe()
	}
	if !regexp.MustCompile(`^v\d+\.\d+\.\d+[-+.\w]*$`).MatchString(version) {
		return fmt.Errorf("%q is not a version such as v0.1.0", version)
	}
	date, err := commitDate()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o777); err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, p := range platforms {
		name, archive, err := p.pack(version, date)
		if err != nil {
			return fmt.Errorf("%s/%s: %w", p.os, p.arch, err)
		}
		if err := os.WriteFile(filepath.Join(out, name), archive, 0o666); err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(archive), name)
		fmt.Printf("%s  %.1f MB\n", filepath.Join(out, name), float64(len(archive))/1e6)
	}
	path := filepath.Join(out, "SHA256SUMS")
	fmt.Println(path)
	return os.WriteFile(path, sums.Bytes(), 0o666)
}

// pack builds for a platform and returns the archive.
func (p platform) pack(version string, date time.Time) (name string, archive []byte, err error) {
	dir, err := os.MkdirTemp("", "locus-release-")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(dir)
	binary := "locus"
	if p.os == "windows" {
		binary += ".exe"
	}
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=auto", "-ldflags", "-s -w -buildid= -X "+releaseVariable+"="+version, "-o", filepath.Join(dir, binary), "./cmd/locus")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOTOOLCHAIN=local")
	c.Stderr = os.Stderr
	if err := c.Run(); err != nil {
		return "", nil, fmt.Errorf("go build: %w", err)
	}
	files := []file{}
	for _, f := range []struct {
		path string
		mode os.FileMode
	}{{filepath.Join(dir, binary), 0o755}, {"LICENSE", 0o644}, {"README.md", 0o644}, {"CHANGELOG.md", 0o644}} {
		content, err := os.ReadFile(f.path)
		if err != nil {
			return "", nil, err
		}
		files = append(files, file{filepath.Base(f.path), f.mode, content})
	}
	folder := fmt.Sprintf("locus-%s-%s-%s", version, p.os, p.arch)
	if p.os == "windows" {
		archive, err = zipped(folder, files, date)
		return folder + ".zip", archive, err
	}
	archive, err = tarred(folder, files, date)
	return folder + ".tar.gz", archive, err
}

// commitDate is the time stamp of everything in the archives.
func commitDate() (time.Time, error) {
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if seconds == "" {
		out, err := exec.Command("git", "log", "-1", "--format=%ct").Output()
		if err != nil {
			return time.Time{}, fmt.Errorf("git log: %w (SOURCE_DATE_EPOCH says the date where there is no git)", err)
		}
		seconds = strings.TrimSpace(string(out))
	}
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	return time.Unix(n, 0).UTC(), nil
}

// describe makes a version of the last tag, or of the commit.
func describe() string {
	if out, err := exec.Command("git", "describe", "--tags", "--match", "v*", "--dirty").Output(); err == nil {
		return strings.TrimSpace(string(out))
	}
	out, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "v0.0.0-" + runtime.Version()
	}
	return "v0.0.0-" + strings.TrimSpace(string(out))
}
