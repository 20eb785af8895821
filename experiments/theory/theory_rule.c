/* theory_rule.c: the multiplicative rule of Remark 4, which adapts a step by the effective sample size.
 *
 * The weight of an invariant kernel is U_{k-1}(x) - U_k(x) at the particle before the move. It does not contain the step of
 * the kernel, so the ESS cannot tell the rule anything about this step. Invariant: a run whose step ends elsewhere than the
 * table below says is a fault of our statement, not a result. */
#include <math.h>

#include "common/experiment.h"
#include "terminal/interrupt.h"
#include "terminal/say.h"
#include "theory.h"
#include "theory_gauss.h"

enum { RULES = 9, SHOWN = 6, STEPS = 600, KERNELS = 4, TRIED = 5, PARTICLES = 1000, CLOUD = 20000 };
static const double speed = 0.5; /* gamma |g|: one move of theta leaves exp(-1/4) = 0.78 of the particles */
static const double least = 1e-4, most = 1e4;

typedef enum { ENDS_HIGH, ENDS_LOW, ENDS_INSIDE } ending;
typedef struct {
    const char *kernel_name, *scene, *what;
    sosmc_kernel (*kernel)(double h);
    double start, threshold;
    int target, signal;
    int rest; /* theta moves once and then stays, and there is no resampling; otherwise theta moves at constant speed and every iteration
 * resamples */
    ending ends;
} rule;

static sosmc_kernel hmc_of(double h) { return sosmc_hmc(h, 3, 1); }

#define BY_ESS "kernel step by ESS"
#define BY_ACCEPT "kernel step by acceptance"
/* The first SHOWN of them are drawn. */
static const rule rules[RULES] = {
    {"MALA", "rests", BY_ESS, sosmc_mala, 0.1, 0.5, SOSMC_ADAPT_STEP, SOSMC_SIGNAL_ESS, 1, ENDS_HIGH},
    {"MALA", "rests", BY_ESS, sosmc_mala, 0.1, 0.9, SOSMC_ADAPT_STEP, SOSMC_SIGNAL_ESS, 1, ENDS_LOW},
    {"MALA", "moves", BY_ESS, sosmc_mala, 0.1, 0.5, SOSMC_ADAPT_STEP, SOSMC_SIGNAL_ESS, 0, ENDS_HIGH},
    {"ULA", "moves", BY_ESS, sosmc_ula, 0.1, 0.5, SOSMC_ADAPT_STEP, SOSMC_SIGNAL_ESS, 0, ENDS_INSIDE},
    {"MALA", "moves", BY_ACCEPT, sosmc_mala, 0.1, 0.7, SOSMC_ADAPT_STEP, SOSMC_SIGNAL_ACCEPT, 0, ENDS_INSIDE},
    {"MALA", "moves", "step of θ by ESS", sosmc_mala, 1, 0.5, SOSMC_ADAPT_RATE, SOSMC_SIGNAL_ESS, 0, ENDS_INSIDE},
    {"RWM", "rests", BY_ESS, sosmc_rwm, 0.1, 0.9, SOSMC_ADAPT_STEP, SOSMC_SIGNAL_ESS, 1, ENDS_LOW},
    {"HMC", "rests", BY_ESS, hmc_of, 0.1, 0.5, SOSMC_ADAPT_STEP, SOSMC_SIGNAL_ESS, 1, ENDS_HIGH},
    {"MALA", "moves", BY_ESS, sosmc_mala, 0.1, 0.9, SOSMC_ADAPT_STEP, SOSMC_SIGNAL_ESS, 0, ENDS_INSIDE}};
enum { HIGH = 0, LOW = 1, DEAD = 2, ULA_STEP = 3, RATE = 5, COLLAPSED = 8 };

typedef struct {
    double k[STEPS], value[STEPS], ess[STEPS], accept[STEPS];
    double sd; /* of the cloud at the end */
    int target, n;
} rule_trace;

static int note(void *ctx, const sosmc *engine, const sosmc_info *info)
{
    rule_trace *t = ctx;
    t->k[t->n] = (double)info->iteration;
    t->value[t->n] = t->target == SOSMC_ADAPT_RATE ? info->rate : info->h;
    t->ess[t->n] = info->ess / PARTICLES;
    t->accept[t->n++] = info->accept;
    return interrupt_requested();
}

/* The mean over the last quarter. */
static double late(const double *value, int n)
{
    const int from = n - n / 4;
    double sum = 0;
    for (int i = from; i < n; i++) sum += value[i];
    return sum / (n - from);
}

