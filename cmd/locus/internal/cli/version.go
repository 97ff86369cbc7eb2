package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// Release is set by the linker: -X …/cli.Release=v1.2.3. Without it the version
// is what go install recorded.
var Release string

// build is what is known of how the program was built.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"time,omitempty"` // of the commit
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func buildInfo() build {
	b := build{Version: Release, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "development"
	}
	return b
}

// version is the text of --version.
func version() string {
	b := buildInfo()
	s := fmt.Sprintf("locus %s, %s, %s", b.Version, b.Platform, b.Go)
	if b.Commit != "" {
		s += ", commit " + b.Commit[:min(12, len(b.Commit))]
		if day, _, ok := strings.Cut(b.Time, "T"); ok {
			s += " of " + day
		}
		if b.Modified {
			s += ", modified"
		}
	}
	return s + "\n"
}

func (a *app) version() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Show the version and how it was built",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return a.json(buildInfo())
			}
			a.out.Printf("%s", version())
			return nil
		},
	}
	jsonFlag(c, &asJSON)
	return c
}

// jsonFlag adds --json.
func jsonFlag(c *cobra.Command, v *bool) {
	c.Flags().BoolVar(v, "json", false, "print JSON")
}

// json prints a value for programs.
func (a *app) json(v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := a.out.Write(escapeJSON(b.Bytes()))
	return err
}

// escapeJSON writes characters that a terminal could obey as escapes. JSON has
// them only inside texts, and package json escapes those below a space itself.
func escapeJSON(text []byte) []byte {
	if !bytes.ContainsFunc(text, hidden) {
		return text
	}
	var out []byte
	for _, r := range string(text) {
		switch {
		case !hidden(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

func hidden(r rune) bool { return !unicode.IsPrint(r) && r != '\n' }
