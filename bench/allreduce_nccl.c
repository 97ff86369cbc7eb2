// An all-reduce by NCCL from C, the peer of allreduce/main.go on GPUs. A launcher sets RANK and
// WORLD_SIZE; the ranks meet at the file that ID names, which must not exist before:
//
//	nvcc -O2 -o allreduce-nccl bench/allreduce_nccl.c -lnccl
//	ID=/tmp/id locus launch -n 2 ./allreduce-nccl
#include <cuda_runtime.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define CUDA(x) do { cudaError_t e = x; if (e) { printf("%s\n", cudaGetErrorString(e)); exit(1); } } while (0)
#define NCCL(x) do { ncclResult_t e = x; if (e) { printf("%s\n", ncclGetErrorString(e)); exit(1); } } while (0)

static int number(const char *name, int otherwise) { char *s = getenv(name); return s ? atoi(s) : otherwise; }

static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }

static int cmp(const void *a, const void *b) { double x = *(double *)a, y = *(double *)b; return x < y ? -1 : x > y; }

int main(int argc, char **argv) {
	int n = argc > 1 ? atoi(argv[1]) : 25000000, rank = number("RANK", 0), size = number("WORLD_SIZE", 1);
	ncclUniqueId id;
	const char *path = getenv("ID") ? getenv("ID") : "/tmp/allreduce-nccl-id";
	char part[4096];
	snprintf(part, sizeof part, "%s.part", path);
	if (rank == 0) {
		NCCL(ncclGetUniqueId(&id));
		FILE *f = fopen(part, "w"); fwrite(&id, sizeof id, 1, f); fclose(f); rename(part, path);
	} else {
		FILE *f;
		while (!(f = fopen(path, "r"))) usleep(1000);
		if (fread(&id, sizeof id, 1, f) != 1) return 1;
		fclose(f);
	}
	CUDA(cudaSetDevice(0));
	ncclComm_t comm;
	NCCL(ncclCommInitRank(&comm, size, id, rank));
	cudaStream_t s;
	CUDA(cudaStreamCreate(&s));
	float *x, *y, *host = (float *)malloc(4L * n);
	CUDA(cudaMalloc((void **)&x, 4L * n)); CUDA(cudaMalloc((void **)&y, 4L * n));
	for (int i = 0; i < n; i++) host[i] = rank + 1;
	CUDA(cudaMemcpy(x, host, 4L * n, cudaMemcpyHostToDevice));
	enum { reps = 20, warm = 3 };
	double t[reps];
	for (int r = -warm; r < reps; r++) {
		NCCL(ncclAllReduce(x, y, 1, ncclFloat, ncclSum, comm, s)); // a barrier
		CUDA(cudaStreamSynchronize(s));
		double start = now();
		NCCL(ncclAllReduce(x, y, n, ncclFloat, ncclSum, comm, s));
		CUDA(cudaStreamSynchronize(s));
		if (r >= 0) t[r] = now() - start;
	}
	CUDA(cudaMemcpy(host, y, 4L * n, cudaMemcpyDeviceToHost));
	for (int i = 0; i < n; i++) if (host[i] != size * (size + 1) / 2) { printf("wrong\n"); return 1; }
	qsort(t, reps, sizeof *t, cmp);
	if (rank == 0) { printf("C (NCCL), %d ranks, %.0f MB: best %.3f ms, median %.3f ms\n", size, n * 4e-6, t[0] * 1e3, t[reps / 2] * 1e3); unlink(path); }
	ncclCommDestroy(comm);
	return 0;
}
