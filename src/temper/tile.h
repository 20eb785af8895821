/* tile.h: the arithmetic of a pass on one tile of particles, which exists once per vector level (tile_vec.c).
 *
 * A tile is dim rows of ld numbers, as a model sees it; ld is a multiple of 8, or 1 for a tile of one particle. Numbers of n
 * particles stand in rows of n. */
#ifndef SOSMC_TEMPER_TILE_H
#define SOSMC_TEMPER_TILE_H

#include "laws.h"

/* Particles and what they carry: energies and gradients under the model and under the starting law. */
typedef struct {
    double *x, *gU, *gq; /* tiles */
    double *U, *Lq;      /* rows */
} tile_points;

/* How particles move at one temperature. */
typedef struct {
    triangle C; /* the matrix P P' of pass.h is the inverse of C C' */
    int gradient;
    double t, h;
    int goes_on;        /* a further leapfrog step of a trajectory: z is the last step, not noise */
    const double *pull; /* taken away from the slope along x_j: pull[2 j] + pull[2 j + 1] x_j; NULL: nothing */
    const double *gain; /* of a trajectory: the kinetic energy that it has lost, per particle; NULL: it has one step */
} tile_move;

typedef struct {
    /* -log q of n particles, infinite where it is no number, and its gradient (NULL: not wanted). work: LAW_WORK dim doubles. */
    void (*energies)(const laws *q, int n, int ld, const double *x, double *energy, double *gradient, double *work);
    /* y = proposals from `at`. z: normals, which become the steps in whitened coordinates; g: the slopes there. */
    void (*propose)(const tile_move *m, int n, int ld, const tile_points *at, double *z, double *g, double *y,
                    double *work);
    /* The kinetic energies where a trajectory ends, whose last step was `step`. */
    void (*kinetic)(const tile_move *m, int n, int ld, const tile_points *at, const double *step, double *energy,
                    double *work);
    /* The acceptance probabilities, and the particles of `at` that are replaced by those of `to`: u[i] <= accepted[i]. */
    void (*decide)(const tile_move *m, int n, int ld, const tile_points *at, const tile_points *to, const double *step,
                   const double *g, const double *u, double *accepted, double *work);
    /* sums[0] = sum w v, sums[1] = sum w v^2, v = exp(step * (d - most)). */
    void (*spread)(int n, const double *w, const double *d, double step, double most, double sums[2]);
} tile_code;

/* Particles that lend their differences to others: the first `lanes` of each of so many tiles of dim rows of ld, `vector` doubles apart. */
typedef struct {
    const double *x;
    size_t vector;
    int ld, first, tiles, lanes;
} pool;
/* Adds the difference of two particles of the pool along one coordinate to every point of y (jump.c). */
void sosmc_i_jump(const pool *from, sosmc_rng rng, const sosmc_batch *b, double *y);

/* The code for a level (NULL: the best of this machine). */
const tile_code *sosmc_i_tile_code(const sosmc_simd *simd);

#endif
