/* test_nonfinite.c: no silent failure.
 *
 * Values that are not finite meet the policies fail, drop, retry and restart; Metropolis kernels reject them, which is
 * exact; what no policy covers (a start, a score, a gradient, an update) stops the run. Callbacks that return non-zero
 * stop it too, wherever they are called. Every stop has a status and a message with numbers, the same for any number
 * of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <sosmc/sosmc.h>

enum { D = 2, N = 150, TILE = 64 }; /* three tiles, the last one short */
static const double Y[D] = {1.0, -2.0}, THETA0[D] = {0.25, -3.0};

static void assert_contains(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("'%s' is not in '%s'", part, text);
}

/* ---------------------------------------------------------------------------- a model that misbehaves on demand */

enum { OFFENDERS = 4 };
typedef enum { IN_ENERGY, IN_GX, IN_SCORE, IN_REFERENCE, IN_LOGPDF, IN_X, IN_GRADIENT, IN_DATA_GRADIENT } place;
/* Read by the callbacks, written by the tests between steps. */
typedef struct {
    int armed, everyone;
    int batches_only; /* a particle evaluated alone, as a restarted one is, is healthy */
    place where;
    double value;
    int64_t offender[OFFENDERS]; /* particles; -1: unused */
    double wall, wall_from; /* beyond x[0] = wall all is NaN, gradients too, once theta[0] > wall_from; 0: no wall */
} plan;

static int hit(const plan *q, place where, const sosmc_batch *b, int i)
{
    if (!q->armed || q->where != where || (q->batches_only && b->n == 1)) return 0;
    for (int k = 0; k < OFFENDERS; k++)
        if (q->offender[k] == b->first + i) return 1;
    return q->everyone;
}

static int beyond_wall(const plan *q, const double *theta, double x)
{
    return q->wall != 0.0 && theta[0] > q->wall_from && x > q->wall;
}

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const plan *q = self;
    double *work = b->work; /* keeps x - theta for grad_theta */
    int at_reference = theta[0] == 7.0;
    for (int i = 0; i < b->n; i++) U[i] = 0.0;
    for (int j = 0; j < D; j++)
        for (int i = 0; i < b->n; i++) {
            double x = b->x[j * b->ld + i], p = x - theta[j], r = x - Y[j];
            U[i] += 0.5 * (p * p + r * r);
            if (gx) gx[j * b->ld + i] = p + r;
            if (gx && work) work[j * b->ld + i] = p;
            if (gx && j == D - 1 && hit(q, IN_GX, b, i)) gx[j * b->ld + i] = q->value;
        }
    for (int i = 0; i < b->n; i++) {
        if (hit(q, at_reference ? IN_REFERENCE : IN_ENERGY, b, i)) U[i] = q->value;
        if (!beyond_wall(q, theta, b->x[i])) continue;
        U[i] = NAN;
        if (gx) gx[i] = NAN;
    }
    return 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    const plan *q = self;
    const double *work = b->work;
    for (int j = 0; j < D; j++)
        for (int i = 0; i < b->n; i++) {
            double d = b->fresh && work ? -work[j * b->ld + i] : theta[j] - b->x[j * b->ld + i];
            if (beyond_wall(q, theta, b->x[i])) d = NAN;
            if (hit(q, IN_GRADIENT, b, i)) d = q->value;
            g[j] += c[i] * d;
        }
    return 0;
}

static int penalty(const void *self, const double *theta, const sosmc_batch *y, double weight, double *g, double *value)
{
    const plan *q = self;
    for (int i = 0; i < y->n; i++)
        if (hit(q, IN_DATA_GRADIENT, y, i)) g[1] += weight * q->value;
    return 0;
}

static int reward(const void *self, const sosmc_batch *b, double *s)
{
    const plan *q = self;
    for (int i = 0; i < b->n; i++) s[i] = hit(q, IN_SCORE, b, i) ? q->value : b->x[i];
    return 0;
}

static int draw(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    const plan *q = self;
    sosmc_normals(rng, b, x);
    for (int i = 0; i < b->n; i++)
        if (hit(q, IN_X, b, i)) x[b->ld + i] = q->value;
    return 0;
}

static int logpdf(const void *self, const sosmc_batch *b, double *lq)
{
    const plan *q = self;
    sosmc_source normal = sosmc_standard_normal();
    int rc = normal.logpdf(normal.self, b, lq);
    for (int i = 0; i < b->n; i++)
        if (hit(q, IN_LOGPDF, b, i)) lq[i] = q->value;
    return rc;
}

typedef struct {
    plan q;
    sosmc_problem p;
    sosmc_settings cfg;
    sosmc *s;
} lab;

/* theta stands still unless a test wants otherwise, so that messages can be compared with known numbers. */
static void lab_fill(lab *l, sosmc_scheme scheme, sosmc_kernel kernel)
{
    memset(l, 0, sizeof *l);
    l->q = (plan){.value = NAN, .offender = {-1, -1, -1, -1}, .wall_from = -INFINITY};
    l->p.model = (sosmc_model){.dim_x = D,
                               .dim_theta = D,
                               .work = D * sizeof(double),
                               .tile = TILE,
                               .self = &l->q,
                               .energy = energy,
                               .grad_theta = grad_theta};
    l->p.objective = sosmc_mmle();
    l->p.init = (sosmc_source){.self = &l->q, .draw = draw};
    l->p.theta0 = THETA0;
    l->cfg = sosmc_defaults();
    l->cfg.scheme = scheme;
    l->cfg.kernel = kernel;
    l->cfg.optimiser = sosmc_sgd(0.0);
    l->cfg.seed = 5;
}

static void lab_open(lab *l)
{
    if (sosmc_create(&l->s, &l->p, &l->cfg) != SOSMC_OK) fail_msg("%s", sosmc_message(l->s));
}

static void steps(lab *l, int count)
{
    for (int k = 0; k < count; k++)
        if (sosmc_step(l->s) != SOSMC_OK) fail_msg("%s", sosmc_message(l->s));
}

/* One iteration in which the offenders are not finite. */
static sosmc_status bad_step(lab *l)
{
    l->q.armed = 1;
    sosmc_status status = sosmc_step(l->s);
    l->q.armed = 0;
    return status;
}

/* ---------------------------------------------------------------------------- fail */

static void fail_names_the_offender(void **state)
{
    const sosmc_kernel kernels[] = {sosmc_ula(0.05), sosmc_mala(0.1), sosmc_rwm(0.1), sosmc_hmc(0.2, 3, 1.0)};
    const double values[] = {NAN, INFINITY, -INFINITY};
    const char *const words[] = {"nan", "inf", "-inf"};
    for (int k = 0; k < 4; k++)
        for (int weighted = 0; weighted < 2; weighted++)
            for (int v = 0; v < 3; v++) {
                char first[512] = "";
                if (!weighted && k > 0)
                    continue; /* an invariant kernel without weights never evaluates where it stands */
                for (int threads = 1; threads <= 3; threads += 2) {
                    lab l;
                    lab_fill(&l, weighted ? sosmc_scheme_sosmc(N) : sosmc_scheme_unweighted(N), kernels[k]);
                    l.cfg.on_nonfinite = SOSMC_NONFINITE_FAIL;
                    l.cfg.threads = threads;
                    l.q.value = values[v];
                    l.q.offender[0] = 130;
                    l.q.offender[1] = 71; /* the lowest is reported */
                    l.q.offender[2] = 70;
                    lab_open(&l);
                    steps(&l, 3);
                    assert_int_equal(bad_step(&l), SOSMC_ENUMERIC);
                    assert_contains(sosmc_message(l.s), "iteration 3");
                    assert_contains(sosmc_message(l.s), "particle 70");
                    assert_contains(sosmc_message(l.s), "theta = (0.25, -3)");
                    assert_contains(sosmc_message(l.s), words[v]);
                    if (threads == 1) (void)snprintf(first, sizeof first, "%s", sosmc_message(l.s));
                    assert_string_equal(first, sosmc_message(l.s));
                    sosmc_free(l.s);
                }
            }
}

