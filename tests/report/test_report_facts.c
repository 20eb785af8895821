/* test_report_facts.c: a report read back. The runs are made up, with values that no two quantities share, so that a card, a row
 * or a dot that shows the wrong quantity, unit, sign or weight is noticed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/files.h"
#include "report/report_inside.h"
#include "scratch.h"

enum { ROWS = 200 };

static const char *const columns[] = {"mean_score", "loss",   "kl", "mean_energy", "data_energy", "penalty", "logz",
                                      "ess",        "accept", "h",  "grad_norm",   "rate",        "mobility"};
static const char *const labels[] = {
    "mean reward",   "loss",          "KL divergence", "mean log-density", "mean energy of the data",
    "penalty",       "log Z",         "ESS",           "mean acceptance",  "step size",
    "gradient norm", "learning rate", "mobility"};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* Column c is 1000 (c + 1) + the row's number. */
static double value(int c, int row) { return 1000.0 * (c + 1) + row; }

/* DIR/trace.csv and, with a last time above 0, DIR/timing.csv. */
static void write_run(const char *dir, double seconds)
{
    char path[FILES_PATH];
    assert_fine(files_directory(at(dir), ERROR));
    (void)snprintf(path, sizeof path, "%s/trace.csv", at(dir));
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("iteration", f);
    for (int c = 0; c < COLUMNS; c++) fprintf(f, ",%s", columns[c]);
    for (int i = 0; i < ROWS; i++) {
        fprintf(f, "\n%d", i);
        for (int c = 0; c < COLUMNS; c++) fprintf(f, ",%.17g", value(c, i));
    }
    fputs("\n", f);
    assert_int_equal(fclose(f), 0);
    if (!(seconds > 0)) return;
    (void)snprintf(path, sizeof path, "%s/timing.csv", at(dir));
    f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "iteration,seconds\n0,0\n%d,%.17g\n", ROWS - 1, seconds);
    assert_int_equal(fclose(f), 0);
}

static char *report_of(const char *dir)
{
    static const report_extra nothing;
    char path[FILES_PATH];
    if (report_write(at(dir), &nothing, ERROR)) fail_msg("%s", sentence);
    (void)snprintf(path, sizeof path, "%s/report.html", dir);
    return slurp(path, NULL);
}

/* The page has a card with this value above this name. */
static void assert_card(const char *html, const char *number, const char *name)
{
    char card[256];
    (void)snprintf(card, sizeof card, "<div><b>%s</b><span>%s</span></div>", number, name);
    if (!strstr(html, card)) fail_msg("the page has no card '%s' = '%s'", name, number);
}

/* ---------------------------------------------------------------------------- numbers */

/* What the trace says of loss, reward and log Z is a diagnostic and no result: there is no card of it. */
static void cards_of_a_run_without_a_summary(void **state)
{
    write_run("bare", 12300);
    char *html = report_of("bare");
    assert_null(strstr(html, "estimate)</span>"));
    assert_null(strstr(html, "<b>2189"));
    assert_card(html, "200", "iterations");
    assert_card(html, "3 h 25 min", "wall-clock time");
    free(html);
}

static void cards_of_a_summary(void **state)
{
    write_run("summed", 0);
    write_text(
        "summed/summary.json",
        "{\"reward\": 0.51, \"reward_error\": 0.012, \"reward_from\": \"exact\",\n"
        " \"loss\": -7.25, \"loss_error\": 0.5, \"loss_from\": \"judged\",\n"
        " \"best_loss\": -9.125, \"best_loss_from\": \"exact\",\n"
        " \"log_z\": 3.75, \"log_z_error\": 0.0625, \"log_z_from\": \"running estimate\",\n"
        " \"kl\": 0.875, \"kl_error\": 0.25, \"kl_from\": \"judged\", \"objective\": \"mmle\",\n"
        " \"theta\": [1.5, -2.25], \"theta_names\": [\"one\", \"two\"], \"theta_mc_error\": [0.03125, 0.0625],\n"
        " \"theta_standard_error\": [0.125, 0.75], \"theta_low\": [1.25, -3.5], \"theta_high\": [1.75, -0.5]}\n");
    char *html = report_of("summed");
    assert_card(html, "0.51 ± 0.01", "mean reward (exact)");
    assert_card(html, "-7.25 ± 0.5", "loss (judged)");
    assert_card(html, "-9.125", "loss of the best of all densities (exact)");
    assert_card(html, "0.875 ± 0.2", "divergence (judged)");
    assert_null(strstr(html, "estimate)</span>")); /* as earlier versions told log Z */
    assert_non_null(strstr(html,
                           "<td class=\"l\">one</td><td class=\"r strong\">1.5</td><td class=\"r\">1.25 to 1.75</td>"
                           "<td class=\"r\">0.031</td><td class=\"r\">0.125</td>"));
    assert_non_null(strstr(html,
                           "<td class=\"l\">two</td><td class=\"r strong\">-2.25</td><td class=\"r\">-3.5 to -0.5</td>"
                           "<td class=\"r\">0.062</td><td class=\"r\">0.75</td>"));
    assert_null(strstr(html, "wall-clock time</span>"));
    free(html);
}

