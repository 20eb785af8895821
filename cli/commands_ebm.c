/* commands_ebm.c: `train`, `tune` and `sample`: from flags to the text of a run file, and from there to run_job.
 *
 * Invariant: whatever a command does, `sosmc run` does with the file that --print shows; there is no second loop here.
 * A tuning run takes its initial particles from a run of its own, DIR/start; those of pictures may be moved on in a second
 * one, DIR/purified. */
#include "commands_ebm.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "draft.h"
#include "files.h"
#include "formula.h"
#include "images.h"
#include "model_file.h"
#include "network_text.h"
#include "points.h"
#include "progress.h"
#include "run.h"
#include "schema.h"

enum { SENTENCE = 1024, SETS = 256, NAME = 256 };

/* ---------------------------------------------------------------------------- what the flags default to */

/* Tuning: as in the paper; with particles drawn by tempering, the default; and --sharp, which spends what tempering saves on
 * ten times the updates at a larger rate: to raise a sharp edge in a smooth network takes many. That needs a warm-up and
 * clipped gradients, lest single steps cost the cloud its weights, and a fixed step: led by the ESS it dies out, and the
 * particles stand still. It can run away where modes are separate (docs/ebm2d.md), so it is not the default. */
typedef struct {
    const char *start; /* smc or chains */
    int start_particles, particles;
    int64_t iterations;
    double rate, beta2, clip;
    double warmup, rate_left; /* parts: of the iterations; of the rate, at the end (1: constant) */
    double resample_below;    /* a fraction of the particles, as the next */
    double ess_level, factor, min_step,
        max_step; /* the step shrinks where the ESS is below the level; factor 1: never */
} tuning;
static const tuning tuning_paper = {"chains", 10000, 10000, 1001, 2e-4, 0.999, 1000, 0, 1, 0.9, 0.95, 1.01, 1e-8, 0.01};
static const tuning tuning_default = {"smc", 10000, 10000, 1001, 2e-4, 0.999, 1000, 0, 1, 0.9, 0.95, 1.01, 1e-8, 0.01};
static const tuning tuning_sharp = {"smc", 10000, 4000, 10001, 1e-3, 0.99, 1, 0.1, 0.01, 0.5, 0.95, 1, 1e-8, 0.01};

/* Training: persistent contrastive divergence as in the paper, and what differs with weights. */
static const struct {
    int batch, pool, sweeps, points;
    double energy2, gradient_penalty, refresh, step, rate, clip, init_sd, box, file_scale;
} training = {.batch = 512,
              .pool = 20000,
              .sweeps = 80,
              .points = 20000,
              .energy2 = 1e-3,
              .gradient_penalty = 0.2,
              .refresh = 0.05,
              .step = 0.005,
              .rate = 2e-4,
              .clip = 10,
              .init_sd = 0.02,
              .box = 4.5, /* particles start within it, and are held to 4/3 of it */
              .file_scale = 2};
/* No regulariser shapes the weighted network at its start, so its weights begin larger: at 0.02 it stands still. */
static const struct {
    int particles, epochs;
    double resample_below, ess_level, factor, min_step, max_step, init_sd, rate;
} weighted_training = {10000, 50, 0.5, 0.95, 1.01, 1e-8, 0.01, 0.1, 1e-3};

/* Pictures. Tuning as in the paper's sweeps over beta, where neither step nor clipping ever change anything. */
static const tuning tuning_pictures = {"chains", 1000, 1000, 1000, 1e-4, 0.999, 0, 0, 1, 0.9, 0.95, 1, 1e-8, 0.01};
static const double picture_step = 3e-3;

/* Training of pictures: the tutorial's recipe for MNIST. */
static const struct {
    int batch, pool, sweeps, epochs;
    double energy2, jitter, refresh, rate, clip, decay;
} picture_training = {.batch = 128,
                      .pool = 8192,
                      .sweeps = 60,
                      .epochs = 60,
                      .energy2 = 0.1,
                      .jitter = 0.005,
                      .refresh = 0.05,
                      .rate = 1e-4,
                      .clip = 0.1,
                      .decay = 0.97}; /* of the rate, after every epoch */

/* Its sampler starts new pictures, warms up those of a tuning run, and makes the fresh ones that are judged. */
static const struct {
    double step, noise, clamp, gradient_clip;
    int warm, chains, steps;
} jitter = {10, 0.005, 1, 0.03, 1000, 64, 512};

/* A kernel's first step. Those with a Metropolis test are led to an acceptance, the step staying below `most`. */
typedef struct {
    const char *name;
    double step, acceptance, most;
} kernel_row;
static const kernel_row kernel_rows[] = {{"ula", 0.005, 0, 0},
                                         {"mala", 0.02, 0.6, 0.5},
                                         {"rwm", 0.02, 0.3, 1},
                                         {"hmc", 0.05, 0.75, 0.5},
                                         {"jitter", 10, 0, 0}};
enum { LEAPFROG = 5 };

/* Samples: long chains from a box, or a cloud that is cooled from a normal law and then moved a while at the model. */
enum { CHAINS = 1000, CHAIN_STEPS = 20000, COOLING = 500, SMC_STEPS = 600 };

/* ---------------------------------------------------------------------------- words */

#define COMMON_FLAGS                                                                          \
    "  --seed S              the same as --set seed=S\n"                                      \
    "  --threads T           the same as --set threads=T; the results do not depend on it\n"  \
    "  --set KEY=VALUE       any key of the run file, with dots: --set optimiser.rate=1e-3\n" \
    "  --print               write the run file to standard output instead of running it\n"   \
    "  --resume, --overwrite, --budget-seconds B, --quiet    as for 'sosmc run'\n"            \
    "\n"

const char train_text[] =
    "sosmc train DATA [options]\n"
    "\n"
    "Trains an energy-based model on points: two_moons, circles, blobs, or the rows of FILE.csv or FILE.npy; or with\n"
    "--network on pictures: an IDX file, an NPY array or a folder of PNG files.\n"
    "The network is left as DIR/model.safetensors, for 'sosmc tune' and 'sosmc sample'.\n"
    "\n"
    "  --network N           DATA holds pictures, and this is their network: mnist, or a description such as\n"
    "                        '1x28x28; conv 16 5 stride 2 pad 4 silu; dense 64 silu; dense 1; energy -1'\n"
    "  --weighted            weighted particles (SOSMC) instead of persistent contrastive divergence: the network is\n"
    "                        added to a Gaussian, and the likelihood is known while it trains\n"
    "  --epochs E            passes through the data (default 500; 200 for blobs and files; 50 with --weighted; 60 for\n"
    "                        pictures)\n"
    "  --hidden W,W,...      widths of the hidden layers (default 128,128,128,128)\n"
    "  --activation A        silu (default), softplus or tanh\n"
    "  --batch B             points or pictures per update (default 512, or 128 pictures; all when there are fewer)\n"
    "  --sweeps S            moves of each particle per update (default 80; 60 for pictures)\n"
    "  --particles N         default: as many as --batch; 10000 with --weighted\n"
    "  --no-standardise      leave the points of a file as they are (default: mean 0 and standard deviation 2)\n"
    "  --out DIR             the run directory (default: trained-DATA)\n" COMMON_FLAGS
    "Points in the plane get about 20 exact log-likelihoods on the way.\n"
    "\n"
    "Example:\n"
    "  sosmc train circles --threads 2 --out circles\n"
    "  sosmc train data/mnist/train-images-idx3-ubyte --network mnist --threads 2 --out digits\n";

