/* test_golden.c: short runs, bit by bit as they were stored.
 *
 * Every kernel and scheme for five iterations of 50 particles: theta, log Z, ESS and the state hash after each.
 * Nothing here passes through libm but sqrt, so the numbers are compared by their bits, at every vector level of this
 * machine, with one thread and with three. A commit that moves golden.h says why. To store the present numbers:
 *
 *     make && SOSMC_GOLDEN_WRITE=1 build/tests/golden/test_golden > build/new && mv build/new tests/golden/golden.h
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/models.h>
#include <sosmc/sosmc.h>

enum { N = 50, K = 5, D = 2, MOST_THETA = 4 };

typedef struct {
    const char *name;
    double theta[MOST_THETA], logz, ess;
    uint64_t hash[K]; /* after iterations 0 .. K-1 */
} golden;

#include "golden.h"

/* ---------------------------------------------------------------------------- problems without libm */

static const double Y[D] = {1.0, -2.0}, START[D] = {0.5, 0.25};
static const double MEANS[4 * D] = {2.0, 2.0, -2.0, 2.0, 2.0, -2.0, -2.0, -2.0};
static const double MIXTURE_START[4] = {0.0, 0.5, -0.5, 1.0};
static const sosmc_mixture MIXTURE = {.dim = D, .components = 4, .means = MEANS, .variance = 0.7};
static const sosmc_mixture MIXTURE_EPS = {.dim = D, .components = 4, .means = MEANS, .variance = 0.7, .eps = 1e-9};
static const sosmc_mixture_law LAW = {.mixture = &MIXTURE, .theta = MIXTURE_START};

/* x ~ N(theta, I), y | x ~ N(x, I), with a quartic term that keeps the gradient from being linear. */
static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    for (int i = 0; i < b->n; i++) U[i] = 0.0;
    for (int j = 0; j < D; j++)
        for (int i = 0; i < b->n; i++) {
            double x = b->x[j * b->ld + i], p = x - theta[j], q = x - Y[j];
            U[i] += 0.5 * (p * p + q * q) + 0.01 * (p * p) * (p * p);
            if (gx) gx[j * b->ld + i] = p + q + 0.04 * p * (p * p);
        }
    return 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    for (int j = 0; j < D; j++)
        for (int i = 0; i < b->n; i++) {
            double p = b->x[j * b->ld + i] - theta[j];
            g[j] -= c[i] * (p + 0.04 * p * (p * p));
        }
    return 0;
}

static int reward(const void *self, const sosmc_batch *b, double *s)
{
    for (int i = 0; i < b->n; i++) s[i] = b->x[i] - 0.5 * b->x[b->ld + i];
    return 0;
}

/* ---------------------------------------------------------------------------- the runs */

typedef struct {
    char name[64];
    sosmc_problem p;
    sosmc_settings cfg;
} run;

static run quartic(const char *name, sosmc_kernel kernel, sosmc_scheme scheme)
{
    run r = {.p = {.model = {.dim_x = D, .dim_theta = D, .tile = 16, .energy = energy, .grad_theta = grad_theta},
                   .objective = sosmc_mmle(),
                   .init = sosmc_standard_normal(),
                   .theta0 = START},
             .cfg = sosmc_defaults()};
    (void)snprintf(r.name, sizeof r.name, "%s", name);
    r.cfg.kernel = kernel;
    r.cfg.scheme = scheme;
    r.cfg.optimiser = sosmc_sgd(0.1);
    r.cfg.seed = 2024;
    return r;
}

static run mixture(const char *name, sosmc_kernel kernel, sosmc_scheme scheme)
{
    run r = quartic(name, kernel, scheme);
    r.p.model = sosmc_mixture_model(&MIXTURE);
    r.p.model.tile = 16;
    r.p.init = sosmc_mixture_source(&LAW);
    r.p.theta0 = MIXTURE_START;
    r.p.objective = sosmc_reward_forward((sosmc_score){.eval = reward}, 0.5, sosmc_mixture_source(&LAW), 30,
                                         MIXTURE_START);
    return r;
}