/* It is the gradient that is wrong: a message that shows a healthy energy would mislead. */
static void fail_shows_the_value_that_is_wrong(void **state)
{
    for (int at_start = 0; at_start < 2; at_start++) {
        lab l;
        lab_fill(&l, sosmc_scheme_sosmc(N), sosmc_ula(0.05));
        l.cfg.on_nonfinite = SOSMC_NONFINITE_FAIL;
        l.q.where = IN_GX;
        l.q.offender[0] = 70;
        l.q.armed = at_start;
        sosmc_status status = sosmc_create(&l.s, &l.p, &l.cfg);
        if (!at_start) {
            assert_int_equal(status, SOSMC_OK);
            steps(&l, 2);
            status = bad_step(&l);
        }
        assert_int_equal(status, SOSMC_ENUMERIC);
        assert_contains(sosmc_message(l.s), "70");
        assert_contains(sosmc_message(l.s), "nan");
        sosmc_free(l.s);
    }
}

static void fail_inside_sweeps_and_pools(void **state)
{
    sosmc_scheme soul = sosmc_scheme_soul(20);
    soul.particles = soul.pool = N;
    const sosmc_scheme schemes[] = {soul, sosmc_scheme_pcd(N, 2 * N, 3), sosmc_scheme_moved_first(N)};
    for (int q = 0; q < 3; q++) {
        lab l;
        lab_fill(&l, schemes[q], sosmc_ula(0.05));
        l.q.offender[0] = 100;
        lab_open(&l);
        steps(&l, 2);
        assert_int_equal(bad_step(&l), SOSMC_ENUMERIC); /* the default of unweighted schemes */
        assert_contains(sosmc_message(l.s), "iteration 2");
        assert_contains(sosmc_message(l.s), "particle 100");
        sosmc_free(l.s);
    }
}

/* ---------------------------------------------------------------------------- drop */

typedef struct {
    double x[N * D], logw[N];
} snapshot;

static void look(const lab *l, snapshot *c) { assert_int_equal(sosmc_cloud(l->s, c->x, c->logw), SOSMC_OK); }

/* Dropping leaves the other particles' weights alone, up to the common constant. */
static void assert_others_untouched(const snapshot *with, const snapshot *without, int a, int b)
{
    double shift = NAN, sum = 0.0;
    for (int i = 0; i < N; i++) {
        if (i == a || i == b) {
            assert_true(with->logw[i] == -INFINITY);
            continue;
        }
        if (isnan(shift)) shift = with->logw[i] - without->logw[i];
        assert_true(fabs(with->logw[i] - without->logw[i] - shift) < 1e-12);
        for (int j = 0; j < D; j++) assert_true(with->x[i * D + j] == without->x[i * D + j]);
        sum += exp(with->logw[i]);
    }
    assert_true(fabs(sum - 1.0) < 1e-12);
}

static void drop_takes_the_weight(void **state)
{
    const sosmc_kernel kernels[] = {sosmc_ula(0.05), sosmc_mala(0.1), sosmc_rwm(0.1), sosmc_hmc(0.2, 3, 1.0)};
    static snapshot with, without;
    for (int k = 0; k < 4; k++)
        for (int order = 0; order < 2; order++)
            for (int where = 0; where < 2; where++) { /* U or its gradient */
                lab l, clean;
                if (where == 1 && k == 2) continue; /* RWM has no gradient */
                lab_fill(&l, sosmc_scheme_sosmc(N), kernels[k]);
                l.cfg.scheme.order = order;
                l.cfg.scheme.ess_min = 0.0;
                l.cfg.optimiser = sosmc_sgd(0.05);
                l.cfg.on_nonfinite = where ? SOSMC_NONFINITE_DROP : SOSMC_NONFINITE_DEFAULT;
                l.q.where = where ? IN_GX : IN_ENERGY;
                clean = l;
                clean.p.model.self = clean.p.init.self = &clean.q;
                l.q.offender[0] = 3;
                l.q.offender[1] = 70;
                lab_open(&l);
                lab_open(&clean);
                steps(&l, 2);
                steps(&clean, 2);
                assert_int_equal(bad_step(&l), SOSMC_OK);
                steps(&clean, 1);
                assert_int_equal(sosmc_last(l.s)->nonfinite, 2);
                assert_int_equal(sosmc_last(clean.s)->nonfinite, 0);
                assert_true(sosmc_last(l.s)->ess <= N - 2);
                look(&l, &with);
                look(&clean, &without);
                assert_others_untouched(&with, &without, 3, 70);
                for (int q = 0; q < 20; q++) { /* never resampled, never back */
                    steps(&l, 1);
                    look(&l, &with);
                    assert_true(with.logw[3] == -INFINITY && with.logw[70] == -INFINITY);
                    assert_true(isfinite(with.logw[0]));
                    assert_int_equal(sosmc_last(l.s)->resampled, 0);
                    assert_int_equal(sosmc_last(l.s)->nonfinite, 0);
                    assert_true(isfinite(sosmc_last(l.s)->grad_norm) && isfinite(sosmc_last(l.s)->mean_energy));
                }
                sosmc_free(l.s);
                sosmc_free(clean.s);
            }
}

/* Resampling replaces the dropped: no offspring of theirs is left, and all weights are equal. */
static void drop_ends_with_resampling(void **state)
{
    static snapshot before, after;
    for (int resampling = SOSMC_MULTINOMIAL; resampling <= SOSMC_SSP; resampling++) {
        lab l;
        lab_fill(&l, sosmc_scheme_sosmc(N), sosmc_ula(0.05));
        l.cfg.scheme.ess_min = 2.0;
        l.cfg.scheme.resampling = resampling;
        l.q.offender[0] = 3;
        l.q.offender[1] = 70;
        lab_open(&l);
        steps(&l, 2);
        look(&l, &before);
        assert_int_equal(bad_step(&l), SOSMC_OK);
        assert_int_equal(sosmc_last(l.s)->nonfinite, 2);
        assert_int_equal(sosmc_last(l.s)->resampled, 1);
        look(&l, &after);
        for (int i = 0; i < N; i++) {
            assert_true(fabs(after.logw[i] + log(N)) < 1e-12);
            assert_true(after.x[i * D] != before.x[3 * D] && after.x[i * D] != before.x[70 * D]);
        }
        steps(&l, 2);
        assert_int_equal(sosmc_last(l.s)->nonfinite, 0);
        sosmc_free(l.s);
    }
}