static void times_have_their_unit(void **state)
{
    static const struct {
        double seconds;
        const char *shown, *axis;
        double unit; /* of the axis, in seconds */
    } cases[] = {{0.25, "250 ms", "wall-clock time / ms", 0.001},
                 {42, "42 s", "wall-clock time / s", 1},
                 {3723, "62 min 3 s", "wall-clock time / min", 60},
                 {12300, "3 h 25 min", "wall-clock time / h", 3600}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        static gallery g;
        report_data r;
        write_run("timed", cases[k].seconds);
        char *html = report_of("timed");
        assert_card(html, cases[k].shown, "wall-clock time");
        free(html);
        assert_fine(report_load(&r, at("timed"), ERROR));
        g = (gallery){.n = 0};
        report_gallery(&g, &r, &(report_extra){.title = "x"});
        assert_true(g.n > 0 && g.item[0].figure.panels == 2);
        const plot_panel *p = &g.item[0].figure.panel[1];
        assert_string_equal(p->x_label, cases[k].axis);
        assert_true(fabs(p->series[0].x[p->series[0].n - 1] * cases[k].unit / cases[k].seconds - 1) < 1e-12);
        report_gallery_free(&g);
        report_unload(&r);
    }
}

/* First and last value, mean and standard deviation over the last tenth, of every column under its own name. U is shown as the
 * log-density -U, and so is its curve. */
static void every_column_has_its_row(void **state)
{
    char row[512];
    write_run("rows", 0);
    char *html = report_of("rows");
    for (int c = 0; c < COLUMNS; c++) {
        double sign = strcmp(columns[c], "mean_energy") == 0 ? -1 : 1;
        (void)snprintf(row, sizeof row,
                       "<tr><td class=\"l\">%s</td><td class=\"r\">%.6g</td><td class=\"r\">%.6g</td>"
                       "<td class=\"r strong\">%.6g</td><td class=\"r\">6.20484</td></tr>",
                       labels[c], sign * value(c, 0), sign * value(c, ROWS - 1), sign * value(c, 189));
        if (!strstr(html, row)) fail_msg("the page has no row %s", row);
    }
    free(html);
}

static void curves_are_their_columns(void **state)
{
    static gallery g;
    report_data r;
    int seen = 0;
    write_run("curves", 0);
    assert_fine(report_load(&r, at("curves"), ERROR));
    g = (gallery){.n = 0};
    report_gallery(&g, &r, &(report_extra){.title = "x"});
    for (int k = 0; k < g.n; k++)
        for (int c = 0; c < COLUMNS; c++) {
            const plot_panel *p = g.item[k].figure.panel;
            if (!p->y_label || strcmp(p->y_label, labels[c]) != 0) continue;
            double sign = strcmp(columns[c], "mean_energy") == 0 ? -1 : 1;
            const plot_series *s = &p->series[0];
            for (int i = 0; i < s->n; i++) assert_true(s->y[i] == sign * value(c, (int)s->x[i]));
            seen++;
        }
    assert_int_equal(seen, COLUMNS);
    report_gallery_free(&g);
    report_unload(&r);
}

/* ---------------------------------------------------------------------------- clouds */

enum { PARTICLES = 100 };

