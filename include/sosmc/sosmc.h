/* sosmc.h: stochastic optimisation via sequential Monte Carlo.
 *
 * Minimise l(theta) when grad l(theta) = E[H_theta(x)], x ~ pi_theta, and pi_theta is proportional to exp(-U_theta):
 * one cloud of weighted particles travels with theta. You describe the target with two batched callbacks, choose
 * an objective, a scheme, a kernel and an optimiser (all of them plain values), and call sosmc_run.
 *
 * This header is the reference manual. The equations behind it are in docs/maths.md under the labels quoted here.
 *
 * Rules that hold everywhere:
 *   - structs are copied by sosmc_create; what they point to is borrowed until sosmc_free;
 *   - functions that can fail return sosmc_status, and sosmc_message says in words what happened;
 *   - callbacks return 0 for success; any other value stops the run with SOSMC_EMODEL. The iteration is then taken back: the engine
 *     is where it was before, to the bit, and a step that succeeds later gives what it would have given at once;
 *   - callbacks may be called from several threads at once, on different batches;
 *   - the library never prints, never exits, keeps no global state and allocates nothing after sosmc_create.
 *
 * In a process that is not its own:
 *   - a callback may look at its engine (sosmc_theta, sosmc_last, sosmc_iteration) and not use it: sosmc_step, sosmc_run, sosmc_save,
 *     sosmc_load, sosmc_cloud and sosmc_judge return SOSMC_EINVAL there, sosmc_hash returns 0, and the step under way fails. The same
 *     holds for a second thread that uses an engine during a step. Observers of sosmc_run stand between steps and may do all of it;
 *   - a callback that never returns (longjmp, an exception) leaves an engine that refuses everything with SOSMC_EINVAL; free it. The
 *     floating-point environment is then still the library's;
 *   - after fork the child may save and free an engine. One with a single thread goes on there, as a copy; one with several has lost
 *     them, and sosmc_step and sosmc_load say so with SOSMC_EINVAL;
 *   - the library's threads block all signals;
 *   - callbacks come only from the thread inside sosmc_create, sosmc_step, sosmc_run or sosmc_load where settings.threads is 1; and
 *     with any number of threads where all particles are one batch: model.tile is at least as large as their number, and as scheme.pool,
 *     particles times keep, and the objective's batch where there are such;
 *   - every array that these functions give to a callback is either the caller's own (theta_ref) or lies in memory that sosmc_create
 *     took and sosmc_free gives back, and that never moves. So a view of an address that a callback was given may be kept and used
 *     again when the same address comes; what the memory holds is another matter;
 *   - functions that compute set the floating-point environment (rounding to nearest, subnormal numbers kept, no traps) on all
 *     threads, callbacks included, and give the caller's back, with its flags. Only the elementwise sosmc_exp, sosmc_log,
 *     sosmc_normals and sosmc_uniforms use the environment that they find. */
#ifndef SOSMC_SOSMC_H
#define SOSMC_SOSMC_H

#include <stddef.h>
#include <stdint.h>

#define SOSMC_VERSION_MAJOR 0
#define SOSMC_VERSION_MINOR 1
#define SOSMC_VERSION_PATCH 0
#define SOSMC_VERSION "0.1.0"

/* Whoever makes the static library part of a module of its own defines SOSMC_STATIC; the module then shows none of these names. */
#if defined(__GNUC__) && !defined(SOSMC_STATIC)
#define SOSMC_API __attribute__((visibility("default")))
#else
#define SOSMC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------ status */

typedef enum {
    SOSMC_OK = 0,
    SOSMC_STOPPED = 1,   /* an observer asked to stop; the run can go on */
    SOSMC_EINVAL = -1,   /* a setting is wrong; the message names it, its value and what is allowed */
    SOSMC_ENOMEM = -2,   /* an allocation failed (only in sosmc_create) */
    SOSMC_EMODEL = -3,   /* a callback returned non-zero */
    SOSMC_ENUMERIC = -4, /* values that are not finite, a cloud without weight, or one that has collapsed */
    SOSMC_EIO = -5,      /* a checkpoint could not be written or read */
    SOSMC_ECOMM = -6     /* the communicator failed */
} sosmc_status;

SOSMC_API const char *sosmc_version(void);
SOSMC_API const char *sosmc_status_name(sosmc_status status);

/* ------------------------------------------------------------------------------------------------ vector code */

/* The arithmetic exists three times (AVX-512, AVX2 with FMA, plain C) with the same bits; this is one of them. */
typedef struct sosmc_simd sosmc_simd;
SOSMC_API const sosmc_simd *sosmc_simd_best(void); /* the fastest this machine runs */
/* "avx512", "avx2" or "plain"; NULL if unknown or not for this machine. */
SOSMC_API const sosmc_simd *sosmc_simd_named(const char *name);
SOSMC_API const char *sosmc_simd_name(const sosmc_simd *simd);
/* 0: plain C, 1: AVX2 with FMA, 2: AVX-512. For models that compile code of their own for each. */
SOSMC_API int sosmc_simd_level(const sosmc_simd *simd);

