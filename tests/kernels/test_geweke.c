/* test_geweke.c: joint-distribution tests of every kernel (Geweke 2004), with the engine's weights as acceptance ratios.
 *
 * Particles are drawn exactly from a joint law p(a) p(x | a) and carried by transitions that must leave it alone, round after
 * round; in the end every one of them, undone, must be a point of the unit cube. All statistics are bounded: no tail of
 * the weights can raise a false alarm. The transitions:
 *
 *     swap       a' = a + symmetric noise; the engine carries x from pi_a to pi_a' in some steps, the way back being the way
 *                there of the same kernel: accepted with probability min(1, p(a') G / p(a)), G the engine's weight. It must be
 *                the ratio of the densities of the two ways, momentum flipped, or the joint law is lost.
 *     pair       the same for two kernels that are each other's way back; a coin chooses which goes.
 *     fixed      the engine carries x at its own a, accepted with probability min(1, G); then a is moved given x.
 *     invariant  the engine's weight of the change from a to a' accepts a' for the old x; then the kernel moves x at its a.
 *     plain      unweighted Langevin steps, always accepted, under the law which they leave invariant.
 *
 * Kernels without a way back of their own kind are judged by means instead: E[G f(x')] = pi_a'(f) for exact x, f bounded,
 * with G's skewness taken into account. Negative controls are kernels of the user's own with one mistake each. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exact_laws.h"
#include "stats.h"

typedef enum { SWAP, PAIR, FIXED, INVARIANT, PLAIN } transition;

/* 14 statistics for each of 16 kernels by transitions, 8 for each of 9 by means. */
enum { PLANNED = 17 * 14 + 9 * 8 };
static int comparisons;

/* ---------------------------------------------------------------------------- rounds */

typedef struct {
    const char *name;
    const exact_law *(*law)(void);
    transition kind;
    int steps;
    sosmc_kernel kernel, back; /* back: of a pair */
    int forget_prior;          /* a negative control: p(a') / p(a) does not count */
} subject;

typedef struct {
    int n;
    double *a, *x;                       /* where everybody is */
    double *to, *x_new, *logG;           /* where they would go */
    double *x_other, *logG_other, *coin; /* the other kernel of a pair; uniforms */
} cloud;

static double *numbers(int n, int each)
{
    double *p = calloc((size_t)n * (size_t)each, sizeof *p);
    assert_non_null(p);
    return p;
}

static cloud cloud_new(int n)
{
    return (cloud){.n = n,
                   .a = numbers(n, LAWS_PARAMETERS),
                   .x = numbers(n, LAWS_DIM),
                   .to = numbers(n, LAWS_PARAMETERS),
                   .x_new = numbers(n, LAWS_DIM),
                   .logG = numbers(n, 1),
                   .x_other = numbers(n, LAWS_DIM),
                   .logG_other = numbers(n, 1),
                   .coin = numbers(n, 1)};
}

static void cloud_free(cloud *c)
{
    double *const all[] = {c->a, c->x, c->to, c->x_new, c->logG, c->x_other, c->logG_other, c->coin};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) free(all[k]);
}

static double *parameters(const cloud *c, double *a, int i) { return a + (size_t)i * LAWS_PARAMETERS; }
static double *state_at(const cloud *c, double *x, int i) { return x + (size_t)i * LAWS_DIM; }

/* Proposed parameters: a symmetric walk. */
static void walk(const cloud *c, uint64_t seed)
{
    static const double width[LAWS_PARAMETERS] = {0.4, 0.15};
    laws_normals(seed, c->n, LAWS_PARAMETERS, c->to);
    for (int e = 0; e < c->n * LAWS_PARAMETERS; e++) c->to[e] = c->a[e] + width[e % LAWS_PARAMETERS] * c->to[e];
}

static double log_prior_ratio(const subject *t, const cloud *c, int i)
{
    if (t->forget_prior) return 0;
    return laws_log_prior(parameters(c, c->to, i)) - laws_log_prior(parameters(c, c->a, i));
}

