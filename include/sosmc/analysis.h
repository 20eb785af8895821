/* analysis.h: what a model is worth, without the cloud that tuned it. Energies and gradients at any points, exact expectations of
 * two-dimensional models by quadrature on a lattice, averages over fresh chains in any dimension, tempering, observed
 * information, log Z by importance sampling, moments over many clouds, and checks of a user's model (maths.md LATTICE, FRESH,
 * TEMPER).
 *
 * Arrays are the caller's; points are rows of dim_x numbers. The functions that return a status and have no object of their own
 * allocate when they start and free before they return; none of their results depends on the number of threads (0 or 1: the
 * calling thread alone; at most 1024). Statuses: SOSMC_EINVAL for a setting outside what is written beside it, SOSMC_EMODEL when
 * a callback fails, SOSMC_ENUMERIC for values that are not finite, SOSMC_ENOMEM. */
#ifndef SOSMC_ANALYSIS_H
#define SOSMC_ANALYSIS_H

#include <sosmc/sosmc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------ a model at one theta */

/* A model at one theta with the memory that its callbacks want (prep, scratch, aligned tiles), for callers outside a run. One
 * host serves one thread at a time; several hosts of one model may work at once. `tile` is the number of particles per batch, 0:
 * what suits the model. theta is copied, the model's self is borrowed. */
typedef struct sosmc_host sosmc_host;
SOSMC_API sosmc_status sosmc_host_create(sosmc_host **out, const sosmc_model *model, const double *theta, int tile);
SOSMC_API void sosmc_host_free(sosmc_host *h); /* NULL is fine */
/* The same host at another theta. */
SOSMC_API sosmc_status sosmc_host_move(sosmc_host *h, const double *theta);
/* At n points x, rows of dim_x: U[i] = U_theta(x_i), and gx = dU/dx, rows of dim_x. gx or U may be NULL. What the model returns
 * is handed on as it is, finite or not. */
SOSMC_API sosmc_status sosmc_host_energies(sosmc_host *h, int64_t n, const double *x, double *U);
SOSMC_API sosmc_status sosmc_host_gradients(sosmc_host *h, int64_t n, const double *x, double *U, double *gx);
/* g += sum_i c[i] dU/dtheta(x_i), dim_theta numbers, over n points. */
SOSMC_API sosmc_status sosmc_host_contract(sosmc_host *h, int64_t n, const double *x, const double *c, double *g);
/* D = dU/dtheta at every one of n points, rows of dim_theta: by the model's `scores`, or else by a call of grad_theta per point. It
 * allocates dim_theta rows of a tile while it works. */
SOSMC_API sosmc_status sosmc_host_scores(sosmc_host *h, int64_t n, const double *x, double *D);

/* U[i] = U_theta(x_i) for n points (n rows of dim_x, any dim_x); outside of the model's bounds of x it is infinity. Infinity is an energy, a density of zero; NaN and
 * -infinity are SOSMC_ENUMERIC. */
SOSMC_API sosmc_status sosmc_energies(const sosmc_model *model, const double *theta, int64_t n, const double *x,
                                      int threads, double *U);
/* s[i] = score of x_i for n points, rows of dim, as the score returns it, finite or not. */
SOSMC_API sosmc_status sosmc_scores(const sosmc_score *score, int dim, int64_t n, const double *x, double *s);

/* ------------------------------------------------------------------------------------------------ the lattice */

/* nodes x nodes points of a box, both end points included:
 *
 *     node (column c, row r) has coordinates (low[0] + c h_0, low[1] + r h_1), h = (high - low) / (nodes - 1),
 *     and its values are entry r * nodes + c of an array.
 *
 * For a reward that jumps at the middle of the box take an EVEN number of nodes: the jump then lies half-way between
 * two nodes and the error is of order h^2; with an odd number it lies on a line of nodes, and a whole line is counted
 * on one side, an error of order h. */
typedef struct {
    int nodes; /* per axis, 2 to 30000 */
    double low[2], high[2];
} sosmc_lattice;

/* Coordinate `axis` (0 or 1) of column or row `index`. A box symmetric about zero has exactly symmetric nodes. */
SOSMC_API double sosmc_lattice_node(const sosmc_lattice *l, int axis, int index);

/* U of a model with dim_x = 2, and a score, at every node (nodes * nodes doubles). A score must be finite. */
SOSMC_API sosmc_status sosmc_lattice_energy(const sosmc_model *model, const double *theta, const sosmc_lattice *l,
                                            int threads, double *U);
SOSMC_API sosmc_status sosmc_lattice_score(const sosmc_score *score, const sosmc_lattice *l, double *R);

/* pi is proportional to exp(-U), the reference ref to exp(-U_ref); the loss is -E_pi R + beta KL(pi || ref). Its
 * minimiser over all densities is best, proportional to ref exp(R / beta). A value that needs an array
 * not given is NaN. */
