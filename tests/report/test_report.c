/* test_report.c: the page, the figures, and the report of a run.
 *
 * How a figure looks is for eyes; here: that every label and number that belongs into it is there, that hostile text
 * stays text, that the page needs nothing from elsewhere, and that a report is written even when gnuplot is missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/files.h"
#include "view/page.h"
#include "view/plot.h"
#include "report/report.h"
#include "scratch.h"

static void assert_has(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("\"%s\" is missing", part);
}

static void assert_lacks(const char *text, const char *part)
{
    if (strstr(text, part)) fail_msg("\"%s\" should not be there", part);
}

static void need_gnuplot(void)
{
    if (plot_available()) return;
    print_message("skipped: gnuplot is not there\n");
    skip();
}

/* ---------------------------------------------------------------------------- thinning */

static void thinning_keeps_ends_and_extremes(void **state)
{
    enum { N = 10000, LIMIT = 200 };
    static double x[N], y[N], a[N], b[N];
    for (int i = 0; i < N; i++) {
        x[i] = i;
        y[i] = sin(0.01 * i);
    }
    y[4321] = 7.0;
    y[8765] = -9.0;
    int n = plot_thin(x, y, N, LIMIT, a, b);
    double least = 0.0, most = 0.0;
    assert_in_range(n, LIMIT / 2, LIMIT);
    for (int i = 0; i < n; i++) {
        assert_true(b[i] == y[(int)a[i]]);
        if (i) assert_true(a[i] > a[i - 1]);
        least = fmin(least, b[i]);
        most = fmax(most, b[i]);
    }
    assert_true(least == -9.0 && most == 7.0);
    assert_int_equal(plot_thin(x, y, 150, LIMIT, a, b), 150);
    assert_memory_equal(b, y, 150 * sizeof *y);
    assert_int_equal(plot_thin(x, y, N, LIMIT, x, y), n); /* in place */
    y[0] = NAN;
    assert_int_equal(plot_thin(x, y, 0, LIMIT, a, b), 0);
}

/* ---------------------------------------------------------------------------- figures */

enum { N = 50, M = 20 };
static double xs[N], ys[N], low[N], high[N], z[M * M];

static void fill(void)
{
    for (int i = 0; i < N; i++) {
        xs[i] = 0.5 + i;
        ys[i] = exp(-0.1 * i);
        low[i] = 0.9 * ys[i];
        high[i] = 1.1 * ys[i];
    }
    for (int i = 0; i < M; i++)
        for (int j = 0; j < M; j++) z[i * M + j] = exp(-0.02 * ((i - 10) * (i - 10) + (j - 10) * (j - 10)));
}

static const char hostile[] = "it's `touch pwned` @x \\\" $(y)\n<b>&amp; _{a}^b \xFF";

