/* solve_inside.h: what the files of the solver share.
 *
 *     solver.c    the public functions, the phases and the limits
 *     ending.c    a long step that is ended before it is done
 *     cloud.c     weighted particles in groups: evaluation, moves, resampling
 *     walls.c     jumps of U, and energies that depend on the batch
 *     metric.c    what is fitted on particles and applied to others: the coordinates of the moves, the shift with theta
 *     places.c    modes from nothing, and the laws around them
 *     start.c     a weighted cloud at a theta, by tempering
 *     look.c      the loss near theta as a cloud sees it, with its gradient
 *     search.c    theta to the minimum of that, the cloud behind it
 *     measure.c   rounds at a fixed theta, Newton steps, errors
 *     learn.c, learn_data.c, learn_check.c, learn_far.c  the search for networks, whose parameters are too many for a Hessian: updates, points and laws,
 *                 the end, and what no particle has seen
 *     answer.c    the numbers of the last pass, and the solution
 *     keep.c      save, load, hash
 *
 * Particles are numbered; group k holds numbers k n/8 to (k+1) n/8 - 1, cut into tiles of its own, so that a tile never holds
 * particles of two groups. The first four groups are one half, the last four the other. */
#ifndef SOSMC_SOLVE_INSIDE_H
#define SOSMC_SOLVE_INSIDE_H

#include <sosmc/solve.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "analysis/host.h"
#include "base/bounds.h"
#include "base/threads.h"
#include "base/tiles.h"
#include "temper/laws.h"
#include "temper/pass.h"
#include "temper/tile.h"

enum { GROUPS = 8, HALF = GROUPS / 2, CLOUDS = 2, SEARCHED = 0, FRESH = 1 };
enum { PLACES_MOST = 40, PLACES_KEPT = 16, SEEDS = 4 };
enum {
    FULL = LAW_FULL,
    SHIFTED = 600,
    MOST_DOF = 256
}; /* the largest dimension with full matrices; degrees of freedom of a Student law */
enum { BATCH_ENERGY = 1, BATCH_SCORES = 2 }; /* U or dU/dx; dU/dtheta */
enum { MESSAGE_ROOM = 400, HESSIANS = 16 };
/* Clouds that have been measured before, and the two of now. */
enum { KEPT = 30, ENTRIES = KEPT + CLOUDS };

/* Streams of random numbers, between the judge's and a user's. Every draw has a step of its own: the solver's clock. */
enum { STREAM_LAW = 32, STREAM_STRETCH, STREAM_MOVE, STREAM_ACCEPT, STREAM_RESAMPLE, STREAM_PLACES, STREAM_DATA };

/* A run of groups, of which the first part and the second are fitted on each other. */
typedef struct {
    int first, middle, end;
} groups;
static const groups ALL = {0, HALF, GROUPS};

/* Weighted particles. */
typedef struct {
    double *x, *g; /* tiles: places, dU/dx */
    double *U;     /* energies, infinite where they are no number */
    double *logw;  /* log-weights: relative in the search, absolute behind a start */
    double *w;     /* weights that sum to 1, of the range that was weighed last */
    double *R, *Uref;
} cloud;

/* The coordinates in which a range of groups moves: coordinates[0] of the first part are fitted on the second, and conversely. */
typedef struct {
    preconditioner c[2];
    double *inverse[2]; /* reciprocals of the diagonals */
    double h;           /* of the tile code: the step squared, halved */
    int walk;           /* a random walk of many scales, which asks for no slopes */
} metric;

/* x goes to x - K (theta' - theta): K[0] for the first half, K[1] for the second; dim_x rows of dim_theta. */
typedef struct {
    int active;
    double *K[2];
} shift;

typedef struct {
    int count, many;                                          /* many: there may be more than so many */
    double *x[PLACES_MOST], *L[PLACES_MOST], *P[PLACES_MOST]; /* where; factors of covariance and precision */
    double mass[PLACES_MOST];                                 /* log mass by Laplace's approximation */
} places;

