/* grid.c: a handful of threads that take the next cell from a counter until none is left. */
#include "grid.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SENTENCE = 512, MOST_THREADS = 64 };
static const struct timespec poll_interval = {.tv_nsec = 20000000};
/* Seconds; cells that took less had been finished before and do not count, unless all cells are like that. */
static const double MOMENT = 1;

typedef struct {
    const grid *g;
    atomic_int next, done, stop, left; /* stop: begin no more cells; left: threads that are still at work */
    pthread_mutex_t lock;              /* of what follows */
    grid_timing *cell;
    int code; /* of the first failure */
    char error[SENTENCE];
} crew;

static double seconds(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---------------------------------------------------------------------------- places */

int grid_path(const grid *g, int cell, const char *file, char out[FILES_PATH], char *error, size_t room)
{
    char name[GRID_NAME], relative[GRID_NAME + 80];
    g->name(g->context, cell, name);
    (void)snprintf(relative, sizeof relative, "cells/%s%s%.64s", name, file ? "/" : "", file ? file : "");
    return files_join(out, g->out, relative, error, room);
}

/* ---------------------------------------------------------------------------- how long it will take */

/* Seconds for a unit of cost, by the cells that took at least so long. */
static double pace(const grid_timing *cell, int cells, double least)
{
    double spent = 0, cost = 0;
    for (int i = 0; i < cells; i++)
        if (cell[i].ended - cell[i].begun >= least) { /* false for those that have not ended */
            spent += cell[i].ended - cell[i].begun;
            cost += cell[i].cost;
        }
    return cost > 0 ? spent / cost : NAN;
}

double grid_left(const grid_timing *cell, int cells, int threads, double now)
{
    double all = 0, longest = 0, unit = pace(cell, cells, MOMENT);
    int long_ones = 0;
    for (int i = 0; i < cells; i++) long_ones |= isnan(cell[i].ended) && now - cell[i].begun >= MOMENT;
    if (isnan(unit) && !long_ones) unit = pace(cell, cells, 0);
    for (int i = 0; i < cells; i++) {
        if (!isnan(cell[i].ended)) continue;
        double need = cell[i].cost * unit, spent = isnan(cell[i].begun) ? 0 : now - cell[i].begun;
        need = need < spent ? 0 : need - spent;
        all += need / threads;
        if (need > longest) longest = need;
    }
    return all < longest ? longest : all;
}

/* ---------------------------------------------------------------------------- work */

static void note(crew *c, double *when)
{
    (void)pthread_mutex_lock(&c->lock);
    *when = seconds();
    (void)pthread_mutex_unlock(&c->lock);
}

/* The first failure stays. */
static void fail(crew *c, int cell, int code, const char *error)
{
    char path[FILES_PATH] = "a cell";
    (void)pthread_mutex_lock(&c->lock);
    if (c->code == 0) {
        c->code = code > 0 ? code : GRID_FAILED;
        if (!*error && c->g->name) (void)grid_path(c->g, cell, NULL, path, NULL, 0);
        (void)snprintf(c->error, sizeof c->error, *error ? "%.500s" : "%.480s did not finish", *error ? error : path);
    }
    (void)pthread_mutex_unlock(&c->lock);
    atomic_store(&c->stop, 1);
}

static void *work(void *arg)
{
    crew *c = arg;
    for (;;) {
        int cell = atomic_fetch_add(&c->next, 1);
        if (cell >= c->g->cells || atomic_load(&c->stop)) break;
        char error[SENTENCE] = "";
        note(c, &c->cell[cell].begun);
        int code = c->g->run(c->g->context, cell, error, sizeof error);
        if (code) fail(c, cell, code, error);
        note(c, &c->cell[cell].ended);
        atomic_fetch_add(&c->done, 1);
    }
    atomic_fetch_sub(&c->left, 1);
    return NULL;
}

static int asked_to_stop(const grid_hooks *hooks) { return hooks && hooks->stop && hooks->stop(hooks->context); }

/* Calls the hooks until all threads have ended; returns whether the hook `stop` asked for an end. */
static int watch(crew *c, int threads, const grid_hooks *hooks)
{
    int stopped = 0;
    do {
        if (!stopped && asked_to_stop(hooks)) {
            stopped = 1;
            atomic_store(&c->stop, 1);
        }
        (void)nanosleep(&poll_interval, NULL);
        if (!hooks || !hooks->progress) continue;
        (void)pthread_mutex_lock(&c->lock);
        double left = grid_left(c->cell, c->g->cells, threads, seconds());
        (void)pthread_mutex_unlock(&c->lock);
        hooks->progress(hooks->context, atomic_load(&c->done), c->g->cells, left);
    } while (atomic_load(&c->left) > 0);
    return stopped || asked_to_stop(hooks);
}

static int start(crew *c, pthread_t *helper, int wanted)
{
    int started = 0;
    for (; started < wanted; started++) {
        atomic_fetch_add(&c->left, 1);
        if (pthread_create(&helper[started], NULL, work, c) == 0) continue;
        atomic_fetch_sub(&c->left, 1);
        break;
    }
    return started;
}

static int read_all(const grid *g, char *error, size_t room)
{
    for (int i = 0; g->read && i < g->cells; i++)
        if (g->read(g->context, i, error, room)) return GRID_UNREADABLE;
    return 0;
}

static int give_up(int code, const char *sentence, char *error, size_t room)
{
    (void)files_fail(error, room, "%s", sentence);
    return code;
}

int grid_run(const grid *g, int threads, const grid_hooks *hooks, char *error, size_t room)
{
    pthread_t helper[MOST_THREADS] = {0};
    crew c = {.g = g, .cell = calloc((size_t)g->cells + 1, sizeof *c.cell)};
    int wanted = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
    if (!c.cell) return give_up(GRID_FAILED, "out of memory", error, room);
    if (wanted > g->cells) wanted = g->cells;
    for (int i = 0; i < g->cells; i++)
        c.cell[i] = (grid_timing){.cost = g->cost ? g->cost(g->context, i) : 1, .begun = NAN, .ended = NAN};
    (void)pthread_mutex_init(&c.lock, NULL);
    int stopped = asked_to_stop(hooks), started = stopped ? 0 : start(&c, helper, wanted);
    if (started > 0) stopped = watch(&c, started, hooks);
    for (int i = 0; i < started; i++) (void)pthread_join(helper[i], NULL);
    (void)pthread_mutex_destroy(&c.lock);
    free(c.cell);
    if (stopped) return give_up(GRID_STOPPED, "interrupted", error, room);
    if (g->cells > 0 && started == 0)
        return give_up(GRID_FAILED, "no thread could be started: out of memory, or the system allows no more of them",
                       error, room);
    return c.code ? give_up(c.code, c.error, error, room) : read_all(g, error, room);
}
