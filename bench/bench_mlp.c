/* bench_mlp.c: an energy network of the paper's size next to what the machine allows and to JAX and PyTorch.
 *
 * 2 -> 128 -> 128 -> 128 -> 128 -> 1 with SiLU, 10,000 particles, float. The limit is the rate of fused multiply-adds on
 * registers, measured in the same run; useful work is counted as 2 operations per weight, particle and product. The peers
 * run the authors' structure of an iteration (two passes for input gradients, one for the parameters, one of the reference):
 * eight products per layer where we need four, seven where a compiler shares a forward pass. Every figure is the best of several repeats, because other work on the machine
 * only ever adds time. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <sosmc/models.h>

#include "limit.h"
#include "peer.h"

enum { PARTICLES = 10000, REPEATS = 15 };
static const int width[] = {128, 128, 128, 128};
static const sosmc_mlp network = {.inputs = 2, .hidden = 4, .width = width, .base_sd = 3};

/* ---------------------------------------------------------------------------- passes through the network */

static double weights_of_products(void)
{
    double sum = 0;
    for (int l = 0; l < network.hidden; l++) sum += (double)width[l] * (l ? width[l - 1] : network.inputs);
    return sum + width[network.hidden - 1];
}

typedef struct {
    double energy, both, contraction; /* seconds for all particles */
} passes;

static passes time_passes(double *peak)
{
    sosmc_model m = sosmc_mlp_model(&network);
    int tile = m.tile, tiles = PARTICLES / tile;
    double *theta = limit_room((size_t)m.dim_theta * sizeof(double)),
           *g = limit_room((size_t)m.dim_theta * sizeof(double));
    double *x = limit_room(2 * (size_t)tile * sizeof(double)), *gx = limit_room(2 * (size_t)tile * sizeof(double));
    double *U = limit_room((size_t)tile * sizeof(double)), *c = limit_room((size_t)tile * sizeof(double));
    void *prep = limit_room(m.prep), *work = limit_room(m.work * (size_t)tile);
    sosmc_batch b = {.x = x, .prep = prep, .work = work, .simd = sosmc_simd_best(), .dim = 2, .n = tile, .ld = tile};
    passes best = {INFINITY, INFINITY, INFINITY};
    sosmc_mlp_init(&network, 0.1, 1, theta);
    (void)m.prepare(m.self, theta, prep);
    sosmc_normals((sosmc_rng){.seed = 1}, &b, x);
    for (int i = 0; i < tile; i++) c[i] = 1e-4;
    for (int r = 0; r < 4 * REPEATS; r++) {
        double begin = limit_now();
        for (int t = 0; t < tiles; t++) (void)m.energy(m.self, theta, &b, U, NULL);
        double forward = limit_now();
        for (int t = 0; t < tiles; t++) (void)m.energy(m.self, theta, &b, U, gx);
        double both = limit_now();
        b.fresh = 1;
        for (int t = 0; t < tiles; t++) (void)m.grad_theta(m.self, theta, &b, c, g);
        b.fresh = 0;
        double end = limit_now(), whole = (double)PARTICLES / (tiles * tile);
        best.energy = fmin(best.energy, whole * (forward - begin));
        best.both = fmin(best.both, whole * (both - forward));
        best.contraction = fmin(best.contraction, whole * (end - both));
        *peak = fmax(*peak, limit_peak());
    }
    free(theta), free(g), free(x), free(gx), free(U), free(c), free(prep), free(work);
    return best;
}

/* ---------------------------------------------------------------------------- whole iterations */

typedef struct {
    double seconds;   /* of the fastest iteration, which is also what the peers report */
    double resampled; /* share of all of them */
} timing;