/* What is known of the answer, as measured. */
typedef struct {
    int64_t measured, unresolved, negative, vertex, at_bound, converged;
    int64_t downhill;  /* directions without curvature along which the loss falls beyond doubt */
    int64_t runs_away; /* the parameter, counted from 1, with the sign of its direction; 0: none */
    int64_t falls;     /* the loss falls further there, as far as the clouds see */
    double excess, predicted, hides, wanted; /* in the loss */
    int64_t hides_where;
    int64_t worst; /* where searched and fresh particles differ most; -1: nowhere */
    double worst_step, worst_error, worst_limit, worst_worth;
    int64_t newton_worst;
    double newton_worst_step, newton_worst_error;
    /* of the curvature along a direction, relative: what half the difference changes; its error. 0: little */
    double bent, blunt;
    int64_t bent_where, blunt_where, off_where;
    double off, off_worth; /* how far the last step is off as the loss is no quadratic; its worth, 0: little */
} findings;

/* Everything that is plain numbers and decides where the solver goes; saved as it is. */
typedef struct {
    int64_t phase, step, updates, temperatures, clock, start_clock;
    int64_t evaluations, contractions;
    int64_t part; /* of a start: which law; of measuring: what comes next */
    int64_t stage, round, rounds, hessians, moves, quiet, stages_after;
    double t, seconds;
    double decrease, gain, accept, mobility, cess, h;
    double start_log_z[CLOUDS][GROUPS]; /* by group, behind each start */
    int64_t arrived[CLOUDS], modes[CLOUDS], out_of_updates;
    int64_t many[CLOUDS]; /* there are more modes than PLACES_MOST */
    double reach;         /* of the last jumps, as reach_of in cloud.c says */
    int64_t has_bfgs, has_unit, begun;
    int64_t starting; /* of measuring: the cloud that is being started, or -1 */
    int64_t
        exchanges; /* how often groups of the searched cloud exchanged particles, so that their scatter tells too little; or that fresh ones contradict it */
    int64_t kept;  /* clouds that were measured before */
    int64_t drifts,
        drifts_where; /* stages in a row in which that parameter made a step of many errors, no shorter than before */
    double drift;     /* the last of these steps */
    int64_t fishers;  /* Hessians of this stage */
    int64_t each, partial, pools; /* Hessians to a slot, in the unfinished one; whether the next stage adds to them */
    double closer;                /* lengths of differences, over the usual ones */
    int64_t freedom;              /* degrees of freedom of theta's error */
    double path, marked; /* how far theta has gone since then, in units of the metric; the decrease until then */
    double moves_wanted, reward_spread, last_excess, radius, group_ess[CLOUDS];
    findings found;
    /* of walls.c; what is counted from 1 is 0 where there is none */
    int64_t walls; /* how often new coordinates with a wall were found */
    int64_t wall_where, wall_moves,
        wall_minus;                           /* coordinate of the last; parameter that moves one; U = -inf was seen */
    double wall_place, wall_jump, wall_power; /* of the last; c where U is c log(distance) at a wall */
    int64_t batch;                            /* what depends on the batch: BATCH_... */
    int64_t pass_done;
    double pass_arrived, pass_survivors, pass_khat;
    int64_t pass_particles, pass_temperatures;
    double behind, behind_error;
    sosmc_number loss, log_z, kl, reward, best_loss_told, best_reward, best_kl, excess_told;
    double to_gain;
    /* of the search for networks: share of jumps that were accepted; loss of the average, measured last, and the smallest so far */
    double jumped, rate, fresh_loss, fresh_error, best_loss, best_error, first_loss, first_error;
    int64_t best_tempered, first_tempered; /* how the smallest and the first were measured */
    /* of rewards: how far the loss of the average is above that of the best of all densities, and where that was at first; the cloud's own */
    double excess, excess_error, first_excess, cloud_reward;
    double checked_log_z, checked_log_z_error; /* of the answer, as the search saw it */
    int64_t cuts, averaged, tempered,
        poor; /* of the rate; updates in the average; how it was measured last; checks without a gain */
} plain;

