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
 * Where the library has no kernel that is the way back of one of its own, the test brings it: leapfrog steps whose inner kicks are at
 * the previous theta, and a Moreau-Yosida move at the previous theta. Negative controls are kernels of the user's own with one
 * mistake each. */
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

/* 14 statistics of the cube for each, and of those whose a and x move together the 4 of `reversals`. */
enum { SUBJECTS = 24, TOGETHER = 16, PLANNED = SUBJECTS * 14 + TOGETHER * 4 };

/* ---------------------------------------------------------------------------- rounds */

typedef struct {
    const char *name;
    const exact_law *(*law)(void);
    transition kind;
    int steps;
    sosmc_kernel kernel, back; /* back: of a pair */
    int forget_prior;          /* a negative control: p(a') / p(a) does not count */
    double reach;              /* how much farther than usual a_0' is away; 0: not */
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
static void walk(const subject *t, const cloud *c, uint64_t seed)
{
    const double width[LAWS_PARAMETERS] = {t->reach > 0 ? 0.4 * t->reach : 0.4, 0.15};
    laws_normals(seed, c->n, LAWS_PARAMETERS, c->to);
    for (int e = 0; e < c->n * LAWS_PARAMETERS; e++) c->to[e] = c->a[e] + width[e % LAWS_PARAMETERS] * c->to[e];
}

static double log_prior_ratio(const subject *t, const cloud *c, int i)
{
    if (t->forget_prior) return 0;
    return laws_log_prior(parameters(c, c->to, i)) - laws_log_prior(parameters(c, c->a, i));
}

/* The law and the parameters at which the particles of a trip begin, for kernels that must know. */
static struct {
    const exact_law *law;
    const double *a;
} departure;

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
    departure.law = t->law();
    departure.a = c->a;
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
    walk(t, c, seed);
    for (int i = 0; i < c->n; i++)
        c->logG[i] = laws_log_law(t->law(), parameters(c, c->to, i), state_at(c, c->x, i)) -
                     laws_log_law(t->law(), parameters(c, c->a, i), state_at(c, c->x, i));
    accept(t, c, 0, 1, seed);
}

