/* learn_check.c: when the search for networks ends (maths.md LEARN).
 *
 * Every so many updates the average of theta is measured with fresh particles and the same random numbers every time. The likelihood of data
 * is that of rows which never steer theta. Of a reward it is known which density is best of all, and what is measured is how far
 * the loss is above that one's. Where this no longer falls the rate is cut, and where the rate has been cut often enough the
 * search ends. The answer is the average with the smallest of these losses. */
#include <math.h>
#include <stdlib.h>

#include "judge/numbers.h"
#include "judge/result.h"
#include "solve_inside.h"

enum {
    FIT_DRAWS = 65536,
    TUNE_DRAWS = 16384,
    TEMPERED = 8192,
    PASS_OF_CHECK = 900,
    PASS_MOVES = 2,
    AT_FIRST = 12,
    LONG_RISEN = 4
};
static const double ROUNDING = 1e-12; /* a divergence that is none, in nats: a reward may be the same everywhere */
static const double RISEN =
    1; /* nats per row, above the smallest loss and five errors: the search no longer comes back */
static const double PLATEAU = 0.02; /* nats per row: noise alone adds up to less */
static const double PLAIN = 0.5;    /* the largest Pareto index of weights that are used as they are */

/* When a search is over. */
typedef struct {
    double little; /* a gain below this is none: in nats per row, or relative to what is left of a reward */
    int patience;  /* checks without a gain until the rate is cut ... */
    int tempered;  /* ... where losses come from tempered particles, which scatter more */
    double cut;    /* what is left of the rate */
    int cuts;      /* how often, until the search is over */
    double wanted; /* of a reward: so little, relative to what there was to gain, may be left */
} ending;
static const ending FIT = {.little = 1e-3, .patience = 2, .tempered = 3, .cut = 0.25, .cuts = 4};
static const ending TUNE = {.little = 0.1, .patience = 8, .tempered = 8, .cut = 0.5, .cuts = 6, .wanted = 0.002};

/* A pass: importance draws where these are good enough, unless they are not wanted, else fewer particles that are tempered. */
static sosmc_status fresh_pass(sosmc_solver *s, const double *theta, int tempered, pass_cloud *p)
{
    const sosmc_objective *o = &s->problem.objective;
    preconditioner c = s->m.c[0];
    c.gradient = !s->m.walk;
    pass_task task = {.model = &s->problem.model,
                      .theta = theta,
                      .score = tunes(s) ? &o->score : NULL,
                      .theta_ref = tunes(s) ? o->theta_ref : NULL,
                      .q = &s->q[0],
                      .c = &c,
                      .simd = s->simd,
                      .particles = tunes(s) ? TUNE_DRAWS : FIT_DRAWS,
                      .threads = s->at.workers,
                      .moves = PASS_MOVES,
                      .plain = PLAIN,
                      .only_plain = 1,
                      .seed = s->o.seed,
                      .number = PASS_OF_CHECK};
    sosmc_status status = SOSMC_OK;
    if (!tempered) {
        status = sosmc_i_pass(&task, p);
        s->v.evaluations += p->n;
        if (status != SOSMC_OK || p->arrived >= 1) return status;
        sosmc_i_pass_free(p);
    }
    task.plain = task.only_plain = 0;
    task.particles = TEMPERED;
    status = sosmc_i_pass(&task, p);
    s->v.evaluations += (int64_t)p->n * (1 + (int64_t)p->temperatures * task.moves);
    return status;
}

typedef struct {
    double loss, error; /* what the search goes by: of a reward, above the best of all densities */
    double told, told_error, log_z, log_z_error;
    int64_t tempered; /* the particles were, so that it is less exact */
} checked;

