/* coordinates.c: the coordinates in which one half of the particles of a pass moves, fitted on the other half.
 *
 *     C C' = E[g g'],  g = dV_t/dx          (without gradients: the inverse of the covariance of x)
 *
 * which measures the width of the modes and not the distance between them. A matrix fitted on the particles that it moves would not
 * leave their law as it is (maths.md TEMPER). On the way to a law that is tilted by a reward, whose gradient nobody knows, the slopes
 * are what a line fitted in the same manner leaves of them. Above LAW_FULL coordinates, and where the particles are few, C is a
 * diagonal. */
#include <math.h>
#include <string.h>

#include "base/linear.h"
#include "pass_run.h"

/* A half of the particles, as what is summed over it. */
typedef struct {
    const pass_run *s;
    int first, end;
    double weight, ess;
} half;

static half other_half(const pass_run *s, int of)
{
    half h = {.s = s, .first = of == 0 && s->cut < s->p->n ? s->cut : 0, .end = of == 0 ? s->p->n : s->cut};
    double squares = 0;
    for (int i = h.first; i < h.end; i++) {
        h.weight += s->p->w[i];
        squares += s->p->w[i] * s->p->w[i];
    }
    h.ess = squares > 0 ? h.weight * h.weight / squares : 0;
    return h;
}

static size_t place_of(const pass_run *s, int i, size_t j)
{
    return (size_t)(i / s->h.tile) * s->h.vector + j * (size_t)s->h.ld + (size_t)(i % s->h.tile);
}

/* Coordinate j of what is squared: the slope at the present temperature, or the place. pull: of the half that is fitted. */
static double value_at(const pass_run *s, const double *pull, int i, size_t j)
{
    size_t at = place_of(s, i, j);
    if (!s->gradient) return s->p->x[at];
    if (pull) return s->gU[at] - (pull[2 * j] + pull[2 * j + 1] * s->p->x[at]);
    return (1 - s->t) * s->gq[at] + s->t * s->gU[at];
}

/* a + b x_j, the line that stands for t/beta dR/dx_j: under the law itself E[dV/dx_j] = 0 and E[(x_j - E x_j) dV/dx_j] = 1 by parts, so
 * that E[dU/dx_j] and its covariance with x_j tell both numbers. */
static void fit_line(const half *h, size_t j, double line[2])
{
    const pass_run *s = h->s;
    double place = 0, slope = 0, both = 0, square = 0;
    for (int i = h->first; i < h->end; i++) {
        double w = s->p->w[i] / h->weight;
        size_t at = place_of(s, i, j);
        if (!(w > 0)) continue;
        place += w * s->p->x[at];
        slope += w * s->gU[at];
    }
    for (int i = h->first; i < h->end; i++) {
        double w = s->p->w[i] / h->weight;
        size_t at = place_of(s, i, j);
        if (!(w > 0)) continue;
        both += w * (s->p->x[at] - place) * (s->gU[at] - slope);
        square += w * (s->p->x[at] - place) * (s->p->x[at] - place);
    }
    line[1] = square > 0 ? (both - 1) / square : 0;
    line[0] = slope - line[1] * place;
    if (!isfinite(line[0]) || !isfinite(line[1])) line[0] = line[1] = 0;
}

/* The lower triangle, or the diagonal, of the weighted second moments; about the mean where these are places. */
static void moments(const half *h, int diagonal, const double *pull, double *row, double *mean, double *out)
{
    const pass_run *s = h->s;
    size_t dim = (size_t)s->p->dim;
    memset(out, 0, (diagonal ? dim : dim * dim) * sizeof(double));
    memset(mean, 0, dim * sizeof(double));
    for (int i = h->first; i < h->end && !s->gradient; i++)
        for (size_t j = 0; j < dim; j++) mean[j] += s->p->w[i] / h->weight * value_at(s, pull, i, j);
    for (int i = h->first; i < h->end; i++) {
        double w = s->p->w[i] / h->weight;
        if (!(w > 0)) continue;
        for (size_t j = 0; j < dim; j++) row[j] = value_at(s, pull, i, j) - mean[j];
        for (size_t j = 0; j < dim; j++) {
            double a = w * row[j];
            if (diagonal) {
                out[j] += a * row[j];
                continue;
            }
            for (size_t k = 0; k <= j; k++) out[j * dim + k] += a * row[k];
        }
    }
}

/* Correlations are shrunk by the share of their squares that chance would give: all of them, where there are none. Returns what is left
 * of them. */
static double shrink(size_t dim, double ess, double *M)
{
    double squares = 0, chance = 0.5 * (double)dim * (double)(dim - 1) / ess;
    for (size_t j = 0; j < dim; j++)
        for (size_t k = 0; k < j; k++) {
            double both = M[j * dim + j] * M[k * dim + k];
            if (both > 0) squares += M[j * dim + k] * M[j * dim + k] / both;
        }
    double keep = squares > chance ? 1 - chance / squares : 0;
    for (size_t j = 0; j < dim; j++)
        for (size_t k = 0; k < j; k++) M[j * dim + k] *= keep;
    return keep;
}

/* The diagonal is loaded where the particles are few. -1: it is not positive. */
static int load_diagonal(size_t dim, int diagonal, double load, double *M)
{
    for (size_t j = 0; j < dim; j++) {
        double *d = &M[diagonal ? j : j * dim + j];
        *d *= 1 + load;
        if (!(*d > 0) || !isfinite(*d)) return -1;
    }
    return 0;
}

/* The factor C of second moments of slopes, or of the inverse of a covariance; `spare`: room for a matrix. */
static int factor(size_t dim, int diagonal, int inverted, double *M, double *spare)
{
    for (size_t j = 0; j < dim && diagonal; j++) M[j] = inverted ? 1 / sqrt(M[j]) : sqrt(M[j]);
    if (diagonal) return 0;
    if (sosmc_i_cholesky(dim, M)) return -1;
    if (!inverted) return 0;
    sosmc_i_cholesky_inverse(dim, M, spare);
    memcpy(M, spare, dim * dim * sizeof(double));
    return sosmc_i_cholesky(dim, M);
}

void sosmc_i_pass_fit(pass_run *s, int of)
{
    size_t dim = (size_t)s->p->dim;
    half h = other_half(s, of);
    int diagonal = s->p->dim > LAW_FULL || h.ess < 1.5 * (double)dim;
    double *M = s->fit, *pull = s->leg > 0 ? s->pull[of] : NULL, load = 0;
    if (pull) memset(pull, 0, 2 * dim * sizeof(double));
    if (!(h.weight > 0)) return;
    for (size_t j = 0; j < dim && pull; j++) fit_line(&h, j, pull + 2 * j);
    moments(&h, diagonal, pull, s->fit_rows, s->fit_rows + dim, M);
    if (!diagonal) load = fmin(1, (double)dim / (2 * h.ess)) * shrink(dim, h.ess, M) + 1e-3;
    if (load_diagonal(dim, diagonal, load, M) || factor(dim, diagonal, !s->gradient, M, s->spare_matrix)) return;
    memcpy(s->own[of].C, M, (diagonal ? dim : dim * dim) * sizeof(double));
    s->own[of].diagonal = diagonal;
    for (size_t j = 0; j < dim; j++) s->inverse[of][j] = 1 / s->own[of].C[diagonal ? j : j * dim + j];
}
