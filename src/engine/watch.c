/* watch.c: observed iterations (watch.h, maths.md GROUPS and HESSIAN).
 *
 * With the objective's one formula, s~ = s - sbar and D~ = D - Dbar, D = dU/dtheta and bars for weighted means,
 *
 *     IF_i = s~_i D~_i - Cov(s, D) + a D~_i,        of a member of the data batch  b (D(y_j) - mean D(y)),
 *     H    = sum_i w_i (kl - a - s~_i) D~_i D~_i' + sum_i w_i (s~_i + a) dD_i/dtheta + (b/M) sum_j dD(y_j)/dtheta.
 *
 * The derivatives of D are central differences of grad_theta, with steps of 0.05 standard deviations of D's own law. All sums have
 * a fixed shape, so they do not depend on the number of threads. The model's parked scratch is never touched. */
#include "base/scores.h"
#include "engine_inside.h"

/* ---------------------------------------------------------------------------- sums */

size_t sosmc_i_watch_doubles(int dim_theta)
{
    size_t p = (size_t)dim_theta;
    return HEAD_ALL + SOSMC_GROUPS + 1 + 3 * p + SOSMC_GROUPS + SOSMC_GROUPS * p + p * p + WATCH_BLOCKS +
           WATCH_BLOCKS * p * p;
}

watch_sums sosmc_i_watch_sums(double *base, int dim_theta)
{
    size_t p = (size_t)dim_theta;
    watch_sums w = {.head = base};
    w.bound = w.head + HEAD_ALL;
    w.theta = w.bound + SOSMC_GROUPS + 1;
    w.grad = w.theta + p;
    w.group_weight = w.grad + p;
    w.T = w.group_weight + SOSMC_GROUPS;
    w.V = w.T + SOSMC_GROUPS * p;
    w.fisher = w.V + p * p;
    w.H_weight = w.fisher + p;
    w.H = w.H_weight + WATCH_BLOCKS;
    return w;
}

static watch_sums sums_of(const sosmc *s, int set)
{
    int p = s->p.model.dim_theta;
    return sosmc_i_watch_sums(s->now->watched + (size_t)set * sosmc_i_watch_doubles(p), p);
}

/* floor(log2 k), k >= 1 */
static int octave(int64_t k)
{
    int n = 0;
    while (k >>= 1) n++;
    return n;
}

/* How many iterations an observation at iteration k stands for. At least eight observations are made per doubling of k, and four while
 * a tail that begins there belongs to a short run. */
static int64_t spacing(const sosmc *s, int64_t k)
{
    int64_t gap = ((int64_t)1 << octave(k)) / (k < 4 * WATCH_FIRST ? 4 : 8);
    return gap < s->watch.spacing ? gap : s->watch.spacing;
}

/* Hessians are taken four times per doubling of k, twice in the first, and oftener in long runs. */
static int takes_hessian(const sosmc *s, int64_t k)
{
    int64_t gap = ((int64_t)1 << octave(k)) / (k < 2 * WATCH_FIRST ? 2 : 4), most = 8 * s->watch.spacing;
    return k % (gap < most ? gap : most) == 0;
}

static void cut_groups(const sosmc *s, watch_sums *w)
{
    for (int64_t c = 0; c <= SOSMC_GROUPS; c++) {
        int64_t first = s->cut.particles * c / SOSMC_GROUPS;
        w->bound[c] = (double)first;
    }
}

/* Squares the sums of groups that are too unequal to go on with, and cuts new ones. What the old groups have in common with the new
 * ones is lost to the variance; it is little, because a cloud whose groups die has forgotten where it was. */
static void renew_groups(const sosmc *s, watch_sums *w)
{
    size_t p = (size_t)s->p.model.dim_theta;
    double N = (double)s->cut.particles, squares = 0;
    for (int c = 0; c < SOSMC_GROUPS; c++) {
        double share = (w->bound[c + 1] - w->bound[c]) / N;
        squares += share * share;
    }
    if (squares * SOSMC_GROUPS < 2) return;
    for (size_t c = 0; c < SOSMC_GROUPS; c++)
        for (size_t j = 0; j < p; j++)
            for (size_t k = 0; k < p; k++) w->V[j * p + k] += w->T[c * p + j] * w->T[c * p + k];
    memset(w->T, 0, SOSMC_GROUPS * p * sizeof(double));
    w->head[HEAD_RENEWALS] += 1;
    cut_groups(s, w);
}