/* A whole tile may die; a whole cloud may not. */
static void drop_until_nobody_is_left(void **state)
{
    static snapshot c;
    for (int k = 0; k < 2; k++)
        for (int threads = 1; threads <= 3; threads += 2) {
            lab l;
            lab_fill(&l, sosmc_scheme_sosmc(N), k ? sosmc_mala(0.1) : sosmc_ula(0.05));
            l.cfg.scheme.ess_min = 0.0;
            l.cfg.threads = threads;
            lab_open(&l);
            steps(&l, 1);
            for (int i = TILE; i < 2 * TILE; i++) {
                l.q.offender[0] = i;
                assert_int_equal(bad_step(&l), SOSMC_OK);
            }
            look(&l, &c);
            for (int i = 0; i < N; i++) assert_true((c.logw[i] == -INFINITY) == (i >= TILE && i < 2 * TILE));
            l.q.everyone = 1;
            assert_int_equal(bad_step(&l), SOSMC_ENUMERIC);
            assert_contains(sosmc_message(l.s), "iteration 65");
            assert_contains(sosmc_message(l.s), "150 particles");
            assert_contains(sosmc_message(l.s), "weight zero");
            assert_int_equal(sosmc_last(l.s)->nonfinite, N);
            sosmc_free(l.s);
        }
}

static void a_dead_cloud_names_theta(void **state)
{
    lab l;
    lab_fill(&l, sosmc_scheme_sosmc(N), sosmc_ula(0.05));
    l.q.everyone = 1;
    lab_open(&l);
    steps(&l, 2);
    assert_int_equal(bad_step(&l), SOSMC_ENUMERIC);
    assert_contains(sosmc_message(l.s), "iteration 2");
    assert_contains(sosmc_message(l.s), "theta = (0.25, -3)");
    sosmc_free(l.s);
}

/* Where the new theta makes U infinite or undefined, dU/dtheta is so too, and zero times that is no number: a dropped
 * particle must not reach the gradient by way of 0 * NaN. Update 2 carries theta to where the wall stands. */
static void to_the_wall(const sosmc_optimiser *o, int64_t k, int dim, const double *g, double *theta, double *slots)
{
    if (k == 2) theta[0] = 0.5;
}

static void drop_keeps_the_gradient_finite(void **state)
{
    const sosmc_kernel kernels[] = {sosmc_ula(0.05), sosmc_mala(0.1), sosmc_rwm(0.1)};
    for (int k = 0; k < 3; k++)
        for (int order = 0; order < 2; order++) {
            lab l;
            int dropped = 0;
            lab_fill(&l, sosmc_scheme_sosmc(N), kernels[k]);
            l.cfg.scheme.ess_min = 0.0;
            l.cfg.scheme.order = order;
            l.cfg.optimiser = (sosmc_optimiser){.name = "path", .step = to_the_wall};
            l.q.wall = 1.5;
            l.q.wall_from = 0.4;
            lab_open(&l);
            for (int q = 0; q < 6; q++) {
                sosmc_status status = sosmc_step(l.s);
                if (status != SOSMC_OK) fail_msg("%s, order %d: %s", kernels[k].name, order, sosmc_message(l.s));
                assert_true(isfinite(sosmc_last(l.s)->grad_norm));
                dropped += sosmc_last(l.s)->nonfinite;
            }
            assert_true(dropped > 2);
            sosmc_free(l.s);
        }
}

/* ---------------------------------------------------------------------------- a user's kernels */

/* An exact draw from pi_theta = N((theta + Y)/2, 1/2): leaves it invariant without Metropolis. Poisoned at will. */
typedef struct {
    int64_t iteration, particle; /* where the move is not finite ... */
    uint32_t attempts;           /* ... for so many attempts */
} gibbs_plan;

static int gibbs_step(const sosmc_kernel *k, sosmc_move *m)
{
    const gibbs_plan *q = k->self;
    sosmc_normals(m->rng, &m->b, m->x_new);
    for (int j = 0; j < D; j++)
        for (int i = 0; i < m->b.n; i++)
            m->x_new[j * m->b.ld + i] = 0.5 * (m->theta[j] + Y[j]) + sqrt(0.5) * m->x_new[j * m->b.ld + i];
    int rc = sosmc_evaluate(m, SOSMC_AT_CURRENT, m->x_new, m->U_new, NULL);
    int64_t at = q->particle - m->b.first;
    if ((int64_t)m->rng.step == q->iteration && m->rng.retry < q->attempts && at >= 0 && at < m->b.n)
        m->U_new[at] = NAN;
    return rc;
}

static sosmc_kernel gibbs(const gibbs_plan *q)
{
    return (sosmc_kernel){.name = "gibbs",
                          .step = gibbs_step,
                          .h = 1.0,
                          .noise = 1.0,
                          .mass = 1.0,
                          .leapfrog = 1,
                          .self = q,
                          .invariant = 1};
}

static void gibbs_lab(lab *l, const gibbs_plan *q, int order, int policy)
{
    lab_fill(l, sosmc_scheme_sosmc(N), gibbs(q));
    l->cfg.scheme.order = order;
    l->cfg.scheme.ess_min = 0.0;
    l->cfg.on_nonfinite = policy;
    l->cfg.optimiser = sosmc_sgd(0.05); /* theta moves, so that there is something to weigh */
    lab_open(l);
}

/* The weight of an invariant kernel does not depend on its move, so a repeated move must not change it. */
static void retry_keeps_the_weight_of_invariant_kernels(void **state)
{
    static snapshot with, without;
    for (int order = 0; order < 2; order++) {
        gibbs_plan bad = {.iteration = 3, .particle = 70, .attempts = 2}, good = {.attempts = 0};
        lab l, clean;
        gibbs_lab(&l, &bad, order, SOSMC_NONFINITE_RETRY);
        gibbs_lab(&clean, &good, order, SOSMC_NONFINITE_RETRY);
        steps(&l, 4);
        steps(&clean, 4);
        assert_int_equal(sosmc_last(l.s)->retries, 2);
        look(&l, &with);
        look(&clean, &without);
        for (int i = 0; i < N; i++) assert_true(fabs(with.logw[i] - without.logw[i]) < 1e-12);
        sosmc_free(l.s);
        sosmc_free(clean.s);
    }
}

/* In the authors' order an invariant kernel moves after it has been weighed: who is lost then is lost all the same. */
static void drop_takes_the_weight_after_weighing_too(void **state)
{
    static snapshot c;
    for (int order = 0; order < 2; order++) {
        gibbs_plan bad = {.iteration = 3, .particle = 70, .attempts = 1};
        lab l;
        gibbs_lab(&l, &bad, order, SOSMC_NONFINITE_DROP);
        steps(&l, 4);
        assert_int_equal(sosmc_last(l.s)->nonfinite, 1);
        look(&l, &c);
        for (int i = 0; i < N; i++) assert_true((c.logw[i] == -INFINITY) == (i == 70));
        sosmc_free(l.s);
    }
}

/* A weight that is not a number is a failure of the move, whatever the particle looks like. */
static int nan_weight_step(const sosmc_kernel *k, sosmc_move *m)
{
    sosmc_kernel ula = sosmc_ula(k->h);
    int rc = ula.step(&ula, m);
    const double *poison = k->self;
    if (m->logG && m->rng.step == 2 && m->b.first == TILE) m->logG[6] = *poison;
    return rc;
}

