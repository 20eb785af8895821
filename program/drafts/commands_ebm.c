/* commands_ebm.c: what `train`, `tune` and `sample` share: from flags to the text of a run file, and from there to session_run.
 *
 * Invariant: whatever a command does, `sosmc run` does with the file that --print shows; there is no second loop here. */
#include <inttypes.h>
#include <string.h>

#include "commands_ebm_inside.h"
#include "files/files.h"
#include "terminal/say.h"
#include "terminal/session.h"

/* ---------------------------------------------------------------------------- flags */

_Static_assert((int)EBM_FLAGS <= (int)FLAGS_MOST, "flags.h has room for them");
static const flag_row flag_table[EBM_FLAGS] = {
    [FLAG_EPOCHS] = {.name = "epochs", .like = "particles", .commands = FOR_TRAIN, .takes_value = 1},
    [FLAG_HIDDEN] = {.name = "hidden", .commands = FOR_TRAIN, .takes_value = 1},
    [FLAG_ACTIVATION] = {.name = "activation", .like = "model.activation", .takes_value = 1},
    [FLAG_BATCH] = {.name = "batch", .like = "particles", .commands = FOR_TRAIN, .takes_value = 1},
    [FLAG_PARTICLES] = {.name = "particles", .like = "particles", .takes_value = 1},
    [FLAG_REWARD] = {.name = "reward", .commands = FOR_TUNE | FOR_SAMPLE, .takes_value = 1},
    [FLAG_BETA] = {.name = "beta", .like = "objective.beta", .commands = FOR_TUNE | FOR_SAMPLE, .takes_value = 1},
    [FLAG_METHOD] = {.name = "method", .words = "sosmc|impdiff|soul", .commands = FOR_TUNE, .takes_value = 1},
    [FLAG_KERNEL] = {.name = "kernel",
                     .words = "ula|mala|rwm|hmc|underdamped|leapfrog|jitter",
                     .commands = FOR_TUNE | FOR_SAMPLE,
                     .takes_value = 1},
    [FLAG_ITERATIONS] = {.name = "iterations", .like = "iterations", .takes_value = 1},
    [FLAG_RATE] = {.name = "rate", .like = "optimiser.rate", .commands = FOR_TUNE, .takes_value = 1},
    [FLAG_START] = {.name = "start", .commands = FOR_TUNE, .takes_value = 1},
    [FLAG_CHAINS] = {.name = "chains", .like = "particles", .commands = FOR_SAMPLE, .takes_value = 1},
    [FLAG_STEPS] = {.name = "steps", .like = "objective.steps", .commands = FOR_SAMPLE, .takes_value = 1},
    [FLAG_STEP] = {.name = "step", .like = "kernel.step", .commands = FOR_TUNE | FOR_SAMPLE, .takes_value = 1},
    [FLAG_NETWORK] = {.name = "network", .takes_value = 1},
    [FLAG_SWEEPS] = {.name = "sweeps", .like = "particles", .commands = FOR_TRAIN, .takes_value = 1},
    [FLAG_NOISE_SCALE] = {.name = "noise-scale",
                          .like = "kernel.noise",
                          .commands = FOR_TUNE | FOR_SAMPLE,
                          .takes_value = 1},
    [FLAG_WARM] = {.name = "warm", .like = "objective.steps", .commands = FOR_TUNE, .takes_value = 1},
    [FLAG_PURIFY] = {.name = "purify", .like = "iterations", .commands = FOR_TUNE, .takes_value = 1},
    [FLAG_MASK] = {.name = "mask", .commands = FOR_TUNE | FOR_SAMPLE, .takes_value = 1},
    [FLAG_REWARD_NETWORK] = {.name = "reward-network", .commands = FOR_TUNE | FOR_SAMPLE, .takes_value = 1},
    [FLAG_OUTPUT] = {.name = "output",
                     .like = "objective.reward.output",
                     .commands = FOR_TUNE | FOR_SAMPLE,
                     .takes_value = 1},
    [FLAG_REWARD_SCALE] = {.name = "reward-scale",
                           .like = "objective.reward.scale",
                           .commands = FOR_TUNE | FOR_SAMPLE,
                           .takes_value = 1},
    [FLAG_OUT] = {.name = "out", .takes_value = 1},
    [FLAG_SEED] = {.name = "seed", .like = "seed", .takes_value = 1},
    [FLAG_THREADS] = {.name = "threads", .like = "threads", .takes_value = 1},
    [FLAG_BUDGET] = {.name = "budget-seconds", .like = "output.checkpoint_seconds", .takes_value = 1},
    [FLAG_SET] = {.name = "set", .takes_value = 1},
    [FLAG_CD] = {.name = "cd", .commands = FOR_TRAIN},
    [FLAG_WEIGHTED] = {.name = "weighted", .commands = FOR_TRAIN},
    [FLAG_NO_STANDARDISE] = {.name = "no-standardise", .commands = FOR_TRAIN},
    [FLAG_DROP_MISSING] = {.name = "drop-missing", .commands = FOR_TRAIN},
    [FLAG_SCALED] = {.name = "scaled"},
    [FLAG_FORWARD] = {.name = "forward", .commands = FOR_TUNE},
    [FLAG_PAPER] = {.name = "paper", .commands = FOR_TUNE},
    [FLAG_SMC] = {.name = "smc", .commands = FOR_SAMPLE},
    [FLAG_RESUME] = {.name = "resume"},
    [FLAG_OVERWRITE] = {.name = "overwrite"},
    [FLAG_ACCEPT] = {.name = "accept-changed-inputs"},
    [FLAG_QUIET] = {.name = "quiet"},
    [FLAG_STRICT] = {.name = "strict"},
    [FLAG_PRINT] = {.name = "print"},
    [FLAG_HELP] = {.name = "help"},
};

