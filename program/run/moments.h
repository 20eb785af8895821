/* moments.h: the mean and the standard deviation of every coordinate over the weighted clouds of many iterations
 * (output.moments_from of the run file): with theta nearly at rest, the posterior's.
 *
 * They go into DIR/moments.npz before every checkpoint, with the iteration they belong to, and the file before it is kept
 * as moments.previous.npz: whatever moment a run is killed at, one of the two belongs to the checkpoint that is left, and
 * the resumed run ends with the same bytes. */
#ifndef SOSMC_RUN_MOMENTS_H
#define SOSMC_RUN_MOMENTS_H

#include "runfile/config.h"
#include "job/problem.h"

typedef struct moments moments;

/* How a log-strength theta went in the iterations that are averaged: its mean over them, and how much larger its mean over the
 * later half is than over the earlier one. iterations 0: there is no such theta, or one of the halves is empty. */
typedef struct {
    int64_t iterations;
    double mean, moved;
    double
        limit; /* theta has settled if it moved at most so much: 2 / sqrt(dim_x), two of its standard errors if the picture were known */
    double least; /* iterations that it takes to tell: MOMENTS_LEAST over the rate, as far as that is below 1 */
    int settled;
} moments_theta;
enum { MOMENTS_LEAST = 20 };

/* *out is NULL when the run file asks for none. `done` iterations are behind the engine; what they left is read. */
int moments_open(moments **out, const config *c, const job *j, const char *dir, int64_t done, char *error, size_t room);
/* To be called after every iteration: adds the cloud to the sums in those iterations that are counted. Here as below, m may
 * be NULL, and then nothing happens. */
int moments_step(moments *m, const sosmc *s, const sosmc_info *info, char *error, size_t room);
int moments_save(moments *m, int64_t done, char *error, size_t room); /* before a checkpoint of so many iterations */
/* DIR/mean.npy and DIR/sd.npy; of the present cloud alone when none has been taken in yet. */
int moments_write(const moments *m, const sosmc *s, char *error, size_t room);
int64_t moments_clouds(const moments *m); /* how many have been taken in */
moments_theta moments_theta_of(const moments *m);
/* With output.moments_settle: whether the run is over, and the iteration behind which that is asked next; 0: it is never asked. */
int moments_over(const moments *m);
int64_t moments_next(const moments *m);
void moments_close(moments *m);

#endif