static void a_weight_that_is_no_number(void **state)
{
    static const double poison[] = {NAN, INFINITY, -INFINITY};
    static snapshot c;
    for (int v = 0; v < 3; v++) {
        lab l;
        lab_fill(&l, sosmc_scheme_sosmc(N), sosmc_ula(0.05));
        l.cfg.kernel.step = nan_weight_step;
        l.cfg.kernel.self = &poison[v];
        l.cfg.scheme.ess_min = 0.0;
        lab_open(&l);
        steps(&l, 3);
        assert_int_equal(sosmc_last(l.s)->nonfinite, v < 2); /* -inf is a weight of zero, and said so by the kernel */
        look(&l, &c);
        for (int i = 0; i < N; i++) assert_true((c.logw[i] == -INFINITY) == (i == 70));
        sosmc_free(l.s);
    }
}

/* ---------------------------------------------------------------------------- retry */

enum { ATTEMPTS = 64 };
typedef struct {
    int attempts, bad; /* moves seen; the first `bad` of iteration `at` fail */
    int64_t at;
    double h[ATTEMPTS], x[ATTEMPTS], x_new[ATTEMPTS], gx[ATTEMPTS];
    sosmc_rng rng[ATTEMPTS];
} witness;

/* One tile only, so that attempts can be counted here. */
static int witnessed_step(const sosmc_kernel *k, sosmc_move *m)
{
    witness *w = (witness *)k->self;
    sosmc_kernel ula = sosmc_ula(k->h);
    int rc = ula.step(&ula, m);
    int at = w->attempts++;
    if (at >= ATTEMPTS) return 1;
    w->h[at] = m->h;
    w->rng[at] = m->rng;
    w->x[at] = m->x[5];
    w->gx[at] = m->gx[5];
    w->x_new[at] = m->x_new[5];
    if ((int64_t)m->rng.step == w->at && (int)m->rng.retry < w->bad) m->logG[3] = m->U_new[3] = NAN;
    return rc;
}

static void retry_lab(lab *l, witness *w, int bad)
{
    *w = (witness){.bad = bad, .at = 2};
    lab_fill(l, sosmc_scheme_sosmc(20), sosmc_ula(0.05));
    l->cfg.kernel.step = witnessed_step;
    l->cfg.kernel.self = w;
    l->cfg.on_nonfinite = SOSMC_NONFINITE_RETRY;
    lab_open(l);
}

static double noise_of(const sosmc_rng *rng)
{
    _Alignas(64) double z[D * 24];
    sosmc_batch b = {.dim = D, .n = 20, .ld = 24};
    sosmc_normals(*rng, &b, z);
    return z[5];
}

static void retry_halves_the_step_of_this_move(void **state)
{
    static witness w;
    for (int bad = 0; bad <= 8; bad++) {
        lab l;
        retry_lab(&l, &w, bad);
        steps(&l, 5); /* iteration 0 does not move, 1 moves, 2 repeats, 3 and 4 move */
        assert_int_equal(w.attempts, 4 + bad);
        for (int a = 0; a < w.attempts; a++) {
            int repeat = a >= 1 && a <= 1 + bad ? a - 1 : 0;
            int step = a == 0 ? 1 : a <= 1 + bad ? 2 : a - bad + 1;
            assert_int_equal(w.rng[a].step, step);
            assert_int_equal(w.rng[a].retry, repeat);
            assert_true(w.h[a] == ldexp(0.05, -repeat));
            double z = noise_of(&w.rng[a]); /* fresh noise, from the kept copy */
            assert_true(fabs(w.x_new[a] - (w.x[a] - w.h[a] * w.gx[a] + sqrt(2.0 * w.h[a]) * z)) < 1e-14);
            if (repeat) assert_true(w.x[a] == w.x[a - 1] && z != noise_of(&w.rng[a - 1]));
        }
        assert_true(sosmc_last(l.s)->h == 0.05);
        assert_int_equal(sosmc_last(l.s)->retries, 0);
        sosmc_free(l.s);

        retry_lab(&l, &w, bad);
        steps(&l, 3);
        assert_int_equal(sosmc_last(l.s)->retries, bad);
        assert_true(sosmc_last(l.s)->h == 0.05);
        sosmc_free(l.s);
    }
}

static void retry_gives_up_after_eight(void **state)
{
    static witness w;
    lab l;
    retry_lab(&l, &w, 9);
    steps(&l, 2);
    assert_int_equal(sosmc_step(l.s), SOSMC_ENUMERIC);
    assert_int_equal(w.attempts, 1 + 9); /* the move and eight repetitions */
    assert_contains(sosmc_message(l.s), "iteration 2");
    assert_contains(sosmc_message(l.s), "particle 3");
    assert_contains(sosmc_message(l.s), "theta = (0.25, -3)");
    assert_contains(sosmc_message(l.s), "nan");
    sosmc_free(l.s);
}

/* A repeated move has names of its own: threads draw the same, and the weights of the repeated move are exact ones. */
static void retry_is_the_same_on_any_thread(void **state)
{
    uint64_t hash[2];
    for (int q = 0; q < 2; q++) {
        lab l;
        lab_fill(&l, sosmc_scheme_sosmc(N), sosmc_ula(0.05));
        l.cfg.on_nonfinite = SOSMC_NONFINITE_RETRY;
        l.cfg.threads = q ? 3 : 1;
        lab_open(&l);
        steps(&l, 2);
        l.q.wall = 2.2; /* where a step that is small enough does not reach */
        int retries = 0;
        for (int k = 0; k < 8; k++) {
            steps(&l, 1);
            retries += sosmc_last(l.s)->retries;
        }
        assert_true(retries > 0);
        hash[q] = sosmc_hash(l.s);
        sosmc_free(l.s);
    }
    assert_true(hash[0] == hash[1]);
}

/* ---------------------------------------------------------------------------- restart */

static void restart_draws_from_the_initial_law(void **state)
{
    const sosmc_scheme schemes[] = {sosmc_scheme_unweighted(N), sosmc_scheme_moved_first(N)};
    static snapshot with, without;
    for (int q = 0; q < 2; q++)
        for (int threads = 1; threads <= 3; threads += 2) {
            _Alignas(64) double z[D * 8];
            sosmc_batch b = {.dim = D, .n = 1, .ld = 8, .first = 70};
            lab l, clean;
            lab_fill(&l, schemes[q], sosmc_ula(0.05));
            l.cfg.on_nonfinite = SOSMC_NONFINITE_RESTART;
            l.cfg.threads = threads;
            clean = l;
            clean.p.model.self = clean.p.init.self = &clean.q;
            l.q.offender[0] = 70;
            l.q.batches_only = 1;
            lab_open(&l);
            lab_open(&clean);
            steps(&l, 2);
            steps(&clean, 3);
            if (bad_step(&l) != SOSMC_OK) fail_msg("%s", sosmc_message(l.s));
            assert_true(sosmc_last(l.s)->nonfinite >= 1);
            assert_int_equal(sosmc_last(clean.s)->nonfinite, 0);
            look(&l, &with);
            look(&clean, &without);
            sosmc_normals((sosmc_rng){.seed = 5, .step = 2, .stream = SOSMC_STREAM_REFRESH, .retry = 1}, &b, z);
            for (int i = 0; i < N; i++)
                for (int j = 0; j < D; j++)
                    assert_true(with.x[i * D + j] == (i == 70 ? z[j * 8] : without.x[i * D + j]));
            steps(&l, 5);
            sosmc_free(l.s);
            sosmc_free(clean.s);
        }
}

