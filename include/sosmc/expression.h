/* expression.h: a reward typed by a user, compiled once and evaluated over batches of particles.
 *
 *     sosmc_expression *e = sosmc_expression_compile("(x1 >= 0) * exp(-((x1-4)^2 + x2^2)/20)", 2, NULL, error, sizeof error);
 *     objective.score = sosmc_expression_score(e);
 *
 * Numbers, coordinates x1, x2, ..., arithmetic with + - * / ^, comparisons, && || !, c ? a : b, and functions (exp, log, sqrt,
 * abs, min, max, sin, cos, sum, mean, norm, ...); docs/run-file.md has the list. The bits of a value do not depend on the
 * machine. Stability: new, may change. */
#ifndef SOSMC_EXPRESSION_H
#define SOSMC_EXPRESSION_H

#include <sosmc/sosmc.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct sosmc_expression sosmc_expression;

/* A particle that is a picture: its coordinates are channel after channel, row after row (the top one first), column after
 * column. */
typedef struct {
    int channels, rows, columns;
    double clamp;       /* statistics see pixels held to [-clamp, clamp]; 0: pixels as they are */
    const double *mask; /* a weight for each pixel, laid out like the picture; NULL: none */
} sosmc_picture_shape;

/* For a model with `dim` coordinates. With a picture, of `dim` pixels in all, the statistics of pictures (mean of a block, sd,
 * tv, mask) have a meaning too; it and its mask are copied; NULL: points. On failure NULL, and in `error` (room bytes, cut short
 * where it does not fit) one sentence that begins with the column, counted in bytes from 1. */
SOSMC_API sosmc_expression *sosmc_expression_compile(const char *text, int dim, const sosmc_picture_shape *picture,
                                                     char *error, size_t room);

/* The same for coordinates that have names, `dim` of them (NULL: none), such as the columns of a table. A name of letters, digits and _ that
 * begins with no digit stands for its coordinate, also where it is a word of the language, unless a parenthesis follows. A name of several
 * coordinates, or x1 as the name of another coordinate, is refused where it is used. */
SOSMC_API sosmc_expression *sosmc_expression_compile_named(const char *text, int dim,
                                                           const sosmc_picture_shape *picture, const char *const *names,
                                                           char *error, size_t room);

/* Borrows e. Any number of threads may evaluate at once; an evaluation takes about 70 KB of the caller's stack. */
SOSMC_API sosmc_score sosmc_expression_score(const sosmc_expression *f);

SOSMC_API void sosmc_expression_free(sosmc_expression *f); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
