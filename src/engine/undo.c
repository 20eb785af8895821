/* undo.c: an iteration that a callback stopped is taken back.
 *
 * What an iteration found stays in the spare state until its last callback has returned 0: the cloud, log-weights and theta because
 * the new ones are written to other arrays that then change places, the optimiser's memory, the average and what is watched as
 * copies, members of the pool one by one. Invariant: `begin` says which of these have been changed so far. What models park in
 * `work`, and what `prepare` made of theta, is not kept: where `stale` is set it is made again before the next iteration, which
 * gives the same bits because the inputs are the same. */
#include "engine_inside.h"

void sosmc_i_begin(sosmc *s)
{
    size_t tiles = (size_t)(s->cut.tile_hi - s->cut.tile_lo);
    s->begin = (beginning){.info = s->info, .v = s->now->v, .dropped = s->dropped};
    memcpy(s->spare->fresh, s->now->fresh, tiles);
}

cloud *sosmc_i_held(sosmc *s) { return s->held.x ? &s->held : &s->spare->c; }

/* The spare state's theta_prev keeps the oldest of the three. */
void sosmc_i_begin_theta(sosmc *s)
{
    size_t dim = (size_t)s->p.model.dim_theta * sizeof(double);
    state *st = s->now, *spare = s->spare;
    double *next = spare->theta_prev;
    spare->theta_prev = st->theta_prev;
    st->theta_prev = st->theta;
    st->theta = next;
    memcpy(st->theta, st->theta_prev, dim);
    s->begin.theta = 1;
    int last = !s->p.model.prepare && !s->cfg.optimiser.try_step && s->cfg.scheme.order == SOSMC_ORDER_PAPER;
    if (last) return; /* no callback follows */
    if (st->slots) memcpy(spare->slots, st->slots, dim * (size_t)s->cfg.optimiser.slots);
    if (st->average) memcpy(spare->average, st->average, dim);
}

void sosmc_i_begin_watched(sosmc *s)
{
    if (s->begin.watched) return;
    s->begin.watched = 1;
    memcpy(s->spare->watched, s->now->watched,
           WATCH_SETS * sosmc_i_watch_doubles(s->p.model.dim_theta) * sizeof(double));
}

void sosmc_i_begin_gradient(sosmc *s)
{
    double *grad = s->grad;
    s->grad = s->grad_before;
    s->grad_before = grad;
    s->begin.gradient = 1;
}

static void swap_arrays(double **a, double **b)
{
    double *c = *a;
    *a = *b;
    *b = c;
}

static void take_back_theta(sosmc *s)
{
    state *st = s->now, *spare = s->spare;
    double *next = st->theta;
    st->theta = st->theta_prev;
    st->theta_prev = spare->theta_prev;
    spare->theta_prev = next;
    swap_arrays(&st->slots, &spare->slots);
    swap_arrays(&st->average, &spare->average);
}

void sosmc_i_take_back(sosmc *s)
{
    size_t tiles = (size_t)(s->cut.tile_hi - s->cut.tile_lo);
    s->retry = 0;
    if (s->begin.pool) sosmc_i_pool_take_back(s);
    if (s->begin.theta) take_back_theta(s);
    if (s->begin.cloud) {
        cloud c = s->now->c, *held = sosmc_i_held(s);
        s->now->c = *held;
        *held = c;
    }
    if (s->begin.logw) swap_arrays(&s->now->logw, &s->spare->logw);
    if (s->begin.watched) swap_arrays(&s->now->watched, &s->spare->watched);
    if (s->begin.gradient) sosmc_i_begin_gradient(s);
    memcpy(s->now->fresh, s->spare->fresh, tiles);
    s->now->v = s->begin.v;
    s->info = s->begin.info;
    s->dropped = s->begin.dropped;
    s->seen_valid = s->pending = 0;
    s->stale = 1;
}

/* ---------------------------------------------------------------------------- what is not kept */

/* Fills `work` of the tiles that had it filled. */
static sosmc_status refresh_work(void *ctx, int task, int worker)
{
    sosmc *s = ctx;
    const layout *l = &s->cut;
    int t = l->tile_lo + task;
    s->faults[task].status = SOSMC_OK;
    if (!s->now->fresh[task]) return SOSMC_OK;
    if (!parks(s, t)) {
        s->now->fresh[task] = 0;
        return SOSMC_OK;
    }
    sosmc_batch b = sosmc_i_batch(s, l, t, vector_at(s->now->c.x, l, t));
    sosmc_i_lend_work(s, t, worker, &b);
    int rc = s->p.model.energy(s->p.model.self, s->now->theta, &b, worker_row(s, worker, ROW_U), s->worker[worker].vec);
    return rc ? sosmc_i_broken(s, task, "energy", rc, b.first) : SOSMC_OK;
}

sosmc_status sosmc_i_refresh(sosmc *s, const char *whose)
{
    if (s->p.model.prepare) {
        int rc = s->p.model.prepare(s->p.model.self, s->now->theta, s->prep);
        if (rc == 0) rc = s->p.model.prepare(s->p.model.self, s->now->theta_prev, s->prep_prev);
        if (rc) return sosmc_i_fail(s, SOSMC_EMODEL, "prepare returned %d for %s theta", rc, whose);
    }
    int tasks = s->cut.tile_hi - s->cut.tile_lo;
    sosmc_status status = sosmc_i_parallel(s->threads, refresh_work, s, tasks);
    if (status != SOSMC_OK) return sosmc_i_report(s, status, tasks);
    s->stale = 0;
    return SOSMC_OK;
}
