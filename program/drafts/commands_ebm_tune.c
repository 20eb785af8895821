/* commands_ebm_tune.c: `sosmc tune`: a run file that tunes a stored model towards a reward.
 *
 * Points are tuned by the solver, unless a flag chooses a setting. Otherwise a tuning run takes its initial particles from a run of its
 * own, DIR/start; those of pictures may be moved on in a second one, DIR/purified. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands_ebm_inside.h"
#include "files/files.h"
#include "files/words.h"
#include "terminal/progress.h"
#include "terminal/say.h"
#include "terminal/session.h"
#include "runfile/schema.h"

const char tune_text[] =
    "sosmc tune MODEL --reward R --beta B [options]\n"
    "\n"
    "Tunes a stored network (safetensors or NPZ) towards a reward: E[R] - B KL(tuned || stored) is made large. Points\n"
    "need no setting: the run finds its own, and ends where the loss is near that of the best of all densities or no\n"
    "longer falls.\n"
    "\n"
    "  --reward R            points: lower, upper, left or right (of their mean), or a formula in the units of the data,\n"
    "                        with x1, x2, ... or the names of their columns: 'height > 170'; pictures: bright, dark, half (the lower against the upper), mask,\n"
    "                        network, or a formula such as 'mean - tv'\n"
    "  --beta B              the weight of the divergence\n"
    "  --particles N         default 1024 (1000 for pictures; 4000 for rwm and 10000 for other kernels)\n"
    "  --activation A        what follows the hidden layers of a MODEL that does not say it: silu, softplus or tanh\n"
    "  --scaled              coordinates and densities as the network was fitted, instead of those of the data\n"
    "  --out DIR             the run directory (default: tuned-MODEL-REWARD)\n"
    "Settings of your own; with one of them the others have the values that stand here:\n"
    "  --forward             KL(stored || tuned) instead\n"
    "  --method M            sosmc (default), impdiff or soul\n"
    "  --kernel K            rwm, mala, hmc (led to an acceptance), ula, underdamped or leapfrog (exact weights).\n"
    "                        Default: rwm for points of at most 3 coordinates, which jumps between modes, mala for\n"
    "                        others; ula for pictures, for impdiff and soul, and with --paper\n"
    "  --step H              its step size (default: 0.02 for rwm and mala; 0.005 for ula; 0.003 for pictures)\n"
    "  --noise-scale S       the factor of its noise (default 1)\n"
    "  --iterations K        default 10001 for rwm, 1001 for other kernels (1000 for pictures)\n"
    "  --rate L              the learning rate (default: at most 4e-3 for rwm, 2e-4; 1e-4 for pictures)\n"
    "  --start S             initial particles: smc (default; cooled from a normal law), chains (20000 steps from a\n"
    "                        box; of pictures, the default, see --warm), or a file such as the particles.npz of a run\n"
    "  --paper               the paper's settings: ula from chains, 1001 iterations of 10000 particles, rate 2e-4\n"
    "Pictures have these too:\n"
    "  --network N           the layers of a MODEL that does not describe them: mnist or a description\n"
    "  --warm T              steps of the sampler of 'sosmc sample' that the particles start with (default 1000)\n"
    "  --purify T            steps of unadjusted Langevin behind these, with --step and --noise-scale (default 0)\n"
    "  --mask FILE           a picture for the reward mask, or for mask in a formula: black counts -1, white 1\n"
    "  --reward-network FILE for the reward network: a stored network that judges pictures\n"
    "  --output K            which of its outputs, from 0 (default 0)\n"
    "  --reward-scale S      a factor of the reward (default 1)\n" EBM_COMMON_FLAGS
    "With settings of your own, and for pictures, the initial particles are a run of their own in DIR/start (and with\n"
    "--purify another in DIR/purified), which is made once and continued when it was interrupted; --set is for the\n"
    "tuning alone. Models of points in the plane are then evaluated exactly ten times on the way, those of pictures\n"
    "twenty times by the reward of 64 fresh ones.\n"
    "\n"
    "Example:\n"
    "  sosmc tune circles/model.safetensors --reward lower --beta 0.25 --threads 2\n"
    "  sosmc tune digits/model.safetensors --reward bright --beta 1 --threads 2\n";

/* ---------------------------------------------------------------------------- what the flags default to */

