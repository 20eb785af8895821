/* commands_ebm.c: what `train`, `tune` and `sample` share: from flags to the text of a run file, and from there to run_job.
 *
 * Invariant: whatever a command does, `sosmc run` does with the file that --print shows; there is no second loop here. */
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands_ebm_inside.h"
#include "files.h"
#include "progress.h"
#include "run.h"
#include "schema.h"

/* ---------------------------------------------------------------------------- flags */

/* `like`: a key of the run file whose type and range the value must have; `words`: what it may be; neither: text. */
static const struct {
    const char *name, *like, *words;
    int commands, takes_value;
} flag_table[EBM_FLAGS] = {
    [FLAG_EPOCHS] = {"epochs", "particles", NULL, FOR_TRAIN, 1},
    [FLAG_HIDDEN] = {"hidden", NULL, NULL, FOR_TRAIN, 1},
    [FLAG_ACTIVATION] = {"activation", "model.activation", NULL, FOR_TRAIN, 1},
    [FLAG_BATCH] = {"batch", "particles", NULL, FOR_TRAIN, 1},
    [FLAG_PARTICLES] = {"particles", "particles", NULL, FOR_TRAIN | FOR_TUNE, 1},
    [FLAG_REWARD] = {"reward", NULL, NULL, FOR_TUNE | FOR_SAMPLE, 1},
    [FLAG_BETA] = {"beta", "objective.beta", NULL, FOR_TUNE, 1},
    [FLAG_METHOD] = {"method", NULL, "sosmc|impdiff|soul", FOR_TUNE, 1},
    [FLAG_KERNEL] = {"kernel", NULL, "ula|mala|rwm|hmc|underdamped|leapfrog|jitter", FOR_TUNE | FOR_SAMPLE, 1},
    [FLAG_ITERATIONS] = {"iterations", "iterations", NULL, FOR_TUNE, 1},
    [FLAG_RATE] = {"rate", "optimiser.rate", NULL, FOR_TUNE, 1},
    [FLAG_START] = {"start", NULL, NULL, FOR_TUNE, 1},
    [FLAG_CHAINS] = {"chains", "particles", NULL, FOR_SAMPLE, 1},
    [FLAG_STEPS] = {"steps", "objective.steps", NULL, FOR_SAMPLE, 1},
    [FLAG_STEP] = {"step", "kernel.step", NULL, FOR_TUNE | FOR_SAMPLE, 1},
    [FLAG_NETWORK] = {"network", NULL, NULL, FOR_ALL, 1},
    [FLAG_SWEEPS] = {"sweeps", "particles", NULL, FOR_TRAIN, 1},
    [FLAG_NOISE_SCALE] = {"noise-scale", "kernel.noise", NULL, FOR_TUNE | FOR_SAMPLE, 1},
    [FLAG_WARM] = {"warm", "objective.steps", NULL, FOR_TUNE, 1},
    [FLAG_PURIFY] = {"purify", "iterations", NULL, FOR_TUNE, 1},
    [FLAG_MASK] = {"mask", NULL, NULL, FOR_TUNE | FOR_SAMPLE, 1},
    [FLAG_REWARD_NETWORK] = {"reward-network", NULL, NULL, FOR_TUNE | FOR_SAMPLE, 1},
    [FLAG_OUTPUT] = {"output", "objective.reward.output", NULL, FOR_TUNE | FOR_SAMPLE, 1},
    [FLAG_REWARD_SCALE] = {"reward-scale", "objective.reward.scale", NULL, FOR_TUNE | FOR_SAMPLE, 1},
    [FLAG_OUT] = {"out", NULL, NULL, FOR_ALL, 1},
    [FLAG_SEED] = {"seed", "seed", NULL, FOR_ALL, 1},
    [FLAG_THREADS] = {"threads", "threads", NULL, FOR_ALL, 1},
    [FLAG_BUDGET] = {"budget-seconds", "output.checkpoint_seconds", NULL, FOR_ALL, 1},
    [FLAG_SET] = {"set", NULL, NULL, FOR_ALL, 1},
    [FLAG_WEIGHTED] = {"weighted", NULL, NULL, FOR_TRAIN, 0},
    [FLAG_NO_STANDARDISE] = {"no-standardise", NULL, NULL, FOR_TRAIN, 0},
    [FLAG_FORWARD] = {"forward", NULL, NULL, FOR_TUNE, 0},
    [FLAG_PAPER] = {"paper", NULL, NULL, FOR_TUNE, 0},
    [FLAG_SHARP] = {"sharp", NULL, NULL, FOR_TUNE, 0},
    [FLAG_SMC] = {"smc", NULL, NULL, FOR_SAMPLE, 0},
    [FLAG_RESUME] = {"resume", NULL, NULL, FOR_ALL, 0},
    [FLAG_OVERWRITE] = {"overwrite", NULL, NULL, FOR_ALL, 0},
    [FLAG_QUIET] = {"quiet", NULL, NULL, FOR_ALL, 0},
    [FLAG_PRINT] = {"print", NULL, NULL, FOR_ALL, 0},
    [FLAG_HELP] = {"help", NULL, NULL, FOR_ALL, 0},
};

