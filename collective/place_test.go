package collective

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/locusml/locus"
)

func TestPlaceFrom(t *testing.T) {
	type env = map[string]string
	with := func(a env, more env) env {
		b := maps.Clone(a)
		maps.Copy(b, more)
		return b
	}
	torch := env{"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"}
	ompi := env{"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}
	pmi := env{"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
	slurm := env{"SLURM_PROCID": "5", "SLURM_STEP_NUM_TASKS": "6", "SLURM_LOCALID": "1", "SLURM_JOB_ID": "123", "SLURM_STEP_ID": "4", "SLURM_STEP_NODELIST": "node[03-05]", "SLURM_STEP_NUM_NODES": "3"}
	pet := env{"PET_NNODES": "4", "PET_NODE_RANK": "2", "PET_NPROC_PER_NODE": "1", "PET_MASTER_ADDR": "job-node-0-0.job", "PET_MASTER_PORT": "29400"}
	for _, c := range []struct {
		name string
		env  env
		want Place
		err  string
	}{
		{"nothing", env{}, Place{Size: 1, LocalSize: 1}, ""},
		{"torchrun", torch, Place{3, 8, 1, 2, "10.0.0.1:29500", "", byTorch}, ""},
		{"torchrun's own store", with(torch, env{"TORCHELASTIC_USE_AGENT_STORE": "True"}), Place{3, 8, 1, 2, "10.0.0.1:29501", "", byTorch}, ""},
		{"a token", with(torch, env{"LOCUS_TOKEN": "x"}), Place{3, 8, 1, 2, "10.0.0.1:29500", "x", byTorch}, ""},
		{"IPv6", with(torch, env{"MASTER_ADDR": "fd00::1"}), Place{3, 8, 1, 2, "[fd00::1]:29500", "", byTorch}, ""},
		{"a rank alone", env{"RANK": "1"}, Place{Size: 1, LocalSize: 1}, ""},
		{"an address alone", env{"MASTER_ADDR": "a", "MASTER_PORT": "1"}, Place{Size: 1, LocalSize: 1}, ""},
		{"Open MPI", ompi, Place{2, 4, 0, 2, "", "", byOMPI}, ""},
		{"Open MPI with an address", with(ompi, env{"MASTER_ADDR": "h", "MASTER_PORT": "5"}), Place{2, 4, 0, 2, "h:5", "", byOMPI}, ""},
		{"Open MPI in Slurm", with(ompi, slurm), Place{2, 4, 0, 2, "", "", byOMPI}, ""},
		{"launch in Open MPI", with(ompi, torch), Place{3, 8, 1, 2, "10.0.0.1:29500", "", byTorch}, ""},
		{"MPICH", pmi, Place{1, 2, 1, 2, "", "", byPMI}, ""},
		{"Slurm", slurm, Place{5, 6, 1, 0, "node03:20865", "", bySlurm}, ""},
		{"Slurm on one node", with(slurm, env{"SLURM_STEP_NUM_NODES": "1"}), Place{5, 6, 1, 6, "127.0.0.1:20865", "", bySlurm}, ""},
		{"Slurm's batch script", env{"SLURM_PROCID": "0", "SLURM_NTASKS": "6", "SLURM_JOB_ID": "1"}, Place{Size: 1, LocalSize: 1}, ""},
		{"Kubeflow", pet, Place{2, 4, 0, 1, "job-node-0-0.job:29400", "", byPET}, ""},
		{"Kubeflow, elastic", with(pet, env{"PET_NNODES": "3:4"}), Place{2, 3, 0, 1, "job-node-0-0.job:29400", "", byPET}, ""},
		{"Kubeflow, several a node", with(pet, env{"PET_NPROC_PER_NODE": "8"}), Place{}, "locus launch"},
		{"no number", with(torch, env{"RANK": "first"}), Place{}, `RANK="first"`},
		{"no number of nodes", with(pet, env{"PET_NNODES": "many"}), Place{}, "PET_NNODES"},
		{"a rank too many", with(torch, env{"RANK": "8"}), Place{}, "rank 8 of 8"},
		{"negative", with(ompi, env{"OMPI_COMM_WORLD_RANK": "-1"}), Place{}, "OMPI_COMM_WORLD_RANK"},
		{"nobody", with(pmi, env{"PMI_SIZE": "0"}), Place{}, "rank 1 of 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := placeFrom(func(name string) string { return c.env[name] })
			if c.err != "" {
				full := newError("FromEnv", errOr(err))
				if err == nil || !errors.Is(full, locus.ErrArgument) || !strings.Contains(full.Error(), c.err) {
					t.Errorf("the error is %v, want %q", full, c.err)
				}
				return
			}
			if err != nil || p != c.want {
				t.Errorf("%+v, %v; want %+v", p, err, c.want)
			}
		})
	}
}

func errOr(err error) error {
	if err == nil {
		return errors.New("no error")
	}
	return err
}

func TestFirstHost(t *testing.T) {
	for list, want := range map[string]string{"": "", "a": "a", "a,b": "a", "node[03-05]": "node03", "node[7,9-10],x": "node7", "n[1-2]-ib,m": "n1-ib", "n[1": "", "r[1-2]s[3-4]": "r1s3"} {
		if got := firstHost(list); got != want {
			t.Errorf("%q: %q, want %q", list, got, want)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	for addr, want := range map[string]bool{"127.0.0.1:1": true, "localhost:1": true, "[::1]:1": true, "10.0.0.1:1": false, "0.0.0.0:1": false, "host:1": false, "": false} {
		if isLoopback(addr) != want {
			t.Error(addr)
		}
	}
}

func TestPlaceDevice(t *testing.T) {
	first := locus.NumGPUs()
	if d := (Place{LocalRank: 1}).Device(); first == 0 && d != locus.CPU() {
		t.Error(d)
	}
	locus.AddVirtualGPUs(2, 1<<20)
	n := locus.NumGPUs()
	for r := range 2 * n {
		if d := (Place{LocalRank: r}).Device(); d != locus.GPU(r%n) {
			t.Errorf("local rank %d: %s", r, d)
		}
	}
	if d := (Place{LocalRank: -1}).Device(); d != locus.CPU() {
		t.Error(d)
	}
}
