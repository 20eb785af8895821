/* problem_model.c: the model of a run file, by the table of kinds, and where theta starts: `model.theta` of the file, or the
 * weights of a network. Invariant: after success problem.model and problem.theta0 are set. */
#include <stdio.h>

#include "problem_inside.h"

static const struct {
    const char *word;
    const model_kind *kind;
} kinds[] = {
#define ROW(word) {#word, &kind_##word},
    MODEL_KINDS(ROW)
#undef ROW
};

/* The schema offers the words of the table and no others; a test compares the two. */
static const model_kind *kind_named(const char *word)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].word, word) == 0) return kinds[i].kind;
    return NULL;
}

/* `model.x_low` and `model.x_high` of the model; an own one may have its bounds already. */
static int read_bounds(builder *b)
{
    sosmc_model *m = &b->job->problem.model;
    int low = config_has(b->c, "model.x_low"), high = config_has(b->c, "model.x_high");
    if (low) m->x_low = job_spread(b, "model.x_low");
    if (high) m->x_high = job_spread(b, "model.x_high");
    return (low && !m->x_low) || (high && !m->x_high) ? -1 : 0;
}

int job_build_model(builder *b)
{
    b->p->kind = kind_named(config_text(b->c, "model.type"));
    if (!b->p->kind)
        return job_wrong(b, "model.type", "is %s, which no kind of model serves", config_text(b->c, "model.type"));
    if (b->p->kind->build(b) || read_bounds(b)) return -1;
    if (!b->job->problem.theta0) b->job->problem.theta0 = job_vector(b, "model.theta", b->job->problem.model.dim_theta);
    b->p->theta = b->job->problem.theta0;
    return b->p->theta ? 0 : -1;
}
