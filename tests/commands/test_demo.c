/* test_demo.c: `sosmc demo` at small sizes: what it says, what is on its page, and whether the numbers there are right. */
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
#include <sys/wait.h>
#include <unistd.h>

#include "commands/demo.h"
#include "commands/demo_inside.h"
#include "files/files.h"
#include "folder.h"
#include "terminal/interrupt.h"
#include "streams_and_python.h"
#include "view/plot.h"
#include "terminal/say.h"
#include "runtext.h"

enum { TEXT = 1 << 14, PAGE = 1 << 25 };

static char folder[FOLDER_ROOM], error[1024], output[TEXT], first[TEXT], *page_text; /* the page without its pictures */

static char *whole(const char *path)
{
    char *bytes = NULL;
    size_t n = 0;
    if (files_read(path, PAGE, &bytes, &n, error, sizeof error)) fail_msg("%s", error);
    return bytes;
}

/* Both streams of `sosmc demo A B C D` (NULL: no more) are in `output`; returns the exit code. */
static int says(const char *a, const char *b, const char *c, const char *d)
{
    char words[5][FOLDER_ROOM + 32] = {"sosmc demo"}, *argv[6] = {words[0]};
    const char *given[] = {a, b, c, d};
    int argc = 1;
    for (; argc < 5 && given[argc - 1]; argc++) {
        (void)snprintf(words[argc], sizeof words[argc], "%s", given[argc - 1]);
        argv[argc] = words[argc];
    }
    argv[argc] = NULL;
    diverted_streams kept = streams_divert(folder_path(folder, "streams"));
    int code = command_demo(argc, argv);
    streams_restore(kept);
    char *bytes = whole(folder_path(folder, "streams"));
    (void)snprintf(output, sizeof output, "%s", bytes);
    free(bytes);
    return code;
}

/* Takes the bytes of pictures out, where any letters may stand side by side. */
static void strip_pictures(char *html)
{
    char *to = html;
    for (const char *from = html; *from;) {
        if (strncmp(from, ";base64,", 8) == 0) from += strcspn(from, "\"");
        *to++ = *from++;
    }
    *to = 0;
}

static int count(const char *text, const char *word)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, word)); at += strlen(word)) n++;
    return n;
}

static void near(double found, double expected, double most)
{
    if (!(fabs(found - expected) <= most)) fail_msg("%.8g is not within %.3g of %.8g", found, most, expected);
}

static int set_up(void **state)
{
    if (folder_make(folder, "demo")) return -1;
    const char *out = folder_path(folder, "out");
    int code = says("--quick", "--out", out, NULL);
    if (code != SOSMC_EXIT_OK) fail_msg("exit %d: %s", code, output);
    (void)snprintf(first, sizeof first, "%s", output);
    page_text = whole(folder_path(folder, "out/demo.html"));
    strip_pictures(page_text);
    return 0;
}

static int tear_down(void **state)
{
    free(page_text);
    return folder_remove(folder);
}

/* ---------------------------------------------------------------------------- what it says */

static void three_lines_and_the_page(void **state)
{
    static const char *const begin[] = {"\nlikelihood: theta -3.", "\nreward: 0.", "\nphotograph: PSNR "};
    char text[TEXT + 1] = "\n";
    (void)snprintf(text + 1, TEXT, "%s", first);
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++)
        if (count(text, begin[i]) != 1) fail_msg("no line '%s' in: %s", begin[i] + 1, first);
    assert_int_equal(count(first, "\n"), 7); /* three lines of progress, three of results, the page's name */
    assert_non_null(strstr(first, "/out/demo.html"));
    assert_non_null(strstr(first, "±"));
    assert_null(strstr(first, "± 0.0000")); /* no error is a word, not a number that looks like one */
    assert_null(strstr(first, "nan"));
    assert_null(strstr(first, "(null)"));
}

static void quiet_is_quiet(void **state)
{
    const char *out = folder_path(folder, "quiet");
    assert_int_equal(says("--quick", "--quiet", "--out", out), SOSMC_EXIT_OK);
    assert_string_equal(output, "");
}

static void wrong_words(void **state)
{
    assert_int_equal(says("--threads", "none", NULL, NULL), SOSMC_EXIT_USAGE);
    assert_non_null(strstr(output, "--threads is 'none'; expected a whole number"));
    assert_int_equal(says("circles", NULL, NULL, NULL), SOSMC_EXIT_USAGE);
    assert_non_null(strstr(output, "found 'circles'"));
    assert_int_equal(says("--no-such-flag", NULL, NULL, NULL), SOSMC_EXIT_USAGE);
    assert_int_equal(says("--out", folder_path(folder, "streams/below"), NULL, NULL), SOSMC_EXIT_IO);
    assert_int_equal(says("--help", NULL, NULL, NULL), SOSMC_EXIT_OK);
    assert_non_null(strstr(output, "sosmc demo [--out DIR]"));
}

/* In a process of its own: the request stays for good. */
static void a_signal_stops_it(void **state)
{
    const char *out = folder_path(folder, "stopped");
    pid_t child = fork();
    if (child == 0) {
        interrupt_catch();
        (void)kill(getpid(), SIGTERM);
        _exit(says("--quick", "--out", out, NULL));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), SOSMC_EXIT_INTERRUPTED);
    assert_int_not_equal(access(folder_path(folder, "stopped/demo.html"), F_OK), 0);
}

/* ---------------------------------------------------------------------------- the page */