static void go(const subject *t, const cloud *c, sosmc_kernel k, const double *to, uint64_t seed, double *x,
               double *logG)
{
    const laws_trip trip = {.law = t->law(),
                            .n = c->n,
                            .steps = t->steps,
                            .weighted = t->kind != PLAIN,
                            .from = c->a,
                            .to = to,
                            .kernel = k,
                            .seed = seed};
    laws_carry(&trip, c->x, x, logG);
}

/* Takes over what was accepted; `moves` tells whether x goes along with a. */
static void accept(const subject *t, const cloud *c, int moves, int of_a, uint64_t seed)
{
    laws_uniforms(seed, 7, c->n, c->coin);
    for (int i = 0; i < c->n; i++) {
        double ratio = c->logG[i] + (of_a ? log_prior_ratio(t, c, i) : 0);
        if (!(log(c->coin[i]) < ratio)) continue;
        if (of_a) memcpy(parameters(c, c->a, i), parameters(c, c->to, i), LAWS_PARAMETERS * sizeof(double));
        if (moves) memcpy(state_at(c, c->x, i), state_at(c, c->x_new, i), LAWS_DIM * sizeof(double));
    }
}

/* a given x, by the law itself: no engine. */
static void move_parameters(const subject *t, const cloud *c, uint64_t seed)
{
    walk(c, seed);
    for (int i = 0; i < c->n; i++)
        c->logG[i] = laws_log_law(t->law(), parameters(c, c->to, i), state_at(c, c->x, i)) -
                     laws_log_law(t->law(), parameters(c, c->a, i), state_at(c, c->x, i));
    accept(t, c, 0, 1, seed);
}

static void swap_round(const subject *t, const cloud *c, uint64_t seed)
{
    walk(c, seed);
    go(t, c, t->kernel, c->to, seed, c->x_new, c->logG);
    if (t->kind == PAIR) {
        go(t, c, t->back, c->to, seed + 1, c->x_other, c->logG_other);
        laws_uniforms(seed, 8, c->n, c->coin);
        for (int i = 0; i < c->n; i++) {
            if (c->coin[i] < 0.5) continue;
            c->logG[i] = c->logG_other[i];
            memcpy(state_at(c, c->x_new, i), state_at(c, c->x_other, i), LAWS_DIM * sizeof(double));
        }
    }
    accept(t, c, 1, 1, seed);
}

static void invariant_round(const subject *t, const cloud *c, uint64_t seed)
{
    walk(c, seed);
    go(t, c, t->kernel, c->to, seed, c->x_new, c->logG);
    accept(t, c, 0, 1, seed);
    go(t, c, t->kernel, c->a, seed + 1, c->x_new, c->logG);
    for (int i = 0; i < c->n; i++) assert_true(fabs(c->logG[i]) < 1e-9); /* at one a nothing is to be weighed */
    memcpy(c->x, c->x_new, (size_t)c->n * LAWS_DIM * sizeof(double));
}

static void fixed_round(const subject *t, const cloud *c, uint64_t seed)
{
    go(t, c, t->kernel, c->a, seed, c->x_new, c->logG);
    accept(t, c, 1, 0, seed);
    move_parameters(t, c, seed + 1);
}

static void run_rounds(const subject *t, int n, int rounds, uint64_t seed, stats_cube *cube)
{
    cloud c = cloud_new(n);
    *cube = (stats_cube){.dim = LAWS_CUBE};
    seed = stats_seed(seed);
    laws_begin(t->law(), n, seed, c.a, c.x);
    for (int r = 0; r < rounds; r++) {
        uint64_t name = seed + 2 * (uint64_t)r + 2;
        switch (t->kind) {
        case SWAP:
        case PAIR: swap_round(t, &c, name); break;
        case INVARIANT: invariant_round(t, &c, name); break;
        default: fixed_round(t, &c, name); break;
        }
    }
    for (int i = 0; i < n; i++) {
        double u[LAWS_CUBE];
        laws_undo(t->law(), parameters(&c, c.a, i), state_at(&c, c.x, i), u);
        stats_cube_add(cube, u);
    }
    cloud_free(&c);
}

