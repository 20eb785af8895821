/* reduce.c: sums over blocks with a shape that depends on nothing but the number of blocks.
 *
 * Leaf b holds block b's partial sums. The pairwise tree adds leaf k+s to leaf k for s = 1, 2, 4, ... and k a multiple of
 * 2s; leaf 0 ends as the total. A rank folds the subtrees that lie wholly in its own run of blocks, hands up their roots,
 * and every rank finishes the same tree over all roots: the additions are the same for any number of ranks or threads. */
#include "engine_inside.h"

enum { COLUMNS = 4096 }; /* long leaves are folded by column ranges in parallel */

int sosmc_i_rank_bound(int blocks, int rank, int size) { return (int)((int64_t)blocks * rank / size); }

typedef struct {
    double *leaves;
    size_t len;
    int blocks, size, rank; /* rank < 0: fold the pairs that no rank owns alone */
} fold;

static int within(const fold *f, int rank, int from, int to)
{
    return from >= sosmc_i_rank_bound(f->blocks, rank, f->size) &&
           to <= sosmc_i_rank_bound(f->blocks, rank + 1, f->size);
}

/* Whether the pair that makes node [k, k + 2s) is added in this pass. */
static int mine(const fold *f, int k, int s)
{
    int end = k + 2 * s < f->blocks ? k + 2 * s : f->blocks;
    if (f->rank >= 0) return within(f, f->rank, k, end);
    for (int r = 0; r < f->size; r++)
        if (within(f, r, k, end)) return 0;
    return 1;
}

static sosmc_status fold_columns(void *ctx, int task, int worker)
{
    const fold *f = ctx;
    size_t from = (size_t)task * COLUMNS, to = from + COLUMNS < f->len ? from + COLUMNS : f->len;
    for (int s = 1; s < f->blocks; s *= 2)
        for (int k = 0; k + s < f->blocks; k += 2 * s) {
            if (!mine(f, k, s)) continue;
            double *restrict a = f->leaves + (size_t)k * f->len;
            const double *restrict b = f->leaves + (size_t)(k + s) * f->len;
            for (size_t i = from; i < to; i++) a[i] += b[i];
        }
    return SOSMC_OK;
}

static void fold_all(crew *threads, fold *f)
{
    (void)sosmc_i_parallel(threads, fold_columns, f, (int)((f->len + COLUMNS - 1) / COLUMNS));
}

/* The end of the largest node of the tree that starts at block k and lies below hi. */
static int node_end(int blocks, int k, int hi)
{
    int size = 1;
    while (k % (2 * size) == 0 && (k + 2 * size <= hi || (hi == blocks && k + size < blocks))) size *= 2;
    return k + size < hi ? k + size : hi;
}

static int root_limit(int blocks)
{
    int levels = 1;
    while ((1 << levels) < blocks) levels++;
    return 2 * levels + 2;
}

size_t sosmc_i_reduce_packet(const layout *l, size_t len) { return 1 + (size_t)root_limit(l->blocks) * len; }

static sosmc_status allgather(sosmc *s, const double *out, size_t doubles, double *in)
{
    const sosmc_comm *c = &s->cfg.comm;
    if (c->allgather(c->self, out, doubles * sizeof(double), in) == 0) return SOSMC_OK;
    return sosmc_i_fail(s, SOSMC_ECOMM, "iteration %lld: the communicator's allgather failed on rank %d",
                        (long long)s->now->v.iteration, c->rank);
}

/* The first failure in rank order wins, so that all ranks return the same status. */
static sosmc_status agree(sosmc *s, sosmc_status local, const double *in, size_t doubles)
{
    for (int r = 0; r < s->cfg.comm.size; r++) {
        sosmc_status theirs = (sosmc_status)in[(size_t)r * doubles];
        if (theirs == SOSMC_OK) continue;
        if (local != SOSMC_OK) return local == theirs ? local : theirs;
        return sosmc_i_fail(s, theirs, "iteration %lld: rank %d stopped with %s", (long long)s->now->v.iteration, r,
                            sosmc_status_name(theirs));
    }
    return SOSMC_OK;
}

sosmc_status sosmc_i_reduce(sosmc *s, const layout *l, double *leaves, size_t len, sosmc_status local)
{
    int size = ranks(s);
    fold f = {.leaves = leaves, .len = len, .blocks = l->blocks, .size = size, .rank = size > 1 ? s->cfg.comm.rank : 0};
    if (local == SOSMC_OK) fold_all(s->threads, &f);
    if (size == 1) return local;

    size_t doubles = sosmc_i_reduce_packet(l, len);
    s->packet_out[0] = (double)local;
    double *out = s->packet_out + 1;
    for (int k = l->block_lo; k < l->block_hi; k = node_end(l->blocks, k, l->block_hi), out += len)
        memcpy(out, leaves + (size_t)k * len, len * sizeof(double));
    TRY(allgather(s, s->packet_out, doubles, s->packet_in));
    TRY(agree(s, local, s->packet_in, doubles));
    for (int r = 0; r < size; r++) {
        const double *in = s->packet_in + (size_t)r * doubles + 1;
        int hi = sosmc_i_rank_bound(l->blocks, r + 1, size);
        for (int k = sosmc_i_rank_bound(l->blocks, r, size); k < hi; k = node_end(l->blocks, k, hi), in += len)
            memcpy(leaves + (size_t)k * len, in, len * sizeof(double));
    }
    f.rank = -1;
    fold_all(s->threads, &f);
    return SOSMC_OK;
}

/* Needs none of the engine's memory: a rank that could not have it must be able to say so. */
sosmc_status sosmc_i_agree(sosmc *s, sosmc_status local, double *max, int64_t *bad)
{
    enum { STATUS, MAX, BAD, DOUBLES };
    double in[DOUBLES * MAX_RANKS];
    const double out[DOUBLES] = {(double)local, *max, (double)*bad};
    if (ranks(s) == 1) return local;
    TRY(allgather(s, out, DOUBLES, in));
    TRY(agree(s, local, in, DOUBLES));
    *bad = 0;
    for (int r = 0; r < s->cfg.comm.size; r++) {
        const double *theirs = in + (size_t)r * DOUBLES;
        if (theirs[MAX] > *max) *max = theirs[MAX];
        *bad += (int64_t)theirs[BAD];
    }
    return SOSMC_OK;
}