enum { KERNELS = 4, ORDERS = 2, BY_KERNEL = 2 * KERNELS * ORDERS, RESAMPLINGS = 5, OPTIMISERS = 7, SCHEDULES = 3 };
enum { FIRST_RESAMPLING = BY_KERNEL, FIRST_OPTIMISER = FIRST_RESAMPLING + RESAMPLINGS };
enum {
    UNDERDAMPED_PAPER,
    UNDERDAMPED_AUTHORS,
    UNDERDAMPED_SWEEPS,
    UNDERDAMPED_POOL,
    LEAPFROG_PAPER,
    LEAPFROG_AUTHORS,
    WITH_MOMENTUM
};
enum { FIRST_SCHEDULE = FIRST_OPTIMISER + OPTIMISERS, FIRST_OTHER = FIRST_SCHEDULE + SCHEDULES };
enum {
    UNWEIGHTED,
    MOVED_FIRST,
    SOUL,
    PCD,
    REVERSE,
    LIKELIHOOD,
    ADAPT,
    AVERAGE,
    NOISE,
    UNUSUAL,
    SWEEPS,
    EPS,
    ONE_TILE,
    FIRST_OF_MOMENTUM,
    OTHERS = FIRST_OF_MOMENTUM + WITH_MOMENTUM
};
enum { RUNS = FIRST_OTHER + OTHERS };

static sosmc_kernel kernel_of(int k)
{
    const sosmc_kernel kernels[KERNELS] = {sosmc_ula(0.05), sosmc_mala(0.2), sosmc_rwm(0.3), sosmc_hmc(0.3, 3, 1.5)};
    return kernels[k];
}

static run run_by_kernel(int which)
{
    int k = which % KERNELS, order = which / KERNELS % ORDERS, on_mixture = which / KERNELS / ORDERS;
    char name[64];
    (void)snprintf(name, sizeof name, "%s_%s_%s", on_mixture ? "mixture" : "quartic", kernel_of(k).name,
                   order ? "authors" : "paper");
    run r = (on_mixture ? mixture : quartic)(name, kernel_of(k), sosmc_scheme_sosmc(N));
    r.cfg.scheme.order = order;
    r.cfg.scheme.ess_min = 0.9;
    return r;
}

static run run_by_resampling(int which)
{
    static const char *const names[RESAMPLINGS] = {"multinomial", "stratified", "systematic", "residual", "ssp"};
    run r = quartic(names[which], sosmc_ula(0.05), sosmc_scheme_sosmc(N));
    r.cfg.scheme.resampling = which;
    r.cfg.scheme.ess_min = 2.0;
    return r;
}

static run run_by_optimiser(int which)
{
    const sosmc_optimiser rules[OPTIMISERS] = {
        sosmc_sgd(0.1),     sosmc_momentum(0.1, 0.9), sosmc_nesterov(0.1, 0.9), sosmc_rmsprop(0.1, 0.9),
        sosmc_adagrad(0.1), sosmc_adam(0.1),          sosmc_adamw(0.1, 0.01)};
    char name[64];
    (void)snprintf(name, sizeof name, "optimiser_%s", rules[which].name);
    run r = quartic(name, sosmc_ula(0.05), sosmc_scheme_sosmc(N));
    r.cfg.optimiser = rules[which];
    r.cfg.optimiser.clip = 1.0;
    return r;
}

static run run_by_schedule(int which)
{
    static const char *const names[SCHEDULES] = {"robbins_monro", "exponential", "cosine"};
    run r = quartic(names[which], sosmc_ula(0.05), sosmc_scheme_sosmc(N));
    r.cfg.schedule = (sosmc_schedule){.kind = which + 1, .a = 4.0, .b = 0.6};
    return r;
}

/* Kernels that weigh momentum. */
static run run_with_momentum(int which)
{
    const sosmc_scheme weighted = sosmc_scheme_sosmc(N);
    run r;
    switch (which) {
    case UNDERDAMPED_PAPER: r = quartic("underdamped_paper", sosmc_underdamped(0.3, 1.5, 1.2), weighted); break;
    case UNDERDAMPED_AUTHORS: r = mixture("underdamped_authors", sosmc_underdamped(0.3, 1.5, 1.2), weighted); break;
    case UNDERDAMPED_SWEEPS:
        r = quartic("underdamped_sweeps", sosmc_underdamped(0.2, 0.7, 1), weighted);
        r.cfg.scheme.sweeps = 2;
        break;
    case UNDERDAMPED_POOL:
        return quartic("underdamped_pool", sosmc_underdamped(0.3, 1.5, 1), sosmc_scheme_pcd(N, 120, 3));
    case LEAPFROG_PAPER: r = quartic("leapfrog_paper", sosmc_leapfrog(0.3, 3, 1.5), weighted); break;
    default: r = mixture("leapfrog_authors", sosmc_leapfrog(0.3, 3, 1.5), weighted); break;
    }
    if (which == UNDERDAMPED_AUTHORS || which == LEAPFROG_AUTHORS) r.cfg.scheme.order = SOSMC_ORDER_AUTHORS;
    r.cfg.scheme.ess_min = 0.9;
    return r;
}

