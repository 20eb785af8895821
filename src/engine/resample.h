/* resample.h: the pieces of resampling, cut so that ranges of particles and of offspring can go to different threads.
 *
 *     1. sosmc_i_cumulate, sosmc_i_spacings   ranges of whole chunks, in any order
 *     2. sosmc_i_join                         one thread; total weight, validity, the ends of all chunks
 *     3. sosmc_i_points                       ranges of whole chunks, in any order
 *     4. sosmc_i_merge                        any range of offspring, in any order
 *
 * Chunk k is the elements from k SOSMC_I_CHUNK on, SOSMC_I_CHUNK of them or what is left. A stage begins when the one
 * before has ended everywhere. The bits depend on the weights and the name of the random numbers, not on the ranges.
 * Multinomial, stratified and systematic only: the others round fractions in sequence, see sosmc_i_resample. */
#ifndef SOSMC_ENGINE_RESAMPLE_H
#define SOSMC_ENGINE_RESAMPLE_H

#include "base/table.h"

enum { SOSMC_I_CHUNK = 1024 };

/* A resampling under way. The caller owns the memory and fills in everything above the line. */
typedef struct {
    const sosmc_simd *simd;
    sosmc_resampling scheme;
    sosmc_rng rng;    /* offspring i uses uniform i of draw 0 */
    int n, offspring; /* particles; how many ancestors are wanted, at most n */
    const double *w;  /* n weights */
    double scale;     /* power of two that keeps sums of w in range: sosmc_i_scale, or 1 when the largest weight is 1 */
    double *c;        /* n: cumulative weights; may be w itself */
    double *p;        /* offspring + 1: points in [0, total) */
    int *ancestors;   /* offspring */
    /* ------------------------------------------------------------------ written by sosmc_i_join */
    double total;  /* sum of scale * w */
    double factor; /* what turns raw points into points on [0, total) */
    double cap;    /* the largest double below total */
    double u;      /* the one uniform of systematic resampling */
} sosmc_i_offspring;

/* The scale for weights whose largest is max; 0 when max is not positive and finite. */
double sosmc_i_scale(double max);
/* c[i] = sums of scale * w within each chunk of the range; SOSMC_EINVAL when a weight is NaN or negative. */
sosmc_status sosmc_i_cumulate(sosmc_i_offspring *o, int first, int count);
/* Multinomial: p[i] = sums of exponential spacings within each chunk; the other schemes have nothing to do. Ranges of
 * offspring; the range that ends at o->offspring adds the spacing behind the last point. */
void sosmc_i_spacings(sosmc_i_offspring *o, int first, int count);
/* SOSMC_EINVAL when the total weight is not positive and finite. */
sosmc_status sosmc_i_join(sosmc_i_offspring *o);
/* Completes the cumulative weights c of the particles in the range and the points p of the offspring in the range. */
void sosmc_i_points(sosmc_i_offspring *o, int first, int count);
/* ancestors[i] = first a with c[a] > p[i], for the offspring in the range. */
void sosmc_i_merge(sosmc_i_offspring *o, int first, int count);

/* sosmc_resample with the vector code given. */
sosmc_status sosmc_i_resample(const sosmc_simd *simd, sosmc_resampling scheme, sosmc_rng rng, int n, const double *w,
                              double *scratch, int *ancestors);

#endif
