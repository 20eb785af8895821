/* test_resampling_counts.c: the number of offspring of every particle against its exact law, for every scheme.
 *
 * With n particles of shares p_a, r_a = n p_a - floor(n p_a) and R = sum r_a, offspring are distributed as
 *
 *     multinomial           Binomial(n, p_a)
 *     stratified            a sum of independent 0/1, one per stratum, with the part of the stratum that belongs to a
 *     systematic, SSP       floor(n p_a) + Binomial(1, r_a)
 *     residual              floor(n p_a) + Binomial(R, r_a / R)
 *
 * Each index has two comparisons: the counts of all replicates with this law, and whether a count above its mean says
 * anything about the next replicate's (numbers used twice would). Both are likelihood-ratio chi-squares with a proved
 * p-value. Once for sosmc_resample itself, once for what the engine makes of the weights its model gives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/models.h>

#include "stats.h"

enum { N = 12, SCHEMES = 5, CELLS = N + 1, PLANNED = 2 * SCHEMES * N * 2 };
static int comparisons;
static const char *const scheme_name[SCHEMES] = {"multinomial", "stratified", "systematic", "residual", "SSP"};

/* Expected numbers from 0.03 to 3.6, one of them an integer; they add up to N. */
static const double weight[N] = {0.4, 0.03, 1.0, 2.7, 0.25, 0.9, 0.12, 3.6, 0.6, 0.55, 1.35, 0.5};

/* ---------------------------------------------------------------------------- exact laws */

/* law <- law of (old + an independent 0/1) */
static void add_event(double law[CELLS], double probability)
{
    for (int c = N; c >= 0; c--) law[c] = law[c] * (1 - probability) + (c ? law[c - 1] * probability : 0);
}

static double part(double expected) { return expected - floor(expected + 1e-12); }

static void exact_law(sosmc_resampling scheme, int a, double law[CELLS])
{
    double left = 0, rest = 0, r = fmax(0, part(weight[a]));
    for (int b = 0; b < a; b++) left += weight[b];
    for (int b = 0; b < N; b++) rest += fmax(0, part(weight[b]));
    memset(law, 0, CELLS * sizeof *law);
    law[scheme == SOSMC_MULTINOMIAL || scheme == SOSMC_STRATIFIED ? 0 : (int)floor(weight[a] + 1e-12)] = 1;
    switch (scheme) {
    case SOSMC_MULTINOMIAL:
        for (int i = 0; i < N; i++) add_event(law, weight[a] / N);
        break;
    case SOSMC_STRATIFIED:
        for (int i = 0; i < N; i++) add_event(law, fmax(0, fmin(i + 1, left + weight[a]) - fmax(i, left)));
        break;
    case SOSMC_RESIDUAL:
        for (int i = 0; i < (int)lround(rest); i++) add_event(law, r / rest);
        break;
    default: add_event(law, r); break;
    }
    for (int c = 0; c < CELLS; c++)
        if (law[c] < 1e-13) law[c] = 0; /* the rounding of the sums above */
}

/* ---------------------------------------------------------------------------- counts and verdicts */

typedef struct {
    int64_t count[N][CELLS]; /* how often index a had c offspring */
    int64_t pair[N][4];      /* replicates 2r and 2r + 1: below or above the mean, each */
    int64_t replicates;
    int first_above[N];
} record;

static void enter(record *r, const int offspring[N])
{
    int even = r->replicates++ % 2 == 0;
    for (int a = 0; a < N; a++) {
        int above = offspring[a] > weight[a];
        r->count[a][offspring[a]]++;
        if (even)
            r->first_above[a] = above;
        else
            r->pair[a][2 * r->first_above[a] + above]++;
    }
}

static void verdicts(const record *r, sosmc_resampling scheme, int a, double *fit, double *serial)
{
    double law[CELLS], above = 0;
    exact_law(scheme, a, law);
    for (int c = 0; c < CELLS; c++) above += c > weight[a] ? law[c] : 0;
    const double product[4] = {(1 - above) * (1 - above), (1 - above) * above, above * (1 - above), above * above};
    *fit = stats_fit_p(CELLS, r->count[a], law);
    *serial = stats_fit_p(4, r->pair[a], product);
}