static void everything_can_be_drawn(void **state)
{
    need_gnuplot();
    fill();
    double level = 0.5, nothing = NAN;
    plot_lattice map = {M, M, -1.0, 1.0, -2.0, 2.0, z};
    plot_series lines[] = {
        {.label = "with band", .n = N, .x = xs, .y = ys, .low = low, .high = high},
        {.label = "dashed", .colour = PLOT_VERMILION, .dash = PLOT_DASHED, .n = N, .x = xs, .y = low},
        {.kind = PLOT_MARKS,
         .label = "marks",
         .colour = PLOT_RGB(0x123456),
         .n = 5,
         .x = xs,
         .y = ys,
         .low = low,
         .high = high},
        {.kind = PLOT_LEVEL, .label = "level", .dash = PLOT_DOTTED, .y = &level},
        {.kind = PLOT_LEVEL, .label = "no level", .y = &nothing},
        {.label = "no values"},
    };
    plot_series bars[] = {{.kind = PLOT_BARS, .label = "bars", .n = N, .x = xs, .y = ys}};
    plot_series dots[] = {{.kind = PLOT_POINTS, .label = "dots", .n = N, .x = ys, .y = low}};
    plot_panel panels[] = {
        {.title = "first panel", .x_label = "iteration", .y_label = "mean reward", .series = lines, .n = 6},
        {.log_x = 1, .log_y = 1, .series = lines, .n = 3},
        {.x_label = hostile, .series = bars, .n = 1},
        {.equal = 1,
         .heat = &map,
         .heat_label = "heat",
         .contour = &map,
         .contour_label = "lines",
         .series = dots,
         .n = 1},
        {.series = NULL, .n = 0},
    };
    plot_figure figure[] = {{.name = "all", .title = "Everything", .panel = panels, .panels = 5, .columns = 2},
                            {.name = "one", .panel = panels, .panels = 1}};
    char *svg[2];
    if (plot_write(figure, 2, at("figures"), svg, ERROR)) fail_msg("%s", sentence);
    static const char *const parts[] = {"with band",   "dashed",     "marks",      "level",       "bars",
                                        "dots",        "lines",      "heat",       "first panel", "iteration",
                                        "mean reward", "Everything", "touch pwned"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) assert_has(svg[0], parts[i]);
    assert_lacks(svg[0], "<b>");
    assert_false(is_there("pwned") || access("pwned", F_OK) == 0);
    char *again = slurp("figures/all.svg", NULL), *pdf = slurp("figures/all.pdf", NULL);
    assert_string_equal(again, svg[0]);
    assert_memory_equal(pdf, "%PDF", 4);
    assert_true(is_there("figures/one.svg") && is_there("figures/one.pdf") && !is_there("figures/one.svg.tmp"));
    free(again);
    free(pdf);
    free(svg[0]);
    free(svg[1]);
}

static void impossible_figures_are_refused(void **state)
{
    char *bytes = NULL;
    size_t n = 0;
    plot_lattice flat = {M, 1, 0.0, 1.0, 0.0, 1.0, z};
    plot_panel panel = {.heat = &flat};
    assert_int_equal(plot_render(&(plot_figure){.panel = &panel, .panels = 1}, PLOT_SVG, &bytes, &n, ERROR), -1);
    assert_has(sentence, "name");
    assert_int_equal(
        plot_render(&(plot_figure){.name = "a/b", .panel = &panel, .panels = 1}, PLOT_SVG, &bytes, &n, ERROR), -1);
    assert_has(sentence, "name");
    assert_int_equal(
        plot_render(&(plot_figure){.name = "a", .panel = &panel, .panels = 0}, PLOT_SVG, &bytes, &n, ERROR), -1);
    assert_has(sentence, "0 panels");
    assert_int_equal(
        plot_render(&(plot_figure){.name = "a", .panel = &panel, .panels = 1}, PLOT_SVG, &bytes, &n, ERROR), -1);
    assert_has(sentence, "lattice");
    assert_null(bytes);
}

/* ---------------------------------------------------------------------------- the page */

static void a_page_escapes_everything(void **state)
{
    static const char *const head[] = {"<method>", "value"};
    static const char *const row[] = {"a & b", NULL};
    static const page_mark marks[] = {PAGE_STRONG, PAGE_WARN};
    page *p = page_new("title <x>", "sub \"title\"");
    page_heading(p, "head & shoulders");
    page_paragraph(p, "%s costs %d", "<script>alert(1)</script>", 5);
    page_note(p, "note %c", 'x');
    page_facts(p, &(page_fact){"1 < 2", "fact"}, 1);
    page_table(p, "caption", "lr", head);
    page_row(p, row, marks);
    page_table_end(p);
    page_figure(p, "<svg>M</svg>", "alt \"text\"", "the caption", "figures/a");
    page_code(p, "key: <value>\n\x01\xFF");
    if (page_write(p, at("page.html"), ERROR)) fail_msg("%s", sentence);
    page_free(p);
    char *html = slurp("page.html", NULL);
    static const char *const parts[] = {"<title>title &lt;x&gt;</title>",
                                        "sub &quot;title&quot;",
                                        "<h2>head &amp; shoulders</h2>",
                                        "<p>&lt;script&gt;alert(1)&lt;/script&gt; costs 5</p>",
                                        "<p class=\"note\">note x</p>",
                                        "<b>1 &lt; 2</b>",
                                        "<th class=\"l\">&lt;method&gt;</th>",
                                        "<td class=\"l strong\">a &amp; b</td><td class=\"r warn\"></td>",
                                        "data:image/svg+xml;base64,PHN2Zz5NPC9zdmc+",
                                        "alt=\"alt &quot;text&quot;\"",
                                        "href=\"figures/a.pdf\"",
                                        "<pre>key: &lt;value&gt;\n\xEF\xBF\xBD\xEF\xBF\xBD</pre>",
                                        "</html>"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) assert_has(html, parts[i]);
    assert_lacks(html, "<script");
    free(html);
}

