// Package cachedir knows the folder in which Locus keeps what it can get again:
// downloads, and choices that were measured.
package cachedir

import (
	"os"
	"path/filepath"
)

// Path returns the folder: LOCUS_CACHE if that is set, else "locus" in the user's cache
// folder. It may not be there yet.
func Path() (string, error) {
	if p := os.Getenv("LOCUS_CACHE"); p != "" {
		return p, nil
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(user, "locus"), nil
}