/* Elementwise functions whose bits do not depend on machine or library; libm's exp and log do. simd NULL: the best. */
SOSMC_API void sosmc_exp(const sosmc_simd *simd, int n, const double *x, double *y); /* zero below -708 */
SOSMC_API void sosmc_log(const sosmc_simd *simd, int n, const double *x, double *y); /* log 0 = -inf, log -1 NaN */

/* ------------------------------------------------------------------------------------------------ random numbers */

/* A name for numbers, not a machine that makes them: the same name gives the same numbers wherever and whenever it
 * is asked (Philox4x32-10, maths.md RNG-names). */
typedef struct {
    uint64_t seed;
    uint64_t step;   /* below 2^48 */
    uint32_t stream; /* below 256; who draws: one of sosmc_stream, or SOSMC_STREAM_USER and above */
    uint32_t retry;  /* below 256; counts repetitions of the same step */
} sosmc_rng;

typedef enum {
    SOSMC_STREAM_INIT = 0,     /* initial particles */
    SOSMC_STREAM_MOVE = 1,     /* noise of the kernels */
    SOSMC_STREAM_ACCEPT = 2,   /* Metropolis decisions */
    SOSMC_STREAM_RESAMPLE = 3, /* ancestors */
    SOSMC_STREAM_DATA = 4,     /* reference batches, minibatches */
    SOSMC_STREAM_POOL = 5,     /* which pool members move */
    SOSMC_STREAM_REFRESH = 6,  /* which particles restart, and where */
    SOSMC_STREAM_NETWORK = 7,  /* initial weights of a network */
    SOSMC_STREAM_MOMENTUM = 8, /* momenta at the end of a step */
    SOSMC_STREAM_BEGIN = 9,    /* what kernels keep for particles that begin */
    SOSMC_STREAM_THETA = 10,   /* noise of theta's updates */
    SOSMC_STREAM_USER = 64
} sosmc_stream;

/* ------------------------------------------------------------------------------------------------ batches */

/* n particles, coordinate-major:
 *
 *     x:  | x_0[0] x_1[0] ... x_{n-1}[0] pad | x_0[1] x_1[1] ... | ...          dim rows of ld doubles
 *
 * Coordinate j of particle i is x[j * ld + i]. When n > 1, rows are 64-byte aligned and ld is a multiple of 8; a
 * one-particle tile of a large model has ld == 1, a contiguous vector. Entries n..ld-1 of a row are padding: they may
 * be read and written, never relied upon. */
typedef struct {
    const double *x;
    const void *prep; /* what `prepare` made of this theta */
    void *work;       /* the model's scratch: model.work bytes for each of ld particles, 64-byte aligned */
    /* The scratch of this thread's next batch, or NULL. A model whose scratch is large may prefetch it; none has to. */
    const void *next_work;
    const sosmc_simd *simd; /* the vector code this engine uses */
    /* Set by the engine. In grad_theta: `work` is exactly what your last energy call with gx != NULL left for this batch and
     * theta; you may skip the forward pass. In energy: x is unchanged since that call (theta may differ), and gx still holds
     * what it wrote, so what you stored that depends on x alone is still valid. */
    int fresh;
    int dim, n, ld;
    int64_t first; /* index of particle 0 in the whole cloud: names its random numbers */
} sosmc_batch;

/* Standard normals for the batch's particles, laid out like x. */
SOSMC_API void sosmc_normals(sosmc_rng rng, const sosmc_batch *batch, double *z);
/* One uniform on (0, 1] per particle; `draw` 0, 1, 2, ... names further ones. Never overlaps sosmc_normals. */
SOSMC_API void sosmc_uniforms(sosmc_rng rng, uint32_t draw, const sosmc_batch *batch, double *u);

/* ------------------------------------------------------------------------------------------------ the problem: what */

/* The target: pi_theta proportional to exp(-U_theta). `energy` and `grad_theta` are all a user must write.
 *
 * What makes the library's own models fast is open to every model. Loops over i run along a row of x, so that the compiler makes
 * vectors of them; sosmc_exp and sosmc_log take whole rows; `prepare` does once per theta what does not depend on x; `work` keeps
 * what energy and grad_theta have in common (see sosmc_batch.fresh); `tile` fits a batch into the cache. Compile with
 * -O3 -fno-math-errno, and with -ffp-contract=off where bits are to be the same on every machine. */
