/* check_model.c: see check_inside.h.
 *
 * A wrong coordinate is found by halving: of two halves of the coordinates that one is kept along which the claimed derivative is
 * further from the differences of the energy. That takes 4 log2(rows) energies, also for a network of many parameters. Where the
 * errors of several coordinates cancel, another of them may be named than the worst. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "check_inside.h"

static double rounding_of(const probe *p) { return fmax(DBL_EPSILON, p->model->rounding); }

static double moved_energy(probe *p, double *at, size_t from, size_t to, double e)
{
    int failed = 0;
    for (size_t i = from; i < to; i++) at[i] += e * p->v[i];
    double U = sosmc_i_probe_energy(p, NULL, &failed);
    for (size_t i = from; i < to; i++) at[i] -= e * p->v[i];
    return failed ? NAN : U;
}

/* The derivative along v of the numbers from..to-1. */
static wrong_place derivative(probe *p, double *at, size_t from, size_t to)
{
    wrong_place w = {.claimed = 0};
    double e = sqrt(sqrt(rounding_of(p)));
    for (size_t i = from; i < to; i++) w.claimed += p->g[i] * p->v[i];
    w.measured = (moved_energy(p, at, from, to, e) - moved_energy(p, at, from, to, -e)) / (2 * e);
    return w;
}

static double error_of(wrong_place w)
{
    double error = fabs(w.measured - w.claimed);
    return isnan(error) ? INFINITY : error;
}

wrong_place sosmc_i_check_place(probe *p, double *at, int rows, int each)
{
    size_t low = 0, high = (size_t)rows, n = (size_t)each;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        double left = error_of(derivative(p, at, low * n, middle * n));
        double right = error_of(derivative(p, at, middle * n, high * n));
        if (left >= right)
            high = middle;
        else
            low = middle;
    }
    wrong_place w = derivative(p, at, low * n, high * n);
    w.coordinate = (int64_t)low;
    return w;
}

int sosmc_i_check_differs(probe *p)
{
    double before[PROBE_PARTICLES];
    int failed = 0;
    (void)sosmc_i_probe_energy(p, NULL, &failed);
    memcpy(before, p->U, sizeof before);
    (void)sosmc_i_probe_energy(p, NULL, &failed);
    return !failed && memcmp(before, p->U, sizeof before) != 0;
}

/* The second half of the particles becomes a copy of the first; the energies of the first half must stay. */
int sosmc_i_check_coupled(probe *p)
{
    enum { HALF = PROBE_PARTICLES / 2 };
    double before[PROBE_PARTICLES], size = 0;
    size_t dim = (size_t)p->model->dim_x;
    int failed = 0, coupled = -1;
    (void)sosmc_i_probe_energy(p, NULL, &failed);
    memcpy(before, p->U, sizeof before);
    memcpy(p->g, p->x, dim * PROBE_PARTICLES * sizeof(double));
    for (size_t j = 0; j < dim; j++)
        memcpy(p->x + j * PROBE_PARTICLES + HALF, p->x + j * PROBE_PARTICLES, HALF * sizeof(double));
    (void)sosmc_i_probe_energy(p, NULL, &failed);
    memcpy(p->x, p->g, dim * PROBE_PARTICLES * sizeof(double));
    for (int i = 0; i < HALF; i++) size = fmax(size, fabs(before[i]));
    for (int i = HALF - 1; i >= 0 && !failed; i--)
        if (fabs(p->U[i] - before[i]) > 64 * rounding_of(p) * size) coupled = i;
    return coupled;
}
