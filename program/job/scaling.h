/* scaling.h: the units in which points are fitted, beside those in which they came. */
#ifndef SOSMC_JOB_SCALING_H
#define SOSMC_JOB_SCALING_H

#include <stddef.h>
#include <stdint.h>

/* A fitted point is y = factor (x - centre), coordinate by coordinate, of a point x in its own units. */
typedef struct {
    int dim;            /* 0: y is x, and its coordinates have no names */
    double *centre;     /* dim numbers */
    double *factor;     /* dim positive numbers, in the same block */
    char *columns;      /* the names of the coordinates with tabs between; NULL: they have none */
    const char **names; /* dim of them, or NULL */
} points_scaling;

/* Room for dim coordinates, with y = x; -1: no memory, or a dim below 1. *s need not be anything before. */
int scaling_make(points_scaling *s, int dim);
int scaling_copy(points_scaling *out, const points_scaling *s); /* likewise */
void scaling_free(points_scaling *s);                           /* zeros are fine */

/* Points in rows of dim numbers, from the units of the fit to those of the data, or else back; s NULL: nothing happens. */
void scaling_map(const points_scaling *s, int to_data, int64_t rows, double *x);
/* Gives coordinates without names these, tabs between; where s is empty its units become those of the data themselves. -1: no memory. */
int scaling_name(points_scaling *s, int dim, const char *columns);

/* What is to be added to log p(y) to have log p(x): the sum of the logarithms of the factors. */
double scaling_log_density(const points_scaling *s);

/* The numbers as text, with blanks between, which the caller frees; NULL: no memory. */
char *scaling_text(const double *v, int n);
/* The n numbers of such a text; -1: it holds anything else. */
int scaling_numbers(const char *text, double *v, int n);

#endif