/* ---------------------------------------------------------------------------- kernels */

static sosmc_kernel langevin(double h, int forward_at, int backward_at, double noise)
{
    sosmc_kernel k = sosmc_ula(h);
    k.forward_at = forward_at;
    k.backward_at = backward_at;
    k.noise = noise;
    return k;
}

static sosmc_kernel random_walk(double h, double spread)
{
    sosmc_kernel k = sosmc_rwm(h);
    k.spread = spread;
    return k;
}

enum { SUBJECTS = 17 };
static subject subject_of(int s)
{
    const int before = SOSMC_AT_PREVIOUS, now = SOSMC_AT_CURRENT;
    const subject all[SUBJECTS] = {
        {"ula, one step", laws_skewed, SWAP, 1, langevin(0.7, before, now, 1), {0}, 0},
        {"ula, four steps", laws_skewed, SWAP, 4, langevin(0.6, before, now, 1), {0}, 0},
        {"ula, forward now, backward before", laws_skewed, SWAP, 1, langevin(0.7, now, before, 1), {0}, 0},
        {"ula, noise 0.9", laws_skewed, SWAP, 2, langevin(0.2, before, now, 0.9), {0}, 0},
        {"ula, both now / both before", laws_skewed, PAIR, 1, langevin(0.7, now, now, 1),
         langevin(0.7, before, before, 1), 0},
        {"ula without weights", laws_langevin, PLAIN, 3, sosmc_ula(LAWS_STEP), {0}, 0},
        {"mala", laws_skewed, INVARIANT, 1, sosmc_mala(0.8), {0}, 0},
        {"rwm", laws_skewed, INVARIANT, 1, sosmc_rwm(1.0), {0}, 0},
        {"hmc, one leapfrog step", laws_skewed, INVARIANT, 1, sosmc_hmc(1.2, 1, 1), {0}, 0},
        {"hmc, four leapfrog steps, mass 2", laws_skewed, INVARIANT, 1, sosmc_hmc(1.6, 4, 2), {0}, 0},
        {"underdamped, one step", laws_skewed, SWAP, 1, sosmc_underdamped(1.1, 1, 1), {0}, 0},
        {"underdamped, four steps", laws_skewed, SWAP, 4, sosmc_underdamped(0.9, 0.5, 1), {0}, 0},
        {"underdamped without memory, mass 2", laws_skewed, SWAP, 2, sosmc_underdamped(1.0, INFINITY, 2), {0}, 0},
        {"leapfrog, one step", laws_skewed, SWAP, 2, sosmc_leapfrog(0.9, 1, 1), {0}, 0},
        {"leapfrog, three steps, mass 2", laws_skewed, FIXED, 1, sosmc_leapfrog(1.2, 3, 2), {0}, 0},
        {"myula, ratio", laws_kinked, FIXED, 1, sosmc_myula(0.4, 0.4, SOSMC_MYULA_RATIO), {0}, 0},
        {"rwm of many scales", laws_skewed, INVARIANT, 1, random_walk(1.0, 8), {0}, 0},
    };
    return all[s];
}

static int cloud_size(void) { return stats_by_tier(10000, 100000, 4000); }
static int round_count(void) { return stats_by_tier(12, 30, 12); }

static void kernels_leave_the_joint_law_alone(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    for (int s = 0; s < SUBJECTS; s++) {
        subject t = subject_of(s);
        stats_cube cube;
        run_rounds(&t, cloud_size(), round_count(), 10000u * (uint64_t)(s + 1), &cube);
        stats_note_cube(&ledger, &cube, t.name);
    }
    comparisons += stats_close(&ledger);
}

/* ---------------------------------------------------------------------------- means */

