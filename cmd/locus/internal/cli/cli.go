// Package cli is the command line: one file a subcommand. What they do is in the
// packages next to it.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/locusml/locus"
	"github.com/locusml/locus/cmd/locus/internal/text"
	"github.com/locusml/locus/internal/printable"
)

// The exit codes.
const (
	ExitOK          = 0
	ExitFailure     = 1
	ExitUsage       = 2
	ExitHungUp      = 129 // 128 + SIGHUP, as shells have it
	ExitInterrupted = 130 // 128 + SIGINT
	ExitTerminated  = 143 // 128 + SIGTERM
)

// Streams are what a command reads from and writes to.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Env      func(string) string
}

// Standard returns those of the process.
func Standard() Streams { return Streams{os.Stdin, os.Stdout, os.Stderr, os.Getenv} }

// app is one call of the command.
type app struct {
	in       io.Reader
	out, err *text.Out
	rawErr   io.Writer // for progress bars, which look whether it is a terminal
	env      func(string) string

	lineEvery time.Duration // between lines of progress
}

// usageError is a mistake in the arguments.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errSignal is the cause of a context that a signal has ended.
type errSignal struct{ os.Signal }

func (e errSignal) Error() string { return e.String() }

// Main runs the command and returns its exit code. Whatever goes wrong is one
// message on s.Err.
func Main(args []string, s Streams) int {
	ctx, stop := withSignals(context.Background())
	defer stop()
	a := &app{in: s.In, out: text.New(s.Out, s.Env), err: text.New(s.Err, s.Env), rawErr: s.Err, env: s.Env, lineEvery: lineEvery}
	err := a.run(ctx, args)
	if err == nil {
		if e := a.out.Err(); e != nil {
			err = fmt.Errorf("writing the output: %w", e)
		}
	}
	return a.exit(ctx, err)
}

// withSignals ends the context at the first interrupt, request to end, or hangup
// of the terminal; a second one ends the process, but for a hangup: a terminal
// that closes sends more than one, and some send them after a request to end.
// What the process was started to ignore, as nohup has it ignore hangups, it
// ignores.
func withSignals(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	c := make(chan os.Signal, 1)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	go func() {
		select {
		case s := <-c:
			signal.Ignore(syscall.SIGHUP)
			signal.Stop(c)
			cancel(errSignal{s})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(c); cancel(nil) }
}

// run makes the command and runs it.
func (a *app) run(ctx context.Context, args []string) error {
	return a.guard(func() error {
		root := a.root()
		root.SetArgs(append([]string{}, args...)) // nil would mean the arguments of the process
		err := root.ExecuteContext(ctx)
		if err != nil && strings.HasPrefix(err.Error(), "unknown command") {
			err = usageError{err}
		}
		var usage usageError
		if errors.As(err, &usage) && strings.HasPrefix(err.Error(), "unknown command") {
			var names []string
			for _, c := range root.Commands() {
				names = append(names, c.Name())
			}
			if m := meant(quoted(err.Error()), names); m != "" {
				err = usagef("%w%s", err, m)
			}
		}
		return err
	})
}

// meant asks whether another word was, if one is near.
func meant(s string, words []string) string {
	if w := text.Closest(s, words); w != "" {
		return "; did you mean " + w + "?"
	}
	return ""
}

// meantFlag is meant for the flag that an error of cobra's names.
func meantFlag(c *cobra.Command, err error) string {
	name, ok := strings.CutPrefix(err.Error(), "unknown flag: --")
	if !ok {
		return ""
	}
	var names []string
	add := func(f *pflag.Flag) { names = append(names, f.Name) }
	c.Flags().VisitAll(add)
	c.InheritedFlags().VisitAll(add)
	if w := text.Closest(name, names); w != "" {
		return "; did you mean --" + w + "?"
	}
	return ""
}

// quoted is the first word of a message that stands in quotes.
func quoted(msg string) string {
	_, rest, _ := strings.Cut(msg, `"`)
	word, _, _ := strings.Cut(rest, `"`)
	return word
}

// guard turns panics into errors: those of tensor expressions are what they say,
// others are mistakes in the program.
func (a *app) guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			if a.env("LOCUS_DEBUG") != "" {
				fmt.Fprintf(a.err, "%v\n%s", r, debug.Stack())
			}
			err = fmt.Errorf("this is a mistake in locus, please report it (LOCUS_DEBUG=1 shows where): %v", r)
		}
	}()
	if failed := locus.Try(func() { err = f() }); failed != nil {
		err = failed
	}
	return err
}

