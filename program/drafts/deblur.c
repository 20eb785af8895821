/* deblur.c: `sosmc deblur`: from a photograph and a few flags to the text of a run file, and from there to session_run.
 *
 * What the user does not say is taken from the picture before the run starts: the noise, and the strength theta from which
 * the prior's starts. The particles start around a first reconstruction (DIR/start.npy); a picture that is not what the file
 * holds (missing pixels are filled in, --simulate blurs) goes to DIR/seen.npy.
 *
 * Invariant: whatever the command does, `sosmc run` does with DIR/run.yaml. */
#include "deblur.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sosmc/imaging.h>

#include "report/deblur_page.h"
#include "draft.h"
#include "files/directory.h"
#include "files/files.h"
#include "files/memory.h"
#include "files/words.h"
#include "terminal/flags.h"
#include "terminal/interrupt.h"
#include "pictures/images.h"
#include "run/need.h"
#include "terminal/say.h"
#include "terminal/session.h"

enum { SENTENCE = 1024, NAME = 256 };

/* ---------------------------------------------------------------------------- the method */

/* The settings that are choices; docs/deblurring.md gives the reasons. */
static const struct {
    int particles;
    double solve;  /* squared error to which the linear systems of a move are solved */
    double spread; /* of the particles at the start, times 1/strength: flat pictures make the systems hard to solve */
    double tolerance; /* of proximal maps, where another kernel is chosen, for a noise of 1 */
    const char *optimiser;
    double rate;      /* learning rate of theta, for a gradient per pixel */
    double clip;      /* bound on the gradient, against a first strength that is far too large; it is never below -1 */
    double low, high; /* theta stays within */
    int64_t burn_in;  /* iterations before averaging begins, at least */
    int64_t most;     /* iterations, where theta does not settle */
    int64_t every;    /* of the others, every so many are averaged */
} method = {.particles = 4,
            .solve = 0.05,
            .spread = 0.5,
            .tolerance = 1e-5,
            .optimiser = "sgd",
            .rate = 1,
            .clip = 1,
            .low = -12,
            .high = 6,
            .burn_in = 20,
            .most = 1000,
            .every = 1};

static const double SIMULATED_NOISE = 1;

/* ---------------------------------------------------------------------------- words */

const char deblur_text[] =
    "sosmc deblur PHOTO [options]\n"
    "\n"
    "Sharpens a photograph (PNG, JPEG, PGM or PPM; grey or colour, 8 or 16 bits), removes its noise or paints in what is\n"
    "missing, with an error bar for every pixel. The strength of the total-variation prior is learnt, not chosen.\n"
    "DIR gets restored.png (the posterior mean), sd.png (its standard deviation), before.png, mean.npy, sd.npy, report.html.\n"
    "\n"
    "  --blur B              how it was blurred: box:P (a window of P x P pixels), gaussian:S (standard deviation S),\n"
    "                        motion:L,A (L pixels at A degrees), or none (default)\n"
    "  --mask M              a picture of the same size, black where pixels are missing\n"
    "  --border RULE         unknown (default): what lay outside was blurred into the picture; it is estimated, and cut off\n"
    "                        in the end; inside (default with --simulate): the blur ends at the border\n"
    "  --noise S             the standard deviation of the noise, pixels going from 0 to 255; auto (default) estimates it,\n"
    "                        which cannot be trusted for a JPEG\n"
    "  --particles N         pictures in the cloud (default 4)\n"
    "  --iterations K        so many, of which the second half is averaged; by default the run ends when the strength has\n"
    "                        settled, after 40 iterations or more\n"
    "  --time-limit T        stop after T seconds with what there is; --resume goes on\n"
    "  --simulate            PHOTO is clean: blur it, add noise (--noise, default 1), restore it, and say how well\n"
    "  --out DIR             the run directory (default: deblurred-PHOTO)\n"
    "  --seed S              the same as --set seed=S\n"
    "  --threads T           the same as --set threads=T; the results do not depend on it\n"
    "  --set KEY=VALUE       any key of the run file, with dots: --set optimiser.rate=0.05\n"
    "  --print               write the run file to standard output instead of running it\n"
    "  --resume, --overwrite, --accept-changed-inputs, --quiet, --strict    as for 'sosmc run'\n"
    "\n"
    "Example:\n"
    "  sosmc deblur photo.png --blur gaussian:1.5 --threads 2\n"
    "  sosmc deblur clean.png --blur box:5 --noise 0.5 --simulate --out trial\n";

