/* faulty_model.h: a model that misbehaves on demand, and an engine that meets it. */
#ifndef SOSMC_TESTS_FAULTY_MODEL_H
#define SOSMC_TESTS_FAULTY_MODEL_H

#include <sosmc/sosmc.h>

enum { D = 2, N = 150, TILE = 64 }; /* three tiles, the last one short */
extern const double lab_y[D], lab_theta0[D];

enum { OFFENDERS = 4 };
typedef enum { IN_ENERGY, IN_GX, IN_SCORE, IN_REFERENCE, IN_LOGPDF, IN_X, IN_GRADIENT, IN_DATA_GRADIENT } place;
/* Read by the callbacks, written by the tests between steps. */
typedef struct {
    int armed, everyone;
    int batches_only; /* a particle evaluated alone, as a restarted one is, is healthy */
    place where;
    double value;
    int64_t offender[OFFENDERS]; /* particles; -1: unused */
    double wall, wall_from; /* beyond x[0] = wall all is NaN, gradients too, once theta[0] > wall_from; 0: no wall */
} plan;

/* The callbacks; self is a plan. */
int lab_energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx);
int lab_grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g);
int lab_penalty(const void *self, const double *theta, const sosmc_batch *y, double weight, double *g, double *value);
int lab_reward(const void *self, const sosmc_batch *b, double *s);
int lab_logpdf(const void *self, const sosmc_batch *b, double *lq);

typedef struct {
    plan q;
    sosmc_problem p;
    sosmc_settings cfg;
    sosmc *s;
} lab;

/* theta stands still unless a test wants otherwise, so that messages can be compared with known numbers. */
void lab_fill(lab *l, sosmc_scheme scheme, sosmc_kernel kernel);
/* These fail the test when the engine does. */
void lab_open(lab *l);
void lab_steps(lab *l, int count);
/* One iteration in which the offenders are not finite. */
sosmc_status lab_bad_step(lab *l);

typedef struct {
    double x[N * D], logw[N];
} snapshot;
void lab_look(const lab *l, snapshot *c);

#endif
