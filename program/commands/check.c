/* check.c: prints what the library's checks of a problem found (sosmc_check), a line each, and the verdict on a short run. */
#include "check.h"

#include <math.h>
#include <sosmc/analysis.h>
#include <sosmc/judge.h>
#include <string.h>

#include "files/memory.h"
#include "run/curvature.h"
#include "run/need.h"
#include "job/problem.h"
#include "terminal/say.h"

enum { SENTENCE = 1024 };

static void print_item(const job *j, const sosmc_check_report *report, const sosmc_check_item *item, FILE *out)
{
    static const char *const verdict[] = {
        [SOSMC_CHECK_OK] = "ok  ",   [SOSMC_CHECK_FAIL] = "FAIL", [SOSMC_CHECK_SKIP] = "skip",
        [SOSMC_CHECK_NOTE] = "note", [SOSMC_CHECK_WARN] = "warn", [SOSMC_CHECK_UNKNOWN] = "not known"};
    char sentence[SENTENCE];
    int step = item->verdict == SOSMC_CHECK_WARN && /* the sentence is the one with which `run` warns of the step */
               curvature_sentence(j->settings.kernel.h, &report->step, sentence, sizeof sentence);
    fprintf(out, "%s  %s: %s\n", verdict[item->verdict], item->name, step ? sentence : item->sentence);
}

/* Returns how many items say that something is not known or speaks against the run. */
static int print_items(const job *j, const sosmc_check_report *report, FILE *out)
{
    int notes = 0;
    for (int i = 0; i < report->count; i++) {
        const sosmc_check_item *item = &report->item[i];
        print_item(j, report, item, out);
        notes += item->verdict == SOSMC_CHECK_UNKNOWN ||
                 (item->verdict == SOSMC_CHECK_NOTE && strcmp(item->name, "verdict") == 0);
    }
    return notes;
}

/* ---------------------------------------------------------------------------- the verdict on a short run */

enum { SHORT = 256, FEW_PARTICLES = 1000, MANY_NUMBERS = 200 };

static sosmc_status judge_short_run(const job *j, int64_t iterations, sosmc_judgement *out, char *message, size_t room)
{
    sosmc *s = NULL;
    sosmc_settings cfg = j->settings;
    sosmc_judge_options options = {.rows = job_rows(j), .why_no_log_z = job_why_no_log_z(j)};
    if (cfg.scheme.particles > FEW_PARTICLES) {
        if (cfg.scheme.pool == cfg.scheme.particles) cfg.scheme.pool = FEW_PARTICLES;
        cfg.scheme.particles = FEW_PARTICLES;
    }
    if (!(cfg.judge > 0)) cfg.judge = sosmc_defaults().judge;
    *out = (sosmc_judgement){.dim_theta = 0};
    sosmc_status status = sosmc_create(&s, &j->problem, &cfg);
    if (status == SOSMC_OK) (void)sosmc_run(s, iterations, NULL, NULL); /* a failed run is judged too */
    if (status == SOSMC_OK) status = sosmc_judge(s, &options, out, message, room);
    sosmc_free(s);
    return status;
}

/* How many lines say that something could not be told or speaks against the run. */
static int print_verdict(const job *j, FILE *out)
{
    char message[SENTENCE] = "";
    sosmc_judgement judged;
    int64_t iterations = j->iterations < SHORT ? j->iterations : SHORT;
    if (!j->problem.objective.scale || iterations == 0 || j->problem.model.dim_theta > MANY_NUMBERS ||
        j->problem.model.dim_x > MANY_NUMBERS) {
        fputs("skip  verdict: a short run of this problem tells nothing about convergence\n", out);
        return 0;
    }
    if (judge_short_run(j, iterations, &judged, message, sizeof message) != SOSMC_OK) {
        fprintf(out, "note  verdict: the short run could not be judged%s%s\n", *message ? ": " : "", message);
        sosmc_judgement_free(&judged);
        return 1;
    }
    const sosmc_verdict_words *v = &judged.verdict;
    if (v->reasons == 0) fprintf(out, "ok    verdict: converged within %lld iterations\n", (long long)iterations);
    for (int i = 0; i < v->reasons; i++)
        fprintf(out, "note  verdict: after %lld of %lld iterations: %s\n", (long long)iterations,
                (long long)j->iterations, v->reason[i]);
    int notes = v->reasons;
    sosmc_judgement_free(&judged);
    return notes;
}

static void conclude(const sosmc_check_report *report, int notes, FILE *out)
{
    if (report->failed)
        fprintf(out, "%d of the checks failed\n", report->failed);
    else if (report->warned)
        fputs("no check failed, but see the warning\n", out);
    else
        fputs(notes ? "no check failed, but see the notes\n" : "all is well\n", out);
}

