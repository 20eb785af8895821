/* minimise.c: see minimise.h. */
#include "minimise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/linear.h"

void difference_hessian(smooth_function f, const void *self, int p, const double *theta, double *H)
{
    size_t n = (size_t)p;
    double *at = malloc(3 * n * sizeof *at);
    if (!at) return;
    double *up = at + n, *down = up + n;
    memcpy(at, theta, n * sizeof *at);
    for (size_t j = 0; j < n; j++) {
        double step = 1e-4 * fmax(1, fabs(theta[j]));
        at[j] = theta[j] + step;
        (void)f(self, at, up);
        at[j] = theta[j] - step;
        (void)f(self, at, down);
        at[j] = theta[j];
        for (size_t i = 0; i < n; i++) H[i * n + j] = (up[i] - down[i]) / (2 * step);
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++) H[i * n + j] = H[j * n + i] = 0.5 * (H[i * n + j] + H[j * n + i]);
    free(at);
}

/* The step in units in which the Hessian has a diagonal of ones; returns its largest component in those units. H, vectors and
 * values are overwritten. */
static double newton_step(size_t n, const double *g, double *H, double *vectors, double *values, double *unit,
                          double *step)
{
    double largest = 0, top = 0;
    for (size_t j = 0; j < n; j++) {
        unit[j] = 1 / sqrt(fmax(fabs(H[j * (n + 1)]), 1e-300));
        step[j] = 0;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) H[i * n + j] *= unit[i] * unit[j];
    if (sosmc_i_eigen(n, H, values, vectors)) return NAN;
    for (size_t k = 0; k < n; k++) top = fmax(top, fabs(values[k]));
    for (size_t k = 0; k < n; k++) {
        double along = 0;
        if (fabs(values[k]) < 1e-6 * top) continue;
        for (size_t j = 0; j < n; j++) along += vectors[k * n + j] * unit[j] * g[j];
        for (size_t j = 0; j < n; j++) step[j] += vectors[k * n + j] * along / fabs(values[k]);
    }
    for (size_t j = 0; j < n; j++) {
        largest = fmax(largest, fabs(step[j]));
        step[j] *= unit[j];
    }
    return largest;
}

/* The factor with which no parameter moves too far. */
static double longest(size_t n, const double *theta, const double *step)
{
    double factor = 1;
    for (size_t j = 0; j < n; j++)
        if (fabs(step[j]) * factor > 1 + fabs(theta[j])) factor = (1 + fabs(theta[j])) / fabs(step[j]);
    return factor;
}

int minimise(smooth_function f, const void *self, int p, double *theta)
{
    size_t n = (size_t)p;
    int code = 1;
    double *H = malloc((2 * n * n + 5 * n) * sizeof *H);
    if (!H) return 1;
    double *vectors = H + n * n, *values = vectors + n * n, *unit = values + n, *step = unit + n, *g = step + n,
           *from = g + n;
    for (int k = 0; code && k < 300; k++) {
        double loss = f(self, theta, g);
        difference_hessian(f, self, p, theta, H);
        double largest = newton_step(n, g, H, vectors, values, unit, step), length = longest(n, theta, step);
        if (!isfinite(largest)) break;
        code = largest > 1e-8 * (1 + sqrt(fabs(loss)));
        memcpy(from, theta, n * sizeof *from);
        do {
            for (size_t j = 0; j < n; j++) theta[j] = from[j] - length * step[j];
            length /= 2;
        } while (code && length > 1e-9 && !(f(self, theta, NULL) <= loss + 1e-13 * fabs(loss)));
    }
    free(H);
    return code;
}
