/* setup.c: before the first iteration. Every setting is checked, the particles are cut into tiles and blocks, and all
 * memory is taken: nothing allocates afterwards. */
#include <stdlib.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "base/scores.h"
#include "engine_inside.h"
#include "base/tiles.h"

/* ---------------------------------------------------------------------------- validation */

static sosmc_status bad(const sosmc *s, const char *name, double value, const char *expected)
{
    return sosmc_i_fail(s, SOSMC_EINVAL, "%s is %g; %s", name, value, expected);
}

#define REQUIRE(condition, name, value, expected)                         \
    do {                                                                  \
        if (!(condition)) return bad(s, name, (double)(value), expected); \
    } while (0)
#define REFUSE(condition, ...)                                            \
    do {                                                                  \
        if (condition) return sosmc_i_fail(s, SOSMC_EINVAL, __VA_ARGS__); \
    } while (0)

static sosmc_status check_problem(const sosmc *s)
{
    const sosmc_model *m = &s->p.model;
    const sosmc_objective *o = &s->p.objective;
    REQUIRE(m->dim_x >= 1, "model.dim_x", m->dim_x, "it must be at least 1");
    REQUIRE(m->dim_theta >= 1, "model.dim_theta", m->dim_theta, "it must be at least 1");
    REQUIRE(m->tile >= 0, "model.tile", m->tile, "it must not be negative");
    REFUSE(!m->energy, "model.energy is missing; every model needs it");
    REFUSE(!m->grad_theta && !o->H, "model.grad_theta is missing; every model needs it, or the objective an H");
    REFUSE(!m->prepare && m->prep, "model.prep is %zu bytes, but model.prepare is missing", m->prep);
    REFUSE(!s->p.init.draw, "init.draw is missing; the particles must come from somewhere");
    REQUIRE(isfinite(o->a), "objective.a", o->a, "it must be finite");
    REQUIRE(isfinite(o->b), "objective.b", o->b, "it must be finite");
    REQUIRE(isfinite(o->kl), "objective.kl", o->kl, "it must be finite");
    REQUIRE(isfinite(o->scale), "objective.scale", o->scale, "it must be finite");
    REQUIRE(isfinite(o->energy2), "objective.energy2", o->energy2, "it must be finite");
    REFUSE(o->ramp < 0, "objective.ramp is %lld; it must not be negative", (long long)o->ramp);
    REFUSE(o->ramp > 0 && !o->score.eval, "objective.ramp is %lld, but there is no objective.score to come in",
           (long long)o->ramp);
    REQUIRE(o->loss >= SOSMC_LOSS_NONE && o->loss <= SOSMC_LOSS_REVERSE_KL, "objective.loss", o->loss,
            "it must be a sosmc_loss_kind");
    REFUSE(o->kl != 0 && !o->theta_ref, "objective.kl is %g, but objective.theta_ref is missing", o->kl);
    REFUSE(o->loss == SOSMC_LOSS_FORWARD_KL && o->b < 0, "objective beta is %g; it must not be negative", o->b);
    REFUSE(o->loss == SOSMC_LOSS_REVERSE_KL && o->kl < 0, "objective beta is %g; it must not be negative", o->kl);
    REFUSE((o->loss == SOSMC_LOSS_FORWARD_KL || o->loss == SOSMC_LOSS_REVERSE_KL) && !o->score.eval,
           "objective.score.eval is missing; a reward objective needs a reward");
    REFUSE(o->b != 0 && !o->data.draw, "objective.b is %g, but objective.data.draw is missing", o->b);
    REFUSE(o->b != 0 && o->batch < 1, "objective.batch is %d; it must be at least 1", o->batch);
    REFUSE(o->penalty && o->b == 0,
           "objective.penalty is set, but objective.b is 0: there is no data batch for it to see");
    REFUSE(o->b != 0 && !m->grad_theta, "model.grad_theta is missing; the data term needs it");
    return SOSMC_OK;
}

