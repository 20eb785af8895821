/* bench_engine.c: what one iteration of the engine costs, next to what the machine allows.
 *
 * SOSMC-ULA on the six-component mixture in two dimensions with the hard-gate reward (no reference batch), as in the
 * Langevin experiment. The limit is measured in the same run: the arithmetic that cannot be avoided (two normals, one
 * energy with gradient, the Langevin step and its weight) on one tile that stays in the first-level cache. Every figure is
 * the best of several repeats, because other work on the machine only ever adds time. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "limit.h"

/* ---------------------------------------------------------------------------- the engine */

typedef struct {
    double best, resampled;
} timing;

static timing time_engine(int particles, int threads, sosmc_kernel kernel, sosmc_scheme scheme, double beta, int order)
{
    static const double center[LIMIT_DIM] = {10, 3.8};
    sosmc_mixture mixture = limit_mixture();
    sosmc_mixture_law law = {.mixture = &mixture, .theta = limit_theta};
    sosmc_gate gate = {.dim = LIMIT_DIM, .center = center, .tau = 20, .alpha = 2.5};
    sosmc_source reference = sosmc_mixture_source(&law);
    reference.exact = 1;
    sosmc_problem p = {.model = sosmc_mixture_model(&mixture),
                       .objective = sosmc_reward_forward(sosmc_gate_reward(&gate), beta, reference, 5000, limit_theta),
                       .init = reference,
                       .theta0 = limit_theta};
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
        double begin = limit_now();
        int resampled = 0;
        for (int k = 0; k < iterations; k++) {
            if (sosmc_step(s) != SOSMC_OK) {
                fprintf(stderr, "%s\n", sosmc_message(s));
                exit(1);
            }
            resampled += sosmc_last(s)->resampled;
        }
        double ns = (limit_now() - begin) * 1e9 / iterations / particles;
        if (ns < t.best) t = (timing){.best = ns, .resampled = (double)resampled / iterations};
    }
    sosmc_free(s);
    return t;
}

int main(void)
{
    limit l = measure_limit();
    double normals = l.normal, floor_ns = l.move;
    printf("vector level %s; times in ns per particle and iteration, best of 7\n\n",
           sosmc_simd_name(sosmc_simd_best()));
    printf("fp64 normal              %6.2f ns each   (target: at most 4)\n", normals);
    printf("move and weight, in L1   %6.2f ns        (the measured limit of this machine)\n\n", floor_ns);

    printf("SOSMC-ULA, mixture m = 6, d = 2, hard gate, no reference batch   (target: at most 25 on one core)\n");
    printf("%10s %10s %10s %10s %12s %10s\n", "particles", "1 thread", "of limit", "2 threads", "speed-up",
           "resampled");
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
    printf(
        "flatness over N: %.2fx (target: at most 1.5x); targets for the speed-up: 1.6x at 10,000, 1.8x at 100,000\n\n",
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
