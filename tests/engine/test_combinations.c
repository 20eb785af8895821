/* test_combinations.c: every kernel with every scheme, objective and way of resampling, at small size.
 *
 * A combination is refused by sosmc_create with the sentence that the table below expects, or it runs: then its numbers are
 * finite, and the hash of the state after every iteration is the same with three threads, at every vector level and when the
 * run is saved half-way and taken up by another engine. What is refused cannot grow silently: docs/fuzzing.md shows the
 * table, and the test compares it. The last line is a hash over all combinations, which must not depend on the compiler
 * (tools/matrix.sh). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sosmc/imaging.h>

#include "memory_stream.h"

enum { DIM = 2, THETA = 2, N = 13, ITERATIONS = 4, HALF_WAY = 2 };
enum { LINES = 2, COLUMNS = 3, PIXELS = LINES * COLUMNS };

/* ------------------------------------------------------------------------------------------------ the problem */

/* U = |x - theta|^2/2 + sum_j (theta_j^2/8 + x_j^4/64 + |x_j|/2); the last part has a proximal map, and where it is offered
 * gx is that of the others alone. Nothing passes through libm. */
static int energy(const void *self, const double *theta, const sosmc_batch *b, double *U, double *gx)
{
    int smooth = self == NULL;
    for (int i = 0; i < b->n; i++) U[i] = 0;
    for (int j = 0; j < DIM; j++) {
        const double *x = b->x + (size_t)j * (size_t)b->ld;
        for (int i = 0; i < b->n; i++) {
            double off = x[i] - theta[j], cube = x[i] * x[i] * x[i];
            U[i] += 0.5 * off * off + 0.125 * theta[j] * theta[j] + 0.015625 * cube * x[i];
            if (!smooth) U[i] += 0.5 * fabs(x[i]);
            if (gx) gx[(size_t)j * (size_t)b->ld + (size_t)i] = off + 0.0625 * cube;
        }
    }
    return 0;
}

static int grad_theta(const void *self, const double *theta, const sosmc_batch *b, const double *c, double *g)
{
    for (int j = 0; j < DIM; j++)
        for (int i = 0; i < b->n; i++) {
            double x = b->x[(size_t)j * (size_t)b->ld + (size_t)i];
            g[j] += c[i] * (1.25 * theta[j] - x);
        }
    return 0;
}

static int prox(const void *self, const double *theta, double lambda, const sosmc_batch *b, double *p)
{
    for (int j = 0; j < DIM; j++)
        for (int i = 0; i < b->n; i++) {
            size_t at = (size_t)j * (size_t)b->ld + (size_t)i;
            double size = fabs(b->x[at]) - 0.5 * lambda;
            p[at] = size <= 0 ? 0 : b->x[at] > 0 ? size : -size;
        }
    return 0;
}

static int reward(const void *self, const sosmc_batch *b, double *s)
{
    for (int i = 0; i < b->n; i++) s[i] = (b->x[i] > 0 ? 1 : 0) + 0.25 * b->x[b->ld + i];
    return 0;
}

static const double START[THETA] = {0.5, -0.25};
static const double DATA[6 * DIM] = {1, 0, -0.5, 2, 0.25, 0.75, -1, -1, 1.5, 0.5, 0, 0.125};
static const sosmc_rows ROWS = {.data = DATA, .rows = 6, .mode = SOSMC_ROWS_RANDOM};

/* Pictures for the kernel that knows no other model: one that is blurred and partly unseen, one with edges for themselves,
 * and one whose potential is an envelope, which the kernel cannot sample. */
static const double SEEN[PIXELS] = {0.5, 1.25, -0.75, -1, 0.25, 2}, MASK[PIXELS] = {1, 1, 0, 1, 1, 1};
static const double DRAWN[4 * PIXELS] = {1, 0, -0.5, 2,     0.25, 0.75, -1,   -1, 1.5, 0.5,  0,   0.125,
                                         0, 1, 0.5,  -0.25, 2,    1.5,  -0.5, 1,  -2,  0.25, 0.5, 1};
