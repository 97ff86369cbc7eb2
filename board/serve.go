package board

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/locusml/locus/internal/gate"
)

//go:embed web
var webFiles embed.FS

const (
	defaultAddr  = "127.0.0.1:7788"
	sendEvery    = 200 * time.Millisecond // at most so often a page gets news
	beatEvery    = 15 * time.Second       // so often an idle page gets a sign of life
	writeTimeout = 10 * time.Second       // a page that takes nothing for so long is gone
)

// Serve shows the board as a live web page until [Board.Close] and returns the page's address. The page loads nothing
// from elsewhere.
//
// An addr of "" is port 7788 of this machine's loopback interface, or any free port if that is taken. An addr without a
// host, such as ":8080", is on the loopback interface too: only this machine can see the page. To show it to others, name
// an interface, or "0.0.0.0:8080" for all; whoever reaches that address can then read the curves.
func (b *Board) Serve(addr string) (url string, err error) {
	gate.Receiver("board.Board.Serve", b != nil, "use new(board.Board)")
	listener, err := listen(addr)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return "", fmt.Errorf("board: serve on %q: %w", addr, err)
	}
	handler := b.Handler()
	if listener.Addr().(*net.TCPAddr).IP.IsLoopback() {
		handler = localOnly(handler)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: writeTimeout}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		server.Serve(listener) // ends with ErrServerClosed
	}()
	b.mu.Lock()
	b.stops = append(b.stops, func() { server.Close(); <-ended })
	b.mu.Unlock()
	return "http://" + listener.Addr().String() + "/", nil
}

func listen(addr string) (net.Listener, error) {
	if addr == "" {
		if l, err := net.Listen("tcp", defaultAddr); err == nil {
			return l, nil
		}
		return net.Listen("tcp", "127.0.0.1:0")
	}
	if strings.HasPrefix(addr, ":") {
		addr = "127.0.0.1" + addr
	}
	return net.Listen("tcp", addr)
}

// localOnly refuses requests for a name that is not this machine's. Without it, any web page could read the board by
// letting its own name resolve to the loopback address.
func localOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		_, err := netip.ParseAddr(strings.Trim(host, "[]"))
		if err != nil && host != "localhost" && !strings.HasSuffix(host, ".localhost") {
			http.Error(w, "This board is served to its own machine only. Open it as localhost, or serve it on a named interface.", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Handler returns the web page as a handler, to be part of another server. All its links are relative: mount it at any path
// that ends in a slash, with [http.StripPrefix]. Whoever can reach it can read the curves. Open pages stay connected, so
// end the server with Close, or with Shutdown and a deadline.
func (b *Board) Handler() http.Handler {
	gate.Receiver("board.Board.Handler", b != nil, "use new(board.Board)")
	files, err := fs.Sub(webFiles, "web")
	if err != nil {
		panic(err) // the folder is part of the program
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.HandleFunc("GET /events", b.serveEvents)
	mux.HandleFunc("GET /board.svg", picture("image/svg+xml", b.WriteSVG))
	mux.HandleFunc("GET /board.png", picture("image/png", b.WritePNG))
	mux.HandleFunc("GET /timeline.svg", b.serveTimeline)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cache-Control", "no-store")
		mux.ServeHTTP(w, r)
	})
}

func picture(contentType string, write func(io.Writer) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		write(w) // fails only when the client is gone
	}
}

// serveTimeline serves the timeline as a picture, whose rules of style are inside.
func (b *Board) serveTimeline(w http.ResponseWriter, r *http.Request) {
	var text bytes.Buffer
	if err := b.WriteTimelineSVG(&text); err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	w.Header().Set("Content-Type", "image/svg+xml")
	w.Write(text.Bytes()) // fails only when the client is gone
}

// serveEvents streams the board: everything at first, then what changed. Several points between two messages travel in
// one, so a fast loop costs a slow network no more than a slow one.
func (b *Board) serveEvents(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	done, closed := b.doneLocked(), b.closed
	if !closed {
		b.pages.Add(1)
	}
	b.mu.Unlock()
	told := func() {
		if !closed {
			b.pages.Done()
			closed = true
		}
	}
	defer told()

	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // ask proxies not to hold messages back
	control := http.NewResponseController(w)
	send := func(text []byte) error {
		err := control.SetWriteDeadline(time.Now().Add(writeTimeout))
		if err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
		return control.Flush()
	}

	stream := &stream{board: b}
	ended := send(append([]byte("retry: 1000\n\n"), stream.next()...)) != nil
	tick := time.NewTicker(sendEvery)
	defer tick.Stop()
	for beat := time.Now(); !ended; {
		select {
		case <-r.Context().Done():
			return
		case <-done:
			if send(append(stream.next(), "event: end\ndata: {}\n\n"...)) != nil {
				return
			}
			told()
			done = nil // the page stays connected; it learns of a new run by losing this one
		case now := <-tick.C:
			text := stream.next()
			if len(text) == 0 && now.Sub(beat) > beatEvery {
				text = []byte(": still here\n\n")
			}
			if len(text) > 0 {
				ended = send(text) != nil
				beat = now
			}
		}
	}
}
