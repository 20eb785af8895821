/* move.c: the cloud from theta_prev to theta, tile by tile.
 *
 * Two things can happen to a tile. `evaluate`: U and gx are taken at the new theta where the particles stand, which for an
 * invariant kernel is the whole reweighing, log G = U_prev(x) - U(x) (maths.md INV-weight). `step`: the kernel moves the
 * particles, `sweeps` times; a kernel that is not invariant brings its own log G, and a blind one leaves U to be taken
 * where its last sweep ended. Then the score is taken at the new place. Invariant: after a carry, U, gx, R and Uref of
 * every particle belong to its x and to theta. */
#include "engine_inside.h"

static sosmc_rng name(const sosmc *s, sosmc_stream stream, int64_t step)
{
    return (sosmc_rng){.seed = s->cfg.seed, .step = (uint64_t)step, .stream = stream, .retry = s->retry};
}

static sosmc_status not_finite(sosmc *s, int task, const char *what, int64_t particle, double value, double before)
{
    s->faults[task] = (fault){
        .status = SOSMC_ENUMERIC, .what = what, .particle = particle, .value = value, .before = before};
    return SOSMC_ENUMERIC;
}

/* ---------------------------------------------------------------------------- one tile of a cloud */

typedef struct {
    double *x, *gx, *aux, *U, *R, *Uref;
} tile;

static tile tile_at(const sosmc *s, const cloud *c, int t)
{
    const layout *l = &s->cut;
    return (tile){.x = vector_at(c->x, l, t),
                  .gx = c->gx ? vector_at(c->gx, l, t) : NULL,
                  .aux = c->aux ? c->aux + (size_t)(t - l->tile_lo) * l->vector * (size_t)s->cfg.kernel.aux : NULL,
                  .U = row_at(c->U, l, t),
                  .R = optional_row(c->R, l, t),
                  .Uref = optional_row(c->Uref, l, t)};
}

static void copy_particle(const sosmc *s, const tile *from, int i_from, const tile *to, int i_to)
{
    size_t ld = (size_t)s->cut.ld;
    for (size_t j = 0; j < (size_t)s->cut.dim; j++) {
        to->x[j * ld + (size_t)i_to] = from->x[j * ld + (size_t)i_from];
        if (to->gx && from->gx) to->gx[j * ld + (size_t)i_to] = from->gx[j * ld + (size_t)i_from];
    }
    for (size_t j = 0; to->aux && from->aux && j < (size_t)s->cut.dim * (size_t)s->cfg.kernel.aux; j++)
        to->aux[j * ld + (size_t)i_to] = from->aux[j * ld + (size_t)i_from];
    to->U[i_to] = from->U[i_from];
}

static int finite_particle(const sosmc *s, const tile *a, int i)
{
    size_t ld = (size_t)s->cut.ld;
    if (!isfinite(a->U[i])) return 0;
    for (size_t j = 0; j < (size_t)s->cut.dim; j++)
        if (!isfinite(a->x[j * ld + (size_t)i]) || (a->gx && !isfinite(a->gx[j * ld + (size_t)i]))) return 0;
    return 1;
}

/* A quick test of a whole tile. Values in the padding may fail it too; the test of single particles that follows ignores them. */
static int looks_finite(const sosmc *s, const tile *a, int n)
{
    size_t len = (size_t)s->cut.dim * (size_t)s->cut.ld;
    return s->simd->all_finite((size_t)n, a->U) && s->simd->all_finite(len, a->x) &&
           (!a->gx || s->simd->all_finite(len, a->gx));
}

/* Where a worker draws aux of particles that begin; NULL when the kernel lets it begin at zero. */
static double *begun_aux(const sosmc *s, int worker)
{
    return s->cfg.kernel.begin && s->cfg.kernel.aux ? s->worker[worker].vec + 2 * s->cut.vector : NULL;
}

/* aux of the batch's particles, all of which begin under the name `rng`. The stream is a kernel's own, so that the draw is
 * independent of where the particles begin and of every move. */