static const sosmc_rows PICTURES = {.data = DRAWN, .rows = 4, .mode = SOSMC_ROWS_RANDOM};

enum { NO_PICTURE, BLURRED, EDGES, ENVELOPE };
#define PICTURE(...)                                                                                   \
    {                                                                                                  \
        .channels = 1, .y = SEEN, .sigma = 0.75, .tolerance = 1e-6, .freedom = PIXELS - 1, __VA_ARGS__ \
    }
static const sosmc_deblur DEBLURS[] = {
    [BLURRED] = PICTURE(.blur = {.rows = LINES, .columns = COLUMNS, .kind = SOSMC_BLUR_BOX, .patch = 3, .mask = MASK},
                        .tv = SOSMC_TV_ISOTROPIC, .prox_tv = SOSMC_TV_ANISOTROPIC),
    [EDGES] = PICTURE(.blur = {.rows = LINES, .columns = COLUMNS}, .tv = SOSMC_TV_ANISOTROPIC,
                      .prox_tv = SOSMC_TV_ANISOTROPIC),
    [ENVELOPE] = PICTURE(.blur = {.rows = LINES, .columns = COLUMNS}, .tv = SOSMC_TV_ANISOTROPIC,
                         .prox_tv = SOSMC_TV_ANISOTROPIC, .envelope = 0.25),
};

/* ------------------------------------------------------------------------------------------------ what is combined */

typedef struct {
    const char *name;
    sosmc_kernel kernel;
    int prox;    /* the model has a proximal map */
    int picture; /* the model is the deblurring of this picture */
} kernel_row;

enum { KERNELS = 18, SCHEMES = 8, OBJECTIVES = 5, RESAMPLINGS = 5 };

static kernel_row kernel_of(int which)
{
    const kernel_row rows[KERNELS] = {
        {"ula", sosmc_ula(0.1), 0, NO_PICTURE},
        {"ula at the new theta", sosmc_ula(0.1), 0, NO_PICTURE},
        {"ula, clamped", sosmc_ula_clamped(0.1, 2), 0, NO_PICTURE},
        {"mala", sosmc_mala(0.3), 0, NO_PICTURE},
        {"rwm", sosmc_rwm(0.3), 0, NO_PICTURE},
        {"hmc", sosmc_hmc(0.4, 3, 1.5), 0, NO_PICTURE},
        {"leapfrog", sosmc_leapfrog(0.3, 3, 1.5), 0, NO_PICTURE},
        {"underdamped", sosmc_underdamped(0.3, 1.5, 0.8), 0, NO_PICTURE},
        {"jitter", sosmc_jitter(0.5, 0.05, 2, 0.5), 0, NO_PICTURE},
        {"myula, invariant", sosmc_myula(0.05, 0.2, SOSMC_MYULA_AS_INVARIANT), 1, NO_PICTURE},
        {"myula, ratio", sosmc_myula(0.05, 0.2, SOSMC_MYULA_RATIO), 1, NO_PICTURE},
        {"myula, cached", sosmc_myula(0.05, 0.2, SOSMC_MYULA_CACHED), 1, NO_PICTURE},
        {"mymala", sosmc_mymala(0.05, 0.2), 1, NO_PICTURE},
        {"underdamped, non-smooth model", sosmc_underdamped(0.3, 0, 1), 1, NO_PICTURE},
        {"myula, model without prox", sosmc_myula(0.05, 0.2, SOSMC_MYULA_CACHED), 0, NO_PICTURE},
        {"gibbs", sosmc_deblur_gibbs(&DEBLURS[BLURRED], 0.5), 0, BLURRED},
        {"gibbs, anisotropic", sosmc_deblur_gibbs(&DEBLURS[EDGES], 0.5), 0, EDGES},
        {"gibbs, model with an envelope", sosmc_deblur_gibbs(&DEBLURS[ENVELOPE], 0.5), 0, ENVELOPE},
    };
    kernel_row row = rows[which];
    if (which == 1) row.kernel.forward_at = SOSMC_AT_CURRENT;
    return row;
}

