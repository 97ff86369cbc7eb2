package disk

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// tempName is the form of the names of files and folders that are not finished.
var tempName = regexp.MustCompile(`^\.unfinished-.*-[0-9a-f]{16}$`)

// IsTemp reports whether name is the name of something unfinished.
func IsTemp(name string) bool { return tempName.MatchString(name) }

// TempName returns a name in path's folder for what will be renamed to path.
func TempName(path string) string {
	dir, base := filepath.Split(path)
	const most = 100 // bytes: with all else the name stays below the usual limit of 255
	if len(base) > most {
		base = base[:most]
	}
	return filepath.Join(dir, fmt.Sprintf(".unfinished-%s-%016x", base, rand.Uint64()))
}

// MakeTemp makes a temporary file or folder beside path by calling make with its
// name, and holds it: [Clean] leaves it alone until release is called, or until
// this process ends, however it ends. Call release after the rename.
func MakeTemp(path string, make func(temp string) error) (temp string, release func(), err error) {
	for range 10 {
		temp = TempName(path)
		if err := make(temp); err != nil {
			return "", nil, err
		}
		if release, ok := hold(temp); ok {
			return temp, release, nil
		}
		// Another process cleaned it up before it was held.
	}
	return "", nil, fmt.Errorf("temporary files beside %s are removed as soon as they are made", path)
}

// maxAge is how long something unfinished may go without a write before it is
// taken for abandoned where locks cannot tell.
const maxAge = 24 * time.Hour

// Clean removes from a folder what processes that are dead did not finish. What it
// cannot remove stays: a save must not fail because of it.
func Clean(fs FS, dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !IsTemp(e.Name()) || !e.Type().IsRegular() && !e.IsDir() {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if release, ok := abandoned(path); ok {
			fs.RemoveAll(path)
			release()
		}
	}
}

// old reports whether nothing was written to path for long.
func old(path string) bool {
	var newest time.Time
	err := filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && info.ModTime().After(newest) {
			newest = info.ModTime()
		}
		return err
	})
	return err == nil && time.Since(newest) > maxAge
}
