/* STREAM's four kernels for the reference of host_memory, written for this test from the published description.
   The test times them by turns with the probe's own, on the same arrays. */

#define KERNEL(name, statement)                                                        \
    void name(double *restrict to, const double *x, const double *y, long n) {         \
        _Pragma("omp parallel for") for (long i = 0; i < n; i++) to[i] = statement;    \
        (void)x, (void)y;                                                              \
    }

KERNEL(copy, x[i])
KERNEL(scale, 3.0 * x[i])
KERNEL(add, x[i] + y[i])
KERNEL(triad, x[i] + 3.0 * y[i])
