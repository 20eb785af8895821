/* test_ebm2d_figures.c: points fall into the nearest hexagon, every figure is written in both formats from made-up
 * data, stays small however much is given, and shows what it was given: labels, best points, as many hexagons as
 * bins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ebm2d/ebm2d_figures.h"
#include "files/files.h"
#include "folder.h"

enum { METHODS = 2, MODELS = 3, SEEDS = 3, KILO = 1024 };
#define PI 3.14159265358979323846
static const char *const methods[METHODS] = {"ImpDiff", "SOSMC-ULA"};
static char folder[FOLDER_ROOM], error[1024];
#define ERROR error, sizeof error

/* ---------------------------------------------------------------------------- made-up data */

static uint64_t state_of_noise = 1;
static double noise(void) /* uniform on [0, 1) */
{
    state_of_noise = state_of_noise * 6364136223846793005U + 1442695040888963407U;
    return (double)(state_of_noise >> 11) * 0x1p-53;
}
static double normal(void) { return sqrt(-2.0 * log(1.0 - noise())) * cos(2.0 * PI * noise()); }

static double *doubles(int n)
{
    double *v = malloc((size_t)n * sizeof *v);
    assert_non_null(v);
    return v;
}

/* n points on rings of radius 2.2 and 4.5; a share `lower` of them in the lower half-plane. */
static ebm2d_cloud rings(int n, double lower, double spread)
{
    double *x = doubles(n), *y = doubles(n);
    for (int i = 0; i < n; i++) {
        double r = (noise() < 0.2 ? 2.2 : 4.5) + spread * normal(), t = PI * noise();
        x[i] = r * cos(t);
        y[i] = (noise() < lower ? -r : r) * sin(t);
    }
    return (ebm2d_cloud){n, x, y};
}

static ebm2d_cloud box(int n)
{
    double *x = doubles(n), *y = doubles(n);
    for (int i = 0; i < n; i++) {
        x[i] = 12.0 * noise() - 6.0;
        y[i] = 12.0 * noise() - 6.0;
    }
    return (ebm2d_cloud){n, x, y};
}

static void cloud_free(ebm2d_cloud *c)
{
    free((double *)c->x);
    free((double *)c->y);
}

/* low + (high - low)(1 - exp(-x / scale)) with noise, for x = 0, every, 2 every, ... */
static ebm2d_curve rising(int n, int seeds, double every, double low, double high, double scale, double rough)
{
    double *x = doubles(n), *y = doubles(n * seeds);
    for (int i = 0; i < n; i++) x[i] = every * i;
    for (int i = 0; i < n * seeds; i++) y[i] = low + (high - low) * (1.0 - exp(-x[i % n] / scale)) + rough * normal();
    return (ebm2d_curve){n, seeds, x, y};
}

static void curve_free(ebm2d_curve *c)
{
    free((double *)c->x);
    free((double *)c->y);
}

/* ---------------------------------------------------------------------------- looking at files */

static void need_gnuplot(void)
{
    if (plot_available()) return;
    print_message("skipped: gnuplot is not there\n");
    skip();
}

static size_t size_of(const char *name, const char *ending, const char *starts)
{
    char path[FILES_PATH], file[128], *bytes = NULL;
    size_t n = 0;
    (void)snprintf(file, sizeof file, "%s.%s", name, ending);
    assert_int_equal(files_join(path, folder, file, ERROR), 0);
    if (files_read(path, (size_t)1 << 28, &bytes, &n, ERROR)) fail_msg("%s", error);
    if (strncmp(bytes, starts, strlen(starts)) != 0) fail_msg("%s does not start with %s", file, starts);
    free(bytes);
    return n;
}

static arena memory; /* of the figure under way */

/* Draws the figure. It is there in both formats, whole, and no larger than `most` KiB. Returns the text of the SVG file. */
static char *drawn(plot_figure f, size_t most)
{
    char *svg = NULL;
    assert_int_equal(memory.failed, 0);
    if (plot_write(&f, 1, folder, &svg, ERROR)) fail_msg("%s: %s", f.name, error);
    assert_non_null(svg);
    size_t n = size_of(f.name, "svg", "<?xml"), m = size_of(f.name, "pdf", "%PDF");
    print_message("%s: SVG %zu KiB, PDF %zu KiB\n", f.name, n / KILO, m / KILO);
    assert_int_equal(strlen(svg), n);
    if (!strstr(svg + n - 20, "</svg>")) fail_msg("%s.svg has no end", f.name);
    if (n > most * KILO || m > most * KILO) fail_msg("%s is larger than %zu KiB", f.name, most);
    arena_free(&memory);
    return svg;
}