static void base64_is_padded(void **state)
{
    static const char *const known[][2] = {{"M", "TQ=="}, {"Ma", "TWE="}, {"Man", "TWFu"}, {"Many", "TWFueQ=="}};
    for (int i = 0; i < 4; i++) {
        char part[64];
        page *p = page_new("t", NULL);
        page_figure(p, known[i][0], "", "", NULL);
        assert_int_equal(page_write(p, at("b.html"), ERROR), 0);
        page_free(p);
        char *html = slurp("b.html", NULL);
        (void)snprintf(part, sizeof part, "base64,%s\"", known[i][1]);
        assert_has(html, part);
        free(html);
    }
}

static void a_page_that_cannot_be_written_says_so(void **state)
{
    page *p = page_new("t", NULL);
    assert_int_equal(page_write(p, at("no/such/page.html"), ERROR), -1);
    assert_has(sentence, "no/such/page.html");
    page_free(p);
    page_paragraph(NULL, "nothing %d", 1); /* out of memory: nothing happens, and page_write tells */
    assert_int_equal(page_write(NULL, at("x.html"), ERROR), -1);
    page_free(NULL);
}

/* ---------------------------------------------------------------------------- a run */

enum { ROWS = 300, PARTICLES = 400 };

static void write_traces(const char *dir, int thetas, int timing)
{
    char head[TRACE_COLUMNS], path[FILES_PATH];
    double theta[100];
    trace *t = NULL, *clock = NULL;
    trace_columns(thetas, head);
    assert_int_equal(files_join(path, dir, "trace.csv", ERROR), 0);
    assert_int_equal(trace_open(&t, path, head, 0, ERROR), 0);
    assert_int_equal(files_join(path, dir, "timing.csv", ERROR), 0);
    if (timing) assert_int_equal(trace_open(&clock, path, TRACE_TIMING, 0, ERROR), 0);
    for (int k = 1; k <= ROWS; k++) {
        double noise = 0.01 * sin(1e4 * k);
        sosmc_info info = {.iteration = k,
                           .updates = k,
                           .gradient_updates = k - 1,
                           .ess = PARTICLES * (0.9 + noise),
                           .mean_score = 1.0 - exp(-0.02 * k),
                           .mean_energy = 2.0 + noise,
                           .loss = NAN,
                           .kl = NAN,
                           .logz = NAN,
                           .grad_norm = exp(-0.02 * k),
                           .accept = 0.25,
                           .h = 0.1 * exp(-0.02 * k),
                           .rate = 0.125,
                           .resampled = k % 10 == 0,
                           .nonfinite = k == 7};
        for (int j = 0; j < thetas; j++) theta[j] = j + 0.01 * k;
        trace_info(t, &info, theta, thetas);
        if (clock && k % 2) trace_time(clock, k, 0.01 * k); /* every other row only: the rest is interpolated */
    }
    assert_int_equal(trace_close(t, ERROR), 0);
    assert_int_equal(trace_close(clock, ERROR), 0);
}

static void write_cloud(const char *dir, int dim)
{
    char path[FILES_PATH];
    static double x[PARTICLES * 5], logw[PARTICLES];
    for (int i = 0; i < PARTICLES; i++) {
        for (int j = 0; j < dim; j++) x[i * dim + j] = sin(12.9898 * i + 78.233 * j) * 3.0;
        logw[i] = i % 100 ? -log(PARTICLES) : -INFINITY;
    }
    npz_member m[] = {{"x", npy_matrix(x, PARTICLES, dim)}, {"logw", npy_vector(logw, PARTICLES)}};
    assert_int_equal(files_join(path, dir, "particles.npz", ERROR), 0);
    assert_int_equal(npz_write(path, m, 2, 0, ERROR), 0);
}

