/* reproduce.h: the paper's experiments. */
#ifndef CLI_REPRODUCE_H
#define CLI_REPRODUCE_H

typedef struct {
    const char *out;
    int quick, quiet;
    double budget_seconds; /* 0: a fixed number of iterations */
    int seeds, threads;    /* 0: the experiment's own */
    int full;              /* ebm2d: the beta sweep and the other data sets too */
    int pretrain;          /* ebm2d: train the models first instead of taking the stored ones */
    const char *models;    /* ebm2d: the folder of the stored models; NULL: where they were installed */
} reproduce_options;

/* They return the exit code. */
int reproduce_langevin(const reproduce_options *options);
int reproduce_ebm2d(const reproduce_options *options);

/* The same at a size of one's own. */
struct ebm2d_scale;
int reproduce_ebm2d_scaled(const reproduce_options *options, const struct ebm2d_scale *scale);

#endif
