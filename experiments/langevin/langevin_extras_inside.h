/* langevin_extras_inside.h: what the parts of the rest of the Langevin page share: their request, one run with everything they
 * look at, and rows of tables.
 *
 * Functions that return int are 0 for success; otherwise the sentence is in extras.error. */
#ifndef SOSMC_LANGEVIN_LANGEVIN_EXTRAS_INSIDE_H
#define SOSMC_LANGEVIN_LANGEVIN_EXTRAS_INSIDE_H

#include "common/claims.h"
#include "common/experiment.h"
#include "langevin_extras.h"
#include "view/plot.h"

enum { A, B, C, D }; /* the settings */
enum { PLANE = 2, LINE = 768, CLOUD = 1500, MANY = 40, MODES = LANGEVIN_MAX };
enum { RWM, MALA, KERNELS }; /* those that leave the target invariant */
extern const char *const langevin_kernel_names[KERNELS];

typedef struct {
    const reproduce_options *o;
    int particles, seeds, threads;
    double scale; /* of the number of iterations */
    page *page;
    const char *figures;
    char *error;
    size_t room;
} extras;

int langevin_iterations(const extras *e, int setting);

typedef struct {
    double mean, half; /* 1.96 standard errors */
} summary;
summary langevin_summarise(const double *v, int n);

/* One run with everything we look at. */
typedef struct {
    sosmc_mixture mixture;
    const double *theta_ref;
    sosmc_score reward;
    sosmc_scheme scheme;
    sosmc_kernel kernel;
    sosmc_adapt adapt[2];
    sosmc_optimiser optimiser;
    int iterations;
    uint64_t seed;
    double optimum; /* what `reached` is measured against */
    double *sample; /* NULL, or room for CLOUD points of the plane: the cloud at the end, resampled */
    struct {
        double reward, step, acceptance, seconds;
        double weight[MODES]; /* softmax(theta) */
        double right;         /* weight of the particles with x_1 > 0 */
        double distinct;      /* share of different particles */
        int reached;          /* first iteration within 1% of the optimum, -1: none */
    } end;
} task;

/* The published weighted run of a setting, Adam without divergence term. */
task langevin_published(const extras *e, const langevin_setting *s, sosmc_kernel kernel, int iterations, int seed);
int langevin_run_tasks(const extras *e, task *t, int n); /* in parallel */

/* The parts of the page. */
int langevin_single_run(const extras *e);    /* langevin_single.c */
int langevin_claims(const extras *e);        /* langevin_claims.c */
int langevin_several_peaks(const extras *e); /* langevin_beyond.c, as what follows */
int langevin_initial_step(const extras *e);
int langevin_feedback(const extras *e);

#endif
