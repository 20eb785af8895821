/* engine_inside.h: what the files of the engine share.
 *
 * The cloud is cut into tiles (the unit of callback and threading), tiles are grouped into blocks (the unit of summation
 * and of ownership by a rank). The cuts depend on the number of particles and the model alone, never on threads or ranks:
 *
 *     particles   0 1 2 3 | 4 5 6 7 | 8 9 10 11 | 12 13 14 15 | ...
 *     tiles           0   |    1    |     2     |      3      |
 *     blocks          0             |     1                   |
 *     ranks           0                                       | 1 ...
 *
 * A block is summed serially, tile after tile; blocks are folded by a fixed pairwise tree (reduce.c). */
#ifndef SOSMC_ENGINE_ENGINE_INSIDE_H
#define SOSMC_ENGINE_ENGINE_INSIDE_H

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/bounds.h"
#include "base/hash.h"
#include "base/arithmetic.h"
#include "base/table.h"
#include "base/threads.h"
#include "base/tiles.h"
#include "watch.h"

#define TRY(expression)                                \
    do {                                               \
        sosmc_status try_status = (expression);        \
        if (try_status != SOSMC_OK) return try_status; \
    } while (0)

enum { ALIGNMENT = 64, LANES = 8, MAX_RETRIES = 8, MAX_RANKS = 4096, MESSAGE = 512 };

/* How a set of particles is cut. Arrays have one entry per tile of the whole set. */
typedef struct {
    int64_t particles;
    int dim, ld, tiles, blocks;
    int tile;                                 /* particles in tile 0, which has as many as any */
    int tile_lo, tile_hi, block_lo, block_hi; /* what this rank owns */
    size_t vector;                            /* doubles per tile of one vector: dim * ld, rounded up to 8 */
    int *count;                               /* particles in tile t */
    int64_t *first;                           /* index of the tile's particle 0 */
    int *block_tile;                          /* block b is tiles block_tile[b] .. block_tile[b+1]-1 */
} layout;

/* Everything known about the particles of this rank's tiles, tile after tile. */
typedef struct {
    double *x, *gx, *aux; /* vectors: layout.vector doubles per tile (aux: kernel.aux of them) */
    double *U, *R, *Uref; /* rows of ld per tile: energy, score, reference energy */
} cloud;

/* The scalars that decide the future. */
typedef struct {
    int64_t iteration, updates, averaged;
    double h, rate;     /* kernel step; factor on the learning rate */
    double logz, logz0; /* running log Z; its value at the start */
    double logmean;     /* log of the mean of exp(logw) */
    int64_t cached;     /* U and gx belong to theta (1) or still to theta_prev (0) */
} vital;

/* All that a checkpoint holds. There are two: `now`, and `spare`, into which resampling and loading write. */
typedef struct {
    vital v;
    double *theta, *theta_prev, *slots, *average;
    cloud c;
    double *logw;         /* rows of ld per tile */
    double *pool;         /* scheme.pool rows of dim, where the scheme draws from a pool (has_pool) */
    unsigned char *fresh; /* per tile of this rank: work matches x and theta */
    double *watched;      /* WATCH_SETS sets of sums about the run, where it is watched; not part of the hash */
} state;

/* A set of particles as the objective sees it: the cloud itself, or the kept states of several sweeps. */
typedef struct {
    const layout *l;
    const cloud *c;
    double *w; /* rows of ld per tile */
} sample;

/* What went wrong in a task, told after the threads have met. */
typedef struct {
    sosmc_status status;
    const char *what;     /* "energy", "grad_theta", ...: the callback; or "U", "score": the value */
    int returned;         /* what the callback returned */
    int64_t particle;     /* the first particle of the batch, or the offender */
    double value, before; /* before: U before the move; NaN where there was no move */
    int initial;          /* it happened to an initial particle */
} fault;

