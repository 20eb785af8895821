/* theta.c: theta from the sums of the tail (maths.md GROUPS, NEWTON).
 *
 *     theta^ = mean theta - H^-1 mean g,      V = (16/15) sum_c T_c T_c' / n^2 (all groups that there were),
 *     Cov(theta^) = H^-1 V H^-1 + sum_b r_b r_b' / (B (B - 1)),   r_b = H^-1 (H_b - H) H^-1 g,
 *
 * with n the iterations that the observations stand for and H_b the means of H over B parts of them: the last term is the error of
 * H times the Newton step. V has rank 15; nothing inverts it, and its quadratic forms are sums of squares. H^-1 leaves out directions
 * along which the loss is flat, such as adding a number to all logits of a softmax. */
#include "theta.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/linear.h"

static double square(double x) { return x * x; }

static void mean_hessian(theta_estimate *e, const watch_sums *tail)
{
    size_t p = (size_t)e->dim;
    double weight = 0;
    for (int b = 0; b < WATCH_BLOCKS; b++) {
        weight += tail->H_weight[b];
        for (size_t k = 0; k < p * p; k++) e->H[k] += tail->H[(size_t)b * p * p + k];
    }
    for (size_t k = 0; k < p * p; k++) e->H[k] = weight > 0 ? e->H[k] / weight : NAN;
}

/* y^T (scaled matrix) y for one eigenvector. */
static double form(size_t p, const double *H, double weight, const double *unit, const double *v)
{
    double sum = 0;
    for (size_t j = 0; j < p; j++) {
        double row = 0;
        for (size_t k = 0; k < p; k++) row += H[j * p + k] / (unit[j] * unit[k]) * v[k];
        sum += v[j] * row;
    }
    return sum / weight;
}

/* The standard error of an eigenvalue, from the parts of the Hessians. */
static double eigen_error(const theta_estimate *e, const watch_sums *tail, const double *unit, const double *v,
                          double value)
{
    size_t p = (size_t)e->dim;
    double parts = 0, sum = 0;
    for (int b = 0; b < WATCH_BLOCKS; b++) {
        if (!(tail->H_weight[b] > 0)) continue;
        sum += square(form(p, tail->H + (size_t)b * p * p, tail->H_weight[b], unit, v) - value);
        parts++;
    }
    return parts > 1 ? sqrt(sum / (parts * (parts - 1))) : 0;
}

/* What a direction that H does not resolve may hide of the loss, per unit of length: the gradient along it, and twice its error. */
static double hidden(const theta_estimate *e, const watch_sums *tail, const double *unit, const double *v)
{
    size_t p = (size_t)e->dim;
    double n = tail->head[HEAD_WEIGHT], slope = 0, variance = 0;
    for (size_t j = 0; j < p; j++) slope += v[j] * tail->grad[j] / (n * unit[j]);
    for (size_t c = 0; c < SOSMC_GROUPS; c++) {
        double along = 0;
        for (size_t j = 0; j < p; j++) along += v[j] * tail->T[c * p + j] / (n * unit[j]);
        variance += SOSMC_GROUPS / (SOSMC_GROUPS - 1.0) * along * along;
    }
    for (size_t j = 0; j < p; j++)
        for (size_t k = 0; k < p; k++)
            variance += SOSMC_GROUPS / (SOSMC_GROUPS - 1.0) * v[j] * v[k] * tail->V[j * p + k] /
                        (n * n * unit[j] * unit[k]);
    return 0.5 * (fabs(slope) + 2 * sqrt(fmax(variance, 0)));
}

static void note_unresolved(theta_estimate *e, const watch_sums *tail, const double *unit, const double *v)
{
    size_t p = (size_t)e->dim;
    double hides = hidden(e, tail, unit, v), most = 0;
    e->unresolved++;
    for (size_t j = 0; j < p; j++)
        e->mc_error[j] += square(v[j] / unit[j]); /* a unit of length: it is not known better */
    if (!(hides > e->hides)) return;
    e->hides = hides;
    for (size_t j = 0; j < p; j++)
        if (fabs(v[j]) > most) {
            most = fabs(v[j]);
            e->hides_where = (int)j;
        }
}

/* H^-1, by eigenvectors in units of the standard deviations of D: one unit changes the law of the particles by about one standard
 * deviation. work: 2 p^2 + 2 p doubles. Returns 1 where an eigenvalue is negative, or none is positive. */
