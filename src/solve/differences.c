/* differences.c: a model without dU/dx gets one by central differences of U.
 *
 * The moves test every proposal, and the weights are of U alone, so an error of the slope costs acceptance and not rightness. The step
 * is that of a central difference of a smooth function, the cube root of the rounding error, times the size of the coordinate. */
#include <math.h>

#include "base/table.h"
#include "solve_inside.h"

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const sosmc_model *inner = self;
    if (!gx) return inner->energy(inner->self, theta, b, U, NULL);
    size_t ld = (size_t)b->ld, n = (size_t)b->n, all = sosmc_i_round_up((size_t)b->dim * ld, TILE_LANES);
    double *x = b->work, *low = x + all, *step = low + sosmc_i_round_up(ld, TILE_LANES),
           *inner_work = step + sosmc_i_round_up(ld, TILE_LANES), *value = U;
    double relative = inner->rounding > 0 ? sosmc_i_exp1(NULL, sosmc_i_log1(NULL, inner->rounding) / 3) : 6e-6;
    sosmc_batch at = *b;
    at.x = x;
    at.work = inner_work;
    at.fresh = 0;
    memcpy(x, b->x, (size_t)b->dim * ld * sizeof(double));
    for (size_t j = 0; j < (size_t)b->dim; j++) {
        double *row = x + j * ld;
        const double *from = b->x + j * ld;
        for (int side = 0; side < 2; side++) {
            for (size_t i = 0; i < n; i++) {
                step[i] = relative * fmax(fabs(from[i]), 1e-3);
                row[i] = side ? from[i] - step[i] : from[i] + step[i];
            }
            int rc = inner->energy(inner->self, theta, &at, side ? low : value, NULL);
            if (rc) return rc;
        }
        for (size_t i = 0; i < n; i++) {
            gx[j * ld + i] = (value[i] - low[i]) / ((from[i] + step[i]) - (from[i] - step[i]));
            row[i] = from[i];
        }
    }
    return inner->energy(inner->self, theta, &at, U, NULL);
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    const sosmc_model *inner = self;
    return inner->grad_theta(inner->self, theta, b, c, g);
}

static int scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    const sosmc_model *inner = self;
    return inner->scores(inner->self, theta, b, D);
}

static int prepare(const void *self, const double *theta, void *prep)
{
    const sosmc_model *inner = self;
    return inner->prepare(inner->self, theta, prep);
}

sosmc_model sosmc_i_differenced(const sosmc_model *inner)
{
    sosmc_model m = *inner;
    m.self = inner;
    m.energy = energy;
    m.grad_theta = grad_theta;
    m.scores = inner->scores ? scores : NULL;
    m.prepare = inner->prepare ? prepare : NULL;
    m.no_gx = 0;
    /* Rows of the copy, of the second energies and of the steps, each rounded up to whole lanes, in front of the model's own. */
    m.work = inner->work + ((size_t)inner->dim_x + 2 + 3 * TILE_LANES) * sizeof(double);
    return m;
}