typedef struct {
    int dim_x, dim_theta;
    size_t work, prep; /* bytes of scratch per particle (a network parks activations here); bytes per theta */
    int tile;          /* particles per batch that suit the model; 0 leaves it to the engine */
    double rounding; /* relative rounding error of U where it is not that of double (float inside: 1e-7); 0: double's */
    const void *self; /* const, because several threads may call at once */
    /* Optional: once per theta, before any batch (pack weights, take logs). Two or three thetas may be alive at once. */
    int (*prepare)(const void *self, const double *theta, void *prep);
    /* U[i] = U_theta(x_i); when gx is not NULL, also gx = dU/dx, laid out like x. */
    int (*energy)(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx);
    /* g += sum_i c[i] dU/dtheta(x_i). A contraction: no particles-by-parameters array ever exists. */
    int (*grad_theta)(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g);
    /* Optional: p_i = prox of (lambda * non-smooth part) at x_i, laid out like x. */
    int (*prox)(const void *self, const double *theta, double lambda, const sosmc_batch *b, double *p);
    /* Optional, for models with few parameters: D = dU/dtheta of every particle, D[j * ld + i] for parameter j and particle i
     * (dim_theta rows of ld; what D held before is overwritten, its padding too may be). b->fresh means what it means in
     * grad_theta. Where it is missing the library derives it from grad_theta, a call per particle. */
    int (*scores)(const void *self, const double *theta, const sosmc_batch *b, double *D);
    int no_gx; /* energy does not fill gx: kernels that use it are refused, and sosmc_solve takes differences of U instead */
    /* Optional: bounds of x, dim_x numbers each, borrowed; -INFINITY, INFINITY or NULL: none. A coordinate with bounds is replaced
     * by z, x = low + e^z, high - e^z or low + (high - low) / (1 + e^-z), and U gets the Jacobian (maths.md BOUNDS). Moves,
     * tempering and energies in infos are of z; your functions, starts, data and the particles that you get are of x, strictly
     * inside of the bounds. Without an init the particles begin at N(0, I) of z. Not with a prox, an H or energy2. */
    const double *x_low, *x_high;
} sosmc_model;

/* s[i] = score of x_i: a reward. Need not be differentiable. */
typedef struct {
    const void *self;
    int (*eval)(const void *self, const sosmc_batch *b, double *s);
} sosmc_score;

/* Whatever fills a batch: initial law, reference law, minibatch, restarts. Draw with names: rng as given, particle
 * numbers from b->first, so that any thread or rank draws the same. */
typedef struct {
    const void *self;
    int (*draw)(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x);
    /* Optional: lq[i] = log density of x_i, normalised. As initial law: W_0 = exp(-U)/q, and log Z is absolute. */
    int (*logpdf)(const void *self, const sosmc_batch *b, double *lq);
    /* The draws follow pi_{theta0} exactly (as initial law: W_0 = 1, log Z is relative to theta0). */
    int exact;
    /* Optional: the source draws from this many fixed rows (0: it draws at random), and `row` fills the batch with rows
     * b->first, b->first + 1, ... as they are. An objective over fixed rows is then known without the noise of a batch. */
    int64_t rows;
    int (*row)(const void *self, const sosmc_batch *b, double *x);
    int fixed; /* every draw gives particle i the same point: a batch has no noise */
} sosmc_source;

SOSMC_API sosmc_source sosmc_standard_normal(void); /* N(0, I), with density */

/* Uniform on a box. It has no density for weights: a law with bounded support does not cover the plane. */
typedef struct {
    int dim;
    const double *low, *high; /* dim numbers each */
} sosmc_box;
SOSMC_API sosmc_source sosmc_box_source(const sosmc_box *box);

/* Rows of a user's array (row-major), of doubles or of bytes. Random rows or epochs make minibatches, rows in order a
 * full batch or a stored cloud. */
typedef enum {
    SOSMC_ROWS_RANDOM = 0,   /* independent draws */
    SOSMC_ROWS_IN_ORDER = 1, /* particle i gets row i mod rows */
    SOSMC_ROWS_EPOCHS = 2    /* no row twice in rows / batch steps, in an order shuffled anew for every epoch */
} sosmc_rows_mode;
typedef struct {
    const double *data; /* rows x dim */
    int64_t rows;
    int mode;                   /* sosmc_rows_mode */
    int batch;                  /* epochs: the particles of one step, 1 to rows; more are refused */
    const unsigned char *bytes; /* instead of data: byte v stands for low + v (high - low) / 255 */
    double low, high;
    double noise; /* every drawn coordinate gets this times a standard normal of its own; 0: none */
    double clamp; /* ... and is then held to [-clamp, clamp]; 0: not */
} sosmc_rows;
SOSMC_API sosmc_source sosmc_rows_source(const sosmc_rows *rows); /* borrows *rows */

/* One formula (maths.md OBJ):
 *     grad l = scale * ( sum_i w_i (s_i - sbar + a) dU(x_i) + (b/M) sum_j dU(y_j) ),   sbar = sum_i w_i s_i,
 * with s = score + kl (U_theta - U_ref). Start from a constructor; the rows are listed in maths.md. */
typedef struct {
    double a, b, kl;
    double scale; /* 0: nothing is optimised; the run samples pi_theta0 and logs scores and energies */
    /* Optional: H instead of dU on the particles: g += sum_i c_i H_theta(x_i). `self` is the model's. */
    int (*H)(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g);
    /* Optional: a regulariser on the data batch. g += its theta-gradient summed over the batch times `weight` (scale/M),
     * *value += the sum itself times `weight`. */
    int (*penalty)(const void *self, const double *theta, const sosmc_batch *y, double weight, double *g,
                   double *value);
    /* adds energy2 * (sum_i w_i U(x_i)^2 + mean_j U(y_j)^2); the latter only with a data batch */
    double energy2;
    sosmc_score score;
    /* The score's weight grows from 1/ramp to 1 in so many updates, as if the divergence weighed so much more before; 0: it
     * has all of it at once. A reward that comes in gradually leaves no part of the cloud behind. */
    int64_t ramp;
    const double *theta_ref; /* the frozen reference of `kl` and of the estimated divergence; may be NULL when kl = 0 */
    sosmc_source data;       /* where y_1..y_M come from, drawn anew in every iteration */
    int batch;               /* M */
    int loss;                /* sosmc_loss_kind: which estimate of l the info carries */
} sosmc_objective;

