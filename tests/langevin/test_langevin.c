/* test_langevin.c: the Langevin experiment. Exact rewards, optima, divergences and noise-free recursions against the printed
 * digits of the experiment's tables; short runs of every weighted method against the recursion; the safe first step; how differences are judged, and what the page of
 * the quick version compares. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/experiment.h"
#include "files/files.h"
#include "folder.h"
#include "langevin/langevin_judge.h"
#include "common/reproduce.h"
#include "terminal/say.h"

enum { A, B, C, D };

static langevin_setting settings[LANGEVIN_SETTINGS];

static int set_up(void **state)
{
    char error[512];
    if (langevin_open(settings, error, sizeof error) == 0) return 0;
    (void)fprintf(stderr, "%s\n", error);
    return -1;
}

static int tear_down(void **state)
{
    langevin_close(settings);
    return 0;
}

/* Equal to the last printed digit, with room for the printed value's own rounding. */
static void assert_printed(double value, double printed, int digits, const char *what)
{
    if (!(fabs(value - printed) <= 0.6 * pow(10, -digits)))
        fail_msg("%s: %.10f, expected %.*f", what, value, digits, printed);
}

/* ---------------------------------------------------------------------------- exact values */

static void component_rewards(void **state)
{
    static const double printed[LANGEVIN_SETTINGS][LANGEVIN_MAX] = {
        {0.00077724, 0.64855043},
        {0.00000002, 0.01857323},
        {0.03672384, 0.01968422, 0.00008845, 0.00000005, 0.00000808, 0.00179757},
        {0.39960040, 0.17969559, 0, 0, 0, 0.17969559}};
    static const double start[LANGEVIN_SETTINGS] = {0.32466384, 0.00928662, 0.01203097, 0.12649860};
    static const double best[LANGEVIN_SETTINGS] = {0.648550, 0.018573, 0.036724, 0.399600};
    for (int k = 0; k < LANGEVIN_SETTINGS; k++) {
        const langevin_setting *s = &settings[k];
        double r[LANGEVIN_MAX], q[LANGEVIN_MAX], mean = 0, largest = 0;
        langevin_component_rewards(s, r);
        langevin_softmax(s->mixture.components, s->theta_ref, q);
        for (int i = 0; i < s->mixture.components; i++) {
            assert_printed(r[i], printed[k][i], 8, s->label);
            mean += q[i] * r[i];
            largest = fmax(largest, r[i]);
        }
        assert_printed(mean, start[k], 8, s->label);
        assert_printed(largest, best[k], 6, s->label);
    }
}

static void optima(void **state)
{
    static const double printed[LANGEVIN_SETTINGS][LANGEVIN_MAX] = {
        {0.071260, 0.928740},
        {0.026194, 0.973806},
        {0.981741, 0.000532, 0.008552, 0.000426, 0.008576, 0.000173},
        {0.743951, 0.068783, 0.039494, 0.039494, 0.039494, 0.068783}};
    static const double reward[] = {0.602390, 0.018087, 0.036065, 0.322003};
    static const double kl[] = {0.664491, 1.141171, 2.072998, 0.765604};
    static const double objective[] = {0.535941, 0.016946, 0.033992, 0.245443};
    for (int k = 0; k < LANGEVIN_SETTINGS; k++) {
        const langevin_setting *s = &settings[k];
        double r[LANGEVIN_MAX], p[LANGEVIN_MAX], mean = 0;
        langevin_component_rewards(s, r);
        langevin_optimum(s, s->beta, p);
        for (int i = 0; i < s->mixture.components; i++) {
            assert_printed(p[i], printed[k][i], 6, s->label);
            mean += p[i] * r[i];
        }
        double divergence = langevin_kl(s, p);
        assert_printed(mean, reward[k], 6, s->label);
        assert_printed(divergence, kl[k], 6, s->label);
        assert_printed(mean - s->beta * divergence, objective[k], 6, s->label);
    }
}

static void divergence_of_the_reference_is_zero(void **state)
{
    for (int k = 0; k < LANGEVIN_SETTINGS; k++) {
        const langevin_setting *s = &settings[k];
        double q[LANGEVIN_MAX];
        langevin_softmax(s->mixture.components, s->theta_ref, q);
        assert_true(fabs(langevin_kl(s, q)) < 1e-12);
    }
}

