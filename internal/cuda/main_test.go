//go:build linux && (amd64 || arm64) && !nocuda

package cuda

import (
	"os"
	"testing"
)

// Tests time convolutions themselves, whatever the user's cache knows.
func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "locus-cuda-test-")
	if err != nil {
		panic(err)
	}
	if os.Getenv("LOCUS_CACHE") == "" {
		os.Setenv("LOCUS_CACHE", folder)
	}
	code := m.Run()
	os.RemoveAll(folder)
	os.Exit(code)
}