typedef enum {
    SOSMC_LOSS_NONE = 0,
    SOSMC_LOSS_MMLE,       /* -log Z */
    SOSMC_LOSS_LIKELIHOOD, /* mean U(data) + log Z */
    SOSMC_LOSS_FORWARD_KL, /* -E R + beta KL(pi_ref || pi_theta), beta = b */
    SOSMC_LOSS_REVERSE_KL  /* -E R + beta KL(pi_theta || pi_ref), beta = kl */
} sosmc_loss_kind;

SOSMC_API sosmc_objective sosmc_mmle(void);                               /* l = -log int exp(-U_theta) */
SOSMC_API sosmc_objective sosmc_likelihood(sosmc_source data, int batch); /* l = -mean log pi_theta(data) */
/* l = -E R + beta KL(pi_ref || pi_theta). `reference` draws from pi_ref; theta_ref (optional) is only used to report
 * the KL. With beta = 0 no reference batch is drawn. */
SOSMC_API sosmc_objective sosmc_reward_forward(sosmc_score reward, double beta, sosmc_source reference, int batch,
                                               const double *theta_ref);
SOSMC_API sosmc_objective sosmc_reward_reverse(sosmc_score reward, double beta, const double *theta_ref);

typedef struct {
    sosmc_model model;
    sosmc_objective objective;
    sosmc_source init;
    const double *theta0; /* NULL: zeros */
} sosmc_problem;

/* ------------------------------------------------------------------------------------------------ the settings: how */

typedef enum { SOSMC_AT_PREVIOUS = 0, SOSMC_AT_CURRENT = 1 } sosmc_theta_choice;

/* A kernel carries one tile from pi_{theta_prev} to pi_{theta}. */
typedef struct sosmc_kernel sosmc_kernel;
typedef struct {
    const sosmc_model *model;
    const double *theta_prev, *theta;
    const void *prep_prev;                    /* b.prep belongs to theta */
    double h;                                 /* the step now; kernel->h is where it started */
    sosmc_rng rng;                            /* names this step's draws; the stream is the kernel's to choose */
    sosmc_batch b;                            /* shape, prep, work, simd, first; b.x == x */
    const double *x, *U, *gx, *aux;           /* in: the state, with U and gx under theta_prev */
    double *x_new, *U_new, *gx_new, *aux_new; /* out: the new state, with U and gx under theta */
    double *logG;                             /* out: log incremental weight, n of them; NULL when it is not needed */
    double *accept;                           /* out: acceptance probability, when kernel->metropolis */
    double *tmp;                              /* kernel->scratch vectors, each dim rows of ld, then 4 rows of ld */
    int *energy_code; /* sosmc_evaluate notes here what a failing energy returned; may be NULL */
} sosmc_move;
/* U and gx of the tile's shape at any x, under theta or under theta_prev. gx may be NULL. Returns the callback's value. */
SOSMC_API int sosmc_evaluate(const sosmc_move *m, sosmc_theta_choice at, const double *x, double *U, double *gx);

/* The scratch of a move: vector v, 0 <= v < kernel->scratch, of sosmc_move_length(m) doubles (dim rows of ld, rounded up to a
 * multiple of 8; x, gx and aux are as long), and row 0, 1, 2 or 3, with a number per particle. */
SOSMC_API size_t sosmc_move_length(const sosmc_move *m);
SOSMC_API double *sosmc_move_vector(const sosmc_move *m, int v);
SOSMC_API double *sosmc_move_row(const sosmc_kernel *k, const sosmc_move *m, int row);
/* The Metropolis test, for kernels with metropolis = 1: particle i keeps the proposal in x_new, U_new, gx_new and aux_new with
 * probability min(1, exp(log_ratio[i])), and otherwise gets back the state that it had. A proposal whose energy or ratio is
 * not finite is rejected. Fills m->accept. Overwrites rows 2 and 3 of the scratch; log_ratio may be row 0 or 1. */
SOSMC_API void sosmc_metropolis(const sosmc_kernel *k, sosmc_move *m, const double *log_ratio);

/* A kernel is name, step and h, and whichever of the other fields it uses: zero means none everywhere. The engine checks the
 * fields that it reads itself; `check` is the place for the kernel's own. */