/* Two settings of tuning. tuning_paper is that of the paper; kernels that stay within a mode and the baselines use it too,
 * with particles drawn by tempering unless a flag says otherwise. tuning_default is for the random walk that jumps between
 * modes: ten times the updates at twenty times the rate, because a smooth network needs many updates to form a sharp edge.
 * It clips gradients, because a single large step can leave the cloud with few effective particles. It raises the reward
 * over the first half of the run: the whole reward at once would remove more particles from the unrewarded region than the
 * optimum does, and a region without particles gives no gradient that would bring them back. The rate rises with the
 * reward: while the gradient is mostly noise, Adam makes steps of full size in random directions (docs/ebm2d.md). */
typedef struct {
    int start_particles, particles;
    int64_t iterations;
    double rate, beta2, clip;
    double ramp, warmup;   /* fractions of the iterations */
    double rate_left;      /* the fraction of the rate that is left at the end; 1: the rate is constant */
    double resample_below; /* a fraction of the particles */
    double factor; /* adapt.factor of the step, for kernels that have weights of their own; 1: the step is fixed */
} tuning;
static const struct {
    double ess_level, min_step, max_step; /* the step shrinks where the ESS is below the level, a fraction */
} leading = {0.95, 1e-8, 0.01};
static const tuning tuning_paper = {.start_particles = 10000,
                                    .particles = 10000,
                                    .iterations = 1001,
                                    .rate = 2e-4,
                                    .beta2 = 0.999,
                                    .clip = 1000,
                                    .rate_left = 1,
                                    .resample_below = 0.9,
                                    .factor = 1.01};
static const tuning tuning_default = {.start_particles = 10000,
                                      .particles = 4000,
                                      .iterations = 10001,
                                      .rate = 4e-3,
                                      .beta2 = 0.99,
                                      .clip = 1,
                                      .ramp = 0.5,
                                      .warmup = 0.35,
                                      .rate_left = 0.01,
                                      .resample_below = 0.5,
                                      .factor = 1};

/* Tuning of pictures, as in the paper's sweeps over beta. In those neither the adaptation of the step nor clipping has an
 * effect. */
static const tuning tuning_pictures = {.start_particles = 1000,
                                       .particles = 1000,
                                       .iterations = 1000,
                                       .rate = 1e-4,
                                       .beta2 = 0.999,
                                       .rate_left = 1,
                                       .resample_below = 0.9,
                                       .factor = 1};
static const double picture_step = 3e-3;

/* The random walk jumps across gaps often enough only in at most this many dimensions. */
enum { MOST_TO_JUMP = 3 };

/* ---------------------------------------------------------------------------- the runs it is made of */

/* What a tuning run is made of. */
enum { STARTS = 2 }; /* runs before it: the first particles, and pictures that are moved on */
typedef struct {
    const flag_values *q;
    const tuning *settings;
    const ebm_kernel *kernel;
    const char *method, *start; /* start: smc, chains or a file */
    ebm_subject subject;
    double step;
    int64_t particles, iterations;
    int starts;                                          /* runs before it */
    char out[FILES_PATH], start_dir[STARTS][FILES_PATH]; /* out: of the tuning run; start_dir: of the runs before it */
    char start_file[STARTS][FILES_PATH];                 /* where the runs before it leave their particles */
    char init_file[FILES_PATH];                          /* the particles that the tuning run starts from */
} plan;

