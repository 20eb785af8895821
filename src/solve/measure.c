/* measure.c: what is left of the loss at theta, and how well that is known (maths.md SOLVE).
 *
 * At the theta where the search ended a second cloud is started from nothing: fresh particles, which did not steer theta. Both clouds
 * then make rounds of moves at fixed theta, with coordinates that no longer change, and every group sums its gradients. Behind a stage
 * of rounds
 *
 *     H      Hessian of the loss, by differences of the gradient that the clouds see (look.c);
 *     V      covariance of the mean gradient, from the scatter of the groups;
 *     B      directions in which the Fisher matrix (plus H for likelihoods) is the identity and H a diagonal;
 *     step   Newton's, in the directions whose curvature is known, as far as the clouds see;
 *
 * and it ends when tr(H^-1 V)/2, the loss that the Monte Carlo error is worth, and what the step is still worth, are small enough. */
#include <math.h>

#include "base/linear.h"
#include "base/student.h"
#include "base/table.h"
#include "solve_inside.h"

enum { FIRST_ROUNDS = 8, MOST_ROUNDS = 512, STAGES = 20, MOST_MOVES_IN_ALL = 4000, SEEN = 5, CARRIERS = 20 };
enum { AGAIN_ROUNDS = 16 }; /* of clouds that are started again */
static const double SEES = 0.5, FEWEST_GROUPS = 2.5, LEAP = 5, FAR_GONE = 4;
/* Of a curvature: how far half the difference may change it; its relative error, where it makes standard errors. Of a step: how far it
 * may be off, in errors of theta. Of differences: the shortest. */
static const double BENT = 0.05, BLUNT = 0.04, OFF = 0.5, CLOSEST = 0.01;
enum { RUNS_AWAY = 3, DRIFTING_STAGES = 8, DOUBLINGS = 24 };

double sosmc_i_wanted(const sosmc_solver *s)
{
    const sosmc_objective *o = &s->problem.objective;
    double p = s->p, relative = s->o.precision;
    if (o->loss == SOSMC_LOSS_MMLE) return (relative > 0 ? 0.5 * relative * relative : 0.001) * p * o->scale;
    if (o->loss == SOSMC_LOSS_LIKELIHOOD) {
        double rows = o->data.rows > 0 ? (double)o->data.rows : 1000;
        double nats = relative > 0 ? 0.5 * relative * relative * p : fmin(0.01 * p, 0.02);
        return fmax(nats / rows, relative > 0 ? 0 : 1e-5 * p) * o->scale;
    }
    return relative > 0 ? relative : fmax(0.002 * s->v.decrease, 1e-9);
}

/* What a difference between clouds may be worth: one direction of many must not be wrong by half a standard error, whatever the sum is
 * worth. */
double sosmc_i_little(const sosmc_solver *s)
{
    return s->problem.objective.loss == SOSMC_LOSS_MMLE ? 0.005 * s->problem.objective.scale : sosmc_i_wanted(s);
}

/* ---------------------------------------------------------------------------- gradients of groups */

typedef struct {
    sosmc_solver *s;
    cloud *c;
    const shift *k;
    const double *coefficient;
    int slopes; /* also the sums of w g */
} summing;

static sosmc_status sum_tile(void *ctx, int tile, int worker)
{
    const summing *v = ctx;
    sosmc_solver *s = v->s;
    const sosmc_model *m = &s->problem.model;
    sosmc_batch b = sosmc_i_solver_batch(s, &s->at, worker, tile);
    double *sum = s->partial + (size_t)tile * s->row, *row = sosmc_i_solver_row(s, worker, ROW_ENERGY);
    b.x = tile_of(s, v->c->x, tile);
    memcpy(row, v->coefficient + b.first, (size_t)b.n * sizeof(double));
    memset(sum, 0, (size_t)s->p * sizeof(double));
    if (m->grad_theta(m->self, s->theta, &b, row, sum)) return SOSMC_EMODEL;
    for (int j = 0; v->slopes && j < s->dim; j++)
        sum[s->p + j] = sosmc_i_dot8(b.n, v->c->w + b.first, tile_of(s, v->c->g, tile) + (size_t)j * (size_t)b.ld);
    return SOSMC_OK;
}

static sosmc_status contract(sosmc_solver *s, cloud *c, const shift *k, const double *coefficient)
{
    summing v = {.s = s, .c = c, .k = k, .coefficient = coefficient, .slopes = k && k->active};
    s->v.contractions += s->n;
    return sosmc_i_parallel(s->helpers, sum_tile, &v, s->tiles);
}

