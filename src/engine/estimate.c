/* estimate.c: the gradient, one formula for every objective (maths.md OBJ):
 *
 *     g = scale * ( sum_i w_i (s_i - sbar + a) dU(x_i) + (b/M) sum_j dU(y_j) ),   s = r R + kl (U - Uref),
 *
 * r = 1 behind the first updates of a ramp; and from the running log Z the loss itself (maths.md LOSS). Particles are contracted
 * block by block with coefficients c_i; a data batch is drawn, evaluated and contracted tile by tile and never stored. U must
 * belong to theta. */
#include "engine_inside.h"

/* ---------------------------------------------------------------------------- particles */

/* A particle without weight may be at a place where dU/dtheta is not finite, and zero times that is not a number. Where the tile
 * has such particles, this points the batch to a copy of the tile in which each of them is replaced by the first particle that
 * has weight. Returns 0 when no particle of the tile has weight. */
int sosmc_i_replace_weightless(sosmc *s, int worker, int t, sosmc_batch *b)
{
    const double *logw = row_at(s->now->logw, &s->cut, t);
    double *copy = s->worker[worker].vec;
    size_t ld = (size_t)b->ld;
    int live = 0, weightless = 0;
    while (live < b->n && logw[live] == -INFINITY) live++;
    for (int i = live; i < b->n; i++) weightless += logw[i] == -INFINITY;
    if (live == b->n) return 0;
    if (live == 0 && weightless == 0) return 1;
    memcpy(copy, b->x, (size_t)b->dim * ld * sizeof(double));
    for (size_t i = 0; i < (size_t)b->n; i++)
        for (size_t j = 0; logw[i] == -INFINITY && j < (size_t)b->dim; j++)
            copy[j * ld + i] = copy[j * ld + (size_t)live];
    b->x = copy;
    b->fresh = 0;
    return 1;
}

/* r: the weight of the score in the update that comes. */
static double score_weight(const sosmc *s)
{
    int64_t ramp = s->p.objective.ramp, k = s->now->v.updates + 1;
    return k < ramp ? (double)k / (double)ramp : 1;
}

