/* bench_conv.c: the convolutional energy of MNIST images next to what the machine allows and to JAX and PyTorch.
 *
 * Four convolutions of stride 2 (1 -> 16 -> 32 -> 64 -> 64 channels) and dense layers 256 -> 64 -> 1 with SiLU, 1,000 images,
 * float. The limit is the rate of fused multiply-adds on registers, measured in the same run; useful work is 2 operations
 * per weight, position and product, and only taps inside the image count. The peers run the authors' structure of an
 * iteration (two passes for input gradients, one for the parameters, one of the reference). Every figure is the best of
 * several repeats, because other work on the machine only ever adds time. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <sosmc/models.h>

#include "limit.h"
#include "peer.h"

enum { IMAGES = 1000, SIDE = 28, PIXELS = SIDE * SIDE, REPEATS = 50, GUESSED_TILE = 16 };
static const sosmc_layer layers[] = {{.outputs = 16, .kernel = 5, .stride = 2, .padding = 4},
                                     {.outputs = 32, .kernel = 3, .stride = 2, .padding = 1},
                                     {.outputs = 64, .kernel = 3, .stride = 2, .padding = 1},
                                     {.outputs = 64, .kernel = 3, .stride = 2, .padding = 1},
                                     {.kind = SOSMC_DENSE, .outputs = 64},
                                     {.kind = SOSMC_DENSE, .outputs = 1, .activation = SOSMC_IDENTITY}};
static const sosmc_network network = {
    .channels = 1, .rows = SIDE, .columns = SIDE, .count = sizeof layers / sizeof *layers, .layer = layers, .sign = -1};

/* ---------------------------------------------------------------------------- passes through the network */

/* Positions of a window along one side of the map and taps that fall inside it, summed over the positions. */
static void count_taps(const sosmc_layer *l, int side, int *positions, int *taps)
{
    *positions = (side + 2 * l->padding - l->kernel) / l->stride + 1;
    *taps = 0;
    for (int p = 0; p < *positions; p++)
        for (int k = 0; k < l->kernel; k++) {
            int at = p * l->stride + k - l->padding;
            *taps += at >= 0 && at < side;
        }
}

/* Operations of one forward pass of one image. Backward passes to the inputs and to the weights have as many each. */
static double forward_operations(void)
{
    double products = 0;
    int channels = network.channels, side = SIDE;
    for (int i = 0; i < network.count; i++) {
        const sosmc_layer *l = &layers[i];
        int positions = 1, taps = side;
        if (l->kind == SOSMC_CONVOLUTION) count_taps(l, side, &positions, &taps);
        products += (double)taps * taps * channels * l->outputs;
        channels = l->outputs;
        side = positions;
    }
    return 2 * products;
}

typedef struct {
    double energy, both, contraction; /* seconds for all images */
} passes;

/* Every tile has its own images and gradients, as in a run, but the scratch of one: what a tile parks is read at once. */
static passes time_passes(double *peak)
{
    sosmc_model m = sosmc_network_model(&network);
    int tile = m.tile > 0 ? m.tile : GUESSED_TILE, tiles = IMAGES / tile, at = PIXELS * tile;
    size_t cloud = (size_t)tiles * (size_t)at * sizeof(double), row = (size_t)tile * sizeof(double);
    double *theta = limit_room((size_t)m.dim_theta * sizeof(double)),
           *g = limit_room((size_t)m.dim_theta * sizeof(double));
    double *x = limit_room(cloud), *gx = limit_room(cloud), *U = limit_room(row), *c = limit_room(row);
    void *prep = limit_room(m.prep), *work = limit_room(m.work * (size_t)tile);
    sosmc_batch b = {.prep = prep, .work = work, .simd = sosmc_simd_best(), .dim = PIXELS, .n = tile, .ld = tile};
    passes best = {INFINITY, INFINITY, INFINITY};
    sosmc_network_init(&network, 1, theta);
    (void)m.prepare(m.self, theta, prep);
    for (int t = 0; t < tiles; t++) sosmc_normals((sosmc_rng){.seed = 1, .step = (uint64_t)t}, &b, x + t * at);
    for (int i = 0; i < tile; i++) c[i] = 1e-3;
    for (int r = 0; r < REPEATS; r++) {
        passes now = {0};
        for (int t = 0; t < tiles; t++) {
            b.x = x + t * at;
            double begin = limit_now();
            (void)m.energy(m.self, theta, &b, U, NULL);
            double forward = limit_now();
            (void)m.energy(m.self, theta, &b, U, gx + t * at);
            double both = limit_now();
            b.fresh = 1;
            (void)m.grad_theta(m.self, theta, &b, c, g);
            b.fresh = 0;
            now.energy += forward - begin, now.both += both - forward, now.contraction += limit_now() - both;
        }
        double whole = (double)IMAGES / (tiles * tile);
        best.energy = fmin(best.energy, whole * now.energy);
        best.both = fmin(best.both, whole * now.both);
        best.contraction = fmin(best.contraction, whole * now.contraction);
        *peak = fmax(*peak, limit_peak());
    }
    free(theta), free(g), free(x), free(gx), free(U), free(c), free(prep), free(work);
    return best;
}

