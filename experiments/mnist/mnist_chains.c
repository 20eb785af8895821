/* mnist_chains.c: chains on stored networks of pictures.
 *
 * Chains come from the library (sosmc/lattice.h) and are named by seed, step and number, so that two networks see the same
 * noise. Invariant: what is kept in a file is used only when a digest of the network and of every setting agrees with the
 * one stored beside it, and pictures are the same whether they were just made or read. */
#include "mnist_chains.h"

#include <math.h>
#include <stdlib.h>

#include <sosmc/lattice.h>

#include "terminal/progress.h"

static sosmc_kernel sampler(void) { return sosmc_jitter(10, 0.005, 1, 0.03); }

int mnist_open(mnist_network *n, const char *path, char *error, size_t room)
{
    *n = (mnist_network){.mlp = {0}};
    if (model_read_as(path, mnist_description(path), NULL, &n->file, error, room)) return -1;
    n->file.network.temperature = 0; /* whatever a run was tuned at, the sampler is that of pre-training */
    n->model = model_energy(&n->file, &n->mlp);
    if (n->model.dim_x == MNIST_PIXELS) return 0;
    int inputs = n->file.inputs;
    mnist_close(n);
    return files_fail(error, room, "%s is a network of %d inputs; expected the %d pixels of a picture of %d by %d",
                      path, inputs, (int)MNIST_PIXELS, (int)MNIST_SIDE, (int)MNIST_SIDE);
}

void mnist_close(mnist_network *n) { model_free(&n->file); }

/* ---------------------------------------------------------------------------- chains */

size_t mnist_chains_count(const mnist_chains *c)
{
    return (size_t)c->chains * (size_t)(c->snapshots > 0 ? c->snapshots : 1);
}

static uint64_t digest(const mnist_chains *c, const mnist_network *n)
{
    uint64_t h = experiment_mix(EXPERIMENT_DIGEST, c->seed);
    const int64_t settings[] = {c->chains, c->steps, c->snapshots, c->start != NULL};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) h = experiment_mix(h, (uint64_t)settings[i]);
    for (int i = 0; i < c->snapshots; i++) h = experiment_mix(h, (uint64_t)c->at[i]);
    if (c->start) h = experiment_mix_doubles(h, c->start, c->chains * MNIST_PIXELS);
    return experiment_mix_doubles(h, n->file.theta, n->file.parameters);
}

static int make(const mnist_chains *c, const mnist_network *n, const char *path, double *out, char *error, size_t room)
{
    sosmc_kernel kernel = sampler();
    sosmc_fresh f = {.chains = c->chains,
                     .burn_in = c->steps,
                     .low = -1,
                     .high = 1,
                     .seed = c->seed,
                     .threads = c->threads,
                     .kernel = &kernel,
                     .start = c->start};
    sosmc_fresh_record record = {
        .snapshots = c->snapshots, .at = c->at, .snapshot = out, .stop = experiment_interrupted};
    sosmc_status status = sosmc_fresh_reward(&n->model, n->file.theta, NULL, &f, &record, c->snapshots ? NULL : out,
                                             NULL, NULL);
    if (status != SOSMC_OK) return experiment_refused(path, "fresh chains", status, error, room);
    for (size_t i = 0, all = mnist_chains_count(c) * MNIST_PIXELS; i < all; i++) out[i] = (double)(float)out[i];
    return 0;
}

static int keep(const mnist_chains *c, const double key[2], const char *cache, const double *x, char *error,
                size_t room)
{
    size_t all = mnist_chains_count(c) * MNIST_PIXELS;
    float *rounded = malloc(all * sizeof *rounded);
    if (!rounded) return files_fail(error, room, "out of memory for %d chains", c->chains);
    for (size_t i = 0; i < all; i++) rounded[i] = (float)x[i];
    npy_array pictures = {
        .type = NPY_F32, .dims = 2, .shape = {(int64_t)mnist_chains_count(c), MNIST_PIXELS}, .data = rounded};
    npz_member members[] = {{"key", npy_vector(key, 2)}, {"x", pictures}};
    int rc = npz_write(cache, members, 2, 0, error, room);
    free(rounded);
    return rc;
}