/* A fraction of the iterations of the plan, as a whole number. */
static int64_t part_of(const plan *p, double part) { return (int64_t)(part * (double)p->iterations); }

static int starts_itself(const plan *p) { return strcmp(p->start, "smc") == 0 || strcmp(p->start, "chains") == 0; }

/* --paper leaves no choice of what the paper fixes. */
static int check_paper(const flag_values *q)
{
    static const struct {
        ebm_flag f;
        const char *only;
    } fixed[] = {{FLAG_START, "chains"}, {FLAG_KERNEL, "ula"}, {FLAG_METHOD, "sosmc|impdiff"}};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        char expected[64];
        const char *value = q->value[fixed[i].f];
        if (!value || schema_has_word(fixed[i].only, value)) continue;
        schema_join(fixed[i].only, " or ", expected, sizeof expected);
        return complain(-1, "--%s is '%s' beside --paper; expected %s", ebm_flag_name(fixed[i].f), value, expected);
    }
    return flag_given(q, FLAG_FORWARD)
               ? complain(-1, "--forward stands beside --paper; the paper's divergence is the other one")
               : 0;
}

static int check_tune(const flag_values *q)
{
    if (!flag_given(q, FLAG_REWARD) && !flag_given(q, FLAG_MASK) && !flag_given(q, FLAG_REWARD_NETWORK))
        return complain(-1, "tune needs --reward: lower, upper, left, right or a formula; for pictures bright, dark, "
                            "half, mask, network or a formula");
    if (!flag_given(q, FLAG_BETA))
        return complain(-1, "tune needs --beta: the weight of the divergence, a number of at least 0");
    if (strcmp(flag_text(q, FLAG_KERNEL, "ula"), "jitter") == 0)
        return complain(-1, "--kernel is 'jitter', which has no density to weigh with; expected ula, mala, rwm, hmc, "
                            "underdamped or leapfrog");
    return flag_given(q, FLAG_PAPER) ? check_paper(q) : 0;
}

static int check_subject(const flag_values *q, const ebm_subject *s)
{
    if (ebm_of_pictures(s) && flag_given(q, FLAG_PAPER))
        return complain(-1, "--paper is for points; for pictures the paper's settings are the default");
    if (ebm_of_pictures(s) && strcmp(flag_text(q, FLAG_START, "chains"), "smc") == 0)
        return complain(-1, "--start is smc, which is for points; expected chains or a file");
    if (!starts_itself(&(plan){.start = flag_text(q, FLAG_START, "chains")}) &&
        (flag_given(q, FLAG_WARM) || flag_given(q, FLAG_PURIFY)))
        return complain(-1, "--%s stands beside --start %s; it is for particles that are made here",
                        flag_given(q, FLAG_WARM) ? "warm" : "purify", q->value[FLAG_START]);
    return ebm_check_reward(q, s);
}

/* The runs before the tuning, and which particles it takes from them. */
static int plan_starts(plan *p, char *error, size_t room)
{
    static const char *const dirs[STARTS] = {"start", "purified"};
    p->starts = !starts_itself(p) ? 0 : flag_whole(p->q, FLAG_PURIFY, 0) > 0 ? 2 : 1;
    for (int i = 0; i < p->starts; i++)
        if (files_join(p->start_dir[i], p->out, dirs[i], error, room) ||
            files_join(p->start_file[i], p->start_dir[i], "particles.npz", error, room))
            return -1;
    (void)snprintf(p->init_file, sizeof p->init_file, "%s", p->starts ? p->start_file[p->starts - 1] : p->start);
    return 0;
}

static const char *usual_kernel(const plan *p)
{
    if (ebm_of_pictures(&p->subject) || flag_given(p->q, FLAG_PAPER) || strcmp(p->method, "sosmc") != 0) return "ula";
    return p->subject.inputs <= MOST_TO_JUMP ? "rwm" : "mala";
}

