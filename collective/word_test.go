package collective

import (
	"bytes"
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/lend"
	"github.com/locusml/locus/internal/nccl"
)

func TestWord(t *testing.T) {
	for _, w := range []word{{}, {Yes: true}, {Yes: true, What: "float32 (3,)", Place: "host 0000:1 1/7", ID: bytes.Repeat([]byte{200}, 128)}} {
		var b bytes.Buffer
		if err := writeWord(&b, w); err != nil {
			t.Fatal(err)
		}
		if got, err := readWord(&b); err != nil || !reflect.DeepEqual(got, w) {
			t.Errorf("%+v became %+v (%v)", w, got, err)
		}
	}
	if err := writeWord(new(bytes.Buffer), word{What: strings.Repeat("x", maxWord)}); err == nil {
		t.Error("a word that is too long is written")
	}
}

func FuzzWord(f *testing.F) {
	f.Add([]byte("\x02\x00\x00\x00{}"))
	f.Add([]byte("\xff\xff\xff\xff{}"))
	f.Add([]byte("\x0c\x00\x00\x00{\"Yes\":true}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := readWord(bytes.NewReader(b))
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := writeWord(&again, w); err != nil {
			return // longer in our way of writing
		}
		if got, err := readWord(&again); err != nil || !reflect.DeepEqual(got, w) {
			t.Fatalf("%+v became %+v (%v)", w, got, err)
		}
	})
}

func TestClash(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{"h 1 0/7", "h 2 0/7", ""},
		{"h 1 0/7", "i 1 0/7", ""},
		{"h 1 1/7", "h 1 1/7", "one process"},
		{"h 1 1/7", "h 1 1/8", ""},
		{"h 1 1/7", "h 1 0/8", "2.30"},
		{"h 1 0/7", "h 1 1/8", "2.30"},
	} {
		if got := clash(c.a, c.b); c.want == "" != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s and %s: %q", c.a, c.b, got)
		}
	}
}

// A message has the card for itself; collectives and the communicators of groups wait for it.
func TestTraffic(t *testing.T) {
	tr := &traffic{changed: make(chan struct{})}
	ctx := context.Background()
	waits := func(f func(context.Context) error) bool {
		c, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		return f(c) != nil
	}
	take := func(ctx context.Context) error { _, err := tr.take(ctx); return err }
	refused := func() bool { ok, err := tr.take(ctx); return !ok && err == nil }
	if err := tr.collective(ctx); err != nil || !tr.behind() || !refused() {
		t.Fatal("a message is taken in beside a collective", err)
	}
	tr.collectiveDone()
	if ok, err := tr.take(ctx); !ok || err != nil || !waits(take) || !waits(tr.collective) || !waits(tr.start) {
		t.Fatal("something begins beside a message", err)
	}
	done := make(chan error, 1)
	go func() { done <- tr.start(ctx) }()
	for {
		tr.mu.Lock()
		wanted := tr.wanted
		tr.mu.Unlock()
		if wanted > 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if !refused() {
		t.Fatal("a message waits where a group does")
	}
	tr.messageDone()
	if err := <-done; err != nil || !refused() || waits(tr.collective) {
		t.Fatal("beside a group that begins, a message does or a collective does not", err)
	}
	tr.startDone()
	tr.collectiveDone()
	if tr.collectives|tr.groups|tr.wanted != 0 || tr.message {
		t.Errorf("%+v is left", tr)
	}
}

// A message knows of a collective that begins, in another goroutine, while it is got ready: its
// memory may have to wait for it.
func TestReadyBehind(t *testing.T) {
	FakeCards(t, 22803, false)
	x := locus.AddVirtualGPUs(1, 16<<20)[0].Ones(eager/4 + 1)
	d := asCard(lend.Backend(x)).(*fakeCard)
	d.fence = func() {
		if err := trafficOf(d).collective(t.Context()); err != nil {
			t.Error(err)
		}
	}
	j := &job{name: "Recv", kind: recv, x: x}
	(&cards{lib: nccl.Fake(22803)}).prepare(j)
	if j.failed != nil || j.ready == nil {
		t.Fatal("it is not ready", j.failed)
	}
	if !j.ready.behind {
		t.Error("a collective was not noticed")
	}
	j.unready()
	trafficOf(d).collectiveDone()
}
