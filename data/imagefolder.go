package data

import (
	"fmt"
	"image"
	"image/color"
	_ "image/jpeg" // the formats that are read
	_ "image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/image/draw"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/disk"
)

// ImageOptions says how [ImageFolder] converts its files.
type ImageOptions struct {
	Height, Width int  // every image is resized to this
	Gray          bool // one channel instead of red, green and blue
	MaxPixels     int  // larger images are refused; 0 means 100 million

	// Deprecated: Set Gray.
	Grey bool
}

// ImageFolder returns the PNG and JPEG images of a folder in which each class has a
// folder of its own: numbers from 0 to 1 (float32, shape (n, 3, height, width),
// or one channel) and the classes' numbers, in the order of their names. Files
// are read when a batch asks for them: use a loader with several workers. Other
// files, and those whose names start with a dot, are skipped.
func ImageFolder(path string, opt ImageOptions) (*Classified, error) {
	if opt.Height < 1 || opt.Width < 1 || opt.Height > maxPixels || opt.Width > maxPixels {
		return nil, fmt.Errorf("data: set the size of images, 1 to %d pixels per side, not %d×%d: %w", maxPixels, opt.Height, opt.Width, locus.ErrArgument)
	}
	if opt.MaxPixels == 0 {
		opt.MaxPixels = 100e6
	}
	entries, err := os.ReadDir(path) // sorted
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	opt.Gray = opt.Gray || opt.Grey
	f := &imageFolder{opt: opt}
	var classes []string
	for _, e := range entries {
		folder := filepath.Join(path, e.Name())
		if info, err := os.Stat(folder); err != nil || !info.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		files, err := os.ReadDir(folder)
		if err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
		for _, file := range files {
			if isImage(file.Name()) {
				f.paths = append(f.paths, filepath.Join(folder, file.Name()))
				f.labels = append(f.labels, int64(len(classes)))
			}
		}
		classes = append(classes, e.Name())
	}
	if len(f.paths) == 0 {
		return nil, fmt.Errorf("data: %s has no PNG or JPEG files in folders of classes: %w", path, locus.ErrArgument)
	}
	return &Classified{f, classes}, nil
}

func isImage(name string) bool {
	ext := strings.ToLower(filepath.Ext(name))
	return !strings.HasPrefix(name, ".") && slices.Contains([]string{".png", ".jpg", ".jpeg"}, ext)
}

type imageFolder struct {
	opt    ImageOptions
	paths  []string
	labels []int64
}

func (f *imageFolder) Len() int { return len(f.paths) }

func (f *imageFolder) Batch(at []int, _ locus.Key) ([]*locus.Tensor, error) {
	if err := checkPositions(at, len(f.paths)); err != nil {
		return nil, err
	}
	channels := 3
	if f.opt.Gray {
		channels = 1
	}
	size := channels * f.opt.Height * f.opt.Width
	pixels, labels := make([]float32, len(at)*size), make([]int64, len(at))
	for i, p := range at {
		img, err := readImage(f.paths[p], f.opt)
		if err != nil {
			return nil, fmt.Errorf("data: %s: %w", f.paths[p], err)
		}
		toPlanes(pixels[i*size:(i+1)*size], img, f.opt.Gray)
		labels[i] = f.labels[p]
	}
	var x, y *locus.Tensor
	err := locus.Try(func() {
		x = locus.CPU().From(pixels, len(at), channels, f.opt.Height, f.opt.Width)
		y = locus.CPU().From(labels)
	})
	return []*locus.Tensor{x, y}, err
}

// readImage reads a file and brings it to size. Its dimensions are looked at
// before its pixels are unpacked.
func readImage(path string, opt ImageOptions) (*image.RGBA, error) {
	file, err := disk.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	config, _, err := image.DecodeConfig(file)
	if err != nil {
		return nil, malformed("%v", err)
	}
	if config.Width < 1 || config.Height < 1 || config.Width > opt.MaxPixels/config.Height {
		return nil, malformed("%d×%d pixels; the limit is %d (ImageOptions.MaxPixels)", config.Width, config.Height, opt.MaxPixels)
	}
	if _, err := file.Seek(0, 0); err != nil {
		return nil, err
	}
	src, _, err := image.Decode(file)
	if err != nil {
		return nil, malformed("%v", err)
	}
	dst := image.NewRGBA(image.Rect(0, 0, opt.Width, opt.Height))
	draw.Draw(dst, dst.Bounds(), image.NewUniform(color.Black), image.Point{}, draw.Src) // behind what is transparent
	if src.Bounds().Dx() == opt.Width && src.Bounds().Dy() == opt.Height {
		draw.Draw(dst, dst.Bounds(), src, src.Bounds().Min, draw.Over)
	} else {
		draw.BiLinear.Scale(dst, dst.Bounds(), src, src.Bounds(), draw.Over, nil)
	}
	return dst, nil
}

// toPlanes writes an image channel by channel.
func toPlanes(out []float32, img *image.RGBA, gray bool) {
	n := img.Rect.Dx() * img.Rect.Dy()
	for i := range n {
		p := img.Pix[4*i : 4*i+3 : 4*i+3]
		r, g, b := float32(p[0])/255, float32(p[1])/255, float32(p[2])/255
		if gray {
			out[i] = 0.299*r + 0.587*g + 0.114*b
			continue
		}
		out[i], out[n+i], out[2*n+i] = r, g, b
	}
}