static const tuning *usual_settings(const plan *p)
{
    if (ebm_of_pictures(&p->subject)) return &tuning_pictures;
    return strcmp(p->kernel->name, "rwm") == 0 && strcmp(p->method, "sosmc") == 0 ? &tuning_default : &tuning_paper;
}

static const char *usual_start(const plan *p)
{
    return ebm_of_pictures(&p->subject) || flag_given(p->q, FLAG_PAPER) ? "chains" : "smc";
}

static void make_plan(plan *p, const flag_values *q, const ebm_subject *s)
{
    char name[EBM_NAME], made[EBM_NAME + 64];
    *p = (plan){.q = q, .subject = *s, .method = flag_text(q, FLAG_METHOD, "sosmc")};
    p->kernel = ebm_kernel_named(flag_text(q, FLAG_KERNEL, usual_kernel(p)));
    p->settings = usual_settings(p);
    p->start = flag_text(q, FLAG_START, usual_start(p));
    p->step = flag_number(q, FLAG_STEP, ebm_of_pictures(s) ? picture_step : p->kernel->step);
    p->particles = flag_whole(q, FLAG_PARTICLES, p->settings->particles);
    p->iterations = flag_whole(q, FLAG_ITERATIONS, p->settings->iterations);
    ebm_name_of(q->operand, name);
    int plain = strcmp(p->method, "sosmc") == 0;
    (void)snprintf(made, sizeof made, "tuned-%s-%s%s%s%s", name, ebm_reward_name(q, s), plain ? "" : "-",
                   plain ? "" : p->method, flag_given(q, FLAG_FORWARD) ? "-forward" : "");
    (void)snprintf(p->out, sizeof p->out, "%s", flag_text(q, FLAG_OUT, made));
}

/* Pictures are warmed up by the sampler that trained them. */
static int64_t put_first_start(draft *d, const plan *p)
{
    int smc = strcmp(p->start, "smc") == 0;
    if (smc) {
        draft_put(d, "objective: {type: anneal, steps: %d}\n", EBM_COOLING);
        ebm_put_cooling(d);
    } else {
        draft_put(d, "objective: none\n");
        ebm_put_chains(d, ebm_of_pictures(&p->subject));
    }
    const ebm_kernel *k = ebm_kernel_named(smc ? "mala" : ebm_of_pictures(&p->subject) ? "jitter" : "ula");
    ebm_put_kernel(d, k, k->step, NULL);
    return smc                            ? EBM_SMC_STEPS
           : ebm_of_pictures(&p->subject) ? flag_whole(p->q, FLAG_WARM, ebm_jitter.warm)
                                          : EBM_CHAIN_STEPS;
}

/* The second start run moves the pictures of the first by the kernel of the tuning run, at the stored weights. */
static int64_t put_second_start(draft *d, const plan *p)
{
    draft_put(d, "objective: none\ninit: {type: file, file: ");
    draft_put_quoted(d, p->start_file[0]);
    draft_put(d, "}\nscheme: {type: unweighted, order: authors}\n");
    ebm_put_kernel(d, ebm_kernel_named("ula"), p->step, p->q->value[FLAG_NOISE_SCALE]);
    return flag_whole(p->q, FLAG_PURIFY, 0);
}

static config *start_config(const plan *p, int which)
{
    draft d;
    if (draft_open(&d)) return NULL;
    ebm_put_model(&d, p->q);
    int64_t steps = which == 0 ? put_first_start(&d, p) : put_second_start(&d, p);
    int64_t n = p->settings->start_particles > p->particles ? p->settings->start_particles : p->particles;
    /* An explicit --particles also limits the start run. */
    if (flag_given(p->q, FLAG_PARTICLES) && p->particles < n) n = p->particles;
    /* The start run has no report; `sosmc report` writes one on request. */
    ebm_put_ending(&d, p->q, n, steps, steps / 1000, 0);
    return ebm_configure(p->q, &d, 0);
}