static const char *const SCHEME_NAMES[SCHEMES] = {
    "sosmc", "sosmc, authors' order", "sosmc, two sweeps", "unweighted", "moved first", "soul", "pcd", "pcd, newest"};

static sosmc_scheme scheme_of(int which)
{
    sosmc_scheme s = sosmc_scheme_sosmc(N);
    s.ess_min = 0.97;
    switch (which) {
    case 1: s.order = SOSMC_ORDER_AUTHORS; break;
    case 2: s.sweeps = 2; break;
    case 3: return sosmc_scheme_unweighted(N);
    case 4: return sosmc_scheme_moved_first(N);
    case 5: return sosmc_scheme_soul(6);
    case 6:
    case 7:
        s = sosmc_scheme_pcd(5, N, 2);
        s.pool_rule = which == 7 ? SOSMC_POOL_NEWEST : SOSMC_POOL_IN_PLACE;
        s.refresh = 0.25;
        break;
    default: break;
    }
    return s;
}

static const char *const OBJECTIVE_NAMES[OBJECTIVES] = {"mmle", "likelihood", "reward_forward", "reward_reverse",
                                                        "none"};

static sosmc_objective objective_of(int which, const kernel_row *row)
{
    sosmc_score score = {.eval = reward};
    sosmc_source data = sosmc_rows_source(row->picture ? &PICTURES : &ROWS);
    sosmc_objective o = sosmc_mmle();
    switch (which) {
    case 1: return sosmc_likelihood(data, 4);
    case 2: return sosmc_reward_forward(score, 0.3, data, 4, START);
    case 3: return sosmc_reward_reverse(score, 0.2, START);
    case 4: o.scale = 0; break;
    default: break;
    }
    return o;
}

static const char *const RESAMPLING_NAMES[RESAMPLINGS] = {"multinomial", "stratified", "systematic", "residual", "ssp"};

/* ------------------------------------------------------------------------------------------------ what is refused */

static const char *const REASONS[] = {"has no tractable density", "takes proximal maps, and the model has none",
                                      "kernel.step or kernel.name is missing"};

/* Why kernel and scheme do not go together, counted from 1; 0: they do. Nothing depends on objective or resampling. */
static int refusal(int kernel, int scheme)
{
    const kernel_row row = kernel_of(kernel);
    if (scheme_of(scheme).weighted && (!strcmp(row.name, "ula, clamped") || !strcmp(row.name, "jitter"))) return 1;
    if (row.picture == ENVELOPE) return 3;
    return strcmp(row.name, "myula, model without prox") == 0 ? 2 : 0;
}

/* ------------------------------------------------------------------------------------------------ running */

typedef struct {
    char name[160];
    sosmc_problem p;
    sosmc_settings cfg;
} combination;

static sosmc_model model_of(const kernel_row *row)
{
    static const char non_smooth;
    if (row->picture) return sosmc_deblur_model(&DEBLURS[row->picture]);
    return (sosmc_model){.dim_x = DIM,
                         .dim_theta = THETA,
                         .tile = 4,
                         .energy = energy,
                         .grad_theta = grad_theta,
                         .self = row->prox ? &non_smooth : NULL,
                         .prox = row->prox ? prox : NULL};
}