static void write_summary(const char *dir, int thetas)
{
    char path[FILES_PATH];
    double theta[100] = {1.5, -2.25};
    npy_array a = npy_vector(theta, thetas);
    assert_int_equal(files_join(path, dir, "theta.npy", ERROR), 0);
    assert_int_equal(npy_write(path, &a, ERROR), 0);
    atomic_file f;
    assert_int_equal(files_join(path, dir, "summary.json", ERROR), 0);
    assert_int_equal(atomic_open(&f, path, ERROR), 0);
    json_writer w = json_to(&f);
    json_open_object(&w, NULL);
    json_put_text(&w, "version", "9.8.7");
    json_put_whole(&w, "seed", 42);
    json_put_numbers(&w, "theta", theta, thetas);
    json_put_number(&w, "loss", NAN);
    json_open_object(&w, "nested");
    json_put_text(&w, "hash", "<cafe>");
    json_close(&w);
    json_close(&w);
    assert_int_equal(atomic_close(&f, ERROR), 0);
    assert_int_equal(files_join(path, dir, "run.yaml", ERROR), 0);
    assert_int_equal(files_write(path, "kernel: {type: <ula>}\n", 22, ERROR), 0);
}

static const char *make_run(const char *name, int dim, int thetas, int timing)
{
    static char dir[FILES_PATH];
    (void)snprintf(dir, sizeof dir, "%s", at(name));
    if (files_directory(dir, ERROR)) fail_msg("%s", sentence);
    write_traces(dir, thetas, timing);
    write_cloud(dir, dim);
    write_summary(dir, thetas);
    return dir;
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, part)); p += strlen(part)) n++;
    return n;
}

static void a_report_shows_the_run(void **state)
{
    need_gnuplot();
    fill();
    plot_lattice map = {M, M, -3.0, 3.0, -3.0, 3.0, z};
    report_level level[] = {{"ess", 360.0, "resampling <threshold>"}};
    report_extra extra = {.title = "My run",
                          .about = "About it.",
                          .no_loss = "because.",
                          .density = &map,
                          .reward = &map,
                          .level = level,
                          .levels = 1};
    const char *dir = make_run("plane", 2, 2, 1);
    if (report_write(dir, &extra, ERROR)) fail_msg("%s", sentence);
    char *html = slurp("plane/report.html", NULL), *svg = slurp("plane/figures/ess.svg", NULL);
    static const char *const parts[] = {"<h1>My run</h1>",
                                        "About it.",
                                        "sosmc 9.8.7",
                                        "seed 42",
                                        "400 particles in 2 dimensions",
                                        "2 parameters",
                                        "because.",
                                        "figures/reward.svg",
                                        "figures/log-density.pdf",
                                        "figures/ess.svg",
                                        "figures/step.svg",
                                        "figures/gradient.svg",
                                        "figures/theta.svg",
                                        "figures/cloud.svg",
                                        "Resampled in 30 of 300 iterations",
                                        "In 1 moves",
                                        "1.5, -2.25",
                                        "nested.hash",
                                        "&lt;cafe&gt;",
                                        "kernel: {type: &lt;ula&gt;}",
                                        "wall-clock time"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) assert_has(html, parts[i]);
    static const char *const absent[] = {"figures/loss", "figures/log-z", "figures/acceptance",
                                         "figures/rate", "<script",       "http:",
                                         "https:",       "@import",       "url("};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) assert_lacks(html, absent[i]);
    assert_int_equal(count(html, "<figure>"), 7);
    assert_has(svg, "resampling &lt;threshold>");
    assert_has(svg, "wall-clock time / s");
    assert_has(svg, "ESS / N");
    if (report_write(dir, &extra, ERROR)) fail_msg("%s", sentence);
    char *again = slurp("plane/report.html", NULL); /* the same run gives the same page */
    assert_string_equal(html, again);
    assert_false(is_there("plane/report.html.tmp"));
    free(again);
    free(html);
    free(svg);
}