/* sosmc and impdiff both take the gradient at the particles before the move, which is at the theta of that gradient. In
 * the same order of operations their moves bear the same names: one seed gives both the same noise. */
static void put_method(draft *d, const plan *p)
{
    const tuning *s = p->settings;
    int weighted = strcmp(p->method, "sosmc") == 0;
    if (weighted)
        draft_put(d, "scheme: {type: sosmc, order: authors}\nresampling: {scheme: systematic, threshold: %.17g}\n",
                  s->resample_below);
    else if (strcmp(p->method, "impdiff") == 0)
        draft_put(d, "scheme: {type: unweighted, order: authors, drift_at: previous}\n");
    else
        draft_put(d, "scheme: soul\n");
    ebm_put_kernel(d, p->kernel, p->step, p->q->value[FLAG_NOISE_SCALE]);
    if (weighted && p->kernel->acceptance == 0 && s->factor > 1)
        draft_put(d, "adapt: {signal: ess, threshold: %.17g, factor: %.17g, min: %.17g, max: %.17g}\n",
                  leading.ess_level, s->factor, leading.min_step, leading.max_step);
}

static void put_optimiser(draft *d, const plan *p)
{
    const tuning *s = p->settings;
    draft_put(d, "optimiser: {type: adam, rate: %.17g, beta2: %.17g, clip: %.17g",
              flag_number(p->q, FLAG_RATE, s->rate), s->beta2, s->clip);
    if (s->rate_left < 1)
        draft_put(d, ", schedule: {type: cosine, a: %" PRId64 ", b: %.17g, warmup: %" PRId64 "}",
                  p->iterations > 1 ? p->iterations - 1 : 1, s->rate_left, part_of(p, s->warmup));
    draft_put(d, "}\n");
}

/* `evaluate` of the run file: on a lattice for points of the plane, by fresh chains for pictures. */
static void put_tuning_evaluation(draft *d, const plan *p)
{
    int64_t often = ebm_of_pictures(&p->subject) ? 20 : 10,
            every = p->iterations / often > 1 ? p->iterations / often : 1;
    if (ebm_of_pictures(&p->subject))
        draft_put(d, "evaluate: {every: %" PRId64 ", sampler: jitter, chains: %d, steps: %d}\n", every,
                  ebm_jitter.chains, ebm_jitter.steps);
    else if (p->subject.inputs == 2)
        draft_put(d, "evaluate: {every: %" PRId64 "}\n", every);
}

static config *tune_config(const plan *p)
{
    draft d;
    const flag_values *q = p->q;
    int forward = flag_given(q, FLAG_FORWARD);
    if (draft_open(&d)) return NULL;
    ebm_put_model(&d, q);
    draft_put(&d, "objective:\n  type: %s\n", forward ? "reward_forward" : "reward_reverse");
    ebm_put_reward(&d, q, &p->subject);
    draft_put(&d, "  beta: %s\n", q->value[FLAG_BETA]);
    if (p->settings->ramp > 0) draft_put(&d, "  ramp: %" PRId64 "\n", part_of(p, p->settings->ramp));
    if (forward) {
        draft_put(&d, "  reference: {file: ");
        draft_put_quoted(&d, p->init_file);
        draft_put(&d, "}\n");
    }
    draft_put(&d, "init: {type: file, exact: %s, file: ", strcmp(p->start, "smc") == 0 ? "true" : "false");
    draft_put_quoted(&d, p->init_file);
    draft_put(&d, "}\n");
    put_method(&d, p);
    put_optimiser(&d, p);
    put_tuning_evaluation(&d, p);
    ebm_put_ending(&d, q, p->particles, p->iterations, 1, 1);
    return ebm_configure(q, &d, 1);
}

/* ---------------------------------------------------------------------------- without settings */

enum { SOLVED_PARTICLES = 1024, MOST_COORDINATES = 200 };
static const double START_SD = 4; /* of points without a base law: those that a network is trained on are some 2 wide */

