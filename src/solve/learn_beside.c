/* learn_beside.c: what simple laws make of the same points (docs/trust.md): a normal law and a mixture of normal laws, fitted to the rows that
 * steer. A network that stays far behind them at rows that do not steer has not learnt the shape of its points, whatever its search says. */
#include <math.h>
#include <stdlib.h>

#include "base/linear.h"
#include "solve_inside.h"

enum { PARTS_BESIDE = 10, FEWEST_ROWS = 20, ROWS_PER_COORDINATE = 5 };

/* How much larger the law's log-density is than the network's, whose log Z is given, at the rows that do not steer: mean and its error. */
static sosmc_status compare(sosmc_solver *s, const laws *q, double log_z, double *behind, double *error)
{
    double *work = aligned_alloc(64, sosmc_i_round_up(LAW_WORK * (size_t)s->dim, TILE_LANES) * sizeof *work);
    double n = 0, mean = 0, square = 0;
    if (!work) return SOSMC_ENOMEM;
    for (int tile = 0; tile < s->check_tiles; tile++) {
        sosmc_batch b = sosmc_i_learn_batch(s, 0, s->fit_tiles + tile);
        double *L = host_room(&s->data, 0);
        s->code->energies(q, b.n, b.ld, b.x, L, NULL, work);
        for (int i = 0; i < b.n; i++) {
            double more = s->data_U[b.first + i] + log_z - L[i], away = more - mean;
            mean += away / ++n;
            square += away * (more - mean);
        }
    }
    free(work);
    *behind = mean;
    *error = sqrt(square / (n * (n - 1)));
    return SOSMC_OK;
}

/* Mean and covariance as they are, so that a thin law is thin; none where points are few, or lie in a plane. */
static sosmc_status fit_normal(laws *q, int64_t n, const double *x)
{
    size_t dim = (size_t)q->dim;
    double *mean = calloc(dim * (1 + dim), sizeof *mean);
    if (!mean) return SOSMC_ENOMEM;
    double *L = mean + dim;
    for (int64_t i = 0; i < n; i++)
        for (size_t j = 0; j < dim; j++) mean[j] += x[(size_t)i * dim + j] / (double)n;
    for (int64_t i = 0; i < n; i++)
        for (size_t j = 0; j < dim; j++)
            for (size_t k = 0; k <= j; k++)
                L[j * dim + k] += (x[(size_t)i * dim + j] - mean[j]) * (x[(size_t)i * dim + k] - mean[k]) /
                                  (double)(n - 1);
    int rc = n >= ROWS_PER_COORDINATE * (int64_t)dim && sosmc_i_cholesky(dim, L) == 0 &&
             sosmc_i_laws_add(q, 1, 0, mean, L);
    free(mean);
    return rc ? SOSMC_ENOMEM : SOSMC_OK;
}

/* Keeps the larger of two ways of being behind. */
static sosmc_status beside(sosmc_solver *s, laws *q, double log_z)
{
    double behind, error;
    if (q->count == 0) return SOSMC_OK; /* the points have no finite spread */
    sosmc_i_laws_close(q);
    sosmc_status status = compare(s, q, log_z, &behind, &error);
    if (status != SOSMC_OK || s->v.behind >= behind || !isfinite(behind)) return status;
    s->v.behind = behind;
    s->v.behind_error = error;
    return SOSMC_OK;
}

sosmc_status sosmc_i_learn_beside(sosmc_solver *s, double log_z)
{
    const sosmc_objective *o = &s->problem.objective;
    double ignored, *x;
    if (s->check_rows < FEWEST_ROWS || !isfinite(log_z) || o->a != -1 || o->b != 1) return SOSMC_OK;
    laws normal = {.dim = s->dim}, mixture = {.dim = s->dim};
    sosmc_status status = sosmc_i_learn_points(s, &x);
    if (status == SOSMC_OK) status = sosmc_i_learn_check(s, s->answer, &ignored);
    if (status == SOSMC_OK) status = fit_normal(&normal, s->fit_rows, x);
    if (status == SOSMC_OK) status = beside(s, &normal, log_z);
    if (status == SOSMC_OK && sosmc_i_fit_mixture(&mixture, PARTS_BESIDE, 1, 1, s->fit_rows, x, NULL))
        status = SOSMC_ENOMEM;
    if (status == SOSMC_OK) status = beside(s, &mixture, log_z);
    sosmc_i_laws_free(&normal);
    sosmc_i_laws_free(&mixture);
    free(x);
    return status;
}