void sosmc_i_watch_begin(sosmc *s)
{
    int64_t k = s->now->v.iteration;
    s->watch.observing = 0;
    if (!s->watch.on || k < WATCH_FIRST) return;
    s->watch.observing = k % spacing(s, k) == 0;
    if (s->watch.observing || (k & (k - 1)) == 0) sosmc_i_begin_watched(s);
    if ((k & (k - 1)) == 0) { /* a power of two: the older set ends, and a new one begins */
        watch_sums w = sums_of(s, octave(k) % WATCH_SETS);
        memset(w.head, 0, sosmc_i_watch_doubles(s->p.model.dim_theta) * sizeof(double));
        w.head[HEAD_START] = (double)k;
        cut_groups(s, &w);
    }
}

/* The first of the ascending ancestors that is at least `particle`. */
static double first_at_least(const sosmc *s, double particle)
{
    int64_t low = 0, high = s->cut.particles;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if ((double)s->ancestors[middle] < particle)
            low = middle + 1;
        else
            high = middle;
    }
    return (double)low;
}

void sosmc_i_watch_resampled(sosmc *s)
{
    if (!s->watch.on || s->now->v.iteration < WATCH_FIRST) return;
    for (int set = 0; set < WATCH_SETS; set++) {
        watch_sums w = sums_of(s, set);
        if (!(w.head[HEAD_START] > 0)) continue;
        for (int c = 1; c < SOSMC_GROUPS; c++) w.bound[c] = first_at_least(s, w.bound[c]);
        renew_groups(s, &w);
    }
}

/* ---------------------------------------------------------------------------- mobility */

/* Sums over the particles of a tile, for some coordinates: squared jumps, and squared gradients or, without gradients, the mean
 * of x and the squares about it. */
enum { JUMP, SCALE, MEAN, MOBILITY_SUMS };

void sosmc_i_watch_move(sosmc *s, int task, const double *x, const double *gx, const double *x_new)
{
    const watch *w = &s->watch;
    size_t ld = (size_t)s->cut.ld;
    int n = s->cut.count[s->cut.tile_lo + task];
    double *sums = w->moves + (size_t)task * (size_t)w->coordinates * MOBILITY_SUMS;
    for (int c = 0; c < w->coordinates; c++, sums += MOBILITY_SUMS) {
        size_t row = (size_t)c * (size_t)w->stride * ld;
        double jump = 0, square = 0, mean = 0;
        for (int i = 0; i < n; i++)
            jump += (x_new[row + (size_t)i] - x[row + (size_t)i]) * (x_new[row + (size_t)i] - x[row + (size_t)i]);
        if (gx) {
            for (int i = 0; i < n; i++) square += gx[row + (size_t)i] * gx[row + (size_t)i];
        } else {
            for (int i = 0; i < n; i++) mean += x_new[row + (size_t)i] / n;
            for (int i = 0; i < n; i++) square += (x_new[row + (size_t)i] - mean) * (x_new[row + (size_t)i] - mean);
        }
        sums[JUMP] = jump;
        sums[SCALE] = square;
        sums[MEAN] = mean;
    }
}

/* E[jump^2] E[g^2] / 2, or E[jump^2] / 2 Var(x), mean over the coordinates. Each is 1 - autocorrelation for a normal law; the
 * gradient measures the width of the modes and not the distance between them. */
static double mobility(const sosmc *s)
{
    const watch *w = &s->watch;
    int tiles = s->cut.tile_hi - s->cut.tile_lo;
    double total = 0, N = (double)s->cut.particles;
    for (int c = 0; c < w->coordinates; c++) {
        double jump = 0, square = 0, mean = 0, n = 0;
        for (int t = 0; t < tiles; t++) {
            const double *sums = w->moves + ((size_t)t * (size_t)w->coordinates + (size_t)c) * MOBILITY_SUMS;
            double m = s->cut.count[s->cut.tile_lo + t], away = sums[MEAN] - mean;
            jump += sums[JUMP];
            square += sums[SCALE] + (s->uses_gradient ? 0 : away * away * n * m / (n + m));
            n += m;
            mean += away * m / n;
        }
        double value = s->uses_gradient ? jump / N * (square / N) / 2 : square > 0 ? jump / (2 * square) : 0;
        total += value < 1 ? value : 1;
    }
    return total / w->coordinates;
}