const char tune_text[] =
    "sosmc tune MODEL --reward R --beta B [options]\n"
    "\n"
    "Tunes a stored network (safetensors or NPZ) towards a reward: E[R] - B KL(tuned || stored) is made large.\n"
    "\n"
    "  --reward R            points: lower, upper, left or right (half-planes), or a formula such as\n"
    "                        'exp(-x1^2) * (x2 > 1)'; pictures: bright, dark, half (the lower against the upper), mask,\n"
    "                        network, or a formula such as 'mean - tv'\n"
    "  --beta B              the weight of the divergence\n"
    "  --forward             KL(stored || tuned) instead\n"
    "  --method M            sosmc (default), impdiff or soul\n"
    "  --kernel K            ula (default), mala, rwm or hmc\n"
    "  --step H              its step size (default: 0.005 for ula; 0.003 for pictures)\n"
    "  --noise-scale S       the factor of its noise (default 1)\n"
    "  --iterations K        default 1001 (10001 with --sharp; 1000 for pictures)\n"
    "  --particles N         default 10000 (4000 with --sharp; 1000 for pictures)\n"
    "  --rate L              the learning rate (default 2e-4; at most 1e-3 with --sharp; 1e-4 for pictures)\n"
    "  --start S             initial particles: smc (default; cooled from a normal law), chains (20000 steps from a\n"
    "                        box; of pictures, the default, see --warm), or a file such as the particles.npz of a run\n"
    "  --sharp               ten times the updates at a larger rate that warms up and decays: closer to the optimum\n"
    "                        where it works, but it can run away where modes are separate; watch the exact excess\n"
    "  --paper               the paper's settings: as the default, but from chains\n"
    "  --out DIR             the run directory (default: tuned-MODEL-REWARD)\n"
    "Pictures have these too:\n"
    "  --network N           the layers of a MODEL that does not describe them: mnist or a description\n"
    "  --warm T              steps of the sampler of 'sosmc sample' that the particles start with (default 1000)\n"
    "  --purify T            steps of unadjusted Langevin behind these, with --step and --noise-scale (default 0)\n"
    "  --mask FILE           a picture for the reward mask, or for mask in a formula: black counts -1, white 1\n"
    "  --reward-network FILE for the reward network: a stored network that judges pictures\n"
    "  --output K            which of its outputs, from 0 (default 0)\n"
    "  --reward-scale S      a factor of the reward (default 1)\n" COMMON_FLAGS
    "The initial particles are a run of their own in DIR/start (and with --purify another in DIR/purified), which is\n"
    "made once and continued when it was interrupted; --set is for the tuning alone. Models of points in the plane are\n"
    "evaluated exactly ten times on the way, those of pictures twenty times by the reward of 64 fresh ones.\n"
    "\n"
    "Example:\n"
    "  sosmc tune circles/model.safetensors --reward lower --beta 0.25 --threads 2\n"
    "  sosmc tune digits/model.safetensors --reward bright --beta 1 --threads 2\n";

const char sample_text[] =
    "sosmc sample MODEL [options]\n"
    "\n"
    "Samples a stored network (safetensors or NPZ); the points or pictures are left in DIR/samples.npy.\n"
    "\n"
    "  --chains N            points (default 1000; 64 pictures)\n"
    "  --steps K             moves of each (default 20000; 600 with --smc; 512 for pictures)\n"
    "  --kernel K            ula (default), mala (default with --smc), rwm, hmc, or jitter (default for pictures:\n"
    "                        noise, then a gradient that is held in bounds)\n"
    "  --step H              its step size (default: 0.005 for ula, 10 for jitter)\n"
    "  --noise-scale S       the factor of its noise (default 1; for jitter, the noise itself, 0.005)\n"
    "  --smc                 a weighted cloud cooled from a normal law, which gets the masses of separate modes right\n"
    "                        and estimates log Z, instead of chains from a box\n"
    "  --reward R            a reward whose mean is logged, with --mask, --reward-network, --output and --reward-scale\n"
    "                        as for 'sosmc tune'\n"
    "  --network N           the layers of a MODEL of pictures that does not describe them: mnist or a description\n"
    "  --out DIR             the run directory (default: samples-MODEL)\n" COMMON_FLAGS "Example:\n"
    "  sosmc sample circles/model.safetensors --smc --chains 10000 --reward lower\n"
    "  sosmc sample digits/model.safetensors --reward bright\n";

/* ---------------------------------------------------------------------------- flags */

enum { TRAIN = 1, TUNE = 2, SAMPLE = 4, ALL = 7 };
typedef enum {
    EPOCHS,
    HIDDEN,
    ACTIVATION,
    BATCH,
    PARTICLES,
    REWARD,
    BETA,
    METHOD,
    KERNEL,
    ITERATIONS,
    RATE,
    START,
    CHAINS_FLAG,
    STEPS,
    STEP,
    NETWORK,
    SWEEPS,
    NOISE_SCALE,
    WARM,
    PURIFY,
    MASK,
    REWARD_NETWORK,
    OUTPUT,
    REWARD_SCALE,
    OUT,
    SEED,
    THREADS,
    BUDGET,
    SET,
    WEIGHTED,
    NO_STANDARDISE,
    FORWARD,
    PAPER,
    SHARP,
    SMC,
    RESUME,
    OVERWRITE,
    QUIET,
    PRINT,
    HELP,
    FLAGS
} flag;

/* `like`: a key of the run file whose type and range the value must have; `words`: what it may be; neither: text. */
static const struct {
    const char *name, *like, *words;
    int commands, takes_value;
} flag_table[FLAGS] = {
    [EPOCHS] = {"epochs", "particles", NULL, TRAIN, 1},
    [HIDDEN] = {"hidden", NULL, NULL, TRAIN, 1},
    [ACTIVATION] = {"activation", "model.activation", NULL, TRAIN, 1},
    [BATCH] = {"batch", "particles", NULL, TRAIN, 1},
    [PARTICLES] = {"particles", "particles", NULL, TRAIN | TUNE, 1},
    [REWARD] = {"reward", NULL, NULL, TUNE | SAMPLE, 1},
    [BETA] = {"beta", "objective.beta", NULL, TUNE, 1},
    [METHOD] = {"method", NULL, "sosmc|impdiff|soul", TUNE, 1},
    [KERNEL] = {"kernel", "kernel.type", NULL, TUNE | SAMPLE, 1},
    [ITERATIONS] = {"iterations", "iterations", NULL, TUNE, 1},
    [RATE] = {"rate", "optimiser.rate", NULL, TUNE, 1},
    [START] = {"start", NULL, NULL, TUNE, 1},
    [CHAINS_FLAG] = {"chains", "particles", NULL, SAMPLE, 1},
    [STEPS] = {"steps", "objective.steps", NULL, SAMPLE, 1},
    [STEP] = {"step", "kernel.step", NULL, TUNE | SAMPLE, 1},
    [NETWORK] = {"network", NULL, NULL, ALL, 1},
    [SWEEPS] = {"sweeps", "particles", NULL, TRAIN, 1},
    [NOISE_SCALE] = {"noise-scale", "kernel.noise", NULL, TUNE | SAMPLE, 1},
    [WARM] = {"warm", "objective.steps", NULL, TUNE, 1},
    [PURIFY] = {"purify", "iterations", NULL, TUNE, 1},
    [MASK] = {"mask", NULL, NULL, TUNE | SAMPLE, 1},
    [REWARD_NETWORK] = {"reward-network", NULL, NULL, TUNE | SAMPLE, 1},
    [OUTPUT] = {"output", "objective.reward.output", NULL, TUNE | SAMPLE, 1},
    [REWARD_SCALE] = {"reward-scale", "objective.reward.scale", NULL, TUNE | SAMPLE, 1},
    [OUT] = {"out", NULL, NULL, ALL, 1},
    [SEED] = {"seed", "seed", NULL, ALL, 1},
    [THREADS] = {"threads", "threads", NULL, ALL, 1},
    [BUDGET] = {"budget-seconds", "output.checkpoint_seconds", NULL, ALL, 1},
    [SET] = {"set", NULL, NULL, ALL, 1},
    [WEIGHTED] = {"weighted", NULL, NULL, TRAIN, 0},
    [NO_STANDARDISE] = {"no-standardise", NULL, NULL, TRAIN, 0},
    [FORWARD] = {"forward", NULL, NULL, TUNE, 0},
    [PAPER] = {"paper", NULL, NULL, TUNE, 0},
    [SHARP] = {"sharp", NULL, NULL, TUNE, 0},
    [SMC] = {"smc", NULL, NULL, SAMPLE, 0},
    [RESUME] = {"resume", NULL, NULL, ALL, 0},
    [OVERWRITE] = {"overwrite", NULL, NULL, ALL, 0},
    [QUIET] = {"quiet", NULL, NULL, ALL, 0},
    [PRINT] = {"print", NULL, NULL, ALL, 0},
    [HELP] = {"help", NULL, NULL, ALL, 0},
};

