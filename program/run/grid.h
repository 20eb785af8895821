/* grid.h: a grid of runs: cells (a setting, a method, a seed), each with a directory of its own, shared out to threads.
 *
 *     grid g = {.out = "OUT", .cells = 12, .name = name, .cost = cost, .run = run, .read = read, .context = plan};
 *     int code = grid_run(&g, 2, &hooks, error, sizeof error);
 *
 * `run` runs a cell, or continues it where an earlier process stopped, and returns at once where the cell is finished; so a
 * grid as a whole can be continued. Nothing here prints or keeps process-wide state: hooks tell the caller how many cells are
 * done and ask whether to stop. */
#ifndef SOSMC_RUN_GRID_H
#define SOSMC_RUN_GRID_H

#include <stddef.h>

#include "files/files.h"

enum { GRID_NAME = 160 };

/* All but `run` may be NULL. The functions receive the context first and the cell's number second. */
typedef struct {
    const char *out; /* cells are OUT/cells/NAME */
    int cells;
    void (*name)(const void *context, int cell, char out[GRID_NAME]);
    /* The cost of the cell, in any unit; NULL: all cells cost the same. It is used only to estimate the time left. */
    double (*cost)(const void *context, int cell);
    /* Runs the cell; called from several threads at once. Returns 0; a positive number, which grid_run then returns; or -1,
     * for GRID_FAILED. It may write a sentence; without one grid_run writes that the cell did not finish. */
    int (*run)(void *context, int cell, char *error, size_t room);
    /* Reads what the cell left, once all cells have finished, one cell after the other. 0, or -1 with a sentence. */
    int (*read)(void *context, int cell, char *error, size_t room);
    void *context;
} grid;

/* Callbacks to the caller of grid_run; each may be NULL. They are called from that caller's thread, some fifty times a
 * second. */
typedef struct {
    int (*stop)(void *context);                                                /* not 0: begin no more */
    void (*progress)(void *context, int done, int cells, double seconds_left); /* NAN: unknown */
    void *context;
} grid_hooks;

/* GRID_STOPPED: the hook `stop` asked for it. GRID_FAILED: a cell returned -1, or there was no memory or no thread.
 * GRID_UNREADABLE: a cell could not be read. */
enum { GRID_STOPPED = -1, GRID_FAILED = -2, GRID_UNREADABLE = -3 };

/* Runs the cells 0, 1, ... in this order, `threads` at a time, and then reads them. Returns 0; what the first cell that
 * failed returned, with its sentence; or one of the above. After a failure or a stop, cells that have begun are finished
 * and no other is begun. */
int grid_run(const grid *g, int threads, const grid_hooks *hooks, char *error, size_t room);

/* OUT/cells/NAME, or FILE in it (NULL: the directory). */
int grid_path(const grid *g, int cell, const char *file, char out[FILES_PATH], char *error, size_t room);

/* Seconds until all cells are done, from the pace of those that are done; NAN while nothing is known. Cells that took no
 * time had been finished by an earlier process and are left out. */
typedef struct {
    double cost, begun, ended; /* seconds on one clock, NAN: not yet */
} grid_timing;
double grid_left(const grid_timing *cell, int cells, int threads, double now);

#endif
