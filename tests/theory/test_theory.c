/* test_theory.c: the frame of `sosmc reproduce theory` (tables, faults, controls, exit codes, Ctrl-C, threads), its families and
 * Gaussians against closed forms, and the verdicts of the statements that need no long runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files/files.h"
#include "folder.h"
#include "terminal/interrupt.h"
#include "terminal/say.h"
#include "theory/theory.h"
#include "theory/theory_families.h"
#include "theory/theory_gauss.h"

static char folder[FOLDER_ROOM], error[1024];
#define ERROR error, sizeof error

static int set_up(void **state) { return folder_make(folder, "test_theory"); }
static int tear_down(void **state) { return folder_remove(folder); }

/* ---------------------------------------------------------------------------- what a check fills in */

static void rows_have_cells(void **state)
{
    theory_statement s = {.table = {.align = "lr", .head = {"name", "value"}}};
    for (int i = 0; i < 40; i++) theory_row(&s.table, "row %d|%.2f", i, 0.5 * i);
    assert_int_equal(s.table.rows, 40);
    assert_int_equal(s.table.columns, 2);
    assert_int_equal(s.table.failed, 0);
    assert_string_equal(s.table.cell[2 * 39], "row 39");
    assert_string_equal(s.table.cell[2 * 39 + 1], "19.50");
    theory_marked_row(&s.table, PAGE_WARN, "no second cell");
    assert_int_equal(s.table.failed, 1);
    assert_int_equal(s.table.mark[40], PAGE_WARN);
    s.table.failed = 0;
    theory_row(&s.table, "a|b|c");
    assert_int_equal(s.table.failed, 1);
    theory_row(&s.second, "no head"); /* a table without columns */
    assert_int_equal(s.second.failed, 1);
    theory_statement_free(&s);
}

static void faults_and_controls(void **state)
{
    theory_statement s = {.id = "x"};
    theory_fault(&s, "first %d", 1);
    theory_fault(&s, "second");
    assert_int_equal(s.faults, 2);
    assert_string_equal(s.fault, "first 1");
    theory_control(&s, 1, "a");
    theory_control(&s, 0, "b");
    assert_string_equal(s.control, "a (noticed); b (NOT NOTICED)");
    assert_int_equal(s.controls, 2);
    assert_int_equal(s.unnoticed, 1);
    for (int i = 0; i < 100; i++) theory_control(&s, 1, "a long sentence that does not fit any more, %d", i);
    assert_int_equal(s.controls, 102);
    assert_int_equal(theory_fail(&s, SOSMC_EXIT_NUMERIC, "why %s", "not"), SOSMC_EXIT_NUMERIC);
    assert_string_equal(s.error, "why not");
    theory_statement_free(&s);
}

/* Quantiles from tables: the normal one for 5e-6 on either side; Student's t with 10 degrees at 0.025 on either side. */
static void bounds_and_slopes(void **state)
{
    double x[] = {1, 2, 4, 8}, y[4], constant;
    assert_true(fabs(theory_bound(1) - 4.41717) < 1e-4);
    assert_true(fabs(theory_bound(10) - 4.89164) < 1e-4);
    assert_true(fabs(theory_score(2.2281, 1, 11, 0) - 1.95996) < 0.01);
    assert_true(fabs(theory_score(-1, 1, 1000000, 0) + 1) < 1e-5);
    assert_true(isinf(theory_score(1, 0, 5, 0)));
    for (int i = 0; i < 4; i++) y[i] = 3 * pow(x[i], -1.5);
    assert_true(fabs(theory_slope(x, y, 4, &constant) + 1.5) < 1e-12);
    assert_true(fabs(constant - 3) < 1e-12);
}

/* ---------------------------------------------------------------------------- families */

static theory_grid grid;

static void derivatives(const theory_family *f)
{
    static const double at[] = {0.2, 0.9, 1.7, 3};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++)
        for (int j = 0; j < f->parameters && j < 2; j++) {
            double up[2] = {f->theta[0], f->theta[1]}, down[2] = {f->theta[0], f->theta[1]}, d[2];
            up[j] += 1e-5;
            down[j] -= 1e-5;
            f->dU(f->theta, at[i], d);
            assert_true(fabs((f->U(up, at[i]) - f->U(down, at[i])) / 2e-5 - d[j]) < 1e-8);
        }
}

static void families_have_their_derivatives(void **state)
{
    for (int i = 0; i < THEORY_GENERAL; i++) derivatives(&theory_general[i]);
    for (int i = 0; i < THEORY_BOUNDED; i++) derivatives(&theory_bounded[i]);
}

