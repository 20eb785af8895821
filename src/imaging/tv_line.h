/* tv_line.h: the exact proximal map of one line, for lines of an image (tv.c). */
#ifndef SOSMC_IMAGING_TV_LINE_H
#define SOSMC_IMAGING_TV_LINE_H

#include <sosmc/imaging.h>

enum { LINE_KNOT_DOUBLES = 3 };

typedef struct {
    double x, slope, offset; /* a bend of a piecewise linear function, and how slope and offset change there */
} line_knot;
_Static_assert(sizeof(line_knot) == LINE_KNOT_DOUBLES * sizeof(double), "scratch is counted in doubles");

typedef struct {
    line_knot *knot;    /* 2 n + 2 */
    double *low, *high; /* n each */
} line_room;

line_room sosmc_i_tv_line_room(int n, double *scratch);
/* n pixels `stride` apart. u may be z. */
void sosmc_i_tv_line(int n, int stride, double w, const double *z, double *u, line_room *room);
/* All columns, all rows of an image. */
void sosmc_i_tv_columns(int rows, int columns, double w, const double *z, double *u, double *scratch);
void sosmc_i_tv_rows(int rows, int columns, double w, const double *z, double *u, double *scratch);

#endif