const char *ebm_flag_name(ebm_flag f) { return flag_table[f].name; }

ebm_flag ebm_stray(const flag_values *q, const ebm_flag *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (flag_given(q, (int)list[i])) return list[i];
    return EBM_FLAGS;
}

int ebm_only_one(const flag_values *q, ebm_flag one, ebm_flag other)
{
    if (!flag_given(q, (int)one) || !flag_given(q, (int)other)) return 0;
    return complain(-1, "--%s stands beside --%s; expected only one of them", ebm_flag_name(one), ebm_flag_name(other));
}

int ebm_read_flags(flag_values *q, int argc, char **argv, int command, const char *operand, const char *help, int *code)
{
    return flags_read(q, flag_table, EBM_FLAGS, command, argc, argv, operand, help, code);
}

/* ---------------------------------------------------------------------------- running it */

void ebm_put_seed(draft *d, const flag_values *q)
{
    draft_put(d, "seed: %s\nthreads: %s\n", flag_text(q, FLAG_SEED, "0"), flag_text(q, FLAG_THREADS, "1"));
}

void ebm_put_ending(draft *d, const flag_values *q, int64_t particles, int64_t iterations, int64_t thin, int report)
{
    draft_put(d, "particles: %" PRId64 "\n", particles);
    ebm_put_seed(d, q);
    if (iterations >= 0) draft_put(d, "iterations: %" PRId64 "\n", iterations);
    draft_put(d, "output: {thin: %" PRId64 ", report: %s}\n", thin > 1 ? thin : 1, report ? "true" : "false");
}

config *ebm_configure(const flag_values *q, draft *d, int with_sets)
{
    return draft_config(d, q->command, q->set, with_sets ? q->sets : 0);
}

static int run_config(const flag_values *q, const config *c, const char *out)
{
    session_options options = {.out = out,
                               .resume = flag_given(q, FLAG_RESUME),
                               .overwrite = flag_given(q, FLAG_OVERWRITE),
                               .accept_changed = flag_given(q, FLAG_ACCEPT),
                               .unnamed = !flag_given(q, FLAG_OUT),
                               .quiet = flag_given(q, FLAG_QUIET),
                               .strict = flag_given(q, FLAG_STRICT),
                               .budget_seconds = flag_number(q, FLAG_BUDGET, 0)};
    return session_run(c, &options);
}

int ebm_print_or_run(const flag_values *q, draft *d, const char *out)
{
    config *c = ebm_configure(q, d, 1);
    if (!c) return SOSMC_EXIT_USAGE;
    int code = flag_given(q, FLAG_PRINT) ? session_print(c) : run_config(q, c, out);
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
