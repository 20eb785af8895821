/* check.c: prints what the library's checks of a problem found (sosmc_check), a line each. */
#include "check.h"

#include <sosmc/analysis.h>

#include "run/curvature.h"
#include "job/problem.h"
#include "terminal/say.h"

enum { SENTENCE = 1024 };

static void print_item(const job *j, const sosmc_check_report *report, const sosmc_check_item *item, FILE *out)
{
    static const char *const verdict[] = {[SOSMC_CHECK_OK] = "ok  ",
                                          [SOSMC_CHECK_FAIL] = "FAIL",
                                          [SOSMC_CHECK_SKIP] = "skip",
                                          [SOSMC_CHECK_NOTE] = "note",
                                          [SOSMC_CHECK_WARN] = "warn"};
    char sentence[SENTENCE];
    int step = item->verdict == SOSMC_CHECK_WARN && /* the sentence is the one with which `run` warns of the step */
               curvature_sentence(j->settings.kernel.h, &report->step, sentence, sizeof sentence);
    fprintf(out, "%s  %s: %s\n", verdict[item->verdict], item->name, step ? sentence : item->sentence);
}

int check_job(const config *c, FILE *out)
{
    char error[SENTENCE];
    int io = 0;
    job j;
    sosmc_check_report report;
    if (job_build(&j, c, &io, error, sizeof error)) {
        job_free(&j);
        return complain(io ? SOSMC_EXIT_IO : SOSMC_EXIT_USAGE, "%s", error);
    }
    int64_t few = j.iterations < 20 ? j.iterations : 20;
    sosmc_check_options options = {.iterations = few ? few : -1, .threads = 1};
    (void)sosmc_check(&j.problem, &j.settings, &options, &report);
    for (int i = 0; i < report.count; i++) print_item(&j, &report, &report.item[i], out);
    job_free(&j);
    if (report.failed)
        fprintf(out, "%d of the checks failed\n", report.failed);
    else
        fputs(report.warned ? "no check failed, but see the warning\n" : "all is well\n", out);
    return report.failed ? SOSMC_EXIT_NUMERIC : SOSMC_EXIT_OK;
}
