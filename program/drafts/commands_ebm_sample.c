/* commands_ebm_sample.c: `sosmc sample`: a run file that samples a stored model, or the model tilted by a reward: by tempering, by
 * chains, or by a cooled cloud. */
#include <inttypes.h>

#include "commands_ebm_inside.h"
#include "terminal/say.h"

const char sample_text[] =
    "sosmc sample MODEL [options]\n"
    "\n"
    "Samples a stored network (safetensors or NPZ); the points or pictures are left in DIR/samples.npy.\n"
    "\n"
    "Up to 20 coordinates, weighted particles are tempered: separate modes get their masses, and log Z and the mean reward\n"
    "are reported with their errors. Above, and where a flag chooses them, independent chains start from a box; they may miss\n"
    "modes or give them wrong masses, so their verdict is never 'converged'.\n"
    "\n"
    "  --particles N         points (default 10000 by tempering; 1000 chains; 64 pictures)\n"
    "  --chains N            the same, by chains (with --smc: by tempering)\n"
    "  --steps K             moves of each chain (default 20000; 512 for pictures); this, --kernel, --step and --noise-scale\n"
    "                        choose chains too\n"
    "  --iterations K        the same as --steps K\n"
    "  --kernel K            ula (default; mala with --smc), rwm, hmc, underdamped, leapfrog, or jitter\n"
    "                        (default for pictures: noise, then a gradient that is held in bounds)\n"
    "  --step H              its step size (default: 0.005 for ula, 10 for jitter)\n"
    "  --noise-scale S       the factor of its noise (default 1; for jitter, the noise itself, 0.005)\n"
    "  --smc                 tempering, whatever the number of coordinates. With --steps, --kernel, --step or --noise-scale\n"
    "                        the temperatures are fixed, and the moves are yours\n"
    "  --reward R            a reward whose mean is told, with --mask, --reward-network, --output and --reward-scale as for\n"
    "                        'sosmc tune'\n"
    "  --beta B              samples the model tilted by the reward, exp(-U + R/B), by tempering: the best of all densities\n"
    "                        for what 'sosmc tune' does with this reward and B, with its KL to the model\n"
    "  --network N           the layers of a MODEL of pictures that does not describe them: mnist or a description\n"
    "  --activation A        what follows the hidden layers of a MODEL that does not say it: silu, softplus or tanh\n"
    "  --scaled              points and densities as the network was fitted, instead of those of the data\n"
    "  --out DIR             the run directory (default: samples-MODEL)\n" EBM_COMMON_FLAGS "Example:\n"
    "  sosmc sample circles/model.safetensors --reward lower\n"
    "  sosmc sample circles/model.safetensors --reward lower --beta 0.25\n"
    "  sosmc sample digits/model.safetensors --reward bright\n";

static int64_t cooling_of(int64_t steps)
{
    int64_t cooling = steps * EBM_COOLING / EBM_SMC_STEPS;
    return cooling > 0 ? cooling : 1;
}

static int is_scored(const flag_values *q, const ebm_subject *s)
{
    return ebm_of_pictures(s) ? ebm_picture_reward(q) != NULL : flag_given(q, FLAG_REWARD);
}

/* Flags that choose moves: with them the temperatures are fixed. */
static ebm_flag chosen_move(const flag_values *q)
{
    static const ebm_flag moves[] = {FLAG_STEPS, FLAG_ITERATIONS, FLAG_KERNEL, FLAG_STEP, FLAG_NOISE_SCALE};
    return ebm_stray(q, moves, sizeof moves / sizeof *moves);
}

/* Chains are for many coordinates, for pictures, and for those who ask for them by a flag. */
static int is_tempered(const flag_values *q, const ebm_subject *s)
{
    enum { MOST_TEMPERED = 20 };
    if (flag_given(q, FLAG_BETA) || chosen_move(q) != EBM_FLAGS) return flag_given(q, FLAG_BETA);
    return flag_given(q, FLAG_SMC) ||
           (!ebm_of_pictures(s) && s->inputs <= MOST_TEMPERED && !flag_given(q, FLAG_CHAINS) && !ebm_set_chooses(q));
}

