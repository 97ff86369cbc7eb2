// Package choices remembers what was chosen by measuring, from one process to the next.
// A clock may say something else the next time, and another algorithm has other bits:
// so what was measured once stays.
//
// A [Store] is a file of lines, each with a checksum. Lines are only ever added, and the
// first one of a key counts. So processes that measure at the same time agree as soon as
// both have written, and a line that was damaged, or half written, is as if it were not
// there. Where there is no folder to write to, choices last as long as the process.
package choices

import (
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/locusml/locus/internal/cachedir"
)

const (
	header   = "locus choices 1"
	maxBytes = 4 << 20 // no more is read or written: some 20,000 choices
)

// Store holds the choices for one kind of card and one version of a library. It is safe
// for concurrent use.
type Store struct {
	path string // "" without a file

	mu     sync.Mutex
	loaded bool
	values map[string]string
}

var (
	mu     sync.Mutex
	stores = map[string]*Store{}
)

// For returns the store of what was measured on a card with a library. The names are any
// text.
func For(card, library string) *Store {
	name, path := plain(card)+"."+plain(library)+".txt", ""
	if folder, err := cachedir.Path(); err == nil {
		path = filepath.Join(folder, "choices", name)
	}
	mu.Lock()
	defer mu.Unlock()
	s := stores[path+name]
	if s == nil {
		s = &Store{path: path}
		stores[path+name] = s
	}
	return s
}

// plain returns text that any file system takes as part of a name.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '-' {
			return r
		}
		return '_'
	}, text)
}

// Get returns what was chosen for key.
func (s *Store) Get(key string) (choice string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.loaded {
		s.load()
	}
	choice, ok = s.values[clean(key)]
	return choice, ok
}

// Put stores a choice, and returns the one that counts: another process may have been
// first.
func (s *Store) Put(key, choice string) string {
	key, choice = clean(key), clean(choice)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.load()
	if old, ok := s.values[key]; ok {
		return old
	}
	if s.append(key, choice) {
		s.load()
	}
	if old, ok := s.values[key]; ok {
		return old
	}
	s.values[key] = choice // nowhere to write
	return choice
}

// clean keeps the characters that the format needs out of a text.
func clean(text string) string {
	return strings.NewReplacer("\t", " ", "\n", " ", "\r", " ").Replace(text)
}

// load reads the file. What this process has chosen without a file stays.
func (s *Store) load() {
	s.loaded = true
	if s.values == nil {
		s.values = map[string]string{}
	}
	if s.path == "" {
		return
	}
	info, err := os.Stat(s.path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > 2*maxBytes {
		return
	}
	data, err := os.ReadFile(s.path)
	if err != nil {
		return
	}
	seen := map[string]bool{}
	for _, line := range strings.Split(string(data), "\n") {
		if key, choice, ok := parse(line); ok && !seen[key] {
			seen[key] = true
			s.values[key] = choice
		}
	}
}

// append adds a line, and reports whether it did. One call of the system writes it, so
// that lines of several processes do not mix.
func (s *Store) append(key, choice string) bool {
	if s.path == "" || os.MkdirAll(filepath.Dir(s.path), 0o755) != nil {
		return false
	}
	f, err := os.OpenFile(s.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxBytes {
		return false
	}
	// The first newline ends a line in which another process was killed.
	_, err = f.WriteString("\n" + format(key, choice) + "\n")
	return err == nil
}

func format(key, choice string) string {
	text := key + "\t" + choice
	return fmt.Sprintf("%s\t%08x", text, sum(text))
}

func parse(line string) (key, choice string, ok bool) {
	text, check, ok := cut(line)
	if !ok || check != fmt.Sprintf("%08x", sum(text)) {
		return "", "", false
	}
	return strings.Cut(text, "\t")
}

// cut splits a line before its checksum.
func cut(line string) (text, check string, ok bool) {
	i := strings.LastIndexByte(line, '\t')
	if i < 0 {
		return "", "", false
	}
	return line[:i], line[i+1:], true
}

// sum is the checksum of a line. It covers the header, so that lines of another
// format have another one.
func sum(text string) uint32 { return crc32.ChecksumIEEE([]byte(header + text)) }