static int invert(theta_estimate *e, const watch_sums *tail, double *work)
{
    const double flat = 1e-6, errors = 3;
    size_t p = (size_t)e->dim;
    int resolved = 0;
    double *scaled = work, *vectors = scaled + p * p, *values = vectors + p * p, *unit = values + p, weight = 0;
    for (int b = 0; b < WATCH_BLOCKS; b++) weight += tail->H_weight[b];
    for (size_t j = 0; j < p; j++) {
        double size = tail->fisher[j] > 0 ? tail->fisher[j] / weight : fabs(e->H[j * p + j]);
        unit[j] = size > 0 ? sqrt(size) : 1;
    }
    for (size_t j = 0; j < p; j++)
        for (size_t k = 0; k < p; k++) scaled[j * p + k] = e->H[j * p + k] / (unit[j] * unit[k]);
    if (sosmc_i_eigen(p, scaled, values, vectors)) return 1;
    for (size_t m = 0; m < p; m++) {
        const double *v = vectors + m * p;
        double error = errors * eigen_error(e, tail, unit, v, values[m]);
        if (fabs(values[m]) <= flat * fabs(values[p - 1])) {
            e->flat++;
            continue;
        }
        if (values[m] < -error) return 1;
        if (values[m] <= error) {
            note_unresolved(e, tail, unit, v);
            continue;
        }
        resolved++;
        for (size_t j = 0; j < p; j++)
            for (size_t k = 0; k < p; k++) e->inverse[j * p + k] += v[j] * v[k] / (values[m] * unit[j] * unit[k]);
    }
    return resolved == 0;
}

/* Adds the error of H along the step to the squared errors. work: 2 dim doubles. */
static void add_hessian_error(theta_estimate *e, const watch_sums *tail, double *work)
{
    size_t p = (size_t)e->dim;
    double parts = 0, *r = work + p;
    for (int b = 0; b < WATCH_BLOCKS; b++) parts += tail->H_weight[b] > 0;
    for (int b = 0; b < WATCH_BLOCKS && parts > 1; b++) {
        if (!(tail->H_weight[b] > 0)) continue;
        const double *H = tail->H + (size_t)b * p * p;
        for (size_t j = 0; j < p; j++) {
            work[j] = 0;
            for (size_t k = 0; k < p; k++) work[j] += (H[j * p + k] / tail->H_weight[b] - e->H[j * p + k]) * e->step[k];
        }
        sosmc_i_matrix_vector(p, e->inverse, work, r);
        for (size_t j = 0; j < p; j++) e->mc_error[j] += r[j] * r[j] / (parts * (parts - 1));
    }
}

static void find_errors(theta_estimate *e, const watch_sums *tail, double *work)
{
    size_t p = (size_t)e->dim;
    double n = tail->head[HEAD_WEIGHT], scale = SOSMC_GROUPS / (SOSMC_GROUPS - 1.0) / (n * n);
    for (size_t c = 0; c < SOSMC_GROUPS; c++) {
        const double *T = tail->T + c * p;
        sosmc_i_matrix_vector(p, e->inverse, T, work);
        for (size_t j = 0; j < p; j++) {
            e->mc_error[j] += scale * square(work[j]);
            e->expected += 0.5 * scale * work[j] * T[j];
        }
    }
    for (size_t j = 0; j < p; j++) { /* groups that were cut anew on the way */
        sosmc_i_matrix_vector(p, tail->V, e->inverse + j * p, work);
        for (size_t k = 0; k < p; k++) {
            e->mc_error[j] += scale * e->inverse[j * p + k] * work[k];
            e->expected += 0.5 * scale * e->inverse[j * p + k] * tail->V[j * p + k];
        }
    }
    add_hessian_error(e, tail, work);
    for (size_t j = 0; j < p; j++) e->mc_error[j] = sqrt(fmax(e->mc_error[j], 0));
}

sosmc_status sosmc_i_theta_estimate(theta_estimate *e, int dim, const watch_sums *tail, double longest)
{
    size_t p = (size_t)dim;
    double n = tail->head[HEAD_WEIGHT];
    double *memory = calloc(11 * p + 4 * p * p, sizeof *memory);
    *e = (theta_estimate){.dim = dim, .newton = NAN, .memory = memory};
    if (!memory) return SOSMC_ENOMEM;
    e->theta = memory;
    e->mean = e->theta + p;
    e->mc_error = e->mean + p;
    e->step = e->mc_error + p;
    double *grad = e->step + p, *work = grad + p;
    e->H = work + 3 * p;
    e->inverse = e->H + p * p;
    double *eigen = e->inverse + p * p;
    e->renewals = (int64_t)tail->head[HEAD_RENEWALS];
    for (size_t j = 0; j < p; j++) {
        e->theta[j] = e->mean[j] = tail->theta[j] / n;
        grad[j] = tail->grad[j] / n;
    }
    mean_hessian(e, tail);
    for (size_t k = 0; k < p * p; k++)
        if (!isfinite(e->H[k])) return SOSMC_OK;
    if (invert(e, tail, eigen)) return SOSMC_OK;
    e->definite = 1;
    sosmc_i_matrix_vector(p, e->inverse, grad, e->step);
    e->newton = 0;
    for (size_t j = 0; j < p; j++) e->newton += 0.5 * e->step[j] * grad[j];
    find_errors(e, tail, work);
    e->newton_taken = e->newton <= longest;
    for (size_t j = 0; e->newton_taken && j < p; j++) e->theta[j] = e->mean[j] - e->step[j];
    return SOSMC_OK;
}

void sosmc_i_theta_free(theta_estimate *e)
{
    free(e->memory);
    e->memory = NULL;
}
