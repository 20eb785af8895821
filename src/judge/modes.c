/* modes.c: modes by L-BFGS, curvature by central differences of dU/dx.
 *
 * Everything happens in the coordinates u with x = x0 + C^-T u, in which E[g g'] is the identity: steps and tolerances know no unit.
 * There the curvature H at a mode is (g(u + e) - g(u - e)) / 2e with e = 0.001. Laplace's approximation has the precision
 * C H C' = (C R)(C R)' with H = R R', and the mass -U + (dim/2) log 2 pi + log det of its scale.
 * Invariant: nothing depends on threads; the search is a sequence of single evaluations. */
#include "modes.h"

#include <math.h>
#include <sosmc/analysis.h>
#include <stdlib.h>
#include <string.h>

#include "base/linear.h"

enum { MEMORY = 6, STEPS = 100, HALVINGS = 30 };
static const double LOG_2PI = 1.8378770664093454836, DIFFERENCE = 1e-3, NEGLIGIBLE = 50;

typedef struct {
    size_t dim;
    sosmc_host *host;
    const preconditioner *c;
    double *x, *g, *try_x, *try_g, *direction; /* points in x, gradients and directions in u */
    double *S, *Y, rho[MEMORY];                /* differences of u and g, MEMORY rows of dim each */
    double *H, *M;                             /* dim x dim */
    double *many, *many_g, *many_U;            /* 2 dim rows of dim, likewise; 2 dim numbers */
} search;

static double dot(size_t n, const double *a, const double *b)
{
    double sum = 0;
    for (size_t j = 0; j < n; j++) sum += a[j] * b[j];
    return sum;
}

/* U at x, and the gradient in u. */
static sosmc_status evaluate(search *s, const double *x, double *U, double *g)
{
    sosmc_status status = sosmc_host_gradients(s->host, 1, x, U, g);
    if (status == SOSMC_OK) sosmc_i_solve_lower(s->dim, s->c->C, g);
    return status;
}

static int all_finite(size_t n, const double *x)
{
    for (size_t j = 0; j < n; j++)
        if (!isfinite(x[j])) return 0;
    return 1;
}

/* direction = -(inverse Hessian of the last differences) g: the two loops of L-BFGS. */
static void find_direction(search *s, int64_t pairs)
{
    size_t dim = s->dim;
    double alpha[MEMORY] = {0};
    int64_t oldest = pairs > MEMORY ? pairs - MEMORY : 0;
    for (size_t j = 0; j < dim; j++) s->direction[j] = -s->g[j];
    for (int64_t k = pairs - 1; k >= oldest; k--) {
        const double *S = s->S + (size_t)(k % MEMORY) * dim, *Y = s->Y + (size_t)(k % MEMORY) * dim;
        alpha[k % MEMORY] = s->rho[k % MEMORY] * dot(dim, S, s->direction);
        for (size_t j = 0; j < dim; j++) s->direction[j] -= alpha[k % MEMORY] * Y[j];
    }
    if (pairs > 0) {
        const double *Y = s->Y + (size_t)((pairs - 1) % MEMORY) * dim;
        double scale = 1 / (s->rho[(pairs - 1) % MEMORY] * dot(dim, Y, Y));
        for (size_t j = 0; j < dim; j++) s->direction[j] *= scale;
    }
    for (int64_t k = oldest; k < pairs; k++) {
        const double *S = s->S + (size_t)(k % MEMORY) * dim, *Y = s->Y + (size_t)(k % MEMORY) * dim;
        double beta = s->rho[k % MEMORY] * dot(dim, Y, s->direction);
        for (size_t j = 0; j < dim; j++) s->direction[j] += S[j] * (alpha[k % MEMORY] - beta);
    }
}

/* From s->x with s->g: a step along the direction that lowers U enough. Returns 1 where there is none. */
static int line_search(search *s, double *U, double *length, sosmc_status *status)
{
    size_t dim = s->dim;
    double slope = dot(dim, s->g, s->direction), size = sqrt(dot(dim, s->direction, s->direction));
    double most = 10 * sqrt((double)dim) + 10;
    *length = size > most ? most / size : 1;
    if (!(slope < 0)) return 1;
    for (int k = 0; k < HALVINGS; k++, *length *= 0.5) {
        double value;
        for (size_t j = 0; j < dim; j++) s->try_x[j] = *length * s->direction[j];
        sosmc_i_solve_lower_transposed(dim, s->c->C, s->try_x);
        for (size_t j = 0; j < dim; j++) s->try_x[j] += s->x[j];
        *status = evaluate(s, s->try_x, &value, s->try_g);
        if (*status != SOSMC_OK) return 1;
        if (!(value <= *U + 1e-4 * *length * slope) || !all_finite(dim, s->try_g)) continue;
        *U = value;
        return 0;
    }
    return 1;
}