void sosmc_i_watch_moved(sosmc *s)
{
    double accepted = 0, weight = (double)spacing(s, s->now->v.iteration);
    int tiles = s->cut.tile_hi - s->cut.tile_lo;
    for (int t = 0; t < tiles; t++) accepted += s->accept_sum[t];
    accepted /= (double)s->cut.particles * (double)s->cfg.scheme.sweeps;
    s->info.mobility = mobility(s);
    for (int set = 0; set < WATCH_SETS; set++) {
        double *head = sums_of(s, set).head;
        if (!(head[HEAD_START] > 0)) continue;
        head[HEAD_MOBILITY] += weight * s->info.mobility;
        head[HEAD_ACCEPT] += weight * accepted;
        head[HEAD_MOVES] += weight;
    }
}

/* ---------------------------------------------------------------------------- influences by group */

/* Sum of n products in eight accumulators. */
static double dot(size_t n, const double *x, const double *y)
{
    double sum[8] = {0};
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t k = 0; k < 8; k++) sum[k] += x[i + k] * y[i + k];
    for (size_t k = 0; i < n; i++, k++) sum[k] += x[i] * y[i];
    return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

/* A leaf: for each set and group the sums of w (s~ + a) D, w and w s~; then the sum of w D, and the squares of D. */
typedef struct {
    double *A, *W, *q;
} group_sums;
static group_sums groups_at(double *leaf, size_t p, int set)
{
    double *base = leaf + (size_t)set * SOSMC_GROUPS * (p + 2);
    return (group_sums){.A = base, .W = base + SOSMC_GROUPS * p, .q = base + SOSMC_GROUPS * (p + 1)};
}
static double *mean_at(double *leaf, size_t p) { return leaf + (size_t)WATCH_SETS * SOSMC_GROUPS * (p + 2); }
size_t sosmc_i_watch_leaf(int dim_theta)
{
    return (size_t)WATCH_SETS * SOSMC_GROUPS * ((size_t)dim_theta + 2) + (size_t)dim_theta;
}

static double score_of(const sosmc *s, int t, int i)
{
    const cloud *c = s->seen.c;
    double kl = s->p.objective.kl, R = c->R ? row_at(c->R, s->seen.l, t)[i] : 0;
    return kl != 0 ? R + kl * (row_at(c->U, s->seen.l, t)[i] - row_at(c->Uref, s->seen.l, t)[i]) : R;
}

static double mean_score(const sosmc *s)
{
    return (s->sums[SUM_WR] + s->p.objective.kl * s->sums[SUM_WD]) / s->sums[SUM_W];
}

/* Which of the moment tiles tile t is in this observation, or -1. The choice moves on with every observation. */
static int moment_index(const sosmc *s, int t)
{
    int tiles = s->cut.tiles, taken = s->watch.moment_tiles, turned = (int)((t + s->watch.turn) % tiles);
    int64_t slot = ((int64_t)turned * taken + tiles - 1) / tiles; /* the first slot whose tile is at least `turned` */
    return slot < taken && slot * tiles / taken == turned ? (int)slot : -1;
}

static sosmc_status scores_of_tile(sosmc *s, const sosmc_model *m, int task, int worker, sosmc_batch *b)
{
    b->work = s->worker[worker].work;
    b->fresh = 0;
    int rc = sosmc_i_scores(m, s->now->theta, b, s->watch.worker[worker].scratch, s->watch.worker[worker].D);
    return rc ? sosmc_i_broken(s, task, m->scores ? "scores" : "grad_theta", rc, b->first) : SOSMC_OK;
}

