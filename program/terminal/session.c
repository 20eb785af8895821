/* session.c: a run at a terminal. The run library does the work; here are its hooks, the report, and the closing lines. */
#include "session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/files.h"
#include "interrupt.h"
#include "report/run_report.h"
#include "progress.h"
#include "run/run.h"
#include "say.h"

enum { SHOWN = 10 /* parameters */, SENTENCE = 1024 };

typedef struct {
    const session_options *options;
    progress bar;
    int begun;
    run_result result;
} session;

/* ---------------------------------------------------------------------------- hooks */

static int stop(void *ctx)
{
    (void)ctx;
    return interrupt_requested() != 0;
}

static int saves(void *ctx)
{
    (void)ctx;
    return interrupt_saves();
}

static void show(void *ctx, const run_progress *p)
{
    session *s = ctx;
    if (!s->begun) progress_begin(&s->bar, s->options->quiet, p->done);
    if (s->begun && p->solve)
        progress_solve(&s->bar, p->solve, p->theta, p->dim_theta);
    else if (s->begun)
        progress_info(&s->bar, p->done, p->total, p->info, p->strength, p->weighted);
    s->begun = 1;
}

static void say(void *ctx, const char *sentence)
{
    const session *s = ctx;
    int warning = strncmp(sentence, "warning: ", strlen("warning: ")) == 0;
    if (!warning || !s->options->experiment) (void)complain(0, "%s", sentence);
}

/* ---------------------------------------------------------------------------- the closing lines */

/* "VALUE +- ERROR"; the error only where it is large enough to change the printed digits of the value. */
static void print_number(FILE *out, double value, double error)
{
    fprintf(out, " %.6g", value);
    if (error > 1e-6 * fabs(value)) fprintf(out, " +- %.2g", error);
}

/* What has no value is explained; what the objective does not have is not mentioned. */
static void print_value(FILE *out, const char *name, const told *t, int sign)
{
    if (!t->exists) return;
    fputs(name, out);
    if (isnan(t->value)) {
        fprintf(out, ": no number, because %s\n", t->why);
        return;
    }
    print_number(out, sign * t->value, t->error);
    if (t->exact) fputs(" (exact)", out);
    if (*t->why) fprintf(out, " (no error, because %s)", t->why);
    fputc('\n', out);
}

/* A line for each of the first numbers of theta: estimate, Monte Carlo error, standard error, interval. */
static void print_theta(const outcome *o, FILE *out)
{
    const sosmc_judgement *j = &o->judged;
    int width = 0;
    for (int k = 0; k < o->dim_theta && k < SHOWN; k++)
        if ((int)strlen(o->name[k]) > width) width = (int)strlen(o->name[k]);
    for (int k = 0; k < o->dim_theta && k < SHOWN; k++) {
        fprintf(out, "%-*s %.6g", width, o->name[k], o->theta[k]);
        if (j->theta_mc_error) fprintf(out, ", Monte Carlo error %.2g", j->theta_mc_error[k]);
        if (j->theta_standard_error) fprintf(out, ", standard error %.3g", j->theta_standard_error[k]);
        if (o->low) fprintf(out, ", 95 %% from %.5g to %.5g", o->low[k], o->high[k]);
        fputc('\n', out);
    }
    if (o->dim_theta > SHOWN) fprintf(out, "... %d more in summary.json\n", o->dim_theta - SHOWN);
    if (!j->theta_mc_error) fprintf(out, "theta has no Monte Carlo error, because %s\n", j->why_no_mc_error);
    if (o->likelihood && !j->theta_standard_error)
        fprintf(out, "theta has no standard error, because %s\n", j->why_no_standard_error);
}

/* Models that are fitted to points: their mean log-density there, in place of the loss, which is minus the first. */
static void print_likelihoods(const outcome *o, FILE *out)
{
    char name[80];
    (void)snprintf(name, sizeof name, "log-likelihood of the %lld points, mean", (long long)o->fitted_rows);
    print_value(out, name, &o->log_likelihood, 1);
    (void)snprintf(name, sizeof name, "log-likelihood of %lld held-out points, mean", (long long)o->held_out_rows);
    print_value(out, name, &o->held_out, 1);
    if (o->held_out.exists && isfinite(o->held_out.value))
        fprintf(out, "  as a sample of further points: +- %.2g\n", o->held_out_spread);
}

static void print_outcome(const outcome *o, FILE *out)
{
    fprintf(out, "%s, %s, by %s\n", o->model, o->objective, o->method);
    if (o->optimises && !o->network) print_theta(o, out);
    print_likelihoods(o, out);
    if (!o->log_likelihood.exists) print_value(out, o->mmle ? "log-likelihood" : "loss", &o->loss, o->mmle ? -1 : 1);
    print_value(out, "the best loss of all densities is", &o->best_loss, 1);
    print_value(out, "reward", &o->reward, 1);
    print_value(out, "KL", &o->kl, 1);
    if (!o->optimises) print_value(out, "log Z", &o->log_z, 1);
    if (o->weighted && o->iterations > 0) {
        double ess = o->automatic ? o->solve.ess : o->last.ess,
               accept = o->automatic ? o->solve.accept : o->last.accept;
        fprintf(out, "ESS %.0f of %d in the last %s", ess, o->particles, o->automatic ? "step" : "iteration");
        if (o->accepts && !isnan(accept)) fprintf(out, ", acceptance %.2g", accept);
        fputc('\n', out);
    }
}

/* The warning about the step was printed before the first iteration. */
static int said_before(const outcome *o, int i) { return i == 0 && strncmp(o->warning[0], "kernel.step is ", 15) == 0; }

