/* bench_engine.c: what one iteration of the engine costs, next to what the machine allows.
 *
 * SOSMC-ULA on the six-component mixture in two dimensions with the hard-gate reward (no reference batch), as in the
 * Langevin experiment. The limit is measured in the same run: the arithmetic that cannot be avoided (two normals, one
 * energy with gradient, the Langevin step and its weight) on one tile that stays in the first-level cache. Every figure is
 * the best of several repeats, because other work on the machine only ever adds time. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <sosmc/models.h>

#include "simd/table.h"

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum { M = 6, D = 2, TILE = 256 };
static double means[M * D];
static const double theta0[M] = {1.5, -1.5, 1.5, -1.5, 1.5, -1.5};
static const double center[D] = {10, 3.8};

static void hexagon(void)
{
    for (int i = 0; i < M; i++) {
        means[i * D] = 4 * cos(M_PI * i / 3);
        means[i * D + 1] = 4 * sin(M_PI * i / 3);
    }
}

/* ---------------------------------------------------------------------------- the engine */

typedef struct {
    double best, resampled;
} timing;

static timing time_engine(int particles, int threads, sosmc_kernel kernel, sosmc_scheme scheme, double beta, int order)
{
    sosmc_mixture mixture = {.dim = D, .components = M, .means = means, .variance = 1, .eps = 1e-9};
    sosmc_mixture_law law = {.mixture = &mixture, .theta = theta0};
    sosmc_gate gate = {.dim = D, .center = center, .tau = 20, .alpha = 2.5};
    sosmc_source reference = sosmc_mixture_source(&law);
    reference.exact = 1;
    sosmc_problem p = {.model = sosmc_mixture_model(&mixture),
                       .objective = sosmc_reward_forward(sosmc_gate_reward(&gate), beta, reference, 5000, theta0),
                       .init = reference,
                       .theta0 = theta0};
    sosmc_settings cfg = sosmc_defaults();
    cfg.scheme = scheme;
    cfg.scheme.order = order;
    cfg.scheme.ess_min = 0.9;
    cfg.scheme.resampling = SOSMC_MULTINOMIAL;
    cfg.kernel = kernel;
    cfg.optimiser = sosmc_adam(0.1);
    cfg.threads = threads;
    sosmc *s = NULL;
    timing t = {.best = INFINITY};
    if (sosmc_create(&s, &p, &cfg) != SOSMC_OK) {
        fprintf(stderr, "%s\n", sosmc_message(s));
        exit(1);
    }
    int iterations = 4000000 / particles, repeats = 7;
    iterations = iterations < 4 ? 4 : iterations > 400 ? 400 : iterations;
    for (int r = 0; r < repeats; r++) {
        double begin = now();
        int resampled = 0;
        for (int k = 0; k < iterations; k++) {
            if (sosmc_step(s) != SOSMC_OK) {
                fprintf(stderr, "%s\n", sosmc_message(s));
                exit(1);
            }
            resampled += sosmc_last(s)->resampled;
        }
        double ns = (now() - begin) * 1e9 / iterations / particles;
        if (ns < t.best) t = (timing){.best = ns, .resampled = (double)resampled / iterations};
    }
    sosmc_free(s);
    return t;
}

/* ---------------------------------------------------------------------------- the limit */

static double time_floor(double *normals)
{
    const sosmc_simd *v = sosmc_simd_best();
    sosmc_mixture mixture = {.dim = D, .components = M, .means = means, .variance = 1, .eps = 1e-9};
    sosmc_model model = sosmc_mixture_model(&mixture);
    static _Alignas(64) double x[D * TILE], y[D * TILE], g0[D * TILE], g1[D * TILE], z[D * TILE], U0[TILE], U1[TILE], out[TILE];
    void *work = aligned_alloc(64, (model.work * TILE + 63) / 64 * 64), *prep = aligned_alloc(64, (model.prep + 63) / 64 * 64);
    if (!work || !prep || model.prepare(model.self, theta0, prep)) exit(1);
    sosmc_batch b = {.x = x, .prep = prep, .work = work, .simd = v, .dim = D, .n = TILE, .ld = TILE};
    sosmc_normals((sosmc_rng){.seed = 1}, &b, x);
    (void)model.energy(model.self, theta0, &b, U0, g0);
    double best = INFINITY;
    *normals = INFINITY;
    enum { ROUNDS = 2000 };
    for (int repeat = 0; repeat < 20; repeat++) {
        double begin = now();
        for (int k = 0; k < ROUNDS; k++) v->normals((sosmc_rng){.seed = 1, .step = (uint64_t)k}, 0, D, TILE, TILE, z);
        double middle = now();
        for (int k = 0; k < ROUNDS; k++) {
            v->normals((sosmc_rng){.seed = 1, .step = (uint64_t)k}, 0, D, TILE, TILE, z);
            v->propose(D * TILE, x, g0, z, 0.1, sqrt(0.2), y);
            b.x = y;
            (void)model.energy(model.self, theta0, &b, U1, g1);
            v->langevin_ratio(D, TILE, TILE, x, y, g0, g1, 0.1, 1, U0, U1, out);
        }
        double end = now();
        *normals = fmin(*normals, (middle - begin) * 1e9 / ROUNDS / (D * TILE));
        best = fmin(best, (end - middle) * 1e9 / ROUNDS / TILE);
    }
    free(work);
    free(prep);
    return best;
}