/* The sums over the particles from..to-1 of a tile: c D, w and w s~. */
static void sum_segment(size_t p, size_t ld, int from, int to, const double *c, const double *w, const double *ws,
                        const double *D, double *sums)
{
    size_t n = (size_t)(to - from);
    for (size_t j = 0; j < p; j++) sums[j] = dot(n, c + from, D + j * ld + from);
    sums[p] = sums[p + 1] = 0;
    for (int i = from; i < to; i++) {
        sums[p] += w[i];
        sums[p + 1] += ws[i];
    }
}

static void add_segment(group_sums *g, size_t group, size_t p, const double *sums)
{
    for (size_t j = 0; j < p; j++) g->A[group * p + j] += sums[j];
    g->W[group] += sums[p];
    g->q[group] += sums[p + 1];
}

/* Adds a tile to the groups of a set, cut where groups end. `whole` holds the sums over all of it, which serve most tiles. */
static void add_tile(const sosmc *s, int set, const sosmc_batch *b, double *leaf, const double *c, const double *w,
                     const double *ws, const double *D, const double *whole, double *part)
{
    size_t p = (size_t)s->p.model.dim_theta, group = 0;
    group_sums g = groups_at(leaf, p, set);
    const double *bound = sums_of(s, set).bound;
    for (int from = 0, to; from < b->n; from = to) {
        while (group + 1 < SOSMC_GROUPS && bound[group + 1] <= (double)(b->first + from)) group++;
        double end = bound[group + 1] - (double)b->first;
        to = end < b->n ? (int)end : b->n;
        int all = from == 0 && to == b->n;
        if (!all) sum_segment(p, (size_t)b->ld, from, to, c, w, ws, D, part);
        add_segment(&g, group, p, all ? whole : part);
    }
}

static void keep_moments(sosmc *s, int slot, const sosmc_batch *b, const double *w, const double *away, const double *D)
{
    size_t at = (size_t)slot * (size_t)b->ld, n = (size_t)b->n * sizeof(double);
    memcpy(s->watch.moment_w + at, w, n);
    memcpy(s->watch.moment_s + at, away, n);
    for (size_t j = 0; j < (size_t)s->p.model.dim_theta; j++)
        memcpy(s->watch.moment_D + j * s->watch.moment_ld + at, D + j * (size_t)b->ld, n);
}

static sosmc_status group_block(void *ctx, int task, int worker)
{
    sosmc *s = ctx;
    const layout *l = s->seen.l;
    size_t p = (size_t)s->p.model.dim_theta, ld = (size_t)l->ld;
    int block = l->block_lo + task;
    double *leaf = s->watch.leaves + (size_t)block * s->watch.leaf, *mean = mean_at(leaf, p);
    double sbar = mean_score(s), a = s->p.objective.a;
    double *w = worker_row(s, worker, ROW_A), *away = worker_row(s, worker, ROW_B), *c = worker_row(s, worker, ROW_U);
    double *ws = worker_row(s, worker, ROW_LOGG), *whole = s->watch.worker[worker].theta;
    const double *D = s->watch.worker[worker].D;
    s->faults[task].status = SOSMC_OK;
    memset(leaf, 0, s->watch.leaf * sizeof(double));
    for (int t = l->block_tile[block]; t < l->block_tile[block + 1]; t++) {
        if (l->count[t] == 0) continue;
        sosmc_batch b = sosmc_i_batch(s, l, t, vector_at(s->seen.c->x, l, t));
        if (s->dropped && !sosmc_i_replace_weightless(s, worker, t, &b)) continue;
        TRY(scores_of_tile(s, &s->p.model, task, worker, &b));
        for (int i = 0; i < b.n; i++) {
            w[i] = row_at(s->seen.w, l, t)[i] / s->sums[SUM_W];
            away[i] = score_of(s, t, i) - sbar;
            ws[i] = w[i] * away[i];
            c[i] = ws[i] + a * w[i];
        }
        sum_segment(p, ld, 0, b.n, c, w, ws, D, whole);
        for (int set = 0; set < WATCH_SETS; set++)
            if (sums_of(s, set).head[HEAD_START] > 0) add_tile(s, set, &b, leaf, c, w, ws, D, whole, whole + p + 2);
        for (size_t j = 0; j < p; j++) mean[j] += dot((size_t)b.n, w, D + j * ld);
        int slot = s->watch.hessian ? moment_index(s, t) : -1;
        if (slot >= 0) keep_moments(s, slot, &b, w, away, D);
    }
    return SOSMC_OK;
}

