package choices

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// open returns a store as a new process sees it.
func open(t *testing.T, folder string) *Store {
	t.Setenv("LOCUS_CACHE", folder)
	mu.Lock()
	clear(stores)
	mu.Unlock()
	return For("NVIDIA H200 / 9.0", "cuDNN 9.14")
}

func want(t *testing.T, s *Store, key, choice string) {
	t.Helper()
	if got, ok := s.Get(key); got != choice || ok != (choice != "") {
		t.Errorf("%q: got %q, %v; want %q", key, got, ok, choice)
	}
}

func TestChoicesLast(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "not", "there", "yet")
	s := open(t, folder)
	want(t, s, "a", "")
	if got := s.Put("a", "engine 3"); got != "engine 3" {
		t.Errorf("stored %q", got)
	}
	if got := s.Put("a", "engine 4"); got != "engine 3" {
		t.Errorf("the second choice counts: %q", got)
	}
	s.Put("tab\tand\nline", "x\ty")
	s = open(t, folder)
	want(t, s, "a", "engine 3")
	want(t, s, "tab\tand\nline", "x y")
	if For("NVIDIA H200 / 9.0", "cuDNN 9.15") == s || For("NVIDIA H100", "cuDNN 9.14") == s {
		t.Error("another card or library has the same choices")
	}
	if files, _ := filepath.Glob(filepath.Join(folder, "choices", "*")); len(files) != 1 || filepath.Base(files[0]) != "NVIDIA_H200___9_0.cuDNN_9_14.txt" {
		t.Errorf("files: %v", files)
	}
}

// Whatever happened to the file, what is whole is read, and new choices are stored.
func TestDamagedFiles(t *testing.T) {
	whole := "\n" + format("a", "1") + "\n\n" + format("b", "2") + "\n"
	for name, c := range map[string]struct{ file, a, b string }{
		"whole":         {whole, "1", "2"},
		"empty":         {"", "", ""},
		"cut off":       {whole[:len(whole)-4], "1", ""},
		"a bit flipped": {strings.Replace(whole, "a\t1", "a\t9", 1), "", "2"},
		"garbage":       {"\x00\xff\t\t\t" + strings.Repeat("x", 5000) + whole, "1", "2"},
		"no newline":    {format("a", "1") + format("b", "2"), "", ""},
		"twice":         {whole + "\n" + format("a", "3") + "\n", "1", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			path := open(t, folder).path
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(c.file), 0o644); err != nil {
				t.Fatal(err)
			}
			s := open(t, folder)
			want(t, s, "a", c.a)
			want(t, s, "b", c.b)
			s.Put("c", "5")
			s = open(t, folder)
			want(t, s, "a", c.a)
			want(t, s, "c", "5")
		})
	}
}

// Without a place to write, a process remembers its own choices.
func TestNowhereToWrite(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	path := open(t, folder).path
	if err := os.MkdirAll(path, 0o755); err != nil { // a folder where the file should be
		t.Fatal(err)
	}
	for _, f := range []string{file, folder, "/dev/null/x"} {
		s := open(t, f)
		if got := s.Put("a", "1"); got != "1" {
			t.Errorf("%s: %q", f, got)
		}
		want(t, s, "a", "1")
		if got := s.Put("a", "2"); got != "1" {
			t.Errorf("%s: then %q", f, got)
		}
	}
}

// A file does not grow for ever.
func TestFullFile(t *testing.T) {
	folder := t.TempDir()
	s := open(t, folder)
	s.Put("a", "1")
	if err := os.Truncate(s.path, maxBytes+1); err != nil {
		t.Fatal(err)
	}
	s.Put("b", "2")
	if info, err := os.Stat(s.path); err != nil || info.Size() != maxBytes+1 {
		t.Errorf("%v, %v", info, err)
	}
	want(t, open(t, folder), "a", "1")
}

const children = 4

// Processes that choose at the same time agree.
func TestProcessesAgree(t *testing.T) {
	if at := os.Getenv("LOCUS_TEST_CHILD"); at != "" {
		s := For("card", "library")
		for i := range 200 {
			fmt.Println(i, s.Put(fmt.Sprint("key ", i), "by "+at))
		}
		return
	}
	folder := t.TempDir()
	outs := make([]string, children)
	var wg sync.WaitGroup
	for i := range outs {
		wg.Go(func() {
			c := exec.Command(os.Args[0], "-test.run", "^TestProcessesAgree$")
			c.Env = append(os.Environ(), "LOCUS_CACHE="+folder, fmt.Sprint("LOCUS_TEST_CHILD=", i))
			out, err := c.CombinedOutput()
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
			text, _, _ := strings.Cut(string(out), "PASS")
			outs[i] = text
		})
	}
	wg.Wait()
	for i := 1; i < children; i++ {
		if outs[i] != outs[0] || strings.Count(outs[i], "by ") != 200 {
			t.Errorf("process %d and the first do not agree, or chose %d times", i, strings.Count(outs[i], "by "))
		}
	}
}
