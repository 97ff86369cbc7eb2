package disk_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/locusml/locus/internal/disk"
	"github.com/locusml/locus/internal/disk/faulty"
)

func TestCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	c := &disk.Cache{Dir: dir, Limit: 1 << 20}
	k, other := disk.KeyOf("a", "b"), disk.KeyOf("ab", "")
	if k == other {
		t.Error("where a text ends does not count")
	}
	if _, ok := c.Get(k); ok {
		t.Error("an empty cache has something")
	}
	c.Put(k, []byte("data"))
	c.Put(other, nil)
	again := &disk.Cache{Dir: dir, Limit: 1 << 20} // as another process
	if b, ok := again.Get(k); !ok || string(b) != "data" {
		t.Errorf("got %q, %v", b, ok)
	}
	if b, ok := again.Get(other); !ok || len(b) != 0 {
		t.Errorf("got %q, %v", b, ok)
	}
	c.Put(k, []byte("new data"))
	if b, ok := again.Get(k); !ok || string(b) != "new data" {
		t.Errorf("got %q, %v", b, ok)
	}
	var none *disk.Cache
	none.Put(k, []byte("x"))
	if _, ok := none.Get(k); ok {
		t.Error("a cache that is switched off has something")
	}
	large := disk.KeyOf("large")
	c.Put(large, make([]byte, 1<<19))
	if _, ok := c.Get(large); ok {
		t.Error("one file may have half of the cache")
	}
}

// A file that is not whole, or is another key's, is not there; the next Put mends it.
func TestCacheChecksWhatItReads(t *testing.T) {
	dir := t.TempDir()
	c := &disk.Cache{Dir: dir, Limit: 1 << 20}
	k, other := disk.KeyOf("k"), disk.KeyOf("other")
	c.Put(k, []byte("some data"))
	c.Put(other, []byte("other data"))
	path := filepath.Join(dir, fmt.Sprintf("%x", k[:]))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	swapped, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("%x", other[:])))
	if err != nil {
		t.Fatal(err)
	}
	spoiled := [][]byte{swapped, append(bytes.Clone(whole), 0)}
	for i := range whole {
		flipped := bytes.Clone(whole)
		flipped[i] ^= 1
		spoiled = append(spoiled, flipped, whole[:i])
	}
	for _, b := range spoiled {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, ok := c.Get(k); ok {
			t.Fatalf("a file of %d bytes, of %d, is taken: %q", len(b), len(whole), got)
		}
	}
	c.Put(k, []byte("some data"))
	if _, ok := c.Get(k); !ok {
		t.Error("a spoiled file stays")
	}
}

// The folder stays within its limit, and those files go that were not used for longest.
func TestCacheIsBounded(t *testing.T) {
	const limit = 64 << 10
	dir := t.TempDir()
	foreign := filepath.Join(dir, "README")
	if err := os.WriteFile(foreign, make([]byte, 2*limit), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &disk.Cache{Dir: dir, Limit: limit}
	old := time.Now().Add(-48 * time.Hour)
	first := disk.KeyOf("first")
	for i := range 200 {
		k := disk.KeyOf(fmt.Sprint(i))
		c.Put(k, make([]byte, 1<<10))
		p := filepath.Join(dir, fmt.Sprintf("%x", k[:]))
		if err := os.Chtimes(p, old.Add(time.Duration(i)*time.Minute), old.Add(time.Duration(i)*time.Minute)); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			c.Put(first, make([]byte, 1<<10))
			p := filepath.Join(dir, fmt.Sprintf("%x", first[:]))
			if err := os.Chtimes(p, old, old); err != nil {
				t.Fatal(err)
			}
		}
		if _, ok := c.Get(first); !ok { // it is used all the time
			t.Fatalf("after %d files, the one used last is gone", i)
		}
		var sum int64
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if info, err := e.Info(); err == nil && e.Name() != "README" {
				sum += info.Size()
			}
		}
		if sum > limit {
			t.Fatalf("after %d files, %d bytes, of at most %d", i, sum, limit)
		}
	}
	if _, ok := c.Get(disk.KeyOf("0")); ok {
		t.Error("the oldest file stays")
	}
	if _, ok := c.Get(disk.KeyOf("199")); !ok {
		t.Error("the newest file is gone")
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error("a file that is not the cache's is removed")
	}
}

// Whatever fails, the cache has the data or has it not, and nothing is left behind by a
// process that lives.
func TestCacheSurvivesEveryFailure(t *testing.T) {
	k := disk.KeyOf("k")
	for at := 1; ; at++ {
		dir := t.TempDir()
		fs := &faulty.FS{FailAt: at}
		c := &disk.Cache{Dir: dir, Limit: 1 << 20, FS: fs}
		c.Put(k, []byte("data"))
		b, ok := c.Get(k)
		if ok && string(b) != "data" || !ok && !fs.Fired() {
			t.Errorf("failure at %d: %q, %v", at, b, ok)
		}
		if entries, _ := os.ReadDir(dir); len(entries) > 1 || !ok && len(entries) > 0 {
			t.Errorf("failure at %d left %v", at, entries)
		}
		if !fs.Fired() {
			return
		}
	}
}

// A folder that is a file, or cannot be written, is not an error.
func TestCacheWithoutAFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	closed := t.TempDir()
	if err := os.Chmod(closed, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(closed, 0o700) })
	k := disk.KeyOf("k")
	for _, dir := range []string{file, filepath.Join(file, "below"), filepath.Join(closed, "below"), ""} {
		c := &disk.Cache{Dir: dir, Limit: 1 << 20}
		if dir == "" {
			t.Chdir(t.TempDir())
		}
		c.Put(k, []byte("x"))
		c.Get(k)
	}
}

// Processes and goroutines that use one folder do not see parts of each other's files.
func TestCacheAtTheSameTime(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			c := &disk.Cache{Dir: dir, Limit: 32 << 10} // of its own, as in another process
			for i := range 100 {
				n := (i*7 + g) % 30
				k := disk.KeyOf(fmt.Sprint(n))
				c.Put(k, bytes.Repeat([]byte{byte(n)}, 1000+n))
				if b, ok := c.Get(k); ok && !bytes.Equal(b, bytes.Repeat([]byte{byte(n)}, 1000+n)) {
					t.Errorf("key %d has %d other bytes", n, len(b))
				}
			}
		})
	}
	wg.Wait()
}