static run run_of_another_kind(int which)
{
    const sosmc_scheme weighted = sosmc_scheme_sosmc(N);
    const sosmc_score score = {.eval = reward};
    run r;
    if (which >= FIRST_OF_MOMENTUM) return run_with_momentum(which - FIRST_OF_MOMENTUM);
    switch (which) {
    case UNWEIGHTED: return quartic("unweighted", sosmc_ula(0.05), sosmc_scheme_unweighted(N));
    case MOVED_FIRST: return quartic("moved_first", sosmc_mala(0.2), sosmc_scheme_moved_first(N));
    case SOUL: return quartic("soul", sosmc_ula(0.05), sosmc_scheme_soul(40));
    case PCD: return quartic("pcd", sosmc_ula(0.05), sosmc_scheme_pcd(N, 120, 3));
    case REVERSE:
        r = mixture("reverse", sosmc_mala(0.2), weighted);
        r.p.objective = sosmc_reward_reverse(score, 0.5, MIXTURE_START);
        r.p.init.exact = 1;
        return r;
    case LIKELIHOOD:
        r = quartic("likelihood", sosmc_ula(0.05), weighted);
        r.p.objective = sosmc_likelihood(sosmc_standard_normal(), 30);
        r.p.objective.energy2 = 0.01;
        return r;
    case ADAPT:
        r = quartic("adapt", sosmc_mala(0.2), weighted);
        r.cfg.scheme.order = SOSMC_ORDER_AUTHORS;
        r.cfg.adapt[0].factor = 1.2;
        r.cfg.adapt[0].before_move = 1;
        r.cfg.adapt[1].factor = 1.3;
        r.cfg.adapt[1].target = SOSMC_ADAPT_RATE;
        return r;
    case AVERAGE:
        r = quartic("average", sosmc_ula(0.05), weighted);
        r.cfg.average = 0.7;
        return r;
    case NOISE:
        r = quartic("noise", sosmc_ula(0.05), weighted);
        r.cfg.kernel.noise = 0.8;
        return r;
    case UNUSUAL:
        r = quartic("forward_at_current", sosmc_ula(0.05), weighted);
        r.cfg.kernel.forward_at = SOSMC_AT_CURRENT;
        r.cfg.kernel.backward_at = SOSMC_AT_PREVIOUS;
        return r;
    case SWEEPS:
        r = quartic("two_sweeps", sosmc_mala(0.2), weighted);
        r.cfg.scheme.sweeps = 2;
        return r;
    case EPS:
        r = mixture("mixture_eps", sosmc_ula(0.05), weighted);
        r.p.model = sosmc_mixture_model(&MIXTURE_EPS);
        return r;
    default:
        r = mixture("one_tile", sosmc_hmc(0.3, 3, 1.0), weighted);
        r.p.model.tile = 0;
        return r;
    }
}

static run run_of(int which)
{
    if (which < FIRST_RESAMPLING) return run_by_kernel(which);
    if (which < FIRST_OPTIMISER) return run_by_resampling(which - FIRST_RESAMPLING);
    if (which < FIRST_SCHEDULE) return run_by_optimiser(which - FIRST_OPTIMISER);
    if (which < FIRST_OTHER) return run_by_schedule(which - FIRST_SCHEDULE);
    return run_of_another_kind(which - FIRST_OTHER);
}

/* Returns NULL, or what went wrong. */
static const char *perform(const run *r, golden *g)
{
    static char message[512];
    sosmc *s = NULL;
    *g = (golden){.name = r->name};
    sosmc_status status = sosmc_create(&s, &r->p, &r->cfg);
    for (int k = 0; k < K && status == SOSMC_OK; k++) {
        status = sosmc_step(s);
        g->hash[k] = sosmc_hash(s);
    }
    (void)snprintf(message, sizeof message, "%s: %s", r->name, sosmc_message(s));
    if (status == SOSMC_OK) {
        const double *theta = sosmc_theta_average(s);
        for (int j = 0; j < r->p.model.dim_theta; j++) g->theta[j] = theta[j];
        g->logz = sosmc_last(s)->logz;
        g->ess = sosmc_last(s)->ess;
    }
    sosmc_free(s);
    return status == SOSMC_OK ? NULL : message;
}