/* The data batch: member m is of group m mod 16. A leaf holds the sums of b D(y) / M by group. */
static sosmc_status data_block(void *ctx, int task, int worker)
{
    sosmc *s = ctx;
    const layout *l = &s->batch;
    const sosmc_source *data = &s->p.objective.data;
    size_t p = (size_t)s->p.model.dim_theta, ld = (size_t)l->ld;
    int block = l->block_lo + task;
    double *leaf = s->watch.leaves + (size_t)block * s->watch.leaf, scale = s->p.objective.b / (double)l->particles;
    const double *D = s->watch.worker[worker].D;
    sosmc_rng rng = {.seed = s->cfg.seed, .step = (uint64_t)s->now->v.iteration, .stream = SOSMC_STREAM_DATA};
    s->faults[task].status = SOSMC_OK;
    memset(leaf, 0, s->watch.leaf * sizeof(double));
    for (int t = l->block_tile[block]; t < l->block_tile[block + 1]; t++) {
        sosmc_batch b = sosmc_i_batch(s, l, t, s->worker[worker].vec);
        b.work = s->worker[worker].work;
        int rc = data->draw(data->self, rng, &b, s->worker[worker].vec);
        if (rc) return sosmc_i_broken(s, task, "data.draw", rc, b.first);
        TRY(scores_of_tile(s, sosmc_i_original(&s->p.model), task, worker, &b));
        for (int i = 0; i < b.n; i++)
            for (size_t j = 0, c = (size_t)((b.first + i) % SOSMC_GROUPS); j < p; j++)
                leaf[c * p + j] += scale * D[j * ld + (size_t)i];
    }
    return SOSMC_OK;
}

static sosmc_status fold_blocks(sosmc *s, const layout *l, crew_task task)
{
    int tasks = l->block_hi - l->block_lo;
    sosmc_status status = sosmc_i_parallel(s->threads, task, s, tasks);
    if (status != SOSMC_OK) status = sosmc_i_report(s, status, tasks);
    return sosmc_i_reduce(s, l, s->watch.leaves, s->watch.leaf, status);
}

/* T_c += weight scale sum_{i in c} w_i IF_i, from the sums in the first leaf. */
static void add_influences(sosmc *s, watch_sums *to, int set, double weight)
{
    size_t p = (size_t)s->p.model.dim_theta;
    double *leaf = s->watch.leaves, a = s->p.objective.a, scale = weight * s->p.objective.scale;
    const double *mean = mean_at(leaf, p);
    group_sums g = groups_at(leaf, p, set);
    for (size_t j = 0; j < p; j++) {
        double all = 0;
        for (size_t c = 0; c < SOSMC_GROUPS; c++) all += g.A[c * p + j];
        double covariance = all - a * mean[j];
        for (size_t c = 0; c < SOSMC_GROUPS; c++)
            to->T[c * p + j] += scale * (g.A[c * p + j] - g.q[c] * mean[j] - g.W[c] * (covariance + a * mean[j]));
    }
    memcpy(to->group_weight, g.W, SOSMC_GROUPS * sizeof(double));
}

static void add_data_influences(sosmc *s, watch_sums *to, double weight)
{
    size_t p = (size_t)s->p.model.dim_theta;
    int64_t M = s->batch.particles;
    double scale = weight * s->p.objective.scale;
    for (size_t j = 0; j < p; j++) {
        double all = 0;
        for (size_t c = 0; c < SOSMC_GROUPS; c++) all += s->watch.leaves[c * p + j];
        for (size_t c = 0; c < SOSMC_GROUPS; c++) {
            int64_t members = M / SOSMC_GROUPS + ((int64_t)c < M % SOSMC_GROUPS);
            to->T[c * p + j] += scale * (s->watch.leaves[c * p + j] - (double)members / (double)M * all);
        }
    }
}

/* ---------------------------------------------------------------------------- the Hessian */

