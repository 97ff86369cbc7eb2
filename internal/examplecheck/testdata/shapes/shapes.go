// Package shapes has an interface of which examples show a part.
package shapes

type Options struct {
	Width, Height int
	Depth         int
	Color         string
	hidden        int
}

type Place struct{ X, Y, Z int }

type Result struct{ Area int } // nothing takes it: no option

func Box(o Options) Result { return Result{o.Width * o.Height} }

func At(p Place) int { return p.X + p.Y }

func Line() int { return 1 }

func Dot() int { return 0 }

func Ring() int { return 2 }

func Blank() int { return 3 }

func (r Result) Method() {}

func unexported() {}