typedef struct {
    const char *command;      /* for messages: "sosmc train" */
    const char *operand;      /* DATA or MODEL */
    const char *value[FLAGS]; /* NULL: not given; "" for a flag without a value */
    const char *set[SETS];
    int sets;
    double begun; /* seconds on the monotonic clock */
} request;

static int given(const request *q, flag f) { return q->value[f] != NULL; }
static const char *text_of(const request *q, flag f, const char *otherwise)
{
    return q->value[f] ? q->value[f] : otherwise;
}
static double number_of(const request *q, flag f, double otherwise)
{
    return q->value[f] ? strtod(q->value[f], NULL) : otherwise;
}
static int64_t whole_of(const request *q, flag f, int64_t otherwise)
{
    return q->value[f] ? (int64_t)strtod(q->value[f], NULL) : otherwise;
}

static int take_flag(request *q, flag f, const char *value)
{
    char expected[256];
    const schema_key *row = flag_table[f].like ? schema_find(flag_table[f].like) : NULL;
    q->value[f] = value;
    if (f == SET) {
        if (q->sets == SETS) return complain(-1, "more than %d --set", SETS);
        q->set[q->sets++] = value;
    }
    if (flag_table[f].words && !schema_has_word(flag_table[f].words, value))
        schema_join(flag_table[f].words, " or ", expected, sizeof expected);
    else if (row && !draft_fits(row, value))
        schema_expected(row, expected, sizeof expected);
    else if (flag_table[f].takes_value && !*value)
        (void)snprintf(expected, sizeof expected, "a value");
    else
        return 0;
    return complain(-1, "--%s is '%s'; expected %s", flag_table[f].name, value, expected);
}

/* 0: go on; otherwise *code is what the program exits with. */
static int read_flags(request *q, int argc, char **argv, int command, const char *operand, const char *help, int *code)
{
    struct option known[FLAGS + 1] = {{0}};
    int n = 0, option;
    for (int f = 0; f < FLAGS; f++)
        if (flag_table[f].commands & command)
            known[n++] = (struct option){flag_table[f].name, flag_table[f].takes_value, NULL, 256 + f};
    *q = (request){.command = argv[0], .begun = monotonic_seconds()};
    *code = SOSMC_EXIT_USAGE;
    optind = 0; /* begin anew, whoever parsed before */
    while ((option = getopt_long(argc, argv, "h", known, NULL)) != -1)
        if (option == '?' || take_flag(q, option == 'h' ? HELP : (flag)(option - 256), optarg ? optarg : "")) return -1;
    if (given(q, HELP)) {
        *code = fputs(help, stdout) < 0 ? SOSMC_EXIT_IO : SOSMC_EXIT_OK;
        return -1;
    }
    if (argc - optind != 1) {
        int most = (int)strcspn(help, "\n");
        return complain(-1, "expected one %s, found %d; usage: %.*s", operand, argc - optind, most, help);
    }
    q->operand = argv[optind];
    return 0;
}

/* ---------------------------------------------------------------------------- the text of a run file */

static void put_jitter(draft *d, double step, const char *noise)
{
    char number[32];
    draft_put(d, "kernel: {type: jitter, step: %.17g, noise: %s, clamp: %.17g, gradient_clip: %.17g}\n", step,
              noise ? noise : files_number(jitter.noise, number), jitter.clamp, jitter.gradient_clip);
}

/* noise NULL: the kernel's own. */
static void put_kernel(draft *d, const kernel_row *k, double step, const char *noise)
{
    if (strcmp(k->name, "jitter") == 0) {
        put_jitter(d, step, noise);
        return;
    }
    draft_put(d, "kernel: {type: %s, step: %.17g", k->name, step);
    if (noise) draft_put(d, ", noise: %s", noise);
    if (strcmp(k->name, "hmc") == 0) draft_put(d, ", leapfrog: %d", LEAPFROG);
    draft_put(d, "}\n");
    if (k->acceptance > 0)
        draft_put(d, "adapt: {signal: accept, threshold: %.17g, factor: 1.02, min: 1e-8, max: %.17g}\n", k->acceptance,
                  k->most > step ? k->most : step);
}

static const kernel_row *kernel_named(const char *name)
{
    for (size_t i = 0; i < sizeof kernel_rows / sizeof *kernel_rows; i++)
        if (strcmp(kernel_rows[i].name, name) == 0) return &kernel_rows[i];
    return &kernel_rows[0];
}

static void put_ending(draft *d, const request *q, int64_t particles, int64_t iterations, int64_t thin, int report)
{
    draft_put(d, "particles: %" PRId64 "\niterations: %" PRId64 "\nseed: %s\nthreads: %s\n", particles, iterations,
              text_of(q, SEED, "0"), text_of(q, THREADS, "1"));
    draft_put(d, "output: {thin: %" PRId64 ", report: %s}\n", thin > 1 ? thin : 1, report ? "true" : "false");
}

/* ---------------------------------------------------------------------------- running it */

/* The draft as a resolved run file; the draft is used up. */
static config *configure(const request *q, draft *d, int with_sets)
{
    return draft_config(d, q->command, q->set, with_sets ? q->sets : 0);
}

static int print_config(const config *c)
{
    return config_write(c, stdout) || fflush(stdout) ? complain(SOSMC_EXIT_IO, "cannot write to standard output")
                                                     : SOSMC_EXIT_OK;
}

static int run_config(const request *q, const config *c, const char *out)
{
    run_options options = {.out = out,
                           .resume = given(q, RESUME),
                           .overwrite = given(q, OVERWRITE),
                           .quiet = given(q, QUIET),
                           .budget_seconds = number_of(q, BUDGET, 0)};
    return run_job(c, &options);
}