static sosmc_status draw_aux(sosmc *s, int task, sosmc_rng rng, const sosmc_batch *b, double *aux)
{
    const sosmc_kernel *kernel = &s->cfg.kernel;
    if (!kernel->begin || !aux) return SOSMC_OK;
    rng.stream = SOSMC_STREAM_BEGIN;
    int rc = kernel->begin(kernel, rng, b, aux);
    return rc ? sosmc_i_broken(s, task, "kernel.begin", rc, b->first) : SOSMC_OK;
}

/* What a kernel kept for a particle means nothing for the next one in its place: that begins with column i_from of
 * `begun`, or with zeros. */
static void begin_particle(const sosmc *s, const double *begun, int i_from, const tile *a, int i)
{
    size_t ld = (size_t)s->cut.ld;
    for (size_t j = 0; a->aux && j < (size_t)s->cut.dim * (size_t)s->cfg.kernel.aux; j++)
        a->aux[j * ld + (size_t)i] = begun ? begun[j * ld + (size_t)i_from] : 0;
}

/* The particle begins again from the initial law; what it draws is named by the step, so any thread draws the same. */
static sosmc_status restart_particle(sosmc *s, int task, int worker, const tile *a, int t, int i, int64_t step)
{
    scratch *k = &s->worker[worker];
    sosmc_batch b = sosmc_i_batch(s, &s->cut, t, k->vec);
    b.n = 1;
    b.first += i;
    b.work = k->work;
    tile one = {.x = k->vec, .gx = a->gx ? k->vec + s->cut.vector : NULL, .U = worker_row(s, worker, ROW_A)};
    sosmc_rng rng = name(s, SOSMC_STREAM_REFRESH, step);
    rng.retry = 1; /* not what the scheme's own restarts draw */
    int rc = s->p.init.draw(s->p.init.self, rng, &b, one.x);
    if (rc) return sosmc_i_broken(s, task, "init.draw", rc, b.first);
    rc = s->p.model.energy(s->p.model.self, s->now->theta, &b, one.U, one.gx);
    if (rc) return sosmc_i_broken(s, task, "energy", rc, b.first);
    TRY(draw_aux(s, task, rng, &b, begun_aux(s, worker)));
    copy_particle(s, &one, 0, a, i);
    begin_particle(s, begun_aux(s, worker), 0, a, i);
    if (!finite_particle(s, a, i)) return not_finite(s, task, "U of a restarted particle", b.first, one.U[0], NAN);
    return SOSMC_OK;
}

/* Which of a particle's numbers is wrong, for the message. */
static double offending_value(const sosmc *s, const tile *a, int i, const double *inc, const char **what)
{
    size_t ld = (size_t)s->cut.ld;
    *what = "U";
    if (!isfinite(a->U[i])) return a->U[i];
    for (size_t j = 0; j < (size_t)s->cut.dim; j++) {
        *what = "a coordinate";
        if (!isfinite(a->x[j * ld + (size_t)i])) return a->x[j * ld + (size_t)i];
        *what = "a component of dU/dx";
        if (a->gx && !isfinite(a->gx[j * ld + (size_t)i])) return a->gx[j * ld + (size_t)i];
    }
    *what = "log G";
    return inc ? inc[i] : NAN;
}

