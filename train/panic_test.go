package train_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/data"
	"github.com/locusml/locus/nn"
	"github.com/locusml/locus/optim"
	"github.com/locusml/locus/train"
)

// User code that misbehaves: whatever it does where, Fit returns an error that says so,
// the process lives, nothing hangs, memory comes back, and the trainer can be used again.
//
// As the first of these cannot be seen from inside a process that dies, the cases run in
// another process, which is started again behind one that was fatal.

// misdeeds are the ways to leave a function that are not its end. The text is what the
// error must say.
var misdeeds = []struct {
	name, text string
	do         func()
}{
	{"error", "an own error", func() { panic(errors.New("an own error")) }},
	{"string", "an own string", func() { panic("an own string") }},
	{"nil pointer", "nil pointer dereference", func() {
		var p *struct{ x int }
		p.x++
	}},
	{"tensor error", "broadcast", func() { locus.Ones(2).Add(locus.Ones(3)) }},
	{"Goexit", "Goexit", runtime.Goexit},
}

// misplaces are where user code runs.
var misplaces = []string{"loss", "metrics", "forward", "training step", "backward", "validation loss", "after step", "after epoch",
	"dataset", "validation dataset", "schedule", "optimizer", "before step", "before epoch", "prepare batch", "prepare model"}

type misdeed struct {
	place   string
	how     int // of misdeeds
	devices int
}

func (m misdeed) name() string {
	return fmt.Sprintf("%s/%s/%d devices", m.place, misdeeds[m.how].name, m.devices)
}

func allMisdeeds() (l []misdeed) {
	for _, devices := range []int{1, 2} {
		for _, place := range misplaces {
			for how := range misdeeds {
				l = append(l, misdeed{place, how, devices})
			}
		}
	}
	return l
}

// elsewhere reports whether the code runs on a goroutine of the trainer's or the
// loader's. Goexit on the caller's own cannot become an error: it ends that goroutine.
func (m misdeed) elsewhere() bool {
	switch m.place {
	case "dataset", "validation dataset":
		return true
	case "loss", "metrics", "forward", "training step", "backward", "prepare batch":
		return m.devices > 1 // it is done on the last device
	}
	return false
}

// saboteur does the deed, once, at its third chance.
type saboteur struct {
	misdeed
	last   locus.Device // where it is done, of several
	armed  atomic.Bool
	chance atomic.Int64
}

func (s *saboteur) at(place string) {
	if s.place != place || !s.armed.Load() {
		return
	}
	third := int64(3)
	if place == "optimizer" || place == "after epoch" || place == "before epoch" || place == "prepare model" || strings.HasPrefix(place, "validation") {
		third = 1
	}
	if s.chance.Add(1) >= third && s.armed.Swap(false) {
		misdeeds[s.how].do()
	}
}

func (s *saboteur) on(place string, x *locus.Tensor) {
	if x.Device() == s.last {
		s.at(place)
	}
}

type sabotagedData struct {
	data.Dataset
	do func()
}

func (d sabotagedData) Batch(at []int, key locus.Key) ([]*locus.Tensor, error) {
	d.do()
	return d.Dataset.Batch(at, key)
}

// sabotagedStep is a model with a training step that misbehaves.
type sabotagedStep struct {
	*train.Supervised
	Do func(x *locus.Tensor) `nn:"-"`
}

func (m *sabotagedStep) TrainingStep(f []*locus.Tensor) *locus.Tensor {
	m.Do(f[0])
	return m.Loss(m.Forward(f[0]), f[1])
}

func (s *saboteur) model() train.Model {
	k := locus.NewKey(3).Split(2)
	m := &train.Supervised{
		Net: nn.Sequential(nn.Linear(4, 32, nn.WithKey(k[0])), nn.Func(func(x *locus.Tensor) *locus.Tensor {
			s.on("forward", x)
			return locus.Custom("own", func(in ...*locus.Tensor) *locus.Tensor { return in[0].Tanh() },
				func(_ []*locus.Tensor, y, g *locus.Tensor) []*locus.Tensor {
					s.on("backward", g)
					return []*locus.Tensor{g.Mul(y.Square().Neg().Add(1))}
				}, x)
		}), nn.Linear(32, 3, nn.WithKey(k[1]))),
		LossFunc: func(y, target *locus.Tensor) *locus.Tensor {
			if y.RequiresGrad() {
				s.on("loss", y)
			} else {
				s.at("validation loss")
			}
			return locus.CrossEntropy(y, target, locus.CrossEntropyOptions{})
		},
		MetricsFunc: func(y, target *locus.Tensor) map[string]*locus.Tensor {
			s.on("metrics", y)
			return map[string]*locus.Tensor{"accuracy": train.Accuracy(y, target)}
		},
		Optimizer: func(p []nn.Entry) *optim.Optimizer {
			s.at("optimizer")
			return optim.Adam(p, 0.01, optim.AdamOptions{})
		},
	}
	if s.place == "training step" {
		return &sabotagedStep{m, func(x *locus.Tensor) { s.on("training step", x) }}
	}
	return m
}