static int print_or_run(const request *q, draft *d, const char *out)
{
    config *c = configure(q, d, 1);
    if (!c) return SOSMC_EXIT_USAGE;
    int code = given(q, PRINT) ? print_config(c) : run_config(q, c, out);
    config_free(c);
    return code;
}

/* path/circles.npz -> circles; path/circles/model.safetensors, as a run leaves it -> circles */
static void name_of(const char *path, char out[NAME])
{
    char bare[FILES_PATH]; /* without the slash behind a folder */
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    (void)snprintf(bare, sizeof bare, "%.*s", length < sizeof bare ? (int)length : (int)sizeof bare - 1, path);
    path = bare;
    const char *end = path + strlen(path), *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path, *dot = strrchr(base, '.');
    if (dot && dot > base) end = dot;
    if (slash && slash > path && end - base == 5 && strncmp(base, "model", 5) == 0) {
        end = slash;
        for (base = slash; base > path && base[-1] != '/';) base--;
        if (*base == '.') { /* the current folder has no better name */
            base = "model";
            end = base + 5;
        }
    }
    (void)snprintf(out, NAME, "%.*s", (int)(end - base), base);
}

/* ---------------------------------------------------------------------------- train */

typedef struct {
    const char *name; /* of a built-in shape; NULL: a file */
    int dim;
    int64_t points, epochs;
    double box; /* of the initial particles */
} dataset;

static int ends_with(const char *text, const char *ending)
{
    size_t n = strlen(text), m = strlen(ending);
    return n > m && strcmp(text + n - m, ending) == 0;
}

static int columns_of(const char *path, int *dim, char *error, size_t room)
{
    if (ends_with(path, ".csv")) {
        csv_table t = {0};
        if (csv_read(path, NULL, &t, error, room)) return -1;
        *dim = t.columns;
        csv_free(&t);
        return 0;
    }
    npy_array a = {0};
    if (npy_read(path, &a, error, room)) return -1;
    int dims = a.dims;
    *dim = dims == 2 && a.shape[1] > 0 && a.shape[1] <= 16384 ? (int)a.shape[1] : 0;
    npy_free(&a);
    return *dim ? 0
                : files_fail(error, room, "%s has %d axes; expected points in rows, 1 to 16384 numbers each", path,
                             dims);
}

/* At least `least`, and up to the next number of two digits. */
static double round_up(double x, double least)
{
    if (!(x > least)) return least;
    double unit = pow(10, floor(log10(x)) - 1);
    return ceil(x / unit) * unit;
}

/* How many points of which dimension a file holds, and how far they reach once they are scaled. */
static int measure_file(const request *q, dataset *s, char *error, size_t room)
{
    double *x = NULL, reach = 0;
    int standardise = !given(q, NO_STANDARDISE);
    *s = (dataset){.epochs = 200};
    if (columns_of(q->operand, &s->dim, error, room) || points_load(q->operand, s->dim, &x, &s->points, error, room))
        return -1;
    if (s->points < 1) {
        free(x);
        return files_fail(error, room, "%s holds no points; expected at least one row", q->operand);
    }
    int rc = points_rescale(x, s->points, s->dim, standardise, standardise ? training.file_scale : 1);
    for (int64_t i = 0; i < s->points * s->dim; i++) reach = fmax(reach, fabs(x[i]));
    free(x);
    s->box = round_up(reach, standardise || reach == 0 ? training.box : 0);
    return rc ? files_fail(error, room, "%s has numbers too large to be scaled", q->operand) : 0;
}

static int find_data(const request *q, dataset *s, int *code)
{
    static const dataset shapes[] = {{"two_moons", 2, 0, 500, 0}, {"circles", 2, 0, 500, 0}, {"blobs", 2, 0, 200, 0}};
    char error[SENTENCE];
    *code = SOSMC_EXIT_USAGE;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (strcmp(shapes[i].name, q->operand) == 0) {
            *s = shapes[i];
            s->points = training.points;
            s->box = training.box;
            return given(q, NO_STANDARDISE)
                       ? complain(-1, "--no-standardise is for files; %s is made to measure", s->name)
                       : 0;
        }
    if (!ends_with(q->operand, ".csv") && !ends_with(q->operand, ".npy"))
        return complain(-1,
                        "DATA is '%s'; expected two_moons, circles, blobs, or a file of points, .csv or .npy; pictures "
                        "need --network",
                        q->operand);
    *code = SOSMC_EXIT_IO;
    return measure_file(q, s, error, sizeof error) ? complain(-1, "%s", error) : 0;
}

static int put_perceptron(draft *d, const request *q, int inputs)
{
    const char *hidden = text_of(q, HIDDEN, "128,128,128,128"), *at = hidden;
    for (;;) {
        size_t digits = strspn(at, "0123456789");
        if (digits < 1 || digits > 5 || strtol(at, NULL, 10) < 1 || (at[digits] && at[digits] != ','))
            return complain(-1, "--hidden is '%s'; expected widths with commas between, such as 128,128", hidden);
        if (!at[digits]) break;
        at += digits + 1;
    }
    draft_put(d, "model: {type: mlp, inputs: %d, hidden: [%s], activation: %s, init_sd: %.17g%s}\n", inputs, hidden,
              text_of(q, ACTIVATION, "silu"), given(q, WEIGHTED) ? weighted_training.init_sd : training.init_sd,
              given(q, WEIGHTED) ? ", base: gaussian" : "");
    return 0;
}

static void put_data(draft *d, const request *q, const dataset *s, int64_t batch)
{
    int standardise = !given(q, NO_STANDARDISE);
    draft_put(d, "objective:\n  type: ebm_likelihood\n  data: ");
    if (s->name) {
        draft_put(d, "{type: %s, points: %" PRId64 ", seed: 0}\n", s->name, s->points);
    } else {
        draft_put(d, "{type: file, file: ");
        draft_put_quoted(d, q->operand);
        draft_put(d, ", standardise: %s, scale: %.17g}\n", standardise ? "true" : "false",
                  standardise ? training.file_scale : 1);
    }
    draft_put(d, "  batch: %" PRId64 "\n  batches: epochs\n", batch);
    if (!given(q, WEIGHTED))
        draft_put(d, "  energy2: %.17g\n  gradient_penalty: %.17g\n", training.energy2, training.gradient_penalty);
}

static void put_training(draft *d, const request *q, const dataset *s, int64_t particles, int64_t iterations)
{
    double rate = given(q, WEIGHTED) ? weighted_training.rate : training.rate;
    if (given(q, WEIGHTED)) {
        draft_put(d, "init: base\nscheme: sosmc\nkernel: {type: ula, step: %.17g}\n", training.step);
        draft_put(d, "resampling: {scheme: systematic, threshold: %.17g}\n", weighted_training.resample_below);
        draft_put(d, "adapt: {signal: ess, threshold: %.17g, factor: %.17g, min: %.17g, max: %.17g}\n",
                  weighted_training.ess_level, weighted_training.factor, weighted_training.min_step,
                  weighted_training.max_step);
    } else {
        draft_put(d, "init: {type: uniform, low: %.17g, high: %.17g}\n", -s->box, s->box);
        draft_put(d, "scheme: {type: pcd, pool: %" PRId64 ", sweeps: %" PRId64 ", refresh: %.17g}\n",
                  particles > training.pool ? particles : (int64_t)training.pool, whole_of(q, SWEEPS, training.sweeps),
                  training.refresh);
        draft_put(d, "kernel: {type: ula, step: %.17g, clamp: %.17g}\n", training.step, s->box * 4 / 3);
    }
    draft_put(d, "optimiser: {type: adam, rate: %.17g, clip: %.17g", rate, training.clip);
    if (given(q, WEIGHTED)) draft_put(d, ", schedule: {type: cosine, a: %" PRId64 ", b: 0.05}", iterations);
    draft_put(d, "}\n");
}

