package collective

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/locusml/locus"
	"github.com/locusml/locus/internal/control"
	"github.com/locusml/locus/internal/mpi"
)

// openMPI starts MPI, by which rank 0 tells the others the address and the token of the
// group where the launcher does not.
func openMPI(ctx context.Context, p Place, cfg *control.Config) (*mpi.Comm, error) {
	c, err := mpi.Open(ctx, mpi.Launched(os.Getenv))
	if err != nil {
		return nil, problem(locus.ErrUnsupported, "unset LOCUS_COLLECTIVE or set it to ring, which needs no library", "%v", err)
	}
	if c.Rank() != p.Rank || c.Size() != p.Size {
		defer c.Close(true)
		return nil, problem(locus.ErrArgument, "start it with the mpirun of the same library, or set LOCUS_MPI to the file of the right one",
			"%s sees rank %d of %d, and %s says rank %d of %d", c.Version(), c.Rank(), c.Size(), p.Launcher, p.Rank, p.Size)
	}
	if cfg.Addr == "" || cfg.Token == "" {
		if err := shareAddr(ctx, c, p, cfg); err != nil {
			c.Close(true)
			return nil, err
		}
	}
	return c, nil
}

func shareAddr(ctx context.Context, c *mpi.Comm, p Place, cfg *control.Config) error {
	text := ""
	if p.Rank == 0 {
		addr := cfg.Addr
		if addr == "" {
			listen := "127.0.0.1:0"
			if p.LocalSize != p.Size {
				listen = net.JoinHostPort(outside(), "0")
			}
			l, err := net.Listen("tcp", listen)
			if err != nil {
				return err
			}
			cfg.Listener, addr = l, l.Addr().String()
		}
		token := cfg.Token
		if token == "" {
			token = rand.Text()
		}
		text = addr + " " + token
	}
	text, err := c.Share(ctx, text)
	if err != nil {
		return err
	}
	var ok bool
	if cfg.Addr, cfg.Token, ok = strings.Cut(text, " "); !ok {
		return fmt.Errorf("rank 0 shared no address but %q", text)
	}
	return nil
}

// outside returns an address of this machine that others can reach, as far as that can be
// known. MASTER_ADDR says it where it cannot.
func outside() string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return "127.0.0.1"
	}
	for _, a := range addrs {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && ip.IP.IsGlobalUnicast() {
			return ip.IP.String()
		}
	}
	return "127.0.0.1"
}
