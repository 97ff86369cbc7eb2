package weights

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

// safeFile puts a header before data.
func safeFile(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func npyFile(header string, data int) []byte {
	b := append([]byte(npyMagic), 1, 0)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func npzFile(t testing.TB, method uint16, members map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, content := range members {
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// hostile lists contents that must be refused, with a part of the message.
func hostile(t testing.TB) map[string]struct {
	content []byte
	says    string
} {
	type bad = struct {
		content []byte
		says    string
	}
	one := `{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`
	huge := binary.LittleEndian.AppendUint64(nil, 1<<62)
	over := binary.LittleEndian.AppendUint64(nil, maxHeader+1)
	cut := safeFile(one, 8)
	good := npyFile("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", 8)
	badSum := npzFile(t, zip.Store, map[string][]byte{"a.npy": good})
	badSum[bytes.Index(badSum, good)+len(good)-1] ^= 1
	return map[string]bad{
		"nothing":                    {nil, "too few"},
		"seven bytes":                {make([]byte, 7), "too few"},
		"length only":                {safeFile("", 0), "a header of 0 bytes"},
		"length beyond everything":   {huge, "the limit is"},
		"length over the limit":      {append(over, '{'), "the limit is"},
		"length beyond the file":     {binary.LittleEndian.AppendUint64(nil, 100), "truncated"},
		"header is no object":        {safeFile(`[1,2]`, 0), "start with {"},
		"header starts with a space": {safeFile(` {}`, 0), "start with {"},
		"header not UTF-8":           {safeFile("{\"\xff\":1}", 0), "UTF-8"},
		"header not JSON":            {safeFile(`{"a":`, 0), "JSON"},
		"header cut":                 {safeFile(`{"a":{"dtype":"F32"`, 0), "JSON"},
		"trailing text":              {safeFile(one+"x", 8), "follows"},
		"trailing object":            {safeFile(one+"{}", 8), "follows"},
		"tensor is a number":         {safeFile(`{"a":1}`, 0), "where an object"},
		"tensor is null":             {safeFile(`{"a":null}`, 0), "where an object"},
		"no dtype":                   {safeFile(`{"a":{"shape":[2],"data_offsets":[0,8]}}`, 8), "want dtype"},
		"no shape":                   {safeFile(`{"a":{"dtype":"F32","data_offsets":[0,8]}}`, 8), "want dtype"},
		"null shape":                 {safeFile(`{"a":{"dtype":"F32","shape":null,"data_offsets":[0,4]}}`, 4), "want dtype"},
		"no offsets":                 {safeFile(`{"a":{"dtype":"F32","shape":[2]}}`, 8), "want dtype"},
		"three offsets":              {safeFile(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8,9]}}`, 8), "want dtype"},
		"negative size":              {safeFile(`{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}`, 8), "shape"},
		"size with a fraction":       {safeFile(`{"a":{"dtype":"F32","shape":[2.5],"data_offsets":[0,10]}}`, 10), "shape"},
		"size overflows":             {safeFile(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0), "too many elements"},
		"size overflows behind 0":    {safeFile(`{"a":{"dtype":"F32","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}}`, 0), "too many elements"},
		"size beyond 64 bits":        {safeFile(`{"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,0]}}`, 0), "shape"},
		"unknown dtype":              {safeFile(`{"a":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}}`, 8), "unknown element type"},
		"dtype in lower case":        {safeFile(`{"a":{"dtype":"f32","shape":[2],"data_offsets":[0,8]}}`, 8), "unknown element type"},
		"field in upper case":        {safeFile(`{"a":{"DTYPE":"F32","shape":[2],"data_offsets":[0,8]}}`, 8), "want dtype"},
		"dtype is a number":          {safeFile(`{"a":{"dtype":3,"shape":[2],"data_offsets":[0,8]}}`, 8), "dtype"},
		"wrong size":                 {safeFile(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,7]}}`, 7), "takes 8 bytes"},
		"backwards":                  {safeFile(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}`, 8), "takes 8 bytes"},
		"offset wraps":               {safeFile(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[18446744073709551612,4]}}`, 8), "takes 8 bytes"},
		"half a byte":                {safeFile(`{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}}`, 1), "do not fill bytes"},
		"truncated data":             {cut[:len(cut)-1], "truncated"},
		"data too long":              {append(safeFile(one, 8), 0), "belong to none"},
		"hole at the start":          {safeFile(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}`, 12), "belong to none"},
		"hole between":               {safeFile(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}}`, 5), "belong to none"},
		"overlap":                    {safeFile(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, 3), "overlaps"},
		"same place":                 {safeFile(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 2), "overlaps"},
		"name twice":                 {safeFile(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"a":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}`, 4), "twice"},
		"field twice":                {safeFile(`{"a":{"dtype":"U8","dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 2), "twice"},
		"metadata is a list":         {safeFile(`{"__metadata__":[]}`, 0), "where an object"},
		"metadata holds a number":    {safeFile(`{"__metadata__":{"a":1}}`, 0), "not a text"},
		"metadata holds null":        {safeFile(`{"__metadata__":{"a":null}}`, 0), "not a text"},
		"metadata twice":             {safeFile(`{"__metadata__":{"a":"1","a":"2"}}`, 0), "twice"},
		"bad bool":                   {append(safeFile(`{"a":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}}`, 1), 7), "bool"},

		"npy cut in the magic":    {[]byte(npyMagic + "\x01\x00"), "truncated"},
		"npy version 9":           {[]byte(npyMagic + "\x09\x00\x00\x00"), "version"},
		"npy header cut":          {npyFile("{'descr'", 0)[:12], "truncated"},
		"npy huge header":         {[]byte(npyMagic + "\x02\x00\xff\xff\xff\xff"), "the limit is"},
		"npy no dict":             {npyFile("[]", 0), "at byte"},
		"npy expression":          {npyFile("{'descr': __import__('os').system('true'), 'fortran_order': False, 'shape': (2,)}", 8), "at byte"},
		"npy missing field":       {npyFile("{'descr': '<f4', 'shape': (2,)}", 8), "fortran_order"},
		"npy extra field":         {npyFile("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': True}", 8), "fortran_order"},
		"npy field twice":         {npyFile("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 8), "at byte"},
		"npy objects":             {npyFile("{'descr': '|O', 'fortran_order': False, 'shape': (2,)}", 16), "Python objects"},
		"npy unknown type":        {npyFile("{'descr': '<q4', 'fortran_order': False, 'shape': (2,)}", 8), "NumPy has no element type"},
		"npy structured type":     {npyFile("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", 8), "at byte"},
		"npy negative size":       {npyFile("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", 8), "at byte"},
		"npy size overflows":      {npyFile("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", 0), "too many elements"},
		"npy size beyond 64 bits": {npyFile("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", 0), "at byte"},
		"npy wide elements":       {npyFile("{'descr': '|V999999999', 'fortran_order': False, 'shape': (99999999999,)}", 0), "too many elements"},
		"npy truncated":           {npyFile("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 7), "takes 8 bytes"},
		"npy too long":            {npyFile("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", 9), "takes 8 bytes"},
		"npy trailing text":       {npyFile("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x", 8), "at byte"},

		"npz cut":             {[]byte("PK\x03\x04aaaaaaaaaaaa"), "zip"},
		"npz other member":    {npzFile(t, zip.Store, map[string][]byte{"a.txt": []byte("x")}), ".npy members only"},
		"npz member no npy":   {npzFile(t, zip.Store, map[string][]byte{"a.npy": []byte("xxxxxxxxxxxx")}), "not an npy"},
		"npz member too long": {npzFile(t, zip.Deflate, map[string][]byte{"a.npy": append(bytes.Clone(good), 0)}), "takes 8 bytes"},
		"npz bad checksum":    {badSum, "checksum"},
		"npz bomb":            {bomb(t), "grow"},
	}
}

// bomb claims to grow from a few bytes to a terabyte.
func bomb(t testing.TB) []byte {
	b := npzFile(t, zip.Deflate, map[string][]byte{"a.npy": npyFile("{'descr': '|u1', 'fortran_order': False, 'shape': (1099511627776,)}", 1000)})
	central := bytes.LastIndex(b, []byte("PK\x01\x02"))
	binary.LittleEndian.PutUint32(b[central+24:], 0xfffffff0) // the uncompressed size
	return b
}

func TestHostileFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	for name, c := range hostile(t) {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
			if err := os.WriteFile(path, c.content, 0o666); err != nil {
				t.Fatal(err)
			}
			fromFile, err := Open(path)
			check := func(f *File, err error) {
				t.Helper()
				if err == nil {
					_, err = f.LoadAll(locus.CPU())
					f.Close()
				}
				if err == nil {
					t.Fatal("accepted")
				}
				if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("the error does not say %q: %v", c.says, err)
				}
			}
			check(fromFile, err)
			check(Read(bytes.NewReader(c.content), int64(len(c.content))))
		})
	}
}

// Types that Locus does not have are no reason to refuse the other tensors.
func TestForeignTypes(t *testing.T) {
	content := safeFile(`{"a":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},`+
		`"c":{"dtype":"F4","shape":[2],"data_offsets":[8,9]}}`, 9)
	f, err := Read(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	info, _ := f.Info("a")
	if info.DType.Valid() || info.Type != "F8_E4M3" {
		t.Errorf("%+v", info)
	}
	if _, err := f.Load("a", locus.CPU()); !errors.Is(err, locus.ErrDType) || !strings.Contains(err.Error(), "F8_E4M3") {
		t.Errorf("%v", err)
	}
	if _, err := f.Load("b", locus.CPU()); err != nil {
		t.Error(err)
	}
}

func TestTooManyDimensions(t *testing.T) {
	content := safeFile(`{"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}}`, 1)
	f, err := Read(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Load("a", locus.CPU()); !errors.Is(err, locus.ErrShape) {
		t.Errorf("%v", err)
	}
}

// A mapped file that is cut short while it is open is an error, not a crash.
func TestFileCutWhileOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.safetensors")
	if err := Save(path, map[string]*locus.Tensor{"w": locus.CPU().Ones(1 << 16)}, nil); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Load("w", locus.CPU()); err == nil {
		t.Error("a file that was cut short still loads")
	}
}

