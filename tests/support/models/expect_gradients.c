/* expect_gradients.c: see expect_gradients.h. */
#include "expect_gradients.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include <sosmc/analysis.h>

#include "assertions.h"

static double energy_at(sosmc_host *h, const double *theta, const double *x)
{
    double U = NAN;
    assert_int_equal(sosmc_host_move(h, theta), SOSMC_OK);
    assert_int_equal(sosmc_host_energies(h, 1, x, &U), SOSMC_OK);
    return U;
}

/* At most six coordinates of the gradient against central differences. */
static void compare_slopes(sosmc_host *h, double *theta, double *x, int dim, double *moved, const double *gradient,
                           double step)
{
    for (int j = 0; j < dim; j += 1 + dim / 6) {
        double kept = moved[j], up, down, width;
        moved[j] = kept + step;
        width = moved[j];
        up = energy_at(h, theta, x);
        moved[j] = kept - step;
        width -= moved[j];
        down = energy_at(h, theta, x);
        moved[j] = kept;
        assert_near((up - down) / width, gradient[j], 1e-6 * (1 + fabs(gradient[j]) + fabs(up) * 1e-5 / step));
    }
}

/* The scores of one particle are its gradient in theta. */
static void compare_scores(sosmc_host *h, int p, const double *x, const double *g)
{
    double *D = malloc((size_t)p * sizeof *D);
    assert_non_null(D);
    assert_int_equal(sosmc_host_scores(h, 1, x, D), SOSMC_OK);
    for (int j = 0; j < p; j++) assert_close(D[j], g[j], 1e-12);
    free(D);
}

void expect_gradients(const sosmc_model *m, double *theta, double *x, double step_theta, double step_x)
{
    const double one = 1;
    sosmc_host *h = NULL;
    double *gx = calloc((size_t)m->dim_x + (size_t)m->dim_theta, sizeof *gx);
    assert_non_null(gx);
    double *g = gx + m->dim_x;
    assert_int_equal(sosmc_host_create(&h, m, theta, 0), SOSMC_OK);
    assert_int_equal(sosmc_host_gradients(h, 1, x, NULL, gx), SOSMC_OK);
    assert_int_equal(sosmc_host_contract(h, 1, x, &one, g), SOSMC_OK);
    compare_slopes(h, theta, x, m->dim_x, x, gx, step_x);
    compare_slopes(h, theta, x, m->dim_theta, theta, g, step_theta);
    assert_int_equal(sosmc_host_move(h, theta), SOSMC_OK);
    compare_scores(h, m->dim_theta, x, g);
    sosmc_host_free(h);
    free(gx);
}