/* What the model had parked belongs to the particle that is gone: the gradient must not be taken from it. */
static void restart_forgets_what_was_parked(void **state)
{
    const sosmc_scheme schemes[] = {sosmc_scheme_unweighted(N), sosmc_scheme_moved_first(N),
                                    sosmc_scheme_pcd(N, 2 * N, 3)};
    for (int q = 0; q < 3; q++) {
        uint64_t hash[2];
        for (int parked = 0; parked < 2; parked++) {
            lab l;
            lab_fill(&l, schemes[q], sosmc_ula(0.05));
            l.cfg.optimiser = sosmc_sgd(0.05);
            l.cfg.on_nonfinite = SOSMC_NONFINITE_RESTART;
            if (!parked) l.cfg.work_limit = 0;
            l.q.offender[0] = 70;
            l.q.batches_only = 1;
            lab_open(&l);
            steps(&l, 2);
            for (int k = 0; k < 3; k++)
                if (bad_step(&l) != SOSMC_OK) fail_msg("%s", sosmc_message(l.s));
            steps(&l, 2);
            hash[parked] = sosmc_hash(l.s);
            sosmc_free(l.s);
        }
        assert_true(hash[0] == hash[1]);
    }
}

static void restart_may_fail_too(void **state)
{
    lab l;
    lab_fill(&l, sosmc_scheme_unweighted(N), sosmc_ula(0.05));
    l.cfg.on_nonfinite = SOSMC_NONFINITE_RESTART;
    l.q.offender[0] = 70; /* alone or not */
    lab_open(&l);
    steps(&l, 2);
    assert_int_equal(bad_step(&l), SOSMC_ENUMERIC);
    assert_contains(sosmc_message(l.s), "iteration 2");
    assert_contains(sosmc_message(l.s), "restarted");
    assert_contains(sosmc_message(l.s), "particle 70");
    assert_contains(sosmc_message(l.s), "theta = (0.25, -3)");
    sosmc_free(l.s);
}

static void restart_in_sweeps_and_pools(void **state)
{
    sosmc_scheme soul = sosmc_scheme_soul(10);
    soul.particles = soul.pool = N;
    const sosmc_scheme schemes[] = {soul, sosmc_scheme_pcd(N, 2 * N, 3)};
    for (int q = 0; q < 2; q++) {
        uint64_t hash[2];
        for (int t = 0; t < 2; t++) {
            lab l;
            lab_fill(&l, schemes[q], sosmc_ula(0.05));
            l.cfg.on_nonfinite = SOSMC_NONFINITE_RESTART;
            l.cfg.threads = t ? 3 : 1;
            l.q.offender[0] = 20;
            l.q.offender[1] = 149;
            l.q.batches_only = 1;
            lab_open(&l);
            for (int k = 0; k < 4; k++) {
                if (bad_step(&l) != SOSMC_OK) fail_msg("%s", sosmc_message(l.s));
                assert_true(sosmc_last(l.s)->nonfinite >= 2);
                assert_true(isfinite(sosmc_last(l.s)->grad_norm) && isfinite(sosmc_last(l.s)->mean_energy));
            }
            steps(&l, 1);
            assert_int_equal(sosmc_last(l.s)->nonfinite, 0);
            hash[t] = sosmc_hash(l.s);
            sosmc_free(l.s);
        }
        assert_true(hash[0] == hash[1]);
    }
}

/* ---------------------------------------------------------------------------- who knows which policy */

static void policies_belong_to_schemes(void **state)
{
    for (int weighted = 0; weighted < 2; weighted++)
        for (int sweeps = 1; sweeps <= 2; sweeps++)
            for (int policy = -1; policy <= SOSMC_NONFINITE_RESTART + 1; policy++) {
                int known = policy == SOSMC_NONFINITE_DEFAULT || policy == SOSMC_NONFINITE_FAIL ||
                            (weighted
                                 ? policy == SOSMC_NONFINITE_DROP || (policy == SOSMC_NONFINITE_RETRY && sweeps == 1)
                                 : policy == SOSMC_NONFINITE_RESTART);
                lab l;
                lab_fill(&l, weighted ? sosmc_scheme_sosmc(N) : sosmc_scheme_unweighted(N), sosmc_ula(0.05));
                l.cfg.scheme.sweeps = sweeps;
                l.cfg.on_nonfinite = policy;
                sosmc_status status = sosmc_create(&l.s, &l.p, &l.cfg);
                if (status != (known ? SOSMC_OK : SOSMC_EINVAL))
                    fail_msg("policy %d, weighted %d, sweeps %d: status %d", policy, weighted, sweeps, status);
                if (!known) assert_contains(sosmc_message(l.s), "on_nonfinite");
                sosmc_free(l.s);
            }
}

/* ---------------------------------------------------------------------------- what no policy covers */

static void the_start_must_be_finite(void **state)
{
    static const struct {
        place where;
        const char *word;
    } cases[] = {{IN_ENERGY, "initial"}, {IN_GX, "initial"},          {IN_X, "initial"},
                 {IN_SCORE, "score"},    {IN_REFERENCE, "theta_ref"}, {IN_LOGPDF, "density"}};
    static const double theta_ref[D] = {7.0, 0.0}, values[] = {NAN, INFINITY, -INFINITY};
    for (size_t q = 0; q < sizeof cases / sizeof *cases; q++)
        for (int v = 0; v < 3; v++)
            for (int threads = 1; threads <= 3; threads += 2)
                for (int policy = SOSMC_NONFINITE_FAIL; policy <= SOSMC_NONFINITE_RETRY; policy++) {
                    lab l;
                    lab_fill(&l, sosmc_scheme_sosmc(N), sosmc_ula(0.05));
                    sosmc_score score = {.self = &l.q, .eval = reward};
                    l.p.objective = sosmc_reward_reverse(score, 0.5, theta_ref);
                    l.p.init.logpdf = logpdf;
                    l.cfg.on_nonfinite = policy;
                    l.cfg.threads = threads;
                    l.q.armed = 1;
                    l.q.where = cases[q].where;
                    l.q.value = values[v];
                    l.q.offender[0] = 140;
                    l.q.offender[1] = 70;
                    assert_int_equal(sosmc_create(&l.s, &l.p, &l.cfg), SOSMC_ENUMERIC);
                    assert_contains(sosmc_message(l.s), "iteration 0");
                    assert_contains(sosmc_message(l.s), "particle 70");
                    assert_contains(sosmc_message(l.s), cases[q].word);
                    assert_contains(sosmc_message(l.s), "theta = (0.25, -3)");
                    sosmc_free(l.s);
                }
}

static void theta0_must_be_finite(void **state)
{
    const double theta0[D] = {0.0, NAN};
    lab l;
    lab_fill(&l, sosmc_scheme_sosmc(N), sosmc_ula(0.05));
    l.p.theta0 = theta0;
    assert_int_equal(sosmc_create(&l.s, &l.p, &l.cfg), SOSMC_EINVAL);
    assert_contains(sosmc_message(l.s), "theta0[1]");
    assert_contains(sosmc_message(l.s), "nan");
    sosmc_free(l.s);
}