static void assert_shows(const char *svg, const char *part)
{
    if (!strstr(svg, part)) fail_msg("the figure does not show \"%s\"", part);
}

static int occurrences(const char *text, const char *part)
{
    int n = 0;
    for (const char *p = strstr(text, part); p; p = strstr(p + 1, part)) n++;
    return n;
}

/* ---------------------------------------------------------------------------- hexagons */

static void known_points_have_known_bins(void **state)
{
    const double h = 6.0, cell_x = 12.0 / 60, cell_y = 12.0 / 34;
    const int second = 61 * 35;
    assert_int_equal(EBM2D_BINS, 61 * 35 + 60 * 34);
    assert_int_equal(ebm2d_bin(-h, -h, h), 0);
    assert_int_equal(ebm2d_bin(h, h, h), second - 1);
    assert_int_equal(ebm2d_bin(0.0, 0.0, h), 17 * 61 + 30);
    assert_int_equal(ebm2d_bin(0.5 * cell_x, 0.5 * cell_y, h), second + 17 * 60 + 30);
    /* straight up from a centre the hexagon ends at a third of the cell */
    assert_int_equal(ebm2d_bin(0.001, 0.33 * cell_y, h), 17 * 61 + 30);
    assert_int_equal(ebm2d_bin(0.001, 0.34 * cell_y, h), second + 17 * 60 + 30);
    assert_int_equal(ebm2d_bin(6.0001, 0.0, h), -1);
    assert_int_equal(ebm2d_bin(0.0, -6.0001, h), -1);
    assert_int_equal(ebm2d_bin(NAN, 0.0, h), -1);
    assert_int_equal(ebm2d_bin(0.0, INFINITY, h), -1);
}

static void centres_lie_in_their_own_bins(void **state)
{
    for (int bin = 0; bin < EBM2D_BINS; bin++) {
        double x, y;
        ebm2d_bin_centre(bin, 6.0, &x, &y);
        assert_int_equal(ebm2d_bin(x * (1.0 - 1e-12), y * (1.0 - 1e-12), 6.0), bin);
    }
}

/* Nearest in the plane that is stretched so that hexagons are regular. */
static void every_point_goes_to_the_nearest_centre(void **state)
{
    const double stretch = sqrt(3.0) * EBM2D_UP / EBM2D_ACROSS;
    for (int k = 0; k < 300; k++) {
        double x = 12.0 * noise() - 6.0, y = 12.0 * noise() - 6.0, u, v, nearest = INFINITY, mine;
        for (int bin = 0; bin < EBM2D_BINS; bin++) {
            ebm2d_bin_centre(bin, 6.0, &u, &v);
            nearest = fmin(nearest, hypot(x - u, stretch * (y - v)));
        }
        ebm2d_bin_centre(ebm2d_bin(x, y, 6.0), 6.0, &u, &v);
        mine = hypot(x - u, stretch * (y - v));
        assert_true(mine <= nearest + 1e-9);
    }
}

static void counts_sum_to_the_points_inside(void **state)
{
    static int count[EBM2D_BINS];
    ebm2d_cloud c = rings(20000, 0.6, 0.6);
    int inside = 0, sum = 0;
    ((double *)c.x)[7] = NAN;
    for (int i = 0; i < c.n; i++) inside += fabs(c.x[i]) <= 5.0 && fabs(c.y[i]) <= 5.0;
    assert_true(inside < c.n - 100); /* some are outside */
    assert_int_equal(ebm2d_count(&c, 5.0, count), inside);
    for (int i = 0; i < EBM2D_BINS; i++) sum += count[i];
    assert_int_equal(sum, inside);
    cloud_free(&c);
}

