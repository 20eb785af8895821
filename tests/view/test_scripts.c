/* test_scripts.c: what gnuplot is told. A gnuplot that gives its script back stands in for the real one, so that every number of a figure
 * is read where it is said: the values of a series and its band, gaps, lattices with their axes, ranges, quotes. And what stays text on
 * a page. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "assertions.h"
#include "scratch.h"
#include "view/page.h"
#include "view/plot.h"

static int furnish(void **state)
{
    char path[2 * FOLDER_ROOM + 64];
    if (scratch_make(state)) return -1;
    write_text("gnuplot", "#!/bin/sh\ncat\n");
    const char *before = getenv("PATH");
    (void)snprintf(path, sizeof path, "%s:%s", scratch, before ? before : "/usr/bin:/bin");
    return chmod(at("gnuplot"), 0755) || setenv("PATH", path, 1) ? -1 : 0;
}

static char *script_of(const plot_panel *p)
{
    char *bytes = NULL;
    size_t size;
    plot_figure f = {.name = "f", .title = "it's", .panel = p, .panels = 1};
    assert_fine(plot_render(&f, PLOT_PDF, &bytes, &size, ERROR));
    return bytes;
}

static void series_and_bands(void **state)
{
    const double x[] = {1, 2, 3, 4}, y[] = {10, 20, NAN, 40}, low[] = {9, 18, 0, 36}, high[] = {11, 22, 0, 44};
    const plot_series s = {.label = "band", .n = 4, .x = x, .y = y, .low = low, .high = high};
    char *script = script_of(&(plot_panel){.series = &s, .n = 1});
    assert_contains(script, "$s0_0 << EOD\n1 10 9 11\n2 20 18 22\n\n4 40 36 44\nEOD\n");
    assert_contains(script, "'it''s'");
    free(script);
}

static void horizontal_bars(void **state)
{
    const double x[] = {1, 2}, y[] = {10, 20}, low[] = {9, 18}, high[] = {11, 22}, left[] = {0.5, 1.5},
                 right[] = {1.25, 2.5};
    const plot_series s = {
        .kind = PLOT_MARKS, .n = 2, .x = x, .y = y, .low = low, .high = high, .x_low = left, .x_high = right};
    char *script = script_of(&(plot_panel){.series = &s, .n = 1});
    assert_contains(script, "$s0_0 << EOD\n1 10 9 11 0.5 1.25\n2 20 18 22 1.5 2.5\nEOD\n");
    free(script);
}

/* z[r * nx + c]: rows from below, columns from the left; three columns are two distances. */
static void lattices(void **state)
{
    const double z[] = {1, 2, 3, 40, 50, 60};
    const plot_lattice l = {.nx = 3, .ny = 2, .x_min = -1, .x_max = 3, .y_min = 10, .y_max = 17, .z = z};
    char *script = script_of(&(plot_panel){.heat = &l});
    assert_contains(script, "$heat0 << EOD\n1 2 3\n40 50 60\nEOD\n");
    assert_contains(script, "using (-1+$1*2):(10+$2*7):3");
    free(script);
}

/* From the data with some air, but bars stand on zero; lattices and what the panel says fill it. */
static void ranges(void **state)
{
    const double x[] = {0, 1, 2}, y[] = {0, 10, 20}, z[] = {1, 2, 3, 4};
    const plot_lattice l = {.nx = 2, .ny = 2, .x_min = -1, .x_max = 3, .y_min = 5, .y_max = 6, .z = z};
    const plot_series line = {.n = 3, .x = x, .y = y}, bars = {.kind = PLOT_BARS, .n = 3, .x = x, .y = y},
                      dots = {.kind = PLOT_POINTS, .n = 3, .x = x, .y = y};
    const struct {
        plot_panel p;
        const char *x, *y;
    } rows[] = {
        {{.series = &line, .n = 1}, "set xrange [0:2]", "set yrange [-1:21]"},
        {{.series = &bars, .n = 1}, NULL, "set yrange [0:21]"},
        {{.series = &dots, .n = 1}, "set xrange [-0.0800000000000", "set yrange [-1:21]"},
        {{.heat = &l}, "set xrange [-1:3]", "set yrange [5:6]"},
        {{.series = &line, .n = 1, .x_min = -7, .x_max = 9}, "set xrange [-7:9]", "set yrange [-1:21]"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *script = script_of(&rows[i].p);
        if (rows[i].x) assert_contains(script, rows[i].x);
        assert_contains(script, rows[i].y);
        free(script);
    }
}

/* About eight lines of equal value, at 1, 2, 2.5 or 5 times a power of ten. */
static void contours(void **state)
{
    static const struct {
        double top;
        const char *levels;
    } rows[] = {{8, "discrete 1,2,3,4,5,6,7\n"},
                {16, "discrete 2,4,6,8,10,12,14\n"},
                {20, "discrete 2.5,5,7.5,10,12.5,15,17.5\n"},
                {40, "discrete 5,10,15,20,25,30,35\n"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double z[] = {0, 0, 0, rows[i].top};
        const plot_lattice l = {.nx = 2, .ny = 2, .x_max = 1, .y_max = 1, .z = z};
        char *script = script_of(&(plot_panel){.contour = &l});
        assert_contains(script, rows[i].levels);
        free(script);
    }
}

static void text_stays_text(void **state)
{
    page *p = page_new("a <b> & \"c\"", "d\x1b\xe2\x80\xae\xff>");
    page_code(p, "x < y");
    assert_fine(page_write(p, at("page.html"), ERROR));
    page_free(p);
    char *html = slurp("page.html", NULL);
    assert_contains(html, "a &lt;b&gt; &amp; &quot;c&quot;");
    assert_contains(html, "d\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD&gt;");
    assert_contains(html, "<pre>x &lt; y</pre>");
    free(html);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(series_and_bands), cmocka_unit_test(horizontal_bars),
                                       cmocka_unit_test(lattices),         cmocka_unit_test(ranges),
                                       cmocka_unit_test(contours),         cmocka_unit_test(text_stays_text)};
    return cmocka_run_group_tests(tests, furnish, scratch_remove);
}
