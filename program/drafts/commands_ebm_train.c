/* commands_ebm_train.c: `sosmc train`: a run file that trains an energy on points or on pictures. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands_ebm_inside.h"
#include "files/files.h"
#include "pictures/images.h"
#include "job/network_text.h"
#include "job/points.h"
#include "terminal/progress.h"
#include "terminal/say.h"

const char train_text[] =
    "sosmc train DATA [options]\n"
    "\n"
    "Trains an energy-based model on points: two_moons, circles, blobs, or the rows of FILE.csv or FILE.npy; or with\n"
    "--network on pictures: an IDX file, an NPY array or a folder of PNG files.\n"
    "The network is left as DIR/model.safetensors, for 'sosmc tune' and 'sosmc sample'.\n"
    "\n"
    "On points the network is added to a Gaussian and trained with weighted particles. The solver finds its settings and ends by\n"
    "itself, and the log-likelihood of the points is told with its error, and that of a tenth of them which is held out (of 50\n"
    "points or more; --set objective.held_out=SHARE). On pictures weights mean nothing: there, and with --cd, it is contrastive\n"
    "divergence, which knows no likelihood and ends after --epochs.\n"
    "\n"
    "  --hidden W,W,...      widths of the hidden layers (default 128,128,128,128)\n"
    "  --activation A        silu (default), softplus or tanh\n"
    "  --no-standardise      leave the points of a file as they are (default: mean 0 and standard deviation 2 in every\n"
    "                        coordinate, while they are fitted)\n"
    "  --scaled              report points and densities in those units instead of the data's\n"
    "  --drop-missing        leave out points in which a number is missing (default: refuse them)\n"
    "  --particles N         default: 2048; with contrastive divergence as many as --batch\n"
    "  --network N           DATA holds pictures, and this is their network: mnist, or a description such as\n"
    "                        '1x28x28; conv 16 5 stride 2 pad 4 silu; dense 64 silu; dense 1; energy -1'\n"
    "  --cd                  points too by persistent contrastive divergence, as in the paper; no Gaussian is added\n"
    "  --weighted            by weighted particles, which points are without it too\n"
    "With contrastive divergence only:\n"
    "  --epochs E            passes through the data (default 500; 200 for blobs and files; 60 for pictures)\n"
    "  --iterations K        updates, instead of --epochs\n"
    "  --batch B             points or pictures per update (default 512, or 128 pictures; all when there are fewer)\n"
    "  --sweeps S            moves of each particle per update (default 80; 60 for pictures)\n"
    "\n"
    "  --out DIR             the run directory (default: trained-DATA)\n" EBM_COMMON_FLAGS
    "With --cd points in the plane get about 20 exact log-likelihoods on the way.\n"
    "\n"
    "Example:\n"
    "  sosmc train circles --threads 2 --out circles\n"
    "  sosmc train data/mnist/train-images-idx3-ubyte --network mnist --threads 2 --out digits\n";

/* ---------------------------------------------------------------------------- what the flags default to */

/* Persistent contrastive divergence as in the paper. */
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
/* Training with weights chooses for itself, but for what belongs to the data. */
static const double held_out = 0.1;

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

/* ---------------------------------------------------------------------------- points */

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
static int measure_file(const flag_values *q, dataset *s, char *error, size_t room)
{
    double *x = NULL, reach = 0;
    int standardise = !flag_given(q, FLAG_NO_STANDARDISE);
    points_gaps gaps = {.remedy = "--drop-missing", .drop = flag_given(q, FLAG_DROP_MISSING)};
    *s = (dataset){.epochs = 200};
    if (columns_of(q->operand, &s->dim, error, room) ||
        points_load_data(q->operand, s->dim, &gaps, &x, &s->points, error, room))
        return -1;
    free(gaps.columns);
    if (points_differ(q->operand, x, s->points, s->dim, error, room) ||
        (standardise && points_can_standardise(q->operand, s->points, "--no-standardise", error, room))) {
        free(x);
        return -1;
    }
    int rc = points_rescale(x, s->points, s->dim, standardise, standardise ? training.file_scale : 1, NULL);
    for (int64_t i = 0; i < s->points * s->dim; i++) reach = fmax(reach, fabs(x[i]));
    free(x);
    s->box = round_up(reach, standardise || reach == 0 ? training.box : 0);
    return rc ? files_fail(error, room, "%s has numbers too large to be scaled", q->operand) : 0;
}