static combination combine(int kernel, int scheme, int objective, int resampling)
{
    kernel_row row = kernel_of(kernel);
    combination c = {.p = {.model = model_of(&row),
                           .objective = objective_of(objective, &row),
                           .init = sosmc_standard_normal(),
                           .theta0 = START},
                     .cfg = sosmc_defaults()};
    (void)snprintf(c.name, sizeof c.name, "%s x %s x %s x %s", row.name, SCHEME_NAMES[scheme],
                   OBJECTIVE_NAMES[objective], RESAMPLING_NAMES[resampling]);
    c.cfg.kernel = row.kernel;
    c.cfg.scheme = scheme_of(scheme);
    c.cfg.scheme.resampling = resampling;
    c.cfg.optimiser = sosmc_adam(0.05);
    int64_t number = ((kernel * SCHEMES + scheme) * OBJECTIVES + objective) * RESAMPLINGS + resampling;
    c.cfg.seed = (uint64_t)number;
    return c;
}

typedef struct {
    uint64_t hash[ITERATIONS];
    int resampled;
} outcome;

static void must(sosmc_status status, const combination *c, const sosmc *s, const char *how)
{
    if (status != SOSMC_OK) fail_msg("%s, %s: %s", c->name, how, sosmc_message(s));
}

static void look_at_numbers(const combination *c, const sosmc *s)
{
    const sosmc_info *info = sosmc_last(s);
    double x[N * PIXELS], logw[N];
    int dim = c->p.model.dim_x;
    const double values[] = {info->ess, info->mean_energy, info->h, info->rate, info->grad_norm};
    /* where nothing is optimised there is no gradient, and it is NaN by design */
    int count = (int)(sizeof values / sizeof *values) - (c->p.objective.scale == 0);
    for (int i = 0; i < count; i++)
        if (!isfinite(values[i])) fail_msg("%s: number %d of the info is %g", c->name, i, values[i]);
    for (int j = 0; j < c->p.model.dim_theta; j++) assert_true(isfinite(sosmc_theta(s)[j]));
    int n = sosmc_particles(s);
    assert_in_range(n, 1, N);
    assert_in_range(dim, 1, PIXELS);
    must(sosmc_cloud(s, x, logw), c, s, "cloud");
    for (int i = 0; i < n * dim; i++) assert_true(isfinite(x[i]));
    double sum = 0;
    for (int i = 0; i < n; i++) sum += exp(logw[i]);
    assert_true(fabs(sum - 1) < 1e-12);
}

static outcome run(const combination *c, int threads, const char *level)
{
    sosmc_settings cfg = c->cfg;
    sosmc *s = NULL;
    outcome o = {.resampled = 0};
    cfg.threads = threads;
    if (level) cfg.simd = sosmc_simd_named(level);
    must(sosmc_create(&s, &c->p, &cfg), c, s, "create");
    for (int k = 0; k < ITERATIONS; k++) {
        must(sosmc_step(s), c, s, "step");
        o.hash[k] = sosmc_hash(s);
        o.resampled += sosmc_last(s)->resampled;
    }
    look_at_numbers(c, s);
    sosmc_free(s);
    return o;
}

/* The first half by one engine, the second by another, which first went its own way. */
static uint64_t run_in_halves(const combination *c)
{
    memory m = {.used = 0};
    sosmc *first = NULL, *second = NULL;
    must(sosmc_create(&first, &c->p, &c->cfg), c, first, "create");
    must(sosmc_run(first, HALF_WAY, NULL, NULL), c, first, "first half");
    must(memory_save(first, &m), c, first, "save");
    sosmc_free(first);
    must(sosmc_create(&second, &c->p, &c->cfg), c, second, "create");
    must(sosmc_run(second, 1, NULL, NULL), c, second, "its own way");
    must(memory_load(second, &m), c, second, "load");
    must(sosmc_run(second, ITERATIONS - HALF_WAY, NULL, NULL), c, second, "second half");
    uint64_t hash = sosmc_hash(second);
    sosmc_free(second);
    free(m.bytes);
    return hash;
}

static void compare(const combination *c, const outcome *expected, outcome got, const char *how)
{
    for (int k = 0; k < ITERATIONS; k++)
        if (got.hash[k] != expected->hash[k]) fail_msg("%s, %s: another state after iteration %d", c->name, how, k);
}