static void recursions(void **state)
{
    enum { TIMES = 9 };
    static const int at[TIMES] = {1, 50, 100, 250, 500, 750, 1000, 1500, 2000};
    static const struct {
        int setting, adam, beta;
        double printed[TIMES]; /* zero: none */
    } rows[] = {{A, 0, 0, {0.32991, 0.51873, 0.58237, 0.62459, 0.63736, 0.64131, 0.64321, 0.64505, 0.64595}},
                {B, 0, 0, {0.00929, 0.00950, 0.00972, 0.01036, 0.01137, 0.01229, 0.01310, 0.01436, 0.01525}},
                {C, 0, 0, {0.01204, 0.01249, 0.01297, 0.01451, 0.01733, 0.02025, 0.02300, 0.02730, 0.03000}},
                {D, 0, 0, {0.12686, 0.14617, 0.17042, 0.27053, 0.36019, 0.37966, 0.38663, 0.39210, 0.39436}},
                {A, 1, 0, {0.35694, 0.64473, 0.64663, 0.64789, 0.64830, 0.64842, 0.64847, 0.64851, 0.64852}},
                {B, 1, 0, {0.01021, 0.01846, 0.01852, 0.01855, 0.01857, 0.01857, 0.01857, 0.01857, 0.01857}},
                {C, 1, 0, {0.01367, 0.03646, 0.03660, 0.03668, 0.03671, 0.03671, 0.03672, 0.03672, 0.03672}},
                {D, 1, 0, {0.13911, 0.39677, 0.39837, 0.39917, 0.39944, 0.39951, 0.39954, 0.39957, 0.39958}},
                {A, 1, 1, {0.35694, 0.59875, 0.60180, 0.60239}},
                {B, 1, 1, {0.01021, 0.01825, 0.01807, 0.01809}},
                {C, 1, 1, {0.01367, 0.03626, 0.03609, 0.03606}},
                {D, 1, 1, {0.13911, 0.31477, 0.32214, 0.32200}}};
    static double rewards[2001];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const langevin_setting *s = &settings[rows[i].setting];
        char what[64];
        int last = rows[i].beta ? 250 : 2000;
        double r[LANGEVIN_MAX];
        langevin_component_rewards(s, r);
        (void)langevin_recursion(s, r, rows[i].adam ? sosmc_adam(0.1) : sosmc_sgd(0.1), rows[i].beta ? s->beta : 0,
                                 last, rewards);
        for (int k = 0; k < TIMES && at[k] <= last; k++) {
            (void)snprintf(what, sizeof what, "%s, %s, %s, K = %d", s->name, rows[i].adam ? "Adam" : "SGD",
                           rows[i].beta ? "selected beta" : "beta 0", at[k]);
            assert_printed(rewards[at[k]], rows[i].printed[k], 5, what);
        }
    }
}

/* ---------------------------------------------------------------------------- short runs */

enum { SEEDS = 4, UPDATES = 100 };

typedef struct {
    double mean, variance; /* of one run */
} sample;

static sample run_seeds(langevin_method method, double beta)
{
    static langevin_result r;
    double v[SEEDS], mean = 0, square = 0;
    for (int k = 0; k < SEEDS; k++) {
        char error[256] = "";
        langevin_run run = {.setting = &settings[A],
                            .method = method,
                            .adam = 1,
                            .beta = beta,
                            .particles = 2000,
                            .reference = 1000,
                            .iterations = UPDATES,
                            .threads = 1,
                            .seed = (uint64_t)k};
        if (langevin_execute(&run, NAN, &r, error, sizeof error)) fail_msg("%s", error);
        assert_int_equal(r.iterations, UPDATES);
        v[k] = r.reward;
        mean += v[k] / SEEDS;
    }
    for (int k = 0; k < SEEDS; k++) square += (v[k] - mean) * (v[k] - mean);
    return (sample){.mean = mean, .variance = square / (SEEDS - 1)};
}

