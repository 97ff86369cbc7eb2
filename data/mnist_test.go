package data

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/locusml/locus"
)

// tinySet is four small files, and a set that expects them.
func tinySet() (*idxSet, map[string][]byte) {
	files := map[string][]byte{}
	s := &idxSet{name: "tiny", url: "http://nowhere.invalid", install: "a package", classes: digitNames}
	for i, name := range idxFiles {
		n := uint32(6 - i/2*2)
		content := idx(idxUint8, []uint32{n, 2, 2}, bytes.Repeat([]byte{0, 51, 102, 255}, int(n)))
		if i%2 == 1 {
			content = idx(idxUint8, []uint32{n}, []byte{0, 1, 2, 9, 4, 5}[:n])
		}
		packed := gzipped(content)
		sum := sha256.Sum256(packed)
		s.sums[i] = hex.EncodeToString(sum[:])
		files[name+".gz"] = packed
	}
	return s, files
}

func writeAll(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

func requireTiny(t *testing.T, train, test *Classified, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if train.Len() != 6 || test.Len() != 4 || train.Classes[3] != "3" {
		t.Errorf("%d and %d examples", train.Len(), test.Len())
	}
	b := batchOf(t, train, 3)
	want := locus.From([]float32{0, 0.2, 0.4, 1}, 1, 1, 2, 2)
	if b[0].Sub(want).Abs().Max().Item() > 1e-6 || b[1].Int() != 9 {
		t.Errorf("%v %v", b[0], b[1])
	}
}

func TestIDXSetFromFolder(t *testing.T) {
	s, files := tinySet()
	dir := t.TempDir()
	writeAll(t, dir, files)
	train, test, err := s.load(Source{Folder: dir})
	requireTiny(t, train, test, err)

	plain := t.TempDir()
	for i, name := range idxFiles {
		x, err := ReadIDX(filepath.Join(dir, name+".gz"))
		if err != nil {
			t.Fatal(err)
		}
		shape := []uint32{}
		for _, d := range x.Shape() {
			shape = append(shape, uint32(d))
		}
		if i == 0 {
			name = strings.Replace(name, "-idx", ".idx", 1) // as some archives spell it
		}
		writeAll(t, plain, map[string][]byte{name: idx(idxUint8, shape, locus.ToSlice[uint8](x))})
	}
	train, test, err = s.load(Source{Folder: plain})
	requireTiny(t, train, test, err)

	s.system = dir
	train, test, err = s.load(Source{Cache: t.TempDir()})
	requireTiny(t, train, test, err)

	if _, _, err := s.load(Source{Folder: t.TempDir(), Download: true}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "a package") {
		t.Error(err)
	}
}

func TestIDXSetRefuses(t *testing.T) {
	s, files := tinySet()
	for name, c := range map[string]struct {
		file    string
		content []byte
		kind    error
	}{
		"labels out of range": {idxFiles[1], idx(idxUint8, []uint32{6}, []byte{0, 1, 2, 3, 4, 10}), locus.ErrIndex},
		"labels too few":      {idxFiles[1], idx(idxUint8, []uint32{5}, make([]byte, 5)), ErrFormat},
		"labels for images":   {idxFiles[0], idx(idxUint8, []uint32{6}, make([]byte, 6)), ErrFormat},
		"no images":           {idxFiles[0], idx(idxUint8, []uint32{0, 2, 2}, nil), ErrFormat},
		"cut":                 {idxFiles[2], idx(idxUint8, []uint32{4, 2, 2}, make([]byte, 15)), ErrFormat},
	} {
		dir := t.TempDir()
		writeAll(t, dir, files)
		writeAll(t, dir, map[string][]byte{c.file + ".gz": gzipped(c.content)})
		if _, _, err := s.load(Source{Folder: dir}); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDownload(t *testing.T) {
	s, files := tinySet()
	requests := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		b, ok := files[strings.TrimPrefix(r.URL.Path, "/m/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(b))
	}))
	defer server.Close()
	cache := t.TempDir()
	told := map[string]int64{}
	from := Source{Download: true, Cache: cache, Mirror: server.URL + "/m/", Progress: func(file string, done, total int64) {
		if done < told[file] || total != int64(len(files[file])) {
			t.Errorf("%s: %d of %d", file, done, total)
		}
		told[file] = done
	}}
	train, test, err := s.load(from)
	requireTiny(t, train, test, err)
	for name, b := range files {
		if told[name] != int64(len(b)) {
			t.Errorf("%s: told of %d of %d bytes", name, told[name], len(b))
		}
	}
	train, test, err = s.load(Source{Cache: cache}) // now without
	requireTiny(t, train, test, err)
	if requests != 4 {
		t.Errorf("%d requests", requests)
	}
}

// fetchTest runs a fetch of content from a server that behaves as handler says.
func fetchTest(t *testing.T, content []byte, part []byte, handler http.HandlerFunc) (string, error) {
	t.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	sum := sha256.Sum256(content)
	path := filepath.Join(t.TempDir(), "sub", "file")
	if part != nil {
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path+".part", part, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	f := &fetch{url: server.URL, path: path, sum: hex.EncodeToString(sum[:])}
	return path, f.run()
}

func TestFetch(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789"), 1000)
	serve := func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}
	var ranges []string
	recorded := func(w http.ResponseWriter, r *http.Request) {
		ranges = append(ranges, r.Header.Get("Range"))
		serve(w, r)
	}
	for name, c := range map[string]struct {
		part    []byte
		handler http.HandlerFunc
		ranges  string
	}{
		"whole":          {nil, recorded, ""},
		"resumed":        {content[:4000], recorded, "bytes=4000-"},
		"all there":      {content, recorded, "bytes=10000-"},
		"part is wrong":  {[]byte("something else"), recorded, "bytes=14- then "},
		"part too long":  {append(bytes.Clone(content), 'x'), recorded, "bytes=10001- then "},
		"no ranges":      {content[:4000], func(w http.ResponseWriter, r *http.Request) { r.Header.Del("Range"); recorded(w, r) }, ""},
		"unknown length": {nil, func(w http.ResponseWriter, r *http.Request) { w.(http.Flusher).Flush(); w.Write(content) }, ""},
	} {
		ranges = nil
		path, err := fetchTest(t, content, c.part, c.handler)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, _ := os.ReadFile(path); !bytes.Equal(got, content) {
			t.Errorf("%s: %d bytes", name, len(got))
		}
		if got := strings.Join(ranges, " then "); got != c.ranges {
			t.Errorf("%s: ranges %q, want %q", name, got, c.ranges)
		}
		if _, err := os.Stat(path + ".part"); err == nil {
			t.Errorf("%s: the part is still there", name)
		}
	}

	for name, c := range map[string]struct {
		handler  http.HandlerFunc
		says     string
		partKept bool
	}{
		"wrong content": {func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("something else")) }, "checksum", false},
		"server error":  {func(w http.ResponseWriter, r *http.Request) { http.Error(w, "busy", http.StatusServiceUnavailable) }, "503", true},
		"not found":     {http.NotFound, "404", true},
		"truncated": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "10000")
			w.Write(content[:6000])
		}, "run again to go on", true},
		"too large": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(int64(maxFetch)+1))
			w.WriteHeader(200)
		}, "limit", true},
	} {
		path, err := fetchTest(t, content, nil, c.handler)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s: a bad file has the name of a good one", name)
		}
		if _, err := os.Stat(path + ".part"); (err == nil) != c.partKept {
			t.Errorf("%s: part kept: %v", name, err == nil)
		}
	}
}

