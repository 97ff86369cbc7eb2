// Package disk has the rules by which this module reads and writes files.
//
// Files are written so that a crash at any moment leaves either the old content
// or the new, never a part: into a temporary name beside the target, flushed,
// then renamed. What it needs of the system is an interface, so that tests can
// make any step fail. Files are opened for reading only if they are files.
package disk

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// FS is what writing needs of the system.
type FS interface {
	// Create makes a new file; it fails if there is one. If like is not nil, the
	// file gets its permissions and, where that is allowed, its owner.
	Create(path string, like os.FileInfo) (File, error)
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

func (system) Create(path string, like os.FileInfo) (File, error) {
	perm := os.FileMode(0o666)
	if like != nil {
		perm = like.Mode().Perm()
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return nil, err
	}
	if like != nil {
		// Neither may fail the save: some file systems have no owners and modes, and
		// until here the file has no more rights than it should.
		ownLike(f, like)
		f.Chmod(perm) // whatever the process's umask takes away
	}
	return f, nil
}

func (system) Mkdir(path string) error      { return os.Mkdir(path, 0o777) }
func (system) Rename(from, to string) error { return os.Rename(from, to) }
func (system) RemoveAll(path string) error  { return os.RemoveAll(path) }
func (system) SyncDir(path string) error    { return syncDir(path) }

// WriteFile replaces the content of path with what write writes. A file that is there
// keeps its permissions; a symbolic link stays, and the file that it leads to gets
// the content. If anything fails, what was at path before is untouched and nothing is
// left behind. Temporary files in the folder whose process is dead are removed.
func WriteFile(fs FS, path string, write func(io.Writer) error) error {
	path, old, err := target(path)
	if err != nil {
		return err
	}
	Clean(fs, filepath.Dir(path))
	var f File
	temp, release, err := MakeTemp(path, func(temp string) (err error) {
		f, err = fs.Create(temp, old)
		return err
	})
	if err != nil {
		return err
	}
	defer release()
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

// target returns the path of the file that is written when path is, which may be a
// symbolic link, and information on the file that is there, if there is one.
func target(path string) (string, os.FileInfo, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return "", nil, &os.PathError{Op: "write", Path: path, Err: notRegular(info)}
	}
	if err != nil {
		info = nil
	}
	for links := 0; ; links++ {
		to, err := os.Readlink(path)
		if err != nil {
			return path, info, nil // not a link: what else is wrong shows when it is written
		}
		if links == 40 {
			return "", nil, &os.PathError{Op: "write", Path: path, Err: fmt.Errorf("more than %d symbolic links lead to one another", links)}
		}
		if !filepath.IsAbs(to) {
			to = filepath.Dir(path) + string(filepath.Separator) + to
		}
		// The folder is resolved first: behind a link, ".." is not the folder above by
		// name, for which package filepath takes it.
		dir, base := filepath.Split(to)
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return "", nil, err
		}
		path = filepath.Join(dir, base)
	}
}
