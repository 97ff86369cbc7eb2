//go:build unix

package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLaunch(t *testing.T) {
	logs := filepath.Join(t.TempDir(), "logs")
	r := call("80", "launch", "-n", "2", "--logs", logs, "sh", "-c", "echo rank $RANK -n 7")
	if r.code != 0 || !strings.Contains(r.out, "[0] rank 0 -n 7\n") || !strings.Contains(r.out, "[1] rank 1 -n 7\n") {
		t.Errorf("%+v", r)
	}
	if b, err := os.ReadFile(filepath.Join(logs, "rank-1.log")); string(b) != "rank 1 -n 7\n" {
		t.Errorf("%q, %v", b, err)
	}
	r = call("80", "launch", "-n", "2", "sh", "-c", "test $RANK = 0 || exit 9")
	if r.code != 9 || !strings.Contains(r.err, "rank 1: exit status 9") {
		t.Errorf("%+v", r)
	}
	for args, want := range map[string]string{
		"launch":                              "requires at least 1 arg",
		"launch -n 0 true":                    "want a number of ranks",
		"launch --hosts a;b true":             "not a host",
		"launch --hosts a -n 3 true":          "leave -n out",
		"launch --hosts a --hostfile b true":  "choose one",
		"launch --nodes 2 true":               "--master",
		"launch --nodes 2 --master a:1 true":  "LOCUS_TOKEN",
		"launch --nodes 2 --node-rank 2 true": "want a number from 0",
		"launch --restarts -1 true":           "--restarts",
		"launch --hostfile none/such true":    "no such file",
		"launch --grace 0s true":              "--grace",
		"launch --host a:2 true":              "did you mean --hosts?",
	} {
		r := call("80", strings.Fields(args)...)
		if r.code == 0 || !strings.Contains(r.err, want) {
			t.Errorf("%s: %+v, want %q", args, r, want)
		}
	}
	var out, errs bytes.Buffer
	env := func(name string) string { return map[string]string{"PET_NPROC_PER_NODE": "3", "PET_NNODES": "1"}[name] }
	if code := Main([]string{"launch", "sh", "-c", "echo of $WORLD_SIZE"}, Streams{In: strings.NewReader(""), Out: &out, Err: &errs, Env: env}); code != 0 || strings.Count(out.String(), "of 3") != 3 {
		t.Errorf("%d: %s %s", code, &out, &errs)
	}
}
