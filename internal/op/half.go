package op

// Half says what an op does with operands of half precision beyond the rule, which is
// that kernels compute in float32, sums included, and round each result once. The
// conformance suite holds every backend to it, and docs/precision.md lists it.
type Half struct {
	// Float32 says which results are float32 although the operands are not; "" if none
	// is.
	Float32 string
	// Rounds says what a kernel may round to the operands' type before the result; ""
	// if nothing.
	Rounds string
}

// halfRules are the exceptions from the rule.
var halfRules = map[ID]Half{
	CTC:           {Float32: "the loss of each sequence, and what its gradient needs"},
	CrossEntropy:  {Float32: "the loss of each row, and what its gradient needs"},
	Normalized:    {Float32: "the mean and 1/deviation, which its gradient needs"},
	BatchNorm:     {Float32: "the mean, the variance and 1/deviation, of which the running statistics are made"},
	Attend:        {Float32: "the logarithm of each row's sum, which its gradient needs", Rounds: "the weights, before the product with the values"},
	AttendGrad:    {Rounds: "the weights and the gradient of the scores, before the last products"},
	GlobalNorm:    {Float32: "the norm"},
	Linear:        {Rounds: "the product before the bias, and the sum before the activation"},
	ConvAct:       {Rounds: "the convolution before the bias, and the sum before the activation"},
	Recurrent:     {Rounds: "the state after each step, as the next step reads it, and the gates"},
	RecurrentGrad: {Rounds: "the gradient of the state and of the gates after each step"},
	ScatterAdd:    {Rounds: "the sum after each addition"},
	IndexAdd:      {Rounds: "the sum after each addition"},
	UpdateAll:     {Rounds: "what is remembered, before the parameter is computed from it"},
}
