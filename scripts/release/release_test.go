package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
	"time"
)

var (
	date  = time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)
	files = []file{{"locus", 0o755, []byte("binary")}, {"LICENSE", 0o644, []byte("text")}}
)

func TestTarred(t *testing.T) {
	one, err := tarred("folder", files, date)
	if err != nil {
		t.Fatal(err)
	}
	if two, _ := tarred("folder", files, date); !bytes.Equal(one, two) {
		t.Error("packing twice gives two archives")
	}
	z, err := gzip.NewReader(bytes.NewReader(one))
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(z)
	for _, want := range files {
		h, err := r.Next()
		if err != nil || h.Name != "folder/"+want.name || h.FileInfo().Mode() != want.mode || !h.ModTime.Equal(date) || h.Uid != 0 || h.Uname != "" {
			t.Fatalf("%v %+v", err, h)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want.content) {
			t.Errorf("%v %q", err, got)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("more than the files: %v", err)
	}
	if _, err := io.Copy(io.Discard, z); err != nil {
		t.Errorf("the archive is not whole: %v", err)
	}
}

func TestZipped(t *testing.T) {
	one, err := zipped("folder", files, date)
	if err != nil {
		t.Fatal(err)
	}
	if two, _ := zipped("folder", files, date); !bytes.Equal(one, two) {
		t.Error("packing twice gives two archives")
	}
	r, err := zip.NewReader(bytes.NewReader(one), int64(len(one)))
	if err != nil || len(r.File) != len(files) {
		t.Fatal(err)
	}
	for i, f := range r.File {
		if f.Name != "folder/"+files[i].name || f.Mode() != files[i].mode || !f.Modified.Equal(date) {
			t.Errorf("%+v", f)
		}
	}
}

func TestVersions(t *testing.T) {
	for _, bad := range []string{"1.0.0", "v1", "latest", "v1.0.0; rm"} {
		if err := release(bad, t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a version") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	t.Setenv("SOURCE_DATE_EPOCH", "86400")
	if d, err := commitDate(); err != nil || d.Day() != 2 {
		t.Errorf("%v %v", d, err)
	}
}
