/* reproduce.h: the paper's experiments. */
#ifndef SOSMC_COMMON_REPRODUCE_H
#define SOSMC_COMMON_REPRODUCE_H

#include <stdint.h>

typedef struct {
    const char *out;
    int quick, quiet;
    double budget_seconds;  /* 0: a fixed number of iterations */
    int seeds, threads;     /* 0: the experiment's own */
    int full;               /* ebm2d: the beta sweep and the other data sets too; mnist: all published sizes */
    int paper;              /* mnist: the sweeps with the settings of the paper's text too */
    int pretrain;           /* ebm2d: train the models first instead of taking the stored ones */
    const char *models;     /* ebm2d: the folder of the stored models; NULL: where they were installed */
    const char *checkpoint; /* mnist: a stored network of digits; NULL: the one that was installed */
    const char *data;       /* deblurring: the folder of the photograph; NULL: the one that was installed */
    uint64_t seed;          /* mnist, deblurring, theory: of all runs */
    const char *only;       /* theory: the id of one statement; NULL: all of them */
} reproduce_options;

/* They return the exit code. */
int reproduce_langevin(const reproduce_options *options);
int reproduce_ebm2d(const reproduce_options *options);
int reproduce_mnist(const reproduce_options *options);
int reproduce_deblurring(const reproduce_options *options);
int reproduce_theory(const reproduce_options *options);

/* The same at a size of one's own. */
struct ebm2d_scale;
int reproduce_ebm2d_scaled(const reproduce_options *options, const struct ebm2d_scale *scale);
struct mnist_scale;
int reproduce_mnist_scaled(const reproduce_options *options, const struct mnist_scale *scale);

#endif