static void scores_on_the_way_must_be_finite(void **state)
{
    static const double theta_ref[D] = {7.0, 0.0};
    for (int where = IN_SCORE; where <= IN_REFERENCE; where++)
        for (int threads = 1; threads <= 3; threads += 2) {
            lab l;
            lab_fill(&l, sosmc_scheme_sosmc(N), sosmc_mala(0.1));
            sosmc_score score = {.self = &l.q, .eval = reward};
            l.p.objective = sosmc_reward_reverse(score, 0.5, theta_ref);
            l.cfg.threads = threads;
            l.q.where = (place)where;
            l.q.value = -INFINITY;
            l.q.offender[0] = 140;
            l.q.offender[1] = 70;
            lab_open(&l);
            steps(&l, 3);
            assert_int_equal(bad_step(&l), SOSMC_ENUMERIC);
            assert_contains(sosmc_message(l.s), "iteration 3");
            assert_contains(sosmc_message(l.s), "particle 70");
            assert_contains(sosmc_message(l.s), where == IN_SCORE ? "score" : "theta_ref");
            assert_contains(sosmc_message(l.s), "-inf");
            sosmc_free(l.s);
        }
}

static void gradients_must_be_finite(void **state)
{
    static const double values[] = {NAN, INFINITY, 1e300}; /* the last has a norm that overflows */
    for (int where = IN_GRADIENT; where <= IN_DATA_GRADIENT; where++)
        for (int v = 0; v < 3; v++) {
            lab l;
            lab_fill(&l, sosmc_scheme_sosmc(N), sosmc_ula(0.05));
            l.p.objective = sosmc_likelihood(sosmc_standard_normal(), 100);
            l.p.objective.penalty = penalty;
            l.q.where = (place)where;
            l.q.value = values[v];
            l.q.offender[0] = 70;
            lab_open(&l);
            steps(&l, 2);
            assert_int_equal(bad_step(&l), SOSMC_ENUMERIC);
            assert_contains(sosmc_message(l.s), "iteration 2");
            assert_contains(sosmc_message(l.s), "gradient");
            if (v == 0 && where == IN_DATA_GRADIENT) {
                assert_contains(sosmc_message(l.s), "component 1");
                assert_contains(sosmc_message(l.s), "nan");
                assert_contains(sosmc_message(l.s), "theta[1] = -3");
            }
            sosmc_free(l.s);
        }
}

static void poison_theta(const sosmc_optimiser *o, int64_t k, int dim, const double *g, double *theta, double *slots)
{
    if (k == 2) theta[1] = *(const double *)o->self;
}

static void updates_must_be_finite(void **state)
{
    static const double values[] = {NAN, INFINITY, -INFINITY};
    const char *const words[] = {"nan", "inf", "-inf"};
    for (int v = 0; v < 3; v++) {
        lab l;
        lab_fill(&l, sosmc_scheme_sosmc(N), sosmc_ula(0.05));
        l.cfg.optimiser = (sosmc_optimiser){.name = "poison", .self = &values[v], .step = poison_theta};
        lab_open(&l);
        steps(&l, 2);
        assert_int_equal(sosmc_step(l.s), SOSMC_ENUMERIC);
        assert_contains(sosmc_message(l.s), "iteration 2");
        assert_contains(sosmc_message(l.s), "theta[1]");
        assert_contains(sosmc_message(l.s), words[v]);
        assert_contains(sosmc_message(l.s), "-3"); /* what it was */
        sosmc_free(l.s);
    }
    lab l;
    lab_fill(&l, sosmc_scheme_sosmc(N), sosmc_ula(0.05));
    l.cfg.optimiser = sosmc_sgd(1e308); /* no poison: a rate that is far too large */
    lab_open(&l);
    sosmc_status status = sosmc_run(l.s, 3, NULL, NULL);
    assert_int_equal(status, SOSMC_ENUMERIC);
    assert_true(strlen(sosmc_message(l.s)) > 20);
    sosmc_free(l.s);
}

/* ---------------------------------------------------------------------------- Metropolis rejects, which is exact */

/* The standard normal on x > 0: beyond the wall U is `wall` and the gradient is no number. */
static int half_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const double *wall = self;
    for (int i = 0; i < b->n; i++) {
        double x = b->x[i];
        U[i] = x > 0.0 ? 0.5 * x * x : *wall;
        if (gx) gx[i] = x > 0.0 ? x : NAN;
    }
    return 0;
}

static int no_gradient(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    return 0;
}

/* Far from the target, inside the wall. */
static int wide_half(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    sosmc_normals(rng, b, x);
    for (int i = 0; i < b->n; i++) x[i] = 1e-3 + 3.0 * fabs(x[i]);
    return 0;
}

/* The negative control: goes wherever U is finite, without asking how likely that is. */
static int careless_step(const sosmc_kernel *k, sosmc_move *m)
{
    sosmc_normals(m->rng, &m->b, m->x_new);
    for (int i = 0; i < m->b.n; i++) m->x_new[i] = m->x[i] + sqrt(2.0 * m->h) * m->x_new[i];
    int rc = sosmc_evaluate(m, SOSMC_AT_CURRENT, m->x_new, m->U_new, NULL);
    for (int i = 0; i < m->b.n; i++)
        if (!isfinite(m->U_new[i])) {
            m->x_new[i] = m->x[i];
            m->U_new[i] = m->U[i];
        }
    return rc;
}

enum { MANY = 4000, MOVES = 250 };

/* The larger of the two errors of E x and E x^2, in standard errors. theta stands still and nothing is resampled, so
 * the particles are independent chains. */
static double half_line_error(sosmc_kernel kernel, int weighted, int order, double wall)
{
    static double x[MANY], logw[MANY];
    sosmc_problem p = {
        .model = {.dim_x = 1, .dim_theta = 1, .self = &wall, .energy = half_energy, .grad_theta = no_gradient},
        .objective = sosmc_mmle(),
        .init = {.draw = wide_half}};
    sosmc_settings cfg = sosmc_defaults();
    sosmc *s = NULL;
    cfg.scheme = weighted ? sosmc_scheme_sosmc(MANY) : sosmc_scheme_unweighted(MANY);
    cfg.scheme.order = order;
    cfg.scheme.ess_min = 0.0;
    cfg.kernel = kernel;
    cfg.optimiser = sosmc_sgd(0.0);
    cfg.on_nonfinite = SOSMC_NONFINITE_FAIL; /* a rejected proposal is not a failure */
    cfg.seed = 20;
    if (sosmc_create(&s, &p, &cfg) != SOSMC_OK) fail_msg("%s", sosmc_message(s));
    for (int k = 0; k < MOVES; k++) {
        if (sosmc_step(s) != SOSMC_OK) fail_msg("%s: %s", kernel.name, sosmc_message(s));
        assert_int_equal(sosmc_last(s)->nonfinite, 0);
    }
    double accept = sosmc_last(s)->accept;
    assert_int_equal(sosmc_cloud(s, x, logw), SOSMC_OK);
    sosmc_free(s);
    double sum = 0.0, sum2 = 0.0, sum4 = 0.0;
    for (int i = 0; i < MANY; i++) {
        assert_true(x[i] > 0.0);
        assert_true(fabs(logw[i] + log(MANY)) < 1e-12);
        sum += x[i];
        sum2 += x[i] * x[i];
        sum4 += x[i] * x[i] * x[i] * x[i];
    }
    double m1 = sum / MANY, m2 = sum2 / MANY, m4 = sum4 / MANY;
    double e1 = fabs(m1 - sqrt(2.0 / 3.14159265358979323846)) / sqrt((m2 - m1 * m1) / MANY);
    double e2 = fabs(m2 - 1.0) / sqrt((m4 - m2 * m2) / MANY);
    if (kernel.metropolis) assert_true(accept > 0.2 && accept < 0.999); /* some proposals were rejected */
    return e1 > e2 ? e1 : e2;
}