/* Particle i is at (i, 1000 + i, ...); the weight is shared by the particles i with heavy[i]. */
static void write_cloud(const char *dir, int dim, const int heavy[PARTICLES])
{
    static double x[PARTICLES * 2], logw[PARTICLES];
    char path[FILES_PATH];
    for (int i = 0; i < PARTICLES; i++) {
        for (int j = 0; j < dim; j++) x[i * dim + j] = 1000.0 * j + i;
        logw[i] = heavy[i] ? -5 : -INFINITY;
    }
    npz_member m[] = {{"x", npy_matrix(x, PARTICLES, dim)}, {"logw", npy_vector(logw, PARTICLES)}};
    (void)snprintf(path, sizeof path, "%s/particles.npz", at(dir));
    assert_fine(npz_write(path, m, 2, 0, ERROR));
}

static const exhibit *cloud_over(gallery *g, report_data *r, const char *dir, const plot_lattice *density)
{
    assert_fine(report_load(r, at(dir), ERROR));
    *g = (gallery){.n = 0};
    report_gallery(g, r, &(report_extra){.title = "x", .density = density});
    for (int k = 0; k < g->n; k++)
        if (strcmp(g->item[k].figure.name, "cloud") == 0) return &g->item[k];
    fail_msg("there is no cloud");
    return NULL;
}

static const exhibit *cloud_of(gallery *g, report_data *r, const char *dir) { return cloud_over(g, r, dir, NULL); }

static void dots_follow_the_weights(void **state)
{
    static gallery g;
    report_data r;
    int heavy[PARTICLES] = {0}, first = 0;
    write_run("plane", 0);
    heavy[17] = 1;
    write_cloud("plane", 2, heavy);
    const plot_series *dots = cloud_of(&g, &r, "plane")->figure.panel->series;
    assert_int_equal(dots->n, PARTICLES);
    for (int k = 0; k < dots->n; k++) assert_true(dots->x[k] == 17 && dots->y[k] == 1017);
    report_gallery_free(&g);
    report_unload(&r);
    heavy[60] = 1;
    write_cloud("plane", 2, heavy);
    dots = cloud_of(&g, &r, "plane")->figure.panel->series;
    for (int k = 0; k < dots->n; k++) {
        assert_true((dots->x[k] == 17 && dots->y[k] == 1017) || (dots->x[k] == 60 && dots->y[k] == 1060));
        first += dots->x[k] == 17;
    }
    assert_int_equal(first, PARTICLES / 2);
    report_gallery_free(&g);
    report_unload(&r);
}

static void histograms_follow_the_weights(void **state)
{
    static gallery g;
    report_data r;
    int heavy[PARTICLES] = {0};
    double area = 0, mean = 0;
    write_run("line", 0);
    for (int i = 20; i < 30; i++) heavy[i] = 1;
    write_cloud("line", 1, heavy);
    const plot_series *bars = cloud_of(&g, &r, "line")->figure.panel->series;
    double width = bars->x[1] - bars->x[0];
    for (int k = 0; k < bars->n; k++) {
        area += width * bars->y[k];
        mean += width * bars->y[k] * bars->x[k];
    }
    assert_true(fabs(area - 1) < 1e-12);    /* a density */
    assert_true(fabs(mean - 24.5) < width); /* of the particles that have weight */
    report_gallery_free(&g);
    report_unload(&r);
}

/* Four particles have the weight, and one of them is not in the box of the picture. */
static void what_lies_outside_is_told(void **state)
{
    static gallery g;
    report_data r;
    int heavy[PARTICLES] = {0};
    const double z[] = {0, 1, 1, 0};
    const plot_lattice box = {.nx = 2, .ny = 2, .x_min = 0, .x_max = 40, .y_min = 1000, .y_max = 1040, .z = z};
    write_run("outside", 0);
    heavy[17] = heavy[18] = heavy[19] = heavy[60] = 1;
    write_cloud("outside", 2, heavy);
    const char *caption = cloud_over(&g, &r, "outside", &box)->caption;
    assert_true(caption && strstr(caption, " A share 0.25 of the weight lies outside"));
    report_gallery_free(&g);
    report_unload(&r);
}

/* ---------------------------------------------------------------------------- automatic runs */

