package export_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/locusml/locus"
	"github.com/locusml/locus/export"
	"github.com/locusml/locus/internal/op"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/weights"
)

// written returns the file of a small network that has most kinds of step.
func written(t testing.TB) []byte {
	key := locus.NewKey(1)
	net := nn.Reseed(nn.Sequential(nn.Conv2D(1, 2, 3, locus.ConvOptions{}), nn.BatchNorm(2), nn.ReLU(), nn.MaxPool2D(2, locus.PoolOptions{}), nn.Flatten(), nn.LazyLinear(3),
		nn.LayerNorm(3), nn.Func(func(x *locus.Tensor) *locus.Tensor {
			return x.T().Softmax(0).Add(x.Device().From([]float32{1, 2})).Mul(3)
		})), key)
	path := filepath.Join(t.TempDir(), "net.locus")
	if err := export.SaveNet(path, nn.To(net, locus.CPU()), locus.CPU().Ones(2, 1, 6, 6)); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func read(b []byte) (*export.Program, error) {
	return export.Read(bytes.NewReader(b), int64(len(b)))
}

// program makes a file of a program's text and of tensors.
func program(t testing.TB, text string, tensors map[string]*locus.Tensor) []byte {
	var b bytes.Buffer
	if err := weights.Write(&b, tensors, map[string]string{"locus.program": text}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A file that was cut anywhere is an error, and so is one of another kind, of a later
// version, or whose weights are not what the program wants.
func TestDamaged(t *testing.T) {
	good := written(t)
	if _, err := read(good); err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(good); n += 1 + n/64 {
		var e *locus.Error
		if _, err := read(good[:n]); !errors.Is(err, weights.ErrFormat) || !errors.As(err, &e) {
			t.Errorf("cut to %d bytes of %d: %v", n, len(good), err)
		}
	}
	const small = `{"version":1,"args":[],"weights":[{"name":"w","dtype":"float32","shape":[2]}],"steps":[{"op":"neg","in":[0]}],"results":[1]}`
	w := map[string]*locus.Tensor{"w": locus.CPU().Ones(2)}
	if p, err := read(program(t, small, w)); err != nil || p.Call()[0].Sum().Item() != -2 {
		t.Error(err)
	}
	swap := func(old, now string) string { return strings.Replace(small, old, now, 1) }
	for want, b := range map[string][]byte{
		"there is no program in it":    func() []byte { var b bytes.Buffer; weights.Write(&b, w, nil); return b.Bytes() }(),
		"a later one":                  program(t, swap(`"version":1`, `"version":7,"locus":"v9"`), w),
		"written by Locus \"v9\"":      program(t, swap(`"version":1`, `"version":7,"locus":"v9"`), w),
		"no op \"frobnicate\"":         program(t, swap("neg", "frobnicate"), w),
		"no attribute":                 program(t, swap(`"op":"neg"`, `"op":"sum","attrs":{"Frob":1}`), w),
		"\"w\" is missing":             program(t, small, nil),
		"is float32 (3,), but":         program(t, small, map[string]*locus.Tensor{"w": locus.CPU().Ones(3)}),
		"is int64 (2,), but":           program(t, small, map[string]*locus.Tensor{"w": locus.CPU().From([]int64{1, 2})}),
		"comes twice":                  program(t, swap(`"weights":[`, `"weights":[{"name":"w","dtype":"float32","shape":[2]},`), w),
		"unexpected end of JSON input": program(t, small[:40], w),
	} {
		_, err := read(b)
		var e *locus.Error
		if !errors.As(err, &e) || !errors.Is(err, weights.ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if _, err := export.Read(nil, 3); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
	if err := export.Write(nil, locus.Compile(func(...*locus.Tensor) []*locus.Tensor { return nil })); !errors.Is(err, locus.ErrArgument) {
		t.Error(err)
	}
}

// A program that asks for more memory than there is fails when it is called, as an op
// would.
func TestGreedy(t *testing.T) {
	p, err := read(program(t, `{"version":1,"steps":[{"op":"full","attrs":{"DType":"float32","Shape":[68719476736,65536]}}],"results":[0]}`, nil))
	if err != nil {
		t.Fatal(err)
	}
	if p.Temporary() != 4*68719476736*65536 {
		t.Error(p.Temporary())
	}
	if err := locus.Try(func() { p.Call() }); !errors.Is(err, locus.ErrOutOfMemory) {
		t.Error(err)
	}
}

// run calls a program from anywhere, if it is small, and expects no more than an Error.
func run(t *testing.T, p *export.Program) {
	_ = p.String()
	s := p.Signature()
	bytes := p.Temporary()
	for _, a := range s.Args {
		n := 1.0
		for _, d := range a.Shape {
			n *= float64(d)
		}
		bytes += n * 8
	}
	if bytes > 1<<18 || len(s.Args) > 100 {
		return
	}
	var args []*locus.Tensor
	for _, a := range s.Args {
		args = append(args, locus.CPU().Ones(a.Shape...).Cast(a.DType))
	}
	for range 3 {
		if err := locus.Try(func() {
			for i, y := range p.On(locus.CPU()).Call(args...) {
				if got := weights.SpecOf(y).String(); got != s.Results[i].String() {
					t.Errorf("result %d is %s, not %s", i, got, s.Results[i])
				}
				y.Contiguous()
			}
		}); err != nil {
			return
		}
	}
}

// FuzzRead looks for files that crash the reader, or a program from them.
func FuzzRead(f *testing.F) {
	f.Add(written(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := read(b); err == nil {
			run(t, p)
		}
	})
}

// seeds are texts of programs with an argument and two weights.
func seeds(t testing.TB) []string {
	const begin = `{"version":1,"args":[{"dtype":"f32","shape":[2,3,4,4]}],"weights":[{"name":"w","dtype":"float32","shape":[2,3]},{"name":"i","dtype":"int64","shape":[2]}],"steps":[`
	var list []string
	for _, s := range []string{
		`{"op":"sum","attrs":{"Axes":5},"in":[0]},{"op":"argmax","attrs":{"Axis":1},"in":[1]},{"op":"take","attrs":{"Axis":1},"in":[1,2]},{"op":"cumsum","attrs":{"Axis":1,"Reverse":true},"in":[1]}],"results":[3,4,5,6]}`,
		`{"op":"attention","attrs":{"Scale":0.5,"Causal":true},"in":[0,0,0]},{"op":"pad","attrs":{"Low":[1,0],"High":[0,2],"Interior":[1,1],"Value":"-Inf"},"in":[1]}],"results":[3,4]}`,
		`{"op":"conv2d","attrs":{"Stride":[1,2],"Pad":[1,1],"Dilation":[1,1],"Groups":1},"in":[0,{"value":0,"shape":[2,3,2,2],"strides":[48,16,1,4],"offset":5}]},{"op":"max_pool","attrs":{"Kernel":[2,2],"Stride":[2,1],"Dilation":[1,1],"CeilMode":true},"in":[0]},{"op":"avg_pool","attrs":{"Kernel":[2,3],"Stride":[2,1],"Pad":[1,1],"Dilation":[1,1],"CountPad":true},"in":[0]}],"results":[3,4,5]}`,
		`{"op":"normalize","attrs":{"From":1,"Params":[1,2],"Eps":1e-5,"Weight":true},"saves":true,"in":[1,{"value":1,"shape":[3],"strides":[1]}]},{"op":"batch_norm","attrs":{"Eps":0.1},"in":[0]}],"results":[3,4,5,6,7]}`,
		`{"op":"batch_norm","attrs":{"Eps":0.1,"Running":true,"Momentum":0.1},"in":[0,{"value":1,"shape":[3]},{"value":1,"shape":[3],"offset":3}]}],"results":[3,7]}`,
		`{"op":"recurrent","attrs":{"Cell":"lstm"},"saves":true,"in":[{"value":0,"shape":[2,3,4]},{"value":0,"shape":[3,2]},{"value":0,"shape":[3,2]},{"value":0,"shape":[8,4]},{"value":0,"shape":[8,2]}]}],"results":[3]}`,
		`{"op":"update_all","attrs":{"Rule":"adam","Momentum":0.9,"First":true},"in":[1,1]},{"op":"scatter_add","attrs":{"Axis":0},"in":[1,{"value":2,"shape":[2,1]},{"value":1,"shape":[2,1],"strides":[3,1]}]},{"op":"where","in":[{"dtype":"bool","bits":"1"},1,{"dtype":"float32","bits":"0"}]}],"results":[3,{"value":4,"shape":[0,3]},5]}`,
		`{"op":"matmul","in":[{"value":1,"shape":[3,2],"strides":[-1,3],"offset":2},1]},{"op":"linear","attrs":{"Act":"gelu"},"in":[1,1]},{"op":"concat","attrs":{"Axis":1},"in":[1,{"dtype":"float32","shape":[2,0]},1]},{"op":"argsort","attrs":{"Axis":1},"in":[1]}],"results":[3,4,5,6]}`,
	} {
		list = append(list, begin+s)
	}
	return list
}

// seeded is the file of a text with the weights of the seeds. It makes little of it, since
// fuzzers make many.
func seeded(text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	header := fmt.Sprintf(`{"__metadata__":{"locus.program":%s},"i":{"dtype":"I64","shape":[2],"data_offsets":[0,16]},"w":{"dtype":"F32","shape":[2,3],"data_offsets":[16,40]}}`, quoted)
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	b = append(b, header...)
	b = binary.LittleEndian.AppendUint64(b, 0)
	b = binary.LittleEndian.AppendUint64(b, 1)
	for range 6 {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(1))
	}
	return b
}

// The seeds are programs that run: else the fuzzer would begin nowhere.
func TestSeeds(t *testing.T) {
	for _, text := range seeds(t) {
		p, err := read(seeded(text))
		if err != nil {
			t.Errorf("%v\n%s", err, text)
			continue
		}
		if err := locus.Try(func() { p.On(locus.CPU()).Call(locus.CPU().Ones(2, 3, 4, 4)) }); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
		run(t, p)
	}
}

// FuzzProgram is FuzzRead without the outer format, which package weights fuzzes.
func FuzzProgram(f *testing.F) {
	for _, text := range seeds(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := read(seeded(text)); err == nil {
			run(t, p)
		}
	})
}

// tokens are the numbers and names in a program's text.
var tokens = regexp.MustCompile(`-?\d+(\.\d+)?|"[a-z0-9_]+"|true|false`)

// others are what a token is replaced by.
var others = []string{"0", "1", "-1", "2", "3", "4", "5", "7", "16", "33", "1000", "16777216", "68719476736", "4611686018427387904", "-9223372036854775808", "1e308", "true", "null", `"int64"`, `"bool"`, `"bfloat16"`, `"invalid"`, `"Rule(7)"`, `"Cell(9)"`, `"op(0)"`, "[]", "{}"}

// edit replaces a token of a text.
func edit(text string, at int, by string) string {
	all := tokens.FindAllStringIndex(text, -1)
	i := all[at%len(all)]
	return text[:i[0]] + by + text[i[1]:]
}

// Whatever one number, name or flag of a program is replaced by, and whichever op another
// one becomes, it is refused or it runs.
func TestEdited(t *testing.T) {
	ran := 0
	try := func(text string) {
		defer func() {
			if r := recover(); r != nil {
				t.Errorf("%v\n%s", r, text)
			}
		}()
		if p, err := read(seeded(text)); err == nil {
			ran++
			run(t, p)
		}
	}
	var names []string
	for _, d := range op.All() {
		names = append(names, `"`+d.Name+`"`)
	}
	for _, text := range seeds(t) {
		for i, at := range tokens.FindAllStringIndex(text, -1) {
			for _, by := range others {
				try(edit(text, i, by))
			}
			if strings.HasSuffix(text[:at[0]], `"op":`) {
				for _, by := range names {
					try(edit(text, i, by))
				}
			}
		}
	}
	if ran < 500 {
		t.Errorf("only %d programs were accepted", ran)
	}
	t.Logf("%d programs were accepted", ran)
}

// FuzzEdited looks for several edits that together are not refused and do not run.
func FuzzEdited(f *testing.F) {
	all := seeds(f)
	var names []string
	for _, d := range op.All() {
		names = append(names, `"`+d.Name+`"`)
	}
	f.Add([]byte{0, 1, 2, 3})
	f.Add([]byte{3, 20, 5, 1, 30, 9, 0, 12, 3})
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 4 || len(b) > 40 {
			return
		}
		text := all[int(b[0])%len(all)]
		for b = b[1:]; len(b) >= 3; b = b[3:] {
			list := others
			if b[1]&1 == 1 {
				list = names
			}
			text = edit(text, int(b[0]), list[int(b[2])%len(list)])
		}
		if p, err := read(seeded(text)); err == nil {
			run(t, p)
		}
	})
}