static void the_scale_follows_the_percentiles(void **state)
{
    enum { N = 1001 };
    static int count[N + 500]; /* 500 empty bins must not matter */
    for (int i = 0; i < N; i++) count[i] = i + 1;
    plot_scale s = ebm2d_count_scale(count, N + 500);
    assert_true(fabs(s.min - 51.0) < 1e-9);
    assert_true(fabs(s.max - 996.0) < 1e-9);
    assert_true(s.log);
    for (int i = 0; i < N; i++) count[i] = 1;
    s = ebm2d_count_scale(count, N + 500);
    assert_true(s.min == 1.0);
    assert_true(s.max > s.min);
    memset(count, 0, sizeof count);
    s = ebm2d_count_scale(count, N);
    assert_true(s.min >= 1.0 && s.max > s.min);
}

static void steps_of_a_scale(void **state)
{
    plot_scale s = {.min = 1.0, .max = 100.0, .log = 1};
    assert_int_equal(plot_step(&s, 0.0), 0);
    assert_int_equal(plot_step(&s, 1.0), 0);
    assert_int_equal(plot_step(&s, 10.001), PLOT_STEPS / 2);
    assert_int_equal(plot_step(&s, 1e9), PLOT_STEPS - 1);
    assert_int_equal(plot_step(&s, NAN), 0);
    for (int k = 1; k < PLOT_STEPS; k++) assert_int_not_equal(plot_shade(&s, k), plot_shade(&s, k - 1));
    assert_int_equal(plot_shade(&s, 0), PLOT_RGB(0xC3DCF1));
    assert_int_equal(plot_shade(&s, PLOT_STEPS - 1), PLOT_RGB(0x08264F));
}

/* ---------------------------------------------------------------------------- figures */

static void models_are_drawn(void **state)
{
    enum { SIDE = 400 };
    static const char *const names[MODELS] = {"two moons", "circles", "blobs"};
    static double z[SIDE * SIDE];
    plot_lattice density[MODELS];
    ebm2d_cloud data[MODELS], samples[MODELS];
    char *svg = NULL;
    need_gnuplot();
    for (int i = 0; i < SIDE * SIDE; i++) {
        int row = i / SIDE, column = i % SIDE;
        double r = hypot(12.0 * column / (SIDE - 1) - 6.0, 12.0 * row / (SIDE - 1) - 6.0);
        z[i] = exp(-20.0 * pow(r - 2.2, 2)) + 0.5 * exp(-20.0 * pow(r - 4.5, 2));
    }
    for (int m = 0; m < MODELS; m++) {
        density[m] = (plot_lattice){SIDE, SIDE, -6.0, 6.0, -6.0, 6.0, z};
        data[m] = rings(20000, 0.5, 0.1);
        samples[m] = rings(2000, 0.5, 0.2);
    }
    ebm2d_models f = {.models = MODELS, .model = names, .data = data, .samples = samples, .density = density};
    svg = drawn(ebm2d_draw_models(&memory, &f, "models"), 700);
    assert_shows(svg, "two moons");
    assert_shows(svg, "model samples");
    free(svg);
    for (int m = 0; m < MODELS; m++) {
        cloud_free(&data[m]);
        cloud_free(&samples[m]);
    }
}

/* As many hexagons as there are bins with points: none is lost when the SVG is made smaller. */
static void assert_hexagons(const char *svg, const ebm2d_cloud *cloud, int n)
{
    static int count[EBM2D_BINS];
    int bins = 0;
    for (int i = 0; i < n; i++) {
        (void)ebm2d_count(&cloud[i], 6.0, count);
        for (int k = 0; k < EBM2D_BINS; k++) bins += count[k] > 0;
    }
    int ends = 0;
    for (const char *p = strstr(svg, "<path fill='#"); p; p = strstr(p + 1, "<path fill='#"))
        for (const char *q = p; *q != '>'; q++) ends += *q == 'z';
    assert_int_equal(ends, bins + PLOT_STEPS); /* and the bar of the scale */
    assert_int_equal(occurrences(svg, "<polygon fill = 'rgb("), 0);
}

static void terminal_densities_are_drawn(void **state)
{
    enum { BETAS = 5 };
    static const double beta[BETAS] = {0.1, 0.25, 0.5, 1.0, 5.0};
    ebm2d_cloud cloud[METHODS * BETAS];
    char *svg = NULL;
    need_gnuplot();
    for (int i = 0; i < METHODS * BETAS; i++) cloud[i] = rings(2500, 0.99 - 0.1 * (i % BETAS), 0.2);
    ebm2d_densities f = {.rows = METHODS, .columns = BETAS, .row = methods, .quantity = "beta ="};
    f.column = beta;
    f.cloud = cloud;
    svg = drawn(ebm2d_draw_densities(&memory, &f, "terminal"), 700);
    assert_shows(svg, "beta = 0.25");
    assert_shows(svg, "SOSMC-ULA");
    assert_shows(svg, "particles per hexagon");
    assert_hexagons(svg, cloud, METHODS * BETAS);
    free(svg);
    for (int i = 0; i < METHODS * BETAS; i++) cloud_free(&cloud[i]);
}

