package collective_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/locusml/locus/collective"
	"github.com/locusml/locus/internal/collectivetest"
	"github.com/locusml/locus/internal/control"
	"github.com/locusml/locus/internal/ring"
)

// network stands between ranks: every connection between two of them goes through it, in
// pieces of any size. It can delay, swallow or cut what passes.
type network struct {
	mu      sync.Mutex
	proxies map[string]net.Listener // by link and address
	links   map[[2]int][]*link
	delay   time.Duration // at most, of each piece
	closed  bool
}

// link is a connection from one rank to another.
type link struct {
	near, far net.Conn
	swallow   atomic.Bool
}

// through puts a network between the ranks of this test's groups.
func through(t *testing.T, delay time.Duration) *network {
	n := &network{proxies: map[string]net.Listener{}, links: map[[2]int][]*link{}, delay: delay}
	direct := control.Reroute
	control.Reroute = n.route
	ring.Sharing = false
	t.Cleanup(func() {
		control.Reroute, ring.Sharing = direct, true
		n.mu.Lock()
		defer n.mu.Unlock()
		n.closed = true
		for _, l := range n.proxies {
			l.Close()
		}
	})
	return n
}

func (n *network) route(from, to int, addr string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := fmt.Sprint(from, to, addr)
	l := n.proxies[key]
	if l == nil {
		var err error
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return addr
		}
		n.proxies[key] = l
		go n.serve(l, from, to, addr)
	}
	return l.Addr().String()
}

func (n *network) serve(l net.Listener, from, to int, addr string) {
	for {
		near, err := l.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", addr)
		if err != nil {
			near.Close() // nobody there yet
			continue
		}
		k := &link{near: near, far: far}
		n.mu.Lock()
		n.links[[2]int{from, to}] = append(n.links[[2]int{from, to}], k)
		n.mu.Unlock()
		go n.pass(k, near, far)
		go n.pass(k, far, near)
	}
}

// pass copies one way.
func (n *network) pass(k *link, to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 64<<10)
	for {
		m, err := from.Read(b[:1+rand.IntN(len(b))])
		if k.swallow.Load() {
			if err != nil {
				return
			}
			continue
		}
		if n.delay > 0 {
			time.Sleep(rand.N(n.delay))
		}
		if m > 0 {
			if _, err := to.Write(b[:m]); err != nil {
				return
			}
		}
		if err != nil {
			if err == io.EOF {
				time.Sleep(time.Millisecond)
			}
			return
		}
	}
}

// pick returns some connection between two ranks.
func (n *network) pick() (from, to int, k *link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for r, l := range n.links { // in any order
		if r[0] != r[1] {
			return r[0], r[1], l[rand.IntN(len(l))]
		}
	}
	return 0, 0, nil
}

func TestSlowNetwork(t *testing.T) {
	through(t, 2*time.Millisecond)
	groups := tcp(t, 3)
	each(t, 3, func(r int) error {
		x := ones(300_001)
		for range 3 {
			y, err := groups[r].AllReduce(ctx, x, collective.Sum).Wait()
			if err != nil {
				return err
			}
			if v := y.Min().Item(); v != 3 {
				return fmt.Errorf("a sum is %v", v)
			}
		}
		return nil
	})
}

// The suite through a network that cuts everything in pieces.
func TestNetworkInPieces(t *testing.T) {
	through(t, 0)
	groups := tcp(t, 2)
	each(t, 2, func(r int) error {
		return collectivetest.Run(context.Background(), groups[r], collectivetest.Config{Short: true, Large: 100_003})
	})
}

// Connections break or go silent at random moments: every rank gets an error in time.
func TestBrokenNetwork(t *testing.T) {
	times := 6
	if testing.Short() {
		times = 2
	}
	for i := range times {
		swallow := i%2 == 1
		t.Run(fmt.Sprint("swallow ", swallow), func(t *testing.T) {
			n := through(t, 0)
			size := 2 + rand.IntN(3)
			groups := tcp(t, size, collective.Timeout(1500*time.Millisecond), collective.DeadAfter(time.Second))
			var began sync.WaitGroup
			began.Add(size)
			go func() {
				began.Wait()
				time.Sleep(rand.N(20 * time.Millisecond))
				_, _, k := n.pick()
				if swallow {
					k.swallow.Store(true)
					return
				}
				k.near.Close()
				k.far.Close()
			}()
			started := time.Now()
			each(t, size, func(r int) error {
				for i := 0; ; i++ {
					if i == 5 {
						began.Done()
					}
					y, err := groups[r].AllReduce(ctx, ones(1+i%4*100_000), collective.Sum).Wait()
					if err != nil {
						if i < 5 {
							began.Done()
						}
						if !errors.Is(err, collective.ErrRank) && !errors.Is(err, collective.ErrTimeout) {
							return err
						}
						return nil
					}
					if v := y.Min().Item(); v != float64(size) {
						return fmt.Errorf("a sum is %v", v)
					}
				}
			})
			if d := time.Since(started); d > 12*time.Second {
				t.Errorf("it took %v", d)
			}
		})
	}
}
