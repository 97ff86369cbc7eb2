package control

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"
)

// FuzzFrame reads frames, and everything that is read from their bodies, from any bytes.
func FuzzFrame(f *testing.F) {
	var b bytes.Buffer
	writeFrame(&b, frameEnter, entry{seq: 3, hash: 5, wait: true, text: "all-reduce"}.encode())
	writeFrame(&b, frameHello, []byte(`{"Purpose":"control","Size":2,"Rank":1}`))
	writeFrame(&b, frameAbort, encodeFault(&Fault{Died, 1, "host", "why"}))
	writeFrame(&b, frameNote, encodeNote("key", []byte("text")))
	f.Add(b.Bytes())
	f.Add([]byte{1, 0, 0, 0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		for {
			kind, body, err := readFrame(r)
			if err != nil {
				return
			}
			if kind == 0 || kind > lastFrame || len(body) > maxBody {
				t.Fatalf("a frame of type %d with %d bytes", kind, len(body))
			}
			if h, err := decodeHello(kind, body); err == nil && (h.Rank < 0 || h.Rank >= h.Size) {
				t.Fatalf("hello from rank %d of %d", h.Rank, h.Size)
			}
			if e, err := decodeEntry(body); err == nil && !bytes.Equal(e.encode(), body) {
				t.Fatalf("an announcement is not what it was: %x", body)
			}
			if key, text, err := decodeNote(body); err == nil && !bytes.Equal(encodeNote(key, text), body) {
				t.Fatalf("a note is not what it was: %x", body)
			}
			if decodeFault(body).Cause == "" {
				t.Fatal("a fault without a cause")
			}
			m := &Member{cfg: Config{Size: 2}, joined: make(chan struct{})}
			if m.roster(body) == nil && len(m.peers) != 2 {
				t.Fatal("a list of another length")
			}
		}
	})
}

// FuzzDoor sends any bytes to a rank's door: nothing gets in without the token.
func FuzzDoor(f *testing.F) {
	f.Add([]byte(greeting))
	f.Add(make([]byte, 200))
	f.Fuzz(func(t *testing.T, data []byte) {
		client, server := net.Pipe()
		d := openDoor(nil, "secret")
		done := make(chan error)
		go func() {
			err := d.take(server)
			server.Close()
			done <- err
		}()
		go io.Copy(io.Discard, client)
		client.SetDeadline(time.Now().Add(time.Second))
		client.Write(data)
		client.Close()
		if err := <-done; err == nil {
			t.Fatal("let in")
		}
	})
}