struct sosmc_kernel {
    const char *name;
    int (*step)(const sosmc_kernel *k, sosmc_move *m);
    /* Optional: NULL when the kernel's parameters are in order, else a sentence that says which is not, written into `text`
     * (`room` bytes) or a constant. `weighted`: the scheme weighs, so moves need a density. sosmc_create returns SOSMC_EINVAL
     * with that sentence. */
    const char *(*check)(const sosmc_kernel *k, int weighted, char *text, size_t room);
    /* Optional: aux of particles that begin (initial, restarted, drawn from a pool), aux * dim rows of ld, drawn with rng
     * as given. Without it aux begins at zero. */
    int (*begin)(const sosmc_kernel *k, sosmc_rng rng, const sosmc_batch *b, double *aux);
    double h;             /* initial step (HMC: leapfrog step) */
    double noise;         /* noise scale sigma; 1 is Langevin. jitter: standard deviation of the noise */
    double spread;        /* rwm: scales of proposals are up to so many times larger or smaller; 0, 1: all the same */
    double clamp;         /* ula, jitter: coordinates are held to [-clamp, clamp], which leaves no density; 0: not */
    double lambda;        /* myula: width of the envelope */
    double gradient_clip; /* jitter: components of the gradient are held to [-gradient_clip, gradient_clip]; 0: not */
    double mass;          /* of every coordinate, where there is momentum */
    double friction;      /* underdamped: the rate at which momentum is forgotten; INFINITY: none is kept */
    int leapfrog;         /* number of leapfrog steps */
    const void *self;     /* for a user's own kernel */
    int invariant;        /* leaves pi_theta invariant: the engine weighs with U_prev(x) - U(x), the step never does */
    int no_weight;        /* has no tractable density: weighted schemes refuse it */
    int uses_gradient;    /* reads m->gx: the engine keeps it */
    int uses_prox;        /* calls model.prox: a model without one is refused */
    int metropolis;       /* may keep the old particle: work does not match x_new afterwards */
    int blind; /* the step neither reads nor returns U and gx; the engine evaluates them once, after the last sweep */
    int aux, scratch;            /* vectors kept per particle; vectors in tmp */
    int forward_at, backward_at; /* sosmc_theta_choice of either Langevin kernel (maths.md ULA-weight) */
};

SOSMC_API sosmc_kernel sosmc_ula(double h); /* forward at the previous theta, backward at the new one */
SOSMC_API sosmc_kernel sosmc_ula_clamped(double h, double clamp); /* for unweighted schemes: pre-training */
SOSMC_API sosmc_kernel sosmc_mala(double h);
/* Proposal variance 2h per coordinate. With a spread S, at least 1, in k.spread the scale of every proposal is multiplied by
 * S^u, u uniform on [-1, 1]: small steps within a mode and jumps to others (maths.md RWM). */
SOSMC_API sosmc_kernel sosmc_rwm(double h);
SOSMC_API sosmc_kernel sosmc_hmc(double step, int leapfrog, double mass);
/* Kernels with momentum that bring their exact weight instead of accepting (maths.md UNDERDAMPED, LEAPFROG). The first
 * keeps the momentum between steps, but for a factor exp(-friction step / 2) at either end of a step; one evaluation. The
 * second draws it anew and makes `leapfrog` steps; as many evaluations. With infinite friction, and with one leapfrog step,
 * they are ULA at step^2 / 2 mass. */
SOSMC_API sosmc_kernel sosmc_underdamped(double step, double friction, double mass);
SOSMC_API sosmc_kernel sosmc_leapfrog(double step, int leapfrog, double mass);
/* For models with a non-smooth part and its prox (dU/dx is then that of the smooth part alone): Langevin along the
 * Moreau-Yosida envelope of width lambda (maths.md MYULA). The weightings:
 *     as invariant   U_prev(x) - U(x), as if the move left pi_theta invariant, which it nearly does for small steps;
 *     ratio          exact, with both kernels at the new theta; a second proximal map;
 *     cached         exact, with the forward kernel at the previous theta, whose proximal map is kept. */
typedef enum { SOSMC_MYULA_AS_INVARIANT = 0, SOSMC_MYULA_RATIO, SOSMC_MYULA_CACHED } sosmc_myula_weight;
SOSMC_API sosmc_kernel sosmc_myula(double h, double lambda, sosmc_myula_weight weight);
/* The same move with a Metropolis test on the whole potential: leaves pi_theta invariant exactly, its weights are exact too.
 * Two proximal maps; the step that is still accepted shrinks as the dimension grows (maths.md MYMALA). */
SOSMC_API sosmc_kernel sosmc_mymala(double h, double lambda);
/* y = x + noise z, then x' = y - step grad U(y), with y, the components of the gradient and x' clipped (maths.md JITTER).
 * It has no density and leaves nothing invariant: the sampler with which energies of pictures are trained. */
SOSMC_API sosmc_kernel sosmc_jitter(double step, double noise, double clamp, double gradient_clip);

/* With `noise` theta's update is a Langevin step: behind the optimiser's own step and before the bounds, theta[j] gets
 * noise sqrt(2 rate / N) z_j, with the rate of this update and N the number of states of which the gradient is a mean (the
 * particles, or particles times keep where several sweeps are kept). The z_j are standard normals of SOSMC_STREAM_THETA, step
 * k, particle 0. With sosmc_sgd, sosmc_scheme_unweighted, the objective sosmc_mmle and noise 1 this is the interacting particle
 * Langevin algorithm (IPLA) for the kernel sosmc_ula, and its proximal form (myIPLA) for sosmc_myula: theta does not come to
 * rest but has the law proportional to exp(-N l(theta)), up to the error of the step (maths.md THETA-NOISE). */
