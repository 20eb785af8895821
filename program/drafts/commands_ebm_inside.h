/* commands_ebm_inside.h: what `train`, `tune` and `sample` share: their flags, the parts of a run file that more than one of
 * them writes, and running it.
 *
 * Functions that return int are 0 for success and have otherwise said what went wrong. */
#ifndef SOSMC_DRAFTS_COMMANDS_EBM_INSIDE_H
#define SOSMC_DRAFTS_COMMANDS_EBM_INSIDE_H

#include <stddef.h>
#include <stdint.h>

#include "commands_ebm.h"
#include "runfile/config.h"
#include "draft.h"
#include "terminal/flags.h"

enum { EBM_SENTENCE = 1024, EBM_NAME = 256 };

/* ------------------------------------------------------------------------------------------------ flags */

#define EBM_COMMON_FLAGS                                                                                              \
    "  --seed S              the same as --set seed=S\n"                                                              \
    "  --threads T           the same as --set threads=T; the results do not depend on it\n"                          \
    "  --set KEY=VALUE       any key of the run file, with dots: --set optimiser.rate=1e-3\n"                         \
    "  --print               write the run file to standard output instead of running it\n"                           \
    "  --resume, --overwrite, --accept-changed-inputs, --budget-seconds B, --quiet, --strict    as for 'sosmc run'\n" \
    "\n"

enum { FOR_TRAIN = 1, FOR_TUNE = 2, FOR_SAMPLE = 4, FOR_ALL = 7 };
typedef enum {
    FLAG_EPOCHS,
    FLAG_HIDDEN,
    FLAG_ACTIVATION,
    FLAG_BATCH,
    FLAG_PARTICLES,
    FLAG_REWARD,
    FLAG_BETA,
    FLAG_METHOD,
    FLAG_KERNEL,
    FLAG_ITERATIONS,
    FLAG_RATE,
    FLAG_START,
    FLAG_CHAINS,
    FLAG_STEPS,
    FLAG_STEP,
    FLAG_NETWORK,
    FLAG_SWEEPS,
    FLAG_NOISE_SCALE,
    FLAG_WARM,
    FLAG_PURIFY,
    FLAG_MASK,
    FLAG_REWARD_NETWORK,
    FLAG_OUTPUT,
    FLAG_REWARD_SCALE,
    FLAG_OUT,
    FLAG_SEED,
    FLAG_THREADS,
    FLAG_BUDGET,
    FLAG_SET,
    FLAG_CD,
    FLAG_WEIGHTED,
    FLAG_NO_STANDARDISE,
    FLAG_DROP_MISSING,
    FLAG_SCALED,
    FLAG_FORWARD,
    FLAG_PAPER,
    FLAG_SMC,
    FLAG_RESUME,
    FLAG_OVERWRITE,
    FLAG_ACCEPT,
    FLAG_QUIET,
    FLAG_STRICT,
    FLAG_PRINT,
    FLAG_HELP,
    EBM_FLAGS
} ebm_flag;

const char *ebm_flag_name(ebm_flag f);

/* 0: go on; otherwise *code is what the program exits with. */
int ebm_read_flags(flag_values *q, int argc, char **argv, int command, const char *operand, const char *help,
                   int *code);
/* The first flag of the list that was given; EBM_FLAGS: none of them. The caller lists flags that the model cannot use. */
ebm_flag ebm_stray(const flag_values *q, const ebm_flag *list, size_t n);
/* Two flags that say the same thing must not both be given. */
int ebm_only_one(const flag_values *q, ebm_flag one, ebm_flag other);
/* Whether --set names a key that the solver decides, or says who chooses the settings. */
int ebm_set_chooses(const flag_values *q);
/* path/circles.npz -> circles; path/circles/model.safetensors, as a run leaves it -> circles */
void ebm_name_of(const char *path, char out[EBM_NAME]);

/* ------------------------------------------------------------------------------------------------ running it */

void ebm_put_seed(draft *d, const flag_values *q); /* and threads */
/* iterations below 0: the run ends by itself. */
void ebm_put_ending(draft *d, const flag_values *q, int64_t particles, int64_t iterations, int64_t thin, int report);
/* Turns the draft into a resolved run file and frees the draft. */
config *ebm_configure(const flag_values *q, draft *d, int with_sets);
int ebm_print_or_run(const flag_values *q, draft *d, const char *out);

/* ------------------------------------------------------------------------------------------------ samplers */

/* The sampler with which pictures are trained. It makes the first pictures of training, moves the particles of a tuning run
 * before it starts, and makes the fresh pictures of evaluations. */
typedef struct {
    double step, noise, clamp, gradient_clip;
    int warm, chains, steps;
} ebm_jitter_settings;
extern const ebm_jitter_settings ebm_jitter;

/* A kernel and its first step. The step of a kernel with a Metropolis test is adapted to this acceptance and stays below
 * `most`. */
typedef struct {
    const char *name;
    double step, acceptance, most;
} ebm_kernel;
const ebm_kernel *ebm_kernel_named(const char *name); /* one that --kernel may name */

/* Samples: long chains from a box, or a cloud that is cooled from a normal law and then moved a while at the model. */
enum { EBM_CHAINS = 1000, EBM_TEMPERED = 10000, EBM_CHAIN_STEPS = 20000, EBM_COOLING = 500, EBM_SMC_STEPS = 600 };

void ebm_put_jitter(draft *d, double step, const char *noise);
void ebm_put_kernel(draft *d, const ebm_kernel *k, double step, const char *noise); /* noise NULL: the kernel's own */
void ebm_put_noise(draft *d);                                                       /* pictures of uniform pixels */
void ebm_put_chains(draft *d, int pictures);
void ebm_put_cooling(draft *d);

/* ------------------------------------------------------------------------------------------------ stored models and rewards */

/* What a stored model is a model of: points, or pictures with their shape. */
typedef struct {
    int inputs, channels, rows, columns; /* channels 0: points */
    int has_base;                        /* the energy of points has a Gaussian base law */
    double middle[2]; /* of the first coordinates, where the points it was fitted to had their mean */
} ebm_subject;

int ebm_subject_of(const flag_values *q, ebm_subject *s);
int ebm_of_pictures(const ebm_subject *s);
void ebm_put_model(draft *d, const flag_values *q);

int ebm_check_reward(const flag_values *q, const ebm_subject *s);
const char *ebm_picture_reward(const flag_values *q); /* NULL: none was asked for */
/* The reward's own name, or "reward" for a formula. */
const char *ebm_reward_name(const flag_values *q, const ebm_subject *s);
void ebm_put_reward(draft *d, const flag_values *q, const ebm_subject *s);

#endif