/* ---------------------------------------------------------------------------- flags */

typedef enum {
    BLUR,
    MASK,
    BORDER,
    NOISE,
    PARTICLES,
    ITERATIONS,
    TIME_LIMIT,
    OUT,
    SEED,
    THREADS,
    SET,
    SIMULATE,
    RESUME,
    OVERWRITE,
    ACCEPT,
    PRINT,
    QUIET,
    STRICT,
    HELP,
    FLAGS
} flag;

_Static_assert((int)FLAGS <= (int)FLAGS_MOST, "flags.h has room for them");
static const flag_row flag_table[FLAGS] = {
    [BLUR] = {.name = "blur", .takes_value = 1},
    [MASK] = {.name = "mask", .takes_value = 1},
    [BORDER] = {.name = "border", .like = "model.border", .takes_value = 1},
    [NOISE] = {.name = "noise", .takes_value = 1},
    [PARTICLES] = {.name = "particles", .like = "particles", .takes_value = 1},
    [ITERATIONS] = {.name = "iterations", .like = "particles", .takes_value = 1},
    [TIME_LIMIT] = {.name = "time-limit", .like = "output.checkpoint_seconds", .takes_value = 1},
    [OUT] = {.name = "out", .takes_value = 1},
    [SEED] = {.name = "seed", .like = "seed", .takes_value = 1},
    [THREADS] = {.name = "threads", .like = "threads", .takes_value = 1},
    [SET] = {.name = "set", .takes_value = 1},
    [SIMULATE] = {.name = "simulate"},
    [RESUME] = {.name = "resume"},
    [OVERWRITE] = {.name = "overwrite"},
    [ACCEPT] = {.name = "accept-changed-inputs"},
    [PRINT] = {.name = "print"},
    [QUIET] = {.name = "quiet"},
    [STRICT] = {.name = "strict"},
    [HELP] = {.name = "help"},
};

/* A whole text as a finite number. */
static int number_in(const char *text, double *out)
{
    char *end;
    if (!*text || text[strspn(text, "0123456789.eE+-")]) return -1;
    *out = strtod(text, &end);
    return *end || !isfinite(*out) ? -1 : 0;
}

/* ---------------------------------------------------------------------------- the blur */

static int wrong_blur(const char *text)
{
    return complain(-1, "--blur is '%s'; expected none, box:PIXELS, gaussian:PIXELS or motion:PIXELS,DEGREES", text);
}

/* "box:5" and the like; the words for the report go to `words`. */
static int read_blur(const char *text, sosmc_blur *blur, char *words, size_t room)
{
    char copy[64], *comma;
    double a = 0, b = 0;
    const char *colon = strchr(text, ':');
    (void)snprintf(copy, sizeof copy, "%s", colon ? colon + 1 : "");
    if ((comma = strchr(copy, ',')) != NULL) *comma++ = 0;
    size_t name = colon ? (size_t)(colon - text) : strlen(text);
    if (strcmp(text, "none") == 0) {
        (void)snprintf(words, room, "none");
        return 0;
    }
    if (strlen(text) >= sizeof copy || number_in(copy, &a) || a <= 0) return wrong_blur(text);
    if (name == 3 && strncmp(text, "box", 3) == 0 && !comma && a == floor(a) && a <= 2000000) {
        *blur = (sosmc_blur){.kind = SOSMC_BLUR_BOX, .patch = (int)a};
        (void)snprintf(words, room, "a box of %d x %d pixels", blur->patch / 2 * 2 + 1, blur->patch / 2 * 2 + 1);
        return 0;
    }
    if (name == 8 && strncmp(text, "gaussian", 8) == 0 && !comma && a <= 100) {
        *blur = (sosmc_blur){.kind = SOSMC_BLUR_GAUSSIAN, .sigma = a};
        (void)snprintf(words, room, "a Gaussian of standard deviation %g pixels", a);
        return 0;
    }
    if (name == 6 && strncmp(text, "motion", 6) == 0 && comma && number_in(comma, &b) == 0 && a <= 200) {
        *blur = (sosmc_blur){.kind = SOSMC_BLUR_MOTION, .length = a, .angle = b};
        (void)snprintf(words, room, "a motion of %g pixels at %g degrees", a, b);
        return 0;
    }
    return wrong_blur(text);
}

