// Package checkpoint keeps the state of a training run on disk so that it can go
// on after a crash: tensors, and with them whatever else the run needs (epoch,
// step, keys, schedule, position in the data) as JSON.
//
//	dir, err := checkpoint.Open("run1", 3)         // keeps the last three
//	_, err = dir.Save(tensors, State{Epoch: 4, ...})
//
//	c, err := dir.Latest()                         // after a crash
//	err = c.State(&state)
//	w, err := c.Tensors.Load("w", gpu)
//
// A checkpoint is a folder. It is written under another name, flushed to the
// disk and then renamed: whenever a crash happens, earlier checkpoints stay whole,
// and an unfinished one is never mistaken for a checkpoint. Checksums find later
// damage on the disk. Other files in the folder are left alone, even if their names
// begin like those of checkpoints.
package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/disk"
	"github.com/locusml/locus/weights"
)

const (
	tensorsFile  = "tensors.safetensors"
	manifestFile = "manifest.json"
	namePrefix   = "checkpoint-"

	// maxManifest bounds what is read of a manifest.
	maxManifest = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrNone is in the chain of [Dir.Latest]'s error if there is no whole
// checkpoint.
var ErrNone = errors.New("no whole checkpoint")

// manifest is what a checkpoint holds besides the tensors.
type manifest struct {
	Version int       `json:"version"`
	Number  int       `json:"number"`
	Saved   time.Time `json:"saved"`
	Tensors struct {
		Bytes  int64  `json:"bytes"`
		CRC32C string `json:"crc32c"`
	} `json:"tensors"`
	State json.RawMessage `json:"state"`
}

// Dir is a folder of checkpoints. One process at a time may save to it; any
// number may read.
type Dir struct {
	path string
	keep int
	fs   disk.FS
	mu   sync.Mutex // one Save at a time
}

// Open returns the folder of checkpoints at path, which it creates if there is
// none. Saving removes all but the last keep checkpoints; 0 keeps all.
func Open(path string, keep int) (*Dir, error) {
	if keep < 0 {
		return nil, fmt.Errorf("checkpoint: cannot keep %d checkpoints", keep)
	}
	if err := os.MkdirAll(path, 0o777); err != nil {
		return nil, fmt.Errorf("checkpoint: %w", err)
	}
	return &Dir{path: path, keep: keep, fs: disk.OS}, nil
}

// Path is the folder's name.
func (d *Dir) Path() string { return d.path }

// Save writes a new checkpoint: tensors, from whatever devices, and state, which
// is anything that encoding/json can write. It returns when both are safe on the
// disk. After an error earlier checkpoints are intact.
func (d *Dir) Save(tensors map[string]*locus.Tensor, state any) (Entry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e, err := d.save(tensors, state)
	if err != nil {
		return Entry{}, fmt.Errorf("checkpoint: saving to %s: %w", d.path, err)
	}
	d.prune(e.Number)
	return e, nil
}

func (d *Dir) save(tensors map[string]*locus.Tensor, state any) (Entry, error) {
	raw, err := json.Marshal(state)
	if err != nil {
		return Entry{}, fmt.Errorf("the state cannot be written as JSON: %w", err)
	}
	disk.Clean(d.fs, d.path) // what an earlier process did not finish
	number, err := d.nextNumber()
	if err != nil {
		return Entry{}, err
	}
	final := filepath.Join(d.path, nameOf(number))
	temp, release, err := disk.MakeTemp(final, d.fs.Mkdir)
	if err != nil {
		return Entry{}, err
	}
	defer release()
	m := manifest{Version: 1, Number: number, Saved: time.Now().UTC(), State: raw}
	if err = d.fill(temp, tensors, &m); err == nil {
		err = d.fs.Rename(temp, final)
	}
	if err != nil {
		d.fs.RemoveAll(temp)
		return Entry{}, err
	}
	if err := d.fs.SyncDir(d.path); err != nil {
		return Entry{}, err
	}
	return Entry{number, final, m.Saved}, nil
}

// fill writes a checkpoint's files into a folder and flushes it.
func (d *Dir) fill(folder string, tensors map[string]*locus.Tensor, m *manifest) error {
	sum := &summer{hash: crc32.New(castagnoli)}
	err := d.writeFile(filepath.Join(folder, tensorsFile), func(w io.Writer) error {
		sum.w = w
		return weights.Write(sum, tensors, nil)
	})
	if err != nil {
		return err
	}
	m.Tensors.Bytes, m.Tensors.CRC32C = sum.n, sum.text()
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if len(text) > maxManifest {
		return fmt.Errorf("the state takes %d bytes as JSON; keep what is large in tensors", len(text))
	}
	err = d.writeFile(filepath.Join(folder, manifestFile), func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
	if err != nil {
		return err
	}
	return d.fs.SyncDir(folder)
}

func (d *Dir) writeFile(path string, write func(io.Writer) error) error {
	f, err := d.fs.Create(path, nil)
	if err != nil {
		return err
	}
	return disk.Fill(f, write)
}

// summer counts and sums up what passes.
type summer struct {
	w    io.Writer
	hash interface {
		io.Writer
		Sum32() uint32
	}
	n int64
}

func (s *summer) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.hash.Write(p[:n])
	s.n += int64(n)
	return n, err
}

func (s *summer) text() string { return fmt.Sprintf("%08x", s.hash.Sum32()) }

// nextNumber returns a number above those of all whole checkpoints, whose name
// is free. What only has the name of a checkpoint counts for nothing else: a
// stray folder with a huge number must not decide where the run's own go.
func (d *Dir) nextNumber() (int, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return 0, err
	}
	var numbers []int
	for _, e := range entries {
		if n, ok := numberOf(e.Name()); ok {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	next := int64(1) // on every machine more than maxNumber can be counted
	for _, n := range slices.Backward(numbers) {
		if _, err := readManifest(filepath.Join(d.path, nameOf(n)), n); err == nil {
			next = int64(n) + 1
			break
		}
	}
	for next <= maxNumber && slices.Contains(numbers, int(next)) {
		next++
	}
	if next > maxNumber {
		return 0, fmt.Errorf("the numbers of checkpoints have run out; move %s away", nameOf(maxNumber))
	}
	return int(next), nil
}

// prune removes the oldest of more than keep whole checkpoints, but never the
// one that was just saved. What cannot be removed now is tried again after the
// next save.
func (d *Dir) prune(saved int) {
	if d.keep == 0 {
		return
	}
	whole, _, err := d.List()
	if err != nil {
		return
	}
	for ; len(whole) > d.keep; whole = whole[1:] {
		if whole[0].Number == saved {
			continue
		}
		// Renamed first: one that is half removed must not look like one.
		temp := disk.TempName(whole[0].Path)
		if d.fs.Rename(whole[0].Path, temp) == nil {
			d.fs.RemoveAll(temp)
		}
	}
}

// maxNumber is the largest number of a checkpoint.
const maxNumber = 1<<31 - 1

func nameOf(number int) string { return fmt.Sprintf("%s%08d", namePrefix, number) }

// numberOf returns the number of a checkpoint by its name. Only the name that
// nameOf would give it counts: "checkpoint-7" is someone else's.
func numberOf(name string) (int, bool) {
	digits, ok := strings.CutPrefix(name, namePrefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && n > 0 && n <= maxNumber && nameOf(n) == name
}

// Entry is a checkpoint in a list.
type Entry struct {
	Number int // they count up
	Path   string
	Saved  time.Time
}

// Broken is something in the folder that should be a checkpoint and is not.
type Broken struct {
	Path string
	Err  error // why
}

// List returns the checkpoints, oldest first, and separately those that are not
// whole: unfinished, cut short or damaged in their manifest. Damage inside the
// tensors is found when a checkpoint is read.
func (d *Dir) List() (whole []Entry, broken []Broken, err error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, nil, fmt.Errorf("checkpoint: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(d.path, e.Name())
		if disk.IsTemp(e.Name()) {
			broken = append(broken, Broken{path, errors.New("unfinished: saving was interrupted, or goes on")})
			continue
		}
		number, ok := numberOf(e.Name())
		if !ok {
			continue // not ours
		}
		m, err := readManifest(path, number)
		if err != nil {
			broken = append(broken, Broken{path, err})
			continue
		}
		whole = append(whole, Entry{number, path, m.Saved})
	}
	slices.SortFunc(whole, func(a, b Entry) int { return a.Number - b.Number })
	return whole, broken, nil
}

// readManifest reads a checkpoint's manifest and makes sure that its tensors
// are there in full length.
func readManifest(path string, number int) (*manifest, error) {
	text, err := disk.ReadFile(filepath.Join(path, manifestFile), maxManifest)
	if err != nil {
		return nil, err
	}
	m := new(manifest)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("%s: %w", manifestFile, err)
	}
	if m.Version != 1 {
		return nil, fmt.Errorf("%s: version %d is not known", manifestFile, m.Version)
	}
	if m.Number != number {
		return nil, fmt.Errorf("%s is that of checkpoint %d", manifestFile, m.Number)
	}
	info, err := os.Stat(filepath.Join(path, tensorsFile))
	if err != nil {
		return nil, err
	}
	if info.Size() != m.Tensors.Bytes {
		return nil, fmt.Errorf("%s has %d bytes, not %d", tensorsFile, info.Size(), m.Tensors.Bytes)
	}
	return m, nil
}

// Checkpoint is a checkpoint that is open for reading.
type Checkpoint struct {
	Entry
	Tensors *weights.File
	// Skipped are newer ones that [Dir.Latest] found broken.
	Skipped []Broken

	state json.RawMessage
}

// Latest opens the newest whole checkpoint; newer ones that are broken are skipped
// and listed in its Skipped. If there is none, the error is an [ErrNone] that says
// what was wrong with each.
func (d *Dir) Latest() (*Checkpoint, error) {
	for {
		whole, broken, err := d.List()
		if err != nil {
			return nil, err
		}
		for _, e := range slices.Backward(whole) {
			c, err := d.Load(e.Number)
			if err == nil {
				c.Skipped = broken
				return c, nil
			}
			broken = append(broken, Broken{e.Path, err})
		}
		// A run that saves meanwhile may have replaced those that were listed.
		if slices.ContainsFunc(broken, gone) {
			continue
		}
		problem := fmt.Errorf("checkpoint: %s: %w", d.path, ErrNone)
		for _, b := range broken {
			problem = fmt.Errorf("%w\n  %s: %w", problem, b.Path, b.Err)
		}
		return nil, problem
	}
}

// gone reports whether what was listed is not there any more.
func gone(b Broken) bool {
	_, err := os.Lstat(b.Path)
	return errors.Is(err, fs.ErrNotExist)
}

// Load opens the checkpoint of a given number and compares its checksum.
func (d *Dir) Load(number int) (*Checkpoint, error) {
	path := filepath.Join(d.path, nameOf(number))
	c, err := load(path, number)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: %s: %w", path, err)
	}
	return c, nil
}

func load(path string, number int) (*Checkpoint, error) {
	m, err := readManifest(path, number)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(path, tensorsFile)
	if err := verify(file, m); err != nil {
		return nil, err
	}
	f, err := weights.Open(file)
	if err != nil {
		return nil, err
	}
	return &Checkpoint{Entry: Entry{number, path, m.Saved}, Tensors: f, state: m.State}, nil
}

func verify(file string, m *manifest) error {
	f, err := disk.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := &summer{w: io.Discard, hash: crc32.New(castagnoli)}
	if _, err := io.CopyBuffer(sum, struct{ io.Reader }{f}, make([]byte, 1<<20)); err != nil {
		return err
	}
	if sum.text() != m.Tensors.CRC32C {
		return fmt.Errorf("%s is damaged: its checksum is %s, not %s", tensorsFile, sum.text(), m.Tensors.CRC32C)
	}
	return nil
}

// State reads what was saved with the tensors into the value that v points to.
func (c *Checkpoint) State(v any) error {
	if err := json.Unmarshal(c.state, v); err != nil {
		return fmt.Errorf("checkpoint: %s: the state: %w", c.Path, err)
	}
	return nil
}

// Close closes the files.
func (c *Checkpoint) Close() error { return c.Tensors.Close() }

// Remove deletes all checkpoints, and what killed processes left unfinished; other
// files stay.
func (d *Dir) Remove() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	entries, err := os.ReadDir(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if _, ok := numberOf(e.Name()); ok {
			err = errors.Join(err, d.fs.RemoveAll(filepath.Join(d.path, e.Name())))
		}
	}
	disk.Clean(d.fs, d.path)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}
