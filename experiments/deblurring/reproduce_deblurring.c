/* reproduce_deblurring.c: the paper's fourth experiment: a blurred photograph sharpened by MYPGD and by SOSMC-MYULA, which learn the
 * strength of a total-variation prior as they go.
 *
 *     OUT/cells/...                  one folder per run
 *     OUT/report.html, OUT/figures, OUT/table.csv, OUT/summary.json
 *
 * Runs are made in parallel; the same command continues after Ctrl-C or worse. */
#include <stdio.h>
#include <stdlib.h>

#include "deblurring_page.h"
#include "common/experiment.h"
#include "terminal/say.h"
#include "files/share.h"

enum { SENTENCE = 1024 };

typedef struct {
    const reproduce_options *o;
    deblurring_plan plan;
    deblurring_results results;
    char out[FILES_PATH], data[FILES_PATH];
    int threads;
} study;

static void announce(const study *s, const char *what)
{
    if (!s->o->quiet) (void)fprintf(stderr, "%s\n", what);
}

/* A folder that was named must have a photograph; a guitar that it has not is the one that comes with the program. */
static int find_data(study *s)
{
    if (!s->plan.scale.guitar) return SOSMC_EXIT_OK;
    const char *dir = s->o->data;
    char path[FILES_PATH];
    if (dir && deblurring_find_photograph(dir, DEBLURRING_GUITAR, path)) s->plan.data = dir;
    if (dir && deblurring_find_photograph(dir, DEBLURRING_FLOWER, path)) s->plan.flower = dir;
    if (dir && !s->plan.data && !s->plan.flower)
        return complain(SOSMC_EXIT_IO,
                        "--data is %s, where neither guitar_292x119.f64 nor flower_292x150.f64, nor guitar or "
                        "flower as .png, .jpg or .jpeg, can be read; expected the folder of one",
                        dir);
    if (s->plan.data) return SOSMC_EXIT_OK;
    if (share_find("deblurring", "guitar_292x119.f64", s->data) == 0)
        s->plan.data = s->data;
    else
        announce(s,
                 "guitar_292x119.f64, which comes with the program, was not found: setups A and C are skipped (--data "
                 "DIR names its folder, or SOSMC_SHARE the folder above deblurring)");
    return SOSMC_EXIT_OK;
}

static int set_up(study *s, const deblurring_scale *scale)
{
    char error[SENTENCE];
    s->threads = experiment_threads(s->o->threads);
    s->plan.scale = *scale;
    s->plan.seed = s->o->seed;
    if (s->o->seeds > 0) s->plan.scale.seeds = s->o->seeds;
    int code = find_data(s);
    if (code != SOSMC_EXIT_OK) return code;
    if (deblurring_plan_cells(&s->plan, error, sizeof error) ||
        known_open(&s->plan.known, "deblurring", error, sizeof error))
        return complain(SOSMC_EXIT_IO, "%s", error);
    code = experiment_folder(s->o->out, s->out);
    if (code != SOSMC_EXIT_OK) return code;
    s->plan.out = s->out;
    s->plan.threads = s->threads > s->plan.cells ? s->threads / s->plan.cells : 1;
    s->results.plan = &s->plan;
    return SOSMC_EXIT_OK;
}

static int one_cell(void *context, int cell, char *error, size_t room)
{
    deblurring_plan *plan = context;
    return deblurring_cell_run(plan, &plan->cell[cell], error, room);
}

static int read_cell(void *context, int cell, char *error, size_t room)
{
    deblurring_plan *plan = context;
    return deblurring_cell_read(plan, &plan->cell[cell], error, room);
}

static int run_cells(study *s)
{
    const grid cells = {.out = s->out, .cells = s->plan.cells, .run = one_cell, .read = read_cell, .context = &s->plan};
    if (!s->o->quiet)
        (void)fprintf(stderr, "%d runs of %d iterations, %d at a time\n", s->plan.cells, s->plan.scale.iterations,
                      s->threads < s->plan.cells ? s->threads : s->plan.cells);
    return experiment_run_grid(&cells, s->threads, s->o->quiet);
}

static int tell(study *s)
{
    char error[SENTENCE];
    deblurring_judge(&s->plan, s->results.claim);
    if (!s->o->quiet) deblurring_print(&s->results, stdout);
    if (deblurring_write_tables(&s->results, error, sizeof error) ||
        deblurring_write_page(&s->results, error, sizeof error))
        return experiment_failed(SOSMC_EXIT_IO, error);
    if (!s->o->quiet) (void)printf("\ntable.csv, summary.json, figures and report.html are in %s\n", s->out);
    return SOSMC_EXIT_OK;
}

int reproduce_deblurring_scaled(const reproduce_options *options, const deblurring_scale *scale)
{
    study *s = calloc(1, sizeof *s);
    if (!s) return complain(SOSMC_EXIT_NUMERIC, "out of memory");
    s->o = options;
    int code = set_up(s, scale);
    if (code == SOSMC_EXIT_OK) code = run_cells(s);
    if (code == SOSMC_EXIT_OK) code = tell(s);
    deblurring_plan_free(&s->plan);
    free(s);
    return code;
}

int reproduce_deblurring(const reproduce_options *options)
{
    deblurring_scale scale = options->quick  ? deblurring_scale_quick()
                             : options->full ? deblurring_scale_full()
                                             : deblurring_scale_default();
    int code = experiment_check_sizes(options, "deblurring");
    return code == SOSMC_EXIT_OK ? reproduce_deblurring_scaled(options, &scale) : code;
}
