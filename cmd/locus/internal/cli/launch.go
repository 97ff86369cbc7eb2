package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/locusml/locus/cmd/locus/internal/launch"
)

// codeError is an error with an exit code of its own.
type codeError struct {
	error
	code int
}

func (e codeError) Unwrap() error { return e.error }

func (a *app) launch() *cobra.Command {
	var (
		n, restarts, nodes, node                 int
		hosts, hostFile, master, logs, ssh, work string
		grace                                    time.Duration
	)
	c := &cobra.Command{
		Use:   "launch [flags] command [argument...]",
		Short: "Start a program on several devices or machines",
		Long: `Starts a command several times, on this machine or on those of a list over
ssh, with variables from which each rank knows its number (RANK, WORLD_SIZE,
LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT) and a secret by which
the ranks know each other (LOCUS_TOKEN). Programs use collective.Join.

The ranks' output is passed on line by line, each with the rank's number. If one
fails, the others are ended, and all are started again if --restarts allows; the
exit code is that of the rank that failed first. Ctrl-C ends all.

Over ssh the command runs in the folder of the same name, and ssh must need no
password. In a pod of Kubeflow's, the PET_ variables are the flags' defaults.`,
		Example: `  locus launch -n 2 ./train
  locus launch -n 4 --restarts 3 --logs logs ./train --epochs 10
  locus launch --hosts node1:8,node2:8 ./train`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			s := launch.Spec{Command: args, Ranks: n, Nodes: nodes, Node: node, Master: master, Token: a.env("LOCUS_TOKEN"), Restarts: restarts, Grace: grace,
				Env: os.Environ(), Dir: work, Out: a.out, Err: a.err, Say: func(format string, args ...any) { a.complain(fmt.Errorf(format, args...)) }}
			if ssh != "" {
				s.SSH = strings.Fields(ssh)
			}
			if logs != "" {
				if err := os.MkdirAll(logs, 0o777); err != nil {
					return err
				}
				s.Log = func(rank int) (io.WriteCloser, error) {
					return os.OpenFile(filepath.Join(logs, fmt.Sprintf("rank-%d.log", rank)), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
				}
			}
			if err := a.kubeflow(c, &s); err != nil {
				return err
			}
			if err := places(c, &s, hosts, hostFile); err != nil {
				return err
			}
			err := launch.Run(c.Context(), s)
			var f *launch.Failure
			if errors.As(err, &f) {
				return codeError{err, f.Code}
			}
			return err
		},
	}
	f := c.Flags()
	f.SetInterspersed(false) // what follows the command is the command's
	f.IntVarP(&n, "ranks", "n", 1, "start `N` ranks on this machine")
	f.StringVar(&hosts, "hosts", "", "start ranks on these machines over ssh, rank 0 on the first: `LIST` such as node1:4,node2:4")
	f.StringVar(&hostFile, "hostfile", "", "read the machines from a `FILE`, one per line: node1 slots=4")
	f.IntVar(&restarts, "restarts", 0, "start all ranks again up to `N` times when one fails")
	f.DurationVar(&grace, "grace", 10*time.Second, "how long ranks may take to end before they are killed")
	f.StringVar(&logs, "logs", "", "also write each rank's output to a file in `FOLDER`")
	f.StringVar(&master, "master", "", "rank 0's `HOST:PORT`, for launchers on several machines")
	f.IntVar(&nodes, "nodes", 1, "the number `N` of machines with a launcher, each of which starts --ranks ranks")
	f.IntVar(&node, "node-rank", 0, "the number of this machine among them, from 0")
	f.StringVar(&ssh, "ssh", "", "the `COMMAND` that reaches another machine")
	f.StringVar(&work, "dir", "", "the `FOLDER` of the command on other machines")
	return c
}

// places checks the flags that say where ranks run.
func places(c *cobra.Command, s *launch.Spec, hosts, hostFile string) error {
	var err error
	switch {
	case hosts != "" && hostFile != "" || s.Nodes > 1 && hosts+hostFile != "":
		return usagef("choose one of --hosts, --hostfile and --nodes")
	case hosts != "":
		if s.Hosts, err = launch.ParseHosts(hosts); err != nil {
			return usagef("--hosts: %w", err)
		}
	case hostFile != "":
		text, err := os.ReadFile(hostFile)
		if err != nil {
			return err
		}
		if s.Hosts, err = launch.ParseHostFile(string(text)); err != nil {
			return usagef("--hostfile %s: %w", hostFile, err)
		}
	case s.Ranks < 1 || s.Ranks > 1024:
		return usagef("-n %d: want a number of ranks from 1 to 1024", s.Ranks)
	case s.Nodes < 1 || s.Nodes > 1<<14 || s.Node < 0 || s.Node >= s.Nodes:
		return usagef("--node-rank %d: want a number from 0 to below --nodes %d", s.Node, s.Nodes)
	case s.Nodes > 1 && s.Master == "":
		return usagef("launchers on several machines need --master, the address of rank 0 that all can reach")
	case s.Nodes > 1 && s.Token == "":
		return usagef("launchers on several machines need the same secret in LOCUS_TOKEN")
	}
	if s.Hosts != nil && c.Flags().Changed("ranks") {
		return usagef("a list of hosts sets the number of ranks: leave -n out")
	}
	if s.Restarts < 0 || s.Grace <= 0 {
		return usagef("--restarts must not be negative, and --grace must be positive")
	}
	return nil
}

// kubeflow fills in what Kubeflow's variables say and the flags do not.
func (a *app) kubeflow(c *cobra.Command, s *launch.Spec) error {
	number := func(flag, name string, to *int) error {
		v := a.env(name)
		if v == "" || v == "auto" || v == "cpu" || c.Flags().Changed(flag) {
			return nil
		}
		v, _, _ = strings.Cut(v, ":") // an elastic job's smallest number
		n, err := strconv.Atoi(v)
		if err != nil {
			return usagef("%s=%q is not a number", name, a.env(name))
		}
		*to = n
		return nil
	}
	if err := errors.Join(number("ranks", "PET_NPROC_PER_NODE", &s.Ranks), number("nodes", "PET_NNODES", &s.Nodes),
		number("node-rank", "PET_NODE_RANK", &s.Node), number("restarts", "PET_MAX_RESTARTS", &s.Restarts)); err != nil {
		return err
	}
	if host, port := a.env("PET_MASTER_ADDR"), a.env("PET_MASTER_PORT"); s.Master == "" && host != "" && port != "" && s.Nodes > 1 {
		s.Master = host + ":" + port
	}
	return nil
}
