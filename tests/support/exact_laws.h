/* exact_laws.h: joint laws p(a) p(x | a) that can be drawn exactly and undone exactly, and clouds of them carried by the engine.
 *
 * a are two parameters with normal priors, x the state. p(x | a) is normalised, so Z = 1 at every a and an incremental
 * weight of the engine is a ratio of densities. Where x is drawn from the law, battery_undo gives independent uniforms:
 * that is what the tests compare with. Every particle has parameters of its own: the model finds them by the particle's
 * number, and theta only says how far all of them are on their way from `from` to `to`. Nothing may be resampled then. */
#ifndef SOSMC_TESTS_EXACT_LAWS_H
#define SOSMC_TESTS_EXACT_LAWS_H

#include <sosmc/sosmc.h>

enum { BATTERY_PARAMETERS = 2, BATTERY_DIM = 2, BATTERY_CUBE = BATTERY_PARAMETERS + BATTERY_DIM };
extern const double battery_prior_sd[BATTERY_PARAMETERS];

typedef struct {
    const char *name;
    /* -log p(x | a); gx, when not NULL, is its gradient, without the non-smooth part where there is a prox */
    double (*potential)(const double *a, const double *x, double *gx);
    double (*density)(const double *a, const double *x);       /* -log of what x follows; NULL: the potential */
    void (*draw)(const double *a, const double *u, double *x); /* x from uniforms */
    void (*undo)(const double *a, const double *x, double *u); /* uniforms from x: the inverse of draw */
    void (*prox)(const double *a, double lambda, const double *x, double *p); /* NULL: smooth */
} battery_law;

/* Location and log-scale of a skewed logistic law, and a second coordinate that leans on the first: bounded gradients,
 * hence weights with light tails. */
const battery_law *battery_skewed(void);
/* Every coordinate of density exp(-(x - a_0)^2 / 2 - e^{a_1} |x|) / Z. */
const battery_law *battery_kinked(void);
/* The potential of N(a_0, v I), v = e^{a_1}, and what Langevin steps of h = BATTERY_STEP turn that into:
 * N(a_0, v / (1 - h/2v) I). */
#define BATTERY_STEP 0.3
const battery_law *battery_langevin(void);

/* Independent draws of (a, x); rows of BATTERY_PARAMETERS and BATTERY_DIM. */
void battery_begin(const battery_law *law, int n, uint64_t seed, double *a, double *x);
/* Uniforms of one (a, x): BATTERY_CUBE of them. */
void battery_undo(const battery_law *law, const double *a, const double *x, double *u);
double battery_log_prior(const double *a); /* without constants */
double battery_log_law(const battery_law *law, const double *a, const double *x);

/* n uniforms or normals of a name that no engine draws. */
void battery_uniforms(uint64_t seed, uint32_t number, int n, double *u);
void battery_normals(uint64_t seed, int n, int dim, double *z); /* n rows of dim, at most 64 */

/* All particles from their parameters `from` to `to` in `steps` equal steps of the engine with this kernel, weighted or
 * not. logG: the log-weight the engine gave each (0 when unweighted). Stops the test when the run fails. */
typedef struct {
    const battery_law *law;
    int n, steps, weighted;
    const double *from, *to;
    sosmc_kernel kernel;
    uint64_t seed;
} battery_trip;
void battery_carry(const battery_trip *trip, const double *x, double *x_new, double *logG);

#endif
