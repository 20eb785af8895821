/* commands_ebm_model.c: stored models, their samplers and their rewards, as parts of a run file.
 *
 * Invariant: a flag that does not suit the model is refused with the reason, never ignored. */
#include <stdlib.h>
#include <string.h>

#include "commands_ebm_inside.h"
#include "files/files.h"
#include <sosmc/expression.h>
#include "job/model_file.h"
#include "terminal/progress.h"
#include "terminal/say.h"
#include "runfile/schema.h"

/* ---------------------------------------------------------------------------- samplers */

const ebm_jitter_settings ebm_jitter = {10, 0.005, 1, 0.03, 1000, 64, 512};

static const ebm_kernel kernel_rows[] = {{"ula", 0.005, 0, 0},     {"mala", 0.02, 0.6, 0.5},   {"rwm", 0.02, 0.3, 1},
                                         {"hmc", 0.05, 0.75, 0.5}, {"underdamped", 0.1, 0, 0}, {"leapfrog", 0.05, 0, 0},
                                         {"jitter", 10, 0, 0}};
enum { LEAPFROG = 5, FRICTION = 1, SPREAD = 10 };

void ebm_put_jitter(draft *d, double step, const char *noise)
{
    char number[32];
    draft_put(d, "kernel: {type: jitter, step: %.17g, noise: %s, clamp: %.17g, gradient_clip: %.17g}\n", step,
              noise ? noise : files_number(ebm_jitter.noise, number), ebm_jitter.clamp, ebm_jitter.gradient_clip);
}

void ebm_put_kernel(draft *d, const ebm_kernel *k, double step, const char *noise)
{
    if (strcmp(k->name, "jitter") == 0) {
        ebm_put_jitter(d, step, noise);
        return;
    }
    draft_put(d, "kernel: {type: %s, step: %.17g", k->name, step);
    if (noise) draft_put(d, ", noise: %s", noise);
    if (strcmp(k->name, "hmc") == 0 || strcmp(k->name, "leapfrog") == 0) draft_put(d, ", leapfrog: %d", LEAPFROG);
    if (strcmp(k->name, "rwm") == 0) draft_put(d, ", spread: %d", SPREAD);
    if (strcmp(k->name, "underdamped") == 0) draft_put(d, ", friction: %d", FRICTION);
    draft_put(d, "}\n");
    if (k->acceptance > 0)
        draft_put(d, "adapt: {signal: accept, threshold: %.17g, factor: 1.02, min: 1e-8, max: %.17g}\n", k->acceptance,
                  k->most > step ? k->most : step);
}

const ebm_kernel *ebm_kernel_named(const char *name)
{
    for (size_t i = 0; i < sizeof kernel_rows / sizeof *kernel_rows; i++)
        if (strcmp(kernel_rows[i].name, name) == 0) return &kernel_rows[i];
    return &kernel_rows[0];
}

void ebm_put_noise(draft *d)
{
    draft_put(d, "init: {type: uniform, low: %.17g, high: %.17g}\n", -ebm_jitter.clamp, ebm_jitter.clamp);
}

/* Unweighted chains in the order of the authors: they move first and keep the gradient of the last move, so a move costs one
 * evaluation. */
void ebm_put_chains(draft *d, int pictures)
{
    if (pictures)
        ebm_put_noise(d);
    else
        draft_put(d, "init: {type: uniform, low: -6, high: 6}\n");
    draft_put(d, "scheme: {type: unweighted, order: authors}\n");
}

/* The cloud is resampled in every iteration and so ends with equal weights: its points can be used without them. */
void ebm_put_cooling(draft *d)
{
    draft_put(d, "scheme: {type: sosmc, order: authors}\nresampling: {scheme: systematic, threshold: always}\n");
}

/* ---------------------------------------------------------------------------- stored models and rewards */

int ebm_subject_of(const flag_values *q, ebm_subject *s)
{
    model_file f;
    char error[EBM_SENTENCE];
    if (model_read_as(q->operand, q->value[FLAG_NETWORK], q->value[FLAG_ACTIVATION], &f, error, sizeof error))
        return complain(-1, "%s", error);
    *s = (ebm_subject){f.inputs, f.network.channels, f.network.rows, f.network.columns, f.base_sd > 0, {0, 0}};
    for (int j = 0; j < 2 && j < f.scaling.dim && !flag_given(q, FLAG_SCALED); j++) s->middle[j] = f.scaling.centre[j];
    model_free(&f);
    return 0;
}