typedef struct sosmc_optimiser sosmc_optimiser;
struct sosmc_optimiser {
    const char *name;
    double lr, momentum, beta1, beta2, eps, weight_decay;
    double clip;      /* largest gradient norm; 0: no clipping */
    double low, high; /* theta is held between them after every update; equal: nowhere */
    double noise;     /* of the update, times sqrt(2 rate / N); 0: none, 1: Langevin */
    int slots;        /* theta-sized memories the step keeps, zero at the start */
    int map;          /* of mirror descent: a sosmc_mirror_map; 0 for every other rule */
    const void *self; /* for a user's own rule: a given path of theta, an outer optimiser */
    /* theta <- theta - ...; k counts updates from 0; o->lr is the rate of this update (schedule applied) */
    void (*step)(const sosmc_optimiser *o, int64_t k, int dim, const double *g, double *theta, double *slots);
    /* Optional: the same for a rule that may fail, called instead of `step`, which it may call. Non-zero is SOSMC_EMODEL: the
     * iteration is taken back, as after any callback, and whatever was written to theta and slots is forgotten. What the rule keeps
     * elsewhere is not, and is not in checkpoints. */
    int (*try_step)(const sosmc_optimiser *o, int64_t k, int dim, const double *g, double *theta, double *slots);
};
SOSMC_API sosmc_optimiser sosmc_sgd(double lr);
SOSMC_API sosmc_optimiser sosmc_momentum(double lr, double momentum);
SOSMC_API sosmc_optimiser sosmc_nesterov(double lr, double momentum);
SOSMC_API sosmc_optimiser sosmc_rmsprop(double lr, double decay);
SOSMC_API sosmc_optimiser sosmc_adagrad(double lr);
SOSMC_API sosmc_optimiser sosmc_adam(double lr);
SOSMC_API sosmc_optimiser sosmc_adamw(double lr, double weight_decay);

/* Mirror descent on theta, which stays in its domain and is shown in its own units: theta_j <- theta_j exp(-lr g_j).
 * SOSMC_MIRROR_ENTROPY: theta is one probability vector, divided by its sum (exponentiated gradient). SOSMC_MIRROR_LOG: every theta_j
 * is positive. A theta0 outside of the domain is SOSMC_EINVAL, a theta that leaves it in an update SOSMC_ENUMERIC. There is no noise
 * on theta, and with probabilities no bound. sosmc_judge tells no error of probabilities: their second derivative is that along a sum
 * of 1, which it does not take. */
typedef enum { SOSMC_MIRROR_ENTROPY = 1, SOSMC_MIRROR_LOG } sosmc_mirror_map;
SOSMC_API sosmc_optimiser sosmc_mirror(double lr, sosmc_mirror_map map);

typedef enum {
    SOSMC_SCHEDULE_CONSTANT = 0,
    SOSMC_SCHEDULE_ROBBINS_MONRO, /* lr (1 + k/a)^-b */
    SOSMC_SCHEDULE_EXPONENTIAL,   /* lr exp(-k/a) */
    SOSMC_SCHEDULE_COSINE,        /* from lr to b lr over a updates, then b lr */
    SOSMC_SCHEDULE_STEPS          /* lr b^floor(k/a): times b, 0 < b <= 1, after every a updates */
} sosmc_schedule_kind;
typedef struct {
    int kind;
    double a, b;
    int64_t warmup; /* the first so many updates have (k + 1) / warmup of the rate */
} sosmc_schedule;
/* The rate of update k: what the engine multiplies. */
SOSMC_API double sosmc_schedule_rate(sosmc_schedule schedule, double lr, int64_t k);

typedef enum { SOSMC_MULTINOMIAL = 0, SOSMC_STRATIFIED, SOSMC_SYSTEMATIC, SOSMC_RESIDUAL, SOSMC_SSP } sosmc_resampling;
/* Offspring by the scheme: ancestors (n of them, ascending) of n particles with weights w (not normalised; at least one
 * positive). scratch holds 2 n + 1 doubles. What the engine calls, here for anyone who needs resampling alone. */
SOSMC_API sosmc_status sosmc_resample(sosmc_resampling scheme, sosmc_rng rng, int n, const double *w, double *scratch,
                                      int *ancestors);

typedef enum {
    SOSMC_ORDER_PAPER = 0, /* move and weigh, estimate, optimise, adapt, resample (Algorithm 1) */
    SOSMC_ORDER_AUTHORS    /* estimate, optimise, weigh, adapt, resample, move (ULA moves before it weighs) */
} sosmc_order;

/* What becomes of the drawn particles when they have moved. */
typedef enum {
    SOSMC_POOL_IN_PLACE = 0, /* each replaces the member it was drawn from; the pool is full from the start */
    SOSMC_POOL_NEWEST = 1 /* all join as the newest, the oldest beyond `pool` leave; the pool starts with `particles` */
} sosmc_pool_rule;

/* Of `pool` remembered particles, `particles` are drawn (with replacement) and moved `sweeps` times, each of them first
 * restarted from `init` with probability `refresh`, and the states of the last `keep` sweeps form the sample the objective
 * sees. */