/* Above the loss of the best of all densities, by its log Z, where no importance draws reach that density. */
static sosmc_status tempered_excess(const sosmc_solver *s, const pass_cloud *p, checked *out)
{
    double beta = s->problem.objective.kl, *d = p->class_sum ? malloc((size_t)p->n * sizeof *d) : NULL;
    if (!d) return SOSMC_ENOMEM;
    for (int i = 0; i < p->n; i++) d[i] = p->w[i] > 0 ? p->Uref[i] - p->R[i] / beta - p->U[i] : 0;
    out->loss = beta * (sosmc_i_pass_mean(p, d) + s->best_log_z - p->log_z);
    double error = sosmc_i_pass_error(p, d, -1);
    out->error = beta * sqrt(error * error + s->best_log_z_error * s->best_log_z_error);
    free(d);
    return SOSMC_OK;
}

static sosmc_status check_reward(sosmc_solver *s, const pass_cloud *p, checked *out)
{
    sosmc_judgement j;
    for (int i = 0; i < p->n; i++)
        if (p->w[i] > 0 && !isfinite(p->R[i])) return sosmc_i_learn_no_reward(s, p->R[i]);
    sosmc_status status = sosmc_i_result_open(&j, 1);
    if (status != SOSMC_OK) return status;
    if (sosmc_i_reweighed(&s->problem.objective, p, &j) == 0) {
        *out = (checked){
            .loss = j.excess.value, .error = j.excess.error, .told = j.loss.value, .told_error = j.loss.error};
    } else {
        out->tempered = 1;
        status = tempered_excess(s, p, out);
    }
    sosmc_judgement_free(&j);
    return status;
}

/* A theta with fresh particles; of data, over the rows that only tell when to end. */
static sosmc_status check_at(sosmc_solver *s, const double *theta, int tempered, checked *out)
{
    const sosmc_objective *o = &s->problem.objective;
    double data = 0;
    pass_cloud p = {.n = 0};
    sosmc_status status = fresh_pass(s, theta, tempered, &p);
    if (status == SOSMC_OK && !tunes(s)) status = sosmc_i_learn_check(s, theta, &data);
    *out = (checked){
        .loss = INFINITY, .error = INFINITY, .told = NAN, .told_error = NAN, .tempered = p.temperatures > 0};
    if (status == SOSMC_OK && p.arrived >= 1 && tunes(s)) {
        status = check_reward(s, &p, out);
    } else if (status == SOSMC_OK && p.arrived >= 1) {
        out->told = out->loss = o->scale * (o->b * data - o->a * p.log_z);
        out->told_error = out->error = fabs(o->a) * o->scale * sosmc_i_pass_error(&p, NULL, 1);
    }
    if (isnan(out->loss)) out->loss = out->error = INFINITY;
    out->log_z = p.log_z;
    if (p.class_sum) out->log_z_error = sosmc_i_pass_error(&p, NULL, 1);
    sosmc_i_pass_free(&p);
    return status;
}

double sosmc_i_learn_wanted(const sosmc_solver *s)
{
    if (!tunes(s)) return NAN;
    if (s->o.precision > 0) return s->o.precision;
    return fmax(TUNE.wanted * s->v.first_excess, ROUNDING * s->problem.objective.kl);
}

/* The error of the difference of two losses: particles that are drawn, with the same random numbers, differ far less than either is off. */
static double doubt(double error, int64_t tempered, double other_error, int64_t other_tempered)
{
    return tempered || other_tempered ? sqrt(error * error + other_error * other_error) : 0;
}

double sosmc_i_learnt(const sosmc_solver *s)
{
    const plain *v = &s->v;
    return v->first_loss - v->best_loss - 3 * doubt(v->first_error, v->first_tempered, v->best_error, v->best_tempered);
}

/* Whether the loss has not fallen by enough since it last did. Tempered losses scatter: half of an error is nothing there, and the error of both
 * where they are not of one kind. */
static int gained_little(const sosmc_solver *s, const checked *now)
{
    double mark = s->v.marked, little = FIT.little;
    if (isnan(mark)) return 0; /* nothing to compare with */
    if (tunes(s))
        little = fmax(TUNE.little * fabs(mark), now->tempered ? 0.5 * now->error : 0);
    else if (s->o.precision > 0)
        little = s->o.precision;
    if (now->tempered != s->v.best_tempered) little += 2 * doubt(now->error, 1, s->v.best_error, 1);
    return !(mark - now->loss >= little);
}

