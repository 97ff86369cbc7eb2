package disk

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Cache is a folder of things that can be made again, each under the digest of what it
// is made of. Any number of goroutines and processes may use a folder at the same time.
// Nothing about it is an error: what cannot be read is not there, and what cannot be
// written is made again the next time.
type Cache struct {
	Dir   string
	Limit int64 // bytes that the folder's files may have in all
	FS    FS    // nil: OS

	mu      sync.Mutex
	begun   bool  // the folder was looked through
	written int64 // bytes since then
}

// Key is the digest of what something is made of.
type Key [sha256.Size]byte

// KeyOf returns the digest of some texts. Where one ends counts.
func KeyOf(texts ...string) (k Key) {
	h := sha256.New()
	for _, t := range texts {
		sum := sha256.Sum256([]byte(t))
		h.Write(sum[:])
	}
	h.Sum(k[:0])
	return k
}

// cacheHead begins a file. Behind it stand the digest of key and data, and the data.
const cacheHead = "locus cache 1\n"

func sealed(k Key, data []byte) [sha256.Size]byte {
	h := sha256.New()
	h.Write(k[:])
	h.Write(data)
	return [sha256.Size]byte(h.Sum(nil))
}

func (c *Cache) fs() FS {
	if c.FS != nil {
		return c.FS
	}
	return OS
}

func (c *Cache) path(k Key) string { return filepath.Join(c.Dir, hex.EncodeToString(k[:])) }

// Get returns what was put under a key, if it is there and whole.
func (c *Cache) Get(k Key) (data []byte, ok bool) {
	if c == nil {
		return nil, false
	}
	path := c.path(k)
	b, err := ReadFile(path, c.Limit)
	if err != nil {
		return nil, false
	}
	rest, ok := bytes.CutPrefix(b, []byte(cacheHead))
	if !ok || len(rest) < sha256.Size {
		return nil, false
	}
	sum, data := rest[:sha256.Size], rest[sha256.Size:]
	if want := sealed(k, data); !bytes.Equal(sum, want[:]) {
		return nil, false
	}
	// The files used last stay longest. An hour is exact enough, and spares writes.
	if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) > time.Hour {
		now := time.Now()
		_ = os.Chtimes(path, now, now) // a folder that cannot be written is not trimmed either
	}
	return data, true
}

// Put keeps data under a key, if that is possible.
func (c *Cache) Put(k Key, data []byte) {
	size := int64(len(cacheHead) + sha256.Size + len(data))
	if c == nil || size > c.Limit/4 || os.MkdirAll(c.Dir, 0o700) != nil {
		return
	}
	c.trim(size)
	fs, path := c.fs(), c.path(k)
	var f File
	temp, release, err := MakeTemp(path, func(temp string) (err error) {
		f, err = fs.Create(temp, nil)
		return err
	})
	if err != nil {
		return
	}
	defer release()
	sum := sealed(k, data)
	// It is not flushed to the disk: a file that a crash leaves behind in parts does not
	// have its digest.
	_, err = io.Copy(f, io.MultiReader(bytes.NewReader([]byte(cacheHead)), bytes.NewReader(sum[:]), bytes.NewReader(data)))
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = fs.Rename(temp, path)
	}
	if err != nil {
		fs.RemoveAll(temp)
	}
}

// trim makes room for a file of so many bytes: before the first one, and whenever so
// much was written that the folder may be too large, it removes the files that were
// not used for longest.
func (c *Cache) trim(size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.written += size
	if c.begun && c.written < c.Limit/8 {
		return
	}
	c.begun, c.written = true, size
	fs := c.fs()
	Clean(fs, c.Dir)
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		return
	}
	type file struct {
		name string
		size int64
		used time.Time
	}
	var files []file
	var sum int64
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || len(e.Name()) != 2*sha256.Size { // others are not ours
			continue
		}
		files = append(files, file{e.Name(), info.Size(), info.ModTime()})
		sum += info.Size()
	}
	// Up to an eighth is written before the next look, by this process and, as a rule,
	// no more than that by others.
	most := c.Limit - c.Limit/4
	if sum <= most {
		return
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.name, b.name)) })
	for _, f := range files {
		if sum <= most/2 {
			return
		}
		if fs.RemoveAll(filepath.Join(c.Dir, f.name)) == nil {
			sum -= f.size
		}
	}
}