typedef struct {
    int particles, pool, sweeps, keep;
    int weighted;
    int order;    /* sosmc_order */
    int drift_at; /* unweighted schemes: move with the gradient cached at the previous theta, or at the current one */
    double refresh;
    double ess_min; /* resample when ESS < ess_min * particles; 0: never; above 1: always */
    int resampling; /* sosmc_resampling */
    int pool_rule;  /* sosmc_pool_rule */
} sosmc_scheme;
SOSMC_API sosmc_scheme sosmc_scheme_sosmc(int particles);
/* ImpDiff, PGD: gradient, then move (the paper's order). */
SOSMC_API sosmc_scheme sosmc_scheme_unweighted(int particles);
/* ImpDiff in the order of the authors' program: move at theta_k, then the gradient at the new particles. */
SOSMC_API sosmc_scheme sosmc_scheme_moved_first(int particles);
SOSMC_API sosmc_scheme sosmc_scheme_soul(int sweeps); /* one chain, average over its second half */
SOSMC_API sosmc_scheme sosmc_scheme_pcd(int particles, int pool, int sweeps);

/* A multiplicative rule (Remark 4): divide by `factor` when the signal is below threshold, multiply otherwise. */
typedef enum { SOSMC_SIGNAL_ESS = 0 /* ESS / N */, SOSMC_SIGNAL_ACCEPT /* mean acceptance */ } sosmc_signal;
typedef enum { SOSMC_ADAPT_STEP = 0 /* kernel step */, SOSMC_ADAPT_RATE /* learning rate */ } sosmc_adapt_target;
typedef struct {
    double threshold, factor, min, max; /* factor 0 or 1: off */
    int signal, target;
    int before_move; /* SOSMC_ORDER_AUTHORS with an invariant kernel: this iteration's move sees the new value */
} sosmc_adapt;

typedef enum {
    SOSMC_NONFINITE_DEFAULT = 0, /* drop when weighted, fail otherwise */
    SOSMC_NONFINITE_FAIL,        /* stop with SOSMC_ENUMERIC */
    SOSMC_NONFINITE_DROP,        /* weighted: weight zero until resampling replaces the particle */
    SOSMC_NONFINITE_RETRY,  /* repeat the whole move with half the step and fresh noise, up to 8 times; not exact */
    SOSMC_NONFINITE_RESTART /* unweighted: the particle restarts from init */
} sosmc_nonfinite;

/* What happens when a weighted cloud has collapsed: its effective sample size was below 2 in 100 iterations in a row, this one
 * included. Theta then follows the gradient at one particle, and nothing that the run tells is an estimate any more. It does
 * not apply to unweighted schemes, which have no such number, nor to fewer than 20 particles: there 2 is a tenth of the cloud
 * or more, which a healthy run may have. */
typedef enum {
    SOSMC_COLLAPSE_DEFAULT = 0, /* stop */
    SOSMC_COLLAPSE_STOP,        /* end with SOSMC_ENUMERIC; sosmc_last is still that iteration's */
    SOSMC_COLLAPSE_CONTINUE     /* go on; sosmc_info.collapsed goes on counting */
} sosmc_collapse;

/* Two verbs; everything else is built on them. size 0 or 1: a single process. Both return 0 for success. sosmc_create compares a
 * fingerprint of problem, settings and theta0 between the ranks, sosmc_load one of the state: where they differ, all ranks get
 * SOSMC_EINVAL and a message that names the first difference. What callbacks and data hold is not compared. */
typedef struct {
    void *self;
    int rank, size;
    int (*allgather)(void *self, const void *mine, size_t bytes, void *all);
    /* Packed buffers in rank order: send_bytes[r] for rank r out of `send`, recv_bytes[r] from rank r into `recv`. */
    int (*exchange)(void *self, const size_t *send_bytes, const void *send, const size_t *recv_bytes, void *recv);
} sosmc_comm;

typedef struct {
    sosmc_scheme scheme;
    sosmc_kernel kernel;
    sosmc_adapt adapt[2]; /* up to two rules, applied in order */
    sosmc_optimiser optimiser;
    sosmc_schedule schedule;
    sosmc_comm comm;
    uint64_t seed;
    int threads;      /* 0 or 1: the calling thread alone */
    int on_nonfinite; /* sosmc_nonfinite */
    int on_collapse;  /* sosmc_collapse */
    /* The fraction of the cost of an iteration that may go into what sosmc_judge needs to know of the run (judge.h): 0: nothing
     * is gathered. The iterations are the same bits either way. */
    double judge;
    double average;         /* 0: off; in (0,1): exponential average of theta with this decay; 1: plain mean */
    int64_t average_from;   /* the first update that enters the average */
    size_t work_limit;      /* bytes of parked scratch; tiles that find no room in it are computed again */
    const sosmc_simd *simd; /* NULL: the environment's SOSMC_SIMD if set, else the best */
    void *(*alloc)(void *ctx, void *ptr, size_t bytes); /* NULL: libc. ptr NULL allocates, bytes 0 frees. */
    void *alloc_ctx;
} sosmc_settings;
SOSMC_API sosmc_settings sosmc_defaults(void); /* by value: start here, change what you mean to */

/* ------------------------------------------------------------------------------------------------ the running engine */

/* One iteration, as logged. A value that does not exist is NaN; sosmc_why_no_loss says why loss and log Z may be.
 * ess, mean_score, mean_energy, logz and accept belong to the theta with `updates` optimiser updates behind it;
 * loss, kl and grad_norm to the theta at which the gradient was taken, with `gradient_updates` behind it. */