static void judge(stats_ledger *ledger, const record *r, sosmc_resampling scheme, const char *who)
{
    for (int a = 0; a < N; a++) {
        double fit, serial;
        verdicts(r, scheme, a, &fit, &serial);
        stats_note(ledger, fit, "%s, %s, offspring of %d", who, scheme_name[scheme], a);
        stats_note(ledger, serial, "%s, %s, offspring of %d twice", who, scheme_name[scheme], a);
    }
}

static void must_notice(const stats_ledger *ledger, const record *r, sosmc_resampling scheme, const char *what)
{
    double least = 1;
    for (int a = 0; a < N; a++) {
        double fit, serial;
        verdicts(r, scheme, a, &fit, &serial);
        least = fmin(least, fmin(fit, serial));
    }
    stats_must_notice_p(ledger, least, what);
}

/* ---------------------------------------------------------------------------- sosmc_resample */

typedef void (*resampler)(sosmc_resampling scheme, uint64_t replicate, int *ancestors);

static void resample_with(sosmc_resampling scheme, uint64_t step, const double *w, int *ancestors)
{
    double scratch[2 * N + 1];
    sosmc_rng rng = {.seed = stats_seed(99), .step = step, .stream = SOSMC_STREAM_RESAMPLE};
    assert_int_equal(sosmc_resample(scheme, rng, N, w, scratch, ancestors), SOSMC_OK);
}

static void as_it_is(sosmc_resampling scheme, uint64_t replicate, int *ancestors)
{
    resample_with(scheme, replicate, weight, ancestors);
}

static void shifted(sosmc_resampling scheme, uint64_t replicate, int *ancestors)
{
    double w[N];
    for (int a = 0; a < N; a++) w[a] = weight[(a + 1) % N];
    resample_with(scheme, replicate, w, ancestors);
}

static void flattened(sosmc_resampling scheme, uint64_t replicate, int *ancestors)
{
    double w[N];
    for (int a = 0; a < N; a++) w[a] = pow(weight[a], 0.9);
    resample_with(scheme, replicate, w, ancestors);
}

static void twice_the_same(sosmc_resampling scheme, uint64_t replicate, int *ancestors)
{
    resample_with(scheme, replicate / 2, weight, ancestors);
}

/* Systematic with a uniform that never comes near 0. */
static void short_of_zero(sosmc_resampling scheme, uint64_t replicate, int *ancestors)
{
    double u, sum = weight[0];
    sosmc_batch one = {.dim = 1, .n = 1, .ld = 1};
    sosmc_uniforms((sosmc_rng){.seed = stats_seed(98), .step = replicate, .stream = SOSMC_STREAM_USER}, 0, &one, &u);
    u = 0.05 + 0.95 * u;
    for (int i = 0, a = 0; i < N; i++) {
        while (a < N - 1 && !(sum > i + u)) sum += weight[++a];
        ancestors[i] = a;
    }
}

static void replicate(resampler run, sosmc_resampling scheme, record *r)
{
    memset(r, 0, sizeof *r);
    for (int k = 0; k < stats_by_tier(40000, 2000000, 40000); k++) {
        int ancestors[N], offspring[N] = {0};
        run(scheme, (uint64_t)k, ancestors);
        for (int i = 0; i < N; i++) offspring[ancestors[i]]++;
        enter(r, offspring);
    }
}

static void offspring_follow_their_law(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    static record r;
    for (int s = 0; s < SCHEMES; s++) {
        replicate(as_it_is, (sosmc_resampling)s, &r);
        judge(&ledger, &r, (sosmc_resampling)s, "sosmc_resample");
    }
    comparisons += stats_close(&ledger);
}

