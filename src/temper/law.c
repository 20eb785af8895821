/* law.c: the starting laws of tempering as a caller makes them (temper.h), from the mixtures of laws.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "law.h"

enum { FITTED_PARTS = 8 };
static const double INFLATE = 1.2;

sosmc_law *sosmc_law_create(int dim, int correlated)
{
    sosmc_law *l = dim > 0 ? calloc(1, sizeof *l) : NULL;
    if (l) l->q = (laws){.dim = dim, .diagonal = !correlated || dim > LAW_FULL};
    return l;
}

void sosmc_law_free(sosmc_law *l)
{
    if (!l) return;
    sosmc_i_laws_free(&l->q);
    free(l);
}

static sosmc_status add(sosmc_law *l, double weight, const double *mean, const double *L)
{
    if (!(weight > 0) || !isfinite(weight) || l->q.count == LAW_MOST) return SOSMC_EINVAL;
    return sosmc_i_laws_add(&l->q, weight, 0, mean, L) ? SOSMC_ENOMEM : SOSMC_OK;
}

/* A mean and a factor, as one piece of memory; NULL: there is none. */
static double *room_of(const sosmc_law *l)
{
    return calloc((size_t)l->q.dim + sosmc_i_law_doubles(&l->q), sizeof(double));
}

sosmc_status sosmc_law_add(sosmc_law *l, double weight, const double *mean, const double *sd)
{
    size_t dim = (size_t)l->q.dim;
    double *m = room_of(l), *L = m ? m + dim : NULL;
    sosmc_status status = m ? SOSMC_OK : SOSMC_ENOMEM;
    for (size_t j = 0; j < dim && status == SOSMC_OK; j++) {
        if (mean) m[j] = mean[j];
        L[l->q.diagonal ? j : j * dim + j] = sd[j];
        if (!(sd[j] > 0) || !isfinite(sd[j]) || !isfinite(m[j])) status = SOSMC_EINVAL;
    }
    if (status == SOSMC_OK) status = add(l, weight, m, L);
    free(m);
    return status;
}

sosmc_status sosmc_law_add_fit(sosmc_law *l, double weight, int64_t n, const double *x, const double *w)
{
    double total = 0;
    int before = l->q.count, room = LAW_MOST - before;
    for (int64_t i = 0; i < n; i++) {
        total += w ? w[i] : 1;
        if (w && !(w[i] >= 0)) return SOSMC_EINVAL;
        for (size_t j = 0; j < (size_t)l->q.dim; j++)
            if (!isfinite(x[(size_t)i * (size_t)l->q.dim + j])) return SOSMC_EINVAL;
    }
    if (n < 2 || !(total > 0) || !isfinite(total) || !(weight > 0) || !isfinite(weight) || room < 1)
        return SOSMC_EINVAL;
    if (sosmc_i_fit_mixture(&l->q, room < FITTED_PARTS ? room : FITTED_PARTS, weight, INFLATE, n, x, w))
        return SOSMC_ENOMEM;
    return l->q.count > before ? SOSMC_OK : SOSMC_EINVAL; /* a spread that overflows has no fit */
}