// exit reports an error and returns the code for it.
func (a *app) exit(ctx context.Context, err error) int {
	var usage usageError
	var sig errSignal
	var coded codeError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(context.Cause(ctx), &sig) && (errors.Is(err, context.Canceled) || errors.As(err, &sig)):
		switch sig.Signal {
		case syscall.SIGTERM:
			return ExitTerminated
		case syscall.SIGHUP:
			return ExitHungUp
		}
		return ExitInterrupted
	case errors.As(err, &usage):
		a.complain(err)
		return ExitUsage
	case errors.As(err, &coded):
		a.complain(err)
		return coded.code
	}
	a.complain(err)
	return ExitFailure
}

// complain prints an error, once with the program's name.
func (a *app) complain(err error) {
	msg := strings.TrimSpace(err.Error())
	for _, prefix := range []string{"locus: ", "train: ", "data: ", "checkpoint: ", "weights: "} {
		msg = strings.TrimPrefix(msg, prefix)
	}
	// Errors hold names from files: these must neither reach the terminal as they
	// are nor begin a line like ours.
	lines := strings.Split(msg, "\n")
	for i, l := range lines {
		if lines[i] = printable.Text(l); i > 0 && !strings.HasPrefix(l, "  ") {
			lines[i] = "  " + lines[i]
		}
	}
	a.err.Println(a.err.Style(text.Red, "locus:") + " " + strings.Join(lines, "\n"))
}

// root makes the command.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "locus",
		Short: "Every tensor has a place",
		Long: `Locus is a deep-learning framework for Go in which every tensor has a place.

This command shows the devices of a machine, gives a tour of the framework,
trains networks, uses them, looks into their files, and measures.`,
		Example: `  locus tour                      the framework, step by step, on this machine
  locus train                     train on handwritten digits, in seconds
  locus predict runs/digits-mlp/weights.safetensors
  locus devices --watch           what the devices are doing`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetVersionTemplate("{{.Version}}")
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usagef("%w; see %s --help%s", err, c.CommandPath(), meantFlag(c, err))
	})
	var virtual string
	root.PersistentFlags().StringVar(&virtual, "virtual-gpus", "", "add GPUs that live in main memory: `N` of them, or N:SIZE such as 2:512MiB")
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return addVirtual(virtual) }
	root.AddGroup(&cobra.Group{ID: "see", Title: "See:"}, &cobra.Group{ID: "do", Title: "Train and use:"}, &cobra.Group{ID: "files", Title: "Files:"})
	for _, c := range []struct {
		group string
		cmd   *cobra.Command
	}{
		{"see", a.tour()}, {"see", a.devices()}, {"see", a.doctor()}, {"see", a.bench()},
		{"do", a.train()}, {"do", a.predict()}, {"do", a.launch()},
		{"files", a.inspect()}, {"files", a.compare()}, {"files", a.convert()},
		{"", a.version()},
	} {
		c.cmd.GroupID = c.group
		root.AddCommand(c.cmd)
	}
	cobra.AddTemplateFunc("wrappedFlags", func(c *cobra.Command, inherited bool) string {
		flags := c.LocalFlags()
		if inherited {
			flags = c.InheritedFlags()
		}
		return strings.TrimRight(flags.FlagUsagesWrapped(min(a.out.Width, 120)), " \n")
	})
	root.SetUsageTemplate(usageTemplate)
	wrapArgs(root)
	return root
}

// wrapArgs makes mistakes in the arguments of every command usage errors.
func wrapArgs(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return usagef("%w; see %s --help", err, c.CommandPath())
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		wrapArgs(sub)
	}
}

// usageTemplate is cobra's, with flags wrapped at the terminal's width.
const usageTemplate = `Usage:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} [command]{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}{{$cmds := .Commands}}{{range $group := .Groups}}

{{.Title}}{{range $cmds}}{{if (and (eq .GroupID $group.ID) (or .IsAvailableCommand (eq .Name "help")))}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{if .Groups}}

More:{{end}}{{range $cmds}}{{if (and (eq .GroupID "") (or .IsAvailableCommand (eq .Name "help")))}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}

Flags:
{{wrappedFlags . false}}{{end}}{{if .HasAvailableInheritedFlags}}

Flags of all commands:
{{wrappedFlags . true}}{{end}}{{if .HasAvailableSubCommands}}

Use "{{.CommandPath}} [command] --help" for more about a command.{{end}}
`