// commit does the misdeed and returns what is wrong with what came of it.
func (m misdeed) commit(t testing.TB) (wrong []string) {
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	s := &saboteur{misdeed: m, last: fuzzGPUs[m.devices-1]}
	gpuBefore, cpuBefore := inUse(t)
	goroutines := runtime.NumGoroutine()
	func() {
		set := task(t, 64)
		d := train.Data{Train: sabotagedData{set, func() { s.at("dataset") }}, Validation: sabotagedData{set, func() { s.at("validation dataset") }}, BatchSize: 8, Workers: 2}
		trainer := train.New(train.MaxEpochs(2), train.Devices(fuzzGPUs[:m.devices]...), train.LogEvery(3), train.Accumulate(1+m.how%2),
			train.Schedule(func(int64) float64 { s.at("schedule"); return 1 }),
			train.AfterStep(func(*train.Step) error { s.at("after step"); return nil }),
			train.AfterEpoch(func(*train.Epoch) error { s.at("after epoch"); return nil }),
			train.BeforeStep(func(*train.Step) error { s.at("before step"); return nil }),
			train.BeforeEpoch(func(*train.Epoch) error { s.at("before epoch"); return nil }),
			train.PrepareModel(func(train.Model) error { s.at("prepare model"); return nil }),
			train.PrepareBatch(func(b *train.Batch) error { s.on("prepare batch", b.Fields[0]); return nil }))
		model := s.model()
		s.armed.Store(true)
		text := misdeeds[m.how].text
		switch end, err := fitAnyhow(trainer, model, d); {
		case end == "returned" && err == nil:
			bad("Fit returned no error")
		case end == "returned":
			if !strings.Contains(err.Error(), text) {
				bad("the error does not say %q: %v", text, err)
			}
		case end == "exited" && text == "Goexit" && !m.elsewhere():
		default:
			bad("Fit %s", end)
		}
		if s.armed.Load() {
			bad("the test's fault: nothing was done")
		}
		// The same trainer and the same model, once more.
		end, err := fitAnyhow(trainer, model, d)
		if end != "returned" || err != nil {
			bad("the trainer cannot be used again: Fit %s, %v", end, err)
			return
		}
		for name, v := range valuesOf(model) {
			for _, x := range v {
				if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
					bad("%s is %v", name, v)
					break
				}
			}
		}
	}()
	if gpuAfter, cpuAfter := inUse(t); gpuAfter > gpuBefore+leakLimit || cpuAfter > cpuBefore+leakLimit {
		bad("in use before %d bytes on GPUs and %d on the CPU, afterwards %d and %d", gpuBefore, cpuBefore, gpuAfter, cpuAfter)
	}
	for wait := time.Millisecond; runtime.NumGoroutine() > goroutines; wait *= 2 {
		if wait > 2*time.Second {
			bad("%d goroutines before, %d after", goroutines, runtime.NumGoroutine())
			break
		}
		time.Sleep(wait)
	}
	return wrong
}

// fitAnyhow calls Fit where it can do no harm, and says how that ended.
func fitAnyhow(trainer *train.Trainer, model train.Model, d train.Data) (end string, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		end = "exited"
		defer func() {
			if p := recover(); p != nil {
				end = fmt.Sprintf("panicked: %v", p)
			}
		}()
		_, err = trainer.Fit(model, d)
		end = "returned"
	}()
	<-done
	return end, err
}

const misdeedVariable = "LOCUS_TEST_MISDEEDS_FROM"

// caseLimit is when a case counts as hanging.
const caseLimit = 30 * time.Second

// report is a line that the other process prints: at the beginning and the end of a case.
type report struct {
	Case  int
	Begun bool
	Wrong []string
}

// TestMisdeedProcess is the other process; without its variable it has nothing to do.
func TestMisdeedProcess(t *testing.T) {
	from, err := strconv.Atoi(os.Getenv(misdeedVariable))
	if err != nil {
		return
	}
	say := func(r report) {
		b, _ := json.Marshal(r)
		fmt.Printf("\nmisdeed %s\n", b)
	}
	for i, m := range allMisdeeds() {
		if i < from {
			continue
		}
		if testing.Short() && i%4 != 0 {
			say(report{Case: i})
			continue
		}
		say(report{Case: i, Begun: true})
		inTime(t, caseLimit, func() { say(report{Case: i, Wrong: m.commit(t)}) }, m.name())
	}
}

func TestMisbehavingUserCode(t *testing.T) {
	cases := allMisdeeds()
	wrong := make([][]string, len(cases))
	for from := 0; from < len(cases); {
		began, ended, output := runMisdeeds(t, from, wrong)
		if ended == len(cases)-1 {
			break
		}
		if began <= ended { // it died in between
			t.Fatalf("the other process ended behind %s:\n%s", cases[max(ended, 0)].name(), output)
		}
		wrong[began] = append(wrong[began], "the process died:\n"+output)
		from = began + 1
	}
	if testing.Short() {
		t.Log("-short: every fourth case")
	}
	for i, m := range cases {
		if testing.Short() && i%4 != 0 {
			continue
		}
		t.Run(m.name(), func(t *testing.T) {
			for _, w := range wrong[i] {
				t.Error(w)
			}
		})
	}
}

// runMisdeeds runs the cases from one on in another process, as far as it gets: began
// and ended are the last that did, and output is what it said at the end.
func runMisdeeds(t *testing.T, from int, wrong [][]string) (began, ended int, output string) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestMisdeedProcess$", "-test.count=1", "-test.short="+strconv.FormatBool(testing.Short()))
	cmd.Env = append(os.Environ(), misdeedVariable+"="+strconv.Itoa(from))
	out, err := cmd.CombinedOutput()
	began, ended = from-1, from-1
	var rest []string
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		b, ok := strings.CutPrefix(lines.Text(), "misdeed ")
		if !ok {
			rest = append(rest, lines.Text())
			continue
		}
		rest = nil
		var r report
		if err := json.Unmarshal([]byte(b), &r); err != nil {
			t.Fatal(err)
		}
		if r.Begun {
			began = r.Case
		} else {
			ended = r.Case
			wrong[r.Case] = r.Wrong
		}
	}
	if len(rest) > 12 {
		rest = rest[:12]
	}
	return began, ended, fmt.Sprintf("%v\n%s", err, strings.Join(rest, "\n"))
}