static void the_page_shows_three_parts(void **state)
{
    static const char *const there[] = {"<h2>A marginal likelihood</h2>",  "<h2>A reward tuning and its optimum</h2>",
                                        "<h2>A photograph sharpened</h2>", "href=\"likelihood/report.html\"",
                                        "href=\"reward/report.html\"",     "href=\"photograph/report.html\""};
    static const char *const reports[] = {"out/likelihood/report.html", "out/reward/report.html",
                                          "out/photograph/report.html"};
    for (size_t i = 0; i < sizeof there / sizeof *there; i++)
        if (!strstr(page_text, there[i])) fail_msg("the page has no %s", there[i]);
    for (size_t i = 0; i < sizeof reports / sizeof *reports; i++)
        assert_int_equal(access(folder_path(folder, reports[i]), R_OK), 0);
    assert_int_equal(count(page_text, "src=\"data:image/png"), 2);
    if (plot_available()) assert_int_equal(count(page_text, "src=\"data:image/svg"), 3);
    assert_true(count(page_text, "<table") >= 4);
    assert_int_equal(count(page_text, "src=\"http"), 0);
    assert_null(strstr(page_text, "(null)"));
    assert_null(strstr(page_text, ">nan"));
    assert_null(strstr(page_text, " nan"));
    assert_null(strstr(page_text, "-nan"));
}

/* The numbers of a row of a table; how many there are of those asked for. */
static int row(const char *name, double *value, int wanted)
{
    char head[128];
    (void)snprintf(head, sizeof head, "<td class=\"l\">%s</td>", name);
    const char *at = strstr(page_text, head);
    if (!at) fail_msg("no row '%s'", name);
    const char *end = at ? strstr(at, "</tr>") : NULL;
    int n = 0;
    for (at = at ? at + strlen(head) : NULL; at && n < wanted && (at = strstr(at, "\">")) && at < end;)
        value[n++] = strtod(at += 2, NULL);
    return n;
}

static void estimates_agree_with_closed_forms(void **state)
{
    double theta[4] = {0}, likelihood[4] = {0}, clemente[5] = {0};
    assert_int_equal(row("theta, the skill of the population", theta, 4), 4);
    assert_int_equal(row("log-likelihood (its error is Monte Carlo's)", likelihood, 4), 4);
    assert_int_equal(row("Clemente", clemente, 5), 5);
    const double mean = -3.316611, error_of_mean = 1.0 / 3, top = -27.518811; /* of y; sqrt(2/18) */
    near(theta[3], mean, 6e-4);
    assert_true(fabs(theta[0] - mean) < 0.1 * theta[1]); /* Monte Carlo's part of the error is small */
    near(theta[1], error_of_mean, 0.05);
    near(likelihood[3], top, 6e-5);
    near(likelihood[0], top, 4 * likelihood[1] + 18 * 0.25 * (theta[0] - mean) * (theta[0] - mean) + 1e-4);
    near(clemente[1], clemente[3], 0.02); /* 0.1 of the skill's standard deviation is 0.005 */
}

static double summary(const char *run, const char *object, const char *key)
{
    char path[FOLDER_ROOM];
    json_t *j = NULL;
    (void)snprintf(path, sizeof path, "out/%s", run);
    if (json_read(folder_path(folder, path), &j, error, sizeof error)) fail_msg("%s", error);
    const json_t *v = json_object_get(object ? json_object_get(j, object) : j, key);
    double value = json_is_number(v) ? json_number_value(v) : NAN;
    json_decref(j);
    return value;
}

static void values_are_those_of_the_runs(void **state)
{
    double reward[3], blurred, restored;
    assert_int_equal(row("mean reward", reward, 3), 3);
    near(reward[1], summary("reward/summary.json", NULL, "reward"), 6e-5);
    near(reward[2], summary("reward/summary.json", NULL, "best_reward"), 6e-5);
    assert_true(reward[0] < 0.51 && fabs(reward[1] - reward[2]) < 0.002);
    assert_int_equal(row("blurred", &blurred, 1), 1);
    assert_int_equal(row("restored", &restored, 1), 1);
    near(restored, summary("photograph/deblur.json", "after", "psnr"), 6e-3);
    assert_true(restored > blurred + 1);
}

/* Without the photograph there are two parts, and a sentence where the third would be. */
static void the_photograph_may_be_missing(void **state)
{
    demo d = {.shown = "missing", .seconds = 1};
    char *printed = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&printed, &size);
    assert_non_null(f);
    demo_print(&d, f);
    assert_int_equal(fclose(f), 0);
    assert_non_null(strstr(printed, "photograph: guitar_292x119.pgm, which comes with the program, was not found"));
    assert_null(strstr(printed, "PSNR"));
    free(printed);
    (void)snprintf(d.out, sizeof d.out, "%s", folder);
    assert_int_equal(demo_write_page(&d, error, sizeof error), 0);
    char *html = whole(folder_path(folder, "demo.html"));
    assert_non_null(strstr(html, "guitar_292x119.pgm, which comes with the program, was not found"));
    assert_null(strstr(html, "PSNR"));
    assert_null(strstr(html, "photograph/report.html"));
    free(html);
}

static void run_files_are_the_examples(void **state)
{
    static const struct {
        const char *file, *text;
    } pair[] = {{"examples/batting.yaml", demo_batting}, {"examples/three_modes.yaml", demo_modes}};
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++) {
        char path[RUNTEXT_PATH];
        if (!runtext_source(pair[i].file, path)) skip();
        char *text = whole(path);
        assert_string_equal(text, pair[i].text);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_shows_three_parts),
        cmocka_unit_test(estimates_agree_with_closed_forms),
        cmocka_unit_test(values_are_those_of_the_runs),
        cmocka_unit_test(the_photograph_may_be_missing),
        cmocka_unit_test(run_files_are_the_examples),
        cmocka_unit_test(three_lines_and_the_page),
        cmocka_unit_test(quiet_is_quiet),
        cmocka_unit_test(wrong_words),
        cmocka_unit_test(a_signal_stops_it),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