/* Applies the policy to the particles of `to` that are not finite; `from` is where they came from. */
static sosmc_status handle_nonfinite(sosmc *s, int task, int worker, int t, const tile *from, const tile *to,
                                     double *inc, int64_t step)
{
    int n = s->cut.count[t];
    for (int i = 0; i < n; i++) {
        if (finite_particle(s, to, i) && (!inc || isfinite(inc[i]) || inc[i] == -INFINITY)) continue;
        s->tile_bad[task]++;
        s->now->fresh[task] = 0;
        switch (s->nonfinite) {
        case SOSMC_NONFINITE_DROP:
            copy_particle(s, from, i, to, i);
            if (inc) inc[i] = -INFINITY;
            break;
        case SOSMC_NONFINITE_RESTART: TRY(restart_particle(s, task, worker, to, t, i, step)); break;
        case SOSMC_NONFINITE_RETRY:
            if (s->retry < MAX_RETRIES) break;
            /* fall through */
        default: {
            const char *what;
            double value = offending_value(s, to, i, inc, &what);
            return not_finite(s, task, what, s->cut.first[t] + i, value, from->U[i]);
        }
        }
    }
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- evaluate */

/* Where evaluate_tile writes dU/dx; NULL: it does not compute it. A kernel that is blind (it neither reads nor returns U and gx)
 * does not need gx. We compute it anyway when the tile's scratch is parked: grad_theta then reuses that pass (batch.fresh)
 * instead of repeating it. */
static double *gradient_for_work(const sosmc *s, int worker, int t, const tile *a)
{
    int contracts = s->p.objective.scale != 0 && s->cfg.scheme.keep == 1 && s->p.model.work > 0;
    return a->gx || !contracts || !s->cfg.kernel.blind || !parks(s, t) ? a->gx : s->worker[worker].vec + s->cut.vector;
}

/* U and gx at theta where the particles stand. inc (weighted) receives U_prev - U. Restarts are named by `step`. */
static sosmc_status evaluate_tile(sosmc *s, int task, int worker, const tile *a, double *inc, int64_t step)
{
    int t = s->cut.tile_lo + task, n = s->cut.count[t];
    sosmc_batch b = sosmc_i_batch(s, &s->cut, t, a->x);
    sosmc_i_lend_work(s, t, worker, &b);
    double *U = worker_row(s, worker, ROW_U), *gx = gradient_for_work(s, worker, t, a);
    b.fresh = s->now->fresh[task] && gx == a->gx; /* only theta has changed since the last energy call */
    int rc = s->p.model.energy(s->p.model.self, s->now->theta, &b, U, gx);
    if (rc) return sosmc_i_broken(s, task, "energy", rc, b.first);
    s->now->fresh[task] = gx && parks(s, t);
    tile at_theta = *a;
    at_theta.U = U;
    int healthy = looks_finite(s, &at_theta, n);
    for (int i = 0; i < n; i++) {
        if (!healthy && !finite_particle(s, &at_theta, i)) {
            s->tile_bad[task]++;
            s->now->fresh[task] = 0;
            if (s->nonfinite == SOSMC_NONFINITE_RESTART) {
                TRY(restart_particle(s, task, worker, a, t, i, step));
                continue;
            }
            if (s->nonfinite != SOSMC_NONFINITE_DROP) {
                const char *what;
                double value = offending_value(s, &at_theta, i, NULL, &what);
                return not_finite(s, task, what, b.first + i, value, a->U[i]);
            }
            if (inc) inc[i] = -INFINITY; /* without weight it never counts; keep what is cached finite */
            for (size_t j = 0; a->gx && j < (size_t)b.dim; j++) a->gx[j * (size_t)b.ld + (size_t)i] = 0;
            continue;
        }
        if (inc) inc[i] = a->U[i] - U[i];
        a->U[i] = U[i];
    }
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- step */

static sosmc_status step_tile(sosmc *s, int task, int worker, const tile *from, const tile *to, int sweep, double *inc)
{
    const sosmc_kernel *kernel = &s->cfg.kernel;
    int t = s->cut.tile_lo + task, n = s->cut.count[t];
    int64_t step = s->now->v.iteration * s->cfg.scheme.sweeps + sweep;
    int drifts_back = s->weighted || s->cfg.scheme.drift_at == SOSMC_AT_PREVIOUS;
    int moved_theta = !s->now->v.cached && !s->move_evaluates && sweep == 0 && drifts_back;
    int own_weight = inc && !kernel->invariant, first = sweep == 0 && !s->move_evaluates;
    double *logG = first ? inc : worker_row(s, worker, ROW_LOGG), *accept = worker_row(s, worker, ROW_ACCEPT);
    sosmc_move m = {.model = &s->p.model,
                    .theta_prev = moved_theta ? s->now->theta_prev : s->now->theta,
                    .theta = s->now->theta,
                    .prep_prev = moved_theta ? s->prep_prev : s->prep,
                    .h = s->move_h,
                    .rng = name(s, SOSMC_STREAM_MOVE, step),
                    .b = sosmc_i_batch(s, &s->cut, t, from->x),
                    .x = from->x,
                    .U = from->U,
                    .gx = from->gx,
                    .aux = from->aux,
                    .x_new = to->x,
                    .U_new = to->U,
                    .gx_new = to->gx,
                    .aux_new = to->aux,
                    .logG = own_weight ? logG : NULL,
                    .accept = accept,
                    .tmp = s->worker[worker].tmp};
    sosmc_i_lend_work(s, t, worker, &m.b);
    int energy_code = 0;
    m.energy_code = &energy_code;
    int rc = kernel->step(kernel, &m);
    if (rc) return sosmc_i_broken(s, task, energy_code ? "energy" : kernel->name, rc, m.b.first);
    s->now->fresh[task] = kernel->uses_gradient && !kernel->metropolis && kernel->backward_at == SOSMC_AT_CURRENT &&
                          parks(s, t);
    if (kernel->blind) memcpy(to->U, from->U, (size_t)n * sizeof(double)); /* what it was before the sweeps */
    double sum = 0;
    for (int i = 0; kernel->metropolis && i < n; i++) sum += accept[i];
    s->accept_sum[task] += kernel->metropolis ? sum : n;
    if (own_weight && !first)
        for (int i = 0; i < n; i++) inc[i] += logG[i];
    int healthy = own_weight ? s->simd->all_finite((size_t)n, logG) : kernel->metropolis || looks_finite(s, to, n);
    return healthy ? SOSMC_OK : handle_nonfinite(s, task, worker, t, from, to, inc, step);
}

/* ---------------------------------------------------------------------------- what the objective needs at x */

static sosmc_status score_batch(sosmc *s, int task, int worker, sosmc_batch *b, double *R, double *Uref)
{
    if (R) {
        int rc = s->p.objective.score.eval(s->p.objective.score.self, b, R);
        if (rc) return sosmc_i_broken(s, task, "score", rc, b->first);
        if (!s->simd->all_finite((size_t)b->n, R))
            for (int i = 0; i < b->n; i++)
                if (!isfinite(R[i])) return not_finite(s, task, "score", b->first + i, R[i], NAN);
    }
    if (Uref) {
        b->prep = s->prep_ref;
        b->work = s->worker[worker].work_ref;
        int rc = s->p.model.energy(s->p.model.self, s->p.objective.theta_ref, b, Uref, NULL);
        if (rc) return sosmc_i_broken(s, task, "energy at theta_ref", rc, b->first);
        if (!s->simd->all_finite((size_t)b->n, Uref))
            for (int i = 0; i < b->n; i++)
                if (!isfinite(Uref[i])) return not_finite(s, task, "U at theta_ref", b->first + i, Uref[i], NAN);
    }
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- several sweeps */

/* States of the last `keep` sweeps go side by side into the tile's own group of sample tiles. */
static void keep_tile(sosmc *s, int t, const tile *a, int kept)
{
    const layout *l = &s->kept;
    int n = s->cut.count[t], group = l->block_tile[t], room = l->ld;
    for (int i = 0; i < n; i++) {
        int64_t position = (int64_t)kept * n + i;
        int q = group + (int)(position / room);
        size_t column = (size_t)(position % room);
        double *x = vector_at(s->kept_cloud.x, l, q);
        for (size_t j = 0; j < (size_t)l->dim; j++)
            x[j * (size_t)l->ld + column] = a->x[j * (size_t)s->cut.ld + (size_t)i];
        row_at(s->kept_cloud.U, l, q)[column] = a->U[i];
    }
}

static sosmc_status score_kept(sosmc *s, int task, int worker, int t)
{
    const layout *l = &s->kept;
    for (int q = l->block_tile[t]; q < l->block_tile[t + 1]; q++) {
        if (l->count[q] == 0) continue;
        sosmc_batch b = sosmc_i_batch(s, l, q, vector_at(s->kept_cloud.x, l, q));
        b.work = s->worker[worker].work;
        TRY(score_batch(s, task, worker, &b, optional_row(s->kept_cloud.R, l, q),
                        optional_row(s->kept_cloud.Uref, l, q)));
    }
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- the pool */

/* Under the rule NEWEST all that ever joined is numbered, the initial particles first; entry e stands in slot e mod pool.
 * How many there have been follows from the iteration, since every iteration moves once. */
static int64_t entries_so_far(const sosmc *s) { return (s->now->v.iteration + 1) * s->cfg.scheme.particles; }

/* The slot that the uniform u in (0, 1] draws. */
static int64_t pool_member(const sosmc *s, double u)
{
    int64_t pool = s->cfg.scheme.pool, entries = pool;
    if (s->cfg.scheme.pool_rule == SOSMC_POOL_NEWEST) entries = entries_so_far(s);
    int64_t alive = entries < pool ? entries : pool, chosen = (int64_t)((1 - u) * (double)alive);
    return (entries - alive + chosen) % pool;
}

/* A tile's start: members drawn from the pool, some of them replaced by fresh draws of the initial law. */
static sosmc_status start_tile(sosmc *s, int task, int worker, const tile *a)
{
    const sosmc_scheme *scheme = &s->cfg.scheme;
    const layout *l = &s->cut;
    int t = l->tile_lo + task;
    int64_t iteration = s->now->v.iteration;
    sosmc_batch b = sosmc_i_batch(s, l, t, a->x);
    double *u = worker_row(s, worker, ROW_A), *begun = begun_aux(s, worker);
    size_t ld = (size_t)l->ld;
    s->now->fresh[task] = 0; /* other particles may come */
    TRY(draw_aux(s, task, name(s, SOSMC_STREAM_BEGIN, iteration), &b, begun));
    if (s->now->pool) {
        sosmc_uniforms(name(s, SOSMC_STREAM_POOL, iteration), 0, &b, u);
        for (int i = 0; i < b.n; i++) {
            const double *member = s->now->pool + (size_t)pool_member(s, u[i]) * (size_t)l->dim;
            for (size_t j = 0; j < (size_t)l->dim; j++) a->x[j * ld + (size_t)i] = member[j];
            begin_particle(s, begun, i, a, i);
        }
    }
    if (scheme->refresh > 0) {
        double *fresh = s->worker[worker].vec;
        sosmc_uniforms(name(s, SOSMC_STREAM_POOL, iteration), 1, &b, u); /* REFRESH belongs to the draw itself */
        int rc = s->p.init.draw(s->p.init.self, name(s, SOSMC_STREAM_REFRESH, iteration), &b, fresh);
        if (rc) return sosmc_i_broken(s, task, "init.draw", rc, b.first);
        for (int i = 0; i < b.n; i++) {
            if (u[i] > scheme->refresh) continue;
            for (size_t j = 0; j < (size_t)l->dim; j++) a->x[j * ld + (size_t)i] = fresh[j * ld + (size_t)i];
            begin_particle(s, begun, i, a, i);
        }
    }
    return SOSMC_OK;
}

/* Where a tile's old state stands while the kernel writes the new one; `here` is always where the new state ends. A move that goes
 * to the spare cloud leaves the old state alone. Otherwise the tile is copied aside and rewritten in place. */
typedef struct {
    tile here, aside;
} places;

static places places_of(const sosmc *s, int t, int worker)
{
    const scratch *k = &s->worker[worker];
    size_t vector = s->cut.vector;
    if (s->move_to_spare) return (places){.here = tile_at(s, &s->spare->c, t), .aside = tile_at(s, &s->now->c, t)};
    return (places){.here = tile_at(s, &s->now->c, t),
                    .aside = {.x = k->aside,
                              .gx = s->uses_gradient ? k->aside + vector : NULL,
                              .aux = s->cfg.kernel.aux ? k->aside + 2 * vector : NULL,
                              .U = worker_row(s, worker, ROW_ASIDE)}};
}

static void copy_tile(const sosmc *s, const tile *from, const tile *to, int n)
{
    size_t bytes = s->cut.vector * sizeof(double), row = (size_t)n * sizeof(double);
    memcpy(to->x, from->x, bytes);
    if (to->gx && from->gx) memcpy(to->gx, from->gx, bytes);
    if (to->aux && from->aux) memcpy(to->aux, from->aux, bytes * (size_t)s->cfg.kernel.aux);
    memcpy(to->U, from->U, row);
    if (to->R && from->R) memcpy(to->R, from->R, row);
    if (to->Uref && from->Uref) memcpy(to->Uref, from->Uref, row);
}

/* `sweeps` steps of the kernel that end `here`. */
static sosmc_status sweep_tile(sosmc *s, int task, int worker, double *inc)
{
    const sosmc_scheme *scheme = &s->cfg.scheme;
    int t = s->cut.tile_lo + task, n = s->cut.count[t], begin_aside = scheme->sweeps % 2 == 1;
    places p = places_of(s, t, worker);
    if (begin_aside && !s->move_to_spare) copy_tile(s, &p.here, &p.aside, n);
    for (int sweep = 0; sweep < scheme->sweeps; sweep++) {
        int from_aside = (sweep % 2 == 0) == begin_aside;
        const tile *from = from_aside ? &p.aside : &p.here, *to = from_aside ? &p.here : &p.aside;
        int kept = sweep - (scheme->sweeps - scheme->keep); /* the last sweep is always kept */
        TRY(step_tile(s, task, worker, from, to, sweep, inc));
        if (s->watch.observing && sweep == scheme->sweeps - 1) sosmc_i_watch_move(s, task, from->x, from->gx, to->x);
        if (s->cfg.kernel.blind && kept >= 0)
            TRY(evaluate_tile(s, task, worker, to, NULL, s->now->v.iteration * scheme->sweeps + sweep));
        if (scheme->keep > 1 && kept >= 0) keep_tile(s, t, to, kept);
    }
    if (scheme->keep > 1) return score_kept(s, task, worker, t);
    sosmc_batch b = sosmc_i_batch(s, &s->cut, t, p.here.x);
    return score_batch(s, task, worker, &b, p.here.R, p.here.Uref);
}

static sosmc_status carry_tile(void *ctx, int task, int worker)
{
    sosmc *s = ctx;
    const layout *l = &s->cut;
    int t = l->tile_lo + task, n = l->count[t];
    tile now = tile_at(s, &s->now->c, t);
    double *inc = !s->weighted ? NULL : s->increment ? row_at(s->increment, l, t) : worker_row(s, worker, ROW_INC);
    if (inc && !s->move_evaluates && s->cfg.kernel.invariant) memset(inc, 0, (size_t)n * sizeof(double));
    s->faults[task].status = SOSMC_OK;
    s->tile_bad[task] = 0;
    if (s->move_steps) s->accept_sum[task] = 0;

    if (s->holding && s->begin.cloud && s->retry == 0) {
        tile held = tile_at(s, sosmc_i_held(s), t);
        copy_tile(s, &now, &held, n);
    }
    if (s->move_steps && (s->now->pool || s->cfg.scheme.refresh > 0)) TRY(start_tile(s, task, worker, &now));
    if (s->move_evaluates && (s->retry == 0 || !inc)) /* a repeated move starts from the same weighing */
        TRY(evaluate_tile(s, task, worker, &now, inc, s->now->v.iteration * s->cfg.scheme.sweeps));
    if (s->move_steps) TRY(sweep_tile(s, task, worker, inc));
    if (!inc) return SOSMC_OK;
    const double *restrict logw = row_at(s->now->logw, l, t);
    double *restrict next = row_at(s->logw_next, l, t);
    double logmean = s->now->v.logmean;
    for (int i = 0; i < n; i++) next[i] = (logw[i] - logmean) + inc[i];
    s->tile_max[task] = s->simd->max(n, next);
    return SOSMC_OK;
}

/* The members that the particles of a tile replace. u: a row for uniforms. */
static sosmc_batch draw_members(const sosmc *s, int t, double *u)
{
    sosmc_batch b = sosmc_i_batch(s, &s->cut, t, NULL);
    sosmc_uniforms(name(s, SOSMC_STREAM_POOL, s->now->v.iteration), 0, &b, u);
    return b;
}
static double *member_of(const sosmc *s, const sosmc_batch *b, const double *u, int i)
{
    int newest = s->cfg.scheme.pool_rule == SOSMC_POOL_NEWEST;
    int64_t joins = newest ? (entries_so_far(s) + b->first + i) % s->cfg.scheme.pool : pool_member(s, u[i]);
    return s->now->pool + (size_t)joins * (size_t)s->cut.dim;
}

/* Pool members are overwritten in particle order, so that of two copies of one member the later wins, on any rank. What particle i
 * replaces is kept in row i of the spare pool. */
static sosmc_status write_back(sosmc *s)
{
    const layout *l = &s->cut;
    size_t dim = (size_t)l->dim;
    if (ranks(s) > 1) TRY(sosmc_i_cloud(s, s->pool_gather, NULL));
    s->begin.pool = 1;
    for (int t = 0; t < l->tiles; t++) {
        const double *x = ranks(s) > 1 ? NULL : vector_at(s->now->c.x, l, t);
        double *u = worker_row(s, 0, ROW_A);
        sosmc_batch b = draw_members(s, t, u);
        for (int i = 0; i < b.n; i++) {
            double *member = member_of(s, &b, u, i);
            const double *gathered = x ? NULL : s->pool_gather + (size_t)(b.first + i) * dim;
            memcpy(s->spare->pool + (size_t)(b.first + i) * dim, member, dim * sizeof(double));
            for (size_t j = 0; j < dim; j++) member[j] = x ? x[j * (size_t)l->ld + (size_t)i] : gathered[j];
        }
    }
    return SOSMC_OK;
}

/* In reverse order: the first of two copies of one member kept what was there before both. */
void sosmc_i_pool_take_back(sosmc *s)
{
    size_t dim = (size_t)s->cut.dim;
    double *u = worker_row(s, 0, ROW_A);
    for (int t = s->cut.tiles - 1; t >= 0; t--) {
        sosmc_batch b = draw_members(s, t, u);
        for (int i = b.n - 1; i >= 0; i--)
            memcpy(member_of(s, &b, u, i), s->spare->pool + (size_t)(b.first + i) * dim, dim * sizeof(double));
    }
}

/* Whether the move writes to the spare cloud: it may have to be repeated, or it is a single sweep that changes nothing before. Then
 * the spare cloud holds what the iteration found without a copy, unless it is needed again before the last callback. */
static int goes_to_spare(const sosmc *s, int evaluate, int step)
{
    const sosmc_scheme *c = &s->cfg.scheme;
    if (s->nonfinite == SOSMC_NONFINITE_RETRY) return step;
    return step && !evaluate && !s->begin.cloud && !s->held.x && c->sweeps == 1 && !s->now->pool && c->refresh == 0;
}

sosmc_status sosmc_i_carry(sosmc *s, int evaluate, int step)
{
    int tasks = s->cut.tile_hi - s->cut.tile_lo;
    int64_t bad = 0;
    s->move_evaluates = evaluate;
    s->move_steps = step;
    s->retry = 0;
    s->move_to_spare = goes_to_spare(s, evaluate, step);
    s->holding = !s->begin.cloud;
    s->begin.cloud = s->held.x ||
                     !s->move_to_spare; /* in the other case the cloud is as it was until the end of this function */
    for (;; s->retry++) {
        double no_max = -INFINITY;
        s->move_h = ldexp(s->now->v.h, -(int)s->retry);
        sosmc_status status = sosmc_i_parallel(s->threads, carry_tile, s, tasks);
        bad = 0;
        for (int i = 0; i < tasks; i++) bad += s->tile_bad[i];
        if (status != SOSMC_OK) status = sosmc_i_report(s, status, tasks);
        TRY(sosmc_i_agree(s, status, &no_max, &bad));
        if (bad == 0 || s->nonfinite != SOSMC_NONFINITE_RETRY) break;
    }
    s->info.nonfinite += (int)bad;
    s->info.retries += (int)s->retry;
    s->retry = 0;
    if (s->move_to_spare) {
        cloud c = s->now->c;
        s->now->c = s->spare->c;
        s->spare->c = c;
        s->begin.cloud = 1;
    }
    /* a step that leaves pi invariant changes no weight, unless it lost particles */
    s->pending = s->weighted && (evaluate || !s->cfg.kernel.invariant || bad > 0);
    if (s->pending) {
        double **old = s->holding ? &s->spare->logw : &s->logw_next, *logw = s->now->logw, *next = s->logw_next;
        s->logw_next = *old;
        *old = logw;
        s->now->logw = next;
        if (s->holding) s->begin.logw = 1;
    }
    if (s->weighted && bad > 0) s->dropped = 1;
    s->now->v.cached = 1;
    s->seen_valid = 0;
    if (step && s->watch.observing) sosmc_i_watch_moved(s);
    return step && s->now->pool ? write_back(s) : SOSMC_OK;
}

/* ---------------------------------------------------------------------------- iteration 0 */

static sosmc_status start_cloud_tile(void *ctx, int task, int worker)
{
    sosmc *s = ctx;
    const layout *l = &s->cut;
    int t = l->tile_lo + task, n = l->count[t];
    tile a = tile_at(s, &s->now->c, t);
    sosmc_batch b = sosmc_i_batch(s, l, t, a.x);
    double *logw = row_at(s->now->logw, l, t);
    s->faults[task].status = SOSMC_OK;
    sosmc_i_lend_work(s, t, worker, &b);
    int rc = s->p.init.draw(s->p.init.self, name(s, SOSMC_STREAM_INIT, 0), &b, a.x);
    if (rc) return sosmc_i_broken(s, task, "init.draw", rc, b.first);
    TRY(draw_aux(s, task, name(s, SOSMC_STREAM_BEGIN, 0), &b, a.aux));
    rc = s->p.model.energy(s->p.model.self, s->now->theta, &b, a.U, a.gx);
    if (rc) return sosmc_i_broken(s, task, "energy", rc, b.first);
    for (int i = 0; i < n; i++)
        if (!finite_particle(s, &a, i)) {
            const char *what;
            double value = offending_value(s, &a, i, NULL, &what);
            (void)not_finite(s, task, what, b.first + i, value, NAN);
            s->faults[task].initial = 1;
            return SOSMC_ENUMERIC;
        }
    s->now->fresh[task] = a.gx && parks(s, t);
    TRY(score_batch(s, task, worker, &b, a.R, a.Uref));
    for (int i = 0; i < n; i++) logw[i] = 0;
    s->tile_max[task] = 0;
    if (!s->weighted || !s->p.init.logpdf || s->p.init.exact) return SOSMC_OK;
    b = sosmc_i_batch(s, l, t, a.x);
    b.work = s->worker[worker].work;
    rc = s->p.init.logpdf(s->p.init.self, &b, logw);
    if (rc) return sosmc_i_broken(s, task, "init.logpdf", rc, b.first);
    for (int i = 0; i < n; i++) {
        if (!isfinite(logw[i]))
            return not_finite(s, task, "log density of an initial particle", b.first + i, logw[i], NAN);
        logw[i] = -a.U[i] - logw[i];
    }
    s->tile_max[task] = s->simd->max(n, logw);
    return SOSMC_OK;
}

/* Members are drawn under the names of the initial particles, so the first ones are these. */
static sosmc_status fill_pool(sosmc *s)
{
    const layout *l = &s->cut;
    const sosmc_scheme *c = &s->cfg.scheme;
    int room = l->count[0], members = c->pool_rule == SOSMC_POOL_NEWEST ? c->particles : c->pool;
    for (int64_t first = 0; first < members; first += room) {
        int64_t left = members - first;
        sosmc_batch b = sosmc_i_batch(s, l, 0, s->worker[0].vec);
        b.first = first;
        b.n = left < room ? (int)left : room;
        int rc = s->p.init.draw(s->p.init.self, name(s, SOSMC_STREAM_INIT, 0), &b, s->worker[0].vec);
        if (rc)
            return sosmc_i_fail(s, SOSMC_EMODEL, "init.draw returned %d for the pool's particle %lld", rc,
                                (long long)first);
        for (int i = 0; i < b.n; i++)
            for (size_t j = 0; j < (size_t)l->dim; j++)
                s->now->pool[(size_t)(first + i) * (size_t)l->dim + j] =
                    s->worker[0].vec[j * (size_t)l->ld + (size_t)i];
    }
    return SOSMC_OK;
}

sosmc_status sosmc_i_start(sosmc *s)
{
    int tasks = s->cut.tile_hi - s->cut.tile_lo;
    double no_max = -INFINITY;
    int64_t bad = 0;
    sosmc_status status = sosmc_i_parallel(s->threads, start_cloud_tile, s, tasks);
    if (status != SOSMC_OK) status = sosmc_i_report(s, status, tasks);
    if (status == SOSMC_OK && s->now->pool) status = fill_pool(s);
    TRY(sosmc_i_agree(s, status, &no_max, &bad));
    s->now->v.cached = 1;
    if (s->cfg.scheme.keep > 1) return SOSMC_OK; /* nothing has been kept yet: the first carry fills the sample */
    s->pending = s->weighted;
    TRY(sosmc_i_measure(s));
    s->now->v.logz0 = s->now->v.logz;
    return SOSMC_OK;
}