enum { MEANS = 9, FUNCTIONS = 8 };
static subject mean_subject(int s)
{
    const int before = SOSMC_AT_PREVIOUS, now = SOSMC_AT_CURRENT;
    const subject all[MEANS] = {
        {"ula, both now", laws_skewed, SWAP, 3, langevin(0.3, now, now, 1), {0}, 0},
        {"ula, both before", laws_skewed, SWAP, 3, langevin(0.3, before, before, 1), {0}, 0},
        {"ula, kinked", laws_kinked, SWAP, 3, langevin(0.2, before, now, 1), {0}, 0},
        {"underdamped", laws_skewed, SWAP, 4, sosmc_underdamped(0.6, 0.5, 1), {0}, 0},
        {"underdamped without friction", laws_skewed, SWAP, 4, sosmc_underdamped(0.5, 0, 2), {0}, 0},
        {"leapfrog, two steps", laws_skewed, SWAP, 2, sosmc_leapfrog(0.6, 2, 1), {0}, 0},
        {"leapfrog, five steps, mass 2", laws_skewed, SWAP, 2, sosmc_leapfrog(0.5, 5, 2), {0}, 0},
        {"myula, ratio", laws_kinked, SWAP, 3, sosmc_myula(0.3, 0.3, SOSMC_MYULA_RATIO), {0}, 0},
        {"myula, cached", laws_kinked, SWAP, 3, sosmc_myula(0.3, 0.3, SOSMC_MYULA_CACHED), {0}, 0},
    };
    return all[s];
}

/* 1, then functions of x' given a' with mean 0, some of them times a function of a' or of the way from a to a'. */
static const char *const function_name[FUNCTIONS] = {"G",          "x0",          "x0 squared",          "x1",
                                                     "x1 squared", "x0 times x1", "x0 by the way of a0", "x0 by a1"};
static void functions(const double *u, double way, double *f)
{
    double q[LAWS_CUBE];
    for (int j = 0; j < LAWS_CUBE; j++) q[j] = sqrt(3) * (2 * u[j] - 1);
    f[0] = 1;
    f[1] = q[2];
    f[2] = q[2] * q[2] - 1;
    f[3] = q[3];
    f[4] = q[3] * q[3] - 1;
    f[5] = q[2] * q[3];
    f[6] = q[2] * tanh(way);
    f[7] = q[2] * q[1];
}

static void weigh(const subject *t, int n, uint64_t seed, stats_tally tally[FUNCTIONS])
{
    cloud c = cloud_new(n);
    memset(tally, 0, FUNCTIONS * sizeof *tally);
    seed = stats_seed(seed);
    laws_begin(t->law(), n, seed, c.a, c.x);
    walk(&c, seed + 1);
    go(t, &c, t->kernel, c.to, seed, c.x_new, c.logG);
    for (int i = 0; i < n; i++) {
        double u[LAWS_CUBE], f[FUNCTIONS];
        laws_undo(t->law(), parameters(&c, c.to, i), state_at(&c, c.x_new, i), u);
        functions(u, (parameters(&c, c.to, i)[0] - parameters(&c, c.a, i)[0]) / 0.4, f);
        for (int k = 0; k < FUNCTIONS; k++) stats_add(&tally[k], exp(c.logG[i]) * f[k]);
    }
    cloud_free(&c);
}

static int mean_size(void) { return stats_by_tier(40000, 400000, 40000); }

static void weighted_means_are_exact(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    for (int s = 0; s < MEANS; s++) {
        subject t = mean_subject(s);
        stats_tally tally[FUNCTIONS];
        weigh(&t, mean_size(), 1000000u + 10000u * (uint64_t)s, tally);
        for (int k = 0; k < FUNCTIONS; k++)
            stats_compare(&ledger, &tally[k], k == 0, "mean of %s, %s", function_name[k], t.name);
    }
    comparisons += stats_close(&ledger);
}

/* ---------------------------------------------------------------------------- negative controls */