typedef struct {
    double logz;       /* log of the integral of exp(-U) */
    double reward;     /* E_pi R */
    double kl;         /* KL(pi || ref) */
    double forward_kl; /* KL(ref || pi) */
    double loss;       /* -reward + beta kl */
    double ref_logz, ref_reward;
    double best_reward, best_kl, best_loss; /* NaN unless beta > 0 */
    double excess;                          /* loss - best_loss, computed as beta KL(pi || best) */
    double edge; /* share of the mass of pi on the outermost ring of nodes: if not tiny, the box is too small */
} sosmc_exact;
/* U_ref and R may be NULL. */
SOSMC_API void sosmc_lattice_exact(const sosmc_lattice *l, const double *U, const double *U_ref, const double *R,
                                   double beta, sosmc_exact *out);

/* The same of a model at theta, its reference at theta_ref and a score (NULL: none), with cells that are divided by 8 along each axis where a
 * density or the score bends too much from node to node, at most one cell of 16 and 4,096 in all, and with the largest `edge` of the model, the reference and the best density: a network that was tuned towards a reward has a cliff there that
 * lattices of any affordable width miss. SOSMC_EINVAL: no lattice, or not a model of the plane; SOSMC_ENUMERIC: a reward that is not
 * finite, an energy that is NaN; SOSMC_EMODEL, SOSMC_ENOMEM. The second: the bytes that it takes at most. */
SOSMC_API sosmc_status sosmc_plane_exact(const sosmc_model *model, const double *theta, const double *theta_ref,
                                         const sosmc_score *score, double beta, const sosmc_lattice *l, int threads,
                                         sosmc_exact *out);
SOSMC_API size_t sosmc_plane_memory(const sosmc_lattice *l, int reference, int score);

/* Mean log density of n data points whose energies are U (sosmc_energies): -mean U - logz. */
SOSMC_API double sosmc_lattice_loglik(int64_t n, const double *U, double logz);

/* ------------------------------------------------------------------------------------------------ fresh chains */

/* Independent chains at a fixed theta, of x <- x - step grad U(x) + sqrt(2 step) noise or of any kernel. Step 0 is the
 * start, uniform on the box [low, high]^dim_x or given. Noise and starts are named by seed, step and chain alone: two
 * models run with the same seed share both (common random numbers), and more chains leave the first ones as they are. */
typedef struct {
    int chains;                /* at least 1 */
    int64_t burn_in, averaged; /* steps; scores are averaged over the states burn_in + 1, ..., burn_in + averaged */
    double step;               /* positive; not looked at when there is a kernel */
    double low, high;
    uint64_t seed;
    int threads;
    const sosmc_kernel *kernel; /* NULL: sosmc_ula(step). Its own h, at one theta: nothing is weighed or adapted */
    const double *start;        /* NULL: the box. Else chains rows of dim_x */
} sosmc_fresh;

/* Models with bounds of x are refused (SOSMC_EINVAL): temper.h samples them. */

/* What to remember on the way. Zeros and NULLs: nothing. */
typedef struct {
    int snapshots;
    const int64_t *at; /* the steps to keep, strictly ascending, from 0 to burn_in + averaged */
    double *snapshot;  /* out: snapshots times chains rows of dim_x */
    int paths;         /* how many of the first chains to follow */
    double *path;      /* out: for each of them burn_in + averaged + 1 rows of dim_x */
    int64_t *hit;      /* out: per chain, the first step (0: the start) with score > 0.5; -1: never */
    /* Asked now and then, by several threads at once; non-zero ends everything with SOSMC_STOPPED. */
    int (*stop)(void *ctx);
    void *stop_ctx;
} sosmc_fresh_record;

/* Mean of the score over all chains and averaged steps, and its standard error from the means of the chains (NaN for a
 * single one). x receives the final states (chains rows of dim_x). score, record, x, mean and error may be NULL;
 * without a score or with averaged = 0 the mean is NaN, and hits need a score. A chain that runs away is
 * SOSMC_ENUMERIC. Unless the status is SOSMC_OK, what was written is not to be used. */
SOSMC_API sosmc_status sosmc_fresh_reward(const sosmc_model *model, const double *theta, const sosmc_score *score,
                                          const sosmc_fresh *f, const sosmc_fresh_record *record, double *x,
                                          double *mean, double *error);

/* The same chains, of burn_in + averaged steps (at least 1), with the score of their final states alone: its mean and its
 * population standard deviation (divisor: chains). score is needed, sd may be NULL. */
SOSMC_API sosmc_status sosmc_fresh_final(const sosmc_model *model, const double *theta, const sosmc_score *score,
                                         const sosmc_fresh *f, const sosmc_fresh_record *record, double *x,
                                         double *mean, double *sd);