static sosmc_status check_scheme(const sosmc *s)
{
    const sosmc_scheme *c = &s->cfg.scheme;
    REQUIRE(c->particles >= 1, "scheme.particles", c->particles, "it must be at least 1");
    REQUIRE(c->pool >= c->particles, "scheme.pool", c->pool, "it must be at least the number of particles");
    REQUIRE(c->sweeps >= 1, "scheme.sweeps", c->sweeps, "it must be at least 1");
    REQUIRE(c->keep >= 1 && c->keep <= c->sweeps, "scheme.keep", c->keep,
            "it must be between 1 and the number of sweeps");
    REQUIRE(c->order == SOSMC_ORDER_PAPER || c->order == SOSMC_ORDER_AUTHORS, "scheme.order", c->order,
            "it must be a sosmc_order");
    REQUIRE(c->drift_at == SOSMC_AT_PREVIOUS || c->drift_at == SOSMC_AT_CURRENT, "scheme.drift_at", c->drift_at,
            "it must be a sosmc_theta_choice");
    REQUIRE(c->refresh >= 0 && c->refresh <= 1, "scheme.refresh", c->refresh, "it must be between 0 and 1");
    REQUIRE(c->ess_min >= 0, "scheme.ess_min", c->ess_min, "it must not be negative");
    REQUIRE(c->resampling >= SOSMC_MULTINOMIAL && c->resampling <= SOSMC_SSP, "scheme.resampling", c->resampling,
            "it must be a sosmc_resampling");
    REQUIRE(c->pool_rule == SOSMC_POOL_IN_PLACE || c->pool_rule == SOSMC_POOL_NEWEST, "scheme.pool_rule", c->pool_rule,
            "it must be a sosmc_pool_rule");
    REFUSE(c->weighted && (c->keep > 1 || has_pool(c) || c->refresh > 0),
           "a weighted scheme keeps the particles it has: keep must be 1, pool equal to particles and in place, and "
           "refresh 0");
    REFUSE((has_pool(c) || c->refresh > 0 || c->keep > 1) && c->drift_at != SOSMC_AT_CURRENT,
           "a scheme with a pool, restarts or several kept sweeps must move with the gradient at the current theta "
           "(scheme.drift_at)");
    REFUSE(c->keep > 1 && c->order != SOSMC_ORDER_PAPER,
           "a scheme that keeps several sweeps moves before it estimates: "
           "scheme.order must be SOSMC_ORDER_PAPER");
    REFUSE(c->keep > 1 && (int64_t)c->particles * c->keep > INT32_MAX, "scheme.particles * scheme.keep exceeds 2^31");
    return SOSMC_OK;
}

/* What the engine itself reads of a kernel; then the kernel checks its own parameters. */
static sosmc_status check_kernel(const sosmc *s)
{
    const sosmc_kernel *k = &s->cfg.kernel;
    REFUSE(!k->step || !k->name, "kernel.step or kernel.name is missing; start from sosmc_ula, sosmc_mala, ...");
    REFUSE(s->cfg.scheme.weighted && k->no_weight,
           "kernel %s has no tractable density (clamping and clipping leave none), so its moves have no weight; use it "
           "with an unweighted scheme",
           k->name);
    REFUSE(k->blind && (!k->no_weight || k->invariant || k->metropolis || k->uses_gradient),
           "kernel %s is blind, it knows no U: no_weight must be 1, and invariant, metropolis and uses_gradient 0",
           k->name);
    REQUIRE(k->h > 0 && isfinite(k->h), "kernel.h", k->h,
            "it must be positive (the kernel's step, kernel.step in run files)");
    REFUSE(k->uses_gradient && s->p.model.no_gx, "kernel %s uses dU/dx, and the model has none (model.no_gx)", k->name);
    REFUSE(k->uses_prox && !s->p.model.prox, "kernel %s takes proximal maps, and the model has none (model.prox)",
           k->name);
    REQUIRE(k->aux >= 0 && k->scratch >= 0, "kernel.aux or kernel.scratch", k->aux < 0 ? k->aux : k->scratch,
            "it must not be negative");
    char text[MESSAGE];
    const char *wrong = k->check ? k->check(k, s->cfg.scheme.weighted, text, sizeof text) : NULL;
    REFUSE(wrong, "%s", wrong);
    return SOSMC_OK;
}

