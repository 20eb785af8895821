/* reproduce.h: the paper's experiments. */
#ifndef CLI_REPRODUCE_H
#define CLI_REPRODUCE_H

typedef struct {
    const char *out;
    int quick, quiet;
    double budget_seconds; /* 0: a fixed number of iterations */
    int seeds, threads;    /* 0: the experiment's own */
} reproduce_options;

/* Returns the exit code. */
int reproduce_langevin(const reproduce_options *options);

#endif