const char *ebm_flag_name(ebm_flag f) { return flag_table[f].name; }

int ebm_given(const ebm_request *q, ebm_flag f) { return q->value[f] != NULL; }
const char *ebm_text_of(const ebm_request *q, ebm_flag f, const char *otherwise)
{
    return q->value[f] ? q->value[f] : otherwise;
}
double ebm_number_of(const ebm_request *q, ebm_flag f, double otherwise)
{
    return q->value[f] ? strtod(q->value[f], NULL) : otherwise;
}
int64_t ebm_whole_of(const ebm_request *q, ebm_flag f, int64_t otherwise)
{
    return q->value[f] ? (int64_t)strtod(q->value[f], NULL) : otherwise;
}

ebm_flag ebm_stray(const ebm_request *q, const ebm_flag *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (ebm_given(q, list[i])) return list[i];
    return EBM_FLAGS;
}

static int take_flag(ebm_request *q, ebm_flag f, const char *value)
{
    char expected[256];
    const schema_key *row = flag_table[f].like ? schema_find(flag_table[f].like) : NULL;
    q->value[f] = value;
    if (f == FLAG_SET) {
        if (q->sets == EBM_SETS) return complain(-1, "more than %d --set", EBM_SETS);
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

int ebm_read_flags(ebm_request *q, int argc, char **argv, int command, const char *operand, const char *help, int *code)
{
    struct option known[EBM_FLAGS + 1] = {{0}};
    int n = 0, option;
    for (int f = 0; f < EBM_FLAGS; f++)
        if (flag_table[f].commands & command)
            known[n++] = (struct option){flag_table[f].name, flag_table[f].takes_value, NULL, 256 + f};
    *q = (ebm_request){.command = argv[0], .begun = monotonic_seconds()};
    *code = SOSMC_EXIT_USAGE;
    optind = 0; /* begin anew, whoever parsed before */
    while ((option = getopt_long(argc, argv, "h", known, NULL)) != -1)
        if (option == '?' || take_flag(q, option == 'h' ? FLAG_HELP : (ebm_flag)(option - 256), optarg ? optarg : ""))
            return -1;
    if (ebm_given(q, FLAG_HELP)) {
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

/* ---------------------------------------------------------------------------- running it */

void ebm_put_ending(draft *d, const ebm_request *q, int64_t particles, int64_t iterations, int64_t thin, int report)
{
    draft_put(d, "particles: %" PRId64 "\niterations: %" PRId64 "\nseed: %s\nthreads: %s\n", particles, iterations,
              ebm_text_of(q, FLAG_SEED, "0"), ebm_text_of(q, FLAG_THREADS, "1"));
    draft_put(d, "output: {thin: %" PRId64 ", report: %s}\n", thin > 1 ? thin : 1, report ? "true" : "false");
}

config *ebm_configure(const ebm_request *q, draft *d, int with_sets)
{
    return draft_config(d, q->command, q->set, with_sets ? q->sets : 0);
}

int ebm_print_config(const config *c)
{
    return config_write(c, stdout) || fflush(stdout) ? complain(SOSMC_EXIT_IO, "cannot write to standard output")
                                                     : SOSMC_EXIT_OK;
}

static int run_config(const ebm_request *q, const config *c, const char *out)
{
    run_options options = {.out = out,
                           .resume = ebm_given(q, FLAG_RESUME),
                           .overwrite = ebm_given(q, FLAG_OVERWRITE),
                           .quiet = ebm_given(q, FLAG_QUIET),
                           .budget_seconds = ebm_number_of(q, FLAG_BUDGET, 0)};
    return run_job(c, &options);
}

int ebm_print_or_run(const ebm_request *q, draft *d, const char *out)
{
    config *c = ebm_configure(q, d, 1);
    if (!c) return SOSMC_EXIT_USAGE;
    int code = ebm_given(q, FLAG_PRINT) ? ebm_print_config(c) : run_config(q, c, out);
    config_free(c);
    return code;
}

void ebm_name_of(const char *path, char out[EBM_NAME])
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
    (void)snprintf(out, EBM_NAME, "%.*s", (int)(end - base), base);
}
