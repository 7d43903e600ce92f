/* STREAM's method for the reference of host_memory: three float64 arrays, copy, scale, add and triad in turn,
   the best pass of each but the first. Written for this test from the published description; prints bytes/s.
   Usage: triad ELEMENTS PASSES */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    long n = atol(argv[1]), passes = atol(argv[2]);
    double *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b), *c = malloc(n * sizeof *c);
    double best[4] = {1e30, 1e30, 1e30, 1e30};
    if (!a || !b || !c) return 1;
#pragma omp parallel for
    for (long i = 0; i < n; i++) { a[i] = 1.0; b[i] = 2.0; c[i] = 0.0; }
    for (long pass = 0; pass <= passes; pass++) {
        for (int kernel = 0; kernel < 4; kernel++) {
            double begun = now();
            if (kernel == 0) {
#pragma omp parallel for
                for (long i = 0; i < n; i++) c[i] = a[i];
            } else if (kernel == 1) {
#pragma omp parallel for
                for (long i = 0; i < n; i++) b[i] = 3.0 * c[i];
            } else if (kernel == 2) {
#pragma omp parallel for
                for (long i = 0; i < n; i++) c[i] = a[i] + b[i];
            } else {
#pragma omp parallel for
                for (long i = 0; i < n; i++) a[i] = b[i] + 3.0 * c[i];
            }
            double seconds = now() - begun;
            if (pass && seconds < best[kernel]) best[kernel] = seconds;
        }
    }
    double streams[4] = {2, 2, 3, 3};
    const char *names[4] = {"copy", "scale", "add", "triad"};
    for (int kernel = 0; kernel < 4; kernel++)
        printf("%s %.6e\n", names[kernel], streams[kernel] * n * sizeof(double) / best[kernel]);
    return a[n / 2] < 0 ? 1 : 0;
}