/* One worker's own memory. */
typedef struct {
    double *tmp;           /* kernel scratch: vectors, then 4 rows */
    double *vec;           /* two vectors: a drawn batch and its gradient; then what its particles begin with (aux) */
    double *aside;         /* a tile's old x, gx and aux while the new ones are written */
    double *row;           /* rows of ld: ROW_COUNT of them */
    void *work, *work_ref; /* the model's scratch where nothing is parked, and for theta_ref */
} scratch;
enum { ROW_INC, ROW_LOGG, ROW_ACCEPT, ROW_ASIDE, ROW_U, ROW_A, ROW_B, ROW_COUNT };

/* What observed iterations need (watch.c). */
typedef struct {
    double *scratch, *D; /* of the scores; dim_theta rows of a tile */
    double *theta, *row; /* three vectors of dim_theta and four numbers; a number per moment particle */
    void *prep;
} watch_worker;
typedef struct {
    int on, observing, hessian; /* this iteration is observed; its Hessian is taken */
    const char *why_not;        /* the reason, where it is not on */
    int64_t spacing;            /* the most iterations between two observations, a power of two */
    int data_noise;             /* the data batch is drawn at random */
    int moment_tiles, difference_tiles,
        data_tiles;          /* particles whose D enters H; that are differenced; data likewise */
    int turn;                /* which tiles these are, moved on with every observation */
    int coordinates, stride; /* whose jumps are measured */
    double *moves;           /* per tile */
    size_t leaf, moment_ld;
    double *leaves;                         /* per block, of the cloud or of the data */
    double *moment_w, *moment_s, *moment_D; /* weights, scores and dim_theta rows of D of the moment particles */
    int *difference_tile;
    double *difference_c, *data_x;
    int64_t data_members;
    double *step, *fisher, *columns, *H; /* of dim_theta; dim_theta squared */
    watch_worker *worker;
} watch;

/* What the iteration under way began with, as far as it is a few numbers, and what else has been put where undo.c finds it. */
typedef struct {
    sosmc_info info;
    vital v;
    int dropped;
    int cloud, logw, theta, gradient, pool, watched;
} beginning;

/* Sums over the sample, in the order of table.h, then these. */
enum { SUM_ACCEPT = SUM_COUNT, SUM_ALL };
enum { DATA_U, DATA_REF, DATA_PENALTY, DATA_ALL };

struct sosmc {
    sosmc_problem p;
    bounded bounds; /* what the user gave, where x has bounds */
    sosmc_settings cfg;
    const sosmc_simd *simd;
    int nonfinite; /* the policy, default resolved */
    int weighted, uses_gradient, uses_reference;
    int relative_logz, absolute_logz;
    const char *why_no_loss;

    layout cut;   /* the cloud */
    layout kept;  /* the states of several sweeps, when scheme.keep > 1 */
    layout batch; /* the data batch */
    state state_a, state_b, *now, *spare;
    cloud held; /* where an iteration uses the spare cloud before its last callback: the cloud that it began with */
    beginning begin;
    int holding; /* the carry under way is the first of its iteration */
    int stale;   /* an iteration was taken back: `work` and both preps must be made again */
    cloud kept_cloud;
    sample seen;
    int seen_valid;    /* w and sums belong to the present cloud */
    double *logw_next; /* what a carry makes of logw */
    double *increment; /* log G of the carry under way, where it may be repeated; NULL otherwise */
    int pending;       /* logw has changed, and log Z not yet */
    int dropped;       /* there may be particles that lost their weight to a value that was not finite */
    void *prep, *prep_prev, *prep_ref;
    char *work; /* parked scratch of the first `parked` tiles of the whole cloud, as far as this rank has them */
    size_t work_stride; /* bytes per tile */
    int parked;

    double sums[SUM_ALL], data_sums[DATA_ALL];
    double *accept_sum, *tile_max; /* per tile of this rank */
    int *tile_bad;
    double *leaves;      /* per block: dim_theta partial gradients, or sums */
    double *data_leaves; /* per data block: dim_theta, then DATA_ALL */
    double *grad, *grad_before;
    double *theta_noise; /* where theta's updates have noise */