/* ---------------------------------------------------------------------------- what is to be restored */

typedef struct {
    const flag_values *q;
    char out[FILES_PATH], seen_path[FILES_PATH], start_path[FILES_PATH], mask_path[FILES_PATH], photo_path[FILES_PATH],
        blur_words[NAME], error[SENTENCE], warning[SENTENCE];
    image seen, clean; /* clean: --simulate */
    image whole;       /* what was seen, missing pixels and the frame filled in */
    double *mask, *whole_mask;
    sosmc_blur blur;
    int frame; /* pixels outside the border that are estimated */
    double sigma, estimated, theta;
    int64_t particles, iterations, moments_from;
    int settle; /* the run ends when theta has settled */
} plan;

/* A blur that is simulated ends at the border. */
static const char *border_of(const plan *p)
{
    return flag_text(p->q, BORDER, flag_given(p->q, SIMULATE) ? "inside" : "unknown");
}

static int plan_says(plan *p, int code) { return complain(code, "%s", p->error); }

static void plan_free(plan *p)
{
    image_free(&p->seen);
    image_free(&p->clean);
    image_free(&p->whole);
    free(p->mask);
    free(p->whole_mask);
}

/* path/photo.png -> deblurred-photo */
static void default_directory(const char *photo, char out[FILES_PATH])
{
    const char *slash = strrchr(photo, '/'), *base = slash ? slash + 1 : photo, *dot = strrchr(base, '.');
    size_t length = dot && dot > base ? (size_t)(dot - base) : strlen(base);
    (void)snprintf(out, FILES_PATH, "deblurred-%.*s", (int)(length < NAME ? length : NAME), base);
}

static int read_mask(plan *p)
{
    const char *path = p->q->value[MASK];
    if (!path) return SOSMC_EXIT_OK;
    int rc = image_read_mask(path, p->seen.rows, p->seen.columns, &p->mask, p->error, sizeof p->error);
    if (rc < 0) return plan_says(p, SOSMC_EXIT_IO);
    if (rc > 0) return complain(SOSMC_EXIT_USAGE, "--mask %s", p->error);
    if (!realpath(path, p->mask_path)) return complain(SOSMC_EXIT_IO, "cannot find %s: %s", path, strerror(errno));
    p->blur.mask = p->mask;
    return SOSMC_EXIT_OK;
}

static int check_picture(const plan *p)
{
    int width = 2 * sosmc_blur_reach(&p->blur) + 1,
        least = p->seen.rows < p->seen.columns ? p->seen.rows : p->seen.columns;
    if (p->seen.rows < 2 || p->seen.columns < 2)
        return complain(SOSMC_EXIT_USAGE, "%s has %d x %d pixels; expected at least 2 x 2", p->q->operand,
                        p->seen.columns, p->seen.rows);
    if (width > least)
        return complain(SOSMC_EXIT_USAGE,
                        "--blur %s reaches over %d pixels, but %s has %d x %d; expected a blur that fits into it",
                        p->q->value[BLUR], width, p->q->operand, p->seen.columns, p->seen.rows);
    const char *fault = sosmc_blur_fault(&p->blur);
    return fault ? complain(SOSMC_EXIT_USAGE, "--blur %s cannot be used: %s", p->q->value[BLUR], fault) : SOSMC_EXIT_OK;
}