/* Checks without a gain until the rate is cut. An untrained network may lie on a plateau, above all where the points look like its base
 * law from afar: a search that has not gained anything yet waits longer. */
static int patience(const sosmc_solver *s, const ending *e, const checked *now)
{
    int usual = now->tempered ? e->tempered : e->patience;
    return !(sosmc_i_learnt(s) >= PLATEAU) && usual < AT_FIRST && !tunes(s) ? AT_FIRST : usual;
}

static void keep_best(plain *v, const checked *c)
{
    v->best_loss = c->loss;
    v->best_error = c->error;
    v->best_tempered = c->tempered;
    v->checked_log_z = c->log_z;
    v->checked_log_z_error = c->log_z_error;
}

/* Two kinds of pass cannot be compared closely: the answer is measured in the kind of `now`, where that can be had. */
static sosmc_status measure_again(sosmc_solver *s, const checked *now)
{
    plain *v = &s->v;
    checked again;
    if (isnan(v->best_loss) || now->tempered == v->best_tempered || v->updates == 0) return SOSMC_OK;
    sosmc_status status = check_at(s, s->answer, now->tempered != 0, &again);
    if (status != SOSMC_OK || !isfinite(again.loss)) return status;
    keep_best(v, &again);
    v->marked = again.loss;
    return SOSMC_OK;
}

/* The average becomes the answer where its loss is smaller; of another kind, unless it is surely larger. */
static void take_better(sosmc_solver *s, const checked *now)
{
    plain *v = &s->v;
    double before = v->best_loss;
    double allowed = now->tempered == v->best_tempered ? 0 : 2 * doubt(now->error, 1, v->best_error, 1);
    if (isnan(v->first_loss) && isfinite(now->loss)) {
        v->first_loss = now->loss;
        v->first_error = now->error;
        v->first_tempered = now->tempered;
    }
    v->gain = before - now->loss;
    if (!(now->loss >= before + allowed)) {
        keep_best(v, now);
        memcpy(s->answer, s->average, (size_t)s->p * sizeof(double));
    }
    v->decrease = fmax(v->first_loss - v->best_loss, 0);
}

/* Whether a training has lost its way: a network that knows its few points by heart, or one whose mass has gone where no particle sees it. */
static int has_risen(const sosmc_solver *s, const checked *now)
{
    const plain *v = &s->v;
    return !tunes(s) && v->poor >= LONG_RISEN && now->loss > v->best_loss + RISEN + 5 * (now->error + v->best_error);
}

/* Measures the average, keeps the best, and cuts the rate where it has gained little for too long. */
sosmc_status sosmc_i_learn_look(sosmc_solver *s, int *done)
{
    plain *v = &s->v;
    const ending *e = tunes(s) ? &TUNE : &FIT;
    checked now;
    sosmc_status status = check_at(s, s->average, 0, &now);
    if (status == SOSMC_OK) status = measure_again(s, &now);
    if (status != SOSMC_OK) return status;
    v->tempered = now.tempered;
    v->fresh_loss = now.told;
    v->fresh_error = now.told_error;
    int little = gained_little(s, &now);
    take_better(s, &now);
    if (tunes(s)) {
        v->excess = now.loss;
        v->excess_error = now.error;
        if (!isfinite(v->first_excess) && isfinite(now.loss)) v->first_excess = fmax(now.loss, 0);
    }
    if (tunes(s) && !now.tempered && now.loss <= sosmc_i_learn_wanted(s)) {
        *done = 1;
        return SOSMC_OK;
    }
    v->poor = little ? v->poor + 1 : 0;
    if (v->poor == 0 || !tunes(s)) v->marked = v->best_loss;
    if (has_risen(s, &now)) *done = 1;
    if (*done || v->poor < patience(s, e, &now)) return SOSMC_OK;
    *done = v->cuts == e->cuts;
    v->poor = 0;
    v->marked = v->best_loss;
    v->cuts++;
    v->rate *= e->cut;
    return SOSMC_OK;
}