/* Row j, up to the diagonal, of sum w (kl - a - s~) D~ D~' over the moment particles, whose rows of D are centred already. */
static sosmc_status moment_row(void *ctx, int task, int worker)
{
    sosmc *s = ctx;
    const watch *w = &s->watch;
    size_t p = (size_t)s->p.model.dim_theta, j = (size_t)task, ld = w->moment_ld;
    double *weighted = w->worker[worker].row;
    for (size_t i = 0; i < ld; i++) weighted[i] = w->moment_s[i] * w->moment_D[j * ld + i];
    for (size_t k = 0; k <= j; k++) w->H[j * p + k] = w->H[k * p + j] = dot(ld, weighted, w->moment_D + k * ld);
    return SOSMC_OK;
}

/* Centres the rows of D at the mean over the whole cloud and finds the difference steps. A slot without a particle has weight 0. */
static void centre_moments(sosmc *s)
{
    watch *w = &s->watch;
    size_t p = (size_t)s->p.model.dim_theta, ld = w->moment_ld;
    const double *mean = mean_at(w->leaves, p), *theta = s->now->theta;
    const sosmc_optimiser *opt = &s->cfg.optimiser;
    double total = 0;
    for (size_t i = 0; i < ld; i++) total += w->moment_w[i];
    for (size_t j = 0; j < p; j++) {
        double variance = 0;
        for (size_t i = 0; i < ld; i++) {
            double *D = w->moment_D + j * ld + i;
            *D = w->moment_w[i] > 0 ? *D - mean[j] : 0;
            variance += w->moment_w[i] * *D * *D;
        }
        variance = total > 0 ? variance / total : 0;
        w->fisher[j] = variance;
        double size = 1 + fabs(theta[j]), step = variance > 0 ? 0.05 / sqrt(variance) : 1e-3 * size;
        step = fmin(fmax(step, 1e-6 * size), 0.05 * size);
        if (opt->low < opt->high)
            step = fmin(step, fmax(0.5 * fmin(theta[j] - opt->low, opt->high - theta[j]), 1e-9 * size));
        if (opt->map) step = fmin(step, 0.5 * theta[j]);
        w->step[j] = step;
    }
    double factor = s->p.objective.kl - s->p.objective.a;
    for (size_t i = 0; i < ld; i++) w->moment_s[i] = total > 0 ? w->moment_w[i] / total * (factor - w->moment_s[i]) : 0;
}

/* Of the data batch other tiles are differenced in every observation. */
static int data_tile(const sosmc *s, int d)
{
    return (int)(((int64_t)d * s->batch.tiles / s->watch.data_tiles + s->watch.turn) % s->batch.tiles);
}

/* g = sum over the difference tiles of w (s~ + a) D at theta, plus the data's share. */
static sosmc_status contract_at(sosmc *s, int task, int worker, const double *theta, double *g)
{
    const watch *w = &s->watch;
    const sosmc_model *m = &s->p.model;
    double *c = worker_row(s, worker, ROW_A);
    void *prep = w->worker[worker].prep;
    int rc = m->prepare ? m->prepare(m->self, theta, prep) : 0;
    if (rc) return sosmc_i_broken(s, task, "prepare", rc, 0);
    memset(g, 0, (size_t)m->dim_theta * sizeof(double));
    for (int d = 0; d < w->difference_tiles; d++) {
        int t = w->difference_tile[d];
        sosmc_batch b = sosmc_i_batch(s, s->seen.l, t, vector_at(s->seen.c->x, s->seen.l, t));
        b.prep = prep;
        b.work = s->worker[worker].work;
        if (s->dropped && !sosmc_i_replace_weightless(s, worker, t, &b)) continue;
        memcpy(c, w->difference_c + (size_t)d * (size_t)s->seen.l->ld, (size_t)b.n * sizeof(double));
        rc = m->grad_theta(m->self, theta, &b, c, g);
        if (rc) return sosmc_i_broken(s, task, "grad_theta", rc, b.first);
    }
    m = sosmc_i_original(m);
    for (int d = 0; d < w->data_tiles; d++) {
        sosmc_batch b = sosmc_i_batch(s, &s->batch, data_tile(s, d), w->data_x + (size_t)d * s->batch.vector);
        b.prep = prep;
        b.work = s->worker[worker].work;
        for (int i = 0; i < b.n; i++) c[i] = s->p.objective.b / (double)w->data_members;
        rc = m->grad_theta(m->self, theta, &b, c, g);
        if (rc) return sosmc_i_broken(s, task, "grad_theta", rc, b.first);
    }
    return SOSMC_OK;
}

