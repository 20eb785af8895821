/* lattice.h: what a model is worth, without the cloud that tuned it: exact expectations of two-dimensional models by
 * quadrature on a lattice, and averages over fresh chains in any dimension (maths.md LATTICE, FRESH).
 *
 * Arrays are the caller's. The functions that return a status allocate when they start and free before they return;
 * none of their results depends on the number of threads (0 or 1: the calling thread alone; at most 1024). Statuses:
 * SOSMC_EINVAL for a setting outside what is written beside it, SOSMC_EMODEL when a callback fails, SOSMC_ENUMERIC for
 * values that are not finite, SOSMC_ENOMEM. */
#ifndef SOSMC_LATTICE_H
#define SOSMC_LATTICE_H

#include <sosmc/sosmc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* U[i] = U_theta(x_i) for n points (n rows of dim_x, any dim_x). Infinity is an energy, a density of zero; NaN and
 * -infinity are SOSMC_ENUMERIC. */
SOSMC_API sosmc_status sosmc_energies(const sosmc_model *model, const double *theta, int64_t n, const double *x,
                                      int threads, double *U);

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

#ifdef __cplusplus
}
#endif
#endif