static void sampler_efficiency_is_drawn(void **state)
{
    enum { TIMES = 9 };
    static const double step[TIMES] = {0, 10, 100, 500, 1000, 5000, 10000, 20000, 30000};
    ebm2d_cloud cloud[METHODS * TIMES];
    char *svg = NULL;
    need_gnuplot();
    for (int i = 0; i < METHODS * TIMES; i++)
        cloud[i] = i % TIMES == 0 ? box(3000) : rings(3000, 0.5 + 0.06 * (i % TIMES), 1.5 / (1 + i % TIMES));
    ebm2d_densities f = {.rows = METHODS, .columns = TIMES, .row = methods, .quantity = "step", .column = step};
    f.cloud = cloud;
    svg = drawn(ebm2d_draw_densities(&memory, &f, "efficiency"), 1500);
    assert_shows(svg, "step 30000");
    assert_hexagons(svg, cloud, METHODS * TIMES);
    free(svg);
    for (int i = 0; i < METHODS * TIMES; i++) cloud_free(&cloud[i]);
}

/* Method m at beta b: from (0.6, 0.04) towards the upper right. */
static ebm2d_path path_of(int n, int seeds, double beta, int m)
{
    double *reward = doubles(n * seeds), *kl = doubles(n * seeds), end = 0.55 + 0.43 * exp(-0.9 * beta) - 0.02 * !m;
    for (int i = 0; i < n * seeds; i++) {
        double t = 1.0 - exp(-1.2 * (i % n));
        reward[i] = 0.6 + t * (end - 0.6) + 0.004 * normal();
        kl[i] = 0.04 + t * (1.6 * pow(end - 0.5, 1.5)) + 0.008 * normal();
    }
    return (ebm2d_path){n, seeds, reward, kl};
}

static void draw_trajectories(int panels, int points, int seeds, const char *name, const char *reward, char **svg)
{
    enum { PANELS = 4 };
    static const double beta[PANELS] = {0.25, 0.1, 0.5, 1.0};
    ebm2d_path path[PANELS][METHODS];
    ebm2d_trajectory panel[PANELS];
    for (int i = 0; i < panels; i++) {
        for (int m = 0; m < METHODS; m++) path[i][m] = path_of(points, seeds, beta[i], m);
        panel[i] = (ebm2d_trajectory){.beta = beta[i], .path = path[i], .optimum_reward = NAN, .optimum_kl = NAN};
    }
    if (seeds > 1) {
        panel[0].optimum_reward = 0.9856;
        panel[0].optimum_kl = 0.5147;
    }
    ebm2d_trajectories f = {.reward = reward, .methods = METHODS, .panels = panels, .columns = panels > 1 ? 2 : 1};
    f.method = methods;
    f.panel = panel;
    *svg = drawn(ebm2d_draw_trajectories(&memory, &f, name), 100);
    for (int i = 0; i < panels * METHODS; i++) {
        free((double *)path[i / METHODS][i % METHODS].reward);
        free((double *)path[i / METHODS][i % METHODS].kl);
    }
}

static void trajectories_are_drawn(void **state)
{
    char *svg = NULL;
    need_gnuplot();
    draw_trajectories(1, 11, 1, "trajectory_fresh", "R_fresh", &svg);
    assert_shows(svg, "reward (R_fresh)");
    assert_shows(svg, "best point of ImpDiff");
    assert_null(strstr(svg, "exact optimum"));
    free(svg);
    draw_trajectories(1, 11, SEEDS, "trajectory_exact", "exact E[R]", &svg);
    assert_shows(svg, "exact optimum");
    free(svg);
    draw_trajectories(4, 6, 1, "trajectories", "R_fresh", &svg);
    assert_shows(svg, "beta = 0.1;");
    assert_int_equal(occurrences(svg, "best point of ImpDiff"), 1); /* one legend for all panels */
    free(svg);
}