static void tell_passes(passes p, double peak)
{
    const struct {
        const char *name, *target;
        double seconds, products;
    } rows[] = {{"reference forward", "", p.energy, 1},
                {"energy and gradient", "   (target: at least 60%)", p.both, 2},
                {"parameter gradient", "", p.contraction, 1}};
    printf("passes, N = %d, one thread, %.2f million operations per image and forward pass\n", IMAGES,
           1e-6 * forward_operations());
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double rate = rows[i].products * forward_operations() * IMAGES / rows[i].seconds;
        printf("  %-22s %8.2f ms %8.1f GFLOP/s %6.0f%% of the limit%s\n", rows[i].name, 1e3 * rows[i].seconds,
               1e-9 * rate, 100 * rate / peak, rows[i].target);
    }
}

/* ---------------------------------------------------------------------------- whole iterations */

typedef struct {
    double seconds, resampled;
} timing;

static sosmc_settings sweep_settings(sosmc_scheme scheme, int threads)
{
    sosmc_settings cfg = sosmc_defaults();
    cfg.scheme = scheme;
    cfg.scheme.order = SOSMC_ORDER_AUTHORS;
    cfg.scheme.ess_min = 0.9;
    cfg.kernel = sosmc_ula(3e-3);
    cfg.optimiser = sosmc_adam(1e-4);
    cfg.threads = threads;
    return cfg;
}

/* Seconds of the fastest of several iterations. */
static timing time_steps(sosmc *s)
{
    timing best = {.seconds = INFINITY};
    sosmc_status status = sosmc_run(s, 3, NULL, NULL);
    for (int r = 0; status == SOSMC_OK && r < REPEATS; r++) {
        double begin = limit_now();
        status = sosmc_step(s);
        best.seconds = fmin(best.seconds, limit_now() - begin);
        best.resampled += (double)sosmc_last(s)->resampled / REPEATS;
    }
    if (status != SOSMC_OK) {
        fprintf(stderr, "%s\n", sosmc_message(s));
        exit(1);
    }
    return best;
}

/* The settings of the published sweep: brightness as the reward, reverse KL with beta = 1. The start is noise, as the start
 * of the peers: it decides no time. */
static timing time_iterations(sosmc_scheme scheme, int threads)
{
    static double weight[PIXELS], low[PIXELS], high[PIXELS];
    for (int j = 0; j < PIXELS; j++) weight[j] = 1.0 / PIXELS, low[j] = -1, high[j] = 1;
    const sosmc_linear bright = {.dim = PIXELS, .weight = weight, .clamp = 1};
    const sosmc_box box = {.dim = PIXELS, .low = low, .high = high};
    sosmc_model m = sosmc_network_model(&network);
    double *theta = limit_room((size_t)m.dim_theta * sizeof(double));
    sosmc_network_init(&network, 1, theta);
    sosmc_problem p = {.model = m,
                       .objective = sosmc_reward_reverse(sosmc_linear_reward(&bright), 1, theta),
                       .init = sosmc_box_source(&box),
                       .theta0 = theta};
    sosmc_settings cfg = sweep_settings(scheme, threads);
    sosmc *s = NULL;
    if (sosmc_create(&s, &p, &cfg) != SOSMC_OK) {
        fprintf(stderr, "%s\n", sosmc_message(s));
        exit(1);
    }
    timing t = time_steps(s);
    sosmc_free(s);
    free(theta);
    return t;
}

static void tell_iterations(const char *name, const timing *t, double peak)
{
    double rate = 4 * forward_operations() * IMAGES / t[0].seconds;
    printf("  %-10s 1 thread %7.2f ms (%2.0f%% of the limit), 2 threads %7.2f ms, speed-up %.2fx (target: 1.8x), "
           "resampled %.0f%%\n",
           name, 1e3 * t[0].seconds, 100 * rate / peak, 1e3 * t[1].seconds, t[0].seconds / t[1].seconds,
           100 * t[0].resampled);
}

int main(void)
{
    double peak = 0;
    passes p = time_passes(&peak);
    printf("vector level %s; measured limit of one core: %.1f GFLOP/s of f32 multiply-adds\n\n",
           sosmc_simd_name(sosmc_simd_best()), 1e-9 * peak);
    tell_passes(p, peak);

    timing weighted[2], impdiff[2];
    for (int threads = 1; threads <= 2; threads++) {
        weighted[threads - 1] = time_iterations(sosmc_scheme_sosmc(IMAGES), threads);
        impdiff[threads - 1] = time_iterations(sosmc_scheme_unweighted(IMAGES), threads);
    }
    printf("\ntuning iteration, N = %d, authors' order\n", IMAGES);
    tell_iterations("SOSMC-ULA", weighted, peak);
    tell_iterations("ImpDiff", impdiff, peak);

    printf(
        "\npeers: E and gradient, a SOSMC-ULA iteration (target: passes apart 3x) and an ImpDiff iteration in the authors' "
        "structure, as multiples of ours and of our products at the limit\n");
    double pass = forward_operations() * IMAGES / peak; /* at the limit */
    for (int threads = 1; threads <= 2; threads++) {
        const peer_row rows[] = {{"energy_gradient", threads == 1 ? p.both : NAN, 2 * pass},
                                 {"iteration", weighted[threads - 1].seconds, 4 * pass / threads},
                                 {"impdiff", impdiff[threads - 1].seconds, 4 * pass / threads}};
        peer_compare_both("bench/peers/conv", threads, rows, 3);
    }
    return 0;
}
