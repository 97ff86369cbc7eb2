package board

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"
	"strconv"
	"sync"

	xfont "golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gomedium"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"

	"github.com/locusml/locus/internal/gate"
)

// Limits of an image, which unlike an SVG document takes memory for its area.
const (
	pngScale     = 2          // pixels to a unit: sharp on fine screens and in print
	maxPixels    = 16_000_000 // with more panels there are fewer to a unit
	maxPNGPanels = 500        // at which letters can just be read
	noteHeight   = 40.0       // of what stands below if there are more
)

// WritePNG writes the curves as a PNG image, up to six panels two in a row; more are smaller, three in a row, and more
// than some seventy less sharp. It shows the first 500 and says so if there are more: [Board.WriteSVG] and the web page have
// them all. Its letters are those of the Go fonts, which know Latin, Greek and Cyrillic; for others use [Board.WriteSVG].
func (b *Board) WritePNG(w io.Writer) error {
	gate.Receiver("board.Board.WritePNG", b != nil, "use new(board.Board)")
	if err := gate.Given("the writer", w); err != nil {
		return fmt.Errorf("board: %w", err)
	}
	img := drawImage(b.figure())
	var e png.Encoder
	if img.Rect.Dx()*img.Rect.Dy() > maxPixels/2 {
		e.CompressionLevel = png.BestSpeed
	}
	return e.Encode(w, img)
}

func drawImage(f figure) *image.RGBA {
	rest := max(0, len(f.panels)-maxPNGPanels)
	f.panels = f.panels[:len(f.panels)-rest]
	width, height := f.layout().size()
	full := height
	if rest > 0 {
		full += noteHeight
	}
	// In steps, so that there are few sizes of letters to keep.
	scale := min(pngScale, math.Floor(16*math.Sqrt(maxPixels/(width*full)))/16)
	c := &pngCanvas{scale: scale, img: image.NewRGBA(image.Rect(0, 0, int(width*scale), int(full*scale)))}
	f.draw(c)
	if rest > 0 {
		c.rect(0, height, width, noteHeight, paper)
		c.text(xy{width / 2, height + noteHeight/2}, fmt.Sprintf("and %d more panels: see the SVG file or the web page", rest), font{size: labelSize}, middle, ink)
	}
	return c.img
}

type pngCanvas struct {
	scale  float64 // pixels to a unit
	img    *image.RGBA
	raster vector.Rasterizer
	origin image.Point // of the raster in the picture
}

// parseColor reads #rrggbb.
func parseColor(s string) *image.Uniform {
	v, err := strconv.ParseUint(s[1:], 16, 32)
	if err != nil {
		panic(err) // all colors are constants of this package
	}
	return image.NewUniform(color.RGBA{uint8(v >> 16), uint8(v >> 8), uint8(v), 255})
}

// grain is a pixel.
func (c *pngCanvas) grain() float64 { return 1 / c.scale }

func (c *pngCanvas) rect(x, y, w, h float64, color string) {
	px := func(v float64) int { return int(math.Round(v * c.scale)) }
	draw.Draw(c.img, image.Rect(px(x), px(y), px(x+w), px(y+h)), parseColor(color), image.Point{}, draw.Over)
}

// line fills the outline of each segment and a disc at each joint. All of them turn the same way round, so that where they
// overlap they count once.
func (c *pngCanvas) line(points []xy, color string, width float64, dash []float64) {
	for _, run := range dashed(points, dash) {
		c.begin(run, width)
		for i, p := range run {
			if i > 0 {
				c.segment(run[i-1], p, width/2)
			}
			c.disc(p, width/2)
		}
		c.fill(color)
	}
}

func (c *pngCanvas) dot(at xy, radius float64, color string) {
	c.begin([]xy{at}, 2*radius)
	c.disc(at, radius)
	c.fill(color)
}

// begin makes a raster that covers only what the shape needs.
func (c *pngCanvas) begin(points []xy, width float64) {
	b := box{points[0].x, points[0].y, points[0].x, points[0].y}
	for _, p := range points {
		b = box{min(b.x0, p.x), min(b.y0, p.y), max(b.x1, p.x), max(b.y1, p.y)}
	}
	r := image.Rect(
		int(math.Floor((b.x0-width)*c.scale)), int(math.Floor((b.y0-width)*c.scale)),
		int(math.Ceil((b.x1+width)*c.scale)), int(math.Ceil((b.y1+width)*c.scale))).Intersect(c.img.Bounds())
	c.raster.Reset(r.Dx(), r.Dy())
	c.origin = r.Min
}

func (c *pngCanvas) fill(color string) {
	r := c.raster.Bounds().Add(c.origin)
	c.raster.Draw(c.img, r, parseColor(color), image.Point{})
}

func (c *pngCanvas) to(p xy, first bool) {
	x, y := float32(p.x*c.scale)-float32(c.origin.X), float32(p.y*c.scale)-float32(c.origin.Y)
	if first {
		c.raster.MoveTo(x, y)
	} else {
		c.raster.LineTo(x, y)
	}
}