/* ------------------------------------------------------------------------------------------------ sampling and tempering */

/* Nothing is optimised: theta stays (or follows its own path), the mean score is logged. score {0}: none. */
SOSMC_API sosmc_objective sosmc_sampling(sosmc_score score);

/* Annealed importance sampling with resampling, as a run of the same loop: theta is the temperature t of
 * exp(-t U) times a normal law to the power 1 - t, and goes from 0 to 1 as (k / steps)^power (maths.md TEMPER). Use
 * sosmc_tempered_model, sosmc_sampling, theta0 NULL (t = 0), an initial law N(0, base_sd^2 I) with density, a weighted
 * scheme and any kernel; log Z is then that of the model. */
typedef struct {
    sosmc_model model;
    const double *theta; /* of the model, which stays */
    double base_sd;
    int64_t steps;
    double power;
} sosmc_tempering;
SOSMC_API sosmc_model sosmc_tempered_model(const sosmc_tempering *tempering);
SOSMC_API sosmc_optimiser sosmc_tempering_path(const sosmc_tempering *tempering);

/* ------------------------------------------------------------------------------------------------ what a fit is worth */

/* Observed information at theta, minus the second derivative of log Z, by Louis' identity under a weighted cloud:
 *     I = E[d2U/dtheta2] - Cov(dU/dtheta)                                                        (dim_theta rows of it)
 * for any model with few parameters. x (n rows of dim_x) and logw are those of sosmc_cloud; logw NULL: equal weights.
 * The second derivatives are central differences of grad_theta, exact for a U quadratic in theta. At a maximum
 * likelihood estimate the inverse of I is its asymptotic covariance. SOSMC_EMODEL when a callback fails, SOSMC_ENUMERIC
 * when the weights or gradients are not finite, SOSMC_ENOMEM. */
SOSMC_API sosmc_status sosmc_louis(const sosmc_model *model, const double *theta, int64_t n, const double *x,
                                   const double *logw, double *information);

/* The same information for any number of parameters p, p rows of p, with its inverse: at a maximum likelihood estimate the
 * asymptotic covariance, whose diagonal has the squared standard errors. Where the information is not positive definite (theta is
 * not at a maximum, or the cloud is too small to tell) the covariance is NaN, and the status still SOSMC_OK. covariance may be
 * NULL. The cost is 2 p + 2 passes over the cloud. */
SOSMC_API sosmc_status sosmc_information(const sosmc_model *model, const double *theta, int64_t n, const double *x,
                                         const double *logw, double *information, double *covariance);

/* log Z of exp(-U_theta) with its Monte Carlo error, from `draws` independent draws of a law with density:
 *     Z = mean of W_i = exp(-U(x_i)) / q(x_i),   error of log Z = standard error of that mean / Z.
 * The error is worth believing when ess, (sum W)^2 / sum W^2, is in the hundreds. Nothing of the run enters but theta,
 * so this checks the running log Z of a fit, whose own error one run does not show. Statuses as sosmc_louis; a law
 * without density is SOSMC_EINVAL. */
typedef struct {
    double logz, error, ess;
} sosmc_evidence;
SOSMC_API sosmc_status sosmc_importance(const sosmc_model *model, const double *theta, sosmc_source law, int64_t draws,
                                        uint64_t seed, sosmc_evidence *out);

/* ------------------------------------------------------------------------------------------------ moments */

/* Mean and standard deviation of every coordinate over the weighted clouds of many iterations: with theta nearly at rest, those
 * of pi_theta. Every cloud counts the same. Sums run over the particles in their order, so the bits depend on the clouds alone.
 * clouds, mean and spread are all there is to store: whoever puts them back goes on with the same bits. */
typedef struct {
    int dim;
    int64_t clouds; /* taken in so far */
    double *mean;   /* dim numbers; zeros before the first cloud */
    double *spread; /* dim numbers: the variances within the clouds and the squared distances of their means, summed */
} sosmc_moments;

/* `particles` is the most that an engine whose clouds are added may have; 0: none will be. All memory is allocated here. */
SOSMC_API sosmc_status sosmc_moments_create(sosmc_moments **out, int dim, int particles);
SOSMC_API void sosmc_moments_free(sosmc_moments *open); /* NULL is fine */
SOSMC_API void sosmc_moments_clear(sosmc_moments *m);   /* as it was created */
/* A cloud of n points x, rows of dim, with weights w on any scale, or all equal (NULL). Weights that are negative, not finite or
 * all zero are SOSMC_ENUMERIC, and nothing is added. Points count as they are, finite or not. */