/* From the point in s->x to a minimum of U, which stays there. Returns 1 where the gradient did not vanish. */
static int descend(search *s, double *U, sosmc_status *status)
{
    size_t dim = s->dim;
    int64_t pairs = 0;
    *status = evaluate(s, s->x, U, s->g);
    if (*status != SOSMC_OK || !isfinite(*U) || !all_finite(dim, s->g)) return 1;
    for (int k = 0; k < STEPS && dot(dim, s->g, s->g) > 1e-10 * (double)dim; k++) {
        double length;
        find_direction(s, pairs);
        if (line_search(s, U, &length, status)) break;
        double *S = s->S + (size_t)(pairs % MEMORY) * dim, *Y = s->Y + (size_t)(pairs % MEMORY) * dim;
        for (size_t j = 0; j < dim; j++) {
            S[j] = length * s->direction[j];
            Y[j] = s->try_g[j] - s->g[j];
        }
        double curvature = dot(dim, S, Y);
        if (curvature > 1e-12 * dot(dim, Y, Y)) {
            s->rho[pairs % MEMORY] = 1 / curvature;
            pairs++;
        }
        memcpy(s->x, s->try_x, dim * sizeof(double));
        memcpy(s->g, s->try_g, dim * sizeof(double));
    }
    return !(dot(dim, s->g, s->g) < 0.01 * (double)dim);
}

/* Laplace's approximation at s->x: the factor of its scale into L, its log mass. Returns 1 where the curvature is not positive. */
static int curvature_at(search *s, double U, double *L, double *mass, sosmc_status *status)
{
    size_t dim = s->dim;
    for (size_t j = 0; j < dim; j++)
        for (int sign = 0; sign < 2; sign++) {
            double *at = s->many + (2 * j + (size_t)sign) * dim;
            memset(at, 0, dim * sizeof(double));
            at[j] = sign ? -DIFFERENCE : DIFFERENCE;
            sosmc_i_solve_lower_transposed(dim, s->c->C, at);
            for (size_t k = 0; k < dim; k++) at[k] += s->x[k];
        }
    *status = sosmc_host_gradients(s->host, 2 * (int64_t)dim, s->many, s->many_U, s->many_g);
    if (*status != SOSMC_OK || !all_finite(2 * dim * dim, s->many_g)) return 1;
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

/* Whether s->x is a mode that is known: closer than 1 + 0.1 dim standard deviations of it. */
static int known(const search *s, const modes *m)
{
    for (int k = 0; k < m->count; k++) {
        for (size_t j = 0; j < s->dim; j++) s->try_g[j] = s->x[j] - m->x[k][j];
        sosmc_i_solve_lower(s->dim, m->L[k], s->try_g);
        if (sqrt(dot(s->dim, s->try_g, s->try_g)) < 1 + 0.1 * (double)s->dim) return 1;
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
    memcpy(memory, s->x, s->dim * sizeof(double));
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
    double *memory = calloc((7 + 2 * MEMORY) * dim + 6 * dim * dim, sizeof *memory);
    if (!memory) return SOSMC_ENOMEM;
    s.x = memory;
    s.g = s.x + dim;
    s.try_x = s.g + dim;
    s.try_g = s.try_x + dim;
    s.direction = s.try_g + dim;
    s.S = s.direction + dim;
    s.Y = s.S + MEMORY * dim;
    s.H = s.Y + MEMORY * dim;
    s.M = s.H + dim * dim;
    s.many = s.M + dim * dim;
    s.many_g = s.many + 2 * dim * dim;
    s.many_U = s.many_g + 2 * dim * dim;
    sosmc_status status = sosmc_host_create(&s.host, model, theta, 0);
    for (int k = 0; k < n && status == SOSMC_OK && m->count < MODES_MOST; k++) {
        double U;
        memcpy(s.x, starts + (size_t)k * dim, dim * sizeof(double));
        if (!all_finite(dim, s.x) || descend(&s, &U, &status) || status != SOSMC_OK || known(&s, m)) continue;
        status = keep_mode(&s, m, U);
    }
    drop_negligible(m);
    sosmc_host_free(s.host);
    free(memory);
    return status;
}

void sosmc_i_modes_free(modes *m)
{
    for (int k = 0; k < m->count; k++) free(m->x[k]);
    m->count = 0;
}