static void biased_resampling_is_noticed(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    static record r;
    for (int s = 0; s < SCHEMES; s++) {
        char what[100];
        const struct {
            const char *name;
            resampler run;
        } broken[] = {{"weights of the neighbour", shifted},
                      {"flattened weights", flattened},
                      {"numbers used twice", twice_the_same}};
        for (int b = 0; b < 3; b++) {
            replicate(broken[b].run, (sosmc_resampling)s, &r);
            (void)snprintf(what, sizeof what, "%s, %s", scheme_name[s], broken[b].name);
            must_notice(&ledger, &r, (sosmc_resampling)s, what);
        }
    }
    replicate(short_of_zero, SOSMC_SYSTEMATIC, &r);
    must_notice(&ledger, &r, SOSMC_SYSTEMATIC, "systematic with a uniform above 0.05");
    replicate(as_it_is, SOSMC_SYSTEMATIC, &r);
    must_notice(&ledger, &r, SOSMC_MULTINOMIAL, "systematic by the law of multinomial");
    replicate(as_it_is, SOSMC_STRATIFIED, &r);
    must_notice(&ledger, &r, SOSMC_RESIDUAL, "stratified by the law of residual");
}

/* ---------------------------------------------------------------------------- the engine */

/* Particle i stands at i, and its potential gives it the weight of (i + shift) mod N. */
static int places(const void *self, sosmc_rng rng, const sosmc_batch *b, double *x)
{
    for (int i = 0; i < b->n; i++) x[i] = (double)(b->first + i);
    return 0;
}

static int no_density(const void *self, const sosmc_batch *b, double *lq)
{
    for (int i = 0; i < b->n; i++) lq[i] = 0;
    return 0;
}

static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    const int *shift = self;
    for (int i = 0; i < b->n; i++) {
        U[i] = -log(weight[((int)lround(b->x[i]) + *shift) % N]);
        if (gx) gx[i] = 0;
    }
    return 0;
}

static int no_gradient(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    return 0;
}

static void resample_in_the_engine(sosmc_resampling scheme, int shift, record *r)
{
    sosmc_problem p = {
        .model = {.dim_x = 1, .dim_theta = 1, .self = &shift, .energy = energy, .grad_theta = no_gradient},
        .objective = sosmc_sampling((sosmc_score){0}),
        .init = {.draw = places, .logpdf = no_density}};
    sosmc_settings cfg = sosmc_defaults();
    cfg.scheme = sosmc_scheme_sosmc(N);
    cfg.scheme.resampling = scheme;
    cfg.scheme.ess_min = 2;
    memset(r, 0, sizeof *r);
    for (int k = 0; k < stats_by_tier(6000, 200000, 2000); k++) {
        double x[N];
        int offspring[N] = {0};
        sosmc *s = NULL;
        cfg.seed = stats_seed((uint64_t)k);
        assert_int_equal(sosmc_create(&s, &p, &cfg), SOSMC_OK);
        assert_int_equal(sosmc_step(s), SOSMC_OK);
        assert_int_equal(sosmc_last(s)->resampled, 1);
        assert_int_equal(sosmc_cloud(s, x, NULL), SOSMC_OK);
        for (int i = 0; i < N; i++) offspring[lround(x[i])]++;
        enter(r, offspring);
        sosmc_free(s);
    }
}

static void the_engine_resamples_by_its_weights(void **state)
{
    stats_ledger ledger = stats_open(PLANNED);
    static record r;
    for (int s = 0; s < SCHEMES; s++) {
        resample_in_the_engine((sosmc_resampling)s, 0, &r);
        judge(&ledger, &r, (sosmc_resampling)s, "engine");
    }
    comparisons += stats_close(&ledger);
    for (int s = 0; s < SCHEMES; s++) {
        char what[100];
        resample_in_the_engine((sosmc_resampling)s, 1, &r);
        (void)snprintf(what, sizeof what, "engine, %s, weights of another particle", scheme_name[s]);
        must_notice(&ledger, &r, (sosmc_resampling)s, what);
    }
}

static void as_many_comparisons_as_announced(void **state) { assert_int_equal(comparisons, PLANNED); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offspring_follow_their_law),
        cmocka_unit_test(biased_resampling_is_noticed),
        cmocka_unit_test(the_engine_resamples_by_its_weights),
        cmocka_unit_test(as_many_comparisons_as_announced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