static int find_data(const flag_values *q, dataset *s, int *code)
{
    static const dataset shapes[] = {{"two_moons", 2, 0, 500, 0}, {"circles", 2, 0, 500, 0}, {"blobs", 2, 0, 200, 0}};
    char error[EBM_SENTENCE];
    *code = SOSMC_EXIT_USAGE;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (strcmp(shapes[i].name, q->operand) == 0) {
            *s = shapes[i];
            s->points = training.points;
            s->box = training.box;
            static const ebm_flag of_files[] = {FLAG_NO_STANDARDISE, FLAG_DROP_MISSING};
            ebm_flag wrong = ebm_stray(q, of_files, 2);
            return wrong == EBM_FLAGS
                       ? 0
                       : complain(-1, "--%s is for files; %s is made to measure", ebm_flag_name(wrong), s->name);
        }
    if (!ends_with(q->operand, ".csv") && !ends_with(q->operand, ".npy"))
        return complain(-1,
                        "DATA is '%s'; expected two_moons, circles, blobs, or a file of points, .csv or .npy; pictures "
                        "need --network",
                        q->operand);
    *code = SOSMC_EXIT_IO;
    return measure_file(q, s, error, sizeof error) ? complain(-1, "%s", error) : 0;
}

static int put_perceptron(draft *d, const flag_values *q, int inputs)
{
    const char *hidden = flag_text(q, FLAG_HIDDEN, "128,128,128,128"), *at = hidden;
    for (;;) {
        size_t digits = strspn(at, "0123456789");
        if (digits < 1 || digits > 5 || strtol(at, NULL, 10) < 1 || (at[digits] && at[digits] != ','))
            return complain(-1, "--hidden is '%s'; expected widths with commas between, such as 128,128", hidden);
        if (!at[digits]) break;
        at += digits + 1;
    }
    draft_put(d, "model: {type: mlp, inputs: %d, hidden: [%s], activation: %s, ", inputs, hidden,
              flag_text(q, FLAG_ACTIVATION, "silu"));
    if (flag_given(q, FLAG_SCALED)) draft_put(d, "units: scaled, ");
    if (flag_given(q, FLAG_CD))
        draft_put(d, "init_sd: %.17g}\n", training.init_sd);
    else
        draft_put(d, "base: gaussian}\n");
    return 0;
}

static void put_data(draft *d, const flag_values *q, const dataset *s)
{
    int standardise = !flag_given(q, FLAG_NO_STANDARDISE);
    draft_put(d, "objective:\n  type: ebm_likelihood\n  data: ");
    if (s->name) {
        draft_put(d, "{type: %s, points: %" PRId64 ", seed: 0}\n", s->name, s->points);
    } else {
        draft_put(d, "{type: file, file: ");
        draft_put_quoted(d, q->operand);
        if (flag_given(q, FLAG_DROP_MISSING)) draft_put(d, ", missing: drop");
        draft_put(d, ", standardise: %s, scale: %.17g}\n", standardise ? "true" : "false",
                  standardise ? training.file_scale : 1);
    }
    if (!flag_given(q, FLAG_CD) && s->points >= POINTS_FEW) draft_put(d, "  held_out: %.17g\n", held_out);
}

/* The particles of persistent contrastive divergence, and how theta follows them. */
static void put_divergence(draft *d, const flag_values *q, const dataset *s, int64_t particles, int64_t batch)
{
    draft_put(d, "  batch: %" PRId64 "\n  batches: epochs\n", batch);
    draft_put(d, "  energy2: %.17g\n  gradient_penalty: %.17g\n", training.energy2, training.gradient_penalty);
    draft_put(d, "init: {type: uniform, low: %.17g, high: %.17g}\n", -s->box, s->box);
    draft_put(d, "scheme: {type: pcd, pool: %" PRId64 ", sweeps: %" PRId64 ", refresh: %.17g}\n",
              particles > training.pool ? particles : (int64_t)training.pool,
              flag_whole(q, FLAG_SWEEPS, training.sweeps), training.refresh);
    draft_put(d, "kernel: {type: ula, step: %.17g, clamp: %.17g}\n", training.step, s->box * 4 / 3);
    draft_put(d, "optimiser: {type: adam, rate: %.17g, clip: %.17g}\n", training.rate, training.clip);
}