static void metropolis_is_exact_at_a_wall(void **state)
{
    const sosmc_kernel kernels[] = {sosmc_rwm(0.4), sosmc_mala(0.2), sosmc_hmc(0.3, 4, 1.0)};
    const double walls[] = {INFINITY, NAN, -INFINITY};
    for (int k = 0; k < 3; k++)
        for (int v = 0; v < 3; v++) {
            assert_true(half_line_error(kernels[k], 1, v == 1 ? SOSMC_ORDER_AUTHORS : SOSMC_ORDER_PAPER, walls[v]) <
                        4.0);
            if (v == 1) assert_true(half_line_error(kernels[k], 0, SOSMC_ORDER_PAPER, walls[v]) < 4.0);
        }
}

static void a_careless_kernel_is_noticed(void **state)
{
    sosmc_kernel careless = sosmc_rwm(0.4);
    careless.step = careless_step;
    careless.metropolis = 0;
    assert_true(half_line_error(careless, 1, SOSMC_ORDER_PAPER, INFINITY) > 20.0);
}

/* ---------------------------------------------------------------------------- callbacks that return non-zero */

typedef enum {
    C_PREPARE,
    C_ENERGY,
    C_GRAD,
    C_SCORE,
    C_INIT,
    C_INIT_PDF,
    C_DATA,
    C_DATA_PDF,
    C_KERNEL,
    C_H,
    C_PENALTY,
    CALLBACKS
} callback;
static const char *const CALLBACK_NAMES[CALLBACKS] = {"prepare",   "energy",      "grad_theta", "score",
                                                      "init.draw", "init.logpdf", "data.draw",  "data.logpdf",
                                                      "witness",   "H",           "penalty"};

/* Which call of which callback fails; or, for several threads, every call on the second tile and behind. */
static struct {
    atomic_int calls[CALLBACKS];
    callback which;
    int at, by_tile, sick; /* at: counted from 1; sick: particle 5 of a batch has no energy (to be restarted) */
} script;

enum { RETURNED = 77 };

static int trip(callback which, const sosmc_batch *b)
{
    int call = atomic_fetch_add(&script.calls[which], 1) + 1;
    if (which != script.which) return 0;
    if (script.by_tile) return b && b->first >= TILE ? 100 + (int)(b->first / TILE) : 0;
    return call == script.at ? RETURNED : 0;
}

static int s_prepare(const void *self, const double *theta, void *prep)
{
    memcpy(prep, theta, D * sizeof(double));
    return trip(C_PREPARE, NULL);
}
static int s_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    static const plan calm = {.offender = {-1, -1, -1, -1}};
    (void)energy(&calm, theta, b, U, gx);
    if (script.sick && b->n > 5 && b->first == 0) U[5] = NAN;
    return trip(C_ENERGY, b);
}
static int s_grad(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    static const plan calm = {.offender = {-1, -1, -1, -1}};
    (void)grad_theta(&calm, theta, b, c, g);
    return trip(C_GRAD, b);
}
static int s_h(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    return trip(C_H, b);
}
static int s_penalty(const void *self, const double *theta, const sosmc_batch *y, double weight, double *g,
                     double *value)
{
    return trip(C_PENALTY, y);
}
static int s_score(const void *self, const sosmc_batch *b, double *s)
{
    for (int i = 0; i < b->n; i++) s[i] = b->x[i];
    return trip(C_SCORE, b);
}
static int s_init(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    sosmc_normals(rng, b, x);
    return trip(C_INIT, b);
}
static int s_data(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    sosmc_normals(rng, b, x);
    return trip(C_DATA, b);
}
static int s_init_pdf(const void *self, const sosmc_batch *b, double *lq)
{
    (void)sosmc_standard_normal().logpdf(NULL, b, lq);
    return trip(C_INIT_PDF, b);
}
static int s_data_pdf(const void *self, const sosmc_batch *b, double *lq)
{
    (void)sosmc_standard_normal().logpdf(NULL, b, lq);
    return trip(C_DATA_PDF, b);
}
static int s_step(const sosmc_kernel *k, sosmc_move *m)
{
    sosmc_kernel ula = sosmc_ula(k->h);
    int rc = ula.step(&ula, m);
    return rc ? rc : trip(C_KERNEL, &m->b);
}

enum { FORWARD, FORWARD_REFERENCE, REVERSE, PCD, SOUL, RESTARTS, SCENARIOS };

static void scenario(lab *l, int which)
{
    sosmc_source init = {.draw = s_init}, data = {.draw = s_data};
    sosmc_score score = {.eval = s_score};
    lab_fill(l, sosmc_scheme_sosmc(N), sosmc_ula(0.05));
    l->cfg.optimiser = sosmc_sgd(0.01);
    l->p.model.prep = D * sizeof(double);
    l->p.model.prepare = s_prepare;
    l->p.model.energy = s_energy;
    l->p.model.grad_theta = s_grad;
    l->p.init = init;
    script.sick = which == RESTARTS;
    switch (which) {
    case FORWARD: /* densities of both laws, a regulariser, a user's kernel */
        l->p.init.logpdf = s_init_pdf;
        data.logpdf = s_data_pdf;
        l->p.objective = sosmc_reward_forward(score, 0.5, data, N, THETA0);
        l->p.objective.penalty = s_penalty;
        l->cfg.kernel.name = "witness";
        l->cfg.kernel.step = s_step;
        break;
    case FORWARD_REFERENCE: /* exact start, so that the KL needs U at theta_ref */
        l->p.init.exact = 1;
        l->p.objective = sosmc_reward_forward(score, 0.5, data, N, THETA0);
        l->cfg.kernel = sosmc_hmc(0.2, 2, 1.0);
        break;
    case REVERSE:
        l->p.objective = sosmc_reward_reverse(score, 0.5, THETA0);
        l->cfg.kernel = sosmc_mala(0.1);
        l->cfg.scheme.order = SOSMC_ORDER_AUTHORS;
        break;
    case PCD:
        l->p.objective = sosmc_likelihood(data, N);
        l->p.objective.energy2 = 0.01;
        l->cfg.scheme = sosmc_scheme_pcd(N, 2 * N, 2);
        break;
    case SOUL:
        l->p.objective.score = score;
        l->p.objective.H = s_h;
        l->cfg.scheme = sosmc_scheme_soul(4);
        l->cfg.scheme.particles = l->cfg.scheme.pool = N;
        l->cfg.kernel = sosmc_rwm(0.1);
        break;
    default:
        l->cfg.scheme = sosmc_scheme_moved_first(N);
        l->cfg.on_nonfinite = SOSMC_NONFINITE_RESTART;
        break;
    }
}

enum { ROOM = 1 << 18 };
typedef struct {
    size_t used, at;
    char bytes[ROOM];
} memory;

static int to_memory(void *ctx, const void *bytes, size_t n)
{
    memory *m = ctx;
    if (m->used + n > ROOM) return -1;
    memcpy(m->bytes + m->used, bytes, n);
    m->used += n;
    return 0;
}

static int from_memory(void *ctx, void *bytes, size_t n)
{
    memory *m = ctx;
    if (m->at + n > m->used) return -1;
    memcpy(bytes, m->bytes + m->at, n);
    m->at += n;
    return 0;
}

