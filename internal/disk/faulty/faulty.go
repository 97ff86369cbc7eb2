// Package faulty is a file system that fails when told to, for tests of what
// must survive a full disk or a crash.
package faulty

import (
	"errors"
	"os"
	"sync"

	"github.com/locusml/locus/internal/disk"
)

// ErrInjected is the failure that FS injects unless it has another.
var ErrInjected = errors.New("injected failure")

// FS passes calls on to the operating system until the call number FailAt
// (counted from 1), which fails, as do all after it if Dead is set: the process
// was killed there, and cleans nothing up. A failing write writes half of its
// bytes first, as a disk that fills up does.
type FS struct {
	FailAt int
	Dead   bool
	Err    error

	mu    sync.Mutex
	calls int
	fired bool
}

// Calls is the number of calls so far.
func (f *FS) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// Fired reports whether a call was made to fail.
func (f *FS) Fired() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fired
}

func (f *FS) step() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.FailAt > 0 && (f.calls == f.FailAt || f.Dead && f.calls > f.FailAt) {
		f.fired = true
		if f.Err != nil {
			return f.Err
		}
		return ErrInjected
	}
	return nil
}

func (f *FS) Create(path string, like os.FileInfo) (disk.File, error) {
	if err := f.step(); err != nil {
		return nil, err
	}
	file, err := disk.OS.Create(path, like)
	if err != nil {
		return nil, err
	}
	return &faultyFile{file, f}, nil
}

func (f *FS) Mkdir(path string) error {
	if err := f.step(); err != nil {
		return err
	}
	return disk.OS.Mkdir(path)
}

func (f *FS) Rename(from, to string) error {
	if err := f.step(); err != nil {
		return err
	}
	return disk.OS.Rename(from, to)
}

func (f *FS) RemoveAll(path string) error {
	if err := f.step(); err != nil {
		return err
	}
	return disk.OS.RemoveAll(path)
}

func (f *FS) SyncDir(path string) error {
	if err := f.step(); err != nil {
		return err
	}
	return disk.OS.SyncDir(path)
}

type faultyFile struct {
	disk.File
	fs *FS
}

func (f *faultyFile) Write(p []byte) (int, error) {
	if err := f.fs.step(); err != nil {
		n, _ := f.File.Write(p[:len(p)/2])
		return n, err
	}
	return f.File.Write(p)
}

func (f *faultyFile) Sync() error {
	if err := f.fs.step(); err != nil {
		return err
	}
	return f.File.Sync()
}

func (f *faultyFile) Close() error {
	err := f.fs.step()
	if e := f.File.Close(); err == nil {
		err = e
	}
	return err
}