// fuzzSeeds adds whole and broken files of one format, told by their start.
func fuzzSeeds(f *testing.F, want Format) {
	for _, c := range hostile(f) {
		f.Add(c.content)
	}
	files, err := filepath.Glob("testdata/python*")
	if err != nil || len(files) == 0 {
		f.Fatal("no fixtures")
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		if o, err := Read(bytes.NewReader(b), int64(len(b))); err == nil && o.Format() == want {
			f.Add(b)
		}
	}
}

// fuzzRead reads any content: it must be refused or load, with no more
// elements than the content can hold, and what loads must survive a round trip.
func fuzzRead(t *testing.T, b []byte) {
	f, err := Read(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		if !errors.Is(err, ErrFormat) {
			t.Fatalf("not an ErrFormat: %v", err)
		}
		return
	}
	tensors := map[string]*locus.Tensor{}
	for _, name := range f.Names() {
		info, _ := f.Info(name)
		if f.Format() != NPZ && info.Bytes > int64(len(b)) {
			t.Fatalf("%d bytes from a file of %d", info.Bytes, len(b))
		}
		x, err := f.Load(name, locus.CPU())
		if err != nil {
			continue
		}
		tensors[name] = x
	}
	var out bytes.Buffer
	if err := Write(&out, tensors, f.Metadata()); err != nil {
		if errors.Is(err, locus.ErrArgument) {
			return // a name that safetensors cannot have
		}
		t.Fatal(err)
	}
	g, err := Read(bytes.NewReader(out.Bytes()), int64(out.Len()))
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range tensors {
		y, err := g.Load(name, locus.CPU())
		if err != nil {
			t.Fatal(err)
		}
		requireSame(t, fmt.Sprintf("%q", name), y, x)
	}
}

func FuzzSafetensors(f *testing.F) {
	fuzzSeeds(f, Safetensors)
	f.Fuzz(fuzzRead)
}

func FuzzNPY(f *testing.F) {
	fuzzSeeds(f, NPY)
	f.Fuzz(fuzzRead)
}

func FuzzNPZ(f *testing.F) {
	fuzzSeeds(f, NPZ)
	f.Fuzz(fuzzRead)
}

// FuzzSafetensorsHeader spends its time on the JSON.
func FuzzSafetensorsHeader(f *testing.F) {
	f.Add(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":{"k":"v"}}`, 8)
	f.Fuzz(func(t *testing.T, header string, n int) {
		if n < 0 || n > 1<<16 {
			return
		}
		fuzzRead(t, safeFile(header, n))
	})
}

// FuzzNPYHeader spends its time on the dict.
func FuzzNPYHeader(f *testing.F) {
	f.Add("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3L), }\n", 24)
	f.Fuzz(func(t *testing.T, header string, n int) {
		if n < 0 || n > 1<<16 || len(header) > 1<<16-1 {
			return
		}
		fuzzRead(t, npyFile(header, n))
	})
}