/* A network with a Gaussian base has wide tails while it is young: more of the plane, at the same spacing. */
static void put_evaluation(draft *d, int64_t iterations, double box, int wide)
{
    double reach = wide ? 3 * box : box * 4 / 3;
    draft_put(d, "evaluate: {every: %" PRId64 ", nodes: %d, low: %.17g, high: %.17g}\n",
              iterations / 20 > 1 ? iterations / 20 : 1, wide ? 900 : 400, -reach, reach);
}

/* The batch that --batch asks for, at most all there is; 0: a sentence was said. */
static int64_t batch_of(const request *q, int64_t usual, int64_t data, const char *what)
{
    int64_t batch = whole_of(q, BATCH, data < usual ? data : usual);
    if (batch >= 1 && batch <= data) return batch;
    return complain(0, "--batch is %" PRId64 "; %s has %" PRId64 " %s", batch, q->operand, data, what);
}

static int train_on_points(const request *q)
{
    dataset s = {.points = 1};
    draft d;
    int code;
    char name[NAME], out[NAME + 32];
    if (given(q, SWEEPS) && given(q, WEIGHTED))
        return complain(SOSMC_EXIT_USAGE, "--sweeps stands beside --weighted; weighted particles move once per update");
    if (find_data(q, &s, &code)) return code;
    int64_t batch = batch_of(q, training.batch, s.points, "points");
    if (batch == 0) return SOSMC_EXIT_USAGE;
    int64_t updates = s.points / batch, epochs = given(q, WEIGHTED) ? weighted_training.epochs : s.epochs;
    int64_t iterations = whole_of(q, EPOCHS, epochs) * updates;
    int64_t particles = whole_of(q, PARTICLES, given(q, WEIGHTED) ? (int64_t)weighted_training.particles : batch);
    if (draft_open(&d)) return SOSMC_EXIT_NUMERIC;
    if (put_perceptron(&d, q, s.dim)) {
        (void)fclose(d.out);
        free(d.bytes);
        return SOSMC_EXIT_USAGE;
    }
    put_data(&d, q, &s, batch);
    put_training(&d, q, &s, particles, iterations);
    if (s.dim == 2) put_evaluation(&d, iterations, s.box, given(q, WEIGHTED));
    put_ending(&d, q, particles, iterations, updates, 1);
    name_of(q->operand, name);
    (void)snprintf(out, sizeof out, "trained-%s%s", name, given(q, WEIGHTED) ? "-weighted" : "");
    return print_or_run(q, &d, text_of(q, OUT, out));
}

/* ---------------------------------------------------------------------------- train on pictures */

/* The first of the flags that was given, though what is before us is not for it; FLAGS: none. */
static flag stray(const request *q, const flag *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (given(q, list[i])) return list[i];
    return FLAGS;
}

/* How many pictures there are; that they have the network's size is the run's to tell. */
static int count_pictures(const request *q, int64_t *count, int *code)
{
    static const flag of_points[] = {WEIGHTED, HIDDEN, ACTIVATION, NO_STANDARDISE};
    char error[SENTENCE];
    image_set set;
    sosmc_network network;
    flag wrong = stray(q, of_points, sizeof of_points / sizeof *of_points);
    *code = SOSMC_EXIT_USAGE;
    if (wrong != FLAGS)
        return complain(-1, "--%s stands beside --network; it is for points alone", flag_table[wrong].name);
    if (network_parse(q->value[NETWORK], &network, error, sizeof error))
        return complain(-1, "--network is '%.80s': %s", q->value[NETWORK], error);
    network_free(&network);
    *code = SOSMC_EXIT_IO;
    if (images_read(q->operand, &set, error, sizeof error)) return complain(-1, "%s", error);
    *count = set.count;
    images_free(&set);
    return 0;
}

static void put_picture_data(draft *d, const request *q, int64_t batch)
{
    draft_put(d, "model: {type: network, layers: ");
    draft_put_quoted(d, q->value[NETWORK]);
    draft_put(d, "}\nobjective:\n  type: ebm_likelihood\n  data: {type: images, file: ");
    draft_put_quoted(d, q->operand);
    draft_put(d, ", jitter: %.17g, clamp: %.17g}\n", picture_training.jitter, jitter.clamp);
    draft_put(d, "  batch: %" PRId64 "\n  batches: epochs\n  energy2: %.17g\n", batch, picture_training.energy2);
}

/* Pixels of a new picture are uniform on their range. */
static void put_noise(draft *d)
{
    draft_put(d, "init: {type: uniform, low: %.17g, high: %.17g}\n", -jitter.clamp, jitter.clamp);
}

static int train_on_pictures(const request *q)
{
    draft d;
    int code;
    int64_t count = 0;
    char name[NAME], out[NAME + 32];
    if (count_pictures(q, &count, &code)) return code;
    int64_t batch = batch_of(q, picture_training.batch, count, "pictures");
    if (batch == 0) return SOSMC_EXIT_USAGE;
    int64_t updates = count / batch, particles = whole_of(q, PARTICLES, batch);
    if (draft_open(&d)) return SOSMC_EXIT_NUMERIC;
    put_picture_data(&d, q, batch);
    put_noise(&d);
    draft_put(&d, "scheme: {type: pcd, pool: %" PRId64 ", sweeps: %" PRId64 ", refresh: %.17g, pool_rule: newest}\n",
              particles > picture_training.pool ? particles : (int64_t)picture_training.pool,
              whole_of(q, SWEEPS, picture_training.sweeps), picture_training.refresh);
    put_jitter(&d, jitter.step, NULL);
    draft_put(&d, "optimiser: {type: adam, rate: %.17g, beta1: 0, clip: %.17g, ", picture_training.rate,
              picture_training.clip);
    draft_put(&d, "schedule: {type: steps, a: %" PRId64 ", b: %.17g}}\n", updates, picture_training.decay);
    put_ending(&d, q, particles, whole_of(q, EPOCHS, picture_training.epochs) * updates, updates / 10, 1);
    name_of(q->operand, name);
    (void)snprintf(out, sizeof out, "trained-%s", name);
    return print_or_run(q, &d, text_of(q, OUT, out));
}

int command_train(int argc, char **argv)
{
    request q;
    int code;
    if (read_flags(&q, argc, argv, TRAIN, "DATA", train_text, &code)) return code;
    return given(&q, NETWORK) ? train_on_pictures(&q) : train_on_points(&q);
}

/* ---------------------------------------------------------------------------- stored models and rewards */

/* What a stored model is a model of: points, or pictures with their shape. */
typedef struct {
    int inputs, channels, rows, columns; /* channels 0: points */
} subject;

static int subject_of(const request *q, subject *s)
{
    model_file f;
    char error[SENTENCE];
    if (model_read_as(q->operand, q->value[NETWORK], &f, error, sizeof error)) return complain(-1, "%s", error);
    *s = (subject){f.inputs, f.network.channels, f.network.rows, f.network.columns};
    model_free(&f);
    return 0;
}

