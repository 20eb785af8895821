/* mnist_chains.h: stored networks of pictures: fresh chains of the pre-training sampler, with starts and noise that two networks
 * share when they are studied with one seed, and a look at the particles of a run. */
#ifndef SOSMC_MNIST_MNIST_CHAINS_H
#define SOSMC_MNIST_MNIST_CHAINS_H

#include <stddef.h>
#include <stdint.h>

#include <sosmc/models.h>

#include "mnist_cells.h"
#include "job/model_file.h"

typedef struct {
    model_file file;
    sosmc_mlp mlp;
    sosmc_model model;
} mnist_network;
/* Fails for a network of anything but 28 x 28 pictures. The network must stay where it is until it is closed. */
int mnist_open(mnist_network *n, const char *path, char *error, size_t room);
void mnist_close(mnist_network *n);

/* The pre-training sampler: x <- clip(y - 10 clip_0.03(grad E(y))), y = clip(x + 0.005 noise). */
typedef struct {
    int chains, steps;
    uint64_t seed;
    int threads;
    const double *start; /* chains rows of pixels; NULL: uniform on [-1, 1] */
    int snapshots;       /* 0: the last states alone */
    const int64_t *at;   /* steps made, ascending, 1 to `steps` */
} mnist_chains;
/* Pictures that mnist_chains_run leaves. */
size_t mnist_chains_count(const mnist_chains *c);
/* Into `out`, snapshot after snapshot, chain after chain, rounded to float. `cache` (NULL: none) is an NPZ file that keeps them
 * and is taken instead when network and settings are the same. */
int mnist_chains_run(const mnist_chains *c, const char *model, const char *cache, double *out, char *error,
                     size_t room);

/* The particles that the run in `dir` left, under its network and under the reference: all of mnist_cloud but the
 * first. */
int mnist_look(const char *reference, const char *dir, mnist_reward reward, double scale, double value[MNIST_CLOUDS],
               char *error, size_t room);

/* Seconds that energy and gradient at one picture take on one core. */
int mnist_unit_cost(const char *model, double *seconds, char *error, size_t room);

#endif