/* Four runs give a poor variance, so the four methods lend each other theirs: they differ little in it. */
static void weighted_methods_follow_the_recursion(void **state)
{
    const langevin_setting *s = &settings[A];
    double r[LANGEVIN_MAX];
    langevin_component_rewards(s, r);
    for (int leash = 0; leash < 2; leash++) {
        double beta = leash ? s->beta : 0, variance = 0;
        sample all[LANGEVIN_METHODS];
        double exact = langevin_recursion(s, r, sosmc_adam(0.1), beta, UPDATES, NULL);
        for (int m = SOSMC_ULA; m < LANGEVIN_METHODS; m++) {
            all[m] = run_seeds((langevin_method)m, beta);
            variance += all[m].variance / (LANGEVIN_METHODS - SOSMC_ULA);
        }
        double error = sqrt(variance / SEEDS);
        assert_true(error < 0.01);
        for (int m = SOSMC_ULA; m < LANGEVIN_METHODS; m++)
            if (fabs(all[m].mean - exact) > 4 * error)
                fail_msg("%s, beta %g: %.5f, the recursion gives %.5f, standard error %.5f", langevin_method_names[m],
                         beta, all[m].mean, exact, error);
        sample free = run_seeds(IMPDIFF, beta);
        if (free.mean > exact - 4 * sqrt(free.variance / SEEDS))
            fail_msg("ImpDiff, beta %g: %.5f is not below %.5f", beta, free.mean, exact);
    }
}

static void curves_and_times_are_kept(void **state)
{
    static langevin_result r;
    char error[256] = "";
    langevin_run run = {.setting = &settings[A],
                        .method = SOSMC_MALA,
                        .adam = 1,
                        .particles = 500,
                        .reference = 250,
                        .iterations = 60,
                        .threads = 1};
    assert_int_equal(langevin_execute(&run, 0.64855, &r, error, sizeof error), 0);
    assert_int_equal(r.points, 60);
    assert_true(r.at[0] == 1 && r.at[59] == 60 && r.curve_reward[59] == r.reward);
    assert_true(r.reached > 1 && r.reached <= 60);
    assert_true(r.curve_reward[r.reached - 1] >= 0.99 * 0.64855 && r.curve_reward[r.reached - 2] < 0.99 * 0.64855);
    for (int i = 1; i < r.points; i++) assert_true(r.curve_seconds[i] >= r.curve_seconds[i - 1]);
}

/* ---------------------------------------------------------------------------- how differences are judged */