int ebm_set_chooses(const flag_values *q)
{
    char path[64];
    for (int i = 0; i < q->sets; i++) {
        size_t length = strcspn(q->set[i], "=");
        if (length == strlen("settings") && strncmp(q->set[i], "settings", length) == 0) return 1;
        for (const char *list = schema_chosen; schema_word(&list, path, sizeof path);) {
            size_t n = strlen(path);
            if (strncmp(q->set[i], path, n) == 0 && (n == length || q->set[i][n] == '.')) return 1;
        }
    }
    return 0;
}

static int finds_settings(const plan *p)
{
    static const ebm_flag choosing[] = {FLAG_METHOD,     FLAG_KERNEL, FLAG_STEP,  FLAG_NOISE_SCALE,
                                        FLAG_ITERATIONS, FLAG_RATE,   FLAG_START, FLAG_PAPER,
                                        FLAG_FORWARD,    FLAG_WARM,   FLAG_PURIFY};
    return !ebm_of_pictures(&p->subject) && p->subject.inputs <= MOST_COORDINATES && !ebm_set_chooses(p->q) &&
           flag_number(p->q, FLAG_BETA, 0) > 0 &&
           ebm_stray(p->q, choosing, sizeof choosing / sizeof *choosing) == EBM_FLAGS;
}

static int tune_by_solver(const plan *p)
{
    draft d;
    if (draft_open(&d)) return SOSMC_EXIT_NUMERIC;
    draft_put(&d, "settings: automatic\n");
    ebm_put_model(&d, p->q);
    draft_put(&d, "objective:\n  type: reward_reverse\n");
    ebm_put_reward(&d, p->q, &p->subject);
    draft_put(&d, "  beta: %s\n", p->q->value[FLAG_BETA]);
    if (!p->subject.has_base) draft_put(&d, "init: {type: normal, sd: %.17g}\n", START_SD);
    ebm_put_ending(&d, p->q, flag_whole(p->q, FLAG_PARTICLES, SOLVED_PARTICLES), -1, 1, 1);
    return ebm_print_or_run(p->q, &d, p->out);
}

/* ---------------------------------------------------------------------------- printing and running */

/* --print writes the run files of the start runs as comments above the run file of the tuning. */
static int print_start(const char *dir, const config *start)
{
    char *text = NULL, name[FILES_PATH];
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    int rc = f ? config_write(start, f) : -1;
    if (f && fclose(f)) rc = -1;
    printf("# init.file comes from a run of its own. Without the '# ' it is, for --out %s:\n#\n",
           words_line(dir, name, sizeof name));
    char *rest = text;
    for (char *line = rc ? NULL : strsep(&rest, "\n"); line && *line; line = strsep(&rest, "\n"))
        printf("# %s\n", line);
    free(text);
    putchar('\n');
    return rc ? complain(-1, "out of memory") : 0;
}

static int print_plan(const plan *p, config *const *start, const config *tune)
{
    for (int i = 0; i < p->starts; i++)
        if (print_start(p->start_dir[i], start[i])) return SOSMC_EXIT_NUMERIC;
    return session_print(tune);
}

/* 1, 0, or -1 with a sentence. */
static int is_finished(const char *dir, char *error, size_t room)
{
    char path[FILES_PATH];
    json_t *summary = NULL;
    if (files_join(path, dir, "summary.json", error, room) || json_read(path, &summary, error, room)) return -1;
    int finished = json_is_true(json_object_get(summary, "finished"));
    json_decref(summary);
    return finished;
}

/* Seconds of the budget that are left for the next run; 0: there is no budget. */
static double left_of_budget(const flag_values *q)
{
    double left = flag_number(q, FLAG_BUDGET, 0) - (monotonic_seconds() - q->begun);
    return flag_given(q, FLAG_BUDGET) && flag_number(q, FLAG_BUDGET, 0) > 0 ? fmax(left, 1e-9) : 0;
}