typedef struct {
    int64_t iteration, updates, gradient_updates;
    double ess;         /* between 1 and the number of particles (of kept states, when several sweeps are kept) */
    double mean_score;  /* weighted mean of the reward */
    double mean_energy; /* weighted mean of U */
    double data_energy; /* mean of U over the data batch, where the objective or its loss needs it */
    double penalty;     /* the regulariser's value on the data batch */
    double loss, kl;    /* estimates from logz; where that is relative, so are the losses of mmle and likelihood */
    double logz;        /* log Z_k (initial law with density) or log Z_k/Z_0 (exact initial law) */
    double grad_norm;   /* before clipping */
    double accept;      /* mean acceptance probability of the last move */
    double h, rate;     /* kernel step and learning rate used in this iteration */
    double seconds;     /* wall-clock time of this iteration */
    int resampled;
    int nonfinite; /* particles whose move gave values that are not finite */
    int retries;   /* repeated moves */
    /* Iterations in a row, this one included, with an effective sample size below 2; 0 where on_collapse does not apply. */
    int64_t collapsed;
    /* How far the last observed move went: mean squared jump over twice the variance of the cloud, mean over at most 64
     * coordinates; near 0 the cloud is frozen, 1: independent draws. NaN before the first observation, and with judge = 0. */
    double mobility;
} sosmc_info;

typedef struct sosmc sosmc; /* the only object with a life of its own */
typedef int (*sosmc_observer)(void *ctx, const sosmc *s, const sosmc_info *info); /* non-zero stops */

/* All allocation, validation and the draw of the initial cloud happen here. *out is set even on failure (except out of
 * memory, where it may be NULL), so that sosmc_message can say what is wrong; free it in either case. */
SOSMC_API sosmc_status sosmc_create(sosmc **out, const sosmc_problem *problem, const sosmc_settings *settings);
/* The bytes that sosmc_create would take for these, to be compared with what is free before they are taken: no callback is called,
 * and next to nothing is allocated. SIZE_MAX: more than can be counted; 0: sosmc_create refuses them, and its message says why. */
SOSMC_API size_t sosmc_memory(const sosmc_problem *problem, const sosmc_settings *settings);
/* One iteration. After SOSMC_EMODEL the engine is at the start of that iteration and can go on. After any other failure every further
 * step fails likewise, until a checkpoint is loaded. */
SOSMC_API sosmc_status sosmc_step(sosmc *s);
SOSMC_API sosmc_status sosmc_run(sosmc *s, int64_t iterations, sosmc_observer see, void *ctx);
SOSMC_API void sosmc_free(sosmc *s); /* NULL is fine */

SOSMC_API const char *sosmc_message(const sosmc *s);     /* in words, with numbers; NULL s: a general sentence */
SOSMC_API const char *sosmc_why_no_loss(const sosmc *s); /* NULL when loss and log Z are estimated, else a sentence */
SOSMC_API const sosmc_info *sosmc_last(const sosmc *s);  /* the last iteration's info */
SOSMC_API int64_t sosmc_iteration(const sosmc *s);       /* iterations done */
SOSMC_API const double *sosmc_theta(const sosmc *s);     /* views, valid until the next step */
SOSMC_API const double *sosmc_theta_average(const sosmc *s); /* equals theta when averaging is off */
/* The gradient of the last update as the optimiser saw it, after clipping; zeros before the first update. */
SOSMC_API const double *sosmc_gradient(const sosmc *s);
/* The whole cloud: x (particles rows of dim_x) and normalised log-weights (logsumexp 0); either may be NULL.
 * With several ranks every rank must call, and every rank gets everything. */
SOSMC_API sosmc_status sosmc_cloud(const sosmc *s, double *x, double *logw);
SOSMC_API int sosmc_particles(const sosmc *s);
/* Of everything that decides where the run goes; collective over ranks. sosmc_info.collapsed is not part of it: it decides
 * whether the run ends, and checkpoints keep it beside the state. */
SOSMC_API uint64_t sosmc_hash(const sosmc *s);

/* ------------------------------------------------------------------------------------------------ checkpoints */

/* Bytes only. Callbacks return 0 for success. With several ranks all must call; only rank 0's `put` is used, and every
 * rank's `get` must deliver the whole stream. A state that is not finite is refused (SOSMC_ENUMERIC). A stream that is
 * damaged, of another problem or of a newer version is refused (SOSMC_EIO, SOSMC_EINVAL) and leaves the engine as it was. */
typedef int (*sosmc_write)(void *ctx, const void *bytes, size_t n);
typedef int (*sosmc_read)(void *ctx, void *bytes, size_t n);
SOSMC_API sosmc_status sosmc_save(sosmc *s, sosmc_write put, void *ctx);
SOSMC_API sosmc_status sosmc_load(sosmc *s, sosmc_read get, void *ctx);

/* Files: written under a temporary name (PATH.XXXXXXXXXXXXXXXX.tmp, random digits; no link is followed, and what a process that
 * died has left is removed), flushed to disk, then renamed; the one before is kept as PATH.previous.
 * Loading takes PATH, or PATH.previous when PATH is missing or damaged. */
SOSMC_API sosmc_status sosmc_save_file(sosmc *s, const char *path);
SOSMC_API sosmc_status sosmc_load_file(sosmc *s, const char *path);

#ifdef __cplusplus
}
#endif
#endif