int ebm_of_pictures(const ebm_subject *s) { return s->channels > 0; }

void ebm_put_model(draft *d, const flag_values *q)
{
    draft_put(d, "model: {type: stored, file: ");
    draft_put_quoted(d, q->operand);
    if (flag_given(q, FLAG_NETWORK)) {
        draft_put(d, ", network: ");
        draft_put_quoted(d, q->value[FLAG_NETWORK]);
    }
    if (flag_given(q, FLAG_ACTIVATION)) draft_put(d, ", activation: %s", q->value[FLAG_ACTIVATION]);
    if (flag_given(q, FLAG_SCALED)) draft_put(d, ", units: scaled");
    draft_put(d, "}\n");
}

/* The half-planes by name: which coordinate, and on which side of the mean of the points, or of 0 where that is not known. */
static const struct {
    const char *name;
    int coordinate, sign;
} sides[] = {{"lower", 2, -1}, {"upper", 2, 1}, {"left", 1, -1}, {"right", 1, 1}};

int ebm_side_named(const char *reward)
{
    for (int i = 0; i < (int)(sizeof sides / sizeof *sides); i++)
        if (strcmp(sides[i].name, reward) == 0) return i;
    return -1;
}

static int check_point_reward(const flag_values *q, int inputs)
{
    static const ebm_flag of_picture[] = {FLAG_MASK,         FLAG_REWARD_NETWORK, FLAG_OUTPUT,
                                          FLAG_REWARD_SCALE, FLAG_WARM,           FLAG_PURIFY};
    const char *reward = flag_text(q, FLAG_REWARD, "left");
    char error[EBM_SENTENCE];
    int side = ebm_side_named(reward);
    ebm_flag wrong = ebm_stray(q, of_picture, sizeof of_picture / sizeof *of_picture);
    if (wrong != EBM_FLAGS)
        return complain(-1, "--%s is for pictures; %s has points of dimension %d", ebm_flag_name(wrong), q->operand,
                        inputs);
    if (strcmp(flag_text(q, FLAG_KERNEL, "ula"), "jitter") == 0)
        return complain(-1, "--kernel is 'jitter', which is for pictures; %s has points of dimension %d", q->operand,
                        inputs);
    if (side >= 0 && sides[side].coordinate > inputs)
        return complain(-1, "--reward is %s, a half-plane of x%d; %s has points of dimension %d", reward,
                        sides[side].coordinate, q->operand, inputs);
    if (side >= 0) return 0;
    model_file model;
    if (model_read_as(q->operand, NULL, q->value[FLAG_ACTIVATION], &model, error, sizeof error))
        return complain(-1, "%s", error);
    sosmc_expression *f = sosmc_expression_compile_named(reward, inputs, NULL, model.scaling.names, error,
                                                         sizeof error);
    model_free(&model);
    if (!f) return complain(-1, "--reward is '%s'; expected lower, upper, left, right or a formula: %s", reward, error);
    sosmc_expression_free(f);
    return 0;
}

static const char picture_rewards[] = "bright|dark|half|mask|network";

/* A file that only one reward can use names it; NULL: no reward. */
const char *ebm_picture_reward(const flag_values *q)
{
    return flag_text(q, FLAG_REWARD,
                     flag_given(q, FLAG_REWARD_NETWORK) ? "network"
                     : flag_given(q, FLAG_MASK)         ? "mask"
                                                        : NULL);
}

static int check_picture_formula(const flag_values *q, const ebm_subject *s, const char *reward)
{
    char error[EBM_SENTENCE];
    double *mask = calloc((size_t)s->inputs, sizeof *mask); /* any will do: the formula is only compiled */
    if (!mask) return complain(-1, "out of memory");
    for (int j = 0; j < s->inputs; j++) mask[j] = 1;
    sosmc_picture_shape shape = {s->channels, s->rows, s->columns, 1, flag_given(q, FLAG_MASK) ? mask : NULL};
    sosmc_expression *f = sosmc_expression_compile(reward, s->inputs, &shape, error, sizeof error);
    free(mask);
    if (!f)
        return complain(-1, "--reward is '%s'; expected bright, dark, half, mask, network or a formula: %s", reward,
                        error);
    sosmc_expression_free(f);
    return flag_given(q, FLAG_REWARD_SCALE)
               ? complain(-1, "--reward-scale stands beside a formula; write the factor into it")
               : 0;
}