/* Blurs the clean picture and adds normal noise; values are not clipped or rounded. */
static int simulate(plan *p)
{
    size_t pixels = (size_t)p->seen.rows * (size_t)p->seen.columns, all = pixels * (size_t)p->seen.channels;
    double *scratch = malloc((sosmc_blur_scratch(&p->blur) + 1) * sizeof *scratch), *z = malloc(pixels * sizeof *z);
    sosmc_blur whole = p->blur;
    whole.mask = NULL; /* every pixel is blurred: the mask, not a zero in the picture, says which are missing */
    p->clean = p->seen;
    p->clean.pixel = malloc(all * sizeof(double));
    int sound = scratch && z && p->clean.pixel;
    if (sound) memcpy(p->clean.pixel, p->seen.pixel, all * sizeof(double));
    for (int c = 0; sound && c < p->seen.channels; c++) {
        double *x = p->seen.pixel + (size_t)c * pixels;
        sosmc_rng rng = {.seed = flag_given(p->q, SEED) ? strtoull(p->q->value[SEED], NULL, 10) : 0,
                         .step = (uint64_t)c,
                         .stream = SOSMC_STREAM_USER};
        sosmc_batch b = {.x = z, .dim = (int)pixels, .n = 1, .ld = 1, .simd = sosmc_simd_best()};
        sosmc_blur_apply(&whole, x, x, scratch);
        sosmc_normals(rng, &b, z);
        for (size_t j = 0; j < pixels; j++) x[j] += p->sigma * z[j];
    }
    free(scratch);
    free(z);
    return sound ? SOSMC_EXIT_OK : complain(SOSMC_EXIT_NUMERIC, "out of memory to simulate the blur");
}

/* --noise before anything is read: a number above 0, or auto. */
static int read_noise(plan *p)
{
    const char *text = p->q->value[NOISE];
    p->sigma = p->estimated = NAN;
    if (flag_given(p->q, SIMULATE)) p->sigma = SIMULATED_NOISE;
    if (!text || (strcmp(text, "auto") == 0 && !flag_given(p->q, SIMULATE))) return 0;
    if (number_in(text, &p->sigma) == 0 && p->sigma > 0 && p->sigma <= 1e4) return 0;
    return complain(-1, "--noise is '%s'; expected a number above 0 and up to 10000%s", text,
                    flag_given(p->q, SIMULATE) ? "" : ", or auto");
}

/* JPEG compression removes noise and adds errors that are not noise, so the estimate is too small. */
static void warn_of_jpeg(plan *p)
{
    (void)snprintf(p->warning, sizeof p->warning,
                   "%s is a JPEG, whose compression removes noise: the estimate of %.3g is not to be trusted, and the "
                   "restored picture may be worse than the photograph; give the standard deviation of the noise, on "
                   "pixels from 0 to 255, with --noise S",
                   p->q->operand, p->sigma);
    (void)complain(0, "%s", p->warning);
}

/* What was seen, or the same with its frame, which is what the run has. */
static sosmc_deblur as_seen(const plan *p, const image *im, const double *mask)
{
    sosmc_deblur d = {.blur = p->blur, .channels = im->channels, .y = im->pixel, .sigma = p->sigma};
    d.blur.rows = im->rows;
    d.blur.columns = im->columns;
    d.blur.mask = mask;
    return d;
}

/* Why the noise cannot be estimated. */
static int complain_of_noise(const plan *p, sosmc_status status, const sosmc_noise *found)
{
    const char *name = p->q->operand;
    if (status == SOSMC_ENOMEM) return complain(SOSMC_EXIT_USAGE, "%s: out of memory to estimate the noise", name);
    if (found->from == SOSMC_NOISE_FROM_DIFFERENCES)
        return complain(SOSMC_EXIT_USAGE,
                        "%s: the noise cannot be estimated: only %" PRId64
                        " pixels have all their neighbours and are not clipped, and it takes %d; give it with --noise",
                        name, found->count, SOSMC_NOISE_SIDE * SOSMC_NOISE_SIDE);
    return complain(SOSMC_EXIT_USAGE,
                    "%s: the noise cannot be estimated: that takes %d x %d pixels of which none is missing, at least "
                    "%d from the border; give it with --noise",
                    name, SOSMC_NOISE_SIDE, SOSMC_NOISE_SIDE, sosmc_blur_reach(&p->blur));
}

static int settle_noise(plan *p)
{
    if (isfinite(p->sigma)) return SOSMC_EXIT_OK;
    sosmc_noise found;
    sosmc_deblur seen = as_seen(p, &p->seen, p->mask);
    sosmc_status status = sosmc_estimate_noise(&seen, &found);
    if (status != SOSMC_OK) return complain_of_noise(p, status, &found);
    p->estimated = found.sigma;
    p->sigma = fmax(p->estimated, sosmc_rounding_noise(p->seen.bits == 16 ? 1 / 257.0 : 1));
    if (p->seen.jpeg) warn_of_jpeg(p);
    return SOSMC_EXIT_OK;
}