/* The paper's settings of reward tuning in the plane; particles start from the base of the network and leave it in the first iterations. */
static timing time_iterations(int threads, int order)
{
    static const double normal[2] = {0, -1};
    enum { ITERATIONS = 150 };
    const sosmc_half_plane lower = {.dim = 2, .normal = normal};
    sosmc_model m = sosmc_mlp_model(&network);
    double *theta = limit_room((size_t)m.dim_theta * sizeof(double));
    sosmc_mlp_init(&network, 0.1, 1, theta);
    sosmc_problem p = {.model = m,
                       .objective = sosmc_reward_reverse(sosmc_half_plane_reward(&lower), 0.25, theta),
                       .init = sosmc_standard_normal(),
                       .theta0 = theta};
    sosmc_settings cfg = sosmc_defaults();
    cfg.scheme = sosmc_scheme_sosmc(PARTICLES);
    cfg.scheme.order = order;
    cfg.scheme.ess_min = 0.9;
    cfg.kernel = sosmc_ula(0.005);
    cfg.optimiser = sosmc_adam(2e-4);
    cfg.adapt[0] = (sosmc_adapt){.threshold = 0.95, .factor = 1.01, .min = 1e-8, .max = 0.01};
    cfg.threads = threads;
    sosmc *s = NULL;
    timing t = {.seconds = INFINITY};
    sosmc_status status = sosmc_create(&s, &p, &cfg);
    if (status == SOSMC_OK) status = sosmc_run(s, 50, NULL, NULL);
    for (int k = 0; status == SOSMC_OK && k < ITERATIONS; k++) {
        double begin = limit_now();
        status = sosmc_step(s);
        t.seconds = fmin(t.seconds, limit_now() - begin);
        t.resampled += (double)sosmc_last(s)->resampled / ITERATIONS;
    }
    if (status != SOSMC_OK) {
        fprintf(stderr, "%s\n", sosmc_message(s));
        exit(1);
    }
    sosmc_free(s);
    free(theta);
    return t;
}

int main(void)
{
    double peak = 0, weights = weights_of_products();
    passes p = time_passes(&peak);
    printf("vector level %s; measured limit of one core: %.1f GFLOP/s of f32 multiply-adds\n\n",
           sosmc_simd_name(sosmc_simd_best()), 1e-9 * peak);
    printf("passes, N = %d, one thread\n", PARTICLES);
    const struct {
        const char *name;
        double seconds, products;
    } rows[] = {{"energy", p.energy, 1}, {"energy and gradient", p.both, 2}, {"parameter gradient", p.contraction, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double rate = rows[i].products * 2 * weights * PARTICLES / rows[i].seconds;
        printf("  %-22s %8.2f ms %8.1f GFLOP/s %6.0f%% of the limit%s\n", rows[i].name, 1e3 * rows[i].seconds,
               1e-9 * rate, 100 * rate / peak, i == 1 ? "   (target: at least 70%)" : "");
    }

    printf("\nSOSMC-ULA tuning iteration, N = %d\n", PARTICLES);
    timing mine[2] = {{0}};
    for (int order = SOSMC_ORDER_PAPER; order <= SOSMC_ORDER_AUTHORS; order++) {
        timing one = time_iterations(1, order), two = time_iterations(2, order);
        double rate = 4 * 2 * weights * PARTICLES / one.seconds;
        printf("  %-14s 1 thread %7.2f ms (%2.0f%% of the limit), 2 threads %7.2f ms, speed-up %.2fx (target: 1.8x), "
               "resampled %.0f%%\n",
               order == SOSMC_ORDER_PAPER ? "paper's order" : "authors' order", 1e3 * one.seconds, 100 * rate / peak,
               1e3 * two.seconds, one.seconds / two.seconds, 100 * one.resampled);
        if (order == SOSMC_ORDER_AUTHORS) mine[0] = one, mine[1] = two;
    }

    printf(
        "\npeers: E and gradient, and a whole iteration in the authors' structure (target: passes apart 4x), as multiples "
        "of ours and of our products at the limit\n");
    double product = 2 * weights * PARTICLES / peak; /* one per layer and particle, at the limit */
    for (int threads = 1; threads <= 2; threads++) {
        const peer_row compared[] = {{"energy_gradient", threads == 1 ? p.both : NAN, 2 * product},
                                     {"iteration", mine[threads - 1].seconds, 4 * product / threads}};
        peer_compare_both("bench/peers/mlp", threads, compared, 2);
    }
    return 0;
}