static int of_pictures(const subject *s) { return s->channels > 0; }

static void put_model(draft *d, const request *q)
{
    draft_put(d, "model: {type: stored, file: ");
    draft_put_quoted(d, q->operand);
    if (given(q, NETWORK)) {
        draft_put(d, ", network: ");
        draft_put_quoted(d, q->value[NETWORK]);
    }
    draft_put(d, "}\n");
}

/* The half-planes by name: which coordinate, and on which side of 0. */
static const struct {
    const char *name;
    int coordinate, sign;
} sides[] = {{"lower", 2, -1}, {"upper", 2, 1}, {"left", 1, -1}, {"right", 1, 1}};

static int side_named(const char *reward)
{
    for (int i = 0; i < (int)(sizeof sides / sizeof *sides); i++)
        if (strcmp(sides[i].name, reward) == 0) return i;
    return -1;
}

static int check_point_reward(const request *q, int inputs)
{
    static const flag of_picture[] = {MASK, REWARD_NETWORK, OUTPUT, REWARD_SCALE, WARM, PURIFY};
    const char *reward = text_of(q, REWARD, "left");
    char error[SENTENCE];
    int side = side_named(reward);
    flag wrong = stray(q, of_picture, sizeof of_picture / sizeof *of_picture);
    if (wrong != FLAGS)
        return complain(-1, "--%s is for pictures; %s has points of dimension %d", flag_table[wrong].name, q->operand,
                        inputs);
    if (strcmp(text_of(q, KERNEL, "ula"), "jitter") == 0)
        return complain(-1, "--kernel is 'jitter', which is for pictures; %s has points of dimension %d", q->operand,
                        inputs);
    if (side >= 0 && sides[side].coordinate > inputs)
        return complain(-1, "--reward is %s, a half-plane of x%d; %s has points of dimension %d", reward,
                        sides[side].coordinate, q->operand, inputs);
    if (side >= 0) return 0;
    formula *f = formula_compile(reward, inputs, error, sizeof error);
    if (!f) return complain(-1, "--reward is '%s'; expected lower, upper, left, right or a formula: %s", reward, error);
    formula_free(f);
    return 0;
}

static const char picture_rewards[] = "bright|dark|half|mask|network";

/* A file that only one reward can use names it; NULL: no reward. */
static const char *picture_reward(const request *q)
{
    return text_of(q, REWARD, given(q, REWARD_NETWORK) ? "network" : given(q, MASK) ? "mask" : NULL);
}

static int check_picture_formula(const request *q, const subject *s, const char *reward)
{
    char error[SENTENCE];
    double *mask = calloc((size_t)s->inputs, sizeof *mask); /* that there is one will do to look at the words */
    if (!mask) return complain(-1, "out of memory");
    for (int j = 0; j < s->inputs; j++) mask[j] = 1;
    pixels_shape shape = {s->channels, s->rows, s->columns, 1, given(q, MASK) ? mask : NULL};
    formula *f = formula_compile_picture(reward, s->inputs, &shape, error, sizeof error);
    free(mask);
    if (!f)
        return complain(-1, "--reward is '%s'; expected bright, dark, half, mask, network or a formula: %s", reward,
                        error);
    formula_free(f);
    return given(q, REWARD_SCALE) ? complain(-1, "--reward-scale stands beside a formula; write the factor into it")
                                  : 0;
}

/* Each of these flags belongs to certain rewards. */
static int check_picture_reward(const request *q, const subject *s)
{
    const char *reward = picture_reward(q);
    if (!reward) {
        static const flag idle[] = {OUTPUT, REWARD_SCALE};
        flag wrong = stray(q, idle, 2);
        return wrong == FLAGS ? 0 : complain(-1, "--%s needs a --reward", flag_table[wrong].name);
    }
    int network = strcmp(reward, "network") == 0, mask = strcmp(reward, "mask") == 0;
    if (network && !given(q, REWARD_NETWORK))
        return complain(-1, "--reward is network; expected --reward-network FILE, a stored network that judges");
    if (mask && !given(q, MASK)) return complain(-1, "--reward is mask; expected --mask FILE, a picture of weights");
    if (!network && (given(q, REWARD_NETWORK) || given(q, OUTPUT)))
        return complain(-1, "--%s stands beside --reward %s; it is for --reward network",
                        given(q, OUTPUT) ? "output" : "reward-network", reward);
    if (!schema_has_word(picture_rewards, reward)) return check_picture_formula(q, s, reward);
    return given(q, MASK) && !mask
               ? complain(-1, "--mask stands beside --reward %s; it is for --reward mask or a formula", reward)
               : 0;
}

static int check_reward(const request *q, const subject *s)
{
    return of_pictures(s) ? check_picture_reward(q, s) : check_point_reward(q, s->inputs);
}

static void put_picture_reward(draft *d, const request *q)
{
    const char *reward = picture_reward(q);
    int known = schema_has_word(picture_rewards, reward);
    draft_put(d, "  reward: {type: %s", known ? reward : "formula");
    if (!known) {
        draft_put(d, ", formula: ");
        draft_put_quoted(d, reward);
    }
    if (given(q, MASK)) {
        draft_put(d, ", mask: ");
        draft_put_quoted(d, q->value[MASK]);
    }
    if (given(q, REWARD_NETWORK)) {
        draft_put(d, ", network: ");
        draft_put_quoted(d, q->value[REWARD_NETWORK]);
    }
    if (given(q, OUTPUT)) draft_put(d, ", output: %s", q->value[OUTPUT]);
    if (known) draft_put(d, ", scale: %s, clamp: %.17g", text_of(q, REWARD_SCALE, "1"), jitter.clamp);
    draft_put(d, "}\n");
}

static void put_reward(draft *d, const request *q, const subject *s)
{
    if (of_pictures(s)) {
        put_picture_reward(d, q);
        return;
    }
    const char *reward = text_of(q, REWARD, "left");
    int side = side_named(reward);
    draft_put(d, "  reward: ");
    if (side < 0) {
        draft_put_quoted(d, reward);
    } else {
        draft_put(d, "{type: half_plane, normal: [");
        for (int j = 1; j <= s->inputs; j++)
            draft_put(d, "%s%d", j > 1 ? ", " : "", j == sides[side].coordinate ? sides[side].sign : 0);
        draft_put(d, "], offset: 0}");
    }
    draft_put(d, "\n");
}

/* ---------------------------------------------------------------------------- sample */

/* Chains move before anything is looked at, with the gradient they carry along: one evaluation per move. */
static void put_chains(draft *d, int pictures)
{
    if (pictures)
        put_noise(d);
    else
        draft_put(d, "init: {type: uniform, low: -6, high: 6}\n");
    draft_put(d, "scheme: {type: unweighted, order: authors}\n");
}

/* Resampled in every iteration, the cloud ends with equal weights: whoever reads its points alone loses nothing. */
static void put_cooling(draft *d)
{
    draft_put(d, "scheme: {type: sosmc, order: authors}\nresampling: {scheme: systematic, threshold: always}\n");
}

static int64_t cooling_of(int64_t steps)
{
    int64_t cooling = steps * COOLING / SMC_STEPS;
    return cooling > 0 ? cooling : 1;
}

static int is_scored(const request *q, const subject *s)
{
    return of_pictures(s) ? picture_reward(q) != NULL : given(q, REWARD);
}