/* Each of these flags belongs to certain rewards. */
static int check_picture_reward(const flag_values *q, const ebm_subject *s)
{
    const char *reward = ebm_picture_reward(q);
    if (!reward) {
        static const ebm_flag idle[] = {FLAG_OUTPUT, FLAG_REWARD_SCALE};
        ebm_flag wrong = ebm_stray(q, idle, 2);
        return wrong == EBM_FLAGS ? 0 : complain(-1, "--%s needs a --reward", ebm_flag_name(wrong));
    }
    int network = strcmp(reward, "network") == 0, mask = strcmp(reward, "mask") == 0;
    if (network && !flag_given(q, FLAG_REWARD_NETWORK))
        return complain(-1, "--reward is network; expected --reward-network FILE, a stored network that judges");
    if (mask && !flag_given(q, FLAG_MASK))
        return complain(-1, "--reward is mask; expected --mask FILE, a picture of weights");
    if (!network && (flag_given(q, FLAG_REWARD_NETWORK) || flag_given(q, FLAG_OUTPUT)))
        return complain(-1, "--%s stands beside --reward %s; it is for --reward network",
                        flag_given(q, FLAG_OUTPUT) ? "output" : "reward-network", reward);
    if (!schema_has_word(picture_rewards, reward)) return check_picture_formula(q, s, reward);
    return flag_given(q, FLAG_MASK) && !mask
               ? complain(-1, "--mask stands beside --reward %s; it is for --reward mask or a formula", reward)
               : 0;
}

int ebm_check_reward(const flag_values *q, const ebm_subject *s)
{
    return ebm_of_pictures(s) ? check_picture_reward(q, s) : check_point_reward(q, s->inputs);
}

static void put_picture_reward(draft *d, const flag_values *q)
{
    const char *reward = ebm_picture_reward(q);
    int known = schema_has_word(picture_rewards, reward);
    draft_put(d, "  reward: {type: %s", known ? reward : "formula");
    if (!known) {
        draft_put(d, ", formula: ");
        draft_put_quoted(d, reward);
    }
    if (flag_given(q, FLAG_MASK)) {
        draft_put(d, ", mask: ");
        draft_put_quoted(d, q->value[FLAG_MASK]);
    }
    if (flag_given(q, FLAG_REWARD_NETWORK)) {
        draft_put(d, ", network: ");
        draft_put_quoted(d, q->value[FLAG_REWARD_NETWORK]);
    }
    if (flag_given(q, FLAG_OUTPUT)) draft_put(d, ", output: %s", q->value[FLAG_OUTPUT]);
    if (known) draft_put(d, ", scale: %s, clamp: %.17g", flag_text(q, FLAG_REWARD_SCALE, "1"), ebm_jitter.clamp);
    draft_put(d, "}\n");
}

void ebm_put_reward(draft *d, const flag_values *q, const ebm_subject *s)
{
    if (ebm_of_pictures(s)) {
        put_picture_reward(d, q);
        return;
    }
    const char *reward = flag_text(q, FLAG_REWARD, "left");
    int side = ebm_side_named(reward);
    draft_put(d, "  reward: ");
    if (side < 0) {
        draft_put_quoted(d, reward);
    } else {
        draft_put(d, "{type: half_plane, normal: [");
        for (int j = 1; j <= s->inputs; j++)
            draft_put(d, "%s%d", j > 1 ? ", " : "", j == sides[side].coordinate ? sides[side].sign : 0);
        draft_put(d, "], offset: %.17g}", 0 + sides[side].sign * s->middle[sides[side].coordinate - 1]);
    }
    draft_put(d, "\n");
}

const char *ebm_reward_name(const flag_values *q, const ebm_subject *s)
{
    const char *reward = ebm_of_pictures(s) ? ebm_picture_reward(q) : q->value[FLAG_REWARD];
    return (ebm_of_pictures(s) ? schema_has_word(picture_rewards, reward) : ebm_side_named(reward) >= 0) ? reward
                                                                                                         : "reward";
}
