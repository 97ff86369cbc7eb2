// Package disk writes files so that a crash at any moment leaves either the old
// content or the new, never a part: into a temporary name beside the target,
// flushed, then renamed. What it needs of the system is an interface, so that
// tests can make any step fail.
package disk

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

// FS is what writing needs of the system.
type FS interface {
	// Create makes a new file; it fails if there is one.
	Create(path string) (File, error)
	Mkdir(path string) error
	Rename(from, to string) error
	RemoveAll(path string) error
	// SyncDir makes renames in a folder outlast a crash.
	SyncDir(path string) error
}

// File is a file that is being written.
type File interface {
	io.Writer
	Sync() error
	Close() error
}

// OS is the operating system's own file system.
var OS FS = system{}

type system struct{}

func (system) Create(path string) (File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
}
func (system) Mkdir(path string) error      { return os.Mkdir(path, 0o777) }
func (system) Rename(from, to string) error { return os.Rename(from, to) }
func (system) RemoveAll(path string) error  { return os.RemoveAll(path) }
func (system) SyncDir(path string) error    { return syncDir(path) }

// TempPrefix starts the names of files and folders that are not finished.
const TempPrefix = ".unfinished-"

// IsTemp reports whether a name is that of something unfinished.
func IsTemp(name string) bool { return strings.HasPrefix(name, TempPrefix) }

// TempName gives a name in path's folder for what will be renamed to path.
func TempName(path string) string {
	dir, base := filepath.Split(path)
	return filepath.Join(dir, fmt.Sprintf("%s%s-%016x", TempPrefix, base, rand.Uint64()))
}

// WriteFile gives path the content that write writes. If anything fails, what
// was at path before is untouched and nothing is left behind.
func WriteFile(fs FS, path string, write func(io.Writer) error) error {
	temp := TempName(path)
	f, err := fs.Create(temp)
	if err != nil {
		return err
	}
	if err = Fill(f, write); err == nil {
		err = fs.Rename(temp, path)
	}
	if err != nil {
		fs.RemoveAll(temp)
		return err
	}
	return fs.SyncDir(filepath.Dir(path))
}

// Fill writes to f, flushes it to the disk and closes it.
func Fill(f File, write func(io.Writer) error) error {
	err := write(f)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e // some systems report a full disk only here
	}
	return err
}
