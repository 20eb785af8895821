/* quartic_model.c: see quartic_model.h. The model writes the x and theta of its last call into its scratch. A batch that the
 * engine marks as fresh although they differ is counted as stale. */
#include "quartic_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "formulas_by_hand.h"

const double quartic_start[THETA] = {0.5, -0.3, 0.4}, quartic_away[THETA] = {0.2, 0.1, 0.6};

int quartic_same(const double *a, const double *b, int n)
{
    for (int j = 0; j < n; j++)
        if (a[j] != b[j]) return 0;
    return 1;
}

/* ---------------------------------------------------------------------------- a model that watches */

static void column(const sosmc_batch *b, int i, double *x)
{
    for (int j = 0; j < DIM; j++) x[j] = b->x[(size_t)j * (size_t)b->ld + (size_t)i];
}

static double *stamp_of(const sosmc_batch *b, int row, int i)
{
    return (double *)b->work + (size_t)row * (size_t)b->ld + (size_t)i;
}

static void stamp(const double *theta, const sosmc_batch *b, int valid)
{
    for (int i = 0; i < b->n; i++) {
        double x[DIM];
        column(b, i, x);
        for (int j = 0; j < DIM; j++) *stamp_of(b, j, i) = valid ? x[j] : NAN;
        for (int j = 0; j < THETA; j++) *stamp_of(b, DIM + j, i) = theta[j];
    }
}

static int stamped(const double *theta, const sosmc_batch *b, int i)
{
    double x[DIM];
    column(b, i, x);
    for (int j = 0; j < DIM; j++)
        if (*stamp_of(b, j, i) != x[j]) return 0;
    for (int j = 0; j < THETA; j++)
        if (*stamp_of(b, DIM + j, i) != theta[j]) return 0;
    return 1;
}

/* prep is a copy of the theta it was made for. */
static int prepare(const void *self, const double *theta, void *prep)
{
    memcpy(prep, theta, THETA * sizeof(double));
    return 0;
}

static int odd_shape(const double *theta, const sosmc_batch *b)
{
    return !quartic_same(b->prep, theta, THETA) || b->dim != DIM || b->n < 1 || b->n > b->ld || b->ld % 8 ||
           (uintptr_t)b->x % 64 || (uintptr_t)b->work % 64 || !b->simd;
}

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const quartic *m = self;
    tally *t = m->t;
    for (int i = 0; i < b->n; i++) {
        double x[DIM], g[DIM];
        column(b, i, x);
        U[i] = by_hand_U(theta, x) + m->shift;
        by_hand_gx(theta, x, g);
        for (int j = 0; gx && j < DIM; j++) gx[(size_t)j * (size_t)b->ld + (size_t)i] = g[j];
        if (t && t->listing && t->evaluated < SEEN_ROOM) memcpy(t->evaluated_at[t->evaluated++], x, sizeof x);
    }
    stamp(theta, b, gx != NULL);
    if (t) {
        atomic_fetch_add(quartic_same(theta, quartic_away, THETA) ? &t->references : &t->energies, b->n);
        atomic_fetch_add(&t->odd, odd_shape(theta, b));
    }
    return 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    const quartic *m = self;
    tally *t = m->t;
    for (int i = 0; i < b->n; i++) {
        double x[DIM];
        column(b, i, x);
        by_hand_gtheta(theta, x, c[i], g);
        if (t) atomic_fetch_add(&t->names, b->first + i);
        if (t && b->fresh) atomic_fetch_add(&t->stale, !stamped(theta, b, i));
        if (t && t->listing && t->seen < SEEN_ROOM) {
            t->seen_c[t->seen] = c[i];
            memcpy(t->seen_at[t->seen++], x, sizeof x);
        }
    }
    if (t) {
        atomic_fetch_add(&t->contracted, b->n);
        atomic_fetch_add(&t->fresh, b->fresh ? b->n : 0);
        atomic_fetch_add(&t->odd, odd_shape(theta, b));
    }
    return 0;
}

int quartic_reward(const void *self, const sosmc_batch *b, double *s)
{
    for (int i = 0; i < b->n; i++) {
        double x[DIM];
        column(b, i, x);
        s[i] = by_hand_R(x);
    }
    return 0;
}

