/* closing.c: see closing.h. */
#include "closing.h"

#include <math.h>
#include <string.h>

#include "files/files.h"
#include "files/words.h"

enum { SHOWN = 10 /* parameters */, SENTENCE = 1024 };

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
    if (t->from != TOLD_JUDGED) fprintf(out, " (%s)", told_words[t->from]);
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
        if (j->theta_mc_error && isfinite(j->theta_mc_error[k]))
            fprintf(out, ", Monte Carlo error %.2g", j->theta_mc_error[k]);
        if (j->theta_standard_error) fprintf(out, ", standard error %.3g", j->theta_standard_error[k]);
        if (o->low) fprintf(out, ", 95 %% from %.5g to %.5g", o->low[k], o->high[k]);
        fputc('\n', out);
    }
    if (o->dim_theta > SHOWN) fprintf(out, "... %d more in summary.json\n", o->dim_theta - SHOWN);
    if (!j->theta_mc_error) fprintf(out, "theta has no Monte Carlo error, because %s\n", j->why_no_mc_error);
    if (o->likelihood && !j->theta_standard_error)
        fprintf(out, "theta has no standard error, because %s\n", j->why_no_standard_error);
}

/* What the reward and the divergence allow at best, beside which a tuned model stands. */
static void print_best(const outcome *o, FILE *out)
{
    if (!o->best_loss.exists || isnan(o->best_loss.value)) return;
    fputs("the best loss of all densities is", out);
    print_number(out, o->best_loss.value, o->best_loss.error);
    fputs(", with reward", out);
    print_number(out, o->best_reward.value, o->best_reward.error);
    fputs(" and KL", out);
    print_number(out, o->best_kl.value, o->best_kl.error);
    int alike = o->best_loss.from == o->best_reward.from && o->best_loss.from == o->best_kl.from;
    fprintf(out, alike && o->best_loss.from != TOLD_JUDGED ? " (%s)\n" : "\n", told_words[o->best_loss.from]);
    print_value(out, "this loss is above it by", &o->excess, 1);
}

/* Models that are fitted to points: their mean log-density there, in place of the loss, which is minus the first. */
static void print_likelihoods(const outcome *o, FILE *out)
{
    char name[80];
    (void)snprintf(name, sizeof name, "log-likelihood of the %lld points, mean", (long long)o->fitted_rows);
    print_value(out, name, &o->log_likelihood, 1);
    (void)snprintf(name, sizeof name, "log-likelihood of held-out points, mean");
    if (o->held_out_rows > 0)
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
    print_value(out, "reward", &o->reward, 1);
    print_value(out, "KL", &o->kl, 1);
    print_best(o, out);
    if (!o->optimises) print_value(out, "log Z", &o->log_z, 1);
    print_value(out, "before it was tilted, the model has the reward", &o->model_reward, 1);
    print_value(out, "... and log Z", &o->model_log_z, 1);
    if (*o->units) fprintf(out, "%s\n", o->units);
    if (o->tempers && o->iterations > 0) {
        fprintf(out, "ESS %.0f at the last temperature", o->temper.ess);
        if (!isnan(o->temper.accept)) fprintf(out, ", acceptance %.2g", o->temper.accept);
        fputc('\n', out);
        return;
    }
    if (o->weighted && o->iterations > 0) {
        double ess = o->automatic ? o->solve.ess : o->last.ess,
               accept = o->automatic ? o->solve.accept : o->last.accept;
        fprintf(out, "ESS %.0f of %d in the last %s", ess, o->particles, o->automatic ? "step" : "iteration");
        if (o->accepts && !isnan(accept)) fprintf(out, ", acceptance %.2g", accept);
        fputc('\n', out);
    }
}

static void print_limit(const run_result *r, FILE *out)
{
    int budget = strcmp(r->limit, "budget") == 0;
    fprintf(out, "; ended by %s%s", budget ? "--" : "limits.", budget ? "budget-seconds" : r->limit);
    if (!r->outcome.tempers) fprintf(out, " in the phase %s", sosmc_phase_name((sosmc_phase)r->outcome.solve.phase));
    fprintf(out, ", --resume%s goes on", budget ? "" : " with a larger limit");
}

static void print_work(const run_result *r, FILE *out)
{
    const sosmc_solve_info *info = &r->outcome.solve;
    if (!r->automatic) {
        fprintf(out, "%lld iterations in %.2f s\n", (long long)r->iterations, r->seconds);
        return;
    }
    if (r->outcome.tempers)
        fprintf(out, "%lld temperatures, %.3g evaluations in %.2f s", (long long)r->iterations,
                (double)r->outcome.temper.evaluations, r->seconds);
    else
        fprintf(out, "%lld steps, %lld updates of theta, %.3g evaluations in %.2f s", (long long)r->iterations,
                (long long)info->updates, (double)info->evaluations, r->seconds);
    if (r->limit) print_limit(r, out);
    fputc('\n', out);
}

static void print_verdict(const outcome *o, FILE *out)
{
    static const char *const words[] = {
        [SOSMC_CONVERGED] = "converged", [SOSMC_NOT_CONVERGED] = "not converged", [SOSMC_RUN_FAILED] = "failed"};
    fprintf(out, "verdict: %s\n",
            o->not_judged ? "none, because the run was not judged (judge: none)" : words[o->judged.verdict.status]);
}

void closing_write(const run_result *r, const char *name, FILE *out)
{
    const outcome *o = &r->outcome;
    char dir[FILES_PATH];
    (void)words_line(name, dir, sizeof dir);
    if (r->complete) {
        fprintf(out, "%s is finished: %lld %s\n", dir, (long long)r->iterations, r->automatic ? "steps" : "iterations");
        return;
    }
    print_work(r, out);
    print_outcome(o, out);
    if (o->network && o->optimises)
        fprintf(out, "the network of %d parameters is stored as %s/model.safetensors\n", o->dim_theta, dir);
    fprintf(out, "results in %s\n", dir);
    print_verdict(o, out);
}

/* Warnings that were said before the first iteration are not said again. */
void closing_against(const run_result *r, void (*say)(void *ctx, const char *sentence), void *ctx)
{
    const outcome *o = &r->outcome;
    const sosmc_verdict_words *v = &o->judged.verdict;
    char sentence[SENTENCE];
    if (r->complete) return;
    for (int i = 0; i < v->reasons && !o->not_judged; i++) say(ctx, v->reason[i]);
    for (int i = o->told_before; i < o->warnings; i++) {
        (void)snprintf(sentence, sizeof sentence, "warning: %s", o->warning[i]);
        say(ctx, sentence);
    }
}