/* Measures the ESS after one move for kernel steps over four orders of magnitude. */
static int same_ess(const theory_options *o, theory_statement *s, const theory_moving *m, double gamma)
{
    static const double step[TRIED] = {1e-4, 1e-2, 0.1, 0.5, 1};
    static const struct {
        const char *name;
        sosmc_kernel (*make)(double h);
    } kernel[KERNELS] = {{"MALA", sosmc_mala}, {"RWM", sosmc_rwm}, {"HMC", hmc_of}, {"ULA", sosmc_ula}};
    theory_table *t = &s->second;
    *t = (theory_table){
        .align = "lrrrrr",
        .caption =
            "ESS/N after one move of θ (0.7788 by the formula) and one move of the particles with the kernel step h.",
        .head = {"kernel", "h = 0.0001", "0.01", "0.1", "0.5", "1"}};
    for (int k = 0; k < KERNELS; k++) {
        double ess[TRIED], low = INFINITY, high = 0;
        for (int i = 0; i < TRIED; i++) {
            sosmc_settings c = theory_moving_settings(m, kernel[k].make(step[i]), CLOUD, gamma, o->seed);
            sosmc_info last;
            int code = theory_moving_run(s, m, &c, 2, NULL, NULL, &last, NULL);
            if (code != SOSMC_EXIT_OK) return code;
            ess[i] = last.ess / CLOUD;
            low = fmin(low, ess[i]);
            high = fmax(high, ess[i]);
        }
        theory_row(t, "%s|%.8f|%.8f|%.8f|%.8f|%.8f", kernel[k].name, ess[0], ess[1], ess[2], ess[3], ess[4]);
        if (k < KERNELS - 1 && low != high)
            theory_fault(s, "the ESS of %s depends on its step: %.8f to %.8f", kernel[k].name, low, high);
        if (k == KERNELS - 1)
            theory_control(s, high - low > 0.05,
                           "the same with ULA, whose weight has the step in it: ESS/N from %.3f to %.3f", low, high);
    }
    return SOSMC_EXIT_OK;
}

static void rule_figure(theory_statement *s, const rule_trace *trace)
{
    static const int colours[SHOWN] = {PLOT_BLUE, PLOT_SKY, PLOT_PURPLE, PLOT_BLACK, PLOT_GREEN, PLOT_VERMILION};
    static const plot_dash dashes[SHOWN] = {PLOT_SOLID, PLOT_SOLID, PLOT_DASHED, PLOT_SOLID, PLOT_SOLID, PLOT_SOLID};
    plot_series *step = arena_take(&s->memory, SHOWN, sizeof *step), *ess = arena_take(&s->memory, SHOWN, sizeof *ess);
    plot_panel *panel = arena_take(&s->memory, 2, sizeof *panel);
    if (!step || !ess || !panel) return;
    for (int r = 0; r < SHOWN; r++) {
        const char *label = arena_words(&s->memory, "%s, τ = %.1f, θ %s: %s", rules[r].kernel_name, rules[r].threshold,
                                        rules[r].scene, rules[r].what);
        step[r] = ess[r] = (plot_series){
            .label = label, .colour = colours[r], .dash = dashes[r], .n = STEPS, .x = trace[r].k};
        step[r].y = trace[r].value;
        ess[r].y = trace[r].ess;
        ess[r].width = 1;
    }
    panel[0] = (plot_panel){
        .x_label = "iteration", .y_label = "what the rule adapts", .log_y = 1, .series = step, .n = SHOWN};
    panel[1] = (plot_panel){.x_label = "iteration", .y_label = "ESS/N", .series = ess, .n = SHOWN, .y_max = 1.02};
    s->figure = (plot_figure){.panel = panel, .panels = 2};
    s->figure_caption =
        "Invariant kernels whose step is steered by the ESS leave for a bound of the rule (0.0001, 10000); "
        "ULA's step, a step steered by the acceptance and the step of θ itself settle.";
}

static int run_rules(const theory_options *o, theory_statement *s, const theory_moving *m, double gamma,
                     rule_trace *trace)
{
    for (int r = 0; r < RULES; r++) {
        const rule *u = &rules[r];
        sosmc_settings c = theory_moving_settings(m, u->kernel(u->start), PARTICLES, gamma, o->seed + 7);
        c.scheme.ess_min = u->rest ? 0 : 2;
        if (u->rest) c.schedule = (sosmc_schedule){.kind = SOSMC_SCHEDULE_EXPONENTIAL, .a = 0.02};
        c.adapt[0] = (sosmc_adapt){.threshold = u->threshold,
                                   .factor = 1.05,
                                   .min = least,
                                   .max = most,
                                   .signal = u->signal,
                                   .target = u->target};
        trace[r].target = u->target;
        int code = theory_moving_run(s, m, &c, STEPS, note, &trace[r], NULL, &trace[r].sd);
        if (code != SOSMC_EXIT_OK) return code;
    }
    return SOSMC_EXIT_OK;
}