const double DATA[ROWS * DIM] = {0.3, -0.2, 1.1, 0.7, -0.4, 0.9, 0.0, -1.2, 0.6, 0.1, -0.8, -0.5, 1.4, 0.2};
const sosmc_rows quartic_rows = {.data = DATA, .rows = ROWS, .mode = SOSMC_ROWS_IN_ORDER};
const double *quartic_row(int j) { return DATA + (size_t)(j % ROWS) * DIM; }

sosmc_problem quartic_problem(const quartic *m)
{
    return (sosmc_problem){.model = {.dim_x = DIM,
                                     .dim_theta = THETA,
                                     .work = STAMP * sizeof(double),
                                     .prep = THETA * sizeof(double),
                                     .tile = TILE,
                                     .self = m,
                                     .prepare = prepare,
                                     .energy = energy,
                                     .grad_theta = grad_theta},
                           .objective = sosmc_mmle(),
                           .init = sosmc_standard_normal(),
                           .theta0 = quartic_start};
}

/* ---------------------------------------------------------------------------- the engine on it */

sosmc_objective quartic_objective(int which, const double *theta_ref)
{
    sosmc_score score = {.eval = quartic_reward};
    switch (which) {
    case LIKELIHOOD: return sosmc_likelihood(sosmc_rows_source(&quartic_rows), BATCH);
    case FORWARD: return sosmc_reward_forward(score, 0.7, sosmc_rows_source(&quartic_rows), BATCH, theta_ref);
    case REVERSE: return sosmc_reward_reverse(score, 0.4, theta_ref);
    default: return sosmc_mmle();
    }
}

sosmc_kernel quartic_kernel(int which)
{
    switch (which) {
    case ULA: return sosmc_ula(0.1);
    case MALA: return sosmc_mala(0.5);
    case RWM: return sosmc_rwm(0.4);
    case HMC1: return sosmc_hmc(0.9, 1, 1.2);
    default: return sosmc_hmc(0.6, 3, 0.8);
    }
}

sosmc_kernel quartic_ula_at(int forward, int backward)
{
    sosmc_kernel k = sosmc_ula(0.1);
    k.forward_at = forward;
    k.backward_at = backward;
    return k;
}

sosmc_settings quartic_calm(sosmc_kernel kernel, int order)
{
    sosmc_settings cfg = sosmc_defaults();
    cfg.scheme = sosmc_scheme_sosmc(N);
    cfg.scheme.order = order;
    cfg.scheme.ess_min = 0;
    cfg.kernel = kernel;
    cfg.optimiser = sosmc_sgd(0.1);
    cfg.seed = 5;
    return cfg;
}

sosmc_adapt quartic_rule(double threshold, double factor, double min, double max)
{
    return (sosmc_adapt){.threshold = threshold, .factor = factor, .min = min, .max = max};
}

moment quartic_now(const sosmc *s)
{
    moment m = {.theta = {0}};
    assert_int_equal(sosmc_particles(s), N);
    assert_int_equal(sosmc_cloud(s, m.x[0], m.logw), SOSMC_OK);
    memcpy(m.theta, sosmc_theta(s), sizeof m.theta);
    return m;
}

/* ---------------------------------------------------------------------------- a kernel that looks */

static int checker_step(const sosmc_kernel *k, sosmc_move *m)
{
    const checker *c = k->self;
    size_t len = (size_t)m->b.dim * (size_t)m->b.ld;
    double U[64], gx[64 * DIM];
    long long wrong = 0, lost = 0;
    int newborn = c->t->first_move && m->rng.step % (uint64_t)c->sweeps == 0;
    int rc = sosmc_evaluate(m, SOSMC_AT_PREVIOUS, m->x, U, gx);
    for (int i = 0; i < m->b.n; i++) {
        wrong += U[i] != m->U[i];
        for (size_t e = (size_t)i; e < len; e += (size_t)m->b.ld) {
            wrong += m->gx && gx[e] != m->gx[e];
            lost += m->aux[e] != (newborn ? 0 : 2 * m->x[e] + 1);
        }
    }
    atomic_fetch_add(&c->t->wrong, wrong);
    atomic_fetch_add(&c->t->lost, lost);
    if (m->b.first == 0) c->t->h = m->h;
    if (rc == 0) rc = c->inner.step(&c->inner, m);
    for (size_t e = 0; e < len; e++) m->aux_new[e] = 2 * m->x_new[e] + 1;
    return rc;
}

sosmc_kernel quartic_checking(const checker *c)
{
    sosmc_kernel k = c->inner;
    k.step = checker_step;
    k.self = c;
    k.aux = 1;
    return k;
}