int command_sample(int argc, char **argv)
{
    request q;
    draft d;
    subject s = {0};
    int code;
    char name[NAME], out[NAME + 32];
    if (read_flags(&q, argc, argv, SAMPLE, "MODEL", sample_text, &code)) return code;
    if (subject_of(&q, &s)) return SOSMC_EXIT_IO;
    if (check_reward(&q, &s)) return SOSMC_EXIT_USAGE;
    int smc = given(&q, SMC), pictures = of_pictures(&s) && !smc;
    const kernel_row *k = kernel_named(text_of(&q, KERNEL, smc ? "mala" : pictures ? "jitter" : "ula"));
    int64_t steps = whole_of(&q, STEPS, smc ? SMC_STEPS : pictures ? jitter.steps : CHAIN_STEPS);
    if (draft_open(&d)) return SOSMC_EXIT_NUMERIC;
    put_model(&d, &q);
    draft_put(&d, "objective:\n  type: %s\n", smc ? "anneal" : "none");
    if (smc) draft_put(&d, "  steps: %" PRId64 "\n", cooling_of(steps));
    if (is_scored(&q, &s)) put_reward(&d, &q, &s);
    if (smc)
        put_cooling(&d);
    else
        put_chains(&d, pictures);
    put_kernel(&d, k, number_of(&q, STEP, k->step), q.value[NOISE_SCALE]);
    put_ending(&d, &q, whole_of(&q, CHAINS_FLAG, pictures ? jitter.chains : CHAINS), steps, steps / 1000, 1);
    name_of(q.operand, name);
    (void)snprintf(out, sizeof out, "samples-%s", name);
    return print_or_run(&q, &d, text_of(&q, OUT, out));
}

/* ---------------------------------------------------------------------------- tune */

/* What a tuning run is made of. */
enum { STARTS = 2 }; /* runs before it: the first particles, and pictures that are moved on */
typedef struct {
    const request *q;
    const tuning *settings;
    const kernel_row *kernel;
    const char *method, *start; /* start: smc, chains or a file */
    subject subject;
    double step;
    int64_t particles, iterations;
    int starts;                                          /* runs before it */
    char out[FILES_PATH], start_dir[STARTS][FILES_PATH]; /* theirs */
    char start_file[STARTS][FILES_PATH];                 /* the particles they leave */
    char init_file[FILES_PATH];                          /* those it takes */
} plan;

static int starts_itself(const plan *p) { return strcmp(p->start, "smc") == 0 || strcmp(p->start, "chains") == 0; }

/* --paper leaves no choice of what the paper fixes. */
static int check_paper(const request *q)
{
    static const struct {
        flag f;
        const char *only;
    } fixed[] = {{START, "chains"}, {KERNEL, "ula"}, {METHOD, "sosmc|impdiff"}};
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        char expected[64];
        const char *value = q->value[fixed[i].f];
        if (!value || schema_has_word(fixed[i].only, value)) continue;
        schema_join(fixed[i].only, " or ", expected, sizeof expected);
        return complain(-1, "--%s is '%s' beside --paper; expected %s", flag_table[fixed[i].f].name, value, expected);
    }
    if (given(q, SHARP)) return complain(-1, "--sharp stands beside --paper; expected one of them");
    return given(q, FORWARD) ? complain(-1, "--forward stands beside --paper; the paper's divergence is the other one")
                             : 0;
}

static int check_tune(const request *q)
{
    if (!given(q, REWARD) && !given(q, MASK) && !given(q, REWARD_NETWORK))
        return complain(-1, "tune needs --reward: lower, upper, left, right or a formula; for pictures bright, dark, "
                            "half, mask, network or a formula");
    if (!given(q, BETA)) return complain(-1, "tune needs --beta: the weight of the divergence, a number of at least 0");
    if (strcmp(text_of(q, KERNEL, "ula"), "jitter") == 0)
        return complain(-1, "--kernel is 'jitter', which has no density to weigh with; expected ula, mala, rwm or hmc");
    return given(q, PAPER) ? check_paper(q) : 0;
}

static int check_subject(const request *q, const subject *s)
{
    static const flag of_points[] = {PAPER, SHARP};
    flag wrong = of_pictures(s) ? stray(q, of_points, 2) : FLAGS;
    if (wrong != FLAGS)
        return complain(-1, "--%s is for points; for pictures the paper's settings are the default",
                        flag_table[wrong].name);
    if (of_pictures(s) && strcmp(text_of(q, START, "chains"), "smc") == 0)
        return complain(-1, "--start is smc, which is for points; expected chains or a file");
    if (!starts_itself(&(plan){.start = text_of(q, START, "chains")}) && (given(q, WARM) || given(q, PURIFY)))
        return complain(-1, "--%s stands beside --start %s; it is for particles that are made here",
                        given(q, WARM) ? "warm" : "purify", q->value[START]);
    return check_reward(q, s);
}

static const char *reward_name(const request *q, const subject *s)
{
    const char *reward = of_pictures(s) ? picture_reward(q) : q->value[REWARD];
    return (of_pictures(s) ? schema_has_word(picture_rewards, reward) : side_named(reward) >= 0) ? reward : "reward";
}

/* The runs before the tuning, and which particles it takes from them. */
static int plan_starts(plan *p, char *error, size_t room)
{
    static const char *const dirs[STARTS] = {"start", "purified"};
    p->starts = !starts_itself(p) ? 0 : whole_of(p->q, PURIFY, 0) > 0 ? 2 : 1;
    for (int i = 0; i < p->starts; i++)
        if (files_join(p->start_dir[i], p->out, dirs[i], error, room) ||
            files_join(p->start_file[i], p->start_dir[i], "particles.npz", error, room))
            return -1;
    (void)snprintf(p->init_file, sizeof p->init_file, "%s", p->starts ? p->start_file[p->starts - 1] : p->start);
    return 0;
}

static void make_plan(plan *p, const request *q, const subject *s)
{
    char name[NAME], made[NAME + 64];
    *p = (plan){.q = q,
                .subject = *s,
                .settings = of_pictures(s)    ? &tuning_pictures
                            : given(q, PAPER) ? &tuning_paper
                            : given(q, SHARP) ? &tuning_sharp
                                              : &tuning_default};
    p->method = text_of(q, METHOD, "sosmc");
    p->start = text_of(q, START, p->settings->start);
    p->kernel = kernel_named(text_of(q, KERNEL, "ula"));
    p->step = number_of(q, STEP, of_pictures(s) ? picture_step : p->kernel->step);
    p->particles = whole_of(q, PARTICLES, p->settings->particles);
    p->iterations = whole_of(q, ITERATIONS, p->settings->iterations);
    name_of(q->operand, name);
    int plain = strcmp(p->method, "sosmc") == 0;
    (void)snprintf(made, sizeof made, "tuned-%s-%s%s%s%s", name, reward_name(q, s), plain ? "" : "-",
                   plain ? "" : p->method, given(q, FORWARD) ? "-forward" : "");
    (void)snprintf(p->out, sizeof p->out, "%s", text_of(q, OUT, made));
}

