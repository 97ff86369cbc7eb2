package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ErrNotRegular is in the chain of errors about paths that are not files.
var ErrNotRegular = errors.New("not a regular file")

// Open opens a file for reading. Anything else, such as a folder, a named pipe
// or a device, is an error at once that says what it is: opening a pipe would
// wait for a writer that may never come.
func Open(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // before it is opened: that alone makes some devices act
		return nil, &fs.PathError{Op: "open", Path: path, Err: notRegular(info)}
	}
	f, err := os.OpenFile(path, os.O_RDONLY|dontWait, 0)
	if err != nil {
		return nil, err
	}
	// It may have been replaced in between.
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: notRegular(info)}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ReadFile reads a file of at most the given size.
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("the file is larger than %d bytes", most)}
	}
	if err != nil {
		return nil, err
	}
	return b, nil
}

func notRegular(info os.FileInfo) error {
	what := "a device"
	switch m := info.Mode(); {
	case m.IsDir():
		what = "a folder"
	case m&fs.ModeNamedPipe != 0:
		what = "a named pipe (FIFO)"
	case m&fs.ModeSocket != 0:
		what = "a socket"
	}
	return fmt.Errorf("it is %s: %w", what, ErrNotRegular)
}

// ReadN reads n bytes. Memory grows with what comes, not with what n claims.
func ReadN(r io.Reader, n int64) ([]byte, error) {
	b := make([]byte, min(n, 1<<20))
	for got := 0; ; {
		m, err := io.ReadFull(r, b[got:])
		got += m
		if err != nil {
			return b[:got], err
		}
		if int64(got) == n {
			return b, nil
		}
		more := make([]byte, min(n, 2*int64(len(b))))
		copy(more, b)
		b = more
	}
}
