package weights

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/disk"
	"github.com/locusml/locus/internal/gate"
)

// An npz file is a zip archive of npy files.

func (f *File) parseNPZ(o opening) error {
	size := f.source.Size()
	z, err := zip.NewReader(f.source, size)
	if err != nil {
		return malformed("not a zip archive that can be read: %v", err)
	}
	if err := checkMembers(z.File, size, o); err != nil {
		return err
	}
	for _, member := range z.File {
		if err := f.addMember(member); err != nil {
			return fmt.Errorf("member %.100q: %w", member.Name, err)
		}
	}
	return nil
}

// checkMembers makes sure of the sizes that the members claim, all of them
// together: each may be harmless where the whole is not.
func checkMembers(members []*zip.File, size int64, o opening) error {
	var packed, unpacked uint64
	for _, m := range members {
		// Members that lie over each other would multiply their content.
		if packed += m.CompressedSize64; m.CompressedSize64 > uint64(size) || packed > uint64(size) {
			return malformed("the members of the archive claim more bytes than it has")
		}
		if m.Method != zip.Store {
			if m.UncompressedSize64 > math.MaxInt64-unpacked {
				return malformed("the members of the archive claim to unpack to more than can be counted")
			}
			unpacked += m.UncompressedSize64
		}
	}
	most := o.unpacked
	if most == 0 {
		most = disk.MaxUnpacked(size)
	}
	if unpacked > uint64(most) {
		return fmt.Errorf("%w: %w: its %d bytes claim to grow to %d, the limit is %d; if they are meant to, open it with weights.MaxUnpacked(%[4]d), or save it without compression",
			ErrFormat, ErrUnpacked, size, unpacked, most)
	}
	return nil
}

func (f *File) addMember(m *zip.File) error {
	name, ok := strings.CutSuffix(m.Name, ".npy")
	switch {
	case !ok:
		return malformed("an npz archive holds .npy members only")
	case m.Flags&1 != 0:
		return malformed("it is encrypted")
	case m.Method != zip.Store && m.Method != zip.Deflate:
		return malformed("compression method %d is not known", m.Method)
	case m.Method == zip.Store && m.CompressedSize64 != m.UncompressedSize64:
		return malformed("%d bytes are stored as %d", m.UncompressedSize64, m.CompressedSize64)
	}
	r, err := m.Open()
	if err != nil {
		return malformed("%v", err)
	}
	defer r.Close()
	h, err := readNPYHeader(r)
	if err != nil {
		return zipError(err)
	}
	if uint64(h.offset)+uint64(h.info.Bytes) != m.UncompressedSize64 {
		return malformed("%s %v takes %d bytes behind a header of %d, the member has %d", h.info.Type, h.info.Shape, h.info.Bytes, h.offset, m.UncompressedSize64)
	}
	h.info.Name = name
	e := &entry{Info: h.info, big: h.big, fortran: h.fortran}
	e.read = func() ([]byte, error) { return readMember(m, h) }
	return f.add(e)
}

// readMember reads an array's elements, to the end of the member so that its
// checksum is compared.
func readMember(m *zip.File, h *npyHeader) ([]byte, error) {
	r, err := m.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if _, err := io.CopyN(io.Discard, r, h.offset); err != nil {
		return nil, zipError(err)
	}
	b, err := disk.ReadN(r, h.info.Bytes)
	if err != nil {
		return nil, zipError(err)
	}
	if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		if err == nil || errors.Is(err, io.EOF) {
			err = errors.New("more bytes than its size")
		}
		return nil, zipError(err)
	}
	return b, nil
}

func zipError(err error) error {
	if errors.Is(err, ErrFormat) {
		return err
	}
	return malformed("%v", err)
}

// SaveNPZ writes tensors as an npz archive, replacing path as a whole or not at
// all. The same tensors yield the same bytes. See [SaveNPY] about bfloat16.
func SaveNPZ(path string, tensors map[string]*locus.Tensor) error {
	return saveFile(disk.OS, path, func(w io.Writer) error { return writeNPZ(w, tensors) })
}

// WriteNPZ writes what [SaveNPZ] would.
func WriteNPZ(w io.Writer, tensors map[string]*locus.Tensor) error {
	if err := gate.Given("the writer", w); err != nil {
		return fmt.Errorf("weights: %w", err)
	}
	if err := writeNPZ(w, tensors); err != nil {
		return fmt.Errorf("weights: %w", err)
	}
	return nil
}

func writeNPZ(w io.Writer, tensors map[string]*locus.Tensor) error {
	if err := checkTensors(tensors); err != nil {
		return err
	}
	z := zip.NewWriter(w)
	buf := aligned(chunk)
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		m, err := z.CreateHeader(&zip.FileHeader{Name: name + ".npy", Method: zip.Store})
		if err != nil {
			return err
		}
		if err := writeArray(m, tensors[name], buf); err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
	}
	return z.Close()
}