/* Pictures are warmed up by the sampler that trained them. */
static int64_t put_first_start(draft *d, const plan *p)
{
    int smc = strcmp(p->start, "smc") == 0;
    if (smc) {
        draft_put(d, "objective: {type: anneal, steps: %d}\n", COOLING);
        put_cooling(d);
    } else {
        draft_put(d, "objective: none\n");
        put_chains(d, of_pictures(&p->subject));
    }
    const kernel_row *k = kernel_named(smc ? "mala" : of_pictures(&p->subject) ? "jitter" : "ula");
    put_kernel(d, k, k->step, NULL);
    return smc ? SMC_STEPS : of_pictures(&p->subject) ? whole_of(p->q, WARM, jitter.warm) : CHAIN_STEPS;
}

/* Then they may move on as in the tuning, at the stored weights. */
static int64_t put_second_start(draft *d, const plan *p)
{
    draft_put(d, "objective: none\ninit: {type: file, file: ");
    draft_put_quoted(d, p->start_file[0]);
    draft_put(d, "}\nscheme: {type: unweighted, order: authors}\n");
    put_kernel(d, kernel_named("ula"), p->step, p->q->value[NOISE_SCALE]);
    return whole_of(p->q, PURIFY, 0);
}

static config *start_config(const plan *p, int which)
{
    draft d;
    if (draft_open(&d)) return NULL;
    put_model(&d, p->q);
    int64_t steps = which == 0 ? put_first_start(&d, p) : put_second_start(&d, p);
    int64_t n = p->settings->start_particles > p->particles ? p->settings->start_particles : p->particles;
    if (given(p->q, PARTICLES) && p->particles < n) n = p->particles; /* who asks for few means few */
    put_ending(&d, p->q, n, steps, steps / 1000, 0);                  /* `sosmc report` makes one, should anybody ask */
    return configure(p->q, &d, 0);
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
    put_kernel(d, p->kernel, p->step, p->q->value[NOISE_SCALE]);
    if (weighted && p->kernel->acceptance == 0 && s->factor > 1)
        draft_put(d, "adapt: {signal: ess, threshold: %.17g, factor: %.17g, min: %.17g, max: %.17g}\n", s->ess_level,
                  s->factor, s->min_step, s->max_step);
}

static void put_optimiser(draft *d, const plan *p)
{
    const tuning *s = p->settings;
    draft_put(d, "optimiser: {type: adam, rate: %.17g, beta2: %.17g, clip: %.17g", number_of(p->q, RATE, s->rate),
              s->beta2, s->clip);
    if (s->rate_left < 1)
        draft_put(d, ", schedule: {type: cosine, a: %" PRId64 ", b: %.17g, warmup: %" PRId64 "}",
                  p->iterations > 1 ? p->iterations - 1 : 1, s->rate_left,
                  (int64_t)(s->warmup * (double)p->iterations));
    draft_put(d, "}\n");
}

/* Exactly where that can be done, else by fresh pictures. */
static void put_tuning_evaluation(draft *d, const plan *p)
{
    int64_t often = of_pictures(&p->subject) ? 20 : 10, every = p->iterations / often > 1 ? p->iterations / often : 1;
    if (of_pictures(&p->subject))
        draft_put(d, "evaluate: {every: %" PRId64 ", sampler: jitter, chains: %d, steps: %d}\n", every, jitter.chains,
                  jitter.steps);
    else if (p->subject.inputs == 2)
        draft_put(d, "evaluate: {every: %" PRId64 "}\n", every);
}

static config *tune_config(const plan *p)
{
    draft d;
    const request *q = p->q;
    int forward = given(q, FORWARD);
    if (draft_open(&d)) return NULL;
    put_model(&d, q);
    draft_put(&d, "objective:\n  type: %s\n", forward ? "reward_forward" : "reward_reverse");
    put_reward(&d, q, &p->subject);
    draft_put(&d, "  beta: %s\n", q->value[BETA]);
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
    put_ending(&d, q, p->particles, p->iterations, 1, 1);
    return configure(q, &d, 1);
}

/* A start stands in comments above the runs that need it. */
static int print_start(const char *dir, const config *start)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    int rc = f ? config_write(start, f) : -1;
    if (f && fclose(f)) rc = -1;
    printf("# init.file comes from a run of its own. Without the '# ' it is, for --out %s:\n#\n", dir);
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
    return print_config(tune);
}

static int is_finished(const char *dir)
{
    char path[FILES_PATH], error[SENTENCE];
    json_t *summary = NULL;
    if (files_join(path, dir, "summary.json", error, sizeof error) || json_read(path, &summary, error, sizeof error))
        return 0;
    int finished = json_is_true(json_object_get(summary, "finished"));
    json_decref(summary);
    return finished;
}

/* What is left of the budget for the next run; 0: there is none. */
static double left_of_budget(const request *q)
{
    double left = number_of(q, BUDGET, 0) - (monotonic_seconds() - q->begun);
    return given(q, BUDGET) && number_of(q, BUDGET, 0) > 0 ? fmax(left, 1e-9) : 0;
}

/* A start that is there is continued, and one that is finished is left as it is; run_job refuses another model's. */
static int run_start(const request *q, const run_options *options, const char *dir, const config *start, int *done)
{
    run_options first = *options;
    first.out = dir;
    first.resume = options->resume || !options->overwrite;
    first.budget_seconds = left_of_budget(q);
    int code = run_job(start, &first);
    *done = code == SOSMC_EXIT_OK && is_finished(dir);
    if (code == SOSMC_EXIT_OK && !*done)
        return complain(code, "the time was over before the initial particles were made; go on with --resume");
    return code;
}

static int run_plan(const plan *p, config *const *start, const config *tune)
{
    const request *q = p->q;
    run_options options = {.resume = given(q, RESUME), .overwrite = given(q, OVERWRITE), .quiet = given(q, QUIET)};
    if (draft_holds_run(p->out) && !options.resume && !options.overwrite)
        return complain(SOSMC_EXIT_USAGE,
                        "%s already holds a run; continue it with --resume, replace it with --overwrite, or choose "
                        "another --out",
                        p->out);
    for (int i = 0, done; i < p->starts; i++) {
        int code = run_start(q, &options, p->start_dir[i], start[i], &done);
        if (!done) return code;
    }
    options.out = p->out;
    options.budget_seconds = left_of_budget(q);
    return run_job(tune, &options);
}

static int print_or_run_plan(const plan *p)
{
    config *start[STARTS] = {NULL}, *tune = NULL;
    int complete = 1;
    for (int i = 0; complete && i < p->starts; i++) complete = (start[i] = start_config(p, i)) != NULL;
    if (complete) complete = (tune = tune_config(p)) != NULL;
    int code = !complete            ? SOSMC_EXIT_USAGE
               : given(p->q, PRINT) ? print_plan(p, start, tune)
                                    : run_plan(p, start, tune);
    for (int i = 0; i < STARTS; i++) config_free(start[i]);
    config_free(tune);
    return code;
}

int command_tune(int argc, char **argv)
{
    request q;
    plan p;
    subject s = {0};
    int code;
    char error[SENTENCE];
    if (read_flags(&q, argc, argv, TUNE, "MODEL", tune_text, &code)) return code;
    if (check_tune(&q)) return SOSMC_EXIT_USAGE;
    if (subject_of(&q, &s)) return SOSMC_EXIT_IO;
    if (check_subject(&q, &s)) return SOSMC_EXIT_USAGE;
    make_plan(&p, &q, &s);
    if (plan_starts(&p, error, sizeof error)) return complain(SOSMC_EXIT_USAGE, "%s", error);
    return print_or_run_plan(&p);
}
