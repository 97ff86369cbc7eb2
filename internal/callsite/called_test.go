package callsite

import "testing"

func TestExported(t *testing.T) {
	const p = "github.com/locusml/locus."
	for function, want := range map[string]string{
		p + "Zeros": "Zeros", p + "(*Tensor).Sum": "Sum", p + "Device.Zeros": "Zeros", p + "Maker.From": "From", p + "(*Scope).Close": "Scope.Close",
		p + "apply": "", p + "(*Tensor).reduce": "", p + "ValueAndGrad.func1": "ValueAndGrad", p + "(*Tensor).Sum-fm": "Sum", p + "init.0.func1": "",
		p + "ToSlice[...]": "ToSlice", p + "ToSlice[...].func1": "ToSlice", p + "Key.Split": "Key.Split", "main.main.ValueAndGrad.func1": "ValueAndGrad",
		p + "NoGrad.func2.1": "NoGrad", p + "(*Tensor).normP.func1": "",
	} {
		if got := exported(function); got != want {
			t.Errorf("%s: %q, want %q", function, got, want)
		}
	}
}
