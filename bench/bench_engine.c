/* bench_engine.c: what one iteration of the engine costs, next to what the machine allows.
 *
 * SOSMC-ULA on the six-component mixture in two dimensions with the hard-gate reward (no reference batch), as in the
 * Langevin experiment. The limit is measured in the same run: the arithmetic that cannot be avoided (two normals, one
 * energy with gradient, the Langevin step and its weight) on one tile that stays in the first-level cache. Every figure is
 * the best of several repeats, because other work on the machine only ever adds time. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <sosmc/judge.h>

#include "limit.h"

/* ---------------------------------------------------------------------------- the engine */

typedef struct {
    double best, resampled;
} timing;

/* What an engine borrows. */
typedef struct {
    sosmc_mixture mixture;
    sosmc_mixture_law law;
    sosmc_gate gate;
} parts;

static void stop_at(const sosmc *s, sosmc_status status)
{
    if (status == SOSMC_OK) return;
    fprintf(stderr, "%s\n", sosmc_message(s));
    exit(1);
}

static sosmc *open_engine(parts *q, int threads, sosmc_kernel kernel, sosmc_scheme scheme, double beta, int order,
                          double judge)
{
    static const double center[LIMIT_DIM] = {10, 3.8};
    q->mixture = limit_mixture();
    q->law = (sosmc_mixture_law){.mixture = &q->mixture, .theta = limit_theta};
    q->gate = (sosmc_gate){.dim = LIMIT_DIM, .center = center, .tau = 20, .alpha = 2.5};
    sosmc_source reference = sosmc_mixture_source(&q->law);
    reference.exact = 1;
    sosmc_problem p = {
        .model = sosmc_mixture_model(&q->mixture),
        .objective = sosmc_reward_forward(sosmc_gate_reward(&q->gate), beta, reference, 5000, limit_theta),
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
    cfg.judge = judge;
    sosmc *s = NULL;
    stop_at(s, sosmc_create(&s, &p, &cfg));
    return s;
}

static timing time_engine(int particles, int threads, sosmc_kernel kernel, sosmc_scheme scheme, double beta, int order)
{
    parts q;
    sosmc *s = open_engine(&q, threads, kernel, scheme, beta, order, 0);
    timing t = {.best = INFINITY};
    int iterations = 4000000 / particles, repeats = 7;
    iterations = iterations < 4 ? 4 : iterations > 400 ? 400 : iterations;
    for (int r = 0; r < repeats; r++) {
        double begin = limit_now();
        int resampled = 0;
        for (int k = 0; k < iterations; k++) {
            stop_at(s, sosmc_step(s));
            resampled += sosmc_last(s)->resampled;
        }
        double ns = (limit_now() - begin) * 1e9 / iterations / particles;
        if (ns < t.best) t = (timing){.best = ns, .resampled = (double)resampled / iterations};
    }
    sosmc_free(s);
    return t;
}

/* ---------------------------------------------------------------------------- judging */

/* Seconds of a run of 500 iterations, and of sosmc_judge behind it. */
typedef struct {
    double run, judge;
} judged;

static judged time_run(int particles, sosmc_kernel kernel, double judge)
{
    parts q;
    judged t = {.run = 0};
    sosmc *s = open_engine(&q, 1, kernel, sosmc_scheme_sosmc(particles), 0, SOSMC_ORDER_PAPER, judge);
    sosmc_judgement j;
    double begin = limit_now();
    stop_at(s, sosmc_run(s, 500, NULL, NULL));
    t.run = limit_now() - begin;
    begin = limit_now();
    if (judge > 0) {
        stop_at(s, sosmc_judge(s, NULL, &j, NULL, 0));
        t.judge = limit_now() - begin;
        sosmc_judgement_free(&j);
    }
    sosmc_free(s);
    return t;
}

static void time_judging(void)
{
    const int sizes[] = {1000, 10000, 100000};
    printf(
        "judging at its default, in runs of 500 iterations, one thread, best of 7   (target: at most 7 %% in all)\n");
    printf("%10s %8s %14s %18s %16s %10s\n", "particles", "kernel", "not judged, s", "gathering adds", "the pass adds",
           "in all");
    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        int n = sizes[i / 2], mala = i % 2 == 1;
        sosmc_kernel kernel = mala ? sosmc_mala(0.1) : sosmc_ula(0.1);
        judged off = {INFINITY, INFINITY}, on = off;
        for (int r = 0; r < 7; r++) { /* in turn, so that both see the same machine */
            judged a = time_run(n, kernel, 0), b = time_run(n, kernel, sosmc_defaults().judge);
            off.run = fmin(off.run, a.run);
            on.run = fmin(on.run, b.run);
            on.judge = fmin(on.judge, b.judge);
        }
        printf("%10d %8s %14.4f %17.1f%% %15.1f%% %9.1f%%\n", n, mala ? "mala" : "ula", off.run,
               100 * (on.run / off.run - 1), 100 * on.judge / off.run, 100 * ((on.run + on.judge) / off.run - 1));
    }
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
    printf("\n");
    time_judging();
    return 0;
}