static sosmc_status check_optimiser(const sosmc *s)
{
    const sosmc_optimiser *o = &s->cfg.optimiser;
    const sosmc_schedule *c = &s->cfg.schedule;
    REFUSE((!o->step && !o->try_step) || !o->name,
           "optimiser.step or optimiser.name is missing; start from sosmc_adam, sosmc_sgd, ...");
    REQUIRE(o->lr >= 0 && isfinite(o->lr), "optimiser.lr", o->lr,
            "it must not be negative (the learning rate, optimiser.rate in run files)");
    REQUIRE(o->momentum >= 0 && o->momentum < 1, "optimiser.momentum", o->momentum, "it must be in [0, 1)");
    REQUIRE(o->beta1 >= 0 && o->beta1 < 1, "optimiser.beta1", o->beta1, "it must be in [0, 1)");
    REQUIRE(o->beta2 >= 0 && o->beta2 < 1, "optimiser.beta2", o->beta2, "it must be in [0, 1)");
    REQUIRE(o->eps >= 0 && isfinite(o->eps), "optimiser.eps", o->eps, "it must not be negative");
    REQUIRE(o->weight_decay >= 0 && isfinite(o->weight_decay), "optimiser.weight_decay", o->weight_decay,
            "it must not be negative");
    REQUIRE(o->clip >= 0, "optimiser.clip", o->clip, "it must not be negative");
    REQUIRE(o->low <= o->high, "optimiser.low", o->low, "it must not be above optimiser.high");
    REQUIRE(o->noise >= 0 && isfinite(o->noise), "optimiser.noise", o->noise, "it must be finite and not negative");
    REFUSE(o->noise > 0 && s->p.objective.scale == 0,
           "optimiser.noise is %g, but objective.scale is 0: nothing is optimised, and theta stays where it is",
           o->noise);
    REQUIRE(o->map >= 0 && o->map <= SOSMC_MIRROR_LOG, "optimiser.map", o->map, "it must be a sosmc_mirror_map");
    REFUSE(o->map && o->noise > 0, "optimiser.noise is %g; mirror descent takes no noise on theta", o->noise);
    REFUSE(o->map == SOSMC_MIRROR_ENTROPY && o->low < o->high,
           "optimiser.low is %g and optimiser.high %g; with the map entropy theta has no bounds but 0 and 1", o->low,
           o->high);
    REQUIRE(o->slots >= 0, "optimiser.slots", o->slots, "it must not be negative");
    REQUIRE(c->kind >= SOSMC_SCHEDULE_CONSTANT && c->kind <= SOSMC_SCHEDULE_STEPS, "schedule.kind", c->kind,
            "it must be a sosmc_schedule_kind");
    REQUIRE(c->kind == SOSMC_SCHEDULE_CONSTANT || (c->a > 0 && isfinite(c->a)), "schedule.a", c->a,
            "it must be positive");
    REQUIRE(isfinite(c->b) && c->b >= 0, "schedule.b", c->b, "it must not be negative");
    if (c->kind == SOSMC_SCHEDULE_STEPS) {
        REQUIRE(c->a >= 1, "schedule.a", c->a, "it counts the updates between two steps and must be at least 1");
        REQUIRE(c->b > 0 && c->b <= 1, "schedule.b", c->b,
                "it multiplies the rate at every step and must be in (0, 1]");
    }
    REQUIRE(c->warmup >= 0, "schedule.warmup", (double)c->warmup, "it must not be negative");
    REQUIRE(s->cfg.average >= 0 && s->cfg.average <= 1, "average", s->cfg.average, "it must be between 0 and 1");
    REQUIRE(s->cfg.average_from >= 0, "average_from", s->cfg.average_from, "it must not be negative");
    return SOSMC_OK;
}

static sosmc_status check_adapt(const sosmc *s)
{
    for (int i = 0; i < 2; i++) {
        const sosmc_adapt *a = &s->cfg.adapt[i];
        if (a->factor == 0 || a->factor == 1) continue;
        REQUIRE(a->factor > 1 && isfinite(a->factor), "adapt.factor", a->factor, "it must be above 1 (or 0 or 1: off)");
        REQUIRE(a->threshold > 0 && a->threshold <= 1, "adapt.threshold", a->threshold, "it must be in (0, 1]");
        REQUIRE(a->min > 0, "adapt.min", a->min, "it must be positive");
        REQUIRE(a->max >= a->min, "adapt.max", a->max, "it must not be below adapt.min");
        REQUIRE(a->signal == SOSMC_SIGNAL_ESS || a->signal == SOSMC_SIGNAL_ACCEPT, "adapt.signal", a->signal,
                "it must be a sosmc_signal");
        REQUIRE(a->target == SOSMC_ADAPT_STEP || a->target == SOSMC_ADAPT_RATE, "adapt.target", a->target,
                "it must be a sosmc_adapt_target");
        REFUSE(a->signal == SOSMC_SIGNAL_ESS && !s->cfg.scheme.weighted,
               "adapt follows the effective sample size, which an unweighted scheme does not have");
        REFUSE(a->signal == SOSMC_SIGNAL_ACCEPT && !s->cfg.kernel.metropolis,
               "adapt follows the acceptance rate, which kernel %s does not have", s->cfg.kernel.name);
    }
    return SOSMC_OK;
}

static sosmc_status check_rest(const sosmc *s)
{
    const sosmc_comm *c = &s->cfg.comm;
    REQUIRE(s->cfg.threads >= 0 && s->cfg.threads <= 1024, "threads", s->cfg.threads, "it must be between 0 and 1024");
    REQUIRE(s->cfg.on_nonfinite >= SOSMC_NONFINITE_DEFAULT && s->cfg.on_nonfinite <= SOSMC_NONFINITE_RESTART,
            "on_nonfinite", s->cfg.on_nonfinite, "it must be a sosmc_nonfinite");
    REQUIRE(s->cfg.on_collapse >= SOSMC_COLLAPSE_DEFAULT && s->cfg.on_collapse <= SOSMC_COLLAPSE_CONTINUE,
            "on_collapse", s->cfg.on_collapse, "it must be a sosmc_collapse");
    REQUIRE(s->cfg.judge >= 0 && s->cfg.judge <= 0.5, "judge", s->cfg.judge, "it must be between 0 and 0.5");
    REFUSE(s->weighted && s->nonfinite == SOSMC_NONFINITE_RESTART,
           "on_nonfinite is restart, which unweighted schemes know; a weighted one takes fail, drop or retry");
    REFUSE(!s->weighted && (s->nonfinite == SOSMC_NONFINITE_DROP || s->nonfinite == SOSMC_NONFINITE_RETRY),
           "on_nonfinite is drop or retry, which weighted schemes know; an unweighted one takes fail or restart");
    REFUSE(s->nonfinite == SOSMC_NONFINITE_RETRY && s->cfg.scheme.sweeps > 1,
           "on_nonfinite is retry, which repeats one move; scheme.sweeps is %d", s->cfg.scheme.sweeps);
    REQUIRE(c->size >= 0 && c->size <= MAX_RANKS, "comm.size", c->size, "it must be between 0 and 4096");
    if (c->size <= 1) return SOSMC_OK;
    REQUIRE(c->rank >= 0 && c->rank < c->size, "comm.rank", c->rank, "it must be below comm.size");
    REFUSE(!c->allgather || !c->exchange, "comm.allgather or comm.exchange is missing");
    return SOSMC_OK;
}

