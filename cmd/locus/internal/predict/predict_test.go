package predict

import (
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/cmd/locus/internal/model"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
)

// corner is a network that sees where the light is: one class a quarter.
func corner(t *testing.T) nn.Module {
	t.Helper()
	return nn.Func(func(x *locus.Tensor) *locus.Tensor {
		return locus.AdaptiveAvgPool2D(x, 2).FlattenFrom(1).Mul(20)
	})
}

func picture(t *testing.T, bright int, ground uint8) string {
	t.Helper()
	m := image.NewGray(image.Rect(0, 0, 40, 40))
	for y := range 40 {
		for x := range 40 {
			v := ground
			if x/20 == bright%2 && y/20 == bright/2 && x%20 > 3 && y%20 > 3 && x%20 < 17 && y%20 < 17 {
				v = 255 - ground
			}
			m.SetGray(x, y, color.Gray{Y: v})
		}
	}
	path := filepath.Join(t.TempDir(), "p.png")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := png.Encode(f, m); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestImages(t *testing.T) {
	classes := []string{"top left", "top right", "bottom left", "bottom right"}
	for _, input := range [][]int{{1, 8, 8}, {1, 28, 28}} {
		for want := range 4 {
			for _, ground := range []uint8{0, 255} {
				p, err := Images(corner(t), locus.CPU(), input, classes, []string{picture(t, want, ground)}, ground == 255, 2)
				if err != nil {
					t.Fatal(err)
				}
				if p[0].Top[0].Class != classes[want] || len(p[0].Top) != 2 || p[0].Light {
					t.Errorf("%v, ground %d: %+v", input, ground, p[0])
				}
			}
		}
	}
	p, err := Images(corner(t), locus.CPU(), []int{1, 8, 8}, classes, []string{picture(t, 0, 255)}, false, 9)
	if err != nil || !p[0].Light || len(p[0].Top) != 4 {
		t.Errorf("a light ground is not noticed: %v %+v", err, p)
	}
}

func TestImageErrors(t *testing.T) {
	text := filepath.Join(t.TempDir(), "p.png")
	if err := os.WriteFile(text, []byte("hello"), 0o666); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{text: "not a PNG", filepath.Join(t.TempDir(), "none.png"): "none.png"} {
		if _, err := Images(corner(t), locus.CPU(), []int{1, 8, 8}, []string{"a", "b", "c", "d"}, []string{path}, false, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v", err)
		}
	}
}

func TestTestSet(t *testing.T) {
	gpu := locus.AddVirtualGPUs(1, 64<<20)[0]
	set, err := model.OpenData("digits", model.Options{Source: data.Source{}})
	if err != nil {
		t.Fatal(err)
	}
	// Whatever it sees, it says 3.
	three := nn.Func(func(x *locus.Tensor) *locus.Tensor {
		return x.FlattenFrom(1).Narrow(1, 0, 10).Mul(0).Add(x.Device().From([]float32{0, 0, 0, 50, 0, 0, 0, 0, 0, 0}))
	})
	r, err := TestSet(t.Context(), three, gpu, set.Test, 77)
	if err != nil {
		t.Fatal(err)
	}
	if r.Examples != 360 || r.Right != r.Classes[3].Right || r.Classes[3].Right != r.Classes[3].Examples || r.Classes[5].TakenFor != "3" || r.Classes[5].Times != r.Classes[5].Examples {
		t.Errorf("%+v", r)
	}
	if want := 50 * (1 - r.Accuracy); r.Loss < want-0.1 || r.Loss > want+0.1 {
		t.Errorf("loss %v, want %v", r.Loss, want)
	}
}
