/* faulty_model.h: a model that returns values that are not finite when a test tells it to, and an engine on it. */
#ifndef SOSMC_TESTS_FAULTY_MODEL_H
#define SOSMC_TESTS_FAULTY_MODEL_H

#include <sosmc/sosmc.h>

enum { D = 2, N = 150, TILE = 64 }; /* three tiles, the last one short */
extern const double faulty_y[D], faulty_theta0[D];

enum { OFFENDERS = 4 };
typedef enum { IN_ENERGY, IN_GX, IN_SCORE, IN_REFERENCE, IN_LOGPDF, IN_X, IN_GRADIENT, IN_DATA_GRADIENT } fault_place;
/* What goes wrong, and for which particles. The callbacks read it; tests write it between steps. */
typedef struct {
    int armed, everyone;
    /* Faults hit whole batches only: a particle that is evaluated alone, as a restarted one is, has finite values. */
    int batches_only;
    fault_place where;
    double value;
    int64_t offender[OFFENDERS]; /* particles; -1: unused */
    double wall, wall_from; /* beyond x[0] = wall all is NaN, gradients too, once theta[0] > wall_from; 0: no wall */
} fault_plan;

/* The callbacks; self is a fault_plan. */
int faulty_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx);
int faulty_grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g);
int faulty_penalty(const void *self, const double *theta, const sosmc_batch *y, double weight, double *g,
                   double *value);
int faulty_reward(const void *self, const sosmc_batch *b, double *s);
int faulty_logpdf(const void *self, const sosmc_batch *b, double *lq);

typedef struct {
    fault_plan q;
    sosmc_problem p;
    sosmc_settings cfg;
    sosmc *s;
} faulty_run;

/* The optimiser has rate 0, so theta stays constant and messages can be compared with known numbers; a test may change that. */
void faulty_fill(faulty_run *l, sosmc_scheme scheme, sosmc_kernel kernel);
/* These fail the test when the engine returns an error. */
void faulty_open(faulty_run *l);
void faulty_steps(faulty_run *l, int count);
/* Runs one iteration in which the values of the offenders are not finite. */
sosmc_status faulty_bad_step(faulty_run *l);

typedef struct {
    double x[N * D], logw[N];
} snapshot;
void faulty_look(const faulty_run *l, snapshot *c);

#endif
