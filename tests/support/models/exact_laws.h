/* exact_laws.h: joint laws p(a) p(x | a) with exact draws and exact inverses of the draws, and the engine carrying clouds of
 * such draws.
 *
 * a are two parameters with normal priors, x the state. p(x | a) is normalised, so Z = 1 at every a and an incremental
 * weight of the engine is a ratio of densities. Where x is drawn from the law, laws_undo gives independent uniforms:
 * that is what the tests compare with. Every particle has parameters of its own: the model finds them by the particle's
 * number, and theta is the fraction of the way from `from` to `to`. The engine must not resample then. */
#ifndef SOSMC_TESTS_EXACT_LAWS_H
#define SOSMC_TESTS_EXACT_LAWS_H

#include <sosmc/sosmc.h>

enum { LAWS_PARAMETERS = 2, LAWS_DIM = 2, LAWS_CUBE = LAWS_PARAMETERS + LAWS_DIM };
extern const double laws_prior_sd[LAWS_PARAMETERS];

typedef struct {
    const char *name;
    /* -log p(x | a); gx, when not NULL, is its gradient, without the non-smooth part where there is a prox */
    double (*potential)(const double *a, const double *x, double *gx);
    double (*density)(const double *a, const double *x);       /* -log of what x follows; NULL: the potential */
    void (*draw)(const double *a, const double *u, double *x); /* x from uniforms */
    void (*undo)(const double *a, const double *x, double *u); /* uniforms from x: the inverse of draw */
    void (*prox)(const double *a, double lambda, const double *x, double *p); /* NULL: smooth */
} exact_law;

/* Location and log-scale of a skewed logistic law, and a second coordinate that leans on the first: bounded gradients,
 * hence weights with light tails. */
const exact_law *laws_skewed(void);
/* Every coordinate of density exp(-(x - a_0)^2 / 2 - e^{a_1} |x|) / Z. */
const exact_law *laws_kinked(void);
/* The potential of N(a_0, v I), v = e^{a_1}, and what Langevin steps of h = LAWS_STEP turn that into:
 * N(a_0, v / (1 - h/2v) I). */
#define LAWS_STEP 0.3
const exact_law *laws_langevin(void);

/* Independent draws of (a, x); rows of LAWS_PARAMETERS and LAWS_DIM. */
void laws_begin(const exact_law *law, int n, uint64_t seed, double *a, double *x);
/* Uniforms of one (a, x): LAWS_CUBE of them. */
void laws_undo(const exact_law *law, const double *a, const double *x, double *u);
double laws_log_prior(const double *a); /* without constants */
double laws_log_law(const exact_law *law, const double *a, const double *x);

/* n uniforms or normals whose stream of random numbers no engine uses. */
void laws_uniforms(uint64_t seed, uint32_t number, int n, double *u);
void laws_normals(uint64_t seed, int n, int dim, double *z); /* n rows of dim, at most 64 */

/* Moves all particles from their parameters `from` to `to` in `steps` equal steps of the engine with this kernel, weighted
 * or not. logG receives the log-weight that the engine gave each particle (0 when unweighted). Stops the test when the run
 * fails. */
typedef struct {
    const exact_law *law;
    int n, steps, weighted;
    const double *from, *to;
    sosmc_kernel kernel;
    uint64_t seed;
} laws_trip;
void laws_carry(const laws_trip *trip, const double *x, double *x_new, double *logG);

#endif