static void swap_round(const subject *t, const cloud *c, uint64_t seed)
{
    walk(t, c, seed);
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
    walk(t, c, seed);
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

/* A transition that is undone with the probability with which it is made gives every path of a particle the same probability as the path in
 * reverse order. So the sum over the rounds of (a_j' - a_j) (x_i + x_i' - 1), all as uniforms, which is the opposite in reverse order,
 * is positive and negative equally often: exactly, whatever the weights are. The cube hardly sees a mistake that changes its sign
 * with the way from a to a'; these counts do. */
enum { WAYS = LAWS_PARAMETERS * LAWS_DIM };
typedef struct {
    int64_t moved[WAYS], onward[WAYS]; /* particles with a sum that is not zero, and that is positive */
} reversals;

static int moves_together(const subject *t) { return t->kind == SWAP || t->kind == PAIR; }

/* Adds a round to the sums; u: where the particles were, and afterwards are. */
static void add_round(const subject *t, const cloud *c, double *u, double *sums)
{
    for (int i = 0; i < c->n; i++) {
        double now[LAWS_CUBE], *from = u + (size_t)i * LAWS_CUBE;
        laws_undo(t->law(), parameters(c, c->a, i), state_at(c, c->x, i), now);
        for (int k = 0; k < WAYS && sums; k++) {
            int a = k % LAWS_PARAMETERS, x = LAWS_PARAMETERS + k / LAWS_PARAMETERS;
            sums[i * WAYS + k] += (now[a] - from[a]) * (now[x] + from[x] - 1);
        }
        memcpy(from, now, sizeof now);
    }
}

static reversals count_reversals(int n, const double *sums)
{
    reversals r = {{0}, {0}};
    for (int e = 0; e < n * WAYS; e++) {
        r.moved[e % WAYS] += sums[e] != 0;
        r.onward[e % WAYS] += sums[e] > 0;
    }
    return r;
}

/* The smallest p-value, or all of them for the ledger. */
static double note_reversals(stats_ledger *ledger, const reversals *r, const char *what)
{
    double least = 1;
    for (int k = 0; k < WAYS; k++) {
        double p = stats_binomial_p(r->moved[k], r->onward[k], 0.5);
        if (ledger) stats_note(ledger, p, "%s, x%d by the way of a%d", what, k / LAWS_PARAMETERS, k % LAWS_PARAMETERS);
        if (p < least) least = p;
    }
    return least;
}

static void run_rounds(const subject *t, int n, int rounds, uint64_t seed, stats_cube *cube, reversals *way)
{
    cloud c = cloud_new(n);
    double *u = numbers(n, LAWS_CUBE), *sums = numbers(n, WAYS);
    *cube = (stats_cube){.dim = LAWS_CUBE};
    seed = stats_seed(seed);
    laws_begin(t->law(), n, seed, c.a, c.x);
    add_round(t, &c, u, NULL);
    for (int r = 0; r < rounds; r++) {
        uint64_t name = seed + 2 * (uint64_t)r + 2;
        switch (t->kind) {
        case SWAP:
        case PAIR: swap_round(t, &c, name); break;
        case INVARIANT: invariant_round(t, &c, name); break;
        default: fixed_round(t, &c, name); break;
        }
        if (moves_together(t) || r == rounds - 1) add_round(t, &c, u, sums);
    }
    for (int i = 0; i < n; i++) stats_cube_add(cube, u + (size_t)i * LAWS_CUBE);
    *way = count_reversals(n, sums);
    cloud_free(&c);
    free(u);
    free(sums);
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

/* The way back of sosmc_leapfrog: p ~ N(0, m I), all kicks at the previous theta but the last half one. */
static int leapfrog_back_step(const sosmc_kernel *k, sosmc_move *m)
{
    double *p = sosmc_move_vector(m, 0);
    size_t ld = (size_t)m->b.ld, len = (size_t)m->b.dim * ld;
    sosmc_normals(m->rng, &m->b, p);
    for (size_t e = 0; e < len; e++) p[e] *= sqrt(k->mass);
    for (int i = 0; i < m->b.n; i++) m->logG[i] = m->U[i];
    for (size_t e = 0; e < len; e++)
        if ((int)(e % ld) < m->b.n) m->logG[e % ld] += p[e] * p[e] / (2 * k->mass);
    for (size_t e = 0; e < len; e++) p[e] -= 0.5 * m->h * m->gx[e];
    for (int step = 1; step <= k->leapfrog; step++) {
        int last = step == k->leapfrog;
        const double *from = step > 1 ? m->x_new : m->x;
        for (size_t e = 0; e < len; e++) m->x_new[e] = from[e] + m->h / k->mass * p[e];
        int rc = sosmc_evaluate(m, last ? SOSMC_AT_CURRENT : SOSMC_AT_PREVIOUS, m->x_new, m->U_new, m->gx_new);
        if (rc) return rc;
        for (size_t e = 0; e < len; e++) p[e] -= (last ? 0.5 : 1) * m->h * m->gx_new[e];
    }
    for (int i = 0; i < m->b.n; i++) m->logG[i] -= m->U_new[i];
    for (size_t e = 0; e < len; e++)
        if ((int)(e % ld) < m->b.n) m->logG[e % ld] -= p[e] * p[e] / (2 * k->mass);
    return 0;
}

static sosmc_kernel leapfrog_back(double step, int leapfrog, double mass)
{
    return (sosmc_kernel){.name = "leapfrog's way back",
                          .step = leapfrog_back_step,
                          .h = step,
                          .leapfrog = leapfrog,
                          .mass = mass,
                          .uses_gradient = 1,
                          .scratch = 1};
}

/* drift = f(x) + (x - prox(x)) / lambda at the previous theta; f is given. */
static int drift_before(const sosmc_kernel *k, const sosmc_move *m, const double *x, const double *f, double *drift)
{
    sosmc_batch b = m->b;
    b.x = x;
    b.prep = m->prep_prev;
    b.fresh = 0;
    int rc = m->model->prox(m->model->self, m->theta_prev, k->lambda, &b, drift);
    for (size_t e = 0; e < (size_t)b.dim * (size_t)b.ld && !rc; e++) drift[e] = f[e] + (x[e] - drift[e]) / k->lambda;
    return rc;
}

/* The way back of sosmc_myula with the weighting `ratio`, whose two kernels are at the new theta: here both are at the previous one. */
static int myula_back_step(const sosmc_kernel *k, sosmc_move *m)
{
    double *z = sosmc_move_vector(m, 0), *there = sosmc_move_vector(m, 1), *back = sosmc_move_vector(m, 2);
    size_t ld = (size_t)m->b.ld, len = (size_t)m->b.dim * ld;
    int rc = drift_before(k, m, m->x, m->gx, there);
    if (rc) return rc;
    sosmc_normals(m->rng, &m->b, z);
    for (size_t e = 0; e < len; e++) m->x_new[e] = m->x[e] - m->h * there[e] + sqrt(2 * m->h) * z[e];
    rc = sosmc_evaluate(m, SOSMC_AT_PREVIOUS, m->x_new, m->U_new, m->gx_new);
    if (!rc) rc = drift_before(k, m, m->x_new, m->gx_new, back);
    if (!rc) rc = sosmc_evaluate(m, SOSMC_AT_CURRENT, m->x_new, m->U_new, m->gx_new);
    if (rc) return rc;
    for (int i = 0; i < m->b.n; i++) m->logG[i] = m->U[i] - m->U_new[i];
    for (size_t e = 0; e < len; e++) {
        if ((int)(e % ld) >= m->b.n) continue;
        double away = m->x_new[e] - m->x[e] + m->h * there[e], home = m->x[e] - m->x_new[e] + m->h * back[e];
        m->logG[e % ld] += (away * away - home * home) / (4 * m->h);
    }
    return 0;
}

static sosmc_kernel myula_back(double h, double lambda)
{
    return (sosmc_kernel){.name = "myula's way back",
                          .step = myula_back_step,
                          .h = h,
                          .lambda = lambda,
                          .uses_gradient = 1,
                          .uses_prox = 1,
                          .scratch = 3};
}

/* The cached weighting is its own way back where particles begin with their pull, and not with none. */
static int begin_with_pull(const sosmc_kernel *k, sosmc_rng rng, const sosmc_batch *b, double *aux)
{
    for (int i = 0; i < b->n; i++) {
        double x[LAWS_DIM], p[LAWS_DIM];
        for (int j = 0; j < LAWS_DIM; j++) x[j] = b->x[j * b->ld + i];
        departure.law->prox(departure.a + (b->first + i) * LAWS_PARAMETERS, k->lambda, x, p);
        for (int j = 0; j < LAWS_DIM; j++) aux[j * b->ld + i] = x[j] - p[j];
    }
    return 0;
}

static sosmc_kernel myula_cached(double h, double lambda)
{
    sosmc_kernel k = sosmc_myula(h, lambda, SOSMC_MYULA_CACHED);
    k.begin = begin_with_pull;
    return k;
}

static subject subject_of(int s)
{
    const int before = SOSMC_AT_PREVIOUS, now = SOSMC_AT_CURRENT;
    const subject all[SUBJECTS] = {
        {"ula, one step", laws_skewed, SWAP, 1, langevin(0.7, before, now, 1), {0}, 0, 0},
        {"ula, four steps", laws_skewed, SWAP, 4, langevin(0.6, before, now, 1), {0}, 0, 0},
        {"ula, forward now, backward before", laws_skewed, SWAP, 1, langevin(0.7, now, before, 1), {0}, 0, 0},
        {"ula, noise 0.9", laws_skewed, SWAP, 2, langevin(0.2, before, now, 0.9), {0}, 0, 0},
        {"ula, both now / both before", laws_skewed, PAIR, 1, langevin(0.7, now, now, 1),
         langevin(0.7, before, before, 1), 0, 0},
        {"ula without weights", laws_langevin, PLAIN, 3, sosmc_ula(LAWS_STEP), {0}, 0, 0},
        {"mala", laws_skewed, INVARIANT, 1, sosmc_mala(0.8), {0}, 0, 0},
        {"rwm", laws_skewed, INVARIANT, 1, sosmc_rwm(1.0), {0}, 0, 0},
        {"hmc, one leapfrog step", laws_skewed, INVARIANT, 1, sosmc_hmc(1.2, 1, 1), {0}, 0, 0},
        {"hmc, four leapfrog steps, mass 2", laws_skewed, INVARIANT, 1, sosmc_hmc(1.6, 4, 2), {0}, 0, 0},
        {"underdamped, one step", laws_skewed, SWAP, 1, sosmc_underdamped(1.1, 1, 1), {0}, 0, 0},
        {"underdamped, four steps", laws_skewed, SWAP, 4, sosmc_underdamped(0.9, 0.5, 1), {0}, 0, 0},
        {"underdamped without memory, mass 2", laws_skewed, SWAP, 2, sosmc_underdamped(1.0, INFINITY, 2), {0}, 0, 0},
        {"leapfrog, one step", laws_skewed, SWAP, 2, sosmc_leapfrog(0.9, 1, 1), {0}, 0, 0},
        {"leapfrog, three steps, mass 2", laws_skewed, FIXED, 1, sosmc_leapfrog(1.2, 3, 2), {0}, 0, 0},
        {"myula, ratio", laws_kinked, FIXED, 1, sosmc_myula(0.4, 0.4, SOSMC_MYULA_RATIO), {0}, 0, 0},
        {"rwm of many scales", laws_skewed, INVARIANT, 1, random_walk(1.0, 8), {0}, 0, 0},
        {"ula, both now / both before, far", laws_kinked, PAIR, 1, langevin(1.5, now, now, 1),
         langevin(1.5, before, before, 1), 0, 4},
        {"ula, kinked", laws_kinked, SWAP, 3, langevin(0.2, before, now, 1), {0}, 0, 0},
        {"underdamped without friction, mass 2", laws_skewed, SWAP, 4, sosmc_underdamped(0.5, 0, 2), {0}, 0, 0},
        {"leapfrog, two steps", laws_skewed, PAIR, 2, sosmc_leapfrog(0.6, 2, 1), leapfrog_back(0.6, 2, 1), 0, 0},
        {"leapfrog, five steps, mass 2", laws_skewed, PAIR, 1, sosmc_leapfrog(0.5, 5, 2), leapfrog_back(0.5, 5, 2), 0,
         0},
        {"myula, ratio, theta moving", laws_kinked, PAIR, 2, sosmc_myula(0.3, 0.3, SOSMC_MYULA_RATIO),
         myula_back(0.3, 0.3), 0, 0},
        {"myula, cached", laws_kinked, SWAP, 2, myula_cached(0.3, 0.3), {0}, 0, 0},
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
        reversals way;
        run_rounds(&t, cloud_size(), round_count(), 10000u * (uint64_t)(s + 1), &cube, &way);
        stats_note_cube(&ledger, &cube, t.name);
        if (moves_together(&t)) (void)note_reversals(&ledger, &way, t.name);
    }
    assert_int_equal(stats_close(&ledger), PLANNED);
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
    reversals way;
    t.kernel.step = faulty_step;
    t.kernel.self = &f;
    run_rounds(&t, cloud_size(), round_count(), 5000000, &cube, &way);
    if (kind == WRONG_THETA)
        stats_must_notice_p(ledger, note_reversals(NULL, &way, what), what);
    else
        stats_must_notice_cube(ledger, &cube, what);
    free(f.late);
}

static void right_but_misused_is_noticed(const stats_ledger *ledger, subject t, const char *what)
{
    stats_cube cube;
    reversals way;
    run_rounds(&t, cloud_size(), round_count(), 6000000, &cube, &way);
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
    broken_is_noticed(&ledger, subject_of(17), WRONG_THETA, "ULA weight with a gradient at the wrong theta");
    broken_is_noticed(&ledger, subject_of(21), NO_KINETIC, "leapfrog weight without kinetic energies, theta moving");
    broken_is_noticed(&ledger, subject_of(22), NO_SQUARES, "MYULA ratio with the gradient of the smooth part alone");
    broken_is_noticed(&ledger, subject_of(23), NO_SQUARES, "cached MYULA with the gradient of the smooth part alone");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_leave_the_joint_law_alone),
        cmocka_unit_test(wrong_weights_are_noticed),
        cmocka_unit_test(wrong_kernels_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