/* What is between the user's model and the solver, so that a step can be ended (ending.c). */
typedef struct {
    sosmc_model model;
    const sosmc_solver *solver;
    pthread_t thread;                   /* that of the step */
    double begun, looked, asked, spent; /* by the clock; the last: seconds of the steps before */
    int calls;                          /* until the next look */
    int active;                         /* a step is under way */
    atomic_int ended;
} step_end;

struct sosmc_solver {
    sosmc_problem problem;
    bounded bounds; /* what the user gave, where x has bounds or the slopes are differences */
    step_end end;
    sosmc_solve_options o;
    sosmc_status failed;
    sosmc_status
        interrupted; /* of the last step, which a callback stopped and which was taken back; the next one clears it */
    int stale;       /* what follows from the state (prepared models, laws) must be made again before the next step */
    char *before;    /* the state at the start of a step */
    char message[MESSAGE_ROOM];
    sosmc_solve_info info;
    int ready, inside; /* inside: a step is under way */
    int not_crossed; /* for the test that shows what becomes of a solver that fits and applies on the same particles */
    const sosmc_simd *simd;
    const tile_code *code;
    /* shape */
    int n, group, tile, tiles_per_group, tiles, dim, p;
    size_t vector;
    host at, trial, ref; /* the model at theta, at a theta that is tried, at the reference */
    crew *helpers;
    void *helpers_memory;
    double *memory;
    plain v;
    double *theta, *theta0, *try_theta, *answer; /* the last: theta behind the Newton step of the last stage */
    cloud c[CLOUDS];
    metric m, start_metric;
    /* of networks */
    int network;
    double *slots;   /* of the optimiser: 2 p */
    double *average; /* p: the exponential average of theta */
    double
        *shares; /* SHARES + BATCH_TILES rows of p: sums of dU/dtheta over shares of particles and tiles of the batch */
    int batch_tiles; /* of an update */
    int64_t fit_rows,
        check_rows; /* of the data: those that steer theta; those that only tell when to end, 0: the first do */
    int fit_tiles, check_tiles; /* the second begin with a tile of their own */
    /* of a start */
    laws q[2];
    double *Lq, *gq;
    places found[CLOUDS];
    /* of the search */
    double *unit, *bfgs;       /* units of theta, the inverse Hessian in theta's own units */
    double *complete;          /* p x p: second derivatives of the mean energy, the complete-data information */
    double *first_unit, *mark; /* the units of the first update; theta some updates ago */
    shift k[CLOUDS];
    double *best_x, *best_g, *best_U, *look_x, *look_g, *look_U, *coefficient, *lw, *value;
    /* data */
    host data;
    int64_t data_points, data_share; /* random draws are split among the groups; fixed rows are not */
    int data_shares, tiles_per_share;
    double *data_x; /* tiles */
    double *data_U;
    double *data_s;                      /* of networks with a reward: R - beta U_ref */
    double best_log_z, best_log_z_error; /* ... of the best of all densities, as it was drawn */
    /* of measuring */
    double *entry_theta, *entry_g, *entry_d; /* ENTRIES rows of p; of p; GROUPS rows of p each: deviations of groups */
    double *sums[CLOUDS];    /* GROUPS rows of p: sums of the groups' gradients over the rounds of a stage */
    double *group_w[CLOUDS]; /* GROUPS weights */
    double *walled; /* dim: whether U jumps across a coordinate; then the lowest place of a jump, the highest */
    double *paths;  /* of moves, for walls.c */
    double *hessian, *fisher;          /* HESSIANS matrices p x p; p x p */
    double *bend;                      /* p x p: what half the difference changes of a Hessian */
    double *seen;                      /* p: effective number of particles that carry the variation of each parameter */
    double *cov, *inverse, *error, *H; /* of the answer */
    /* scratch */
    double *partial; /* a row of `row` numbers for each tile */
    size_t row;
    double *D;       /* n rows of p */
    double *spare;   /* tiles */
    double *scratch; /* 2 n + 1 */
    double *accepted;
    int *ancestor;
    double *small; /* 8 p^2 + 16 p + 4 d p */
    double *room;  /* of the workers */
    size_t room_each;
};

