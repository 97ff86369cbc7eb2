package data

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// fetch downloads a file of known checksum. What arrives goes to a file next to
// the target, which a later run goes on with; only a file whose checksum is
// right gets the name.
type fetch struct {
	url, path, sum string
	client         *http.Client
	progress       func(done, total int64)
}

// maxFetch bounds a download whatever the server sends.
const maxFetch = 4 << 30

// stall is how long a download may go without a byte.
const stall = 60 * time.Second

func (f *fetch) run() error {
	if err := os.MkdirAll(filepath.Dir(f.path), 0o777); err != nil {
		return err
	}
	part := f.path + ".part"
	resumed, err := f.download(part)
	if err != nil {
		return fmt.Errorf("downloading %s: %w (run again to go on)", f.url, err)
	}
	err = f.verify(part)
	if errors.Is(err, errChecksum) && resumed {
		// The server's file may have changed since the first part: once more, whole.
		if err := os.Remove(part); err != nil {
			return err
		}
		if _, err := f.download(part); err != nil {
			return fmt.Errorf("downloading %s: %w (run again to go on)", f.url, err)
		}
		err = f.verify(part)
	}
	if err != nil {
		os.Remove(part)
		return fmt.Errorf("downloading %s: %w", f.url, err)
	}
	return os.Rename(part, f.path)
}

var errChecksum = errors.New("wrong checksum")

func (f *fetch) verify(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return err
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != f.sum {
		return fmt.Errorf("%w: SHA-256 is %s, not %s; nothing was kept", errChecksum, sum, f.sum)
	}
	return nil
}

// download adds what is missing to part and reports whether there was some of it.
func (f *fetch) download(part string) (resumed bool, err error) {
	file, err := os.OpenFile(part, os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return false, err
	}
	defer func() {
		if e := file.Close(); err == nil {
			err = e
		}
	}()
	have, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	idle := time.AfterFunc(stall, cancel)
	defer idle.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.url, nil)
	if err != nil {
		return false, err
	}
	req.Header.Set("Accept-Encoding", "identity")
	if have > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	client := f.client
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusPartialContent && have > 0 && rangeStart(resp) == have:
		resumed = true
	case resp.StatusCode == http.StatusRequestedRangeNotSatisfiable && have > 0:
		return true, nil // all of it was there; the checksum will tell
	case resp.StatusCode == http.StatusOK:
		have = 0 // the server starts from the beginning
		if err := file.Truncate(0); err != nil {
			return false, err
		}
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return false, err
		}
	default:
		return false, fmt.Errorf("the server says %s", resp.Status)
	}
	total := int64(-1)
	if resp.ContentLength >= 0 {
		total = have + resp.ContentLength
	}
	if total > maxFetch {
		return false, fmt.Errorf("the server offers %d bytes; the limit is %d", total, int64(maxFetch))
	}
	w := &meter{file, have, func(done int64) {
		idle.Reset(stall)
		if f.progress != nil {
			f.progress(done, total)
		}
	}}
	w.tell(have)
	n, err := io.Copy(w, io.LimitReader(resp.Body, maxFetch-have))
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("nothing was received for %v", stall)
		}
		return resumed, err
	}
	if total >= 0 && have+n != total {
		return resumed, fmt.Errorf("%d of %d bytes were received: %w", have+n, total, io.ErrUnexpectedEOF)
	}
	return resumed, file.Sync()
}

// rangeStart reads the first position of "Content-Range: bytes 5-9/10".
func rangeStart(resp *http.Response) int64 {
	r, ok := strings.CutPrefix(resp.Header.Get("Content-Range"), "bytes ")
	start, _, found := strings.Cut(r, "-")
	n, err := strconv.ParseInt(start, 10, 64)
	if !ok || !found || err != nil {
		return -1
	}
	return n
}

// meter tells how much has passed.
type meter struct {
	w    io.Writer
	done int64
	tell func(done int64)
}

func (m *meter) Write(p []byte) (int, error) {
	n, err := m.w.Write(p)
	m.done += int64(n)
	m.tell(m.done)
	return n, err
}