/* Runs a start run, continuing what exists; one that is finished is not run again. A start of another model is refused by
 * session_run. */
static int run_start(const flag_values *q, const session_options *options, const char *dir, const config *start,
                     int *done)
{
    char error[EBM_SENTENCE];
    session_options first = *options;
    first.out = dir;
    first.lock = NULL;
    first.resume = options->resume || !options->overwrite;
    first.strict = 0; /* particles to start from are no result */
    first.budget_seconds = left_of_budget(q);
    int code = session_run(start, &first);
    *done = 0;
    if (code != SOSMC_EXIT_OK) return code;
    int finished = is_finished(dir, error, sizeof error);
    if (finished < 0) return complain(SOSMC_EXIT_IO, "%s", error);
    *done = finished;
    if (!*done) return complain(code, "the time was over before the initial particles were made; go on with --resume");
    return code;
}

static int run_plan(const plan *p, config *const *start, const config *tune)
{
    const flag_values *q = p->q;
    session_options options = {.resume = flag_given(q, FLAG_RESUME),
                               .overwrite = flag_given(q, FLAG_OVERWRITE),
                               .quiet = flag_given(q, FLAG_QUIET),
                               .strict = flag_given(q, FLAG_STRICT),
                               .accept_changed = flag_given(q, FLAG_ACCEPT),
                               .unnamed = !flag_given(q, FLAG_OUT),
                               .root = p->out};
    if (draft_holds_run(p->out) && !options.resume && !options.overwrite)
        return complain(SOSMC_EXIT_USAGE,
                        "%s already holds a run; continue it with --resume, replace it with --overwrite, or choose "
                        "another --out",
                        p->out);
    run_lock lock = {.held = 0};
    int code = p->starts ? session_fits(start[0]) : SOSMC_EXIT_OK, done = 1;
    if (p->starts && code == SOSMC_EXIT_OK) code = draft_take_place(tune, &options, p->out, NULL, NULL, 0, 0, &lock);
    for (int i = 0; i < p->starts && code == SOSMC_EXIT_OK && done; i++)
        code = run_start(q, &options, p->start_dir[i], start[i], &done);
    options.out = p->out;
    options.budget_seconds = left_of_budget(q);
    if (code == SOSMC_EXIT_OK && done) code = session_run(tune, &options);
    lock_give_back(&lock);
    return code;
}

static int print_or_run_plan(const plan *p)
{
    config *start[STARTS] = {NULL}, *tune = NULL;
    int complete = 1;
    for (int i = 0; complete && i < p->starts; i++) complete = (start[i] = start_config(p, i)) != NULL;
    if (complete) complete = (tune = tune_config(p)) != NULL;
    int code = !complete                      ? SOSMC_EXIT_USAGE
               : flag_given(p->q, FLAG_PRINT) ? print_plan(p, start, tune)
                                              : run_plan(p, start, tune);
    for (int i = 0; i < STARTS; i++) config_free(start[i]);
    config_free(tune);
    return code;
}

int command_tune(int argc, char **argv)
{
    flag_values q;
    plan p;
    ebm_subject s = {0};
    int code;
    char error[EBM_SENTENCE];
    if (ebm_read_flags(&q, argc, argv, FOR_TUNE, "MODEL", tune_text, &code)) return code;
    if (check_tune(&q)) return SOSMC_EXIT_USAGE;
    if (ebm_subject_of(&q, &s)) return SOSMC_EXIT_IO;
    if (check_subject(&q, &s)) return SOSMC_EXIT_USAGE;
    make_plan(&p, &q, &s);
    if (finds_settings(&p)) return tune_by_solver(&p);
    if (plan_starts(&p, error, sizeof error)) return complain(SOSMC_EXIT_USAGE, "%s", error);
    return print_or_run_plan(&p);
}