int mnist_chains_run(const mnist_chains *c, const char *model, const char *cache, double *out, char *error, size_t room)
{
    mnist_network n;
    double key[2];
    int rc = 0;
    if (mnist_open(&n, model, error, room)) return -1;
    experiment_key(digest(c, &n), key);
    int kept = cache && experiment_is_kept(cache, key) &&
               experiment_recall(cache, "x", out, (int64_t)mnist_chains_count(c) * MNIST_PIXELS) == 0;
    if (!kept) rc = make(c, &n, model, out, error, room);
    if (rc == 0 && !kept && cache) rc = keep(c, key, cache, out, error, room);
    mnist_close(&n);
    return rc;
}

/* ---------------------------------------------------------------------------- particles */

static double mean_energy(const char *path, int64_t n, const double *x, double *U, char *error, size_t room)
{
    mnist_network net;
    double sum = 0;
    if (mnist_open(&net, path, error, room)) return NAN;
    sosmc_status status = sosmc_energies(&net.model, net.file.theta, n, x, 1, U);
    mnist_close(&net);
    if (status != SOSMC_OK) return experiment_refused(path, "energies of particles", status, error, room), NAN;
    for (int64_t i = 0; i < n; i++) sum += U[i];
    return sum / (double)n;
}

static void pixel_statistics(int64_t n, const double *x, mnist_reward reward, double scale, double value[MNIST_CLOUDS])
{
    double sum = 0, square = 0, outside = 0, total = 0, pixels = (double)n * MNIST_PIXELS;
    for (int64_t i = 0; i < n; i++) total += mnist_reward_of(reward, scale, x + i * MNIST_PIXELS);
    for (int64_t i = 0; i < n * MNIST_PIXELS; i++) {
        sum += x[i];
        square += x[i] * x[i];
        outside += fabs(x[i]) > 1;
    }
    value[MNIST_PLAIN] = total / (double)n;
    value[MNIST_PIXEL_SD] = sqrt(fmax(square / pixels - sum / pixels * (sum / pixels), 0));
    value[MNIST_OUTSIDE] = outside / pixels;
}

int mnist_look(const char *reference, const char *dir, mnist_reward reward, double scale, double value[MNIST_CLOUDS],
               char *error, size_t room)
{
    char particles[FILES_PATH], model[FILES_PATH];
    npy_array x;
    value[MNIST_CLOUD_K] = NAN;
    if (files_join(particles, dir, "particles.npz", error, room) ||
        files_join(model, dir, "model.safetensors", error, room) || npz_read(particles, "x", &x, error, room))
        return -1;
    int64_t n = x.dims == 2 && x.shape[1] == MNIST_PIXELS && x.type == NPY_F64 ? x.shape[0] : 0;
    double *U = malloc((size_t)n * sizeof *U + 1);
    int rc = n > 0 && U ? 0
                        : files_fail(error, room, "%s holds no pictures of %d pixels", particles, (int)MNIST_PIXELS);
    if (rc == 0) {
        pixel_statistics(n, x.data, reward, scale, value);
        value[MNIST_ENERGY] = mean_energy(model, n, x.data, U, error, room);
        value[MNIST_ENERGY_REF] = isnan(value[MNIST_ENERGY]) ? NAN : mean_energy(reference, n, x.data, U, error, room);
        rc = isnan(value[MNIST_ENERGY_REF]) ? -1 : 0;
    }
    free(U);
    npy_free(&x);
    return rc;
}

/* ---------------------------------------------------------------------------- */

int mnist_unit_cost(const char *model, double *seconds, char *error, size_t room)
{
    mnist_chains c = {.chains = 64, .steps = 4, .threads = 1};
    double *x = malloc(mnist_chains_count(&c) * MNIST_PIXELS * sizeof *x), begun;
    int rc = x ? 0 : files_fail(error, room, "out of memory");
    if (rc == 0) rc = mnist_chains_run(&c, model, NULL, x, error, room); /* caches and clocks warm up */
    begun = monotonic_seconds();
    if (rc == 0) rc = mnist_chains_run(&c, model, NULL, x, error, room);
    *seconds = (monotonic_seconds() - begun) / (c.chains * c.steps);
    free(x);
    return rc;
}