/* A run that calls everything there is to call: start, steps, and the evaluations after a load. */
static sosmc_status run_script(lab *l, const char **stage)
{
    static memory m;
    for (int c = 0; c < CALLBACKS; c++) atomic_store(&script.calls[c], 0);
    m.used = m.at = 0;
    l->s = NULL;
    *stage = "";
    /* nothing of the start counts for a restarting scenario: sick particles may not start */
    int sick = script.sick;
    script.sick = 0;
    sosmc_status status = sosmc_create(&l->s, &l->p, &l->cfg);
    script.sick = sick;
    for (int k = 0; k < 2 && status == SOSMC_OK; k++) {
        *stage = k ? "iteration 1" : "iteration 0";
        status = sosmc_step(l->s);
    }
    if (status != SOSMC_OK) return status;
    *stage = "";
    status = sosmc_save(l->s, to_memory, &m);
    if (status == SOSMC_OK) status = sosmc_load(l->s, from_memory, &m);
    if (status != SOSMC_OK) return status;
    *stage = "iteration 2";
    return sosmc_step(l->s);
}

static void every_call_may_fail(void **state)
{
    int tripped[CALLBACKS] = {0};
    for (int which = 0; which < SCENARIOS; which++)
        for (int c = 0; c < CALLBACKS; c++)
            for (int at = 1;; at++) {
                lab l;
                const char *stage;
                char value[32];
                script.which = (callback)c;
                script.at = at;
                script.by_tile = 0;
                scenario(&l, which);
                sosmc_status status = run_script(&l, &stage);
                if (status == SOSMC_OK) {
                    assert_true(atomic_load(&script.calls[c]) < at);
                    sosmc_free(l.s);
                    break;
                }
                const char *message = sosmc_message(l.s);
                assert_true(atomic_load(&script.calls[c]) >= at);
                if (status != SOSMC_EMODEL)
                    fail_msg("scenario %d, %s call %d: status %d, %s", which, CALLBACK_NAMES[c], at, status, message);
                /* an energy that fails inside a kernel makes the kernel fail: see the test below */
                if (c != C_ENERGY || !strstr(message, l.cfg.kernel.name)) assert_contains(message, CALLBACK_NAMES[c]);
                (void)snprintf(value, sizeof value, "returned %d", RETURNED);
                assert_contains(message, value);
                assert_contains(message, stage);
                tripped[c]++;
                sosmc_free(l.s);
            }
    for (int c = 0; c < CALLBACKS; c++)
        if (tripped[c] == 0) fail_msg("no scenario calls %s", CALLBACK_NAMES[c]);
    script.sick = 0;
}

/* The user wrote an energy, not a kernel: the message must send them to the right place. */
static void an_energy_inside_a_kernel_is_called_energy(void **state)
{
    const sosmc_kernel kernels[] = {sosmc_ula(0.05), sosmc_mala(0.1), sosmc_rwm(0.1), sosmc_hmc(0.2, 2, 1.0)};
    for (int k = 0; k < 4; k++) {
        lab l;
        script.which = C_ENERGY;
        script.by_tile = 0;
        script.at = 0;
        scenario(&l, REVERSE);
        l.p.objective = sosmc_mmle();
        l.cfg.kernel = kernels[k];
        l.cfg.scheme = sosmc_scheme_unweighted(N);
        lab_open(&l);
        steps(&l, 1);
        script.at = atomic_load(&script.calls[C_ENERGY]) +
                    (kernels[k].invariant ? 2 : 1); /* tile 0 evaluates, then moves */
        assert_int_equal(sosmc_step(l.s), SOSMC_EMODEL);
        assert_contains(sosmc_message(l.s), "energy");
        assert_contains(sosmc_message(l.s), "returned 77");
        sosmc_free(l.s);
    }
}

/* Two tiles fail on three threads, in any order: the lower is reported, with what it returned. */
static void the_lowest_failure_is_reported(void **state)
{
    const callback which[] = {C_ENERGY, C_GRAD, C_SCORE, C_INIT, C_INIT_PDF, C_DATA, C_DATA_PDF, C_KERNEL, C_PENALTY};
    for (size_t q = 0; q < sizeof which / sizeof *which; q++)
        for (int at_start = 0; at_start < 2; at_start++) {
            char first[512] = "";
            for (int repeat = 0; repeat < 12; repeat++) {
                lab l;
                script.which = CALLBACKS;
                script.by_tile = 1;
                scenario(&l, FORWARD);
                l.cfg.threads = repeat ? 3 : 1;
                if (at_start) script.which = which[q];
                sosmc_status status = sosmc_create(&l.s, &l.p, &l.cfg);
                if (status == SOSMC_OK) {
                    steps(&l, at_start ? 0 : 2);
                    script.which = which[q];
                    status = sosmc_step(l.s);
                }
                if (status == SOSMC_OK) { /* the initial law is not asked again */
                    assert_true(which[q] == C_INIT || which[q] == C_INIT_PDF || (at_start && which[q] == C_KERNEL));
                    sosmc_free(l.s);
                    continue;
                }
                assert_int_equal(status, SOSMC_EMODEL);
                assert_contains(sosmc_message(l.s), "returned 101");
                assert_contains(sosmc_message(l.s), "particle 64");
                if (repeat == 0) (void)snprintf(first, sizeof first, "%s", sosmc_message(l.s));
                assert_string_equal(first, sosmc_message(l.s));
                sosmc_free(l.s);
            }
        }
    script.by_tile = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fail_names_the_offender),
        cmocka_unit_test(fail_shows_the_value_that_is_wrong),
        cmocka_unit_test(fail_inside_sweeps_and_pools),
        cmocka_unit_test(drop_takes_the_weight),
        cmocka_unit_test(drop_ends_with_resampling),
        cmocka_unit_test(drop_until_nobody_is_left),
        cmocka_unit_test(a_dead_cloud_names_theta),
        cmocka_unit_test(drop_keeps_the_gradient_finite),
        cmocka_unit_test(retry_keeps_the_weight_of_invariant_kernels),
        cmocka_unit_test(drop_takes_the_weight_after_weighing_too),
        cmocka_unit_test(a_weight_that_is_no_number),
        cmocka_unit_test(retry_halves_the_step_of_this_move),
        cmocka_unit_test(retry_gives_up_after_eight),
        cmocka_unit_test(retry_is_the_same_on_any_thread),
        cmocka_unit_test(restart_draws_from_the_initial_law),
        cmocka_unit_test(restart_forgets_what_was_parked),
        cmocka_unit_test(restart_may_fail_too),
        cmocka_unit_test(restart_in_sweeps_and_pools),
        cmocka_unit_test(policies_belong_to_schemes),
        cmocka_unit_test(the_start_must_be_finite),
        cmocka_unit_test(theta0_must_be_finite),
        cmocka_unit_test(scores_on_the_way_must_be_finite),
        cmocka_unit_test(gradients_must_be_finite),
        cmocka_unit_test(updates_must_be_finite),
        cmocka_unit_test(metropolis_is_exact_at_a_wall),
        cmocka_unit_test(a_careless_kernel_is_noticed),
        cmocka_unit_test(every_call_may_fail),
        cmocka_unit_test(an_energy_inside_a_kernel_is_called_energy),
        cmocka_unit_test(the_lowest_failure_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