static sosmc_status choose_simd(sosmc *s)
{
    const char *wish = getenv("SOSMC_SIMD");
    s->simd = s->cfg.simd;
    if (!s->simd && wish && *wish) {
        s->simd = sosmc_simd_named(wish);
        REFUSE(!s->simd, "SOSMC_SIMD is '%s'; this machine and build know %s and plain", wish,
               sosmc_simd_name(sosmc_simd_best()));
    }
    s->simd = sosmc_i_simd(s->simd);
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- what the weights can tell */

static int starts_at_reference(const sosmc *s)
{
    if (!s->p.objective.theta_ref) return 0;
    for (int j = 0; j < s->p.model.dim_theta; j++)
        if (s->p.objective.theta_ref[j] != (s->p.theta0 ? s->p.theta0[j] : 0)) return 0;
    return 1;
}

static const char *find_why_no_loss(const sosmc *s)
{
    int kind = s->p.objective.loss;
    if (kind == SOSMC_LOSS_NONE) return "the objective does not say which loss it descends (objective.loss)";
    if (!s->weighted) return "the scheme carries no weights, so there is no running log Z";
    if (kind == SOSMC_LOSS_FORWARD_KL && s->p.objective.b == 0) return NULL; /* -E R needs no log Z */
    if (!s->absolute_logz && !s->relative_logz)
        return "the initial law has no density (init.logpdf) and is not declared exact (init.exact), so log Z is unknown";
    if (kind == SOSMC_LOSS_FORWARD_KL && !(s->absolute_logz && s->p.objective.data.logpdf) && !starts_at_reference(s))
        return "the KL divergence needs theta0 equal to theta_ref, or densities of both the initial and the reference law";
    if (kind == SOSMC_LOSS_REVERSE_KL && !starts_at_reference(s))
        return "the KL divergence needs theta0 equal to theta_ref, where log Z is known to be zero";
    return NULL;
}

static void resolve(sosmc *s)
{
    sosmc_scheme *c = &s->cfg.scheme;
    s->weighted = c->weighted != 0;
    s->uses_gradient = s->cfg.kernel.uses_gradient;
    s->uses_reference = s->p.objective.kl != 0 ||
                        (s->p.objective.loss == SOSMC_LOSS_REVERSE_KL && s->p.objective.theta_ref);
    s->nonfinite = s->cfg.on_nonfinite;
    if (s->nonfinite == SOSMC_NONFINITE_DEFAULT)
        s->nonfinite = s->weighted ? SOSMC_NONFINITE_DROP : SOSMC_NONFINITE_FAIL;
    s->relative_logz = s->weighted && s->p.init.exact;
    s->absolute_logz = s->weighted && s->p.init.logpdf && !s->p.init.exact;
    s->why_no_loss = find_why_no_loss(s);
}

/* ---------------------------------------------------------------------------- memory */

/* Large pages, where the system grants them on request: parked scratch and leaves are walked from end to end in every
 * iteration, and with small ones the walk waits for the page table. Only whole large pages inside are asked for, so nothing
 * is used that was not taken. */
static void advise_large_pages(char *p, size_t bytes)
{
#if defined(MADV_HUGEPAGE)
    const size_t page = (size_t)2 << 20;
    size_t before = (page - (uintptr_t)p % page) % page;
    if (bytes >= before + page) (void)madvise(p + before, (bytes - before) / page * page, MADV_HUGEPAGE);
#endif
}

static size_t times(size_t a, size_t b)
{
    size_t product;
    return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

static size_t plus(size_t a, size_t b) { return a > SIZE_MAX - b ? SIZE_MAX : a + b; }

/* Zeroed, aligned memory that sosmc_free returns; NULL for want of memory, and also for zero bytes. Where it is only counted, what is
 * small is had all the same, because later lines look into it, and what is large is an address that nobody follows. */
static void *take(sosmc *s, size_t count, size_t bytes)
{
    enum { SMALL = 1 << 16 };
    size_t wanted = plus(times(count, bytes), ALIGNMENT);
    if (count == 0 || bytes == 0) return NULL;
    s->bytes = plus(s->bytes, wanted);
    if (s->measures && wanted > SMALL) return s;
    if (s->owned_count == s->owned_room || wanted == SIZE_MAX) return NULL;
    char *p = s->cfg.alloc(s->cfg.alloc_ctx, NULL, wanted);
    if (!p) return NULL;
    s->owned[s->owned_count++] = p;
    p += ALIGNMENT - (uintptr_t)p % ALIGNMENT;
    advise_large_pages(p, count * bytes);
    memset(p, 0, count * bytes);
    return p;
}

static sosmc_status want(const sosmc *s, size_t count, size_t bytes)
{
    return sosmc_i_fail(s, SOSMC_ENOMEM, "out of memory: %zu items of %zu bytes could not be had", count, bytes);
}

/* p = zeroed memory for `count` items; a count of zero leaves NULL. */
#define TAKE(p, count)                                                   \
    do {                                                                 \
        size_t take_count = (size_t)(count);                             \
        (p) = take(s, take_count, sizeof *(p));                          \
        if (take_count && !(p)) return want(s, take_count, sizeof *(p)); \
    } while (0)
#define TAKE_BYTES(p, count)                                   \
    do {                                                       \
        size_t take_count = (size_t)(count);                   \
        (p) = take(s, take_count, 1);                          \
        if (take_count && !(p)) return want(s, take_count, 1); \
    } while (0)

static int tile_size(const sosmc_model *m, int64_t particles) { return sosmc_i_tile(m->tile, m->dim_x, particles); }

static int most_blocks(int dim_theta)
{
    int most = (1 << 19) / dim_theta; /* 4 MB of partial gradients, or 16 of them: more only cost memory traffic */
    return most < 16 ? 16 : most > 256 ? 256 : most;
}

static void own_blocks(const sosmc *s, layout *l)
{
    int size = ranks(s), rank = size > 1 ? s->cfg.comm.rank : 0;
    l->block_lo = sosmc_i_rank_bound(l->blocks, rank, size);
    l->block_hi = sosmc_i_rank_bound(l->blocks, rank + 1, size);
    l->tile_lo = first_tile(l, l->block_lo);
    l->tile_hi = first_tile(l, l->block_hi);
}

static void set_rows(layout *l, int dim, int tile)
{
    l->dim = dim;
    l->ld = sosmc_i_tile_row(tile, dim);
    l->vector = sosmc_i_round_up((size_t)dim * (size_t)l->ld, LANES);
}

static sosmc_status take_cuts(sosmc *s, layout *l)
{
    TAKE(l->count, l->tiles);
    TAKE(l->first, l->tiles);
    TAKE(l->block_tile, l->blocks + 1);
    for (int b = 0; b <= l->blocks && !s->measures; b++) l->block_tile[b] = first_tile(l, b);
    return SOSMC_OK;
}

static sosmc_status cut(sosmc *s, layout *l, int64_t particles, int blocks_limit)
{
    int tile = tile_size(&s->p.model, particles);
    set_rows(l, s->p.model.dim_x, tile);
    l->particles = particles;
    l->tile = tile;
    l->tiles = (int)((particles + tile - 1) / tile);
    l->blocks = l->tiles < blocks_limit ? l->tiles : blocks_limit;
    TRY(take_cuts(s, l));
    for (int t = 0; t < l->tiles && !s->measures; t++) {
        l->first[t] = (int64_t)t * tile;
        l->count[t] = particles - l->first[t] < tile ? (int)(particles - l->first[t]) : tile;
    }
    own_blocks(s, l);
    return SOSMC_OK;
}

/* The kept states of cloud tile t fill the sample tiles of block t, packed. */
static sosmc_status cut_kept(sosmc *s)
{
    layout *l = &s->kept;
    int64_t most = (int64_t)s->cut.tile * s->cfg.scheme.keep;
    int tile = tile_size(&s->p.model, most);
    set_rows(l, s->p.model.dim_x, tile);
    if (l->ld > 1) tile = l->ld; /* positions are counted in rows of ld */
    int per_group = (int)((most + tile - 1) / tile);
    l->particles = (int64_t)s->cfg.scheme.particles * s->cfg.scheme.keep;
    l->tile = most < tile ? (int)most : tile;
    l->tiles = per_group * s->cut.tiles;
    l->blocks = s->cut.tiles; /* of per_group tiles each */
    TRY(take_cuts(s, l));
    for (int t = 0; t < l->tiles && !s->measures; t++) {
        int group = t / per_group;
        int64_t states = (int64_t)s->cut.count[group] * s->cfg.scheme.keep, before = (int64_t)(t % per_group) * tile;
        int64_t left = states > before ? states - before : 0;
        l->first[t] = s->cut.first[group] * s->cfg.scheme.keep + before;
        l->count[t] = left < tile ? (int)left : tile;
    }
    own_blocks(s, l);
    return SOSMC_OK;
}

static sosmc_status take_cloud(sosmc *s, const layout *l, cloud *c, int vectors)
{
    size_t tiles = (size_t)(l->tile_hi - l->tile_lo), rows = tiles * (size_t)l->ld;
    if (tiles == 0) tiles = rows = 1; /* a rank without tiles still has addresses */
    TAKE(c->x, tiles * l->vector);
    if (vectors && s->uses_gradient) TAKE(c->gx, tiles * l->vector);
    if (vectors) TAKE(c->aux, times(tiles * l->vector, (size_t)s->cfg.kernel.aux));
    TAKE(c->U, rows);
    if (s->p.objective.score.eval) TAKE(c->R, rows);
    if (s->uses_reference) TAKE(c->Uref, rows);
    return SOSMC_OK;
}

static sosmc_status take_state(sosmc *s, state *st)
{
    size_t dim = (size_t)s->p.model.dim_theta, tiles = (size_t)(s->cut.tile_hi - s->cut.tile_lo) + 1;
    const sosmc_scheme *c = &s->cfg.scheme;
    TAKE(st->theta, dim);
    TAKE(st->theta_prev, dim);
    TAKE(st->slots, dim * (size_t)s->cfg.optimiser.slots);
    if (s->cfg.average > 0) TAKE(st->average, dim);
    TRY(take_cloud(s, &s->cut, &st->c, 1));
    TAKE(st->logw, tiles * (size_t)s->cut.ld);
    if (has_pool(c)) TAKE(st->pool, (size_t)c->pool * (size_t)s->p.model.dim_x);
    TAKE(st->fresh, tiles);
    return SOSMC_OK;
}

static sosmc_status take_workers(sosmc *s, int ld)
{
    size_t row = (size_t)ld, vector = s->cut.vector, work; /* rows of a one-particle tile are not shorter than a lane */
    size_t begun = s->cfg.kernel.begin ? (size_t)s->cfg.kernel.aux * s->cut.vector : 0;
    if (s->batch.vector > vector) vector = s->batch.vector;
    if (s->kept.vector > vector) vector = s->kept.vector;
    if (__builtin_mul_overflow(s->p.model.work, row, &work))
        return sosmc_i_fail(s, SOSMC_EINVAL, "model.work is %zu bytes per particle; a tile of %d would overflow",
                            s->p.model.work, ld);
    TAKE(s->worker, s->cfg.threads);
    for (int i = 0; i < s->cfg.threads; i++) {
        TAKE(s->worker[i].tmp, (size_t)s->cfg.kernel.scratch * s->cut.vector + 4 * row);
        TAKE(s->worker[i].vec, 2 * vector + begun);
        TAKE(s->worker[i].aside, (2 + (size_t)s->cfg.kernel.aux) * s->cut.vector);
        TAKE(s->worker[i].row, ROW_COUNT * row);
        TAKE_BYTES(s->worker[i].work, work);
        TAKE_BYTES(s->worker[i].work_ref, work);
    }
    return SOSMC_OK;
}

/* As many tiles park their scratch as the limit allows, counted over the whole cloud, so that parking does not depend on
 * the number of ranks. All tiles of a model without scratch count as parked. */
static sosmc_status take_work(sosmc *s)
{
    const layout *l = &s->cut;
    s->work_stride = sosmc_i_round_up(s->p.model.work * (size_t)l->ld, ALIGNMENT);
    s->parked = l->tiles;
    if (s->work_stride && (size_t)l->tiles > s->cfg.work_limit / s->work_stride)
        s->parked = (int)(s->cfg.work_limit / s->work_stride);
    int mine = (s->parked < l->tile_hi ? s->parked : l->tile_hi) - l->tile_lo;
    if (mine > 0) TAKE_BYTES(s->work, s->work_stride * (size_t)mine + ALIGNMENT);
    return SOSMC_OK;
}

static size_t largest(size_t a, size_t b) { return a > b ? a : b; }

static sosmc_status take_packets(sosmc *s)
{
    size_t size = (size_t)ranks(s), dim = (size_t)s->p.model.dim_theta, records = 0;
    TAKE(s->record, sosmc_i_record_doubles(s, s->cut.tile) + 1);
    TAKE(s->tile_hash, s->cut.tiles);
    if (size == 1) return SOSMC_OK;
    for (int r = 0; r < (int)size; r++) {
        int64_t lo, hi;
        sosmc_i_rank_particles(&s->cut, r, (int)size, &lo, &hi);
        records = largest(records, (size_t)(hi - lo));
    }
    size_t each = sosmc_i_reduce_packet(s->seen.l, largest(dim, SUM_ALL));
    if (s->batch.particles) each = largest(each, sosmc_i_reduce_packet(&s->batch, dim + DATA_ALL));
    each = largest(each, largest(sosmc_i_record_doubles(s, s->cut.tile) + 1, records));
    each = largest(each, (size_t)s->cut.tiles);
    size_t exchanged = (records + size) * sosmc_i_record_doubles(s, 1);
    s->packet_doubles = largest(each * size, exchanged);
    TAKE(s->packet_out, s->packet_doubles);
    TAKE(s->packet_in, s->packet_doubles);
    TAKE(s->bytes_out, size);
    TAKE(s->bytes_in, size);
    if (s->now->pool) TAKE(s->pool_gather, (size_t)s->cut.particles * (size_t)s->cut.dim);
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- what is watched */

static const char *find_why_not_watched(const sosmc *s)
{
    const sosmc_objective *o = &s->p.objective;
    const sosmc_scheme *c = &s->cfg.scheme;
    if (!(s->cfg.judge > 0)) return "theta was not followed during the run (judge is off)";
    if (o->scale == 0) return "nothing is optimised";
    if (ranks(s) > 1) return "theta is not followed in runs on several ranks";
    if (o->H) return "the objective has an H of its own, whose second derivative is not known";
    if (o->penalty || o->energy2 != 0) return "the objective has a regulariser, whose second derivative is not known";
    if (s->p.model.dim_theta > WATCH_PARAMETERS) return "theta has more than 200 parameters, too many for a Hessian";
    if (c->keep > 1) return "the states of a chain are no independent particles";
    if (s->cfg.optimiser.map == SOSMC_MIRROR_ENTROPY)
        return "theta are probabilities (the map entropy), whose second derivative along a sum of 1 is not taken";
    if (has_pool(c)) return "particles that are drawn from a pool have no groups";
    if (c->particles < 2 * SOSMC_GROUPS) return "it takes at least 32 particles";
    return NULL;
}

static int within(double value, int low, int high) { return value < low ? low : value > high ? high : (int)value; }
static int tiles_for(int particles, int tile, int most)
{
    int tiles = (particles + tile - 1) / tile;
    return tiles < most ? tiles : most;
}

/* In evaluations of the cloud: a sweep counts as one, or as two where it is accepted or rejected, a gradient as 0.4, an observation
 * as 0.5, or as 3 where scores have to be made from single contractions. 0.4 of the allowance is for observations; Hessians are
 * taken of as many particles as cost no more. */
static void plan_watch(sosmc *s)
{
    watch *w = &s->watch;
    const int p = s->p.model.dim_theta, particles = s->cfg.scheme.particles, tile = s->cut.tile;
    double iteration = s->cfg.scheme.sweeps * (s->cfg.kernel.metropolis ? 2 : 1) + 0.4,
           cost = s->p.model.scores ? 0.5 : 3;
    double allowed = 0.4 * s->cfg.judge * iteration;
    for (w->spacing = 1; (double)w->spacing * allowed < cost && w->spacing < 4096;) w->spacing *= 2;
    int moments = within(fmax(100.0 * p, particles / 8.0), 1, particles);
    int differences = within(0.2 * particles / p, 32, 4096);
    w->moment_tiles = tiles_for(moments, tile, s->cut.tiles);
    w->difference_tiles = tiles_for(differences, tile, w->moment_tiles);
    w->data_tiles = s->batch.tiles ? tiles_for(differences, s->batch.tile, s->batch.tiles) : 0;
    w->data_noise = s->batch.tiles && !s->p.objective.data.fixed;
    w->coordinates = s->cut.dim < 64 ? s->cut.dim : 64;
    w->stride = s->cut.dim / w->coordinates;
    w->leaf = sosmc_i_watch_leaf(p);
    w->moment_ld = (size_t)w->moment_tiles * (size_t)s->cut.ld;
}

static sosmc_status take_watch(sosmc *s)
{
    watch *w = &s->watch;
    size_t p = (size_t)s->p.model.dim_theta, ld = (size_t)longest_row(s);
    w->why_not = find_why_not_watched(s);
    w->on = w->why_not == NULL;
    if (!w->on) return SOSMC_OK;
    plan_watch(s);
    state *both[] = {s->now, s->spare};
    for (int i = 0; i < 2; i++) {
        TAKE(both[i]->watched, WATCH_SETS * sosmc_i_watch_doubles((int)p));
    }
    TAKE(w->moves, (size_t)s->cut.tiles * (size_t)w->coordinates * 3);
    TAKE(w->leaves, (size_t)(s->cut.blocks > s->batch.blocks ? s->cut.blocks : s->batch.blocks) * w->leaf);
    TAKE(w->moment_w, w->moment_ld);
    TAKE(w->moment_s, w->moment_ld);
    TAKE(w->moment_D, w->moment_ld * p);
    TAKE(w->difference_tile, w->difference_tiles);
    TAKE(w->difference_c, (size_t)w->difference_tiles * (size_t)s->cut.ld);
    TAKE(w->data_x, (size_t)w->data_tiles * s->batch.vector);
    TAKE(w->step, p);
    TAKE(w->fisher, p);
    TAKE(w->columns, p * p);
    TAKE(w->H, p * p);
    TAKE(w->worker, s->cfg.threads);
    for (int i = 0; i < s->cfg.threads; i++) {
        TAKE(w->worker[i].scratch, sosmc_i_scores_scratch(&s->p.model));
        TAKE(w->worker[i].D, p * ld);
        TAKE(w->worker[i].theta, 3 * p + 4);
        TAKE(w->worker[i].row, w->moment_ld);
        TAKE_BYTES(w->worker[i].prep, s->p.model.prep);
    }
    return SOSMC_OK;
}

static sosmc_status take_memory(sosmc *s)
{
    const sosmc_scheme *c = &s->cfg.scheme;
    size_t dim = (size_t)s->p.model.dim_theta;
    int limit = most_blocks(s->p.model.dim_theta);
    TRY(cut(s, &s->cut, c->particles, c->keep > 1 ? INT32_MAX : limit));
    if (c->keep > 1) TRY(cut_kept(s));
    if (s->p.objective.b != 0) TRY(cut(s, &s->batch, s->p.objective.batch, limit));
    size_t tiles = (size_t)(s->cut.tile_hi - s->cut.tile_lo) + 1;

    TRY(take_state(s, s->now));
    TRY(take_state(s, s->spare));
    int resamples_before_moving = s->weighted && s->cfg.kernel.invariant && c->order == SOSMC_ORDER_AUTHORS;
    if (resamples_before_moving || s->nonfinite == SOSMC_NONFINITE_RETRY) TRY(take_cloud(s, &s->cut, &s->held, 1));
    if (c->keep > 1) TRY(take_cloud(s, &s->kept, &s->kept_cloud, 0));
    s->seen = (sample){.l = c->keep > 1 ? &s->kept : &s->cut, .c = c->keep > 1 ? &s->kept_cloud : &s->now->c};
    TAKE(s->seen.w, ((size_t)(s->seen.l->tile_hi - s->seen.l->tile_lo) + 1) * (size_t)s->seen.l->ld);
    TAKE(s->logw_next, tiles * (size_t)s->cut.ld);
    if (s->nonfinite == SOSMC_NONFINITE_RETRY) TAKE(s->increment, tiles * (size_t)s->cut.ld);
    TAKE_BYTES(s->prep, s->p.model.prep);
    TAKE_BYTES(s->prep_prev, s->p.model.prep);
    TAKE_BYTES(s->prep_ref, s->p.model.prep);
    TAKE(s->accept_sum, tiles);
    TAKE(s->tile_max, tiles);
    TAKE(s->tile_bad, tiles);
    TAKE(s->leaves, (size_t)s->seen.l->blocks * largest(dim, SUM_ALL));
    TAKE(s->data_leaves, (size_t)s->batch.blocks * (dim + DATA_ALL));
    TAKE(s->grad, dim);
    TAKE(s->grad_before, dim);
    if (s->cfg.optimiser.noise > 0) TAKE(s->theta_noise, dim);
    if (s->weighted && c->ess_min > 0) {
        TAKE(s->all_w, c->particles);
        TAKE(s->resample_scratch, 2 * (size_t)c->particles + 1);
        TAKE(s->ancestors, c->particles);
    }
    size_t tasks = largest((size_t)s->seen.l->blocks, (size_t)s->batch.blocks);
    if (s->p.model.dim_theta <= WATCH_PARAMETERS) tasks = largest(tasks, dim);
    TAKE(s->faults, largest(tiles, tasks));
    TRY(take_workers(s, longest_row(s)));
    TRY(take_work(s));
    TRY(take_watch(s));
    return take_packets(s);
}

static sosmc_status start_threads(sosmc *s)
{
    void *memory;
    if (s->cfg.threads < 2) return SOSMC_OK;
    TAKE_BYTES(memory, sosmc_i_crew_bytes(s->cfg.threads));
    if (s->measures) return SOSMC_OK;
    s->threads = sosmc_i_crew_start(memory, s->cfg.threads);
    REFUSE(!s->threads, "threads is %d, but so many could not be started", s->cfg.threads);
    return SOSMC_OK;
}

sosmc_status sosmc_i_setup(sosmc *s)
{
    char text[MESSAGE];
    const char *wrong = sosmc_i_bound(&s->bounds, &s->p, 0, text, sizeof text);
    REFUSE(wrong, "%s", wrong);
    resolve(s);
    TRY(check_problem(s));
    TRY(check_kernel(s));
    TRY(check_scheme(s));
    TRY(check_optimiser(s));
    TRY(check_adapt(s));
    TRY(check_rest(s));
    if (s->cfg.threads < 1) s->cfg.threads = 1;
    TRY(choose_simd(s));
    TRY(take_memory(s));
    return start_threads(s);
}
