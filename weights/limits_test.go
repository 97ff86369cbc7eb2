package weights

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/testio"
)

// claims makes an npz file of n members that each claim to be size bytes of
// elements, of which far fewer are there.
func claims(t testing.TB, n int, size int64) []byte {
	t.Helper()
	header := npyFile(fmt.Sprintf("{'descr': '|u1', 'fortran_order': False, 'shape': (%d,)}", size), 1000)
	var packed bytes.Buffer
	d, err := flate.NewWriter(&packed, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	d.Write(header)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := range n {
		w, err := z.CreateRaw(&zip.FileHeader{Name: fmt.Sprintf("%d.npy", i), Method: zip.Deflate,
			CompressedSize64: uint64(packed.Len()), UncompressedSize64: uint64(len(header)) - 1000 + uint64(size)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(packed.Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The limit is on the whole of an archive: members that each are within it may
// not be together.
func TestArchivesAreBoundedAsAWhole(t *testing.T) {
	for n, ok := range map[int]bool{1: true, 2: false, 12: false} {
		content := claims(t, n, 200<<20)
		_, err := Read(bytes.NewReader(content), int64(len(content)))
		if ok && err != nil || !ok && (!errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "weights.MaxUnpacked(")) {
			t.Errorf("%d members of 200 MB in %d bytes: %v", n, len(content), err)
		}
		if _, err := Read(bytes.NewReader(content), int64(len(content)), MaxUnpacked(4<<30)); err != nil {
			t.Errorf("%d members, with MaxUnpacked: %v", n, err)
		}
		if _, err := Read(bytes.NewReader(content), int64(len(content)), MaxUnpacked(100<<20)); !errors.Is(err, ErrFormat) {
			t.Errorf("%d members, with a low MaxUnpacked: %v", n, err)
		}
	}
	// Claims whose sum wraps around.
	content := claims(t, 4, 1<<62)
	if _, err := Read(bytes.NewReader(content), int64(len(content)), MaxUnpacked(1<<40)); !errors.Is(err, ErrFormat) {
		t.Error(err)
	}
}

// A claim costs no memory: what is there does.
func TestClaimsCostNothing(t *testing.T) {
	content := claims(t, 1, 200<<20)
	f, err := Read(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	var loadErr error
	if n := testio.Allocated(func() { _, loadErr = f.Load("0", locus.CPU()) }); n > 16<<20 || !errors.Is(loadErr, ErrFormat) {
		t.Errorf("%d bytes were allocated; %v", n, loadErr)
	}
}

// What compresses well in an honest way is read: a gigabyte of zeros needs to be
// asked for, a few megabytes do not.
func TestHonestArchives(t *testing.T) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := range 3 {
		w, err := z.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("%d.npy", i), Method: zip.Deflate})
		if err != nil {
			t.Fatal(err)
		}
		if err := WriteNPY(w, locus.CPU().Zeros(1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := Read(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	all, err := f.LoadAll(locus.CPU())
	if err != nil || len(all) != 3 || all["2"].Len() != 1<<20 {
		t.Errorf("%v %v", all, err)
	}
}

// Shapes of millions of axes take no memory either.
func TestShapesAreBounded(t *testing.T) {
	ones := strings.Repeat("1,", 1<<20) + "1"
	for name, content := range map[string][]byte{
		"safetensors":         safeFile(`{"a":{"dtype":"U8","shape":[`+ones+`],"data_offsets":[0,1]}}`, 1),
		"safetensors, offset": safeFile(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[`+ones+`]}}`, 1),
		"npy":                 npyFile("{'descr': '|u1', 'fortran_order': False, 'shape': ("+strings.Repeat("1,", 30_000)+")}", 1),
	} {
		var err error
		n := testio.Allocated(func() { _, err = Read(bytes.NewReader(content), int64(len(content))) })
		if !errors.Is(err, ErrFormat) || n > uint64(8*len(content))+1<<20 {
			t.Errorf("%s: %d bytes for %d of the file; %v", name, n, len(content), err)
		}
		if err != nil && len(err.Error()) > 2000 {
			t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
		}
	}
}

func TestSaveKeepsModeAndLink(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipped: Windows has no such permissions")
	}
	dir := t.TempDir()
	tensors := map[string]*locus.Tensor{"w": locus.CPU().Ones(2)}
	for name, save := range map[string]func(string) error{
		"a.safetensors": func(p string) error { return Save(p, tensors, nil) },
		"a.npz":         func(p string) error { return SaveNPZ(p, tensors) },
		"a.npy":         func(p string) error { return SaveNPY(p, tensors["w"]) },
	} {
		path, link := filepath.Join(dir, name), filepath.Join(dir, "link-"+name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(name, link); err != nil {
			t.Fatal(err)
		}
		if err := save(link); err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(path)
		if err != nil || info.Mode() != 0o600 || info.Size() == 0 {
			t.Errorf("%s is %v, %v", name, info, err)
		}
		if to, err := os.Readlink(link); err != nil || to != name {
			t.Errorf("%s: the link was replaced: %v", name, err)
		}
		if f, err := Open(link); err != nil {
			t.Error(err)
		} else {
			f.Close()
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 6 {
		t.Errorf("%v %v", entries, err)
	}
}

// The same tensors and texts give the same bytes, whatever the order in which a
// map has them.
func TestSavesAreEqual(t *testing.T) {
	for format, write := range map[string]func(io.Writer, map[string]*locus.Tensor, map[string]string) error{
		"safetensors": Write,
		"npz": func(w io.Writer, tensors map[string]*locus.Tensor, _ map[string]string) error {
			return WriteNPZ(w, tensors)
		},
	} {
		var first []byte
		for range 5 {
			tensors, texts := map[string]*locus.Tensor{}, map[string]string{}
			for i := range 50 {
				tensors[fmt.Sprint("t", i)] = locus.CPU().Full(float64(i), i%4)
				texts[fmt.Sprint("k", i)] = "v"
			}
			var b bytes.Buffer
			if err := write(&b, tensors, texts); err != nil {
				t.Fatal(err)
			}
			if first == nil {
				first = b.Bytes()
			}
			if !bytes.Equal(first, b.Bytes()) {
				t.Errorf("%s: equal tensors gave different bytes", format)
			}
		}
	}
}

// Names of a file do not reach a terminal as they are.
func TestErrorsArePrintable(t *testing.T) {
	evil := "\x1b[2J\u202e\nforged"
	var b bytes.Buffer
	if err := Write(&b, map[string]*locus.Tensor{evil: locus.CPU().Ones(2)}, nil); err != nil {
		t.Fatal(err)
	}
	f, err := Read(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []map[string]Spec{{}, {evil: {locus.Float32, []int{3}}}} {
		err := f.Match(want)
		if err == nil || strings.ContainsAny(err.Error(), "\x1b\u202e") || strings.Contains(err.Error(), "\nforged") {
			t.Errorf("%q", err)
		}
	}
	content := npyFile("{'descr': '<M8[\x1b[2J]', 'fortran_order': False, 'shape': (1,)}", 8)
	if f, err := Read(bytes.NewReader(content), int64(len(content))); err == nil {
		info, _ := f.Info("")
		t.Errorf("a type %q was accepted", info.Type)
	}
	content = npyFile("{'descr': '<M8[25s]', 'fortran_order': False, 'shape': (1,)}", 8)
	if _, err := Read(bytes.NewReader(content), int64(len(content))); err != nil {
		t.Error(err)
	}
}