/* The page of a run with this summary.json; the caller frees it. */
static char *page_with(const char *summary)
{
    char path[FILES_PATH];
    const char *dir = make_run("told", 2, 2, 0);
    assert_int_equal(files_join(path, dir, "summary.json", ERROR), 0);
    assert_int_equal(files_write(path, summary, strlen(summary), ERROR), 0);
    if (report_write(dir, NULL, ERROR)) fail_msg("%s", sentence);
    return slurp("told/report.html", NULL);
}

#define JUDGED(status, judged, reasons)                                                                                           \
    "{\"verdict\": {\"status\": \"" status "\", \"judged\": " judged ", \"reasons\": [" reasons                                   \
    "]}, \"model\": \"m\", "                                                                                                      \
    "\"objective\": \"mmle\", \"method\": \"sosmc, mala, adam\", \"theta\": [1.25, -2], \"theta_names\": [\"a<b\", \"second\"], " \
    "\"theta_mc_error\": [0.0125, 0.5], \"theta_standard_error\": [0.375, 1.5], \"theta_low\": [0.5, -5], "                       \
    "\"theta_high\": [2, 1], \"loss\": 3.5, \"loss_error\": 0.25, \"loss_from\": \"judged\", \"log_z\": null, "                   \
    "\"log_z_error\": null, \"log_z_why\": \"there is no such <number>\"}\n"

/* Verdict, numbers with errors and theta by name come before the first heading, whatever the verdict is. */
static void the_first_screen_is_the_verdict_and_the_errors(void **state)
{
    char *html = page_with(JUDGED("converged", "true", ""));
    char *heading = strstr(html, "<h2>");
    assert_non_null(heading);
    *heading = 0;
    static const char *const parts[] = {"<div class=\"verdict good\"><b>Converged</b>",
                                        "m, mmle, by sosmc, mala, adam.",
                                        "<b>3.5 ± 0.2</b>",
                                        "loss (judged)",
                                        "a&lt;b",
                                        "1.25",
                                        "0.5 to 2",
                                        "0.013",
                                        "0.375",
                                        "Without a value: log Z: there is no such &lt;number&gt;."};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) assert_has(html, parts[i]);
    assert_lacks(html, "<li>");
    free(html);
    html = page_with(JUDGED("not_converged", "true", "\"theta moves\", \"the cloud is frozen\""));
    assert_has(html, "<div class=\"verdict\"><b>Not converged</b>");
    assert_has(html, "<li>theta moves</li>\n<li>the cloud is frozen</li>");
    free(html);
    html = page_with(JUDGED("not_converged", "false", "\"nobody looked\""));
    assert_has(html, "<b>Not judged</b>");
    free(html);
    html = page_with(JUDGED("failed", "true", "\"it broke\""));
    assert_has(html, "<b>Failed</b>");
    assert_has(html, "prefers-color-scheme:dark");
    free(html);
    html = page_with("{\"version\": \"0.1\"}"); /* of an earlier version: no verdict, and none is made up */
    assert_lacks(html, "<div class=\"verdict");
    free(html);
}

static void clouds_of_any_dimension_are_drawn(void **state)
{
    need_gnuplot();
    fill();
    plot_lattice line = {N, 1, -3.0, 3.0, 0.0, 0.0, ys};
    report_extra extra = {.density = &line, .reward = &line};
    if (report_write(make_run("line", 1, 1, 0), &extra, ERROR)) fail_msg("%s", sentence);
    char *html = slurp("line/report.html", NULL), *svg = slurp("line/figures/cloud.svg", NULL);
    assert_has(html, "<h1>line</h1>");
    assert_has(html, "Weighted histogram of the 400 final particles and the target density; right, the reward.");
    assert_has(svg, "target density");
    assert_lacks(html, "wall-clock");
    free(html);
    free(svg);
    if (report_write(make_run("space", 5, 80, 1), NULL, ERROR)) fail_msg("%s", sentence);
    html = slurp("space/report.html", NULL);
    assert_has(html, "the first three of 5 coordinates");
    assert_has(html, "Euclidean norm");
    free(html);
    if (report_write(make_run("many", 2, 40, 1), NULL, ERROR)) fail_msg("%s", sentence);
    html = slurp("many/report.html", NULL);
    assert_has(html, "The 40 parameters");
    assert_has(html, "(40 in all)");
    free(html);
}

