/* reweighed.c: all numbers of a reward from one pass whose weights go straight from the starting law to the model.
 *
 * Such a pass has draws wherever its law has them, also where the model has no mass: the same draws, weighed otherwise, are draws of the
 * reference and of the best of all densities, exp(-U_ref + R/beta). With v = U_ref - U, or U_ref - R/beta - U,
 *
 *     KL(model || the other) = E[v] + log E[exp(-v)],      log Z of the other = log Z + log E[exp(-v)]
 *
 * The divergence is not negative and has no noise where the two are the same, which makes the distance to the best density known far better
 * than either loss. */
#include <math.h>
#include <stdlib.h>

#include "base/table.h"
#include "numbers.h"

static const double USABLE = 0.5; /* the largest Pareto index of weights that are believed */

/* Another density, by the particles of the pass. */
typedef struct {
    double *v;     /* n numbers: the difference of the energies */
    double *share; /* n numbers: exp(-v) / E[exp(-v)] */
    double log_z;  /* relative to the model's */
    double divergence;
} other;

/* -1: too few particles carry its mass. work: 3 n doubles. */
static int take_other(const pass_cloud *p, other *a, double *work)
{
    double least = INFINITY, above = 0, sum = 0, squares = 0;
    for (int i = 0; i < p->n; i++) {
        int there = p->w[i] > 0;
        if (there && !isfinite(a->v[i]))
            return -1; /* where one has mass and the other none, or a reward is no number */
        work[i] = there ? sosmc_i_log1(NULL, p->w[i]) - a->v[i] : -INFINITY;
        if (!there) a->v[i] = 0;
        if (there) least = fmin(least, a->v[i]);
    }
    if (!isfinite(least)) return -1;
    for (int i = 0; i < p->n; i++) {
        int there = isfinite(work[i]);
        a->share[i] = there && least - a->v[i] > -700 ? sosmc_i_exp1(NULL, least - a->v[i]) : 0;
        sum += p->w[i] * a->share[i];
        if (there) above += p->w[i] * (a->v[i] - least); /* a reward that is the same everywhere leaves no rounding */
    }
    for (int i = 0; i < p->n; i++) {
        a->share[i] /= sum;
        squares += p->w[i] * a->share[i] * (p->w[i] * a->share[i]);
    }
    a->log_z = sosmc_i_log1(NULL, sum) - least;
    a->divergence = above + sosmc_i_log1(NULL, sum);
    double khat = sosmc_i_khat(p->n, work, work + p->n);
    return khat <= USABLE && sosmc_i_enough(p->n, 1 / squares) && isfinite(a->divergence) ? 0 : -1;
}

/* The mean of f with its error; of a density that is another one's, f has to be the influence of a particle. */
static sosmc_number number_of(const pass_cloud *p, double value, const double *influence)
{
    return (sosmc_number){.value = value, .error = sosmc_i_pass_error(p, influence, 0)};
}

static void fill(double beta, const pass_cloud *p, const other *ref, const other *best, double *f, sosmc_judgement *out)
{
    double best_reward = 0, ref_reward = 0;
    for (int i = 0; i < p->n; i++) {
        if (!(p->w[i] > 0)) continue;
        best_reward += p->w[i] * best->share[i] * p->R[i];
        ref_reward += p->w[i] * ref->share[i] * p->R[i];
    }
    double best_loss = -beta * (best->log_z - ref->log_z);
    out->reward = sosmc_i_reward_of(p);
    for (int i = 0; i < p->n; i++) f[i] = ref->v[i] + ref->share[i];
    out->kl = number_of(p, ref->divergence, f);
    for (int i = 0; i < p->n; i++) f[i] = beta * f[i] - p->R[i];
    out->loss = number_of(p, beta * ref->divergence - out->reward.value, f);
    for (int i = 0; i < p->n; i++) f[i] = beta * (best->v[i] + best->share[i]);
    out->excess = number_of(p, beta * best->divergence, f);
    for (int i = 0; i < p->n; i++) f[i] = beta * (ref->share[i] - best->share[i]);
    out->best_loss = number_of(p, best_loss, f);
    for (int i = 0; i < p->n; i++) f[i] = best->share[i] * (p->R[i] - best_reward);
    out->best_reward = number_of(p, best_reward, f);
    for (int i = 0; i < p->n; i++) f[i] = f[i] / beta + ref->share[i] - best->share[i];
    out->best_kl = number_of(p, (best_loss + best_reward) / beta, f);
    out->measured.excess = out->excess.value;
    out->measured.excess_error = out->excess.error;
    out->measured.to_gain = -ref_reward - best_loss;
}

int sosmc_i_reweighed(const sosmc_objective *o, const pass_cloud *p, sosmc_judgement *out)
{
    size_t n = (size_t)p->n;
    if (p->temperatures > 0 || !p->R || !p->Uref || !(o->kl > 0)) return -1;
    double *memory = malloc(7 * n * sizeof *memory);
    if (!memory) return -1; /* the numbers come from passes of their own */
    other ref = {.v = memory, .share = memory + n}, best = {.v = memory + 2 * n, .share = memory + 3 * n};
    double *work = memory + 4 * n;
    for (size_t i = 0; i < n; i++) {
        ref.v[i] = p->Uref[i] - p->U[i];
        best.v[i] = ref.v[i] - p->R[i] / o->kl;
    }
    int rc = take_other(p, &ref, work) || take_other(p, &best, work) ? -1 : 0;
    if (rc == 0) fill(o->kl, p, &ref, &best, work, out);
    free(memory);
    return rc;
}