/* The verdict is printed last, where it is noticed. What speaks against the result goes to standard error, also when quiet; that
 * nothing was judged is no news to who asked for it. */
static void tell_verdict(const session *s)
{
    const outcome *o = &s->result.outcome;
    const sosmc_verdict_words *v = &o->judged.verdict;
    static const char *const words[] = {
        [SOSMC_CONVERGED] = "converged", [SOSMC_NOT_CONVERGED] = "not converged", [SOSMC_RUN_FAILED] = "failed"};
    if (!s->options->quiet) {
        printf("verdict: %s\n",
               o->not_judged ? "none, because the run was not judged (judge: none)" : words[v->status]);
        (void)fflush(stdout);
    }
    if (s->options->experiment) return;
    for (int i = 0; i < v->reasons && !o->not_judged; i++) (void)complain(0, "%s", v->reason[i]);
    for (int i = 0; i < o->warnings; i++)
        if (!said_before(o, i)) (void)complain(0, "warning: %s", o->warning[i]);
}

static void print_work(const run_result *r)
{
    const sosmc_solve_info *info = &r->outcome.solve;
    if (!r->automatic) {
        printf("%lld iterations in %.2f s\n", (long long)r->iterations, r->seconds);
        return;
    }
    printf("%lld steps, %lld updates of theta, %.3g evaluations in %.2f s", (long long)r->iterations,
           (long long)info->updates, (double)info->evaluations, r->seconds);
    if (r->limit)
        printf("; ended by %s%s in the phase %s, --resume%s goes on", strcmp(r->limit, "budget") == 0 ? "" : "limits.",
               strcmp(r->limit, "budget") == 0 ? "--budget-seconds" : r->limit,
               sosmc_phase_name((sosmc_phase)info->phase),
               strcmp(r->limit, "budget") == 0 ? "" : " with a larger limit");
    putchar('\n');
}

static void tell(const session *s)
{
    const outcome *o = &s->result.outcome;
    const char *dir = s->options->out;
    if (!s->options->quiet) {
        print_work(&s->result);
        print_outcome(o, stdout);
        if (o->network && o->optimises)
            printf("the network of %d parameters is stored as %s/model.safetensors\n", o->dim_theta, dir);
        printf("results in %s\n", dir);
    }
    tell_verdict(s);
}

/* ---------------------------------------------------------------------------- the run */

static int exit_code(run_status status)
{
    static const int codes[] = {[RUN_OK] = SOSMC_EXIT_OK,        [RUN_STOPPED] = SOSMC_EXIT_INTERRUPTED,
                                [RUN_EUSAGE] = SOSMC_EXIT_USAGE, [RUN_ENUMERIC] = SOSMC_EXIT_NUMERIC,
                                [RUN_EIO] = SOSMC_EXIT_IO,       [RUN_EBUSY] = SOSMC_EXIT_BUSY};
    return codes[status];
}

static int has_report(const char *dir)
{
    char path[FILES_PATH];
    return files_join(path, dir, "report.html", NULL, 0) == 0 && access(path, F_OK) == 0;
}

static int write_report(const config *c, const char *dir)
{
    char error[SENTENCE];
    if (!config_flag(c, "output.report") || has_report(dir) || run_report(dir, error, sizeof error) == 0)
        return SOSMC_EXIT_OK;
    return complain(interrupt_requested() ? SOSMC_EXIT_INTERRUPTED : SOSMC_EXIT_IO, "%s", error);
}

static int strict_code(const session *s)
{
    if (s->result.verdict == SOSMC_CONVERGED) return SOSMC_EXIT_OK;
    if (s->result.verdict < 0)
        return complain(SOSMC_EXIT_UNTRUSTED, "%s has no verdict; 'sosmc judge %s' gives it one", s->options->out,
                        s->options->out);
    if (!s->result.complete) return SOSMC_EXIT_UNTRUSTED;
    return complain(SOSMC_EXIT_UNTRUSTED, "%s has not converged; its summary.json says why", s->options->out);
}

int session_run(const config *c, const session_options *options)
{
    session *s = calloc(1, sizeof *s);
    if (!s) return complain(SOSMC_EXIT_NUMERIC, "out of memory");
    run_lock lock = {.held = 0}; /* until the report is written */
    s->options = options;
    run_hooks hooks = {.stop = stop, .saves = saves, .progress = show, .say = say, .ctx = s};
    run_options what = {.out = options->out,
                        .resume = options->resume,
                        .overwrite = options->overwrite,
                        .judge = options->judge,
                        .budget_seconds = options->budget_seconds,
                        .accept_changed = options->accept_changed,
                        .unnamed = options->unnamed,
                        .lock = options->lock ? options->lock : &lock,
                        .root = options->root,
                        .photo = options->photo};
    int code = exit_code(run_execute(c, &what, &hooks, &s->result));
    if (s->begun) progress_end(&s->bar);
    if (*s->result.message) (void)complain(0, "%s", s->result.message);
    if (code == SOSMC_EXIT_OK) code = write_report(c, options->out);
    if (code == SOSMC_EXIT_OK && s->result.complete && !options->quiet)
        printf("%s is finished: %lld %s\n", options->out, (long long)s->result.iterations,
               s->result.automatic ? "steps" : "iterations");
    if (code == SOSMC_EXIT_OK && !s->result.complete) tell(s);
    if (code == SOSMC_EXIT_OK && options->strict) code = strict_code(s);
    run_result_free(&s->result);
    lock_give_back(&lock);
    free(s);
    return code;
}