/* An empty PATH stands in for a machine without gnuplot. */
static void without_gnuplot_there_is_still_a_report(void **state)
{
    char path[FILES_PATH];
    const char *dir = make_run("bare", 2, 2, 1), *before = getenv("PATH");
    (void)snprintf(path, sizeof path, "%s", before ? before : "");
    assert_int_equal(setenv("PATH", scratch, 1), 0);
    int there = plot_available(), status = report_write(dir, NULL, ERROR);
    assert_int_equal(setenv("PATH", path, 1), 0);
    assert_false(there);
    assert_int_equal(status, 0);
    char *html = slurp("bare/report.html", NULL);
    assert_has(html, "This report has no figures: gnuplot was not found");
    assert_has(html, "apt-get install gnuplot-nox");
    assert_has(html, "mean reward");
    assert_lacks(html, "<figure>");
    free(html);
}

static void a_short_or_poor_run_has_a_report(void **state)
{
    static const char header[] = "iteration,updates,gradient_updates,ess,mean_score\n";
    char text[256];
    assert_int_equal(files_directory(at("poor"), ERROR), 0);
    for (int rows = 0; rows < 3; rows++) {
        (void)snprintf(text, sizeof text, "%s%s%s", header, rows > 0 ? "1,1,0,,0.5\n" : "",
                       rows > 1 ? "2,2,1,,0.5\n" : "");
        write_text("poor/trace.csv", text);
        if (report_write(at("poor"), NULL, ERROR)) fail_msg("%s", sentence);
        char *html = slurp("poor/report.html", NULL);
        assert_lacks(html, "<figure>");
        free(html);
    }
}

static void damaged_runs_are_refused(void **state)
{
    static const char *const damage[][3] = {
        {"trace.csv", "iteration,a\n1,x\n", "trace.csv:2: column 'a'"},
        {"trace.csv", "time,a\n1,2\n", "first column is 'time'"},
        {"trace.csv", "iteration,a\n1\n", "trace.csv:2: 1 field"},
        {"timing.csv", "iteration,minutes\n1,2\n", "timing.csv has no columns"},
        {"summary.json", "{", "summary.json:1"},
        {"theta.npy", "nonsense", "theta.npy"},
        {"particles.npz", "nonsense", "particles.npz is not an NPZ file"},
    };
    for (size_t i = 0; i < sizeof damage / sizeof *damage; i++) {
        char name[FILES_PATH];
        const char *dir = make_run("damaged", 2, 2, 1);
        (void)snprintf(name, sizeof name, "damaged/%s", damage[i][0]);
        write_text(name, damage[i][1]);
        assert_int_equal(report_write(dir, NULL, ERROR), -1);
        assert_has(sentence, damage[i][2]);
    }
    assert_false(is_there("damaged/report.html"));
    assert_int_equal(report_write(at("nowhere"), NULL, ERROR), -1);
    assert_has(sentence, "not a run directory");
}

/* ---------------------------------------------------------------------------- */

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thinning_keeps_ends_and_extremes),
        cmocka_unit_test(everything_can_be_drawn),
        cmocka_unit_test(impossible_figures_are_refused),
        cmocka_unit_test(a_page_escapes_everything),
        cmocka_unit_test(base64_is_padded),
        cmocka_unit_test(a_page_that_cannot_be_written_says_so),
        cmocka_unit_test(a_report_shows_the_run),
        cmocka_unit_test(the_first_screen_is_the_verdict_and_the_errors),
        cmocka_unit_test(clouds_of_any_dimension_are_drawn),
        cmocka_unit_test(without_gnuplot_there_is_still_a_report),
        cmocka_unit_test(a_short_or_poor_run_has_a_report),
        cmocka_unit_test(damaged_runs_are_refused),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