static int check_tilt(const flag_values *q, const ebm_subject *s)
{
    ebm_flag move = chosen_move(q);
    if (!flag_given(q, FLAG_BETA)) return 0;
    if (ebm_of_pictures(s))
        return complain(-1,
                        "--beta tilts a law, and a sampler of pictures follows none that is known; 'sosmc tune' moves "
                        "pictures towards a reward");
    if (!flag_given(q, FLAG_REWARD)) return complain(-1, "--beta needs --reward: what the model is tilted by");
    if (!(flag_number(q, FLAG_BETA, 1) > 0))
        return complain(-1, "--beta is %s; expected a number above 0", q->value[FLAG_BETA]);
    return move == EBM_FLAGS ? 0
                             : complain(-1, "--%s stands beside --beta, which samples by tempering and finds its moves",
                                        ebm_flag_name(move));
}

/* The run file of tempering has no settings but the number of particles. */
static int sample_by_tempering(const flag_values *q, const ebm_subject *s, const char *out)
{
    draft d;
    if (draft_open(&d)) return SOSMC_EXIT_NUMERIC;
    ebm_put_model(&d, q);
    draft_put(&d, "objective:\n  type: temper\n");
    if (is_scored(q, s)) ebm_put_reward(&d, q, s);
    if (flag_given(q, FLAG_BETA)) draft_put(&d, "  beta: %s\n", q->value[FLAG_BETA]);
    int64_t points = ebm_of_pictures(s) ? EBM_CHAINS : EBM_TEMPERED;
    ebm_put_ending(&d, q, flag_whole(q, FLAG_CHAINS, flag_whole(q, FLAG_PARTICLES, points)), -1, 1, 1);
    return ebm_print_or_run(q, &d, out);
}

int command_sample(int argc, char **argv)
{
    flag_values q;
    draft d;
    ebm_subject s = {0};
    int code;
    char name[EBM_NAME], out[EBM_NAME + 32];
    if (ebm_read_flags(&q, argc, argv, FOR_SAMPLE, "MODEL", sample_text, &code)) return code;
    if (ebm_only_one(&q, FLAG_CHAINS, FLAG_PARTICLES) || ebm_only_one(&q, FLAG_STEPS, FLAG_ITERATIONS))
        return SOSMC_EXIT_USAGE;
    if (ebm_subject_of(&q, &s)) return SOSMC_EXIT_IO;
    if (ebm_check_reward(&q, &s) || check_tilt(&q, &s)) return SOSMC_EXIT_USAGE;
    ebm_name_of(q.operand, name);
    (void)snprintf(out, sizeof out, "%s-%s", flag_given(&q, FLAG_BETA) ? "tilted" : "samples", name);
    if (is_tempered(&q, &s)) return sample_by_tempering(&q, &s, flag_text(&q, FLAG_OUT, out));
    int smc = flag_given(&q, FLAG_SMC), pictures = ebm_of_pictures(&s) && !smc;
    const ebm_kernel *k = ebm_kernel_named(flag_text(&q, FLAG_KERNEL, smc ? "mala" : pictures ? "jitter" : "ula"));
    int64_t steps = smc ? EBM_SMC_STEPS : pictures ? ebm_jitter.steps : EBM_CHAIN_STEPS;
    int64_t chains = pictures ? ebm_jitter.chains : EBM_CHAINS;
    steps = flag_whole(&q, FLAG_STEPS, flag_whole(&q, FLAG_ITERATIONS, steps));
    chains = flag_whole(&q, FLAG_CHAINS, flag_whole(&q, FLAG_PARTICLES, chains));
    if (draft_open(&d)) return SOSMC_EXIT_NUMERIC;
    ebm_put_model(&d, &q);
    draft_put(&d, "objective:\n  type: %s\n", smc ? "anneal" : "none");
    if (smc) draft_put(&d, "  steps: %" PRId64 "\n", cooling_of(steps));
    if (is_scored(&q, &s)) ebm_put_reward(&d, &q, &s);
    if (smc)
        ebm_put_cooling(&d);
    else
        ebm_put_chains(&d, pictures);
    ebm_put_kernel(&d, k, flag_number(&q, FLAG_STEP, k->step), q.value[FLAG_NOISE_SCALE]);
    ebm_put_ending(&d, &q, chains, steps, steps / 1000, 1);
    return ebm_print_or_run(&q, &d, flag_text(&q, FLAG_OUT, out));
}