static sosmc_status difference_column(void *ctx, int task, int worker)
{
    sosmc *s = ctx;
    const watch *w = &s->watch;
    size_t p = (size_t)s->p.model.dim_theta, j = (size_t)task;
    double *theta = w->worker[worker].theta, *up = theta + p, *down = up + p;
    s->faults[task].status = SOSMC_OK;
    memcpy(theta, s->now->theta, p * sizeof(double));
    theta[j] = s->now->theta[j] + w->step[j];
    double high = theta[j];
    TRY(contract_at(s, task, worker, theta, up));
    theta[j] = s->now->theta[j] - w->step[j];
    double low = theta[j];
    TRY(contract_at(s, task, worker, theta, down));
    for (size_t k = 0; k < p; k++) w->columns[j * p + k] = (up[k] - down[k]) / (high - low);
    return SOSMC_OK;
}

/* The tiles whose particles are differenced, a part of the moment tiles, with their coefficients. */
static sosmc_status choose_differences(sosmc *s)
{
    watch *w = &s->watch;
    const layout *l = s->seen.l;
    double total = 0, sbar = mean_score(s), a = s->p.objective.a;
    int taken = 0;
    for (int d = 0; d < w->difference_tiles; d++) {
        int64_t slot = (int64_t)d * w->moment_tiles / w->difference_tiles,
                turned = slot * s->cut.tiles / w->moment_tiles;
        int t = (int)((turned + s->cut.tiles - w->turn % s->cut.tiles) % s->cut.tiles);
        w->difference_tile[taken] = t;
        for (int i = 0; i < l->count[t]; i++) {
            double weight = row_at(s->seen.w, l, t)[i];
            w->difference_c[(size_t)taken * (size_t)l->ld + (size_t)i] = weight * (score_of(s, t, i) - sbar + a);
            total += weight;
        }
        taken++;
    }
    for (size_t i = 0; i < (size_t)taken * (size_t)l->ld; i++)
        w->difference_c[i] = total > 0 ? w->difference_c[i] / total : 0;
    sosmc_rng rng = {.seed = s->cfg.seed, .step = (uint64_t)s->now->v.iteration, .stream = SOSMC_STREAM_DATA};
    w->data_members = 0;
    for (int d = 0; d < w->data_tiles; d++) {
        double *x = w->data_x + (size_t)d * s->batch.vector;
        sosmc_batch b = sosmc_i_batch(s, &s->batch, data_tile(s, d), x);
        b.work = s->worker[0].work;
        int rc = s->p.objective.data.draw(s->p.objective.data.self, rng, &b, x);
        if (rc)
            return sosmc_i_fail(s, SOSMC_EMODEL, "iteration %lld: data.draw returned %d",
                                (long long)s->now->v.iteration, rc);
        w->data_members += b.n;
    }
    return SOSMC_OK;
}

