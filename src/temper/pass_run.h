/* pass_run.h: a pass under way, for whoever makes one step by step: pass.c and coordinates.c here, the sampler of the room judge. */
#ifndef SOSMC_TEMPER_PASS_RUN_H
#define SOSMC_TEMPER_PASS_RUN_H

#include "analysis/host.h"
#include "pass.h"
#include "tile.h"

typedef struct {
    const pass_task *task;
    const tile_code *code;
    pass_cloud *p;
    host h, ref;
    int gradient;              /* moves use gradients */
    int leaps;                 /* leapfrog steps of a move */
    int leg;                   /* 0: from the law to the model; 1: from the model to the tilted one */
    int lost;                  /* no particle has a weight any more, or there were too many temperatures */
    int cut;                   /* where the second half begins; n: there is one half */
    double t, step, increment; /* the last increment of t */
    double accepted_sum;       /* over all moves */
    int64_t moves;             /* so far */
    uint64_t number;           /* names the move */
    double *gU, *gq, *keep;    /* tiles of all particles, like p->x; the last is scratch */
    double *Lq, *logw, *d, *accepted, *spare; /* n numbers each; d: log of the weights per unit of t */
    double *scratch;                          /* 2 n + 1 numbers */
    preconditioner own[2];                    /* of the halves, where the task gives none */
    double *pull[2];                          /* of the halves, on the way to a tilted law (tile.h); NULL: none */
    double *inverse[2];                       /* of the diagonals of the preconditioners */
    double *fit, *spare_matrix, *fit_rows;    /* room for two other matrices, and for two rows */
    int *ancestor, *eve;
    double *room; /* of the workers */
    size_t room_each;
} pass_run;

/* A pass in steps, each of which is a temperature: open, begin, step until it is over, finish; close in any case behind open, and
 * free the cloud. */
sosmc_status sosmc_i_pass_open(pass_run *s, const pass_task *task, pass_cloud *out);
sosmc_status sosmc_i_pass_begin(pass_run *s);
sosmc_status sosmc_i_pass_step(pass_run *s);
int sosmc_i_pass_over(const pass_run *s);
sosmc_status sosmc_i_pass_finish(pass_run *s);
void sosmc_i_pass_close(pass_run *s);

static inline int sosmc_i_pass_tiles(const pass_run *s) { return (s->p->n + s->h.tile - 1) / s->h.tile; }

/* Coordinates of the moves of one half, from the weighted particles of the other (coordinates.c). Where these say nothing, they
 * stay what they were. */
void sosmc_i_pass_fit(pass_run *s, int of);

#endif