/* Adds share times the gradient that each group sees to s->sums[which]; the groups' weighted mean is that of the whole cloud. */
static sosmc_status add_gradients(sosmc_solver *s, int which, double share)
{
    const sosmc_objective *o = &s->problem.objective;
    cloud *c = &s->c[which];
    const shift *k = &s->k[which];
    size_t p = (size_t)s->p;
    double sbar = 0, *mean = s->small, *data = mean + p;
    sosmc_status status = sosmc_i_solver_rewards(s, c);
    (void)sosmc_i_solver_weights(s, c, ALL);
    memset(mean, 0, 2 * p * sizeof(double));
    int scored = c->R || c->Uref;
    for (int i = 0; i < s->n; i++) {
        s->value[i] = c->w[i] > 0 ? (c->R ? c->R[i] : 0) + (c->Uref ? o->kl * (c->U[i] - c->Uref[i]) : 0) : 0;
        sbar += c->w[i] * s->value[i];
    }
    if (scored && status == SOSMC_OK) {
        status = contract(s, c, NULL, c->w);
        for (int tile = 0; tile < s->tiles; tile++)
            for (size_t j = 0; j < p; j++) mean[j] += s->partial[(size_t)tile * s->row + j];
    }
    double unused;
    if (status == SOSMC_OK && s->data_points > 0) {
        status = sosmc_i_data_draw(s);
        if (status == SOSMC_OK) status = sosmc_i_data_mean(s, s->theta, &unused, data);
        for (int g = 0; g < GROUPS && status == SOSMC_OK; g++) { /* random draws are split among the groups */
            double *sum = s->sums[which] + (size_t)g * p;
            double n = (double)s->data_share;
            for (size_t j = 0; j < p; j++) {
                double own = 0;
                for (int t = 0; s->data_shares > 1 && t < s->tiles_per_share; t++)
                    own += s->partial[(size_t)(g * s->tiles_per_share + t) * s->row + j] / n;
                sum[j] += share * o->scale * o->b * (s->data_shares > 1 ? own : data[j]);
            }
        }
    }
    for (int i = 0; i < s->n; i++) s->coefficient[i] = o->scale * c->w[i] * (s->value[i] - sbar + o->a);
    if (status == SOSMC_OK) status = contract(s, c, k, s->coefficient);
    if (status != SOSMC_OK) return status;
    for (int g = 0; g < GROUPS; g++) {
        double weight = 0, score = 0, *sum = s->sums[which] + (size_t)g * p;
        for (int i = g * s->group; i < (g + 1) * s->group; i++) {
            weight += c->w[i];
            score += c->w[i] * (s->value[i] - sbar);
        }
        s->group_w[which][g] = weight;
        if (!(weight > 0)) continue;
        for (int tile = g * s->tiles_per_group; tile < (g + 1) * s->tiles_per_group; tile++) {
            const double *part = s->partial + (size_t)tile * s->row;
            for (size_t j = 0; j < p; j++) sum[j] += share * part[j] / weight;
            for (int d = 0; k->active && d < s->dim; d++)
                for (size_t j = 0; j < p; j++)
                    sum[j] -= share * o->scale * o->a * k->K[0][(size_t)d * p + j] * part[p + (size_t)d] / weight;
        }
        for (size_t j = 0; j < p; j++) sum[j] -= share * o->scale * score * mean[j] / weight;
    }
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- Hessians */

/* Cov(D) into `F`, and of each parameter the effective number of particles that carry its variation, where that is smaller. */
static void note_fisher(sosmc_solver *s, const cloud *c, double *F, double *mean)
{
    size_t p = (size_t)s->p;
    memset(F, 0, p * p * sizeof(double));
    memset(mean, 0, p * sizeof(double));
    for (int i = 0; i < s->n; i++)
        for (size_t j = 0; j < p; j++) mean[j] += c->w[i] * s->D[(size_t)i * p + j];
    for (int i = 0; i < s->n; i++) {
        double *D = s->D + (size_t)i * p;
        for (size_t j = 0; j < p; j++) D[j] -= mean[j];
        for (size_t j = 0; j < p && c->w[i] > 0; j++)
            for (size_t k = 0; k <= j; k++) F[j * p + k] += c->w[i] * D[j] * D[k];
    }
    for (size_t j = 0; j < p; j++) {
        double first = 0, second = 0;
        for (int i = 0; i < s->n; i++) {
            double z = c->w[i] * fabs(s->D[(size_t)i * p + j]);
            first += z;
            second += z * z;
        }
        s->seen[j] = fmin(s->seen[j], first * first / fmax(second, 1e-300));
        for (size_t k = 0; k < j; k++) F[k * p + j] = F[j * p + k];
    }
}

/* Column j of the Hessian by a difference of length e, into `column`. */
static sosmc_status difference(sosmc_solver *s, look *l, size_t j, double e, double *column, double *low)
{
    size_t p = (size_t)s->p;
    memcpy(s->try_theta, s->theta, p * sizeof(double));
    s->try_theta[j] = s->theta[j] + e;
    sosmc_status status = sosmc_i_look(s, l, s->try_theta, column);
    s->try_theta[j] = s->theta[j] - e;
    if (status == SOSMC_OK) status = sosmc_i_look(s, l, s->try_theta, low);
    for (size_t k = 0; k < p; k++) column[k] = (column[k] - low[k]) / (2 * e);
    return status;
}

/* Adds a Hessian to the last slot, which is complete when it is the mean of v.each of them. Where all slots are full, neighbours are
 * merged, so that what a slot differs by from the mean holds the correlation in time. */
static void keep_hessian(sosmc_solver *s, const double *H)
{
    size_t all = (size_t)s->p * (size_t)s->p;
    if (s->v.hessians == HESSIANS) {
        for (size_t h = 0; h < HESSIANS / 2; h++)
            for (size_t k = 0; k < all; k++)
                s->hessian[h * all + k] = 0.5 * (s->hessian[2 * h * all + k] + s->hessian[(2 * h + 1) * all + k]);
        s->v.hessians /= 2;
        s->v.each *= 2;
    }
    double *slot = s->hessian + (size_t)s->v.hessians * all, first = s->v.partial == 0;
    for (size_t k = 0; k < all; k++) slot[k] = first ? H[k] : slot[k] + (H[k] - slot[k]) / (double)(s->v.partial + 1);
    if (++s->v.partial < s->v.each) return;
    s->v.hessians++;
    s->v.partial = 0;
}

static sosmc_status add_hessian(sosmc_solver *s, int which)
{
    cloud *c = &s->c[which];
    size_t p = (size_t)s->p;
    double *F = s->small + 2 * (size_t)s->dim, *mean = F + p * p, *low = mean + p, *H = low + p, most = 0;
    int wanted = s->p > 20 ? (int)fmax(256, s->n * 20.0 / s->p) : s->n, every = s->n / wanted;
    if (every < 1) every = 1;
    while (every > 1 && s->tiles / every < 4) every--;
    look l = {.c = c, .k = &s->k[which], .every = every, .phase = (int)s->v.fishers / 2 % every};
    (void)sosmc_i_solver_weights(s, c, ALL);
    double total = sosmc_i_log_sum(s->simd, s->n, c->logw, s->scratch);
    for (int i = 0; i < s->n; i++) s->lw[i] = c->logw[i] - total;
    sosmc_status status = sosmc_i_solver_rewards(s, c);
    if (status == SOSMC_OK) status = sosmc_i_data_draw(s);
    if (status == SOSMC_OK) status = sosmc_i_solver_scores(s, c);
    if (status != SOSMC_OK) return status;
    note_fisher(s, c, F, mean);
    for (size_t k = 0; k < p * p; k++) s->fisher[k] += F[k];
    if (uses_energy(s) && s->v.fishers == 0) status = sosmc_i_complete(s, c, F);
    for (size_t j = 0; j < p; j++) most = fmax(most, F[j * p + j]);
    for (size_t j = 0; j < p && status == SOSMC_OK; j++) {
        double own = F[j * p + j] + fmax(s->complete[j * p + j], 0);
        double e = s->v.closer * LENGTH_OF_DIFFERENCE / sqrt(fmax(own, 1e-12 * most + 1e-300));
        if (s->v.has_unit) e = fmin(e, 0.3 * s->unit[j]);
        status = difference(s, &l, j, e, H + j * p, low);
        if (status != SOSMC_OK || s->v.fishers > 0) continue;
        /* how far half the length changes it */
        look share = {.c = c, .k = &s->k[which], .every = sosmc_i_share(s), .particles_alone = 1};
        double *bend = s->bend + j * p, *half = mean;
        status = difference(s, &share, j, e, bend, low);
        if (status == SOSMC_OK) status = difference(s, &share, j, 0.5 * e, half, low);
        for (size_t k = 0; k < p; k++) bend[k] -= half[k];
    }
    if (status != SOSMC_OK) return status;
    for (size_t j = 0; j < p; j++)
        for (size_t k = 0; k < j; k++) H[j * p + k] = H[k * p + j] = 0.5 * (H[j * p + k] + H[k * p + j]);
    s->v.fishers++;
    keep_hessian(s, H);
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- the end of a stage */

typedef struct {
    sosmc_solver *s;
    size_t p, r, flat;  /* parameters, directions, and those that were left out: the last rows of B */
    double *B;          /* r rows of p */
    double *value, *sd; /* curvature along each, and its error */
    int *bad;           /* curvature not known */
    double *g, *v;      /* gradient and its variance along each */
    int entries;
    size_t entry[ENTRIES];
    double *step, *delta, *work, *M, *E;
} staging;

static double form(size_t p, const double *M, const double *a, double *work)
{
    sosmc_i_matrix_vector(p, M, a, work);
    return sosmc_i_dot(p, a, work);
}

static void means(sosmc_solver *s)
{
    size_t p = (size_t)s->p, count = (size_t)s->v.hessians;
    memset(s->H, 0, p * p * sizeof(double));
    for (size_t h = 0; h < count; h++)
        for (size_t k = 0; k < p * p; k++) s->H[k] += s->hessian[h * p * p + k] / (double)count;
    for (size_t k = 0; k < p * p; k++) s->fisher[k] /= (double)s->v.fishers;
}

/* The directions: rows of B with B' M B = 1 and B' H B diagonal. Returns -1 where no parameter is seen. */
static int find_directions(staging *t)
{
    sosmc_solver *s = t->s;
    const sosmc_objective *o = &s->problem.objective;
    int likelihood = o->loss == SOSMC_LOSS_MMLE;
    size_t p = t->p;
    double most = 0, *unit = t->work, *values = t->value;
    double length[SOSMC_SOLVE_PARAMETERS]; /* the unit, also where nothing is seen; 0 at a bound */
    int seen = 0;
    for (size_t j = 0; j < p; j++) most = fmax(most, s->fisher[j * p + j]);
    for (size_t j = 0; j < p; j++) {
        double own = s->fisher[j * p + j] + (likelihood ? fmax(s->H[j * p + j], 0) : 0);
        /* Where a parameter has ceased to matter, as a weight that has gone to zero does, it stays where it is. */
        double C = fmax(s->complete[j * p + j], 0), all = s->fisher[j * p + j] + C;
        int visible = (s->seen[j] >= SEEN || C > 0.5 * all) && all * 900 * s->unit[j] * s->unit[j] > 1;
        int held = s->o.low < s->o.high && (s->theta[j] <= s->o.low || s->theta[j] >= s->o.high);
        length[j] = held ? 0 : visible ? 1 / sqrt(fmax(own, 1e-12 * most + 1e-300)) : s->unit[j];
        unit[j] = visible ? length[j] : 0;
        seen += unit[j] > 0;
    }
    if (!seen) return -1;
    for (size_t j = 0; j < p; j++)
        for (size_t k = 0; k < p; k++)
            t->M[j * p + k] = (s->fisher[j * p + k] + (likelihood ? s->H[j * p + k] : 0)) * unit[j] * unit[k];
    if (sosmc_i_eigen(p, t->M, values, t->E)) return -1;
    t->r = t->flat = 0;
    for (size_t m = 0; m < p; m++) {
        if (!(values[m] > (likelihood ? 1e-9 : 1e-7) * values[p - 1])) {
            double *row = t->B + (p - 1 - t->flat) * p, size = 0;
            for (size_t j = 0; j < p; j++) size += fabs(row[j] = length[j] * t->E[m * p + j]);
            t->flat += likelihood && size > 0;
            continue;
        }
        for (size_t j = 0; j < p; j++) t->B[t->r * p + j] = unit[j] * t->E[m * p + j] / sqrt(values[m]);
        t->r++;
    }
    size_t r = t->r;
    double *HB = t->M; /* r x r below */
    for (size_t a = 0; a < r; a++) {
        sosmc_i_matrix_vector(p, s->H, t->B + a * p, t->E);
        for (size_t b = 0; b < r; b++) HB[a * r + b] = sosmc_i_dot(p, t->B + b * p, t->E);
    }
    for (size_t a = 0; a < r; a++)
        for (size_t b = 0; b < a; b++) HB[a * r + b] = HB[b * r + a] = 0.5 * (HB[a * r + b] + HB[b * r + a]);
    if (sosmc_i_eigen(r, HB, values, t->E)) return -1;
    for (size_t a = 0; a < r; a++) /* HB is spent: the new directions go there */
        for (size_t j = 0; j < p; j++) {
            double sum = 0;
            for (size_t b = 0; b < r; b++) sum += t->E[a * r + b] * t->B[b * p + j];
            t->M[a * p + j] = sum;
        }
    memcpy(t->B, t->M, r * p * sizeof(double));
    return 0;
}

/* Which curvatures are known: beyond three of their errors. */
static void find_known(staging *t)
{
    const sosmc_solver *s = t->s;
    size_t p = t->p, count = (size_t)s->v.hessians;
    double most = 0;
    for (size_t a = 0; a < t->r; a++) most = fmax(most, fabs(t->value[a]));
    for (size_t a = 0; a < t->r; a++) {
        double sum = 0;
        for (size_t h = 0; h < count; h++) {
            double away = form(p, s->hessian + h * p * p, t->B + a * p, t->work) - t->value[a];
            sum += away * away;
        }
        t->sd[a] = count > 1 ? sqrt(sum / ((double)count - 1) / (double)count) : INFINITY;
        t->bad[a] = t->value[a] < fmax(3 * t->sd[a], 1e-9 * most);
    }
    for (size_t a = t->r; t->flat > 0; a++, t->r++, t->flat--) { /* nothing is known there */
        memmove(t->B + a * p, t->B + (p - t->flat) * p, p * sizeof(double));
        t->value[a] = form(p, s->H, t->B + a * p, t->work);
        t->sd[a] = 0;
        t->bad[a] = 1;
    }
}

static int mostly(const staging *t, size_t a)
{
    const sosmc_solver *s = t->s;
    int where = 0;
    double most = -1;
    for (size_t j = 0; j < t->p; j++) {
        double own = s->fisher[j * t->p + j] + fmax(s->complete[j * t->p + j], 0);
        double size = fabs(t->B[a * t->p + j]) * sqrt(fmax(own, 1 / (s->unit[j] * s->unit[j])));
        if (size > most) {
            most = size;
            where = (int)j;
        }
    }
    return where;
}

/* Curvatures that are known, and not well: half the difference gives others, or they make standard errors and have a large error. */
static void note_curvatures(staging *t)
{
    sosmc_solver *s = t->s;
    findings *f = &s->v.found;
    f->bent = f->blunt = 0;
    for (size_t a = 0; a < t->r; a++) {
        if (t->bad[a]) continue;
        double bent = fabs(form(t->p, s->bend, t->B + a * t->p, t->work)) / t->value[a], blunt = t->sd[a] / t->value[a];
        if (bent > fmax(f->bent, BENT)) {
            f->bent = bent;
            f->bent_where = mostly(t, a);
        }
        if (uses_energy(s) && blunt > fmax(f->blunt, BLUNT)) {
            f->blunt = blunt;
            f->blunt_where = mostly(t, a);
        }
    }
}

/* What the clouds of now say, as the last two entries: the gradient, and the deviations of the groups from it, whose squares sum to
 * its variance. */
static void note_clouds(sosmc_solver *s)
{
    size_t p = (size_t)s->p;
    for (int which = 0; which < CLOUDS; which++) {
        size_t e = KEPT + (size_t)which;
        double total = 0, squares = 0, *g = s->entry_g + e * p, *d = s->entry_d + e * GROUPS * p;
        for (int k = 0; k < GROUPS; k++) total += s->group_w[which][k];
        for (int k = 0; k < GROUPS; k++) squares += s->group_w[which][k] * s->group_w[which][k] / (total * total);
        memset(g, 0, p * sizeof(double));
        for (size_t k = 0; k < GROUPS; k++)
            for (size_t j = 0; j < p; j++) g[j] += s->group_w[which][k] / total * s->sums[which][k * p + j];
        for (size_t k = 0; k < GROUPS; k++)
            for (size_t j = 0; j < p; j++)
                d[k * p + j] = s->group_w[which][k] / total * (s->sums[which][k * p + j] - g[j]) /
                               sqrt(fmax(1 - squares, 0.05));
        memcpy(s->entry_theta + e * p, s->theta, p * sizeof(double));
        s->v.group_ess[which] = 1 / squares;
    }
}

/* Whether a cloud of now enters the estimate: not where its groups have exchanged particles, or one of them has all the weight. */
static int counts(const sosmc_solver *s, int which)
{
    if (which == SEARCHED && s->v.kept == 0 && s->v.exchanges > 0) return 0;
    return s->v.group_ess[which] >= FEWEST_GROUPS;
}

/* The entries that make the estimate. */
static void find_entries(staging *t)
{
    const sosmc_solver *s = t->s;
    t->entries = 0;
    for (int k = 0; k < s->v.kept; k++) t->entry[t->entries++] = (size_t)k;
    for (int which = 0; which < CLOUDS; which++)
        if (counts(s, which)) t->entry[t->entries++] = KEPT + (size_t)which;
    if (t->entries == 0) t->entry[t->entries++] = KEPT + FRESH;
}

/* The gradient that entry e implies at s->theta, along direction a, and its variance. */
static double along(const staging *t, size_t e, size_t a, double *variance)
{
    const sosmc_solver *s = t->s;
    size_t p = t->p;
    const double *B = t->B + a * p, *theta = s->entry_theta + e * p;
    double sum = sosmc_i_dot(p, B, s->entry_g + e * p);
    *variance = 0;
    for (size_t k = 0; k < GROUPS; k++) {
        double away = sosmc_i_dot(p, B, s->entry_d + (e * GROUPS + k) * p);
        *variance += away * away;
    }
    for (size_t j = 0; e < KEPT && j < p; j++) { /* B' H is the curvature times B' M, but H itself serves as well */
        double row = 0;
        for (size_t k = 0; k < p; k++) row += s->H[j * p + k] * (s->theta[k] - theta[k]);
        sum += B[j] * row;
    }
    return sum;
}

/* Gradients along the directions and their variances, as sums of squares. */
static void project(staging *t)
{
    for (size_t a = 0; a < t->r; a++) {
        double n = t->entries, variance;
        t->g[a] = t->v[a] = 0;
        for (int k = 0; k < t->entries; k++) {
            t->g[a] += along(t, t->entry[k], a, &variance) / n;
            t->v[a] += variance / (n * n);
        }
    }
}

/* Each cloud against the others, the searched one against the fresh one at first: the direction in which one differs most, in errors, and
 * what that is worth. */
static void compare(staging *t, double eps)
{
    sosmc_solver *s = t->s;
    findings *f = &s->v.found;
    size_t entry[ENTRIES];
    int n = 0;
    double most = 0;
    for (int k = 0; k < s->v.kept; k++) entry[n++] = (size_t)k;
    for (int which = 0; which < CLOUDS; which++) entry[n++] = KEPT + (size_t)which;
    f->worst = -1;
    f->worst_limit = sosmc_i_student_quantile(1 - fmax(0.0025 / (double)(t->r > 0 ? t->r : 1) / (n - 1.0), 1e-6),
                                              2 * (GROUPS - 1));
    for (size_t a = 0; a < t->r; a++) {
        double g[ENTRIES], v[ENTRIES], sum = 0, variances = 0;
        for (int k = 0; k < n; k++) {
            g[k] = along(t, entry[k], a, &v[k]);
            sum += g[k];
            variances += v[k];
        }
        for (int k = 0; k < n; k++) {
            double others = n - 1, apart = g[k] - (sum - g[k]) / others, rest = (variances - v[k]) / (others * others);
            /* Groups that exchanged particles agree too well. */
            double own = entry[k] == KEPT + SEARCHED && s->v.kept == 0 && s->v.exchanges > 0 ? fmax(v[k], rest) : v[k];
            double variance = own + rest;
            double errors = fabs(apart) / sqrt(variance + 1e-6 * eps * fabs(t->value[a]) + 1e-300);
            double worth = t->bad[a] ? 0.1 * fabs(apart) : 0.125 * apart * apart / t->value[a];
            if (!(errors > f->worst_limit) || !(worth > most)) continue;
            most = worth;
            f->worst = mostly(t, a);
            double scale = t->bad[a] ? 1 : 1 / t->value[a];
            f->worst_step = apart * scale * t->B[a * t->p + (size_t)f->worst];
            f->worst_error = sqrt(variance) * fabs(scale * t->B[a * t->p + (size_t)f->worst]);
            f->worst_worth = worth;
        }
    }
}

/* The covariance of theta: of the mean gradient, of H along the step, and a unit of length where the curvature is not known. */
static void find_covariance(staging *t, const double *step)
{
    sosmc_solver *s = t->s;
    size_t p = t->p, count = (size_t)s->v.hessians;
    double *part = t->work, *r = part + t->r;
    memset(s->cov, 0, p * p * sizeof(double));
    memset(s->inverse, 0, p * p * sizeof(double));
    for (size_t a = 0; a < t->r; a++)
        for (size_t j = 0; j < p; j++)
            for (size_t k = 0; k < p; k++) {
                double outer = t->B[a * p + j] * t->B[a * p + k];
                if (t->bad[a])
                    s->cov[j * p + k] += 0.25 * outer;
                else
                    s->inverse[j * p + k] += outer / t->value[a];
            }
    double n = t->entries;
    for (int e = 0; e < t->entries; e++)
        for (size_t g = 0; g < GROUPS; g++) {
            memset(r, 0, p * sizeof(double));
            for (size_t a = 0; a < t->r; a++) {
                double away = t->bad[a] ? 0
                                        : sosmc_i_dot(p, t->B + a * p, s->entry_d + (t->entry[e] * GROUPS + g) * p) /
                                              t->value[a];
                for (size_t j = 0; j < p; j++) r[j] += away * t->B[a * p + j];
            }
            for (size_t j = 0; j < p; j++)
                for (size_t k = 0; k < p; k++) s->cov[j * p + k] += r[j] * r[k] / (n * n);
        }
    for (size_t h = 0; h < count && count > 1; h++) {
        for (size_t a = 0; a < t->r; a++) {
            part[a] = 0;
            if (t->bad[a]) continue;
            sosmc_i_matrix_vector(p, s->hessian + h * p * p, step, t->E);
            double of = sosmc_i_dot(p, t->B + a * p, t->E);
            sosmc_i_matrix_vector(p, s->H, step, t->E);
            part[a] = (of - sosmc_i_dot(p, t->B + a * p, t->E)) / t->value[a];
        }
        memset(r, 0, p * sizeof(double));
        for (size_t a = 0; a < t->r; a++)
            for (size_t j = 0; j < p; j++) r[j] += part[a] * t->B[a * p + j];
        for (size_t j = 0; j < p; j++)
            for (size_t k = 0; k < p; k++) s->cov[j * p + k] += r[j] * r[k] / ((double)count * ((double)count - 1));
    }
    for (size_t j = 0; j < p; j++) s->error[j] = sqrt(fmax(s->cov[j * p + j], 0));
}

/* The step is halved until both clouds see its end. `change`: how much the gradient changes along it. */
static sosmc_status shorten(sosmc_solver *s, double *delta, int *shortened, double *change)
{
    size_t p = (size_t)s->p;
    double gradient[SOSMC_SOLVE_PARAMETERS];
    for (int k = 0; k < 30; k++) {
        double least = 1;
        memset(change, 0, p * sizeof(double));
        for (int which = 0; which < CLOUDS; which++) {
            cloud *c = &s->c[which];
            look l = {.c = c, .k = &s->k[which], .every = 1};
            (void)sosmc_i_solver_weights(s, c, ALL);
            double total = sosmc_i_log_sum(s->simd, s->n, c->logw, s->scratch);
            for (int i = 0; i < s->n; i++) s->lw[i] = c->logw[i] - total;
            for (size_t j = 0; j < p; j++) {
                s->try_theta[j] = s->theta[j] + delta[j];
                if (s->o.low < s->o.high) s->try_theta[j] = fmin(fmax(s->try_theta[j], s->o.low), s->o.high);
            }
            sosmc_status status = sosmc_i_solver_rewards(s, c);
            for (int end = 1; end >= 0 && status == SOSMC_OK; end--) {
                status = sosmc_i_look(s, &l, end ? s->try_theta : s->theta, gradient);
                for (size_t j = 0; j < p; j++) change[j] += (end ? 1.0 : -1.0) / CLOUDS * gradient[j];
                if (end) least = fmin(least, l.cess);
            }
            if (status != SOSMC_OK) return status;
        }
        if (least >= SEES) return SOSMC_OK;
        for (size_t j = 0; j < p; j++) delta[j] *= 0.5;
        *shortened = 1;
    }
    return SOSMC_OK;
}

/* How far the step is off because the loss is no quadratic: H^-1 (change - H step), which the errors of theta hold too. Where it is
 * more than a part of them, the step was too long. */
static void note_off(staging *t, const double *delta, const double *change)
{
    sosmc_solver *s = t->s;
    findings *f = &s->v.found;
    size_t p = t->p;
    double *rest = t->M, *off = t->E;
    memset(off, 0, p * sizeof(double));
    sosmc_i_matrix_vector(p, s->H, delta, rest);
    for (size_t j = 0; j < p; j++) rest[j] = change[j] - rest[j];
    for (size_t a = 0; a < t->r; a++) {
        double along = t->bad[a] ? 0 : sosmc_i_dot(p, t->B + a * p, rest) / t->value[a];
        for (size_t j = 0; j < p; j++) off[j] += along * t->B[a * p + j];
    }
    for (size_t j = 0; j < p; j++) { /* the ten thousand millionth part of a standard error is rounding */
        double worth = 0.5 * off[j] * off[j] / fmax(s->inverse[j * p + j], 1e-300);
        if (fabs(off[j]) > OFF * s->error[j] && worth > fmax(f->off_worth, 0.1 * f->wanted / s->p)) {
            f->off_worth = worth;
            f->off_where = (int64_t)j;
            f->off = off[j];
        }
        for (size_t k = 0; k < p; k++)
            s->cov[j * p + k] += off[j] * off[k] + (j == k ? 1e-20 * s->inverse[j * p + j] : 0);
        s->error[j] = sqrt(fmax(s->cov[j * p + j], 0));
    }
}

static void note_curvature(staging *t, double eps)
{
    const sosmc_solver *s = t->s;
    findings *f = &t->s->v.found;
    size_t p = t->p;
    f->unresolved = f->negative = 0;
    f->hides = 0;
    f->hides_where = 0;
    for (size_t a = 0; a < t->r; a++) {
        if (!t->bad[a]) continue;
        double g = t->g[a], sd = sqrt(t->v[a]);
        double hides = 0.5 * (fabs(g) + 2 * sd), carriers = 0, weight = 0;
        f->unresolved++;
        if (hides > f->hides || f->unresolved == 1) {
            f->hides = hides;
            f->hides_where = mostly(t, a);
        }
        for (size_t j = 0; j < p; j++) {
            double share = t->B[a * p + j] * t->B[a * p + j] * s->fisher[j * p + j];
            carriers += share * s->seen[j];
            weight += share;
        }
        if (t->value[a] < -4 * t->sd[a] && -0.5 * t->value[a] > 20 * eps && carriers >= CARRIERS * weight)
            f->negative++;
    }
}

static int is_likelihood(const sosmc_solver *s)
{
    int kind = s->problem.objective.loss;
    return kind == SOSMC_LOSS_MMLE || kind == SOSMC_LOSS_LIKELIHOOD;
}

/* Whether the Newton step moves a parameter by many of its errors, though that may be worth little: then theta is not where its error
 * says. Where such steps of one parameter go on in one direction and do not shrink, it runs away. */
static int note_drift(sosmc_solver *s, const double *newton)
{
    findings *f = &s->v.found;
    double limit = sosmc_i_student_quantile(1 - fmax(0.001 / s->p, 1e-6), GROUPS - 1);
    int where = -1;
    double most = limit;
    for (int j = 0; j < s->p; j++) {
        double errors = s->error[j] > 0 ? fabs(newton[j]) / s->error[j] : 0;
        /* A step that is nothing beside what the data tell of the parameter does not count. */
        if (!(errors > most) || newton[j] * newton[j] < 1e-6 * s->inverse[(size_t)j * (size_t)s->p + (size_t)j])
            continue;
        most = errors;
        where = j;
    }
    int goes_on = where >= 0 && where == s->v.drifts_where && newton[where] * s->v.drift > 0 &&
                  fabs(newton[where]) > 0.6 * fabs(s->v.drift);
    s->v.drifts = goes_on ? s->v.drifts + 1 : 0;
    s->v.drifts_where = where;
    s->v.drift = where >= 0 ? newton[where] : 0;
    if (s->v.drifts >= RUNS_AWAY) f->runs_away = newton[where] < 0 ? -(where + 1) : where + 1;
    return where >= 0 && s->v.stage < DRIFTING_STAGES;
}

static double gone(const sosmc_solver *s, int64_t j) { return (s->theta[j] - s->theta0[j]) / s->first_unit[j]; }

static void note_gone(sosmc_solver *s, int64_t j)
{
    if (fabs(gone(s, j)) > FAR_GONE) s->v.found.runs_away = gone(s, j) < 0 ? -(j + 1) : j + 1;
}

/* A direction of a likelihood that is flat, and into which the search has gone far. */
static void note_flat(sosmc_solver *s)
{
    if (s->v.found.unresolved > 0 && is_likelihood(s)) note_gone(s, s->v.found.hides_where);
}

/* The parameter that has gone farthest, where none matters any more. */
static void note_farthest(sosmc_solver *s)
{
    int64_t most = 0;
    for (int64_t j = 1; j < s->p; j++)
        if (fabs(gone(s, j)) > fabs(gone(s, most))) most = j;
    if (s->v.has_unit) note_gone(s, most);
}

/* Whether the loss falls on, where a parameter has run: its slope beyond doubt, and to the farthest theta that each cloud sees. */
static sosmc_status note_falls(sosmc_solver *s)
{
    findings *f = &s->v.found;
    size_t p = (size_t)s->p, j = (size_t)(f->runs_away > 0 ? f->runs_away : -f->runs_away) - 1;
    double sign = f->runs_away > 0 ? 1 : -1, slope = 0, variance = 0, *g = s->small;
    f->falls = 1;
    for (int which = 0; which < CLOUDS; which++) {
        const size_t e = KEPT + (size_t)which;
        double now = INFINITY, down = 0;
        look l = {.c = &s->c[which], .k = &s->k[which], .every = 1};
        (void)sosmc_i_solver_weights(s, l.c, ALL);
        double total = sosmc_i_log_sum(s->simd, s->n, l.c->logw, s->scratch);
        for (int i = 0; i < s->n; i++) s->lw[i] = l.c->logw[i] - total;
        double step = 0.1 * s->unit[j];
        for (int k = 0; k < DOUBLINGS; k++, step *= 2) {
            memcpy(s->try_theta, s->theta, p * sizeof(double));
            s->try_theta[j] += sign * step;
            sosmc_status status = sosmc_i_look(s, &l, s->try_theta, g);
            if (status != SOSMC_OK) return status;
            if (!(l.cess >= SEES)) break;
            down = l.loss < now && sign * g[j] < 0;
            now = l.loss;
        }
        if (!(down > 0)) f->falls = 0;
        slope += 0.5 * sign * s->entry_g[e * p + j];
        for (size_t k = 0; k < GROUPS; k++)
            variance += 0.25 * s->entry_d[(e * GROUPS + k) * p + j] * s->entry_d[(e * GROUPS + k) * p + j];
    }
    if (!(slope < -3 * sqrt(variance))) f->falls = 0;
    return SOSMC_OK;
}

/* Behind the rounds of a stage: the Newton step, errors, and whether that is enough. */
static sosmc_status end_stage(sosmc_solver *s, int *done, int *again)
{
    size_t p = (size_t)s->p;
    findings *f = &s->v.found;
    double eps = sosmc_i_wanted(s), *m = s->small + 2 * (size_t)s->dim;
    int bad[SOSMC_SOLVE_PARAMETERS];
    staging t = {.s = s, .p = p, .bad = bad};
    t.B = m;
    t.M = t.B + p * p;
    t.E = t.M + p * p;
    t.value = t.E + p * p;
    t.sd = t.value + p;
    t.g = t.sd + p;
    t.v = t.g + p;
    t.step = t.v + p;
    t.delta = t.step + p;
    t.work = t.delta + p;
    *done = *again = 0;
    *f = (findings){.measured = 1, .wanted = eps, .worst = -1, .at_bound = -1, .newton_worst = -1};
    means(s);
    if (find_directions(&t)) {
        f->vertex = 1;
        *done = 1;
        note_farthest(s);
        memcpy(s->answer, s->theta, p * sizeof(double));
        f->excess = f->predicted = NAN;
        return SOSMC_OK;
    }
    find_known(&t);
    note_curvatures(&t);
    note_clouds(s);
    find_entries(&t);
    project(&t);
    note_curvature(&t, eps);
    note_flat(s);
    compare(&t, eps);
    if (s->v.kept == 0 && s->v.exchanges == 0 && f->worst >= 0 && f->worst_worth > sosmc_i_little(s)) {
        s->v.exchanges = 1; /* the searched cloud has lost something on its way: fresh ones alone are believed */
        find_entries(&t);
        project(&t);
    }
    memset(t.delta, 0, p * sizeof(double));
    double newton[SOSMC_SOLVE_PARAMETERS] = {0}, change[SOSMC_SOLVE_PARAMETERS];
    for (size_t a = 0; a < t.r; a++) {
        double g = t.g[a], v = t.v[a];
        if (bad[a]) {
            t.step[a] = fabs(g) > 4 * sqrt(v) ? (g > 0 ? -0.5 : 0.5) : 0;
            if (t.step[a] != 0) {
                f->downhill++;
                if (f->hides <= 5 * eps) f->hides_where = mostly(&t, a);
            }
        } else {
            t.step[a] = -g / t.value[a];
            f->excess += 0.5 * v / t.value[a];
            f->predicted += 0.5 * g * g / t.value[a];
            for (size_t j = 0; j < p; j++) newton[j] += t.step[a] * t.B[a * p + j];
        }
        for (size_t j = 0; j < p; j++) t.delta[j] += t.step[a] * t.B[a * p + j];
    }
    for (size_t j = 0; j < p; j++)
        if (!isfinite(t.delta[j]))
            return sosmc_i_solver_fail(s, SOSMC_ENUMERIC,
                                       "the gradient or the curvature of the loss is not finite at theta");
    double longest = 0.7 * sqrt(fmax(1, s->p / 5.0)), length = sqrt(fmax(form(p, s->fisher, t.delta, t.work), 0));
    int shortened = length > longest;
    for (size_t j = 0; shortened && j < p; j++) t.delta[j] *= longest / length;
    double leap = 0;
    for (size_t j = 0; j < p; j++) leap = fmax(leap, fabs(t.delta[j]) / (LEAP * s->unit[j]));
    for (size_t j = 0; leap > 1 && j < p; j++) t.delta[j] /= leap;
    shortened |= leap > 1;
    find_covariance(&t, newton);
    for (size_t j = 0; j < p; j++)
        if (s->error[j] > 0 && (f->newton_worst < 0 ||
                                fabs(newton[j]) * f->newton_worst_error > fabs(f->newton_worst_step) * s->error[j])) {
            f->newton_worst = (int)j;
            f->newton_worst_step = newton[j];
            f->newton_worst_error = s->error[j];
        }
    sosmc_status status = sosmc_i_data_draw(s);
    if (status == SOSMC_OK) status = shorten(s, t.delta, &shortened, change);
    if (status != SOSMC_OK) return status;
    note_off(&t, t.delta, change);
    for (size_t j = 0; j < p; j++) {
        s->answer[j] = s->theta[j] + t.delta[j];
        if (!(s->o.low < s->o.high)) continue;
        s->answer[j] = fmin(fmax(s->answer[j], s->o.low), s->o.high);
        if (s->answer[j] <= s->o.low || s->answer[j] >= s->o.high) f->at_bound = (int)j;
    }
    int doubted = f->worst >= 0 && f->worst_worth > sosmc_i_little(s) && s->v.kept == 0;
    int drifting = note_drift(s, newton);
    /* Where standard errors need more of the curvature alone, all Hessians of about this theta count. */
    /* A curvature that makes no standard error matters as far as the step and the error along it do. */
    if (!uses_energy(s) && f->bent * (f->excess + f->predicted) < 0.05 * eps) f->bent = 0;
    int unclear = f->blunt > 0 || (f->unresolved > 0 && uses_energy(s)), bent = f->bent > 0 && s->v.closer > CLOSEST;
    double moved = form(p, s->fisher, t.delta, t.work) + form(p, s->H, t.delta, t.work);
    s->v.pools = unclear && !bent && !shortened && moved < 0.05;
    if (bent) s->v.closer *= 0.25;
    f->converged = !doubted && !drifting && !bent && !(f->off_worth > 0 && s->v.stage < DRIFTING_STAGES) &&
                   f->blunt == 0 && !f->downhill && !(f->unresolved && is_likelihood(s)) && f->excess <= eps &&
                   f->predicted <= 0.25 * eps + 4 * f->excess && !shortened && f->hides <= 2 * eps;
    s->v.freedom = (GROUPS - 1) * t.entries;
    /* Where more rounds do not make it better, the error is of what the groups do not exchange: the masses of far modes. Other clouds
     * then tell more than longer ones. */
    int stalled = s->v.kept > 0 || (s->v.stage > 0 && f->excess > 0.7 * s->v.last_excess);
    int settled = !shortened &&
                  f->predicted <= eps + 4 * f->excess; /* what was measured here serves at the next theta */
    int enough = s->v.pools && f->excess <= eps;       /* what is unclear is no matter of the groups */
    *again = settled && ((stalled && !enough) || !counts(s, SEARCHED) || !counts(s, FRESH));
    s->v.last_excess = shortened ? INFINITY : f->excess;
    *done = f->converged || s->v.drifts >= RUNS_AWAY || s->v.stage + 1 >= STAGES ||
            s->v.stages_after >= MOST_MOVES_IN_ALL || (*again && s->v.kept + CLOUDS > KEPT);
    return *done && f->runs_away ? note_falls(s) : SOSMC_OK;
}

/* ---------------------------------------------------------------------------- the phase */

static void clear_sums(sosmc_solver *s)
{
    size_t p = (size_t)s->p;
    for (int which = 0; which < CLOUDS; which++) memset(s->sums[which], 0, GROUPS * p * sizeof(double));
    memset(s->fisher, 0, p * p * sizeof(double));
    for (size_t j = 0; j < p; j++) s->seen[j] = 1e9;
    if (!s->v.pools) {
        s->v.hessians = s->v.partial = 0;
        s->v.each = 1;
    }
    s->v.round = s->v.fishers = 0;
}

/* Coefficients of each cloud's control variates come from the other. */
static sosmc_status fit_shifts(sosmc_solver *s)
{
    for (int which = 0; which < CLOUDS; which++) {
        cloud *other = &s->c[1 - which];
        sosmc_status status = sosmc_i_solver_scores(s, other);
        if (status == SOSMC_OK) status = sosmc_i_shift_fit(s, &s->k[which], other, 0);
        if (status != SOSMC_OK) return status;
    }
    return SOSMC_OK;
}

void sosmc_i_measure_begin(sosmc_solver *s)
{
    s->v.stage = s->v.pools = 0;
    s->v.rounds = FIRST_ROUNDS;
    s->v.stages_after = 0;
    s->v.starting = FRESH;
    s->v.begun = 0;
}

/* Puts the clouds of now, as far as they count, among those that were measured, and starts both anew. */
static sosmc_status start_again(sosmc_solver *s)
{
    size_t p = (size_t)s->p;
    int added = 0;
    for (int which = 0; which < CLOUDS; which++) {
        size_t from = KEPT + (size_t)which, to = (size_t)(s->v.kept + added);
        if (!counts(s, which) || to >= KEPT) continue;
        memcpy(s->entry_theta + to * p, s->entry_theta + from * p, p * sizeof(double));
        memcpy(s->entry_g + to * p, s->entry_g + from * p, p * sizeof(double));
        memcpy(s->entry_d + to * GROUPS * p, s->entry_d + from * GROUPS * p, GROUPS * p * sizeof(double));
        added++;
    }
    s->v.kept += added;
    s->v.exchanges = 0;
    memcpy(s->theta, s->answer, p * sizeof(double));
    s->v.starting = SEARCHED;
    s->v.begun = 0;
    s->v.rounds = AGAIN_ROUNDS;
    return sosmc_i_host_move(&s->at, s->theta);
}

/* A step of the start of a cloud; behind it the next start, or the first round. */
static sosmc_status start_cloud(sosmc_solver *s)
{
    int arrived = 0, which = (int)s->v.starting;
    sosmc_status status = s->v.begun ? sosmc_i_start_step(s, which, &arrived) : sosmc_i_start_begin(s, which);
    s->v.begun = 1;
    if (status != SOSMC_OK || !arrived) return status;
    s->v.starting = which == FRESH ? -1 : FRESH;
    s->v.begun = 0;
    if (s->v.starting >= 0) return SOSMC_OK;
    clear_sums(s);
    return fit_shifts(s);
}

static void swap(double **a, double **b)
{
    double *kept = *a;
    *a = *b;
    *b = kept;
}

/* Both clouds follow to the new theta, shifted where they have coefficients. */
static sosmc_status follow(sosmc_solver *s, const double *to)
{
    sosmc_status status = SOSMC_OK;
    for (int which = 0; which < CLOUDS && status == SOSMC_OK; which++) {
        cloud *c = &s->c[which];
        look l = {.c = c, .k = &s->k[which], .every = 1};
        (void)sosmc_i_solver_weights(s, c, ALL);
        double total = sosmc_i_log_sum(s->simd, s->n, c->logw, s->scratch);
        for (int i = 0; i < s->n; i++) s->lw[i] = c->logw[i] - total;
        status = sosmc_i_look(s, &l, to, NULL);
        for (int i = 0; i < s->n && status == SOSMC_OK; i++) {
            double more = c->U[i] - s->look_U[i];
            c->logw[i] = isfinite(more) ? c->logw[i] + more : -INFINITY;
        }
        if (!l.k->active) continue;
        swap(&c->x, &s->look_x);
        swap(&c->g, &s->look_g);
        swap(&c->U, &s->look_U);
    }
    memcpy(s->theta, to, (size_t)s->p * sizeof(double));
    if (status == SOSMC_OK) status = sosmc_i_host_move(&s->at, s->theta);
    for (int which = 0; which < CLOUDS && status == SOSMC_OK; which++) {
        if (!s->k[which].active) status = sosmc_i_solver_evaluate(s, &s->c[which], &s->at, s->theta, 1);
        if (status == SOSMC_OK) status = sosmc_i_solver_resample(s, &s->c[which], ALL, 0);
    }
    return status;
}

/* More rounds where the error asks for it. */
static int64_t next_rounds(const sosmc_solver *s)
{
    const findings *f = &s->v.found;
    double times = f->excess > f->wanted ? fmin(fmax(1.3 * f->excess / f->wanted, 2), 16) : 1;
    return (int64_t)fmin((double)s->v.rounds * times, MOST_ROUNDS);
}

sosmc_status sosmc_i_measure_step(sosmc_solver *s, int *done)
{
    int looks = sosmc_i_solver_jumps(s) ? HESSIANS / CLOUDS : 3; /* masses of modes vary, and the curvature with them */
    int64_t every = s->v.pools || s->v.rounds < 2 * looks ? 1 : s->v.rounds / looks;
    int again;
    *done = 0;
    if (s->v.starting >= 0) return start_cloud(s);
    sosmc_status status = SOSMC_OK;
    for (int which = 0; which < CLOUDS && status == SOSMC_OK; which++) {
        status = sosmc_i_solver_move(s, &s->c[which], ALL, &s->m, 1, (int)s->v.moves, 0);
        if (status == SOSMC_OK) status = add_gradients(s, which, 1 / (double)s->v.rounds);
    }
    s->v.stages_after += s->v.moves;
    if (status == SOSMC_OK && s->v.round % every == 0)
        for (int which = 0; which < CLOUDS && status == SOSMC_OK; which++) status = add_hessian(s, which);
    if (status != SOSMC_OK) return status;
    if (++s->v.round < s->v.rounds) return SOSMC_OK;
    int wall;
    status = sosmc_i_walls_find(s, &wall);
    if (status != SOSMC_OK) return status;
    if (wall) { /* this stage and those before had control variates in a coordinate with a wall: measured again */
        s->v.kept = s->v.pools = 0;
        clear_sums(s);
        return fit_shifts(s);
    }
    status = end_stage(s, done, &again);
    if (status != SOSMC_OK || *done) return status;
    s->v.stage++;
    if (again) return start_again(s);
    s->v.rounds = next_rounds(s);
    clear_sums(s);
    status = follow(s, s->answer);
    return status == SOSMC_OK ? fit_shifts(s) : status;
}