/* A kernel around another one, with one mistake. */
typedef enum {
    NO_SQUARES,  /* the weight without h/4 (|g0|^2 - |g1|^2) */
    HALF_DRIFT,  /* the weight with (y-x).g0/2 instead of (y-x).(g0+g1)/2 */
    WRONG_THETA, /* the move drifts at the current theta, the weight believes at the previous one */
    NO_KINETIC,  /* a momentum kernel's weight from potentials alone */
    STALE,       /* the weight of the step before */
    SAME_NOISE,  /* every step draws the numbers of the first */
    NOT_REJECTED /* a random walk that accepts everything */
} mistake;

typedef struct {
    sosmc_kernel inner;
    mistake kind;
    double *late; /* log G of the step before, per particle */
} faulty;

static double langevin_weight(const sosmc_move *m, int i, double backward, double squares)
{
    double dot = 0, norms = 0;
    for (int j = 0; j < m->b.dim; j++) {
        size_t e = (size_t)j * (size_t)m->b.ld + (size_t)i;
        dot += 0.5 * (m->x_new[e] - m->x[e]) * (m->gx[e] + backward * m->gx_new[e]);
        norms += 0.25 * m->h * (m->gx[e] * m->gx[e] - m->gx_new[e] * m->gx_new[e]);
    }
    return m->U[i] - m->U_new[i] + dot + squares * norms;
}

static int blind_walk(sosmc_move *m)
{
    sosmc_normals(m->rng, &m->b, m->x_new);
    for (size_t e = 0; e < (size_t)m->b.dim * (size_t)m->b.ld; e++)
        m->x_new[e] = m->x[e] + sqrt(2 * m->h) * m->x_new[e];
    for (int i = 0; i < m->b.n; i++) m->accept[i] = 1;
    return sosmc_evaluate(m, SOSMC_AT_CURRENT, m->x_new, m->U_new, NULL);
}

static int faulty_step(const sosmc_kernel *k, sosmc_move *m)
{
    const faulty *f = k->self;
    sosmc_kernel inner = f->inner;
    if (f->kind == NOT_REJECTED) return blind_walk(m);
    if (f->kind == SAME_NOISE) m->rng.step = 0;
    int rc = inner.step(&inner, m);
    for (int i = 0; i < m->b.n && !rc; i++) {
        double right = m->logG[i], *late = f->late + m->b.first + i;
        switch (f->kind) {
        case NO_SQUARES: m->logG[i] = langevin_weight(m, i, 1, 0); break;
        case HALF_DRIFT: m->logG[i] = langevin_weight(m, i, 0, 1); break;
        case WRONG_THETA: m->logG[i] = langevin_weight(m, i, 1, 1); break;
        case NO_KINETIC: m->logG[i] = m->U[i] - m->U_new[i]; break;
        case STALE: m->logG[i] = *late; break;
        default: break;
        }
        *late = right;
    }
    return rc;
}

static void broken_is_noticed(const stats_ledger *ledger, subject t, mistake kind, const char *what)
{
    faulty f = {.inner = t.kernel, .kind = kind, .late = numbers(cloud_size(), 1)};
    stats_cube cube;
    t.kernel.step = faulty_step;
    t.kernel.self = &f;
    run_rounds(&t, cloud_size(), round_count(), 5000000, &cube);
    stats_must_notice_cube(ledger, &cube, what);
    free(f.late);
}

static void right_but_misused_is_noticed(const stats_ledger *ledger, subject t, const char *what)
{
    stats_cube cube;
    run_rounds(&t, cloud_size(), round_count(), 6000000, &cube);
    stats_must_notice_cube(ledger, &cube, what);
}

static subject taken_for_invariant(sosmc_kernel k, const exact_law *(*law)(void))
{
    k.invariant = 1;
    return (subject){.law = law, .kind = INVARIANT, .steps = 1, .kernel = k};
}