/* J = 0.7 - 0.5 * 0.2, 0.9 - 0.5 * 0.4, 0.95 - 0.5 * 0.9: the second is best, also with an unknown point behind it. */
static void the_best_point_has_the_largest_objective(void **state)
{
    static const double reward[] = {0.7, 0.9, 0.95, NAN}, kl[] = {0.2, 0.4, 0.9, 0.1};
    const ebm2d_path path = {4, 1, reward, kl};
    const ebm2d_trajectory panel = {.beta = 0.5, .path = &path, .optimum_reward = NAN, .optimum_kl = NAN};
    ebm2d_trajectories f = {.reward = "R", .methods = 1, .panels = 1, .method = methods, .panel = &panel};
    char *svg = NULL;
    need_gnuplot();
    svg = drawn(ebm2d_draw_trajectories(&memory, &f, "best"), 100);
    assert_shows(svg, "ImpDiff 0.7000");
    free(svg);
}

static void hitting_times_are_drawn(void **state)
{
    enum { CHAINS = 3000 };
    double *first[METHODS] = {doubles(CHAINS), doubles(CHAINS)};
    char *svg = NULL;
    need_gnuplot();
    for (int i = 0; i < CHAINS * METHODS; i++) {
        double t = -(i < CHAINS ? 1500.0 : 200.0) * log(1.0 - noise());
        first[i / CHAINS][i % CHAINS] = noise() < 0.49 ? 0.0 : t > 5000.0 ? NAN : floor(t);
    }
    const double *const given[METHODS] = {first[0], first[1]};
    ebm2d_hitting f = {.methods = METHODS, .chains = CHAINS, .method = methods, .steps = 30000, .first = given};
    svg = drawn(ebm2d_draw_hitting(&memory, &f, "hitting"), 100);
    assert_shows(svg, "step t");
    free(svg);
    free(first[0]);
    free(first[1]);
}

static void chains_are_drawn(void **state)
{
    enum { CHAINS = 10, N = 3001 };
    double *step = doubles(N), *xy[2 * METHODS];
    char *svg = NULL;
    need_gnuplot();
    for (int i = 0; i < N; i++) step[i] = 10.0 * i;
    for (int k = 0; k < METHODS; k++) {
        double *x = xy[k] = doubles(CHAINS * N), *y = xy[METHODS + k] = doubles(CHAINS * N);
        for (int c = 0; c < CHAINS; c++) {
            double t = 2 * PI * noise();
            for (int i = 0; i < N; i++) {
                double r = (c % 4 ? 4.5 : 2.2) + 0.1 * normal() + 1.5 * exp(-0.1 * i);
                t += 0.03 * normal();
                x[c * N + i] = r * cos(t);
                y[c * N + i] = r * sin(t);
            }
        }
    }
    const double *const x[METHODS] = {xy[0], xy[1]}, *const y[METHODS] = {xy[2], xy[3]};
    ebm2d_chains f = {.methods = METHODS, .chains = CHAINS, .n = N, .method = methods, .step = step, .x = x, .y = y};
    svg = drawn(ebm2d_draw_chains(&memory, &f, "chains"), 700);
    assert_shows(svg, ">start<");
    assert_shows(svg, ">end<");
    free(svg);
    free(step);
    for (int k = 0; k < 2 * METHODS; k++) free(xy[k]);
}

static void rewards_are_drawn(void **state)
{
    enum { K = 1001, POINTS = 11 };
    ebm2d_curve particle[METHODS], weighted[METHODS] = {{0}}, fresh[METHODS], exact[METHODS];
    char *svg = NULL;
    need_gnuplot();
    for (int m = 0; m < METHODS; m++) {
        particle[m] = rising(K, SEEDS, 1, 0.53, m ? 0.97 : 0.85, m ? 20 : 600, 0.003);
        fresh[m] = rising(POINTS, SEEDS, 100, 0.6, 0.96, 40, 0.003);
        exact[m] = rising(K, SEEDS, 1, 0.66, 0.98, 30, 0.001);
    }
    weighted[1] = rising(K, SEEDS, 1, 0.53, 0.975, 20, 0.003);
    ebm2d_rewards f = {.methods = METHODS, .method = methods, .particle = particle, .exact = exact};
    f.weighted = weighted;
    f.fresh = fresh;
    f.target = 0.9856;
    svg = drawn(ebm2d_draw_rewards(&memory, &f, "rewards"), 300);
    assert_shows(svg, "weighted particles");
    assert_shows(svg, "pi*(H)");
    free(svg);
    f.weighted = f.fresh = NULL;
    f.target = NAN;
    svg = drawn(ebm2d_draw_rewards(&memory, &f, "rewards_few"), 300);
    assert_null(strstr(svg, "weighted particles"));
    assert_null(strstr(svg, "pi*(H)"));
    free(svg);
    for (int m = 0; m < METHODS; m++) {
        curve_free(&particle[m]);
        curve_free(&weighted[m]);
        curve_free(&fresh[m]);
        curve_free(&exact[m]);
    }
}