static void assert_refused(const combination *c, const char *reason)
{
    sosmc *s = NULL;
    sosmc_status status = sosmc_create(&s, &c->p, &c->cfg);
    if (status != SOSMC_EINVAL || !strstr(sosmc_message(s), reason))
        fail_msg("%s: %s (%s), where '%s' was expected", c->name, sosmc_status_name(status), sosmc_message(s), reason);
    sosmc_free(s);
}

/* ------------------------------------------------------------------------------------------------ the tests */

static void every_combination(void **state)
{
    static const char *const levels[] = {"plain", "avx2", "avx512"};
    int refused = 0, resampled = 0, runs = 0;
    uint64_t digest = 1;
    for (int which = 0; which < KERNELS * SCHEMES * OBJECTIVES * RESAMPLINGS; which++) {
        int resampling = which % RESAMPLINGS, objective = which / RESAMPLINGS % OBJECTIVES;
        int scheme = which / RESAMPLINGS / OBJECTIVES % SCHEMES, kernel = which / RESAMPLINGS / OBJECTIVES / SCHEMES;
        combination c = combine(kernel, scheme, objective, resampling);
        int why = refusal(kernel, scheme);
        if (why) {
            assert_refused(&c, REASONS[why - 1]);
            refused++;
            continue;
        }
        outcome expected = run(&c, 1, NULL);
        compare(&c, &expected, run(&c, 3, NULL), "three threads");
        for (int i = 0; i < 3; i++)
            if (sosmc_simd_named(levels[i])) compare(&c, &expected, run(&c, 1, levels[i]), levels[i]);
        if (run_in_halves(&c) != expected.hash[ITERATIONS - 1]) fail_msg("%s: another state when resumed", c.name);
        for (int k = 0; k < ITERATIONS; k++) digest = (digest ^ expected.hash[k]) * 0x9e3779b97f4a7c15u;
        resampled += expected.resampled > 0;
        runs++;
    }
    assert_int_equal(refused, (2 * 3 + 8 + 8) * OBJECTIVES * RESAMPLINGS);
    assert_true(resampled > runs / 5); /* or the comparison would say nothing of resampling */
    print_message("%d combinations run, %d are refused; state hash of all: %016" PRIx64 "\n", runs, refused, digest);
}

/* The table of kernels and schemes, as docs/fuzzing.md has it. */
static void the_manual_says_so(void **state)
{
    char table[4096], path[1024];
    size_t used = (size_t)snprintf(table, sizeof table, "| kernel |");
    for (int s = 0; s < SCHEMES; s++)
        used += (size_t)snprintf(table + used, sizeof table - used, " %s |", SCHEME_NAMES[s]);
    used += (size_t)snprintf(table + used, sizeof table - used, "\n|---|");
    for (int s = 0; s < SCHEMES; s++) used += (size_t)snprintf(table + used, sizeof table - used, "---|");
    for (int k = 0; k < KERNELS; k++) {
        used += (size_t)snprintf(table + used, sizeof table - used, "\n| %s |", kernel_of(k).name);
        for (int s = 0; s < SCHEMES; s++) {
            static const char *const words[] = {"runs", "refused (1)", "refused (2)", "refused (3)"};
            used += (size_t)snprintf(table + used, sizeof table - used, " %s |", words[refusal(k, s)]);
        }
    }
    const char *source = getenv("SOSMC_TEST_SOURCE");
    if (!source) skip();
    (void)snprintf(path, sizeof path, "%s/../docs/fuzzing.md", source);
    FILE *f = fopen(path, "rb");
    static char text[1 << 17];
    assert_non_null(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    (void)fclose(f);
    if (!strstr(text, table)) {
        print_message("%s\n", table); /* cmocka cuts what it prints of a failure */
        fail_msg("docs/fuzzing.md does not hold the table above");
    }
    for (size_t i = 0; i < sizeof REASONS / sizeof *REASONS; i++) assert_non_null(strstr(text, REASONS[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_combination), cmocka_unit_test(the_manual_says_so)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
