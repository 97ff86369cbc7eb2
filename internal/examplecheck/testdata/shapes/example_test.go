package shapes_test

import (
	"fmt"

	s "github.com/locusml/locus/internal/examplecheck/testdata/shapes"
)

func ExampleBox() {
	o := s.Options{Width: 2}
	o.Height = 3
	fmt.Println(s.Box(o).Area)
	// Output: 6
}

func ExampleAt() {
	for _, p := range []s.Place{{X: 1}, {X: 2}} {
		fmt.Println(s.At(p))
	}
	var p s.Place
	p.Y = 4
	fmt.Println(s.At(p))
	// Output:
	// 1
	// 2
	// 4
}

func ExampleBlank() {
	s.Blank()
	// Output:
}

func ExampleLine() {
	fmt.Println(s.Line())
}

func Dot() int { return s.Dot() } // no example