static void norms_and_excesses_are_drawn(void **state)
{
    enum { K = 5001, BETAS = 5 };
    static const double beta[BETAS] = {0.1, 0.25, 0.5, 1.0, 5.0};
    ebm2d_curve curve[BETAS * METHODS];
    char *svg = NULL;
    need_gnuplot();
    for (int i = 0; i < BETAS * METHODS; i++) {
        curve[i] = rising(51, SEEDS, 100, 0.3, 0.0, 500, 0.0);
        for (int k = 0; k < 51 * SEEDS; k++) ((double *)curve[i].y)[k] += 0.01 * (1 + i % 2) * pow(noise(), 3);
    }
    ebm2d_curves f = {
        .methods = METHODS, .panels = BETAS, .columns = 3, .method = methods, .beta = beta, .curve = curve};
    f.quantity = "excess l - l*";
    svg = drawn(ebm2d_draw_curves(&memory, &f, "excess"), 300);
    assert_shows(svg, "excess l - l*");
    free(svg);
    for (int i = 0; i < BETAS * METHODS; i++) curve_free(&curve[i]);
    for (int m = 0; m < METHODS; m++) {
        curve[m] = rising(K, 1, 1, log(5.0), log(0.2), 700, 0.3);
        for (int k = 0; k < K; k++) ((double *)curve[m].y)[k] = exp(curve[m].y[k] - 0.4 * m);
    }
    ebm2d_curves g = {.methods = METHODS, .panels = 1, .method = methods, .curve = curve, .quantity = "gradient norm"};
    svg = drawn(ebm2d_draw_curves(&memory, &g, "norms"), 100);
    free(svg);
    for (int m = 0; m < METHODS; m++) curve_free(&curve[m]);
}

static void ring_shares_are_drawn(void **state)
{
    static const char *const group[] = {"pre-trained", "ImpDiff", "SOSMC-ULA"};
    static const double exact[] = {0.0535, NAN, 0.031};
    ebm2d_curve share[3];
    char *svg = NULL;
    need_gnuplot();
    for (int i = 0; i < 3; i++) share[i] = rising(200, 1, 100, 0.3, 0.26 - 0.03 * i, 300, 0.002);
    ebm2d_rings f = {.groups = 3, .group = group, .share = share, .exact = exact};
    svg = drawn(ebm2d_draw_rings(&memory, &f, "rings"), 100);
    assert_shows(svg, "pre-trained, exact");
    assert_null(strstr(svg, "ImpDiff, exact"));
    free(svg);
    for (int i = 0; i < 3; i++) curve_free(&share[i]);
}

/* The path of that colour starts anew behind the gap, and a line through the whole panel is drawn although both ends
 * are outside. */
static void a_gap_breaks_a_line(void **state)
{
    static const double x[] = {0, 1, 2, 3, 4}, y[] = {1, 2, NAN, 3, 4}, far_x[] = {-10, 10}, far_y[] = {-10, 10};
    const plot_series s[] = {{.colour = PLOT_RGB(0x654321), .n = 5, .x = x, .y = y},
                             {.colour = PLOT_RGB(0x6F7F8F), .n = 2, .x = far_x, .y = far_y}};
    const plot_panel panel = {.series = s, .n = 2, .x_max = 4, .y_max = 5};
    const plot_figure f = {.name = "gap", .panel = &panel, .panels = 1};
    char *svg = NULL;
    need_gnuplot();
    if (plot_write(&f, 1, folder, &svg, ERROR)) fail_msg("%s", error);
    const char *gap = strstr(svg, "<path stroke='rgb(101,  67,  33)'"), *end = gap ? strstr(gap, "/>") : NULL;
    assert_non_null(end);
    int starts = 0;
    for (; gap < end; gap++) starts += *gap == 'M';
    assert_int_equal(starts, 2);
    assert_shows(svg, "<path stroke='rgb(111, 127, 143)'");
    free(svg);
}

