/* host.h: a model at one theta with the memory that its callbacks need, for everything that calls a model outside the engine.
 *
 * Points are cut into tiles by the rules of the engine, or as the caller says. Several workers may call the model at once, each
 * with a room of its own: `vectors` vectors of dim rows of ld doubles, `rows` rows of ld doubles, and the model's scratch.
 *
 *     memory   | prep | threads | worker 0: vectors, rows, scratch | worker 1: ... */
#ifndef SOSMC_ANALYSIS_HOST_H
#define SOSMC_ANALYSIS_HOST_H

#include <sosmc/analysis.h>

#include "base/threads.h"

enum { HOST_MOST_THREADS = 1024 };

typedef struct {
    const sosmc_model *model;
    const double *theta;
    const sosmc_simd *simd; /* the vector code of its batches; NULL: the best of this machine. Set it after the cut. */
    int tile, ld, workers;
    size_t vector, row; /* doubles of one vector and of one row, multiples of 8 */
    size_t stride;      /* bytes of one worker */
    size_t scratch;     /* bytes in front of the model's scratch */
    char *memory, *crew, *room;
    void *prep;
} host;

/* Tiles of `points` points, of the size that the model asks for; the number of tiles is at most 2^31 - 1. `threads` workers,
 * at most one per tile and at least one. SOSMC_EINVAL: too many tiles. */
sosmc_status sosmc_i_host_cut(host *h, const sosmc_model *model, int64_t points, int threads);
/* Or tiles of `tile` particles in rows of `ld`, for one worker. */
void sosmc_i_host_shape(host *h, const sosmc_model *model, int tile, int ld);
/* The bytes that sosmc_i_host_open takes; SIZE_MAX: more than can be counted. */
size_t sosmc_i_host_bytes(host *h, size_t vectors, size_t rows);
/* Takes the memory, all of it zero, and prepares the model at theta (borrowed; NULL: not yet). On failure nothing is left to
 * close. */
sosmc_status sosmc_i_host_open(host *h, const double *theta, size_t vectors, size_t rows);
/* Prepares the model at another theta. */
sosmc_status sosmc_i_host_move(host *h, const double *theta);
void sosmc_i_host_close(host *h);

static inline double *host_room(const host *h, int worker)
{
    return (double *)(void *)(h->room + (size_t)worker * h->stride);
}
/* Particles first, first + 1, ... in the worker's room: b.x is its first vector. n: at most a tile, up to `points`. */
sosmc_batch sosmc_i_host_batch(const host *h, int worker, int64_t first, int64_t points);
/* Memory for sosmc_i_scores: its scratch, then `tables` times dim_theta rows of ld doubles; the caller frees it. NULL: there is
 * not so much. */
double *sosmc_i_host_scores_room(const sosmc_model *model, int ld, size_t tables);
/* Tasks 0..n-1 on the workers; where threads cannot be had, the calling one does the work. */
sosmc_status sosmc_i_host_parallel(const host *h, crew_task task, void *ctx, int n);

/* n points between rows of dim numbers and a tile. */
void sosmc_i_from_rows(int dim, int ld, int n, const double *rows, double *x);
void sosmc_i_to_rows(int dim, int ld, int n, const double *x, double *rows);

#endif
