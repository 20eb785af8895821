/* modes.c: modes by L-BFGS (descend.c), curvature by central differences of dU/dx.
 *
 * Everything happens in the coordinates u with x = x0 + C^-T u, in which E[g g'] is the identity: steps and tolerances know no unit.
 * There the curvature H at a mode is (g(u + e) - g(u - e)) / 2e with e = 0.001. Laplace's approximation has the precision
 * C H C' = (C R)(C R)' with H = R R', and the mass -U + (dim/2) log 2 pi + log det of its scale.
 * Invariant: nothing depends on threads; the search is a sequence of single evaluations. */
#include "modes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/linear.h"
#include "descend.h"

enum { STEPS = 100 };
static const double LOG_2PI = 1.8378770664093454836, DIFFERENCE = 1e-3, NEGLIGIBLE = 50;

typedef struct {
    size_t dim;
    descent d;
    const preconditioner *c;
    double *H, *M;                  /* dim x dim */
    double *many, *many_g, *many_U; /* 2 dim rows of dim, likewise; 2 dim numbers */
} search;

/* Laplace's approximation at s->d.x: the factor of its scale into L, its log mass. Returns 1 where the curvature is not positive. */
static int curvature_at(search *s, double U, double *L, double *mass, sosmc_status *status)
{
    size_t dim = s->dim;
    for (size_t j = 0; j < dim; j++)
        for (int sign = 0; sign < 2; sign++) {
            double *at = s->many + (2 * j + (size_t)sign) * dim;
            memset(at, 0, dim * sizeof(double));
            at[j] = sign ? -DIFFERENCE : DIFFERENCE;
            sosmc_i_solve_lower_transposed(dim, s->c->C, at);
            for (size_t k = 0; k < dim; k++) at[k] += s->d.x[k];
        }
    *status = sosmc_host_gradients(s->d.host, 2 * (int64_t)dim, s->many, s->many_U, s->many_g);
    if (*status != SOSMC_OK || !sosmc_i_all_finite(2 * dim * dim, s->many_g)) return 1;
    for (size_t j = 0; j < 2 * dim; j++) sosmc_i_solve_lower(dim, s->c->C, s->many_g + j * dim);
    for (size_t j = 0; j < dim; j++)
        for (size_t k = 0; k <= j; k++) {
            double a = (s->many_g[2 * j * dim + k] - s->many_g[(2 * j + 1) * dim + k]) / (2 * DIFFERENCE);
            double b = (s->many_g[2 * k * dim + j] - s->many_g[(2 * k + 1) * dim + j]) / (2 * DIFFERENCE);
            s->H[j * dim + k] = 0.5 * (a + b);
        }
    if (sosmc_i_cholesky(dim, s->H)) return 1;
    for (size_t j = 0; j < dim; j++) /* M = C R, lower triangular */
        for (size_t k = 0; k < dim; k++) {
            s->M[j * dim + k] = 0;
            for (size_t i = k; i <= j && k <= j; i++) s->M[j * dim + k] += s->c->C[j * dim + i] * s->H[i * dim + k];
        }
    sosmc_i_cholesky_inverse(dim, s->M, L);
    if (sosmc_i_cholesky(dim, L)) return 1;
    for (size_t j = 0; j < dim; j++)
        for (size_t k = j + 1; k < dim; k++) L[j * dim + k] = 0;
    *mass = -U + 0.5 * ((double)dim * LOG_2PI + sosmc_i_cholesky_log_determinant(dim, L));
    return !isfinite(*mass);
}

/* Whether s->d.x is a mode that is known: closer than 1 + 0.1 dim standard deviations of it. */
static int known(const search *s, const modes *m)
{
    for (int k = 0; k < m->count; k++) {
        for (size_t j = 0; j < s->dim; j++) s->d.try_g[j] = s->d.x[j] - m->x[k][j];
        sosmc_i_solve_lower(s->dim, m->L[k], s->d.try_g);
        if (sqrt(sosmc_i_dot(s->dim, s->d.try_g, s->d.try_g)) < 1 + 0.1 * (double)s->dim) return 1;
    }
    return 0;
}

/* A mode that is far less likely than the best is only a trap. */
static void drop_negligible(modes *m)
{
    double best = -INFINITY;
    int kept = 0;
    for (int k = 0; k < m->count; k++) best = fmax(best, m->mass[k]);
    for (int k = 0; k < m->count; k++) {
        if (m->mass[k] < best - NEGLIGIBLE) {
            free(m->x[k]);
            continue;
        }
        m->x[kept] = m->x[k];
        m->L[kept] = m->L[k];
        m->mass[kept++] = m->mass[k];
    }
    m->count = kept;
}

static sosmc_status keep_mode(search *s, modes *m, double U)
{
    sosmc_status status = SOSMC_OK;
    double mass, *memory = malloc((1 + s->dim + s->dim * s->dim) * sizeof *memory);
    if (!memory) return SOSMC_ENOMEM;
    if (curvature_at(s, U, memory + s->dim, &mass, &status)) {
        free(memory);
        return status;
    }
    memcpy(memory, s->d.x, s->dim * sizeof(double));
    m->x[m->count] = memory;
    m->L[m->count] = memory + s->dim;
    m->mass[m->count++] = mass;
    return SOSMC_OK;
}

sosmc_status sosmc_i_modes_find(modes *m, const sosmc_model *model, const double *theta, const preconditioner *c, int n,
                                const double *starts)
{
    size_t dim = (size_t)model->dim_x;
    search s = {.dim = dim, .c = c};
    *m = (modes){.count = 0};
    if (c->diagonal || !c->gradient || dim > MODES_DIM) return SOSMC_OK;
    double *memory = calloc(2 * dim + 6 * dim * dim, sizeof *memory);
    if (!memory) return SOSMC_ENOMEM;
    s.H = memory;
    s.M = s.H + dim * dim;
    s.many = s.M + dim * dim;
    s.many_g = s.many + 2 * dim * dim;
    s.many_U = s.many_g + 2 * dim * dim;
    sosmc_status status = sosmc_i_descent_open(&s.d, model, theta);
    s.d.c = c;
    for (int k = 0; k < n && status == SOSMC_OK && m->count < MODES_MOST; k++) {
        double U;
        memcpy(s.d.x, starts + (size_t)k * dim, dim * sizeof(double));
        if (!sosmc_i_all_finite(dim, s.d.x) || sosmc_i_descend(&s.d, STEPS, &U, &status) || status != SOSMC_OK ||
            known(&s, m))
            continue;
        status = keep_mode(&s, m, U);
    }
    drop_negligible(m);
    sosmc_i_descent_close(&s.d);
    free(memory);
    return status;
}

void sosmc_i_modes_free(modes *m)
{
    for (int k = 0; k < m->count; k++) free(m->x[k]);
    m->count = 0;
}
