package main

import (
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// shapes are functions that tell whether a point, with both coordinates from -1 to
// 1, is inside.
var shapes = map[string]func(x, y float64) bool{
	"circle":   func(x, y float64) bool { return x*x+y*y < 1 },
	"cross":    func(x, y float64) bool { return math.Min(math.Abs(x), math.Abs(y)) < 0.35 },
	"ring":     func(x, y float64) bool { r := x*x + y*y; return r < 1 && r > 0.3 },
	"square":   func(x, y float64) bool { return math.Max(math.Abs(x), math.Abs(y)) < 0.9 },
	"triangle": func(x, y float64) bool { return y < 0.9 && math.Abs(x) < (y+1)/1.9 },
}

// drawShapes fills a folder with pictures, those of each shape in a folder of its
// own: in any colors, sizes, places and turns, with noise.
func drawShapes(folder string, each int) error {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		if err := os.MkdirAll(filepath.Join(folder, name), 0o777); err != nil {
			return err
		}
		for i := range each {
			if err := drawShape(filepath.Join(folder, name, fmt.Sprintf("%03d.png", i)), shapes[name], rng); err != nil {
				return err
			}
		}
	}
	return nil
}

func drawShape(path string, inside func(x, y float64) bool, rng *rand.Rand) error {
	const side = 32
	img := image.NewRGBA(image.Rect(0, 0, side, side))
	sin, cos := math.Sincos((rng.Float64() - 0.5) * 0.8)
	radius := 7 + 6*rng.Float64()
	cx, cy := side/2+(rng.Float64()-0.5)*6, side/2+(rng.Float64()-0.5)*6
	var front, back [3]float64
	for c := range front {
		back[c] = 255 * rng.Float64()
		front[c] = math.Mod(back[c]+90+75*rng.Float64(), 256)
	}
	for y := range side {
		for x := range side {
			dx, dy := (float64(x)-cx)/radius, (float64(y)-cy)/radius
			shade := back
			if u, v := cos*dx+sin*dy, cos*dy-sin*dx; math.Max(math.Abs(u), math.Abs(v)) < 1 && inside(u, v) {
				shade = front
			}
			var p [3]uint8
			for c := range p {
				p[c] = uint8(math.Min(255, math.Max(0, shade[c]+20*rng.NormFloat64())))
			}
			img.SetRGBA(x, y, color.RGBA{p[0], p[1], p[2], 255})
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := png.Encode(f, img); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