static void thresholds(void **state)
{
    static const struct {
        int cells, freedom;
        double printed; /* quantiles of Student's law at 0.975 and at 0.9995, from tables */
    } known[] = {{1, 1, 12.7062}, {1, 2, 4.3027}, {1, 7, 2.3646}, {1, 8, 2.3060}, {50, 6, 5.9588}, {50, 27, 3.6896}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_printed(langevin_threshold(known[i].cells, known[i].freedom), known[i].printed, 4, "threshold");
    assert_true(isnan(langevin_threshold(72, langevin_freedom(1))));
    assert_int_equal(langevin_freedom(3), 6); /* setting D has three methods that follow */
    assert_true(langevin_threshold(72, langevin_freedom(3)) > langevin_threshold(72, langevin_freedom(10)));
}

static void pooled_errors(void **state)
{
    const double own[LANGEVIN_METHODS] = {9, 0, 1, 3, 5, 1};
    assert_true(langevin_error(A, SOSMC_ULA, own) == 3 && langevin_error(A, SOUL, own) == 3); /* (1 + 9 + 25 + 1) / 4 */
    assert_true(langevin_error(A, SOSMC_RWM, own) == 5 && langevin_error(A, IMPDIFF, own) == 9);
    assert_true(fabs(langevin_error(D, SOSMC_ULA, own) - sqrt(35.0 / 3)) < 1e-12); /* ULA itself does not count there */
    assert_true(langevin_follows(C, SOSMC_ULA) && !langevin_follows(D, SOSMC_ULA) && !langevin_follows(A, IMPDIFF));
    assert_ptr_equal(langevin_cause(A, IMPDIFF), langevin_cause(C, IMPDIFF));
    assert_ptr_not_equal(langevin_cause(A, IMPDIFF), langevin_cause(D, IMPDIFF));
}

static char *text_of(const char *dir, const char *name)
{
    char path[FILES_PATH], error[512], *text = NULL;
    size_t size;
    if (files_join(path, dir, name, error, sizeof error) ||
        files_read(path, 1 << 26, &text, &size, error, sizeof error))
        fail_msg("%s", error);
    return text;
}

/* The quick version is compared with the recursion at its own iteration, which the weighted methods follow, and not with the
 * paper's longer runs. */
static void the_quick_page(void **state)
{
    char folder[FOLDER_ROOM], path[FILES_PATH], error[512];
    reproduce_options o = {.quick = 1, .quiet = 1, .threads = 2, .seeds = 3, .out = folder};
    csv_options options = {.header = CSV_HEADER_YES};
    csv_table t;
    assert_int_equal(folder_make(folder, "test_langevin"), 0);
    assert_int_equal(reproduce_langevin(&o), SOSMC_EXIT_OK);
    assert_int_equal(files_join(path, folder, "table.csv", error, sizeof error), 0);
    if (csv_read(path, &options, &t, error, sizeof error)) fail_msg("%s", error);
    const csv_column *off = csv_find(&t, "recursion_standard_errors");
    assert_true(off && off->number && t.rows == 72);
    double limit = langevin_threshold(72, langevin_freedom(3));
    int marked = 0;
    for (int i = 0; i < 72; i++) { /* settings, columns, methods */
        int setting = i / 18, method = i % LANGEVIN_METHODS, above = fabs(off->number[i]) > limit;
        marked += above;
        if (above && langevin_follows(setting, (langevin_method)method))
            fail_msg("row %d: %g standard errors from the recursion", i, off->number[i]);
    }
    csv_free(&t);
    char *page = text_of(folder, "langevin.html"), sentence[128];
    (void)snprintf(sentence, sizeof sentence, "%d of 72 cells differ by more than %.1f standard errors", marked, limit);
    assert_non_null(strstr(page, sentence));
    assert_non_null(strstr(page, "the paper's values stand in the last column for orientation and are not judged"));
    assert_null(strstr(page, "Where we differ from the paper"));
    free(page);
    assert_int_equal(folder_remove(folder), 0);
}

/* ---------------------------------------------------------------------------- run files */

/* Short runs of every setting and method give these mean log-densities at the end as long as no run file and no key of a method changes. */
static void run_files_are_the_published_settings(void **state)
{
    static const double density[LANGEVIN_SETTINGS][LANGEVIN_METHODS] = {
        {-0x1.f5c99c4994c92p+0, -0x1.a0e0333d52fafp+2, -0x1.b0e03f656ef1fp+0, -0x1.0040c391ecb1ap+0,
         -0x1.8b4fd078d5d83p+0, -0x1.3ce0435648534p+0},
        {-0x1.d59a2fede75adp+0, -0x1.a0de6f19955b3p+2, -0x1.bc458e9eb5e82p+0, -0x1.002d8beef040dp+0,
         -0x1.a88367d639c6dp+0, -0x1.3bd3b3ba5d2eep+0},
        {-0x1.1e5dc7b5b9821p+1, -0x1.12abd758508c1p+0, -0x1.13de1a35fbc7dp+1, -0x1.0b067d199a569p+0,
         -0x1.1cad6bff35093p+1, -0x1.1658e8cb5c262p+0},
        {-0x1.4a7a579e4035cp+4, -0x1.4b927f32bffb8p+4, -0x1.238c91feffed1p+1, -0x1.1c11cbb5e03p+0,
         -0x1.5fa7d64ebeae6p+1, -0x1.af5cf0f63369ap+0}};
    static const int iterations[LANGEVIN_SETTINGS] = {1000, 1000, 1000, 750};
    static langevin_result result;
    char why[256];
    for (int s = 0; s < LANGEVIN_SETTINGS; s++) {
        assert_int_equal(settings[s].iterations, iterations[s]);
        assert_int_equal(settings[s].particles, 10000);
        assert_int_equal(config_integer(settings[s].file, "objective.reference.batch"), 5000);
        for (int m = 0; m < LANGEVIN_METHODS; m++) {
            const langevin_run r = {.setting = &settings[s],
                                    .method = (langevin_method)m,
                                    .adam = m % 2,
                                    .beta = m % 3 ? settings[s].beta : 0,
                                    .particles = 200,
                                    .reference = 100,
                                    .iterations = 30,
                                    .threads = 1,
                                    .seed = 7};
            if (langevin_execute(&r, NAN, &result, why, sizeof why)) fail_msg("%s", why);
            double last = result.curve_density[r.iterations - 1];
            if (!(fabs(last / density[s][m] - 1) < 1e-12))
                fail_msg("%s, %s: the mean log-density is %a, expected %a", r.setting->name, langevin_method_names[m],
                         last, density[s][m]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(component_rewards),
                                       cmocka_unit_test(optima),
                                       cmocka_unit_test(divergence_of_the_reference_is_zero),
                                       cmocka_unit_test(recursions),
                                       cmocka_unit_test(weighted_methods_follow_the_recursion),
                                       cmocka_unit_test(curves_and_times_are_kept),
                                       cmocka_unit_test(thresholds),
                                       cmocka_unit_test(pooled_errors),
                                       cmocka_unit_test(run_files_are_the_published_settings),
                                       cmocka_unit_test(the_quick_page)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