/* ---------------------------------------------------------------------------- writing */

static void put_number(double x)
{
    if (isnan(x))
        (void)printf("NAN");
    else
        (void)printf("%a", x);
}

static int write_table(void)
{
    (void)printf("/* golden.h: made by test_golden.c, which says how; not to be edited. */\n/* clang-format off */\n"
                 "static const golden GOLDEN[] = {\n");
    for (int which = 0; which < RUNS; which++) {
        run r = run_of(which);
        golden g;
        const char *wrong = perform(&r, &g);
        if (wrong) {
            (void)fprintf(stderr, "%s\n", wrong);
            return 1;
        }
        (void)printf("    {\"%s\",\n     {", g.name);
        for (int j = 0; j < r.p.model.dim_theta; j++) {
            (void)printf("%s", j ? ", " : "");
            put_number(g.theta[j]);
        }
        (void)printf("},\n     ");
        put_number(g.logz);
        (void)printf(", ");
        put_number(g.ess);
        (void)printf(",\n     {");
        for (int k = 0; k < K; k++) (void)printf("%s0x%016" PRIx64, k ? ", " : "", g.hash[k]);
        (void)printf("}},\n");
    }
    (void)printf("};\n/* clang-format on */\n");
    return 0;
}

/* ---------------------------------------------------------------------------- comparing */

static const golden *stored(const char *name)
{
    for (size_t q = 0; q < sizeof GOLDEN / sizeof *GOLDEN; q++)
        if (strcmp(GOLDEN[q].name, name) == 0) return &GOLDEN[q];
    fail_msg("golden.h does not know %s; the top of test_golden.c says how to write it", name);
    return NULL;
}

static int same(double a, double b)
{
    uint64_t x, y;
    memcpy(&x, &a, sizeof x);
    memcpy(&y, &b, sizeof y);
    return x == y || (isnan(a) && isnan(b));
}

static void compare(const golden *was, const golden *is, const char *level, int threads)
{
    for (int k = 0; k < K; k++)
        if (was->hash[k] != is->hash[k])
            fail_msg("%s (%s, %d threads): another state after iteration %d", was->name, level, threads, k);
    for (int j = 0; j < MOST_THETA; j++)
        if (!same(was->theta[j], is->theta[j]))
            fail_msg("%s (%s, %d threads): theta[%d] was %a and is %a", was->name, level, threads, j, was->theta[j],
                     is->theta[j]);
    if (!same(was->logz, is->logz)) fail_msg("%s (%s): log Z was %a and is %a", was->name, level, was->logz, is->logz);
    if (!same(was->ess, is->ess)) fail_msg("%s (%s): ESS was %a and is %a", was->name, level, was->ess, is->ess);
}

static void compare_at(const char *level)
{
    const sosmc_simd *simd = sosmc_simd_named(level);
    if (!simd) skip(); /* not on this machine, or not in this build */
    for (int which = 0; which < RUNS; which++)
        for (int threads = 1; threads <= 3; threads += 2) {
            run r = run_of(which);
            golden is;
            r.cfg.simd = simd;
            r.cfg.threads = threads;
            const char *wrong = perform(&r, &is);
            if (wrong) fail_msg("%s", wrong);
            compare(stored(r.name), &is, level, threads);
        }
}

static void plain(void **state) { compare_at("plain"); }
static void avx2(void **state) { compare_at("avx2"); }
static void avx512(void **state) { compare_at("avx512"); }

/* No run is stored that does nothing, or the same as another. */
static void the_runs_differ(void **state)
{
    enum { STORED = sizeof GOLDEN / sizeof *GOLDEN };
    assert_int_equal(STORED, RUNS);
    for (int a = 0; a < STORED; a++) {
        for (int k = 1; k < K; k++) assert_true(GOLDEN[a].hash[k] != GOLDEN[a].hash[k - 1]);
        for (int b = 0; b < a; b++)
            if (GOLDEN[a].hash[K - 1] == GOLDEN[b].hash[K - 1])
                fail_msg("%s and %s are the same run", GOLDEN[a].name, GOLDEN[b].name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain),
        cmocka_unit_test(avx2),
        cmocka_unit_test(avx512),
        cmocka_unit_test(the_runs_differ),
    };
    const char *write = getenv("SOSMC_GOLDEN_WRITE");
    if (write && *write && *write != '0') return write_table();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