SOSMC_API sosmc_status sosmc_moments_add(sosmc_moments *open, int64_t n, const double *x, const double *w);
/* The present cloud of an engine, whose dim_x must be dim. Collective over ranks, as sosmc_cloud. */
SOSMC_API sosmc_status sosmc_moments_add_cloud(sosmc_moments *open, const sosmc *s);
/* sqrt(spread / clouds), dim numbers; NaN before the first cloud. */
SOSMC_API void sosmc_moments_sd(const sosmc_moments *m, double *sd);

/* ------------------------------------------------------------------------------------------------ checks */

/* Tests a problem before anyone waits for its run; of whatever model, also one that sees all particles as one batch. In this
 * order, where they apply:
 *
 *     initial law         particles can be drawn (only a failure is told)
 *     repeated            energies have the same bits when they are asked for again (only a failure is told)
 *     particles           the energy of a particle does not depend on the others of its batch (only a failure is told)
 *     gradient in x       differences of U along a direction are the derivative that gx claims, up to the rounding that shows in them.
 *                         Skipped for kernels that use model.prox: gx is then that of the smooth part of U alone. Of a wrong
 *                         one the sentence, and `coordinate`, name a coordinate in which it is wrong
 *     gradient in theta   the same of grad_theta
 *     scores              where the model has them: each is what grad_theta gives for its particle alone
 *     weights             along a closed path of theta E[Z_end / Z_start] = 1 with fixed steps, whatever Z is. Not known where a
 *                         quarter of the paths or less carries the mean, or its error is above 0.02
 *     short run           some iterations stay finite
 *     no loss             why the run will have no estimate of its loss (a note)
 *     threads             the run has the same bits with several threads: callbacks do not share what they write. Skipped where
 *                         all particles are one batch
 *     step                the step of an unadjusted kernel suits the curvature of U (only a warning is told)
 *
 * Without settings (NULL) it tests the model alone, up to the scores; the initial law may then be missing. sosmc_solve_check
 * (solve.h) adds what the solver says. Nothing is printed. The cost is some hundred short runs of 50 particles. */
typedef enum {
    SOSMC_CHECK_OK = 0,
    SOSMC_CHECK_FAIL,
    SOSMC_CHECK_SKIP, /* it does not apply, and the sentence says why */
    SOSMC_CHECK_NOTE,
    SOSMC_CHECK_WARN,
    SOSMC_CHECK_UNKNOWN /* not known: the test has no power, or its own error is not to be trusted; the sentence says why */
} sosmc_check_verdict;

enum { SOSMC_CHECK_ITEMS = 20, SOSMC_CHECK_SENTENCE = 768 };
typedef struct {
    const char *name; /* as above */
    int verdict;      /* sosmc_check_verdict */
    /* What was judged: differences of U over the claimed derivative; the largest relative error of a score; Z_end / Z_start; the particles that
     * were not finite; h L / 0.5. NaN where there is no number. */
    double value;
    double error; /* of the weights, its standard error; of a gradient, how far from 1 a right one may be; else NaN */
    char sentence[SOSMC_CHECK_SENTENCE];
    /* What the value is held to: 1 for a gradient, the largest error of a score, 1 for Z_end / Z_start (which may be 4.5 standard
     * errors from it) and for the step, 0 particles. NaN where there is no number. */
    double limit;
    int64_t coordinate; /* of x or of theta, counted from 0, in which a gradient or a score is wrong; -1: none */
} sosmc_check_item;

/* Is the step of an unadjusted Langevin move small enough? x - h grad U(x) diverges beyond 2 / L, L the largest curvature of U
 * in x; moves lose their accuracy, and their weights an effective sample size, beyond 0.5 / L. */
typedef struct {
    double h; /* in the units of sosmc_ula; 0: the kernel accepts and rejects, has no density, or its step is adapted */
    double curvature; /* L at the first particles; NaN where it was not or could not be measured */
    double beyond;    /* h L / 0.5: above 1 the step is too large */
    double largest;   /* the kernel.h that is still safe */
} sosmc_step_check;
SOSMC_API sosmc_status sosmc_check_step(const sosmc_problem *problem, const sosmc_settings *settings,
                                        sosmc_step_check *out);

typedef struct {
    int count, failed, warned; /* items, and how many of them have these verdicts */
    sosmc_check_item item[SOSMC_CHECK_ITEMS];
    sosmc_step_check step;
} sosmc_check_report;

typedef struct {
    int64_t iterations; /* of the short run; 0: 20; negative: none, it is only set up */
    int threads;        /* that call the model at once; 0: 2; 1: this is not checked */
} sosmc_check_options;

/* options may be NULL. The status is SOSMC_OK whatever the verdicts are, and SOSMC_ENOMEM when memory ran out on the way. */
SOSMC_API sosmc_status sosmc_check(const sosmc_problem *problem, const sosmc_settings *settings,
                                   const sosmc_check_options *options, sosmc_check_report *report);

#ifdef __cplusplus
}
#endif
#endif
