package data

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/locusml/locus"
	"github.com/locusml/locus/dtype"
	"github.com/locusml/locus/internal/cachedir"
	"github.com/locusml/locus/internal/op"
)

// Source says where the files of a known dataset are looked for.
type Source struct {
	// Folder holds the files. If it is empty, the system's folder (Debian's package
	// dataset-fashion-mnist installs one) and the cache are searched.
	Folder string

	// Download fetches what is missing into the cache, compares checksums, and
	// resumes an earlier download that broke off.
	Download bool

	Cache    string // "" is the folder locus in the user's cache
	Mirror   string // where to download from instead: the address of a folder
	Client   *http.Client
	Progress func(file string, done, total int64) // called during downloads; total is -1 if unknown
}

// idxSet is a dataset that is published as four IDX files.
type idxSet struct {
	name    string
	system  string // folder of the distribution's package
	install string // how to get that
	url     string
	sums    [4]string // SHA-256 of the compressed files
	classes []string
}

var idxFiles = [4]string{"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}

var fashionMNIST = &idxSet{
	name:    "fashion-mnist",
	system:  "/usr/share/datasets/fashion-mnist",
	install: "apt install dataset-fashion-mnist",
	url:     "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
	sums: [4]string{
		"3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
		"a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
		"346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
		"67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
	},
	classes: []string{"t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"},
}

var mnist = &idxSet{
	name: "mnist",
	url:  "https://ossci-datasets.s3.amazonaws.com/mnist",
	sums: [4]string{
		"440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
		"3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
		"8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
		"f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
	},
	classes: digitNames,
}

// FashionMNIST returns Zalando's images of clothes, 60,000 for training and 10,000
// for testing: pixels from 0 to 1 (float32, shape (n, 1, 28, 28)) and their
// classes. Images are kept as bytes and converted batch by batch.
func FashionMNIST(from Source) (train, test *Classified, err error) { return fashionMNIST.load(from) }

// MNIST returns images of handwritten digits, 60,000 for training and 10,000 for
// testing, as [FashionMNIST] does.
func MNIST(from Source) (train, test *Classified, err error) { return mnist.load(from) }

func (s *idxSet) load(from Source) (train, test *Classified, err error) {
	var paths [4]string
	for i := range idxFiles {
		if paths[i], err = s.find(from, i); err != nil {
			return nil, nil, fmt.Errorf("data: %s: %w", s.name, err)
		}
	}
	// Unpacking is most of the time it takes; the two are independent.
	var wg sync.WaitGroup
	var testErr error
	wg.Go(func() { test, testErr = s.open(paths[2], paths[3]) })
	train, err = s.open(paths[0], paths[1])
	wg.Wait()
	if err = cmp.Or(err, testErr); err != nil {
		return nil, nil, err
	}
	return train, test, nil
}

// find returns the path of a file, which it may download.
func (s *idxSet) find(from Source, i int) (string, error) {
	folders := []string{from.Folder}
	cache := from.Cache
	if from.Folder == "" {
		if cache == "" {
			folder, err := cachedir.Path()
			if err != nil && s.system == "" {
				return "", fmt.Errorf("%w; set Source.Cache or Source.Folder", err)
			}
			cache = folder
		}
		cache = filepath.Join(cache, s.name)
		folders = []string{cache}
		if s.system != "" {
			folders = []string{s.system, cache}
		}
	}
	for _, folder := range folders {
		for _, name := range []string{idxFiles[i], idxFiles[i] + ".gz", strings.Replace(idxFiles[i], "-idx", ".idx", 1)} {
			path := filepath.Join(folder, name)
			if _, err := os.Stat(path); err == nil {
				return path, nil
			} else if !errors.Is(err, fs.ErrNotExist) {
				return "", err
			}
		}
	}
	if from.Folder != "" || !from.Download {
		fix := "set Source.Folder to where it is, or Source.Download"
		if s.install != "" {
			fix += ", or " + s.install
		}
		return "", fmt.Errorf("there is no %s (or .gz) in %s: %w\n  fix: %s", idxFiles[i], strings.Join(folders, ", "), fs.ErrNotExist, fix)
	}
	base := s.url
	if from.Mirror != "" {
		base = strings.TrimRight(from.Mirror, "/")
	}
	name := idxFiles[i] + ".gz"
	path := filepath.Join(cache, name)
	f := &fetch{url: base + "/" + name, path: path, sum: s.sums[i], client: from.Client}
	if from.Progress != nil {
		f.progress = func(done, total int64) { from.Progress(name, done, total) }
	}
	return path, f.run()
}

// open reads images and labels and makes sure that they belong together.
func (s *idxSet) open(images, labels string) (*Classified, error) {
	x, err := ReadIDX(images)
	if err != nil {
		return nil, err
	}
	y, err := ReadIDX(labels)
	if err != nil {
		return nil, err
	}
	if x.Rank() != 3 || x.DType() != dtype.Uint8 {
		return nil, fmt.Errorf("data: %s: %s %s are not gray images: %w", images, x.DType(), op.ShapeString(x.Shape()), ErrFormat)
	}
	if y.Rank() != 1 || y.DType() != dtype.Uint8 || y.Dim(0) != x.Dim(0) {
		return nil, fmt.Errorf("data: %s: %s %s are not labels of %d images: %w", labels, y.DType(), op.ShapeString(y.Shape()), x.Dim(0), ErrFormat)
	}
	if x.Len() == 0 {
		return nil, fmt.Errorf("data: %s: no images: %w", images, ErrFormat)
	}
	if err := checkLabels(locus.ToSlice[uint8](y), len(s.classes), labels); err != nil {
		return nil, err
	}
	d, err := NewTensorDataset(x.Unsqueeze(1), y.Cast(dtype.Int64))
	if err != nil {
		return nil, err
	}
	return &Classified{Map(d, fromBytes), slices.Clone(s.classes)}, nil
}

// fromBytes turns pixels from 0 to 255 into numbers from 0 to 1.
func fromBytes(batch []*locus.Tensor, _ locus.Key) []*locus.Tensor {
	return append([]*locus.Tensor{batch[0].Cast(dtype.Float32).Mul(1.0 / 255)}, batch[1:]...)
}
