/* demo_inside.h: what the parts of `sosmc demo` found, for its page and its three lines. A number that a run did not leave is
 * NaN. */
#ifndef SOSMC_COMMANDS_DEMO_INSIDE_H
#define SOSMC_COMMANDS_DEMO_INSIDE_H

#include <stddef.h>

#include "files/files.h"

enum { DEMO_PLAYERS = 18, DEMO_AT_BATS = 45, DEMO_WARNINGS = 8, DEMO_WARNING = 400 };

#define DEMO_LIKELIHOOD "likelihood"
#define DEMO_REWARD "reward"
#define DEMO_PHOTOGRAPH "photograph"

/* The first sentences of a summary.json against the run: reasons of the verdict, and warnings. */
typedef struct {
    int n;
    char text[DEMO_WARNINGS][DEMO_WARNING];
} demo_warnings;

typedef struct {
    double value, error;
} demo_estimate;

typedef struct {
    int particles, iterations;
    demo_estimate theta, exact_theta;                             /* the errors are those of the data */
    demo_estimate log_likelihood;                                 /* the error is that of the Monte Carlo draws */
    double exact_log_likelihood;                                  /* of the best theta */
    int players;                                                  /* 0: the particles were not kept */
    demo_estimate skill[DEMO_PLAYERS], exact_skill[DEMO_PLAYERS]; /* mean and standard deviation of the posterior */
    demo_warnings warnings;
} demo_likelihood;

typedef struct {
    int particles, iterations;
    double reward, loss, start_reward, best_reward, best_loss;
    demo_warnings warnings;
} demo_reward;

typedef struct {
    int found; /* otherwise nothing else is set: the part is left out */
    int rows, columns;
    double noise, strength, before, after, coverage;
    double white; /* of both maps */
} demo_photograph;

typedef struct {
    char out[FILES_PATH]; /* absolute */
    const char *shown;    /* as the user named it */
    int threads, quick, quiet;
    double seconds;
    demo_likelihood likelihood;
    demo_reward reward;
    demo_photograph photograph;
} demo;

/* Each runs into a folder of its own below OUT and reads what was left there; an exit code, having said what is wrong. */
int demo_run_likelihood(demo *d);
int demo_run_reward(demo *d);
int demo_run_photograph(demo *d);

/* Skills are on a scale on which the noise has variance 1; a batting average is hits per time at bat. */
double demo_batting_average(double skill);

int demo_write_page(const demo *d, char *error, size_t room);
void demo_print(const demo *d, FILE *out);

#endif