int main(void)
{
    hexagon();
    double normals, floor_ns = time_floor(&normals);
    printf("vector level %s; times in ns per particle and iteration, best of 7\n\n", sosmc_simd_name(sosmc_simd_best()));
    printf("fp64 normal              %6.2f ns each   (target: at most 4)\n", normals);
    printf("move and weight, in L1   %6.2f ns        (the measured limit of this machine)\n\n", floor_ns);

    printf("SOSMC-ULA, mixture m = 6, d = 2, hard gate, no reference batch   (target: at most 25 on one core)\n");
    printf("%10s %10s %10s %10s %12s %10s\n", "particles", "1 thread", "of limit", "2 threads", "speed-up", "resampled");
    const int sizes[] = {1000, 10000, 100000, 1000000};
    double smallest = INFINITY, largest = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        timing one = time_engine(sizes[i], 1, sosmc_ula(0.1), sosmc_scheme_sosmc(sizes[i]), 0, SOSMC_ORDER_PAPER);
        timing two = time_engine(sizes[i], 2, sosmc_ula(0.1), sosmc_scheme_sosmc(sizes[i]), 0, SOSMC_ORDER_PAPER);
        printf("%10d %10.2f %9.0f%% %10.2f %11.2fx %9.0f%%\n", sizes[i], one.best, 100 * floor_ns / one.best, two.best,
               one.best / two.best, 100 * one.resampled);
        smallest = fmin(smallest, one.best);
        largest = fmax(largest, one.best);
    }
    printf("flatness over N: %.2fx (target: at most 1.5x); targets for the speed-up: 1.6x at 10,000, 1.8x at 100,000\n\n",
           largest / smallest);

    printf("other methods, N = 10,000, one thread\n");
    struct {
        const char *name;
        sosmc_kernel kernel;
        sosmc_scheme scheme;
        double beta;
        int order;
    } rows[] = {{"sosmc-ula, authors' order", sosmc_ula(0.1), sosmc_scheme_sosmc(10000), 0, SOSMC_ORDER_AUTHORS},
                {"sosmc-ula, reference 5,000", sosmc_ula(0.1), sosmc_scheme_sosmc(10000), 0.001, SOSMC_ORDER_AUTHORS},
                {"sosmc-mala", sosmc_mala(0.1), sosmc_scheme_sosmc(10000), 0, SOSMC_ORDER_AUTHORS},
                {"sosmc-rwm", sosmc_rwm(0.1), sosmc_scheme_sosmc(10000), 0, SOSMC_ORDER_AUTHORS},
                {"sosmc-hmc, L = 1", sosmc_hmc(0.1, 1, 1), sosmc_scheme_sosmc(10000), 0, SOSMC_ORDER_AUTHORS},
                {"unweighted", sosmc_ula(0.1), sosmc_scheme_unweighted(10000), 0, SOSMC_ORDER_PAPER},
                {"moved first", sosmc_ula(0.1), sosmc_scheme_moved_first(10000), 0, SOSMC_ORDER_PAPER},
                {"soul, per chain step", sosmc_ula(0.1), sosmc_scheme_soul(10000), 0, SOSMC_ORDER_PAPER}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        timing t = time_engine(10000, 1, rows[i].kernel, rows[i].scheme, rows[i].beta, rows[i].order);
        printf("  %-28s %8.2f\n", rows[i].name, t.best);
    }
    return 0;
}