// A download that breaks off goes on where it was.
func TestFetchGoesOn(t *testing.T) {
	content := bytes.Repeat([]byte("abc"), 5000)
	sum := sha256.Sum256(content)
	calls := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls++
		if calls == 1 {
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			w.Write(content[:7000])
			return // the connection is cut
		}
		if got := r.Header.Get("Range"); got != "bytes=7000-" {
			t.Errorf("asked for %q", got)
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	defer server.Close()
	f := &fetch{url: server.URL, path: filepath.Join(t.TempDir(), "file"), sum: hex.EncodeToString(sum[:])}
	if err := f.run(); err == nil {
		t.Fatal("half a file was taken for a whole")
	}
	if err := f.run(); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(f.path); !bytes.Equal(got, content) {
		t.Error("the content is wrong")
	}
}

// The real files, where Debian's package is installed: the test part, which is
// small enough for every run.
func TestFashionMNISTInstalled(t *testing.T) {
	from := Source{Folder: os.Getenv("LOCUS_FASHION_MNIST")}
	if _, err := os.Stat(fashionMNIST.system); from.Folder == "" && err != nil {
		t.Skipf("%s is not there; %s, or set LOCUS_FASHION_MNIST", fashionMNIST.system, fashionMNIST.install)
	}
	var paths [4]string
	for i := range paths {
		var err error
		if paths[i], err = fashionMNIST.find(from, i); err != nil {
			t.Fatal(err)
		}
	}
	if train, err := ReadIDX(paths[1]); err != nil || train.Len() != 60000 {
		t.Errorf("%v", err)
	}
	test, err := fashionMNIST.open(paths[2], paths[3])
	if err != nil {
		t.Fatal(err)
	}
	b := batchOf(t, test, 0, 1, 2, 3)
	if got := fmt.Sprint(test.Len(), locus.ToSlice[int64](b[1]), b[0].Shape()); got != "10000 [9 2 1 1] [4 1 28 28]" {
		t.Error(got)
	}
	if lo, hi := b[0].Min().Item(), b[0].Max().Item(); lo != 0 || hi != 1 {
		t.Errorf("pixels from %v to %v", lo, hi)
	}
}