    double *pool_gather; /* with several ranks: all particles, to be written back to the pool */
    double *all_w, *resample_scratch;
    int *ancestors;
    double *packet_out, *packet_in; /* reduce.c, resampling and checkpoints between ranks */
    size_t packet_doubles;
    size_t *bytes_out, *bytes_in;
    double *record; /* one tile, packed */
    uint64_t *tile_hash;

    watch watch;
    scratch *worker;
    fault *faults; /* per task */
    crew *threads;
    sosmc_info info;
    uint32_t retry;
    int move_evaluates, move_steps, move_to_spare; /* what the current carry does */
    double move_h;
    char message[MESSAGE];
    int ready;                /* sosmc_create succeeded */
    sosmc_status failed;      /* a step that failed left the state in the middle of an iteration */
    sosmc_status interrupted; /* SOSMC_EMODEL: the last step was stopped by a callback, and taken back */
    atomic_int busy, refused; /* guard.c */

    void **owned; /* every allocation, for sosmc_free */
    int owned_count, owned_room;
    size_t bytes; /* of all of them; SIZE_MAX: more than can be counted */
    int measures; /* sosmc_memory: they are only counted */
};

/* engine.c */
sosmc_status sosmc_i_fail(const sosmc *s, sosmc_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* NULL, or what keeps theta from the domain of the optimiser's map. */
const char *sosmc_i_outside_mirror(const sosmc_optimiser *o, int dim, const double *theta, char *text, size_t room);
const char *sosmc_i_theta_words(const sosmc *s, char *text, size_t room); /* the first few numbers */
sosmc_status sosmc_i_report(sosmc *s, sosmc_status status, int tasks);    /* turns the first fault into a message */

/* A callback of a task returned non-zero: notes it and returns SOSMC_EMODEL. */
sosmc_status sosmc_i_broken(sosmc *s, int task, const char *what, int returned, int64_t particle);

/* guard.c. A call that changes the engine or its buffers stands between enter and leave, one that reads it between the others. Where
 * enter refuses, the call returns at once. */
extern const char *const SOSMC_I_REFUSED;
sosmc_status sosmc_i_enter(const sosmc *s);
sosmc_status sosmc_i_leave(const sosmc *s, sosmc_status status); /* returns the status */
sosmc_status sosmc_i_here(sosmc *s);                             /* whether the engine's threads are in this process */

/* undo.c: what changes the state calls the one of these that it concerns before */
void sosmc_i_begin(sosmc *s); /* an iteration */
void sosmc_i_begin_theta(sosmc *s);
void sosmc_i_begin_watched(sosmc *s);
void sosmc_i_begin_gradient(sosmc *s);
cloud *sosmc_i_held(sosmc *s); /* where the first carry of an iteration puts the tiles as it found them */
void sosmc_i_take_back(sosmc *s);
/* `work` and both preps from x and theta; `whose` theta it is, for the message. */
sosmc_status sosmc_i_refresh(sosmc *s, const char *whose);

/* setup.c */
sosmc_status sosmc_i_setup(sosmc *s); /* validate, cut, allocate */

/* cloud.c: addresses; t counts tiles of the whole set, which this rank must own */
sosmc_batch sosmc_i_batch(const sosmc *s, const layout *l, int t, const double *x);
static inline double *vector_at(double *base, const layout *l, int t)
{
    return base + (size_t)(t - l->tile_lo) * l->vector;
}
static inline double *row_at(double *base, const layout *l, int t)
{
    return base + (size_t)(t - l->tile_lo) * (size_t)l->ld;
}
/* The same for what not every problem has: NULL stays NULL. */
static inline double *optional_row(double *base, const layout *l, int t) { return base ? row_at(base, l, t) : NULL; }
static inline int tile_of(const layout *l, int64_t particle) { return (int)(particle / l->tile); }
/* The first tile of block b, of which `blocks` is the end. */
static inline int first_tile(const layout *l, int b) { return (int)((int64_t)l->tiles * b / l->blocks); }
static inline int longest_row(const sosmc *s)
{
    int ld = s->cut.ld > s->batch.ld ? s->cut.ld : s->batch.ld;
    if (s->kept.ld > ld) ld = s->kept.ld;
    return ld > LANES ? ld : LANES;
}
static inline double *worker_row(const sosmc *s, int worker, int row)
{
    double *rows = s->worker[worker].row;
    assert(rows);
    return rows + (size_t)row * (size_t)longest_row(s);
}
/* Whether the model's scratch of tile t stays until the gradient is taken; else it is the worker's, soon overwritten. */
static inline int parks(const sosmc *s, int t) { return t < s->parked; }
static inline int has_pool(const sosmc_scheme *c)
{
    return c->pool > c->particles || c->pool_rule == SOSMC_POOL_NEWEST;
}
void sosmc_i_rank_particles(const layout *l, int rank, int size, int64_t *lo, int64_t *hi);
/* Gives the batch the parked scratch of tile t, or the worker's own; tile t + 1 is the one a worker comes to next. */
void sosmc_i_lend_work(const sosmc *s, int t, int worker, sosmc_batch *b);
size_t sosmc_i_record_doubles(const sosmc *s, int n); /* one packed tile of n particles */
void sosmc_i_pack(const sosmc *s, const state *st, int t, double *record);
void sosmc_i_unpack(const sosmc *s, state *st, int t, const double *record);
sosmc_status sosmc_i_gather_cloud(sosmc *s); /* spare cloud = now cloud by s->ancestors, between ranks too */

/* move.c */
sosmc_status sosmc_i_start(sosmc *s);                         /* iteration 0: draw and weigh with W_0 */
sosmc_status sosmc_i_carry(sosmc *s, int evaluate, int step); /* to theta, and through the kernel */
void sosmc_i_pool_take_back(sosmc *s);                        /* what this iteration wrote to the pool */

/* weights.c */
sosmc_status sosmc_i_measure(sosmc *s); /* w and the sums; after a reweighing log Z too */
/* The effective sample size of the measured weights. */
double sosmc_i_ess(const sosmc *s);
sosmc_status sosmc_i_resample_cloud(sosmc *s);

/* estimate.c */
sosmc_status sosmc_i_estimate(sosmc *s);
int sosmc_i_replace_weightless(sosmc *s, int worker, int t, sosmc_batch *b);

/* watch.c: called at the start of a step, in the tasks of a move, after a move, after the gradient, after resampling */
void sosmc_i_watch_begin(sosmc *s);
void sosmc_i_watch_move(sosmc *s, int task, const double *x, const double *gx, const double *x_new);
void sosmc_i_watch_moved(sosmc *s);
sosmc_status sosmc_i_watch_observe(sosmc *s);
void sosmc_i_watch_resampled(sosmc *s);
size_t sosmc_i_watch_leaf(int dim_theta);

/* fingerprint.c: SOSMC_OK where all ranks were given the same problem, settings and theta; the same state, by its hash */
sosmc_status sosmc_i_same_run(sosmc *s);
sosmc_status sosmc_i_same_state(sosmc *s, uint64_t hash);

/* checkpoint.c: sosmc_save and sosmc_load for those who are inside */
sosmc_status sosmc_i_save(sosmc *s, sosmc_write put, void *ctx);
sosmc_status sosmc_i_load(sosmc *s, sosmc_read get, void *ctx);

/* reduce.c */
sosmc_status sosmc_i_reduce(sosmc *s, const layout *l, double *leaves, size_t len, sosmc_status local);
sosmc_status sosmc_i_agree(sosmc *s, sosmc_status local, double *max, int64_t *bad);
size_t sosmc_i_reduce_packet(const layout *l, size_t len);
int sosmc_i_rank_bound(int blocks, int rank, int size); /* first block of a rank */
static inline int ranks(const sosmc *s) { return s->cfg.comm.size > 1 ? s->cfg.comm.size : 1; }

#endif