/* Missing pixels are filled in, those of the frame too, and the strength of the prior gets a first value. */
static int settle_theta(plan *p)
{
    if (p->mask && sosmc_fill_missing(&p->blur, p->seen.channels, p->seen.pixel) != SOSMC_OK)
        return complain(SOSMC_EXIT_NUMERIC, "out of memory to fill in missing pixels");
    if (image_frame(&p->seen, p->mask, p->frame, &p->whole, &p->whole_mask))
        return complain(SOSMC_EXIT_NUMERIC, "out of memory for the picture and its frame");
    sosmc_deblur whole = as_seen(p, &p->whole, p->whole_mask);
    if (sosmc_fill_missing(&whole.blur, whole.channels, p->whole.pixel) == SOSMC_ENOMEM ||
        sosmc_estimate_theta(&whole, &p->theta) != SOSMC_OK)
        return complain(SOSMC_EXIT_NUMERIC, "out of memory for a first reconstruction");
    return SOSMC_EXIT_OK;
}

/* ---------------------------------------------------------------------------- memory */

/* Bytes of a run of so many particles of d numbers: the engine keeps two clouds of positions (src/engine/setup.c), every thread
 * its scratch, and what the model left is parked up to a limit; start and averaging take copies of the positions.
 * Five vectors per particle, the 75 pictures and the margin are what was measured (docs/imaging.md). */
static double bytes_for(const plan *p, double particles, double threads)
{
    const double parked_most = (double)sosmc_defaults().work_limit, margin = 1.15;
    image framed = p->seen;
    framed.rows += 2 * p->frame;
    framed.columns += 2 * p->frame;
    sosmc_deblur model = as_seen(p, &framed, NULL);
    model.sigma = 1;
    double d = (double)model.blur.rows * model.blur.columns * model.channels;
    double work = (double)sosmc_deblur_model(&model).work, vectors = sosmc_deblur_gibbs(&model, 1).scratch;
    double cloud = 8 * d * 5, thread = 8 * d * (vectors + 2 + 2) + 2 * work;
    double pictures = 8 * d * 75; /* those that start, run and report hold at once */
    return NEED_PROGRAM +
           margin * (particles * cloud + threads * thread + fmin(particles * work, parked_most) + pictures);
}

