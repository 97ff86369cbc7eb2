// Package predict uses trained networks: on pictures, and on test sets.
package predict

import (
	"fmt"
	"image"
	"image/color"
	_ "image/gif"  // formats that image.Decode knows
	_ "image/jpeg" //
	_ "image/png"  //
	"sort"

	"golang.org/x/image/draw"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/disk"
	"github.com/locusml/locus/nn"
)

// maxPixels is the size of picture that is still read.
const maxPixels = 100_000_000

// Guess is a class and how sure the network is of it.
type Guess struct {
	Class       string  `json:"class"`
	Probability float64 `json:"probability"`
}

// Prediction is what a network makes of a picture.
type Prediction struct {
	File  string  `json:"file"`
	Top   []Guess `json:"top"`             // the likeliest first
	Value float64 `json:"value,omitempty"` // of a network that has learned numbers, which has no classes
	Light bool    `json:"light_ground"`    // the picture's border is bright
	Image []uint8 `json:"-"`               // as the network sees it, the first channel
	Shape []int   `json:"shape,omitempty"` // channels, height, width
}

// Images predicts the classes of picture files.
func Images(net nn.Module, d locus.Device, input []int, classes []string, files []string, invert bool, top int) ([]Prediction, error) {
	var list []Prediction
	for _, file := range files {
		pixels, err := read(file, input, invert)
		if err != nil {
			return nil, err
		}
		p := Prediction{File: file, Light: brightBorder(pixels, input), Shape: input}
		for _, v := range pixels[:input[1]*input[2]] {
			p.Image = append(p.Image, uint8(v*255))
		}
		err = locus.Try(func() {
			locus.Scoped(func(s *locus.Scope) {
				x := s.Adopt(d.From(pixels, append([]int{1}, input...)...))
				locus.NoGrad(func() {
					p.Top = best(locus.ToSlice[float32](net.Forward(x).Softmax(1)), classes, top)
				})
			})
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		list = append(list, p)
	}
	return list, nil
}

func best(p []float32, classes []string, n int) []Guess {
	var all []Guess
	for i, v := range p {
		all = append(all, Guess{classes[i], float64(v)})
	}
	sort.SliceStable(all, func(i, j int) bool { return all[i].Probability > all[j].Probability })
	return all[:min(n, len(all))]
}

// read returns a picture as numbers from 0 to 1, channel by channel, in the size
// that the network knows.
func read(file string, input []int, invert bool) ([]float32, error) {
	f, err := disk.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, _, err := image.DecodeConfig(f)
	if err != nil {
		return nil, fmt.Errorf("%s: not a PNG, JPEG or GIF picture: %w", file, err)
	}
	if size.Width < 1 || size.Height < 1 || size.Width > maxPixels/size.Height {
		return nil, fmt.Errorf("%s: %d×%d pixels; at least one and at most %d are read", file, size.Width, size.Height, maxPixels)
	}
	if _, err := f.Seek(0, 0); err != nil {
		return nil, err
	}
	picture, _, err := image.Decode(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	c, h, w := input[0], input[1], input[2]
	small := image.NewRGBA(image.Rect(0, 0, w, h))
	draw.CatmullRom.Scale(small, small.Bounds(), picture, picture.Bounds(), draw.Src, nil)
	out := make([]float32, c*h*w)
	for y := range h {
		for x := range w {
			p := small.RGBAAt(x, y)
			values := []uint8{p.R, p.G, p.B}
			if c == 1 {
				values = []uint8{color.GrayModel.Convert(p).(color.Gray).Y}
			}
			for i := range c {
				v := float32(values[min(i, len(values)-1)]) / 255
				if invert {
					v = 1 - v
				}
				out[(i*h+y)*w+x] = v
			}
		}
	}
	return out, nil
}

// brightBorder reports whether a picture is light around its edge. The data that
// the command knows has a dark ground.
func brightBorder(pixels []float32, input []int) bool {
	h, w := input[1], input[2]
	var sum float32
	n := 0
	for y := range h {
		for x := range w {
			if y == 0 || x == 0 || y == h-1 || x == w-1 {
				sum += pixels[y*w+x]
				n++
			}
		}
	}
	return sum > 0.5*float32(n)
}