/* s->watch.H = the Hessian of the loss under the present cloud. */
static sosmc_status find_hessian(sosmc *s)
{
    watch *w = &s->watch;
    size_t p = (size_t)s->p.model.dim_theta;
    centre_moments(s);
    TRY(choose_differences(s));
    TRY(sosmc_i_parallel(s->threads, moment_row, s, (int)p));
    crew *threads = s->cut.tiles > 1 ? s->threads : NULL; /* with one batch only the caller's thread calls the model */
    sosmc_status status = sosmc_i_parallel(threads, difference_column, s, (int)p);
    if (status != SOSMC_OK) return sosmc_i_report(s, status, (int)p);
    for (size_t j = 0; j < p; j++)
        for (size_t k = 0; k <= j; k++) {
            double mixed = 0.5 * (w->columns[j * p + k] + w->columns[k * p + j]);
            w->H[j * p + k] = w->H[k * p + j] = s->p.objective.scale * (w->H[j * p + k] + mixed);
        }
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- an observation */

static void add_observation(sosmc *s, watch_sums *to, double weight)
{
    size_t p = (size_t)s->p.model.dim_theta, block = (size_t)to->head[HEAD_HESSIANS] % WATCH_BLOCKS;
    for (size_t j = 0; j < p; j++) {
        to->theta[j] += weight * s->now->theta[j];
        to->grad[j] += weight * s->grad[j];
    }
    if (s->watch.hessian && s->simd->all_finite(p * p, s->watch.H)) {
        to->head[HEAD_HESSIANS] += 1;
        to->H_weight[block] += weight;
        for (size_t k = 0; k < p * p; k++) to->H[block * p * p + k] += weight * s->watch.H[k];
        for (size_t j = 0; j < p; j++) to->fisher[j] += weight * s->watch.fisher[j];
    }
    to->head[HEAD_COUNT] += 1;
    to->head[HEAD_WEIGHT] += weight;
}

sosmc_status sosmc_i_watch_observe(sosmc *s)
{
    if (!s->watch.observing) return SOSMC_OK;
    int64_t k = s->now->v.iteration;
    double weight = (double)spacing(s, k);
    s->watch.turn = (int)(k / spacing(s, k) % (1 << 20));
    s->watch.hessian = takes_hessian(s, k);
    if (s->now->v.updates < s->p.objective.ramp) return SOSMC_OK; /* the objective is not yet what it will be */
    memset(s->watch.moment_w, 0, s->watch.moment_ld * sizeof(double));
    memset(s->watch.moment_s, 0, s->watch.moment_ld * sizeof(double));
    TRY(fold_blocks(s, s->seen.l, group_block));
    for (int set = 0; set < WATCH_SETS; set++) {
        watch_sums to = sums_of(s, set);
        if (to.head[HEAD_START] > 0) add_influences(s, &to, set, weight);
    }
    if (s->watch.hessian) TRY(find_hessian(s));
    if (s->watch.data_noise) TRY(fold_blocks(s, &s->batch, data_block));
    for (int set = 0; set < WATCH_SETS; set++) {
        watch_sums to = sums_of(s, set);
        if (!(to.head[HEAD_START] > 0)) continue;
        if (s->watch.data_noise) add_data_influences(s, &to, weight);
        add_observation(s, &to, weight);
    }
    return SOSMC_OK;
}

/* ---------------------------------------------------------------------------- reading */

int sosmc_i_watch_tail(const sosmc *s, watch_sums *out, const char **why)
{
    int64_t done = s->now->v.iteration;
    *why = s->watch.why_not;
    if (!s->watch.on) return -1;
    *why = "theta was followed for too few iterations: it takes more than 128";
    if (done <= 2 * WATCH_FIRST) return -1;
    int tail = octave(done / 2);
    *out = sums_of(s, tail % WATCH_SETS);
    if ((int64_t)out->head[HEAD_START] == (int64_t)1 << tail && out->head[HEAD_HESSIANS] >= 3) return 0;
    *why = s->now->v.updates < s->p.objective.ramp ? "the reward has not yet its whole weight (objective.ramp)"
                                                   : "the run goes on from a checkpoint that knew nothing of its past";
    return -1;
}

const sosmc_problem *sosmc_i_problem_of(const sosmc *s) { return &s->p; }
const sosmc_settings *sosmc_i_settings_of(const sosmc *s) { return &s->cfg; }
sosmc_status sosmc_i_failed(const sosmc *s) { return s->failed ? s->failed : s->interrupted; }
const sosmc_simd *sosmc_i_simd_of(const sosmc *s) { return s->simd; }
double sosmc_i_step_now(const sosmc *s) { return s->now->v.h; }

double sosmc_i_score_spread(const sosmc *s)
{
    const layout *l = &s->cut;
    double n = 0, mean = 0, square = 0;
    if (!s->now->c.R || l->particles < 2 * SOSMC_GROUPS) return NAN;
    for (int t = l->tile_lo; t < l->tile_hi; t++)
        for (int i = 0; i < l->count[t]; i++) {
            double away = row_at(s->now->c.R, l, t)[i] - mean;
            if (row_at(s->now->logw, l, t)[i] == -INFINITY) continue;
            mean += away / ++n;
            square += away * (row_at(s->now->c.R, l, t)[i] - mean);
        }
    return n > 0 ? sqrt(square / n) : NAN;
}
