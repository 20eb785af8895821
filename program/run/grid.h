/* grid.h: a grid of runs: cells (a setting, a method, a seed), each with a directory of its own, shared out to threads.
 *
 *     grid g = {.out = "OUT", .cells = 12, .name = name, .cost = cost, .run = run, .read = read, .context = plan};
 *     int code = grid_run(&g, 2, &hooks, error, sizeof error);
 *
 * A cell is run, or continued where an earlier process left it, by `run`, which returns at once where there is nothing left
 * to do: so does the grid as a whole. Nothing here prints or keeps state of the process: whoever runs a grid is told how far
 * it has come, and is asked whether it should stop. */
#ifndef SOSMC_RUN_GRID_H
#define SOSMC_RUN_GRID_H

#include <stddef.h>

#include "files/files.h"

enum { GRID_NAME = 160 };

/* All but `run` may be NULL. Functions get the context first and the cell's number second. */
typedef struct {
    const char *out; /* cells are OUT/cells/NAME */
    int cells;
    void (*name)(const void *context, int cell, char out[GRID_NAME]);
    /* What it takes, in any unit; NULL: each takes as long as any other. Only the time left is told by it. */
    double (*cost)(const void *context, int cell);
    /* Called from several threads at once. 0; a positive number, which grid_run then returns; or -1, for GRID_FAILED. With a
     * sentence; without one the sentence is that the cell did not finish. */
    int (*run)(void *context, int cell, char *error, size_t room);
    /* What it left, once all have finished, one after the other. 0, or -1 with a sentence. */
    int (*read)(void *context, int cell, char *error, size_t room);
    void *context;
} grid;

/* What a grid tells and asks; each may be NULL. Called from the thread that called grid_run, some fifty times a second. */
typedef struct {
    int (*stop)(void *context);                                                /* not 0: begin no more */
    void (*progress)(void *context, int done, int cells, double seconds_left); /* NAN: unknown */
    void *context;
} grid_hooks;

/* Stopped by its hook; a cell without a number of its own, no memory or no threads; a cell that could not be read. */
enum { GRID_STOPPED = -1, GRID_FAILED = -2, GRID_UNREADABLE = -3 };

/* Runs the cells 0, 1, ... in this order, so many at a time, and reads them. 0; what the first cell that failed returned,
 * with its sentence; or one of the above. Cells under way are finished, no other is begun. */
int grid_run(const grid *g, int threads, const grid_hooks *hooks, char *error, size_t room);

/* OUT/cells/NAME, or FILE in it (NULL: the directory). */
int grid_path(const grid *g, int cell, const char *file, char out[FILES_PATH], char *error, size_t room);

/* Seconds until all cells are done, from the pace of those that are; NAN while nothing is known. A cell that took no time was
 * found done and tells nothing. */
typedef struct {
    double cost, begun, ended; /* seconds on one clock, NAN: not yet */
} grid_timing;
double grid_left(const grid_timing *cell, int cells, int threads, double now);

#endif