static void put_evaluation(draft *d, int64_t iterations, double box)
{
    double reach = box * 4 / 3;
    draft_put(d, "evaluate: {every: %" PRId64 ", nodes: 400, low: %.17g, high: %.17g}\n",
              iterations / 20 > 1 ? iterations / 20 : 1, -reach, reach);
}

/* The batch that --batch asks for, at most all there is; 0: a sentence was said. */
static int64_t batch_of(const flag_values *q, int64_t usual, int64_t data, const char *what)
{
    int64_t batch = flag_whole(q, FLAG_BATCH, data < usual ? data : usual);
    if (batch >= 1 && batch <= data) return batch;
    return complain(0, "--batch is %" PRId64 "; %s has %" PRId64 " %s", batch, q->operand, data, what);
}

/* What the flags make of the points' run file, behind the model and the data. 0: it was written. */
static int put_method(draft *d, const flag_values *q, const dataset *s)
{
    if (!flag_given(q, FLAG_CD)) {
        if (flag_given(q, FLAG_PARTICLES)) draft_put(d, "particles: %s\n", q->value[FLAG_PARTICLES]);
        ebm_put_seed(d, q);
        return 0;
    }
    int64_t batch = batch_of(q, training.batch, s->points, "points");
    if (batch == 0) return -1;
    int64_t updates = s->points / batch, particles = flag_whole(q, FLAG_PARTICLES, batch);
    int64_t iterations = flag_whole(q, FLAG_ITERATIONS, flag_whole(q, FLAG_EPOCHS, s->epochs) * updates);
    put_divergence(d, q, s, particles, batch);
    if (s->dim == 2) put_evaluation(d, iterations, s->box);
    ebm_put_ending(d, q, particles, iterations, updates, 1);
    return 0;
}

/* A flag that only contrastive divergence knows. */
static int check_divergence(const flag_values *q)
{
    static const ebm_flag of_divergence[] = {FLAG_EPOCHS, FLAG_ITERATIONS, FLAG_BATCH, FLAG_SWEEPS};
    ebm_flag wrong = ebm_stray(q, of_divergence, sizeof of_divergence / sizeof *of_divergence);
    if (flag_given(q, FLAG_CD) || wrong == EBM_FLAGS) return ebm_only_one(q, FLAG_CD, FLAG_WEIGHTED);
    return complain(-1,
                    "--%s is for --cd and for pictures; training with weights finds it by itself and ends by itself "
                    "(--budget-seconds B or --set limits.seconds=S end it before)",
                    ebm_flag_name(wrong));
}

static int train_on_points(const flag_values *q)
{
    dataset s = {.points = 1};
    draft d;
    int code;
    char name[EBM_NAME], out[EBM_NAME + 32];
    if (check_divergence(q)) return SOSMC_EXIT_USAGE;
    if (find_data(q, &s, &code)) return code;
    if (draft_open(&d)) return SOSMC_EXIT_NUMERIC;
    int wrong = put_perceptron(&d, q, s.dim);
    if (!wrong) put_data(&d, q, &s);
    if (wrong || put_method(&d, q, &s)) {
        (void)fclose(d.out);
        free(d.bytes);
        return SOSMC_EXIT_USAGE;
    }
    ebm_name_of(q->operand, name);
    (void)snprintf(out, sizeof out, "trained-%s%s", name, flag_given(q, FLAG_CD) ? "-cd" : "");
    return ebm_print_or_run(q, &d, flag_text(q, FLAG_OUT, out));
}

/* ---------------------------------------------------------------------------- pictures */