static ending ending_of(const rule_trace *t)
{
    double last = t->value[STEPS - 1];
    return last >= most / 1.1 ? ENDS_HIGH : last <= least * 1.1 ? ENDS_LOW : ENDS_INSIDE;
}

static void rule_rows(theory_statement *s, const rule_trace *trace, double settled)
{
    static const char *const words[] = {"at the upper bound", "at the lower bound", "inside"};
    for (int r = 0; r < RULES; r++) {
        const rule *u = &rules[r];
        ending end = ending_of(&trace[r]);
        char accept[32];
        theory_marked_row(&s->table, end == ENDS_INSIDE ? PAGE_PLAIN : PAGE_WARN, "%s|%s|%.1f|%s|%.4g|%.3f|%s|%.2f|%s",
                          u->kernel_name, u->scene, u->threshold, u->what, late(trace[r].value, STEPS),
                          late(trace[r].ess, STEPS),
                          experiment_decimals(u->kernel == sosmc_ula ? NAN : late(trace[r].accept, STEPS), 3, accept),
                          trace[r].sd, words[end]);
        if (end != u->ends)
            theory_fault(s, "%s, theta %s, threshold %.1f, %s: the step ends %s, with %g", u->kernel_name, u->scene,
                         u->threshold, u->what, words[end], trace[r].value[STEPS - 1]);
    }
    if (!(fabs(late(trace[RATE].value, STEPS) / settled - 1) < 0.15))
        theory_fault(s, "the step of theta settles at %.3f, not at %.3f", late(trace[RATE].value, STEPS), settled);
}

static void rule_table(theory_statement *s, const rule_trace *trace, double settled)
{
    theory_table *t = &s->table;
    *t = (theory_table){
        .align = "llrlrrrrl",
        .caption =
            "Means over the last quarter of 600 iterations. θ rests: it moves once, nothing is resampled. θ moves: at "
            "constant speed, resampled always. sd: of the cloud at the end, 1 for the law itself.",
        .head = {"kernel", "θ", "τ", "the rule adapts", "value", "ESS/N", "acceptance", "sd", "ends"}};
    rule_rows(s, trace, settled);
}

static void judge_rule(theory_statement *s, const rule_trace *t, double settled)
{
    claim_decide(
        &s->claim, 1, 0,
        "true of the step of θ (settles at %.2f; √(−log τ)/|g| = %.2f) and of ULA's (%.2f). The ESS of an invariant "
        "kernel does not depend on its step, not in one bit: with θ at rest the step runs to its bounds (%.0f at τ = "
        "0.5, %.4f at 0.9). With θ moving the only feedback is the cloud's decay: at step %.0f nothing is accepted, the "
        "cloud is one point and ESS/N reads %.2f; at τ = 0.9 the step ends at %.3f with a cloud of sd %.2f. Steer such "
        "steps by the acceptance",
        late(t[RATE].value, STEPS), settled, late(t[ULA_STEP].value, STEPS), late(t[HIGH].value, STEPS),
        late(t[LOW].value, STEPS), late(t[DEAD].value, STEPS), late(t[DEAD].ess, STEPS),
        late(t[COLLAPSED].value, STEPS), t[COLLAPSED].sd);
}

int theory_remark4(const theory_options *o, theory_statement *s)
{
    theory_moving m;
    rule_trace *trace = arena_take(&s->memory, RULES, sizeof *trace);
    s->title = "The multiplicative rule for the step (Remark 4)";
    s->says =
        "γ_k = c γ_{k−1} when ESS > τN and γ_{k−1}/c when ESS < τN keeps the discrepancy stable. In section 4 γ is the "
        "step of θ; in the experiments the rule adapts the step of the kernel, for MALA and RWM too.";
    s->how =
        "A Gaussian in the plane; one move of its mean leaves ESS/N = 0.7788. c = 1.05, and the step is held between 0.0001 and "
        "10000. The weight of an invariant kernel is U_{k−1}(x) − U_k(x) at the old particle: the ESS of the first move must "
        "have the same bits for every step of the kernel.";
    if (!trace || theory_moving_make(&s->memory, &m, 2, 0)) return theory_fail(s, SOSMC_EXIT_NUMERIC, "out of memory");
    const double norm = sqrt(theory_gauss_norm2(&m.law, m.gradient)), settled = sqrt(-log(0.5)) / norm;
    int code = run_rules(o, s, &m, speed / norm, trace);
    if (code == SOSMC_EXIT_OK) code = same_ess(o, s, &m, speed / norm);
    if (code == SOSMC_EXIT_OK) {
        rule_table(s, trace, settled);
        rule_figure(s, trace);
        judge_rule(s, trace, settled);
    }
    return code;
}
