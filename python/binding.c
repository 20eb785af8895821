/* binding.c: see binding.h. */
#include "binding.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "callbacks.h"

/* ---------------------------------------------------------------------------- models */

/* Counts forward passes. Every thread has numbers of its own: the low half counts, the high half names the thread. */
static int64_t next_pass(void)
{
    static _Thread_local int64_t last;
    static int64_t threads;
    if (!last) last = __atomic_add_fetch(&threads, 1, __ATOMIC_RELAXED) << 40;
    return ++last;
}

/* The number of the forward pass that `work` still holds; 0: it holds none. */
static int64_t held_pass(const sosmc_batch *b)
{
    int64_t pass = 0;
    if (b->fresh && b->work) memcpy(&pass, b->work, sizeof pass);
    return pass;
}

int binding_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    int64_t pass = gx && b->work ? next_pass() : 0;
    int code = sosmc_py_energy((void *)self, (intptr_t)theta, (intptr_t)b->x, b->n, b->ld, (intptr_t)U, (intptr_t)gx,
                               pass);
    if (pass) memcpy(b->work, &pass, sizeof pass);
    return code;
}

int binding_grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    return sosmc_py_grad_theta((void *)self, (intptr_t)theta, (intptr_t)b->x, b->n, b->ld, (intptr_t)c, (intptr_t)g,
                               held_pass(b));
}

int binding_scores(const void *self, const double *theta, const sosmc_batch *b, double *D)
{
    return sosmc_py_scores((void *)self, (intptr_t)theta, (intptr_t)b->x, b->n, b->ld, (intptr_t)D, held_pass(b));
}

int binding_prox(const void *self, const double *theta, double lambda, const sosmc_batch *b, double *p)
{
    return sosmc_py_prox((void *)self, (intptr_t)theta, lambda, (intptr_t)b->x, b->n, b->ld, (intptr_t)p);
}

int binding_reward(const void *self, const sosmc_batch *b, double *s)
{
    return sosmc_py_reward((void *)self, (intptr_t)b->x, b->n, b->ld, (intptr_t)s);
}

int binding_draw(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    return sosmc_py_draw((void *)self, (intptr_t)&rng, (intptr_t)b, (intptr_t)x, b->n, b->ld, b->first);
}

int binding_logpdf(const void *self, const sosmc_batch *b, double *lq)
{
    return sosmc_py_logpdf((void *)self, (intptr_t)b->x, b->n, b->ld, (intptr_t)lq);
}

/* ---------------------------------------------------------------------------- traces */

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double *next_row(binding_trace *t)
{
    if (t->rows == t->room) {
        int64_t room = t->room ? 2 * t->room : 256;
        double *grown = realloc(t->row, (size_t)room * (size_t)t->columns * sizeof *grown);
        if (!grown) return NULL;
        t->row = grown;
        t->room = room;
    }
    return t->row + t->columns * t->rows++;
}

static void put_theta(const double *theta, int dim, double *out)
{
    double sum = 0;
    if (dim <= BINDING_THETAS) {
        memcpy(out, theta, (size_t)dim * sizeof *out);
        return;
    }
    for (int j = 0; j < dim; j++) sum += theta[j] * theta[j];
    *out = sqrt(sum);
}

int binding_record(binding_trace *t, const sosmc *s, const sosmc_info *info)
{
    double *row = next_row(t);
    if (!row) return t->no_memory = 1;
    const double value[BINDING_COLUMNS] = {(double)info->iteration,
                                           (double)info->updates,
                                           (double)info->gradient_updates,
                                           info->ess,
                                           info->mean_score,
                                           info->mean_energy,
                                           info->data_energy,
                                           info->penalty,
                                           info->loss,
                                           info->kl,
                                           info->logz,
                                           info->grad_norm,
                                           info->accept,
                                           info->h,
                                           info->rate,
                                           (double)info->resampled,
                                           (double)info->nonfinite,
                                           (double)info->retries,
                                           info->mobility,
                                           info->seconds};
    memcpy(row, value, sizeof value);
    put_theta(sosmc_theta(s), t->dim_theta, row + BINDING_COLUMNS);
    return 0;
}

int binding_observe(void *ctx, const sosmc *s, const sosmc_info *info)
{
    binding_trace *t = ctx;
    if (binding_record(t, s, info)) return 1;
    if (t->every < 0) return 0;
    if (t->every > 0) {
        double time = now();
        if (time < t->next) return 0;
        t->next = time + t->every;
    }
    return sosmc_py_see(t->handle);
}

void binding_trace_clear(binding_trace *t)
{
    free(t->row);
    t->row = NULL;
    t->rows = t->room = 0;
}

int binding_observe_solver(void *ctx, const sosmc_solver *s, const sosmc_solve_info *info)
{
    (void)s;
    return sosmc_py_see_solver(ctx, (intptr_t)info);
}

int binding_stop(void *handle) { return sosmc_py_stop(handle); }

int binding_keep_memory(void)
{
#if defined(__GLIBC__)
    return mallopt(M_MMAP_THRESHOLD, 1 << 30) && mallopt(M_TRIM_THRESHOLD, 1 << 30) && mallopt(M_TOP_PAD, 64 << 20);
#else
    return 0;
#endif
}