/* The most particles that take at most so many bytes; 0: not even one. */
static int64_t most_particles(const plan *p, double threads, double bytes)
{
    int64_t low = 0, high = p->particles;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (bytes_for(p, (double)middle, threads) <= bytes)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static int check_memory(const plan *p)
{
    double threads = (double)flag_whole(p->q, THREADS, 1), needed = bytes_for(p, (double)p->particles, threads);
    char what[96], advice[64], error[SENTENCE];
    memory_left left;
    if (memory_find("", &left, error, sizeof error)) return complain(SOSMC_EXIT_USAGE, "%s", error);
    int64_t most = most_particles(p, threads, left.bytes);
    (void)snprintf(what, sizeof what, "deblurring with %" PRId64 " particles of %d x %d pixels", p->particles,
                   p->seen.columns, p->seen.rows);
    if (most > 0)
        (void)snprintf(advice, sizeof advice, "expected --particles of at most %" PRId64, most);
    else
        (void)snprintf(advice, sizeof advice, "expected a smaller picture");
    return memory_check(what, needed, advice, error, sizeof error) ? complain(SOSMC_EXIT_USAGE, "%s", error)
                                                                   : SOSMC_EXIT_OK;
}

/* ---------------------------------------------------------------------------- the run file */

static void put_model(draft *d, const plan *p)
{
    static const char *const names[] = {"none", "box", "gaussian", "motion"};
    draft_put(d, "model:\n  type: deblur\n  picture: ");
    draft_put_quoted(d, p->seen_path);
    draft_put(d, "\n  noise: %.17g\n  theta: %.17g\n  freedom: exact\n  tolerance: %.3g\n  border: %s\n  blur: %s\n",
              p->sigma, p->theta, fmin(fmax(method.tolerance * p->sigma, 1e-7), 1e-3), border_of(p),
              names[p->blur.kind]);
    if (p->blur.kind == SOSMC_BLUR_BOX) draft_put(d, "  patch: %d\n", p->blur.patch);
    if (p->blur.kind == SOSMC_BLUR_GAUSSIAN) draft_put(d, "  blur_sd: %.17g\n", p->blur.sigma);
    if (p->blur.kind == SOSMC_BLUR_MOTION)
        draft_put(d, "  length: %.17g\n  angle: %.17g\n", p->blur.length, p->blur.angle);
    if (!p->mask) return;
    draft_put(d, "  mask: ");
    draft_put_quoted(d, p->mask_path);
    draft_put(d, "\n");
}

static void put_method(draft *d, const plan *p)
{
    draft_put(d, "objective: mmle\ninit:\n  type: file\n  file: ");
    draft_put_quoted(d, p->start_path);
    draft_put(d,
              "\nscheme: {type: unweighted, order: authors, drift_at: current}\n"
              "kernel: {type: gibbs, step: %.17g}\n",
              method.solve);
    draft_put(d,
              "optimiser: {type: %s, rate: %.17g, clip: %.17g, low: %.17g, high: %.17g, schedule: {type: constant}}\n",
              method.optimiser, method.rate, method.clip, method.low, method.high);
}

static config *configure(const plan *p)
{
    const flag_values *q = p->q;
    draft d;
    if (draft_open(&d)) return NULL;
    put_model(&d, p);
    put_method(&d, p);
    draft_put(&d, "particles: %" PRId64 "\niterations: %" PRId64 "\nseed: %s\nthreads: %s\n", p->particles,
              p->iterations, flag_text(q, SEED, "0"), flag_text(q, THREADS, "1"));
    draft_put(&d,
              "output: {particles: false, report: false, moments_from: %" PRId64 ", moments_every: %" PRId64
              ", moments_settle: %s}\n",
              p->moments_from, method.every, p->settle ? "true" : "false");
    return draft_config(&d, q->command, q->set, q->sets);
}

/* ---------------------------------------------------------------------------- going through with it */

/* With --resume, when averaging begins is what it was in the run that is continued, also when it gets more iterations. */
static void keep_burn_in(plan *p)
{
    char path[FILES_PATH], ignored[SENTENCE];
    config *old = NULL;
    if (!flag_given(p->q, RESUME) || files_join(path, p->out, "run.yaml", ignored, sizeof ignored) ||
        access(path, F_OK) != 0 || directory_regular(path, ignored, sizeof ignored) ||
        !(old = config_load(path, ignored, sizeof ignored)))
        return;
    if (config_resolve(old, ignored, sizeof ignored) == 0 && config_has(old, "output.moments_from")) {
        p->moments_from = config_integer(old, "output.moments_from");
        p->settle = config_flag(old, "output.moments_settle");
        if (!flag_given(p->q, ITERATIONS)) p->iterations = config_integer(old, "iterations");
    }
    config_free(old);
}

static int make_plan(plan *p)
{
    const flag_values *q = p->q;
    if (read_noise(p) || read_blur(flag_text(q, BLUR, "none"), &p->blur, p->blur_words, sizeof p->blur_words))
        return SOSMC_EXIT_USAGE;
    if (image_read_part(q->operand, 0, &p->seen, p->error, sizeof p->error)) return plan_says(p, SOSMC_EXIT_IO);
    if (!realpath(q->operand, p->photo_path))
        return complain(SOSMC_EXIT_IO, "cannot find %s: %s", q->operand, strerror(errno));
    p->blur.rows = p->seen.rows;
    p->blur.columns = p->seen.columns;
    p->particles = flag_whole(q, PARTICLES, method.particles);
    p->settle = !flag_given(q, ITERATIONS);
    p->iterations = flag_whole(q, ITERATIONS, method.most);
    p->moments_from = p->settle ? method.burn_in : p->iterations / 2;
    p->frame = strcmp(border_of(p), "unknown") == 0 ? sosmc_blur_reach(&p->blur) : 0;
    if (flag_given(q, OUT))
        (void)snprintf(p->out, sizeof p->out, "%s", q->value[OUT]);
    else
        default_directory(q->operand, p->out);
    keep_burn_in(p);
    int code = check_picture(p);
    if (code == SOSMC_EXIT_OK) code = check_memory(p);
    if (code == SOSMC_EXIT_OK && image_read(q->operand, &p->seen, p->error, sizeof p->error))
        code = plan_says(p, SOSMC_EXIT_IO);
    if (code == SOSMC_EXIT_OK) code = read_mask(p);
    if (code == SOSMC_EXIT_OK && flag_given(q, SIMULATE)) code = simulate(p);
    if (code == SOSMC_EXIT_OK) code = settle_noise(p);
    if (code == SOSMC_EXIT_OK) code = settle_theta(p);
    if (code != SOSMC_EXIT_OK) return code;
    if (files_join(p->start_path, p->out, "start.npy", p->error, sizeof p->error))
        return plan_says(p, SOSMC_EXIT_USAGE);
    if (!p->mask && !flag_given(q, SIMULATE))
        (void)snprintf(p->seen_path, sizeof p->seen_path, "%s", q->operand);
    else if (files_join(p->seen_path, p->out, "seen.npy", p->error, sizeof p->error))
        code = plan_says(p, SOSMC_EXIT_USAGE);
    return code;
}

static int write_seen(plan *p)
{
    npy_array a = {
        .type = NPY_F64, .dims = 3, .shape = {p->seen.channels, p->seen.rows, p->seen.columns}, .data = p->seen.pixel};
    if (strcmp(p->seen_path, p->q->operand) == 0) return SOSMC_EXIT_OK;
    return npy_write(p->seen_path, &a, p->error, sizeof p->error) ? plan_says(p, SOSMC_EXIT_IO) : SOSMC_EXIT_OK;
}

static int estimate_start(plan *p, double *x)
{
    sosmc_deblur whole = as_seen(p, &p->whole, p->whole_mask);
    sosmc_status status = sosmc_estimate_start(&whole, p->theta, x);
    if (status == SOSMC_OK) return 0;
    return files_fail(p->error, sizeof p->error, "%s",
                      status == SOSMC_ENOMEM ? "out of memory for a first reconstruction"
                                             : "the picture has values that cannot be computed with");
}

/* A first reconstruction for every particle, with noise of its own. */
static int write_start(plan *p)
{
    size_t dim = (size_t)p->whole.rows * (size_t)p->whole.columns * (size_t)p->whole.channels;
    double *x = malloc(dim * (size_t)p->particles * sizeof *x), *first = malloc(dim * sizeof *first);
    double spread = method.spread * exp(-p->theta);
    if (!x || !first) {
        free(x);
        free(first);
        return complain(SOSMC_EXIT_NUMERIC, "out of memory for %" PRId64 " particles", p->particles);
    }
    npy_array a = npy_matrix(x, p->particles, (int64_t)dim);
    int rc = estimate_start(p, first);
    for (int64_t i = 0; rc == 0 && i < p->particles; i++) {
        double *own = x + (size_t)i * dim;
        sosmc_rng rng = {.seed = flag_given(p->q, SEED) ? strtoull(p->q->value[SEED], NULL, 10) : 0,
                         .stream = SOSMC_STREAM_USER + 1};
        sosmc_batch b = {.dim = (int)dim, .n = 1, .ld = 1, .first = i, .simd = sosmc_simd_best()};
        sosmc_normals(rng, &b, own);
        for (size_t j = 0; j < dim; j++) own[j] = first[j] + spread * own[j];
    }
    if (rc == 0) rc = npy_write(p->start_path, &a, p->error, sizeof p->error);
    free(x);
    free(first);
    return rc ? plan_says(p, SOSMC_EXIT_IO) : SOSMC_EXIT_OK;
}

static int restore(plan *p)
{
    const flag_values *q = p->q;
    if (draft_holds_run(p->out) && !flag_given(q, RESUME) && !flag_given(q, OVERWRITE))
        return complain(SOSMC_EXIT_USAGE,
                        "%s already holds a run; continue it with --resume, replace it with --overwrite, or choose "
                        "another --out",
                        p->out);
    config *c = configure(p);
    if (!c) return SOSMC_EXIT_USAGE;
    if (!flag_given(q, QUIET))
        printf("noise %.3g (%s), %d x %d pixels, %d %s\n", p->sigma, isnan(p->estimated) ? "given" : "estimated",
               p->seen.columns, p->seen.rows, p->seen.channels, p->seen.channels == 1 ? "channel" : "channels");
    /* The run itself reads the photograph, unless what was seen is stored. */
    const char *photo = strcmp(p->seen_path, q->operand) != 0 ? p->photo_path : NULL;
    session_options options = {.out = p->out,
                               .resume = flag_given(q, RESUME),
                               .overwrite = flag_given(q, OVERWRITE),
                               .quiet = flag_given(q, QUIET),
                               .strict = flag_given(q, STRICT),
                               .accept_changed = flag_given(q, ACCEPT),
                               .unnamed = !flag_given(q, OUT),
                               .photo = photo,
                               .budget_seconds = flag_number(q, TIME_LIMIT, 0)};
    static const char *const names[] = {"start.npy", "seen.npy", "restored.png", "sd.png", "before.png", "deblur.json"};
    run_lock lock = {.held = 0};
    int code = draft_take_place(c, &options, p->out, photo, names, sizeof names / sizeof *names, 2, &lock);
    if (code == SOSMC_EXIT_OK) code = write_seen(p);
    if (code == SOSMC_EXIT_OK) code = write_start(p);
    if (code == SOSMC_EXIT_OK) code = session_run(c, &options);
    deblur_outcome outcome = {.dir = p->out,
                              .photo = q->operand,
                              .photo_path = p->photo_path,
                              .seen_stored = photo != NULL,
                              .warning = *p->warning ? p->warning : NULL,
                              .blur = p->blur_words,
                              .sigma = p->sigma,
                              .estimated = p->estimated,
                              .theta0 = p->theta,
                              .frame = p->frame,
                              .bits = p->seen.bits,
                              .quiet = flag_given(q, QUIET),
                              .seen = &p->seen,
                              .clean = flag_given(q, SIMULATE) ? &p->clean : NULL};
    if ((code == SOSMC_EXIT_OK || code == SOSMC_EXIT_UNTRUSTED) && deblur_results(&outcome, p->error, sizeof p->error))
        code = plan_says(p, interrupt_requested() ? SOSMC_EXIT_INTERRUPTED : SOSMC_EXIT_IO);
    lock_give_back(&lock);
    config_free(c);
    return code;
}

static int print_plan(const plan *p)
{
    char words[NEED_WORDS], start[FILES_PATH], seen[FILES_PATH];
    config *c = configure(p);
    if (!c) return SOSMC_EXIT_USAGE;
    int stored = strcmp(p->seen_path, p->q->operand) != 0;
    printf("# %s%s%s: made from the picture by 'sosmc deblur' when it runs.\n",
           words_line(p->start_path, start, sizeof start), stored ? " and " : "",
           stored ? words_line(p->seen_path, seen, sizeof seen) : "");
    printf("# The run takes %s of memory.\n",
           need_words(bytes_for(p, (double)p->particles, (double)flag_whole(p->q, THREADS, 1)), words));
    int code = config_write(c, stdout) || fflush(stdout) ? complain(SOSMC_EXIT_IO, "cannot write to standard output")
                                                         : SOSMC_EXIT_OK;
    config_free(c);
    return code;
}

int deblur_owns(const char *dir)
{
    char path[FILES_PATH];
    return files_join(path, dir, "deblur.json", NULL, 0) == 0 && access(path, F_OK) == 0;
}

int command_deblur(int argc, char **argv)
{
    flag_values q;
    int code;
    if (flags_read(&q, flag_table, FLAGS, 0, argc, argv, "PHOTO", deblur_text, &code)) return code;
    plan *p = calloc(1, sizeof *p);
    if (!p) return complain(SOSMC_EXIT_NUMERIC, "out of memory");
    p->q = &q;
    code = make_plan(p);
    if (code == SOSMC_EXIT_OK) code = flag_given(&q, PRINT) ? print_plan(p) : restore(p);
    plan_free(p);
    free(p);
    return code;
}
