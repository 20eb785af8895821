/* sampler_law.c: where the measurement of a sampler starts: a normal fit of the trial's cloud and, for a fifth, the caller's
 * law, which does not know the trial: in few dimensions, what that has lost is found again through it. */
#include <stdlib.h>
#include <string.h>

#include "sampler_inside.h"

static const double FROM_TRIAL = 0.8, FROM_GIVEN = 0.2, INFLATE = 1.2;

/* The caller's components, with full matrices where the others have them. */
static sosmc_status add_given(sosmc_sampler *s, double *L)
{
    const laws *q = &s->given;
    laws *to = &s->fitted;
    size_t dim = (size_t)q->dim;
    for (int k = 0; k < q->count; k++) {
        const law *a = &q->part[k];
        int spread = q->diagonal && !to->diagonal;
        memset(L, 0, sosmc_i_law_doubles(to) * sizeof *L);
        for (size_t j = 0; j < dim && spread; j++) L[j * dim + j] = a->L[j];
        if (sosmc_i_laws_add(to, FROM_GIVEN * a->weight, a->dof, a->mean, spread ? L : a->L)) return SOSMC_ENOMEM;
    }
    return SOSMC_OK;
}

sosmc_status sosmc_i_sampler_law(sosmc_sampler *s, const double *mean, const double *L)
{
    int dim = s->given.dim;
    sosmc_i_laws_free(&s->fitted);
    s->fitted = (laws){.dim = dim, .diagonal = dim > LAW_FULL};
    double *room = malloc(sosmc_i_law_doubles(&s->fitted) * sizeof *room);
    sosmc_status status = room ? add_given(s, room) : SOSMC_ENOMEM;
    if (status == SOSMC_OK && sosmc_i_laws_add(&s->fitted, FROM_TRIAL, 0, mean, L)) status = SOSMC_ENOMEM;
    if (status == SOSMC_OK) sosmc_i_laws_close(&s->fitted);
    free(room);
    return status;
}

sosmc_status sosmc_i_sampler_fit(sosmc_sampler *s)
{
    const pass_cloud *p = &s->cloud;
    const laws shape = {.dim = p->dim, .diagonal = p->dim > LAW_FULL};
    size_t dim = (size_t)p->dim, n = (size_t)p->n;
    double *x = malloc((n * dim + dim + sosmc_i_law_doubles(&shape)) * sizeof *x);
    if (!x) return SOSMC_ENOMEM;
    double *mean = x + n * dim, *L = mean + dim;
    sosmc_status status = SOSMC_OK;
    sosmc_i_sampler_cloud(s, x, NULL);
    if (sosmc_i_fit_normal(&shape, (int64_t)n, x, p->w, INFLATE, mean, L) == 0)
        status = s->given.count < LAW_MOST ? sosmc_i_sampler_law(s, mean, L) : SOSMC_OK;
    free(x);
    return status;
}
