/* langevin_single.c: one run of every method on V_sparse with R_hard, as curves, a picture of the cloud and a table. */
#include <math.h>
#include <stdlib.h>

#include "files/files.h"
#include "langevin_parts_inside.h"
#include "view/plot.h"

static const int colours[LANGEVIN_METHODS] = {PLOT_BLACK, PLOT_GREY,  PLOT_VERMILION,
                                              PLOT_BLUE,  PLOT_GREEN, PLOT_ORANGE};

static int illustrate(const parts *e, const langevin_result *r, const double *sample)
{
    enum { PANELS = 3, CURVES = LANGEVIN_METHODS + 1 };
    static double reward[LANGEVIN_SIDE * LANGEVIN_SIDE], density[LANGEVIN_SIDE * LANGEVIN_SIDE];
    static double px[LANGEVIN_SAMPLE], py[LANGEVIN_SAMPLE];
    const langevin_setting *s = &e->setting[C];
    plot_series series[2][CURVES],
        dots = {.kind = PLOT_POINTS, .label = "particles", .colour = PLOT_VERMILION, .n = LANGEVIN_SAMPLE};
    double optimum = langevin_best_component(s);
    langevin_maps(s, density, reward);
    for (int i = 0; i < LANGEVIN_SAMPLE; i++) {
        px[i] = sample[PLANE * i];
        py[i] = sample[PLANE * i + 1];
    }
    dots.x = px;
    dots.y = py;
    for (int p = 0; p < 2; p++) {
        for (int m = 0; m < LANGEVIN_METHODS; m++)
            series[p][m] = (plot_series){.label = langevin_method_names[m],
                                         .colour = colours[m],
                                         .n = r[m].points,
                                         .x = p ? r[m].curve_seconds : r[m].at,
                                         .y = r[m].curve_reward};
        series[p][LANGEVIN_METHODS] = (plot_series){
            .kind = PLOT_LEVEL, .label = "optimum", .colour = PLOT_PURPLE, .dash = PLOT_DASHED, .n = 1, .y = &optimum};
    }
    plot_lattice heat = {.nx = LANGEVIN_SIDE,
                         .ny = LANGEVIN_SIDE,
                         .x_min = -LANGEVIN_BOX,
                         .x_max = LANGEVIN_BOX,
                         .y_min = -LANGEVIN_BOX,
                         .y_max = LANGEVIN_BOX,
                         .z = reward};
    plot_lattice start = heat;
    start.z = density;
    plot_panel panel[PANELS] = {
        {.x_label = "iteration", .y_label = "mean reward", .series = series[0], .n = CURVES},
        {.x_label = "seconds", .y_label = "mean reward", .log_x = 1, .series = series[1], .n = CURVES},
        {.title = "SOSMC-ULA at the end, over the reward",
         .x_label = "x1",
         .y_label = "x2",
         .equal = 1,
         .series = &dots,
         .n = 1,
         .heat = &heat,
         .shades = PLOT_BLUES,
         .contour = &start,
         .contour_label = "density at the start",
         .contour_colour = PLOT_BLACK}};
    plot_figure f = {.name = "single_run", .panel = panel, .panels = PANELS, .columns = 2, .width = 470, .height = 330};
    return experiment_figure(
        e->x, NULL, f, "One run of every method on V_sparse with R_hard",
        "One run of every method, V_sparse and R_hard, Adam, beta = 0, seed 0, one thread, one method at a time.");
}

int langevin_single_run(const parts *e)
{
    langevin_result *r = calloc(LANGEVIN_METHODS, sizeof *r);
    double *sample = calloc(PLANE * LANGEVIN_SAMPLE, sizeof *sample);
    int rc = r && sample ? 0 : files_fail(e->error, e->room, "out of memory");
    for (int m = 0; rc == 0 && m < LANGEVIN_METHODS; m++) {
        langevin_run run = {.setting = &e->setting[C],
                            .method = (langevin_method)m,
                            .adam = 1,
                            .particles = e->particles,
                            .reference = e->particles / 2,
                            .iterations = langevin_iterations(e, C),
                            .threads = 1,
                            .sample = m == SOSMC_ULA ? sample : NULL};
        rc = langevin_execute(&run, NAN, &r[m], e->error, e->room);
    }
    page_heading(e->page, "A single run: V_sparse, R_hard, beta = 0");
    if (rc == 0) rc = illustrate(e, r, sample);
    if (rc == 0) {
        experiment_page_table(e->page, "Seed 0", "l method|r reward at the end|r iterations|r µs per iteration");
        for (int m = 0; m < LANGEVIN_METHODS; m++)
            experiment_row(e->page, NULL, "%s|%.5f|%d|%.1f", langevin_method_names[m], r[m].reward, r[m].iterations,
                           1e6 * r[m].seconds / r[m].iterations);
        page_table_end(e->page);
        const langevin_result *ula = &r[SOSMC_ULA];
        page_paragraph(
            e->page,
            "Weights softmax(theta) at the end of SOSMC-ULA: %.4f, %.4f, %.4f, %.4f, %.4f, %.4f, where the "
            "reward asks for the first mode alone; %.1f%% of the cloud lies in the half-plane that is rewarded.",
            ula->weight[0], ula->weight[1], ula->weight[2], ula->weight[3], ula->weight[4], ula->weight[5],
            100 * ula->right);
    }
    free(sample);
    free(r);
    return rc;
}
