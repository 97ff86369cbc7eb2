package locus_test

import (
	"fmt"

	"github.com/locusml/locus"
)

func ExampleTensor_Solve() {
	a := locus.From([]float64{2, 1, 1, 3}).Reshape(2, 2)
	fmt.Println(a.Solve(locus.From([]float64{3, 5})))
	// Output:
	// [0.8000 1.4000] float64 (2,) on cpu
}

func ExampleTensor_SolveTriangular() {
	l := locus.From([]float64{2, 0, 1, 4}).Reshape(2, 2)
	fmt.Println(l.SolveTriangular(locus.From([]float64{3, 9}), locus.TriangularOptions{}))
	// Output:
	// [1.5000 1.8750] float64 (2,) on cpu
}

func ExampleTensor_Cholesky() {
	a := locus.From([]float64{4, 2, 2, 7}).Reshape(2, 2)
	fmt.Println(a.Cholesky())
	// Output:
	// [[2.0000 0.0000]
	//  [1.0000 2.4495]] float64 (2, 2) on cpu
}

func ExampleTensor_QR() {
	q, r := locus.From([]float64{3, 1, 4, 2}).Reshape(2, 2).QR()
	fmt.Println(q)
	fmt.Println(r)
	// Output:
	// [[ 0.6000 -0.8000]
	//  [ 0.8000  0.6000]] float64 (2, 2) on cpu
	// [[5.0000 2.2000]
	//  [0.0000 0.4000]] float64 (2, 2) on cpu
}

func ExampleTensor_SVD() {
	u, s, vt := locus.From([]float64{3.5, 0, 0, 2.5, 0, 0}).Reshape(3, 2).SVD()
	fmt.Println(u.Shape(), s, vt.Shape())
	// Output:
	// [3 2] [3.5000 2.5000] float64 (2,) on cpu [2 2]
}

func ExampleTensor_Eigh() {
	values, vectors := locus.From([]float64{2, 1, 1, 2.5}).Reshape(2, 2).Eigh()
	fmt.Println(values)
	fmt.Println(vectors)
	// Output:
	// [1.2192 3.2808] float64 (2,) on cpu
	// [[ 0.7882  0.6154]
	//  [-0.6154  0.7882]] float64 (2, 2) on cpu
}

func ExampleTensor_SlogDet() {
	sign, log := locus.Eye(3).Mul(-1).SlogDet()
	fmt.Println(sign.Item(), log.Item())
	// Output:
	// -1 0
}

func ExampleTensor_RFFT() {
	x := locus.From([]float64{1, 0.5, -1, 0.25})
	fmt.Println(x.RFFT(locus.FFTOptions{}))
	// Output:
	// [[ 0.7500  0.0000]
	//  [ 2.0000 -0.2500]
	//  [-0.7500  0.0000]] float64 (3, 2) on cpu
}

func ExampleTensor_IRFFT() {
	x := locus.From([]float64{1.5, 2.25, 3.5})
	fmt.Println(x.RFFT(locus.FFTOptions{}).IRFFT(locus.FFTOptions{N: 3}))
	// Output:
	// [1.5000 2.2500 3.5000] float64 (3,) on cpu
}