static void divergences_have_closed_forms(void **state)
{
    static const double gamma[] = {1e-3, 0.05, 0.3};
    const theory_family *normal = &theory_general[0], *exponential = &theory_general[2];
    theory_integrate(normal, normal->theta, &grid);
    assert_true(fabs(grid.logz - 0.5 * log(2 * acos(-1))) < 1e-12);
    for (int i = 0; i < 3; i++)
        assert_true(fabs(theory_step_of(normal, &grid, gamma[i]).chi2 / expm1(gamma[i] * gamma[i]) - 1) < 1e-10);
    theory_integrate(exponential, exponential->theta, &grid);
    assert_true(fabs(grid.logz) < 1e-10); /* theta = 1 */
    theory_constants c = theory_constants_of(exponential, &grid);
    assert_true(fabs(c.covariance - 1) < 1e-9 && fabs(c.uncentred - 2) < 1e-9);
    for (int i = 0; i < 3; i++) {
        theory_step s = theory_step_of(exponential, &grid, gamma[i]);
        assert_true(fabs(s.chi2 / (gamma[i] * gamma[i] / (1 - 2 * gamma[i])) - 1) < 1e-8);
        assert_true(s.absolute * s.absolute < s.chi2); /* Jensen */
    }
}

/* ---------------------------------------------------------------------------- Gaussians */

static void norms_and_weights(void **state)
{
    theory_statement s = {.id = "x"};
    theory_moving m;
    const double v[2] = {0.7, -0.4}, rho = 0.6;
    theory_gauss plane = {2, rho};
    double exact = (v[0] * v[0] - 2 * rho * v[0] * v[1] + v[1] * v[1]) / (1 - rho * rho);
    assert_true(fabs(theory_gauss_norm2(&plane, v) - exact) < 1e-14);
    assert_int_equal(theory_moving_make(&s.memory, &m, 5, rho), 0);
    double gamma = 0.3 / sqrt(theory_gauss_norm2(&m.law, m.gradient)), sd = 0;
    sosmc_settings c = theory_moving_settings(&m, sosmc_mala(0.1), 20000, gamma, 1);
    sosmc_info last;
    assert_int_equal(theory_moving_run(&s, &m, &c, 2, NULL, NULL, &last, &sd), SOSMC_EXIT_OK);
    assert_true(fabs(last.ess / 20000 - exp(-0.09)) < 0.01); /* some twenty standard errors */
    assert_true(fabs(sd - 1) < 0.05);
    c.kernel = sosmc_mala(-1);
    assert_int_equal(theory_moving_run(&s, &m, &c, 2, NULL, NULL, NULL, NULL), SOSMC_EXIT_NUMERIC);
    assert_non_null(strstr(s.error, "-1"));
    theory_statement_free(&s);
}

/* ---------------------------------------------------------------------------- the command */

static reproduce_options options_of(const char *out)
{
    return (reproduce_options){.out = out, .quick = 1, .quiet = 1, .seed = 42};
}

/* results.json of one run of the entries. */
static json_t *results(const reproduce_options *o, const theory_entry *entries, int expected)
{
    char path[FILES_PATH];
    json_t *out = NULL;
    assert_int_equal(theory_run(o, entries), expected);
    if (files_join(path, o->out, "results.json", ERROR) || json_read(path, &out, ERROR)) fail_msg("%s", error);
    return out;
}

static const char *text_of(json_t *list, size_t i, const char *key)
{
    const char *text = json_string_value(json_object_get(json_array_get(list, i), key));
    return text ? text : "";
}

static const theory_entry quickest[] = {{"data-sign", "a", theory_data_sign},
                                        {"chi-square", "b", theory_chi_square},
                                        {"chi-square-bounded", "c", theory_chi_bounded},
                                        {"chi-square-root", "d", theory_chi_root},
                                        {"step-rule", "e", theory_remark4},
                                        {"tilted-optimum", "f", theory_tilted},
                                        {NULL, NULL, NULL}};

static void verdicts(void **state)
{
    static const char *const expected[] = {"corrected", "corrected", "corrected",
                                           "corrected", "corrected", "confirmed"};
    reproduce_options o = options_of(folder_path(folder, "verdicts"));
    json_t *r = results(&o, quickest, SOSMC_EXIT_OK), *list = json_object_get(r, "statements");
    assert_int_equal(json_array_size(list), 6);
    for (size_t i = 0; i < 6; i++) {
        assert_string_equal(text_of(list, i, "id"), quickest[i].id);
        assert_string_equal(text_of(list, i, "verdict"), expected[i]);
        assert_true(strlen(text_of(list, i, "because")) > 40);
        assert_true(strlen(text_of(list, i, "because")) < sizeof((claim *)0)->because - 1); /* not cut */
        assert_true(json_is_null(json_object_get(json_array_get(list, i), "fault")));
        assert_true(json_integer_value(json_object_get(json_array_get(list, i), "controls")) > 0);
    }
    json_decref(r);
    csv_table t;
    if (csv_read(folder_path(folder, "verdicts/tables/chi-square.csv"), NULL, &t, ERROR)) fail_msg("%s", error);
    assert_int_equal(t.rows, THEORY_GENERAL);
    assert_true(fabs(t.column[5].number[2] - 2) < 1e-4); /* U = theta x: printed / true */
    csv_free(&t);
}

static char *contents(const char *path)
{
    char *bytes = NULL;
    size_t size;
    if (files_read(path, 1 << 25, &bytes, &size, ERROR)) fail_msg("%s", error);
    return bytes;
}

