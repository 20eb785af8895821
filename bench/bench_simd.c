/* bench_simd.c: nanoseconds per number of the vector code, on one core, best of many short repeats, for each level this
 * machine runs. Shapes are those of the two-dimensional mixture experiment: tiles of 256 particles, six components. */
#include <sosmc/models.h>
#include <stdio.h>
#include <time.h>

#include "base/table.h"

enum { TILE = 256, DIM = 2, COMPONENTS = 6, DRAWS = 5000, REPEATS = 300, CALLS = 20 };

static _Alignas(64) double x[DIM * TILE], z[DIM * TILE], gx[DIM * TILE], U[TILE], y[TILE], c[TILE],
    work[COMPONENTS * TILE];
static _Alignas(64) double logw[TILE], w[TILE], cloud[DIM * DRAWS];
static double prep[2 * COMPONENTS], g[COMPONENTS], sums[SUM_COUNT];
static const double means[COMPONENTS * DIM] = {4, 0, 2, 3.4641016, -2, 3.4641016, -4, 0, -2, -3.4641016, 2, -3.4641016};
static const double theta[COMPONENTS] = {1.5, -1.5, 1.5, -1.5, 1.5, -1.5};
static const sosmc_mixture mixture = {
    .dim = DIM, .components = COMPONENTS, .means = means, .variance = 1.0, .eps = 1e-9};
static const sosmc_mixture_law law = {.mixture = &mixture, .theta = theta};
static sosmc_model model;
static sosmc_rng rng = {.seed = 1, .stream = SOSMC_STREAM_USER};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void normals(const sosmc_batch *b) { rng.step++, sosmc_normals(rng, b, z); }
static void uniforms(const sosmc_batch *b) { rng.step++, sosmc_uniforms(rng, 0, b, y); }
static void exps(const sosmc_batch *b) { b->simd->exp(TILE, logw, y); }
static void logs(const sosmc_batch *b) { b->simd->log(TILE, w, y); }
static void weigh(const sosmc_batch *b) { b->simd->weigh(TILE, logw, 0.0, U, U, U, y, sums); }
static void langevin(const sosmc_batch *b)
{
    b->simd->propose(DIM * TILE, x, gx, z, 0.1, 0.4, cloud);
    b->simd->langevin_ratio(DIM, TILE, TILE, x, cloud, gx, z, 0.1, 1.0, U, w, y);
}
static void gradient(const sosmc_batch *b) { (void)model.energy(&mixture, theta, b, U, gx); }
static void energy(const sosmc_batch *b) { (void)model.energy(&mixture, theta, b, U, NULL); }
static void contract(const sosmc_batch *b)
{
    sosmc_batch fresh = *b;
    fresh.fresh = 1;
    (void)model.grad_theta(&mixture, theta, &fresh, c, g);
}
static void unfused(const sosmc_batch *b) { (void)model.grad_theta(&mixture, theta, b, c, g); }
static void draws(const sosmc_batch *b)
{
    sosmc_batch large = *b;
    large.n = large.ld = DRAWS;
    rng.step++;
    sosmc_mixture_source(&law).draw(&law, rng, &large, cloud);
}

static void report(const sosmc_batch *b, const char *what, void (*work_on)(const sosmc_batch *), double count)
{
    double best = 1e30;
    for (int r = 0; r < REPEATS; r++) {
        double start = now();
        for (int k = 0; k < CALLS; k++) work_on(b);
        double ns = (now() - start) / (CALLS * count);
        best = ns < best ? ns : best;
    }
    printf("%-7s %-46s %7.3f ns\n", sosmc_simd_name(b->simd), what, best);
}

int main(void)
{
    static const char *const names[] = {"avx512", "avx2", "plain"};
    model = sosmc_mixture_model(&mixture);
    for (int v = 0; v < 3; v++) {
        const sosmc_simd *simd = sosmc_simd_named(names[v]);
        if (!simd) continue;
        sosmc_batch b = {.x = x, .prep = prep, .work = work, .simd = simd, .dim = DIM, .n = TILE, .ld = TILE};
        (void)model.prepare(&mixture, theta, prep);
        sosmc_mixture_source(&law).draw(&law, rng, &b, x);
        sosmc_uniforms(rng, 1, &b, w);
        sosmc_uniforms(rng, 2, &b, c);
        for (int i = 0; i < TILE; i++) logw[i] = -8.0 * w[i];
        report(&b, "normal", normals, DIM * TILE);
        report(&b, "uniform", uniforms, TILE);
        report(&b, "exp", exps, TILE);
        report(&b, "log", logs, TILE);
        report(&b, "propose and ratio, per particle (dim 2)", langevin, TILE);
        report(&b, "weight and its sums, per particle", weigh, TILE);
        report(&b, "mixture energy, per particle", energy, TILE);
        report(&b, "mixture energy and gradient, per particle", gradient, TILE);
        report(&b, "mixture contraction, per particle", contract, TILE);
        report(&b, "mixture contraction from scratch, per particle", unfused, TILE);
        report(&b, "mixture draw, per particle", draws, DRAWS);
    }
    return 0;
}