static sosmc_status contract_block(void *ctx, int task, int worker)
{
    sosmc *s = ctx;
    const sosmc_objective *o = &s->p.objective;
    const sample *seen = &s->seen;
    const layout *l = seen->l;
    size_t dim = (size_t)s->p.model.dim_theta;
    int block = l->block_lo + task;
    double *g = s->leaves + (size_t)block * dim;
    double r = score_weight(s), kl = o->kl / r; /* everything is divided by r and the whole multiplied by it */
    double sbar = (s->sums[SUM_WR] + kl * s->sums[SUM_WD]) / s->sums[SUM_W];
    s->faults[task].status = SOSMC_OK;
    memset(g, 0, dim * sizeof(double));
    for (int t = l->block_tile[block]; t < l->block_tile[block + 1]; t++) {
        if (l->count[t] == 0) continue;
        double *c = worker_row(s, worker, ROW_A);
        s->simd->coefficients(l->count[t], row_at(seen->w, l, t), r * o->scale / s->sums[SUM_W],
                              optional_row(seen->c->R, l, t), kl, row_at(seen->c->U, l, t),
                              optional_row(seen->c->Uref, l, t), o->a / r - sbar, 2 * o->energy2 / r, c);
        sosmc_batch b = sosmc_i_batch(s, l, t, vector_at(seen->c->x, l, t));
        b.fresh = l == &s->cut && s->now->fresh[t - l->tile_lo];
        b.work = s->worker[worker].work;
        if (l == &s->cut) sosmc_i_lend_work(s, t, worker, &b);
        if (s->dropped && !sosmc_i_replace_weightless(s, worker, t, &b)) continue;
        int rc = o->H ? o->H(s->p.model.self, s->now->theta, &b, c, g)
                      : s->p.model.grad_theta(s->p.model.self, s->now->theta, &b, c, g);
        if (rc) return sosmc_i_broken(s, task, o->H ? "H" : "grad_theta", rc, b.first);
    }
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- data */

static int wants_data_loss(const sosmc *s)
{
    int kind = s->p.objective.loss;
    return !s->why_no_loss && (kind == SOSMC_LOSS_LIKELIHOOD || kind == SOSMC_LOSS_FORWARD_KL);
}

/* U at the data is taken where the loss, a regulariser or a reader of the trace wants it. */
static int wants_data_energy(const sosmc *s)
{
    return wants_data_loss(s) || s->p.objective.energy2 != 0 || s->p.objective.loss == SOSMC_LOSS_LIKELIHOOD;
}

/* What the KL needs of the reference at y: U_ref(y), or -log q_ref(y) when log Z is absolute. */
static sosmc_status reference_tile(sosmc *s, int task, int worker, sosmc_batch b, double *sum)
{
    double *value = worker_row(s, worker, ROW_B);
    int rc = 0;
    if (s->absolute_logz && s->p.objective.data.logpdf) {
        rc = s->p.objective.data.logpdf(s->p.objective.data.self, &b, value);
        if (rc) return sosmc_i_broken(s, task, "data.logpdf", rc, b.first);
        for (int i = 0; i < b.n; i++) *sum -= value[i];
        return SOSMC_OK;
    }
    b.prep = s->prep_ref;
    b.work = s->worker[worker].work_ref;
    const sosmc_model *m = sosmc_i_original(&s->p.model);
    rc = m->energy(m->self, s->p.objective.theta_ref, &b, value, NULL);
    if (rc) return sosmc_i_broken(s, task, "energy at theta_ref", rc, b.first);
    for (int i = 0; i < b.n; i++) *sum += value[i];
    return SOSMC_OK;
}

static sosmc_status data_block(void *ctx, int task, int worker)
{
    sosmc *s = ctx;
    const sosmc_objective *o = &s->p.objective;
    const sosmc_model *m = sosmc_i_original(&s->p.model);
    const layout *l = &s->batch;
    scratch *k = &s->worker[worker];
    size_t dim = (size_t)m->dim_theta;
    int block = l->block_lo + task;
    int need_energy = wants_data_energy(s);
    double *g = s->data_leaves + (size_t)block * (dim + DATA_ALL), *sums = g + dim;
    double weight = o->scale / (double)l->particles;
    sosmc_rng rng = {.seed = s->cfg.seed, .step = (uint64_t)s->now->v.iteration, .stream = SOSMC_STREAM_DATA};
    s->faults[task].status = SOSMC_OK;
    memset(g, 0, (dim + DATA_ALL) * sizeof(double));
    for (int t = l->block_tile[block]; t < l->block_tile[block + 1]; t++) {
        sosmc_batch b = sosmc_i_batch(s, l, t, k->vec);
        double *U = worker_row(s, worker, ROW_U), *c = worker_row(s, worker, ROW_A);
        b.work = k->work;
        int rc = o->data.draw(o->data.self, rng, &b, k->vec);
        if (rc) return sosmc_i_broken(s, task, "data.draw", rc, b.first);
        for (int i = 0; i < b.n; i++) c[i] = weight * o->b;
        if (need_energy) { /* with the gradient, so that grad_theta finds its pass already done */
            rc = m->energy(m->self, s->now->theta, &b, U, k->vec + l->vector);
            if (rc) return sosmc_i_broken(s, task, "energy", rc, b.first);
            b.fresh = 1;
            for (int i = 0; i < b.n; i++) c[i] += weight * 2 * o->energy2 * U[i];
            for (int i = 0; i < b.n; i++) sums[DATA_U] += U[i];
        }
        rc = m->grad_theta(m->self, s->now->theta, &b, c, g);
        if (rc) return sosmc_i_broken(s, task, "grad_theta", rc, b.first);
        b.fresh = 0;
        if (o->penalty) rc = o->penalty(m->self, s->now->theta, &b, weight, g, &sums[DATA_PENALTY]);
        if (rc) return sosmc_i_broken(s, task, "penalty", rc, b.first);
        if (wants_data_loss(s) && o->loss == SOSMC_LOSS_FORWARD_KL)
            TRY(reference_tile(s, task, worker, b, &sums[DATA_REF]));
    }
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- the loss */

static void estimate_loss(sosmc *s)
{
    const sosmc_objective *o = &s->p.objective;
    const vital *v = &s->now->v;
    double W = s->sums[SUM_W], reward = s->sums[SUM_WR] / W;
    double data_u = NAN, data_ref = NAN, ratio = v->logz - v->logz0;
    if (s->batch.particles > 0) {
        data_u = s->data_sums[DATA_U] / (double)s->batch.particles;
        data_ref = s->data_sums[DATA_REF] / (double)s->batch.particles;
    }
    s->info.loss = s->info.kl = NAN;
    s->info.data_energy = wants_data_energy(s) ? data_u : NAN;
    s->info.penalty = o->penalty ? s->data_sums[DATA_PENALTY] : NAN;
    if (s->why_no_loss) return;
    switch (o->loss) {
    case SOSMC_LOSS_MMLE: s->info.loss = -v->logz; break;
    case SOSMC_LOSS_LIKELIHOOD: s->info.loss = data_u + v->logz; break;
    case SOSMC_LOSS_FORWARD_KL:
        s->info.kl = data_u - data_ref + (s->absolute_logz && o->data.logpdf ? v->logz : ratio);
        s->info.loss = o->b > 0 ? o->b * s->info.kl - reward : -reward;
        break;
    case SOSMC_LOSS_REVERSE_KL:
        s->info.kl = -s->sums[SUM_WD] / W - ratio;
        s->info.loss = o->kl * s->info.kl - reward;
        break;
    default: break;
    }
}

sosmc_status sosmc_i_estimate(sosmc *s)
{
    size_t dim = (size_t)s->p.model.dim_theta;
    const layout *l = s->seen.l;
    if (!s->seen_valid) TRY(sosmc_i_measure(s));
    sosmc_i_begin_gradient(s);
    if (s->p.objective.scale == 0) {
        memset(s->grad, 0, dim * sizeof(double));
        estimate_loss(s);
        s->info.grad_norm = 0;
        s->info.gradient_updates = s->now->v.updates;
        return SOSMC_OK;
    }
    int tasks = l->block_hi - l->block_lo;
    sosmc_status status = sosmc_i_parallel(s->threads, contract_block, s, tasks);
    if (status != SOSMC_OK) status = sosmc_i_report(s, status, tasks);
    TRY(sosmc_i_reduce(s, l, s->leaves, dim, status));
    memcpy(s->grad, s->leaves, dim * sizeof(double));
    if (s->batch.particles > 0) {
        tasks = s->batch.block_hi - s->batch.block_lo;
        status = sosmc_i_parallel(s->threads, data_block, s, tasks);
        if (status != SOSMC_OK) status = sosmc_i_report(s, status, tasks);
        TRY(sosmc_i_reduce(s, &s->batch, s->data_leaves, dim + DATA_ALL, status));
        for (size_t j = 0; j < dim; j++) s->grad[j] += s->data_leaves[j];
        memcpy(s->data_sums, s->data_leaves + dim, sizeof s->data_sums);
    }
    estimate_loss(s);
    double norm2 = 0;
    for (size_t j = 0; j < dim; j++) norm2 += s->grad[j] * s->grad[j];
    s->info.grad_norm = sqrt(norm2);
    s->info.gradient_updates = s->now->v.updates;
    if (isfinite(norm2)) return sosmc_i_watch_observe(s);
    for (size_t j = 0; j < dim; j++)
        if (!isfinite(s->grad[j]))
            return sosmc_i_fail(s, SOSMC_ENUMERIC,
                                "iteration %lld: component %zu of the gradient is %g (theta[%zu] = %g)",
                                (long long)s->now->v.iteration, j, s->grad[j], j, s->now->theta[j]);
    return sosmc_i_fail(s, SOSMC_ENUMERIC, "iteration %lld: the gradient is too large to square",
                        (long long)s->now->v.iteration);
}