/* What is to be known of the data; returns how many sentences there are. */
static int print_data(const job *j, FILE *out)
{
    int notes = 0;
    for (const char *note; (note = job_note_at(j, notes)) != NULL; notes++) fprintf(out, "note  data: %s\n", note);
    return notes;
}

/* ---------------------------------------------------------------------------- runs whose settings are automatic */

/* The verdict of tempering with few particles. */
static int print_tempering(const job *j, int *code, FILE *out)
{
    enum { FEW = 256 };
    sosmc_temper_task task = j->temper;
    sosmc_sampler *s;
    sosmc_tempered r;
    if (task.particles > FEW) task.particles = FEW;
    sosmc_status status = sosmc_sampler_create(&s, &task);
    while (status == SOSMC_OK && !sosmc_sampler_state(s)->done) status = sosmc_sampler_step(s);
    if (status != SOSMC_OK) {
        *code = complain(status == SOSMC_EINVAL ? SOSMC_EXIT_USAGE : SOSMC_EXIT_NUMERIC,
                         "objective.type is temper, and %s", sosmc_sampler_message(s));
        sosmc_sampler_free(s);
        return 0;
    }
    sosmc_sampler_result(s, &r);
    if (r.verdict.reasons == 0)
        fprintf(out, "ok    verdict: tempered with %d particles and %.2g evaluations\n", sosmc_sampler_particles(s),
                (double)r.evaluations);
    for (int i = 0; i < r.verdict.reasons; i++)
        fprintf(out, "note  verdict: with %d particles and %.2g evaluations: %s\n", sosmc_sampler_particles(s),
                (double)r.evaluations, r.verdict.reason[i]);
    sosmc_sampler_free(s);
    return r.verdict.reasons;
}

static int check_automatic(const job *j, FILE *out)
{
    int code = SOSMC_EXIT_OK, notes = print_data(j, out);
    sosmc_check_report report;
    const sosmc_status status = j->tempers ? sosmc_check(&j->problem, NULL, NULL, &report)
                                           : sosmc_solve_check(&j->problem, &j->solve, &report);
    if (status == SOSMC_ENOMEM) return complain(SOSMC_EXIT_NUMERIC, "memory ran out while the model was checked");
    const int refused = status == SOSMC_EINVAL;
    report.count -= refused;
    notes += print_items(j, &report, out);
    if (refused) return complain(SOSMC_EXIT_USAGE, "settings is automatic, and %s", report.item[report.count].sentence);
    if (j->tempers && !report.failed) notes += print_tempering(j, &code, out);
    if (code != SOSMC_EXIT_OK) return code;
    conclude(&report, notes, out);
    return report.failed ? SOSMC_EXIT_NUMERIC : SOSMC_EXIT_OK;
}

/* ---------------------------------------------------------------------------- all of it */

/* Whether the run fits into the memory that is free. Where it does not, nothing else is looked at, since that takes memory too. */
static int print_memory(const config *c, const job *j, FILE *out)
{
    char error[SENTENCE], needed[NEED_WORDS], there[MEMORY_NUMBER];
    memory_left left;
    if (need_check(c, j, error, sizeof error) || memory_find("", &left, error, sizeof error)) {
        fprintf(out, "FAIL  memory: %s\nthe memory does not suffice, and nothing else was checked\n", error);
        return SOSMC_EXIT_NUMERIC;
    }
    fprintf(out, "ok    memory: the run takes %s", need_words(need_of_run(c, j), needed));
    if (left.bytes < INFINITY) fprintf(out, ", and %s are free%s", memory_number(left.bytes, there), left.why);
    fputc('\n', out);
    return SOSMC_EXIT_OK;
}

int check_job(const config *c, FILE *out)
{
    char error[SENTENCE];
    int io = 0, notes = 0;
    job j;
    sosmc_check_report report;
    if (need_inputs(c, error, sizeof error)) return complain(SOSMC_EXIT_USAGE, "%s", error);
    if (job_build(&j, c, &io, error, sizeof error)) {
        job_free(&j);
        return complain(io ? SOSMC_EXIT_IO : SOSMC_EXIT_USAGE, "%s", error);
    }
    int code = print_memory(c, &j, out), automatic = j.automatic || j.tempers;
    if (code == SOSMC_EXIT_OK && automatic) code = check_automatic(&j, out);
    if (code != SOSMC_EXIT_OK || automatic) {
        job_free(&j);
        return code;
    }
    notes = print_data(&j, out);
    int64_t few = j.iterations < 20 ? j.iterations : 20;
    sosmc_check_options options = {.iterations = few ? few : -1, .threads = 1};
    (void)sosmc_check(&j.problem, &j.settings, &options, &report);
    notes += print_items(&j, &report, out);
    if (!report.failed) notes += print_verdict(&j, out);
    job_free(&j);
    conclude(&report, notes, out);
    return report.failed ? SOSMC_EXIT_NUMERIC : SOSMC_EXIT_OK;
}
