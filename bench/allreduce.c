// The same as allreduce/main.go from C: mpicc -O2 -o allreduce-c bench/allreduce.c
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int cmp(const void *a, const void *b) {
	double x = *(double *)a, y = *(double *)b;
	return x < y ? -1 : x > y;
}

int main(int argc, char **argv) {
	int n = argc > 1 ? atoi(argv[1]) : 25000000, reps = 10, rank, size;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	float *x = malloc(4L * n), *y = malloc(4L * n);
	for (int i = 0; i < n; i++) x[i] = rank + 1, y[i] = 0;
	int piece = argc > 2 ? atoi(argv[2]) : n; // elements of one call
	double t[64];
	for (int r = 0; r < reps; r++) {
		MPI_Barrier(MPI_COMM_WORLD);
		double start = MPI_Wtime();
		for (int at = 0; at < n; at += piece)
			MPI_Allreduce(x + at, y + at, n - at < piece ? n - at : piece, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		t[r] = MPI_Wtime() - start;
		for (int i = 0; i < n; i++)
			if (y[i] != size * (size + 1) / 2) { printf("wrong\n"); return 1; }
	}
	qsort(t, reps, sizeof *t, cmp);
	if (rank == 0) printf("C (%s), %d ranks, %.0f MB: best %.1f ms, median %.1f ms\n", piece == n ? "one call" : "pieces", size, n * 4e-6, t[0] * 1e3, t[reps / 2] * 1e3);
	MPI_Finalize();
	return 0;
}