static const exhibit *figure_of(const gallery *g, const char *name)
{
    for (int i = 0; i < g->n; i++)
        if (strcmp(g->item[i].figure.name, name) == 0) return &g->item[i];
    fail_msg("there is no figure %s", name);
    return NULL;
}

/* Steps instead of iterations; every figure marks where the phases begin, in steps and in time; what is left stands beside what
 * may be left. */
static void the_solvers_phases_are_marked(void **state)
{
    static const char *const names[] = {"theta", "left", "gain", "evaluations"};
    static const char *const phases[] = {"start", "search", "measure", "done"};
    static const double steps[] = {0, 1, 3, 5};
    static const report_extra nothing;
    report_data r;
    gallery g;
    assert_fine(files_directory(at("solved"), ERROR));
    write_text("solved/trace.csv", "step,phase,gain,left,left_error,wanted,evaluations,theta_1\n"
                                   "0,0,,,,,10,0\n1,1,5,,,,20,1\n2,1,3,,,0.1,30,2\n3,2,3,0.5,0.25,0.1,40,3\n"
                                   "4,2,3,0.3,0.2,0.1,50,3.5\n5,4,3,0.05,0.02,0.1,70,3.75\n");
    write_text("solved/timing.csv", "step,seconds\n0,1\n1,2\n2,3\n3,4\n4,5\n5,6\n");
    write_text("solved/summary.json", "{\"evaluations\": 1234567}\n");
    assert_fine(report_load(&r, at("solved"), ERROR));
    report_gallery(&g, &r, &nothing);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const plot_panel *p = figure_of(&g, names[k])->figure.panel;
        assert_string_equal(p[0].x_label, "step");
        assert_string_equal(p[1].x_label, "wall-clock time / s");
        assert_true(p[0].rules == 4 && p[1].rules == 4);
        for (int i = 0; i < 4; i++) {
            assert_string_equal(p[0].rule[i].text, phases[i]);
            assert_true(p[0].rule[i].x == steps[i] && p[1].rule[i].x == steps[i] + 1);
        }
    }
    const plot_panel *left = figure_of(&g, "left")->figure.panel;
    assert_true(left->n == 3 && left->log_y && left->series[0].y[0] == 0.5 && left->series[1].y[0] == 0.25 &&
                left->series[2].y[0] == 0.1);
    report_gallery_free(&g);
    report_unload(&r);
    char *html = report_of("solved");
    assert_card(html, "6", "steps");
    assert_card(html, "1\u202F234\u202F567", "evaluations");
    free(html);
}

static void phases_of_tempering_have_their_names(void **state)
{
    static const report_extra nothing;
    report_data r;
    gallery g;
    assert_fine(files_directory(at("tempered"), ERROR));
    write_text("tempered/trace.csv",
               "step,phase,temperature,logz,ess,accept,h,resamplings,evaluations\n"
               "0,0,0,1,10,0.5,1,0,10\n1,0,1,2,9,0.5,1,1,20\n2,1,0,1,8,0.5,1,0,30\n3,1,1,2,7,0.5,1,1,40\n");
    assert_fine(report_load(&r, at("tempered"), ERROR));
    report_gallery(&g, &r, &nothing);
    const plot_panel *p = figure_of(&g, "evaluations")->figure.panel;
    assert_int_equal(p[0].rules, 2);
    assert_string_equal(p[0].rule[0].text, "trial");
    assert_string_equal(p[0].rule[1].text, "measurement");
    assert_true(p[0].rule[0].x == 0 && p[0].rule[1].x == 2);
    report_gallery_free(&g);
    report_unload(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_solvers_phases_are_marked),
        cmocka_unit_test(phases_of_tempering_have_their_names),
        cmocka_unit_test(cards_of_a_run_without_a_summary),
        cmocka_unit_test(cards_of_a_summary),
        cmocka_unit_test(times_have_their_unit),
        cmocka_unit_test(every_column_has_its_row),
        cmocka_unit_test(curves_are_their_columns),
        cmocka_unit_test(dots_follow_the_weights),
        cmocka_unit_test(histograms_follow_the_weights),
        cmocka_unit_test(what_lies_outside_is_told),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