/* The number of pictures in the file. The run itself checks that they have the size of the network. */
static int count_pictures(const flag_values *q, int64_t *count, int *code)
{
    static const ebm_flag of_points[] = {FLAG_WEIGHTED, FLAG_HIDDEN,       FLAG_ACTIVATION, FLAG_NO_STANDARDISE,
                                         FLAG_CD,       FLAG_DROP_MISSING, FLAG_SCALED};
    char error[EBM_SENTENCE];
    image_set set;
    sosmc_network network;
    ebm_flag wrong = ebm_stray(q, of_points, sizeof of_points / sizeof *of_points);
    *code = SOSMC_EXIT_USAGE;
    if (wrong != EBM_FLAGS)
        return complain(-1, "--%s stands beside --network; it is for points alone", ebm_flag_name(wrong));
    if (network_parse(q->value[FLAG_NETWORK], &network, error, sizeof error))
        return complain(-1, "--network is '%.80s': %s", q->value[FLAG_NETWORK], error);
    network_free(&network);
    *code = SOSMC_EXIT_IO;
    if (images_read(q->operand, &set, error, sizeof error)) return complain(-1, "%s", error);
    *count = set.count;
    images_free(&set);
    return 0;
}

static void put_picture_data(draft *d, const flag_values *q, int64_t batch)
{
    draft_put(d, "model: {type: network, layers: ");
    draft_put_quoted(d, q->value[FLAG_NETWORK]);
    draft_put(d, "}\nobjective:\n  type: ebm_likelihood\n  data: {type: images, file: ");
    draft_put_quoted(d, q->operand);
    draft_put(d, ", jitter: %.17g, clamp: %.17g}\n", picture_training.jitter, ebm_jitter.clamp);
    draft_put(d, "  batch: %" PRId64 "\n  batches: epochs\n  energy2: %.17g\n", batch, picture_training.energy2);
}

static int train_on_pictures(const flag_values *q)
{
    draft d;
    int code;
    int64_t count = 0;
    char name[EBM_NAME], out[EBM_NAME + 32];
    if (count_pictures(q, &count, &code)) return code;
    int64_t batch = batch_of(q, picture_training.batch, count, "pictures");
    if (batch == 0) return SOSMC_EXIT_USAGE;
    int64_t updates = count / batch, particles = flag_whole(q, FLAG_PARTICLES, batch);
    if (draft_open(&d)) return SOSMC_EXIT_NUMERIC;
    put_picture_data(&d, q, batch);
    ebm_put_noise(&d);
    draft_put(&d, "scheme: {type: pcd, pool: %" PRId64 ", sweeps: %" PRId64 ", refresh: %.17g, pool_rule: newest}\n",
              particles > picture_training.pool ? particles : (int64_t)picture_training.pool,
              flag_whole(q, FLAG_SWEEPS, picture_training.sweeps), picture_training.refresh);
    ebm_put_jitter(&d, ebm_jitter.step, NULL);
    draft_put(&d, "optimiser: {type: adam, rate: %.17g, beta1: 0, clip: %.17g, ", picture_training.rate,
              picture_training.clip);
    draft_put(&d, "schedule: {type: steps, a: %" PRId64 ", b: %.17g}}\n", updates, picture_training.decay);
    int64_t iterations = flag_whole(q, FLAG_EPOCHS, picture_training.epochs) * updates;
    ebm_put_ending(&d, q, particles, flag_whole(q, FLAG_ITERATIONS, iterations), updates / 10, 1);
    ebm_name_of(q->operand, name);
    (void)snprintf(out, sizeof out, "trained-%s", name);
    return ebm_print_or_run(q, &d, flag_text(q, FLAG_OUT, out));
}

int command_train(int argc, char **argv)
{
    flag_values q;
    int code;
    if (ebm_read_flags(&q, argc, argv, FOR_TRAIN, "DATA", train_text, &code)) return code;
    if (ebm_only_one(&q, FLAG_EPOCHS, FLAG_ITERATIONS)) return SOSMC_EXIT_USAGE;
    return flag_given(&q, FLAG_NETWORK) ? train_on_pictures(&q) : train_on_points(&q);
}
