package op

// The primitives. The files of this package named for the families define them.
const (
	Invalid ID = iota

	// Views: view.go.
	Reshape
	Permutation
	Sliced
	Expand
	DiagonalView

	// Creation: create.go.
	Full
	Arange
	RandUniform
	RandNormal
	RandInt
	RandBits

	// Unary: unary.go.
	Copy
	CastTo
	Neg
	Abs
	Sign
	Square
	Sqrt
	Rsqrt
	Reciprocal
	Exp
	Exp2
	Expm1
	Log
	Log2
	Log10
	Log1p
	Sin
	Cos
	Tan
	Asin
	Acos
	Atan
	Sinh
	Cosh
	Tanh
	Asinh
	Acosh
	Atanh
	Sigmoid
	Softplus
	Relu
	Gelu
	GeluTanh
	Silu
	Relu6
	HardSigmoid
	HardSwish
	Mish
	Erf
	Erfc
	Floor
	Ceil
	Round
	Trunc
	Not
	IsNaN
	IsInf
	IsFinite

	// Binary and compare: binary.go.
	Add
	Sub
	Mul
	Div
	Pow
	Maximum
	Minimum
	FloorDiv
	Mod
	Fmod
	LogAddExp
	Atan2
	And
	Or
	Xor
	ReluGrad
	SigmoidGrad
	TanhGrad
	GeluGrad
	GeluTanhGrad
	SiluGrad
	Relu6Grad
	HardSigmoidGrad
	HardSwishGrad
	MishGrad
	LeakyRelu
	LeakySlope
	Equal
	NotEqual
	Less
	LessEqual
	Greater
	GreaterEqual
	Where

	// Reductions: reduce.go.
	Sum
	Prod
	Max
	Min
	LogSumExp
	Norm
	ArgMax
	ArgMin

	// Matrix product: matmul.go.
	MatMul

	// Indexing: index.go.
	Gather
	Take
	ScatterAdd
	Scatter
	IndexAdd
	Concat
	Padded
	CumSum
	CumMax
	CumMin
	ArgSort

	// Convolution and pooling: conv.go, pool.go.
	Conv2D
	ConvGradInput
	ConvGradWeight
	MaxPoolIndices
	MaxPool
	MaxPoolGrad
	AvgPool
	AvgPoolGrad

	// Fused: fused.go.
	Softmax
	SoftmaxGrad
	LogSoftmax
	LogSoftmaxGrad
	CrossEntropy // classes.go
	CrossEntropyGrad
	Normalized // norm.go
	NormalizeGrad
	BatchNorm
	BatchNormGrad
	Attend
	AttendGrad
	Linear    // linear.go
	ConvAct   // conv.go
	Recurrent // recurrent.go
	RecurrentGrad

	// Sampling at given places: grid.go.
	GridSample
	GridSampleGradInput
	GridSampleGradGrid

	// The loss of unaligned sequences: ctc.go.
	CTC
	CTCGrad

	// What optimizers do to every parameter, in one pass: optimize.go.
	Blend
	BlendSquare
	AdamStep

	// What is done to all parameters, or all gradients, in one call: lists.go.
	UpdateAll
	GlobalNorm
	ScaleAll
	CastAll

	// Linear algebra: linalg.go.
	Cholesky
	Solve
	SolveTriangular
	Det
	Cofactor
	SlogDet
	QR
	SVD
	Eigh

	// Fourier transforms: fourier.go.
	FFT
	RFFT
	IRFFT

	// FusedOps computes an Expression, which passes over programs make of other ops. It is
	// not in the table, since nothing else calls it; nor are the ops behind it.
	FusedOps
	AddNormalize // normsum.go
	NormalizeGradAdd
	BiasActivate // biasact.go
	ActivationGradSum

	// Begin and Await are steps of programs that the device does not run, such as a
	// collective: one starts it, and the other waits until its result is there. They are
	// not in the table either.
	Begin
	Await

	NumOps
)