static void unknown_values_are_left_out(void **state)
{
    static const double x[] = {0, 1, 2, 3}, y[] = {NAN, NAN, NAN, NAN};
    const ebm2d_curve curve[METHODS] = {{4, 1, x, y}, {0}};
    ebm2d_curves f = {.methods = METHODS, .panels = 1, .method = methods, .curve = curve, .quantity = "nothing"};
    const ebm2d_cloud none = {0};
    const double zero = 0.0;
    ebm2d_densities g = {
        .rows = 1, .columns = 1, .row = methods, .quantity = "beta =", .column = &zero, .cloud = &none};
    char *svg = NULL;
    need_gnuplot();
    svg = drawn(ebm2d_draw_curves(&memory, &f, "unknown"), 100);
    assert_null(strstr(svg, "SOSMC-ULA"));
    free(svg);
    svg = drawn(ebm2d_draw_densities(&memory, &g, "empty"), 100);
    free(svg);
    const double *const nothing[] = {NULL};
    ebm2d_chains h = {.methods = 1, .method = methods, .x = nothing, .y = nothing};
    svg = drawn(ebm2d_draw_chains(&memory, &h, "no_chains"), 100);
    free(svg);
}

static void what_cannot_be_drawn_is_told(void **state)
{
    const ebm2d_curve curve = {0};
    ebm2d_curves f = {.methods = 1, .panels = 1, .method = methods, .curve = &curve, .quantity = "nothing"};
    const plot_hexagons hexagons = {0};
    const plot_panel panel = {.hexagons = &hexagons};
    const plot_scale scale = {.min = 0.0, .max = 1.0, .log = 1};
    plot_figure g = {.name = "g", .panel = &panel, .panels = 1};
    char *svg = NULL;
    plot_figure bad = ebm2d_draw_curves(&memory, &f, "no/name");
    assert_int_equal(plot_write(&bad, 1, folder, &svg, ERROR), -1);
    assert_shows(error, "name");
    assert_null(svg);
    f.panels = 1000;
    ebm2d_curve *many = calloc(1000, sizeof *many);
    f.curve = many;
    bad = ebm2d_draw_curves(&memory, &f, "many");
    assert_int_equal(plot_write(&bad, 1, folder, NULL, ERROR), -1);
    arena_free(&memory);
    assert_shows(error, "1000 panels");
    free(many);
    assert_int_equal(plot_write(&g, 1, folder, NULL, ERROR), -1);
    assert_shows(error, "no scale");
    g.scale = &scale;
    assert_int_equal(plot_write(&g, 1, folder, NULL, ERROR), -1);
    assert_shows(error, "colour scale");
}

static int make_folder(void **state) { return folder_make(folder, "test_ebm2d_figures"); }

static int remove_folder(void **state) { return folder_remove(folder); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_points_have_known_bins),
        cmocka_unit_test(centres_lie_in_their_own_bins),
        cmocka_unit_test(every_point_goes_to_the_nearest_centre),
        cmocka_unit_test(counts_sum_to_the_points_inside),
        cmocka_unit_test(the_scale_follows_the_percentiles),
        cmocka_unit_test(steps_of_a_scale),
        cmocka_unit_test(models_are_drawn),
        cmocka_unit_test(terminal_densities_are_drawn),
        cmocka_unit_test(sampler_efficiency_is_drawn),
        cmocka_unit_test(trajectories_are_drawn),
        cmocka_unit_test(the_best_point_has_the_largest_objective),
        cmocka_unit_test(hitting_times_are_drawn),
        cmocka_unit_test(chains_are_drawn),
        cmocka_unit_test(rewards_are_drawn),
        cmocka_unit_test(norms_and_excesses_are_drawn),
        cmocka_unit_test(ring_shares_are_drawn),
        cmocka_unit_test(a_gap_breaks_a_line),
        cmocka_unit_test(unknown_values_are_left_out),
        cmocka_unit_test(what_cannot_be_drawn_is_told),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