func (c *pngCanvas) segment(p, q xy, half float64) {
	length := math.Hypot(q.x-p.x, q.y-p.y)
	if length == 0 {
		return
	}
	n := xy{-(q.y - p.y) / length * half, (q.x - p.x) / length * half}
	c.to(xy{p.x + n.x, p.y + n.y}, true)
	c.to(xy{q.x + n.x, q.y + n.y}, false)
	c.to(xy{q.x - n.x, q.y - n.y}, false)
	c.to(xy{p.x - n.x, p.y - n.y}, false)
	c.raster.ClosePath()
}

// circle is a circle of radius 1, turning as the outlines of segments do.
var circle = func() (points [16]xy) {
	for i := range points {
		sin, cos := math.Sincos(-2 * math.Pi * float64(i) / float64(len(points)))
		points[i] = xy{cos, sin}
	}
	return points
}()

func (c *pngCanvas) disc(p xy, radius float64) {
	step := 1
	if radius*c.scale < 1.5 {
		step = 2 // nobody sees the corners of a disc of two pixels
	}
	for i := 0; i < len(circle); i += step {
		c.to(xy{p.x + radius*circle[i].x, p.y + radius*circle[i].y}, i == 0)
	}
	c.raster.ClosePath()
}

// dashed cuts a line into dashes; the pattern is lengths on and off in turn.
func dashed(points []xy, pattern []float64) [][]xy {
	if len(pattern) == 0 || len(points) < 2 {
		return [][]xy{points}
	}
	var runs [][]xy
	run := []xy{points[0]}
	k, left := 0, pattern[0]
	for i := 1; i < len(points); i++ {
		p, q := points[i-1], points[i]
		length := math.Hypot(q.x-p.x, q.y-p.y)
		for done := 0.0; done < length; {
			take := min(left, length-done)
			done += take
			left -= take
			at := xy{p.x + (q.x-p.x)*done/length, p.y + (q.y-p.y)*done/length}
			run = append(run, at)
			if left <= 0 {
				if k%2 == 0 {
					runs = append(runs, run)
				}
				k++
				left, run = pattern[k%len(pattern)], []xy{at}
			}
		}
	}
	if k%2 == 0 && len(run) > 1 {
		runs = append(runs, run)
	}
	return runs
}

func (c *pngCanvas) text(at xy, s string, f font, a anchor, color string) {
	face := faceOf(font{size: f.size * c.scale, bold: f.bold})
	defer face.mu.Unlock()
	face.mu.Lock()
	width := float64(xfont.MeasureString(face.face, s)) / 64
	shift := map[anchor]float64{start: 0, middle: width / 2, end: width}[a]
	at = xy{at.x * c.scale, at.y * c.scale}
	d := xfont.Drawer{Dst: c.img, Src: parseColor(color), Face: face.face}
	if !f.upright {
		d.Dot = fixed.Point26_6{X: fixed.Int26_6((at.x - shift) * 64), Y: fixed.Int26_6(at.y * 64)}
		d.DrawString(s)
		return
	}
	// Write it flat on a strip of its own, then turn that by a quarter to the left.
	m := face.face.Metrics()
	strip := image.NewRGBA(image.Rect(0, 0, int(width)+2, m.Height.Ceil()+2))
	d.Dst, d.Dot = strip, fixed.Point26_6{Y: m.Ascent}
	d.DrawString(s)
	turned := image.NewRGBA(image.Rect(0, 0, strip.Bounds().Dy(), strip.Bounds().Dx()))
	for y := range strip.Bounds().Dy() {
		for x := range strip.Bounds().Dx() {
			turned.SetRGBA(y, strip.Bounds().Dx()-1-x, strip.RGBAAt(x, y))
		}
	}
	corner := image.Pt(int(at.x)-m.Ascent.Ceil(), int(at.y+shift)-turned.Bounds().Dy())
	draw.Draw(c.img, turned.Bounds().Add(corner), turned, image.Point{}, draw.Over)
}

// lockedFace guards a face, which keeps buffers and so serves one goroutine at a time.
type lockedFace struct {
	mu   sync.Mutex
	face xfont.Face
}

var faces sync.Map // from font to *lockedFace

func faceOf(f font) *lockedFace {
	f.upright = false
	if l, ok := faces.Load(f); ok {
		return l.(*lockedFace)
	}
	data := goregular.TTF
	if f.bold {
		data = gomedium.TTF
	}
	parsed, err := opentype.Parse(data)
	if err != nil {
		panic(err) // the fonts are part of the program
	}
	face, err := opentype.NewFace(parsed, &opentype.FaceOptions{Size: f.size, DPI: 72, Hinting: xfont.HintingNone})
	if err != nil {
		panic(err)
	}
	l, _ := faces.LoadOrStore(f, &lockedFace{face: face})
	return l.(*lockedFace)
}

// textWidth measures with the PNG's font. The fonts of SVG viewers are as wide or a little narrower.
func textWidth(s string, f font) float64 {
	l := faceOf(f)
	l.mu.Lock()
	defer l.mu.Unlock()
	return float64(xfont.MeasureString(l.face, s)) / 64
}