sosmc_status sosmc_i_solver_fail(sosmc_solver *s, sosmc_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void sosmc_i_solver_note(sosmc_solver *s);                       /* s->info from the state */
sosmc_rng sosmc_i_solver_name(sosmc_solver *s, uint32_t stream); /* the name of the next draw */

/* Calls `visit` for every array: its address, its number of doubles, and whether it is state, which is saved and taken back with a step. */
typedef void array_visitor(void *ctx, double **where, size_t doubles, int state);
void sosmc_i_solver_arrays(sosmc_solver *s, array_visitor *visit, void *ctx);

/* ---------------------------------------------------------------------------- keep.c */

void sosmc_i_solver_keep(sosmc_solver *s);      /* s->before becomes the state */
void sosmc_i_solver_take_back(sosmc_solver *s); /* the state becomes s->before, and stale */
sosmc_status sosmc_i_solver_wake(
    sosmc_solver *s); /* makes what follows from the state; clears `stale` unless a callback fails */

/* ---------------------------------------------------------------------------- cloud.c */

static inline int tile_count(const sosmc_solver *s, int tile)
{
    int at = tile % s->tiles_per_group * s->tile;
    return s->group - at < s->tile ? s->group - at : s->tile;
}
static inline int64_t tile_first(const sosmc_solver *s, int tile)
{
    return (int64_t)(tile / s->tiles_per_group) * s->group + (int64_t)(tile % s->tiles_per_group) * s->tile;
}
static inline int tile_with(const sosmc_solver *s, int i)
{
    return i / s->group * s->tiles_per_group + i % s->group / s->tile;
}
/* Where coordinate 0 of particle i stands in tiles. */
static inline size_t particle_at(const sosmc_solver *s, int i)
{
    return (size_t)tile_with(s, i) * s->vector + (size_t)(i % s->group % s->tile);
}
static inline double *tile_of(const sosmc_solver *s, double *x, int tile) { return x + (size_t)tile * s->vector; }
sosmc_batch sosmc_i_solver_batch(const sosmc_solver *s, const host *h, int worker, int tile);
double *sosmc_i_solver_vector(const sosmc_solver *s, int worker, int which);
double *sosmc_i_solver_row(const sosmc_solver *s, int worker, int which);
enum { VECTOR_STEP, VECTOR_SLOPE, VECTOR_PLACE, VECTOR_GRADIENT, VECTOR_LAW, VECTOR_BEFORE, VECTORS };
enum { ROW_ENERGY, ROW_LAW, ROW_UNIFORM, ROW_OTHER, ROWS };

/* U and, unless g is NULL, dU/dx at the batch; what is no number is an infinite energy without a slope. */
int sosmc_i_solver_energy(const sosmc_solver *s, const double *theta, const sosmc_batch *b, double *U, double *g,
                          double *row);
/* U and, unless `slopes` is 0, g of the whole cloud at the theta of the host. */
sosmc_status sosmc_i_solver_evaluate(sosmc_solver *s, cloud *c, host *h, const double *theta, int slopes);
/* c->w and the effective sample size of a range. */
double sosmc_i_solver_weights(const sosmc_solver *s, cloud *c, groups r);
double sosmc_i_log_sum(const sosmc_simd *simd, int n, const double *x, double *work);
/* Within groups whose effective size is below half; across groups too, where these have become unequal and the search is not over.
 * law: Lq and gq too. */
sosmc_status sosmc_i_solver_resample(sosmc_solver *s, cloud *c, groups r, int law);
/* Of the whole cloud, where its effective sample size is below half. */
sosmc_status sosmc_i_solver_resample_all(sosmc_solver *s, cloud *c);
/* Moves at temperature t (1: the model alone); the step follows the acceptance where `adapt`. Sets v.accept and v.mobility. */
sosmc_status sosmc_i_solver_move(sosmc_solver *s, cloud *c, groups r, metric *m, double t, int moves, int adapt);
/* How often every particle jumps before its moves, where there are more modes than are listed: then along a third of the coordinates, and
 * along each once where theta rests. Else never. */
int sosmc_i_solver_jumps(const sosmc_solver *s);
pool sosmc_i_solver_pool(const sosmc_solver *s, const cloud *c, int first, int end); /* of the groups */
sosmc_status sosmc_i_solver_rewards(sosmc_solver *s, cloud *c);
/* moves so that the last state is half forgotten; not bounded above */
double sosmc_i_moves_wanted(double mobility);

/* ---------------------------------------------------------------------------- walls.c */

size_t sosmc_i_paths_doubles(const sosmc_solver *s); /* of s->paths */
/* Stores some of the moves of a tile before they are accepted or not; r is a row of scratch. */
void sosmc_i_paths_store(const sosmc_solver *s, int tile, const sosmc_batch *b, const tile_points *at,
                         const tile_points *to, const double *w, uint64_t step, double *r);
/* Looks for jumps of U on the stored paths, which are then cleared; *found: in a coordinate that was not known. */
sosmc_status sosmc_i_walls_find(sosmc_solver *s, int *found);
/* Compares U, g and D of some particles at s->theta with those in other batches; s->D has to be that of c. */
sosmc_status sosmc_i_batches_compare(sosmc_solver *s, const cloud *c);

/* ---------------------------------------------------------------------------- ending.c */

double sosmc_i_seconds_now(void);
void sosmc_i_ending_open(sosmc_solver *s);  /* puts s->end between the model and the solver */
void sosmc_i_ending_begin(sosmc_solver *s); /* of a step */
int sosmc_i_ending_close(sosmc_solver *s);  /* whether the step was ended */

/* ---------------------------------------------------------------------------- metric.c */

/* sums of 8 accumulators, element i in accumulator i mod 8 */
double sosmc_i_dot8(int n, const double *a, const double *b);
/* Fits both parts' coordinates on each other, from the gradients of the law at temperature t under c->w. */
sosmc_status sosmc_i_metric_fit(sosmc_solver *s, metric *m, cloud *c, groups r, double t);
/* D = dU/dtheta of every particle at s->theta. */
sosmc_status sosmc_i_solver_scores(sosmc_solver *s, cloud *c);
/* Coefficients of the shift, from s->D: of each half for the other (cross), or of the whole cloud in K[0] and K[1]. */
sosmc_status sosmc_i_shift_fit(sosmc_solver *s, shift *k, cloud *c, int cross);

/* ---------------------------------------------------------------------------- places.c, start.c */

/* Modes of pi_theta, found from `seeds` points (rows of dim) and from what is known of the problem. */
sosmc_status sosmc_i_places_find(sosmc_solver *s, places *p, const double *theta, int seeds, const double *seed);
void sosmc_i_places_free(places *p);
/* Laws A and B around the modes. */
sosmc_status sosmc_i_places_laws(sosmc_solver *s, const places *p, laws q[2]);

/* Begins a start of the cloud at s->theta: modes, laws, draws. Then one temperature after the other; *done when it has arrived. */
sosmc_status sosmc_i_start_begin(sosmc_solver *s, int which);
sosmc_status sosmc_i_start_laws(sosmc_solver *s, int which); /* the laws alone, behind a load */
sosmc_status sosmc_i_start_step(sosmc_solver *s, int which, int *done);
/* log Z of laws A and B and the error of their difference. */
void sosmc_i_start_gap(const sosmc_solver *s, int which, double *gap, double *error);

/* ---------------------------------------------------------------------------- look.c */

/* What a cloud at s->theta says about another theta. */
typedef struct {
    cloud *c;
    const shift *k;
    int every, phase;    /* only tiles with number mod every = phase; 1, 0: all */
    int particles_alone; /* the data are left out */
    double loss, cess;
} look;
static const double LENGTH_OF_DIFFERENCE = 0.05; /* of theta, in standard deviations by the information at hand */
/* Fills the data points of this iteration: fixed rows as they are, or a draw of its own. */
sosmc_status sosmc_i_data_draw(sosmc_solver *s);
/* loss relative to that at s->theta up to a constant, conditional effective sample size (a share), gradient unless NULL; leaves
 * places, slopes and energies in s->look_*. */
sosmc_status sosmc_i_look(sosmc_solver *s, look *l, const double *theta, double *gradient);
/* Whether the loss changes when a function of theta alone is added to U, as that of marginal likelihoods does. */
static inline int uses_energy(const sosmc_solver *s) { return s->problem.objective.a + s->problem.objective.b != 0; }
/* s->complete from a share of the particles at s->theta, under c->w: differences of the mean of dU/dtheta over the same particles and
 * weights, hence without noise. F: Cov(D), which with C gives the length of the differences. */
sosmc_status sosmc_i_complete(sosmc_solver *s, cloud *c, const double *F);
int sosmc_i_share(const sosmc_solver *s); /* every so many tiles are such a share */
/* mean of U over the data points, and of dU/dtheta unless NULL */
sosmc_status sosmc_i_data_mean(sosmc_solver *s, const double *theta, double *mean, double *gradient);

/* ---------------------------------------------------------------------------- learn.c */

enum { SHARES = 16, BATCH_TILES = 8, LEARN_DRAWN = 8192 }; /* the last: points that are drawn for a reward */
/* Whether a network is tuned towards a reward; else it is fitted to data. */
static inline int tunes(const sosmc_solver *s) { return s->network && s->problem.objective.kl != 0; }
/* NULL, or why the search for networks does not take the problem. */
const char *sosmc_i_learn_refused(const sosmc_problem *problem);
sosmc_status sosmc_i_learn_laws(sosmc_solver *s, laws *q, int with_cloud); /* what fresh particles start from */
/* Adds to a law what the network may have at points that the law does not expect. */
sosmc_status sosmc_i_learn_far(sosmc_solver *s, laws *q, const double *theta);
/* The points that steer, rows of dim, as one array that the caller frees. */
sosmc_status sosmc_i_learn_points(const sosmc_solver *s, double **out);
/* How far the answer, whose log Z is given, is behind simple laws at rows that do not steer. */
sosmc_status sosmc_i_learn_beside(sosmc_solver *s, double log_z);
sosmc_status sosmc_i_learn_data(sosmc_solver *s);  /* takes or draws the points, in an order of its own */
size_t sosmc_i_learn_bytes(const sosmc_solver *s); /* ... and what that takes beside the solver */
sosmc_batch sosmc_i_learn_batch(const sosmc_solver *s, int worker, int64_t tile); /* rows of a tile */
/* The mean of U at theta over the rows that tell when to end. */
sosmc_status sosmc_i_learn_check(sosmc_solver *s, const double *theta, double *mean);
double sosmc_i_learn_width(const sosmc_solver *s, int j); /* of the data, in coordinate j */
/* U of the points of so many tiles, from the first on and round, into data_U; the host of data is at theta. */
sosmc_status sosmc_i_learn_energies(sosmc_solver *s, const double *theta, int64_t first, int tiles);
/* Measures the average of theta; *done: the search is over. */
sosmc_status sosmc_i_learn_look(sosmc_solver *s, int *done);
double sosmc_i_learnt(const sosmc_solver *s);                         /* how far the loss has surely fallen */
sosmc_status sosmc_i_learn_no_reward(sosmc_solver *s, double reward); /* fails: a reward that is no finite number */
double sosmc_i_learn_wanted(const sosmc_solver *s);                   /* what may be left of a reward; NaN: not one */
void sosmc_i_learn_begin(sosmc_solver *s);
sosmc_status sosmc_i_learn_step(sosmc_solver *s, int *done);

/* ---------------------------------------------------------------------------- the phases */

sosmc_status sosmc_i_search_step(sosmc_solver *s, int *done);
void sosmc_i_measure_begin(sosmc_solver *s);
sosmc_status sosmc_i_measure_step(sosmc_solver *s, int *done);
double sosmc_i_wanted(const sosmc_solver *s); /* what may be left of the loss */
double sosmc_i_little(const sosmc_solver *s);
sosmc_status sosmc_i_answer_pass(sosmc_solver *s);
/* What a solver of this shape takes for its answer, and to read a saved state, in bytes. */
size_t sosmc_i_answer_bytes(const sosmc_solver *s);
size_t sosmc_i_solver_state_bytes(sosmc_solver *s);
sosmc_status sosmc_i_answer(const sosmc_solver *s, sosmc_solution *out);

#endif