static void threads_change_nothing(void **state)
{
    static const char *const files[] = {"results.json", "theory.html", "tables/step-rule.csv", "tables/data-sign.csv"};
    static const theory_entry two[] = {
        {"data-sign", "a", theory_data_sign}, {"step-rule", "e", theory_remark4}, {NULL, NULL, NULL}};
    char path[FILES_PATH];
    reproduce_options one = options_of(folder_path(folder, "one")), three = options_of(folder_path(folder, "three"));
    one.threads = 1;
    three.threads = 3;
    assert_int_equal(theory_run(&one, two), SOSMC_EXIT_OK);
    assert_int_equal(theory_run(&three, two), SOSMC_EXIT_OK);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        (void)snprintf(path, sizeof path, "%s/one/%s", folder, files[i]);
        char *a = contents(path);
        (void)snprintf(path, sizeof path, "%s/three/%s", folder, files[i]);
        char *b = contents(path);
        assert_string_equal(a, b);
        free(a);
        free(b);
    }
}

/* A check that finds its own statement broken, one whose control passes unnoticed, one that cannot be made, one with a bad table. */
static int broken(const theory_options *o, theory_statement *s)
{
    s->title = "Broken";
    claim_decide(&s->claim, 1, 1, "because");
    theory_fault(s, "1 is not 2");
    return SOSMC_EXIT_OK;
}
static int unnoticed(const theory_options *o, theory_statement *s)
{
    s->title = "Unnoticed";
    claim_decide(&s->claim, 1, 1, "because");
    theory_control(s, 0, "nobody saw it");
    return SOSMC_EXIT_OK;
}
static int impossible(const theory_options *o, theory_statement *s)
{
    return theory_fail(s, SOSMC_EXIT_NUMERIC, "no luck");
}
static int ragged(const theory_options *o, theory_statement *s)
{
    s->title = "Ragged";
    s->table.head[0] = s->table.head[1] = "x";
    theory_row(&s->table, "only one");
    return SOSMC_EXIT_OK;
}

static void our_own_faults_have_an_exit_code(void **state)
{
    static const struct {
        theory_entry entry[2];
        const char *name;
        int written;
    } cases[] = {{{{"broken", "a", broken}, {NULL, NULL, NULL}}, "broken", 1},
                 {{{"unnoticed", "a", unnoticed}, {NULL, NULL, NULL}}, "unnoticed", 1},
                 {{{"impossible", "a", impossible}, {NULL, NULL, NULL}}, "impossible", 0},
                 {{{"ragged", "a", ragged}, {NULL, NULL, NULL}}, "ragged", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        reproduce_options o = options_of(folder_path(folder, cases[i].name));
        assert_int_equal(theory_run(&o, cases[i].entry), SOSMC_EXIT_NUMERIC);
        assert_int_equal(access(o.out, F_OK) == 0, cases[i].written);
    }
    char *page = contents(folder_path(folder, "broken/theory.html"));
    assert_non_null(strstr(page, "1 is not 2"));
    free(page);
}

static void wrong_words_and_places(void **state)
{
    reproduce_options o = options_of(folder_path(folder, "nowhere"));
    o.only = "nothing-of-the-kind";
    assert_int_equal(reproduce_theory(&o), SOSMC_EXIT_USAGE);
    assert_int_equal(access(o.out, F_OK), -1);
    assert_int_equal(files_write(folder_path(folder, "a-file"), "x", 1, ERROR), 0);
    o = options_of(folder_path(folder, "a-file/below"));
    o.only = "tilted-optimum";
    assert_int_equal(reproduce_theory(&o), SOSMC_EXIT_IO);
}

static void entries_have_names_of_their_own(void **state)
{
    for (int i = 0; theory_entries[i].id; i++) {
        assert_non_null(theory_entries[i].covers);
        assert_int_equal(strspn(theory_entries[i].id, "abcdefghijklmnopqrstuvwxyz-"), strlen(theory_entries[i].id));
        for (int k = 0; k < i; k++) assert_string_not_equal(theory_entries[i].id, theory_entries[k].id);
    }
}

static void an_interrupt_leaves_nothing(void **state)
{
    reproduce_options o = options_of(folder_path(folder, "interrupted"));
    (void)fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        interrupt_catch();
        (void)kill(getpid(), SIGINT);
        _exit(theory_run(&o, quickest));
    }
    int status = 1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), SOSMC_EXIT_INTERRUPTED);
    assert_int_equal(access(o.out, F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_have_cells),
                                       cmocka_unit_test(faults_and_controls),
                                       cmocka_unit_test(bounds_and_slopes),
                                       cmocka_unit_test(families_have_their_derivatives),
                                       cmocka_unit_test(divergences_have_closed_forms),
                                       cmocka_unit_test(norms_and_weights),
                                       cmocka_unit_test(entries_have_names_of_their_own),
                                       cmocka_unit_test(verdicts),
                                       cmocka_unit_test(threads_change_nothing),
                                       cmocka_unit_test(our_own_faults_have_an_exit_code),
                                       cmocka_unit_test(wrong_words_and_places),
                                       cmocka_unit_test(an_interrupt_leaves_nothing)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
