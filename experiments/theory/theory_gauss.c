/* theory_gauss.c: the correlated Gaussian of theory_gauss.h. Invariant: the law has the same Z at every theta, so that a ratio of
 * densities is a difference of energies. */
#include "theory_gauss.h"

#include <math.h>
#include <stdlib.h>

#include "terminal/interrupt.h"
#include "terminal/say.h"
#include "theory_runs.h"

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const theory_gauss *g = self;
    const double rho = g->rho, inverse = 1 / (1 - rho * rho);
    for (int i = 0; i < b->n; i++) {
        double e = b->x[i] - theta[0];
        U[i] = 0.5 * e * e;
        if (gx) gx[i] = e;
    }
    for (int j = 1; j < b->dim; j++) {
        const double *x = b->x + (ptrdiff_t)j * b->ld, *before = x - b->ld;
        for (int i = 0; i < b->n; i++) {
            double r = (x[i] - theta[j] - rho * (before[i] - theta[j - 1])) * inverse;
            U[i] += 0.5 * r * r / inverse;
            if (gx) {
                gx[(ptrdiff_t)j * b->ld + i] = r;
                gx[(ptrdiff_t)(j - 1) * b->ld + i] -= rho * r;
            }
        }
    }
    return 0;
}

/* dU/dtheta = -S^-1 (x - theta); the residual of coordinate j enters at j and at j - 1. */
static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *out)
{
    const theory_gauss *g = self;
    const double rho = g->rho, inverse = 1 / (1 - rho * rho);
    for (int j = 0; j < b->dim; j++) {
        const double *x = b->x + (ptrdiff_t)j * b->ld;
        double sum = 0;
        for (int i = 0; i < b->n; i++) {
            double e = x[i] - theta[j];
            sum += c[i] * (j == 0 ? e : (e - rho * (x[i - b->ld] - theta[j - 1])) * inverse);
        }
        out[j] -= sum;
        if (j > 0) out[j - 1] += rho * sum;
    }
    return 0;
}

static int draw(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    const theory_gauss *g = self;
    const double own = sqrt(1 - g->rho * g->rho);
    sosmc_normals(rng, b, x);
    for (int j = 1; j < b->dim; j++)
        for (int i = 0; i < b->n; i++) {
            double *here = x + (ptrdiff_t)j * b->ld + i;
            *here = g->rho * here[-b->ld] + own * *here;
        }
    return 0;
}

double theory_gauss_norm2(const theory_gauss *g, const double *v)
{
    double sum = v[0] * v[0];
    for (int j = 1; j < g->dim; j++) {
        double r = v[j] - g->rho * v[j - 1];
        sum += r * r / (1 - g->rho * g->rho);
    }
    return sum;
}

/* theta <- theta - lr * gradient, with the given gradient instead of the estimate. */
static void told_step(const sosmc_optimiser *o, int64_t k, int dim, const double *g, double *theta, double *slots)
{
    const double *gradient = o->self;
    for (int j = 0; j < dim; j++) theta[j] -= o->lr * gradient[j];
}

int theory_moving_make(arena *memory, theory_moving *m, int dim, double rho)
{
    *m = (theory_moving){.law = {.dim = dim, .rho = rho}, .gradient = arena_doubles(memory, dim)};
    for (int j = 0; m->gradient && j < dim; j++) m->gradient[j] = cos(1.0 + j);
    return m->gradient ? 0 : -1;
}

sosmc_settings theory_moving_settings(const theory_moving *m, sosmc_kernel kernel, int particles, double gamma,
                                      uint64_t seed)
{
    const sosmc_optimiser told = {.name = "told", .lr = gamma, .self = m->gradient, .step = told_step};
    return theory_settings(particles, 0.5, kernel, told, seed);
}

static double spread(const sosmc *engine, int dim)
{
    const int n = sosmc_particles(engine);
    double *x = malloc((size_t)n * (size_t)dim * sizeof *x), *w = malloc((size_t)n * sizeof *w), mean = 0, square = 0;
    if (x && w && sosmc_cloud(engine, x, w) == SOSMC_OK) {
        for (int i = 0; i < n; i++) mean += exp(w[i]) * x[i * dim];
        for (int i = 0; i < n; i++) square += exp(w[i]) * (x[i * dim] - mean) * (x[i * dim] - mean);
    } else
        square = NAN;
    free(x);
    free(w);
    return sqrt(square);
}

int theory_moving_run(theory_statement *s, const theory_moving *m, const sosmc_settings *c, int iterations,
                      sosmc_observer see, void *ctx, sosmc_info *last, double *sd)
{
    const theory_gauss *g = &m->law;
    sosmc_problem problem = {
        .model = {.dim_x = g->dim, .dim_theta = g->dim, .self = g, .energy = energy, .grad_theta = grad_theta},
        .objective = sosmc_mmle(),
        .init = {.self = g, .draw = draw, .exact = 1}};
    sosmc *engine = NULL;
    sosmc_status status = sosmc_create(&engine, &problem, c);
    if (status == SOSMC_OK) status = sosmc_run(engine, iterations, see, ctx);
    if (status == SOSMC_OK && last) *last = *sosmc_last(engine);
    if (status == SOSMC_OK && sd) *sd = spread(engine, g->dim);
    int code = SOSMC_EXIT_OK;
    if (status != SOSMC_OK || interrupt_requested())
        code = theory_fail(s, SOSMC_EXIT_NUMERIC, "a run with %s failed: %s", c->kernel.name, sosmc_message(engine));
    sosmc_free(engine);
    return code;
}
