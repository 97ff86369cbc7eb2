package control

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestHandshake(t *testing.T) {
	for _, c := range []struct {
		server, client string
		ok             bool
	}{{"a", "a", true}, {"", "", true}, {"a", "b", false}, {"a", "", false}, {"", "a", false}} {
		a, b := net.Pipe()
		done := make(chan error, 1)
		go func() {
			err := admit(a, c.server)
			if err != nil {
				a.Close()
			}
			done <- err
		}()
		err := introduce(b, c.client)
		if err != nil {
			b.Close()
		}
		theirs := <-done
		b.Close()
		if (err == nil) != c.ok || (theirs == nil) != c.ok {
			t.Errorf("%q and %q: %v, %v", c.server, c.client, err, theirs)
		}
		if !c.ok && !errors.Is(err, ErrToken) {
			t.Errorf("%q and %q: %v", c.server, c.client, err)
		}
	}
}

// A server that does not know the token is found out, and learns nothing from the client
// that would let it in elsewhere: the proof is for this connection alone.
func TestFalseServer(t *testing.T) {
	a, b := net.Pipe()
	go func() {
		a.Write(append([]byte(greeting), make([]byte, nonceSize)...))
		io.ReadFull(a, make([]byte, len(greeting)+nonceSize+32))
		a.Write(make([]byte, 32))
	}()
	if err := introduce(b, "secret"); !errors.Is(err, ErrToken) {
		t.Error(err)
	}
	if bytes.Equal(proof("t", "client", []byte("a"), []byte("b")), proof("t", "server", []byte("a"), []byte("b"))) {
		t.Error("a proof can be sent back")
	}
}

// A length alone takes no memory, and what is not a frame is an error at once.
func TestFrames(t *testing.T) {
	for _, b := range [][]byte{{0, 0, 0, 0, 0, 0, 0, 0}, {99, 0, 0, 0, 0, 0, 0, 0}, {1, 1, 0, 0, 0, 0, 0, 0}, {1, 0, 0, 0, 0, 0, 0, 255}} {
		if _, _, err := readFrame(bytes.NewReader(b)); !errors.Is(err, errFrame) {
			t.Errorf("% x: %v", b, err)
		}
	}
	if _, _, err := readFrame(strings.NewReader("\x01\x00\x00\x00\xff\xff\x0f\x00short")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	long := bytes.Repeat([]byte("x"), maxBody)
	var b bytes.Buffer
	if err := writeFrame(&b, frameNote, long); err != nil {
		t.Fatal(err)
	}
	if kind, body, err := readFrame(&b); err != nil || kind != frameNote || !bytes.Equal(body, long) {
		t.Error(kind, len(body), err)
	}
}

// A peer that says nothing is given up in time; a beat is enough.
func TestReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		r := newReader(a, 100*time.Millisecond)
		go func() {
			for range 3 {
				time.Sleep(60 * time.Millisecond)
				writeFrame(b, frameBeat, nil)
			}
		}()
		for range 3 {
			if kind, _, err := r.next(); kind != frameBeat || err != nil {
				t.Fatal(kind, err)
			}
		}
		if _, _, err := r.next(); !isTimeout(err) {
			t.Error(err)
		}
	})
}

// writes keeps what is written to a connection, call by call.
type writes struct {
	net.Conn
	calls [][]byte
}

func (w *writes) Write(b []byte) (int, error) {
	w.calls = append(w.calls, bytes.Clone(b))
	return len(b), nil
}

func (w *writes) SetWriteDeadline(time.Time) error { return nil }

// Announcements that wait for nothing are sent together, in order, after a moment or before
// the next frame, and not later than when there are many.
func TestAnnounceTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &writes{}
		m := &Member{cfg: Config{DeadAfter: time.Minute}, conn: w, known: map[uint64]bool{Hash("sum"): true}, over: make(chan struct{})}
		seq := uint64(0)
		enter := func(n int) {
			for range n {
				if err := m.Enter(t.Context(), seq, "sum", false); err != nil {
					t.Fatal(err)
				}
				seq++
			}
		}
		calls := func(want int) {
			t.Helper()
			m.writing.Lock()
			defer m.writing.Unlock()
			if len(w.calls) != want {
				t.Fatalf("%d calls of the system, not %d", len(w.calls), want)
			}
		}
		enter(50)
		calls(0)
		time.Sleep(queuedFor + 1)
		synctest.Wait()
		calls(1)
		enter(3)
		m.Fail("why") // at once, behind what is queued
		calls(2)
		time.Sleep(2 * queuedFor)
		synctest.Wait()
		calls(2)
		enter(1000)
		m.writing.Lock()
		n := len(w.calls)
		m.writing.Unlock()
		if n < 3 {
			t.Error("1000 announcements are queued")
		}
		time.Sleep(queuedFor + 1)
		synctest.Wait()
		r := bytes.NewReader(bytes.Join(w.calls, nil))
		for want := uint64(0); want < seq; {
			kind, body, err := readFrame(r)
			if err != nil {
				t.Fatal(err)
			}
			if kind == frameFail {
				if want != 53 {
					t.Errorf("the failure comes behind %d announcements", want)
				}
				continue
			}
			if e, err := decodeEntry(body); err != nil || e.seq != want {
				t.Fatalf("%v comes as number %d (%v)", e, want, err)
			}
			want++
		}
	})
}