static void wrong_weights_are_noticed(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    broken_is_noticed(&ledger, subject_of(0), NO_SQUARES, "ULA weight without its squares");
    broken_is_noticed(&ledger, subject_of(0), HALF_DRIFT, "ULA weight without the backward drift");
    broken_is_noticed(&ledger, subject_of(1), STALE, "ULA with the weight of the step before");
    broken_is_noticed(&ledger, subject_of(1), SAME_NOISE, "ULA with the same noise in every step");
    broken_is_noticed(&ledger, subject_of(11), NO_KINETIC, "underdamped weight without kinetic energies");
    broken_is_noticed(&ledger, subject_of(11), SAME_NOISE, "underdamped with the same noise in every step");
    broken_is_noticed(&ledger, subject_of(14), NO_KINETIC, "leapfrog weight without kinetic energies");
    broken_is_noticed(&ledger, subject_of(15), NO_SQUARES, "MYULA weight with the gradient of the smooth part alone");
    broken_is_noticed(&ledger, subject_of(7), NOT_REJECTED, "random walk that never rejects");
    broken_is_noticed(&ledger, subject_of(16), NOT_REJECTED, "random walk of many scales that never rejects");
}

static void wrong_kernels_are_noticed(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    subject t = taken_for_invariant(sosmc_ula(0.8), laws_skewed);
    right_but_misused_is_noticed(&ledger, t, "MALA that never rejects");
    t = taken_for_invariant(sosmc_leapfrog(1.6, 4, 2), laws_skewed);
    right_but_misused_is_noticed(&ledger, t, "HMC that never rejects");
    t = taken_for_invariant(sosmc_myula(0.4, 0.4, SOSMC_MYULA_AS_INVARIANT), laws_kinked);
    right_but_misused_is_noticed(&ledger, t, "MYULA taken for invariant");
    t = subject_of(11);
    t.kernel.begin = NULL;
    right_but_misused_is_noticed(&ledger, t, "underdamped that begins at rest");
    t = subject_of(5);
    t.kernel.h *= 2;
    right_but_misused_is_noticed(&ledger, t, "ULA without weights, another step than believed");
    t = subject_of(6);
    t.forget_prior = 1;
    right_but_misused_is_noticed(&ledger, t, "a wrong prior");
}

/* The same mistakes where they are judged by means. */
static void wrong_means_are_noticed(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    stats_tally tally[FUNCTIONS];
    faulty f = {.late = numbers(mean_size(), 1)};
    subject t = mean_subject(6);
    f.inner = t.kernel;
    f.kind = NO_KINETIC;
    t.kernel.step = faulty_step;
    t.kernel.self = &f;
    weigh(&t, mean_size(), 7000000, tally);
    stats_must_notice(&ledger, &tally[0], 1, "leapfrog weight without kinetic energies, mean of G");
    t = mean_subject(8);
    f.inner = t.kernel;
    f.kind = NO_SQUARES;
    t.kernel.step = faulty_step;
    t.kernel.self = &f;
    weigh(&t, mean_size(), 7100000, tally);
    stats_must_notice(&ledger, &tally[0], 1, "cached MYULA with the gradient of the smooth part alone, mean of G");
    t = mean_subject(0);
    f.inner = t.kernel;
    f.kind = WRONG_THETA;
    t.kernel.step = faulty_step;
    t.kernel.self = &f;
    weigh(&t, mean_size(), 7300000, tally);
    stats_must_notice(&ledger, &tally[6], 0, "ULA weight with a gradient at the wrong theta, x0 by the way of a0");
    t = mean_subject(3);
    t.kernel.begin = NULL;
    weigh(&t, mean_size(), 7200000, tally);
    stats_must_notice(&ledger, &tally[2], 0, "underdamped that begins at rest, x0 squared");
    free(f.late);
}

static void as_many_comparisons_as_announced(void **state) { assert_int_equal(comparisons, PLANNED); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_leave_the_joint_law_alone), cmocka_unit_test(weighted_means_are_exact),
        cmocka_unit_test(wrong_weights_are_noticed),         cmocka_unit_test(wrong_kernels_are_noticed),
        cmocka_unit_test(wrong_means_are_noticed),           cmocka_unit_test(as_many_comparisons_as_announced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
