/* tail.h: what a trace says at its end: means over its last tenth, whether theta still moves, and whether the weights were
 * carried by a few particles for long. Everything comes from DIR/trace.csv, which a resumed run ends with the bytes of an
 * uninterrupted one, so the answers do too. */
#ifndef SOSMC_RUN_TAIL_H
#define SOSMC_RUN_TAIL_H

#include <stddef.h>
#include <stdint.h>

/* Mean and standard deviation over the rows of the last tenth that have a value; n of them, both NaN when there is none. */
typedef struct {
    double mean, sd;
    int n;
} tail_value;

typedef enum {
    TAIL_UNKNOWN, /* too few rows, too many parameters for the trace, or a rate of zero */
    TAIL_SETTLED,
    TAIL_MOVES
} tail_motion;

typedef struct {
    int rows;           /* of the last tenth; 0: the trace has no rows */
    int64_t iterations; /* that they span */
    tail_value loss, reward, kl, logz;

    tail_motion motion;
    int moving;            /* TAIL_MOVES: the parameter that moves most, counted from 1 */
    double move;           /* its mean change per iteration, with sign */
    double rate, top_rate; /* learning rate of the last row; the largest of the whole trace */

    double first_ess, least_ess;   /* of the first row, and of all */
    int64_t starved, starved_from; /* the longest stretch of iterations with an ESS below 5 % of the particles */
} tail;

enum { TAIL_STARVED = 20 }; /* a stretch so long is worth a warning */

/* particles: what an ESS is a share of. */
int tail_read(tail *out, const char *dir, int64_t particles, char *error, size_t room);

#endif
