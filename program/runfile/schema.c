/* schema.c: every key of a run file, once: its type, default, condition and meaning, and the manual made from them.
 *
 * To add a key, add a row (and, for a new word of a choice, a line to schema_choices): checking, defaults, the resolved
 * file, suggestions and docs/run-file.md follow. Defaults agree with sosmc_defaults() where it has one. */
#include "schema.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------- the table */

#define MIXTURE "model.type=gaussian_mixture"
#define HIERARCHICAL "model.type=hierarchical_gaussian"
#define LOGISTIC "model.type=logistic_regression"
#define DEBLUR "model.type=deblur"
#define REWARDED "objective.type=reward_forward|reward_reverse"
#define PERCEPTRON "model.type=mlp"
#define LAYERS "model.type=network"
#define STORED "model.type=stored"
#define ANY_NETWORK "model.type=mlp|network|stored"
#define OWN "model.type=own"
#define BOUNDED "model.type=gaussian_mixture|hierarchical_gaussian|logistic_regression|own"
#define GENERATED "objective.data.type=two_moons|circles|blobs"
#define IMAGES "objective.data.type=images"
#define PICTURE_REWARD "objective.reward.type=bright|dark|half|mask"
#define MAYBE_REWARDED "objective.type=none|anneal|temper"
#define SCORED "objective.type=reward_forward|reward_reverse|none|anneal|temper"
#define FITTED "objective.type=ebm_likelihood"
#define NOT_ANNEALED "objective.type=reward_forward|reward_reverse|mmle|ebm_likelihood|none"
#define OPTIMISED "objective.type=reward_forward|reward_reverse|mmle|ebm_likelihood"
#define AUTOMATIC "settings=automatic"
/* A default: `named` where the file has an `optimiser`, for networks and with the paper's settings, otherwise `else_`. */
#define UNLESS_NAMED(named, else_) \
    "?optimiser " named "; model.type=mlp|network|stored " named "; settings=paper " named "; " else_
/* The keys that only a run with chosen settings reads. A file that names one of them has chosen. */
#define CHOSEN                                                                                                    \
    "scheme|kernel|resampling|adapt|optimiser|iterations|on_nonfinite|on_collapse|judge|evaluate|objective.ramp|" \
    "objective.batch|objective.batches|objective.reference.batch|output.moments_from|output.moments_every"

const schema_key schema_keys[] = {
    {"settings", TYPE_CHOICE, "automatic|explicit|paper",
     "?@" CHOSEN " explicit; objective.type=temper automatic; objective.type=none|anneal explicit; "
     "model.type=mlp&model.base=gaussian&objective.type=ebm_likelihood automatic; "
     "model.type=stored&objective.type=reward_reverse automatic; model.type=deblur|mlp|network|stored explicit; "
     "automatic",
     NULL,
     "Who chooses how the problem is solved. A key that `--set` adds does not change the default: choosing is said, by "
     "`--set settings=explicit`."},

    {"model", TYPE_MAP, "type", REQUIRED, NULL,
     "The target: pi_theta proportional to exp(-U_theta), and where theta starts."},
    {"model.type", TYPE_CHOICE,
     "gaussian_mixture|hierarchical_gaussian|logistic_regression|deblur|mlp|network|stored|own", REQUIRED, NULL,
     "Which model."},
    {"model.means", TYPE_MATRIX, NULL, REQUIRED, MIXTURE, "The means of the components, one list each."},
    {"model.variance", TYPE_NUMBER, "(0, inf)", "1", MIXTURE, "The variance of every component in every direction."},
    {"model.eps", TYPE_NUMBER, "[0, inf)", "0", MIXTURE,
     "Added inside the logarithm of the potential: above 0 the potential is flat far from every mode."},
    {"model.data", TYPE_PATH, NULL, ABSENT, HIERARCHICAL,
     "A CSV table with a header that holds the observations (or give them as `model.y`)."},
    {"model.data", TYPE_PATH, NULL, REQUIRED, LOGISTIC, "A CSV table with a header, one observation per row."},
    {"model.column", TYPE_COLUMN, NULL, "1", HIERARCHICAL, "The column of `model.data` that holds the observations."},
    {"model.missing", TYPE_CHOICE, "refuse|drop", "refuse", "model.type=hierarchical_gaussian|logistic_regression",
     "What is done with a row of `model.data` that misses a value in a column that is used: its field is empty, NA, NaN, null, "
     "None, ? or a point."},
    {"model.y", TYPE_VECTOR, NULL, ABSENT, HIERARCHICAL, "The observations, written out."},
    {"model.label", TYPE_COLUMN, NULL, REQUIRED, LOGISTIC,
     "The column with the labels: 0 and 1, or two other values with `model.positive`."},
    {"model.positive", TYPE_TEXT, NULL, ABSENT, LOGISTIC,
     "Which of two values of the label stands for 1, such as `malignant`; the other stands for 0."},
    {"model.features", TYPE_COLUMNS, NULL, "[]", LOGISTIC,
     "The columns with the features; `[]` means all but the label, `model.train.column` and `model.exclude`. Then a column that "
     "counts or names the rows is refused, and one that is named here is taken."},
    {"model.exclude", TYPE_COLUMNS, NULL, "[]", LOGISTIC, "Columns that are no features, such as an identifier."},
    {"model.standardise", TYPE_FLAG, NULL, "true", LOGISTIC,
     "Bring every feature to mean 0 and standard deviation 1 over all rows, before they are split."},
    {"model.train", TYPE_MAP, NULL, ABSENT, LOGISTIC, "Which rows are trained on; without it, all."},
    {"model.train.column", TYPE_COLUMN, NULL, REQUIRED, LOGISTIC, "The column that tells training rows from others."},
    {"model.train.value", TYPE_TEXT, NULL, "train", LOGISTIC, "What that column holds in training rows."},
    {"model.prior_variance", TYPE_NUMBER, "(0, inf)", "5", LOGISTIC,
     "The variance of the coefficients around their common mean theta."},
    {"model.weights", TYPE_CHOICE, "softmax|probabilities", "softmax", MIXTURE,
     "What theta is to the weights of the components."},
    {"model.theta", TYPE_VECTOR, NULL, "=zeros model.means", MIXTURE,
     "Where theta starts: one number per component. Probabilities must be given, above 0 and with sum 1."},
    {"model.theta", TYPE_VECTOR, NULL, "0", "model.type=hierarchical_gaussian|logistic_regression",
     "Where theta, the mean of the prior, starts."},
    {"model.theta", TYPE_VECTOR, NULL, "-3", DEBLUR, "Where theta, the logarithm of the prior's strength, starts."},

    {"model.picture", TYPE_PATH, NULL, REQUIRED, DEBLUR,
     "What was seen: PNG, JPEG, PGM or PPM with values from 0 to 255, or an NPY array (rows, columns, or channels, rows, "
     "columns) with any values. Channels share theta."},
    {"model.noise", TYPE_NUMBER, "(0, inf)", REQUIRED, DEBLUR, "The standard deviation of its noise."},
    {"model.blur", TYPE_CHOICE, "none|box|gaussian|motion", "none", DEBLUR, "How it was blurred."},
    {"model.patch", TYPE_INTEGER, "[1, 2000000]", "5", "model.blur=box",
     "The side of the window, in pixels; an even one counts as the next odd one."},
    {"model.blur_sd", TYPE_NUMBER, "[0, 100]", "1.5", "model.blur=gaussian", "The standard deviation, in pixels."},
    {"model.length", TYPE_NUMBER, "[0, 200]", "9", "model.blur=motion", "How far it moved, in pixels."},
    {"model.angle", TYPE_NUMBER, NULL, "0", "model.blur=motion",
     "Which way, in degrees, anticlockwise from the right."},
    {"model.mask", TYPE_PATH, NULL, ABSENT, DEBLUR,
     "A picture of the same size that is black where pixels are missing: they are painted in."},
    {"model.border", TYPE_CHOICE, "inside|unknown", "inside", DEBLUR, "What lies outside of the picture."},
    {"model.tv", TYPE_CHOICE, "isotropic|anisotropic", "isotropic", DEBLUR, "The total variation of the prior."},
    {"model.prox_tv", TYPE_CHOICE, "isotropic|anisotropic", "anisotropic", DEBLUR,
     "The total variation of the proximal map that moves the particles; the published experiment mixes the two."},
    {"model.tolerance", TYPE_NUMBER, "[1.0e-9, 1]", "1.0e-6", DEBLUR,
     "The relative error of the proximal map, proved by its duality gap."},
    {"model.passes", TYPE_INTEGER, "[0, 10000]", "0", DEBLUR,
     "Above 0: so many Douglas-Rachford passes without a stopping rule instead; the published experiment has 35."},
    {"model.envelope", TYPE_NUMBER, "[0, inf)", "0", DEBLUR,
     "Above 0: the target has the Moreau-Yosida envelope of this width instead of e^theta times the total variation. It is "
     "smooth: take `ula`, which is then `myula` with the envelope for its target, or another kernel with gradients; "
     "`model.prox_tv` must be `model.tv`."},
    {"model.freedom", TYPE_CHOICE, "pixels|exact", "pixels", DEBLUR, "The power of e^theta in the prior's constant."},
    {"model.name", TYPE_TEXT, NULL, "own", OWN, "What the model is called where results are told."},
    {"model.dim_x", TYPE_INTEGER, "[1, inf)", REQUIRED, OWN, "The numbers of a particle."},
    {"model.dim_theta", TYPE_INTEGER, "[1, inf)", REQUIRED, OWN, "The numbers of theta."},
    {"model.x_low", TYPE_VECTOR, SCHEMA_BOUND, ABSENT, BOUNDED,
     "Bounds of x from below: one number, or one per coordinate, -inf for none. Coordinates with bounds are transformed by "
     "log or logit, and the particles are of x ([guide](guide.md))."},
    {"model.x_high", TYPE_VECTOR, SCHEMA_BOUND, ABSENT, BOUNDED, "Bounds of x from above, inf for none."},
    {"model.inputs", TYPE_INTEGER, "[1, 16384]", "2", PERCEPTRON, "The dimension of a point."},
    {"model.hidden", TYPE_VECTOR, "[1, 16384]", "[128, 128, 128, 128]", PERCEPTRON,
     "The width of every hidden layer, 1 to 32 of them."},
    {"model.activation", TYPE_CHOICE, "silu|softplus|tanh", "silu", PERCEPTRON, "What follows every hidden layer."},
    {"model.activation", TYPE_CHOICE, "silu|softplus|tanh", ABSENT, STORED,
     "What follows every hidden layer of a perceptron whose file does not say it, such as PyTorch's: it is never guessed."},
    {"model.init_sd", TYPE_NUMBER, "[0, inf)", "?settings=automatic 0.1; 0.02", PERCEPTRON,
     "Weights start as normal draws with this standard deviation (named by `seed`), biases at 0."},
    {"model.base", TYPE_CHOICE, "none|gaussian", "none", PERCEPTRON, "What is added to the network's energy."},
    {"model.base_sd", TYPE_NUMBER, "(0, inf)", ABSENT, "model.base=gaussian",
     "The standard deviation of the base; without it, the root mean square coordinate of the data."},
    {"model.units", TYPE_CHOICE, "data|scaled", "data", "model.type=mlp|stored",
     "The units of points, rewards and densities of a network that was fitted to scaled points. Laws of `init`, steps, clamps "
     "and the lattice of `evaluate` are in those of the fit."},
    {"model.layers", TYPE_TEXT, NULL, REQUIRED, LAYERS,
     "A network of pictures: its size and its layers, such as `\"1x28x28; conv 16 5 stride 2 pad 4 swish; dense 1; energy "
     "-1\"`, or the name of one, `mnist`. Weights and biases start uniform on +-1/sqrt(fan-in), named by `seed`."},
    {"model.file", TYPE_PATH, NULL, REQUIRED, STORED,
     "A stored network, safetensors or NPZ in PyTorch's layout; a run leaves its own as model.safetensors and model.npz."},
    {"model.network", TYPE_TEXT, NULL, ABSENT, STORED,
     "The description of its layers (see `model.layers`), for files that do not carry one."},

    {"model.temperature", TYPE_NUMBER, "(0, inf)", ABSENT, "model.type=network|stored",
     "Networks of pictures: the energy is divided by it, in place of what the description says. Trained by short chains, they "
     "are sampled far colder than 1."},

    {"objective", TYPE_MAP, "type", REQUIRED, NULL, "What is minimised over theta."},
    {"objective.type", TYPE_CHOICE, "reward_forward|reward_reverse|mmle|ebm_likelihood|none|anneal|temper", REQUIRED,
     NULL, "Which objective."},
    {"objective.reward", TYPE_MAP, "formula", REQUIRED, REWARDED,
     "The reward R(x): a mapping, or just a formula such as `\"(x1 >= 0) * exp(-x2^2)\"`."},
    {"objective.reward", TYPE_MAP, "formula", ABSENT, MAYBE_REWARDED,
     "A score whose mean is logged; nothing is optimised."},
    {"objective.reward.type", TYPE_CHOICE,
     "hard_gate|smooth_gate|multi_modal|half_plane|formula|bright|dark|half|mask|network|own",
     "?objective.reward.network network; formula", SCORED, "Which reward."},
    {"objective.reward.center", TYPE_VECTOR, NULL, REQUIRED, "objective.reward.type=hard_gate|smooth_gate",
     "The centre c of the peak."},
    {"objective.reward.centers", TYPE_MATRIX, NULL, REQUIRED, "objective.reward.type=multi_modal",
     "The centres of the peaks, one list each."},
    {"objective.reward.tau", TYPE_NUMBER, "(0, inf)", REQUIRED,
     "objective.reward.type=hard_gate|smooth_gate|multi_modal",
     "The width of a peak: the reward falls as exp(-distance^2 / tau)."},
    {"objective.reward.lambda", TYPE_NUMBER, "(0, inf)", REQUIRED, "objective.reward.type=smooth_gate",
     "The width of the gate."},
    {"objective.reward.alpha", TYPE_NUMBER, "(0, inf)", "1", "objective.reward.type=hard_gate|smooth_gate|multi_modal",
     "The reward is divided by it."},
    {"objective.reward.normal", TYPE_VECTOR, NULL, REQUIRED, "objective.reward.type=half_plane",
     "The normal of the half-plane, pointing inwards."},
    {"objective.reward.offset", TYPE_NUMBER, NULL, "0", "objective.reward.type=half_plane",
     "Where the half-plane begins along its normal."},
    {"objective.reward.formula", TYPE_TEXT, NULL, REQUIRED, "objective.reward.type=formula",
     "A formula in the coordinates x1, x2, ..."},
    {"objective.reward.network", TYPE_PATH, NULL, REQUIRED, "objective.reward.type=network",
     "A stored network that judges pictures."},
    {"objective.reward.description", TYPE_TEXT, NULL, ABSENT, "objective.reward.type=network",
     "Its layers (see `model.layers`), for a file that does not carry them."},
    {"objective.reward.output", TYPE_INTEGER, "[0, inf)", "0", "objective.reward.type=network",
     "Which of its outputs is the reward, counted from 0."},
    {"objective.reward.log_probability", TYPE_FLAG, NULL, "false", "objective.reward.type=network",
     "Take the logarithm of the softmax of the outputs: the log-probability of a class."},
    {"objective.reward.mask", TYPE_PATH, NULL, REQUIRED, "objective.reward.type=mask",
     "A picture of the model's size: black pixels count -1, white ones 1, grey ones in between."},
    {"objective.reward.mask", TYPE_PATH, NULL, ABSENT, "objective.reward.type=formula",
     "A picture that `mask` in the formula weighs the pixels with."},
    {"objective.reward.scale", TYPE_NUMBER, NULL, "1", "objective.reward.type=bright|dark|half|mask|network",
     "The reward is multiplied by it."},
    {"objective.reward.clamp", TYPE_NUMBER, "[0, inf)", "1",
     "objective.reward.type=bright|dark|half|mask|network|formula",
     "Pixels are held to this distance from 0 before they count (of a formula, in its statistics of pictures); 0 takes "
     "them as they are."},
    {"objective.beta", TYPE_NUMBER, "[0, inf)", "0", REWARDED, "The weight of the Kullback-Leibler divergence."},
    {"objective.beta", TYPE_NUMBER, "(0, inf)", ABSENT, "objective.type=temper",
     "Tilts the model by the reward: the particles follow exp(-U + R / beta), the law that makes E[R] - beta KL largest."},
    {"objective.ramp", TYPE_LONG, "[0, inf)", "0", REWARDED,
     "The reward's weight grows from next to nothing to 1 in so many updates; 0: it has all of it at once. Coming in "
     "gradually, a reward leaves no part of the cloud behind; the loss that is logged has the whole of it."},
    {"objective.reference", TYPE_MAP, NULL, "{}", REWARDED, "The law pi_ref that the divergence is taken to."},
    {"objective.reference.theta", TYPE_VECTOR, NULL, "=model.theta", REWARDED, "Its parameter."},
    {"objective.reference.file", TYPE_PATH, NULL, ABSENT, "objective.type=reward_forward",
     "Points that follow pi_ref, from which reference samples are drawn: for networks, which have no exact draws. CSV, NPY, "
     "or the particles.npz of a run."},
    {"objective.reference.batch", TYPE_INTEGER, "[1, inf)", "1000", "objective.type=reward_forward",
     "Reference samples drawn in every iteration; none are drawn when `objective.beta` is 0."},
    {"objective.data", TYPE_MAP, "file", REQUIRED, FITTED,
     "The points to fit: a mapping, or just the name of a file such as `points.csv`."},
    {"objective.data.type", TYPE_CHOICE, "file|two_moons|circles|blobs|images|own", "file", FITTED,
     "Where the points come from."},
    {"objective.data.file", TYPE_PATH, NULL, REQUIRED, "objective.data.type=file",
     "A CSV table with a header, or an NPY array, one point per row."},
    {"objective.data.file", TYPE_PATH, NULL, REQUIRED, IMAGES,
     "An IDX file, an NPY array (count, rows, columns, or count, channels, rows, columns) or a folder of PNG files. Bytes 0 "
     "to 255 stand for -1 to 1."},
    {"objective.data.missing", TYPE_CHOICE, "refuse|drop", "refuse", "objective.data.type=file",
     "What is done with a point in which a number is missing: its field is empty, NA, NaN, null, None, ? or a point."},
    {"objective.data.jitter", TYPE_NUMBER, "[0, inf)", "0", IMAGES,
     "The standard deviation of noise that is added to every pixel, anew each time a picture is drawn."},
    {"objective.data.clamp", TYPE_NUMBER, "[0, inf)", "1", IMAGES,
     "Pixels are then held to this distance from 0; 0 leaves them."},
    {"objective.data.points", TYPE_INTEGER, "[1, inf)", "20000", GENERATED,
     "The number of points, shared equally between the curves or clusters."},
    {"objective.data.noise", TYPE_NUMBER, "[0, inf)", "0.08", "objective.data.type=two_moons",
     "The standard deviation of the noise on every coordinate, before scaling."},
    {"objective.data.noise", TYPE_NUMBER, "[0, inf)", "0.02", "objective.data.type=circles",
     "The standard deviation of the noise on every coordinate, before scaling."},
    {"objective.data.factor", TYPE_NUMBER, "[0, 1]", "0.5", "objective.data.type=circles",
     "The radius of the inner circle; the outer one has radius 1."},
    {"objective.data.sd", TYPE_NUMBER, "[0, inf)", "0.5", "objective.data.type=blobs",
     "The standard deviation of a cluster in every direction, before scaling."},
    {"objective.data.centres", TYPE_MATRIX, NULL, "[[0.97627, 4.30379], [2.05527, 0.89766], [-1.5269, 2.91788]]",
     "objective.data.type=blobs", "The centres of the clusters before scaling, one list each."},
    {"objective.data.standardise", TYPE_FLAG, NULL, "false", "objective.data.type=file",
     "Bring every coordinate to mean 0 and standard deviation 1 first."},
    {"objective.data.standardise", TYPE_FLAG, NULL, "true", GENERATED,
     "Bring every coordinate to mean 0 and standard deviation 1 first."},
    {"objective.data.scale", TYPE_NUMBER, "(0, inf)", "1", "objective.data.type=file",
     "Then multiply all coordinates by this."},
    {"objective.data.scale", TYPE_NUMBER, "(0, inf)", "2.2", "objective.data.type=two_moons",
     "Then multiply all coordinates by this."},
    {"objective.data.scale", TYPE_NUMBER, "(0, inf)", "2.5", "objective.data.type=circles",
     "Then multiply all coordinates by this."},
    {"objective.data.scale", TYPE_NUMBER, "(0, inf)", "2", "objective.data.type=blobs",
     "Then multiply all coordinates by this."},
    {"objective.data.seed", TYPE_SEED, NULL, "0", GENERATED,
     "Names the noise of the points; apart from the run's `seed`, so that many runs may share their data."},
    {"objective.batch", TYPE_INTEGER, "[0, inf)", "0", FITTED,
     "Points drawn in every iteration; 0 takes all of them, in order."},
    {"objective.batches", TYPE_CHOICE, "random|epochs", "random", FITTED,
     "How they are drawn when `objective.batch` is not 0."},
    {"objective.held_out", TYPE_NUMBER, "[0, 0.5]", "0", FITTED,
     "The share of the points, drawn at random by `seed`, that is not fitted: their log-likelihood tells what the model is worth "
     "on points it has not seen. Not for pictures."},
    {"objective.energy2", TYPE_NUMBER, "[0, inf)", "0", FITTED,
     "Adds so many times the mean of U^2, over the particles and over the data: keeps the level of the energy near 0."},
    {"objective.gradient_penalty", TYPE_NUMBER, "[0, inf)", "0", FITTED,
     "Adds so many times the mean over the data of (|dU/dx| - 1)^2; networks only."},
    {"objective.steps", TYPE_LONG, "[1, inf)", "500", "objective.type=anneal",
     "Iterations in which the temperature goes from the base to the model; later ones stay there."},
    {"objective.power", TYPE_NUMBER, "(0, inf)", "2", "objective.type=anneal",
     "Iteration k has t = (k / steps)^power: above 1 the first steps are smaller."},
    {"objective.base_sd", TYPE_NUMBER, "(0, inf)", "4", "objective.type=anneal",
     "The standard deviation of the normal law that the particles come from; wider than the model's."},

    {"init", TYPE_MAP, "type", "{}", NOT_ANNEALED,
     "The law of the initial particles. (With `anneal` they come from the normal law of `objective.base_sd`.)"},
    {"init", TYPE_MAP, "type", ABSENT, "objective.type=temper",
     "The law that tempering starts from: `normal` and `base` as they are, any other by normal laws fitted to 2,000 of its draws. Without "
     "it, a normal law with standard deviation 4."},
    {"init.type", TYPE_CHOICE, "model|inside|normal|data|own", "?model.x_low inside; model.x_high inside; model",
     "model.type=gaussian_mixture|hierarchical_gaussian", "Which law."},
    {"init.type", TYPE_CHOICE, "laplace|inside|normal|own", "?model.x_low inside; model.x_high inside; laplace",
     LOGISTIC, "Which law."},
    {"init.type", TYPE_CHOICE, "uniform|normal|base|file|data|own", "?settings=automatic base; uniform", ANY_NETWORK,
     "Which law."},
    {"init.type", TYPE_CHOICE, "seen|normal|file", "seen", DEBLUR, "Which law."},
    {"init.type", TYPE_CHOICE, "normal|inside|uniform|file|data|own",
     "?model.x_low inside; model.x_high inside; normal", OWN, "Which law."},
    {"init.low", TYPE_VECTOR, NULL, "-6", "init.type=uniform",
     "The box: one number for all coordinates, or one per coordinate."},
    {"init.high", TYPE_VECTOR, NULL, "6", "init.type=uniform", "Likewise."},
    {"init.file", TYPE_PATH, NULL, REQUIRED, "init.type=file",
     "Points, one per row: CSV with a header, NPY, or the particles.npz of a run, whose weights are resampled away. Of more "
     "rows than `particles`, evenly spaced ones are taken."},
    {"init.exact", TYPE_FLAG, NULL, "false", "init.type=file",
     "The points follow the model's law where theta starts, so that log Z and the loss can be told relative to it."},
    {"init.theta", TYPE_VECTOR, NULL, "=model.theta", "init.type=model|laplace",
     "The theta the particles are drawn at."},
    {"init.share", TYPE_NUMBER, "[0, 1]", "0.02", "init.type=laplace",
     "The share of particles drawn from the prior instead, which bounds the weights."},
    {"init.mean", TYPE_VECTOR, NULL, "0", "init.type=normal",
     "The mean: one number for all coordinates, or one per coordinate."},
    {"init.sd", TYPE_VECTOR, "(0, inf)", "1", "init.type=normal", "The standard deviation, likewise."},
    {"init.sd", TYPE_VECTOR, "(0, inf)", "1", "init.type=seen", "The standard deviation of noise on what was seen."},

    {"scheme", TYPE_MAP, "type", "{}", NULL, "The method: how the particles follow theta."},
    {"scheme.type", TYPE_CHOICE, "sosmc|impdiff|impdiff_printed|unweighted|soul|pcd|jala_em|pgd|mypgd|ipla|myipla|cd",
     "sosmc", NULL,
     "Which method. Some names stand for a scheme together with other keys (see below); the resolved file has those."},
    {"scheme.order", TYPE_CHOICE, "paper|authors", "paper", "scheme.type=sosmc|unweighted",
     "The order of operations within an iteration."},
    {"scheme.sweeps", TYPE_INTEGER, "[1, inf)", "1", "scheme.type=sosmc|unweighted", "Moves per iteration."},
    {"scheme.sweeps", TYPE_INTEGER, "[1, inf)", "=particles", "scheme.type=soul",
     "Moves of the single chain per iteration. (`particles` has no other meaning for `soul`.)"},
    {"scheme.sweeps", TYPE_INTEGER, "[1, inf)", "10", "scheme.type=pcd", "Moves per iteration."},
    {"scheme.keep", TYPE_INTEGER, "[1, inf)", "1", "scheme.type=unweighted|pcd",
     "The states after this many of the last moves form the sample that the gradient sees."},
    {"scheme.keep", TYPE_INTEGER, "[1, inf)", "=half scheme.sweeps", "scheme.type=soul",
     "The states after this many of the last moves form the sample that the gradient sees."},
    {"scheme.pool", TYPE_INTEGER, "[1, inf)", "=particles", "scheme.type=unweighted|pcd",
     "Particles remembered; `particles` of them are drawn and moved in an iteration."},
    {"scheme.pool_rule", TYPE_CHOICE, "in_place|newest", "in_place", "scheme.type=unweighted|pcd",
     "What becomes of moved particles when `scheme.pool` is larger than `particles`."},
    {"scheme.refresh", TYPE_NUMBER, "[0, 1]", "0", "scheme.type=unweighted",
     "The fraction of the drawn particles that restarts from `init`."},
    {"scheme.refresh", TYPE_NUMBER, "[0, 1]", "0.05", "scheme.type=pcd",
     "The fraction of the drawn particles that restarts from `init`."},
    {"scheme.drift_at", TYPE_CHOICE, "previous|current", "previous", "scheme.type=unweighted",
     "The theta whose gradient moves the particles."},

    {"kernel", TYPE_MAP, "type", "{}", NULL, "The Markov kernel that moves the particles."},
    {"kernel.type", TYPE_CHOICE, "ula|mala|rwm|hmc|underdamped|leapfrog|jitter|myula|mymala|gibbs",
     "?kernel ula; settings=paper&model.envelope=0 myula; settings=paper ula; model.envelope=0 gibbs; "
     "scheme.type=impdiff|impdiff_printed|soul|pcd ula; mala",
     NULL,
     "Which kernel. A file without `kernel` gets `mala` and a rule in `adapt` that finds its step; the methods that are "
     "published with unadjusted moves keep those."},
    {"kernel.step", TYPE_NUMBER, "(0, inf)", "0.05", "kernel.type=ula|mala|rwm|hmc|underdamped|leapfrog|myula|mymala",
     "The step size h at the start: noise of variance 2h for `ula`, `mala` and `rwm`; with momentum (`hmc`, `underdamped`, "
     "`leapfrog`) the step in time, where h^2 / (2 mass) is what `ula` calls h."},
    {"kernel.step", TYPE_NUMBER, "(0, inf)", "10", "kernel.type=jitter", "How far a gradient of 1 moves a coordinate."},
    {"kernel.step", TYPE_NUMBER, "(0, inf)", "0.05", "kernel.type=gibbs",
     "The squared error that the solution of a linear system may have, in units of the posterior's own spread: a larger one "
     "makes moves cheaper and more of them rejected."},
    {"kernel.noise", TYPE_NUMBER, "[0, inf)", "1", "kernel.type=ula|mala|rwm|myula|mymala",
     "Scales the noise; 1 is Langevin, and weighted methods need it above 0."},
    {"kernel.noise", TYPE_NUMBER, "[0, inf)", "0.005", "kernel.type=jitter",
     "The standard deviation of the noise that comes before the gradient."},
    {"kernel.spread", TYPE_NUMBER, "[1, inf)", "1", "kernel.type=rwm",
     "The scale of every proposal is multiplied by `spread`^u, u uniform on [-1, 1]: above 1, small steps within a mode and "
     "jumps to others."},
    {"kernel.gradient_clip", TYPE_NUMBER, "[0, inf)", "0.03", "kernel.type=jitter",
     "Every coordinate of the gradient is held to this distance from 0; 0 leaves it."},
    {"kernel.clamp", TYPE_NUMBER, "[0, inf)", "1", "kernel.type=jitter",
     "Coordinates are held to this distance from 0 after the noise and after the step; 0 leaves them."},
    {"kernel.clamp", TYPE_NUMBER, "[0, inf)", "0", "kernel.type=ula",
     "Above 0, coordinates are held to this distance from 0 after every move. Such a kernel has no density: unweighted "
     "methods only."},
    {"kernel.forward", TYPE_CHOICE, "previous|current", "previous", "kernel.type=ula",
     "The theta of the forward kernel, whose gradient moves the particles (Remark 2 of the paper)."},
    {"kernel.backward", TYPE_CHOICE, "previous|current", "current", "kernel.type=ula",
     "The theta of the backward kernel, whose density the weights divide by (Remark 2)."},
    {"kernel.lambda", TYPE_NUMBER, "(0, inf)", "0.4", "kernel.type=myula|mymala",
     "The width of the Moreau-Yosida envelope of the non-smooth part."},
    {"kernel.weight", TYPE_CHOICE, "invariant|ratio|cached", "invariant", "kernel.type=myula",
     "How its moves are weighed."},
    {"kernel.leapfrog", TYPE_INTEGER, "[1, inf)", "1", "kernel.type=hmc|leapfrog", "Leapfrog steps per move."},
    {"kernel.mass", TYPE_NUMBER, "(0, inf)", "1", "kernel.type=hmc|underdamped|leapfrog",
     "The mass of every coordinate."},
    {"kernel.friction", TYPE_NUMBER, "[0, inf)", "1", "kernel.type=underdamped",
     "How fast momentum is forgotten: exp(-friction step) of it is left after a step. 0 forgets nothing; a large number "
     "makes it `ula`."},

    {"resampling", TYPE_MAP, "scheme", "{}", NULL,
     "How weighted particles are resampled. Other methods never resample."},
    {"resampling.scheme", TYPE_CHOICE, "multinomial|stratified|systematic|residual|ssp",
     "?settings=paper multinomial; systematic", NULL, "How ancestors are drawn."},
    {"resampling.threshold", TYPE_LEVEL, "[0, 1]|always|never", "0.5", NULL,
     "Resample when the effective sample size falls below this fraction of the particles."},

    {"adapt", TYPE_RULES, NULL, "?kernel []; kernel.type=mala [{}]; []", NULL,
     "Rules that adapt the step or the rate: divide by `factor` when the signal is below `threshold`, else multiply. "
     "One mapping, or a list of two, applied in order; `[]` means none, `[{}]` one rule with every default."},
    {"adapt.signal", TYPE_CHOICE, "ess|accept", "?kernel ess; kernel.type=mala accept; ess", NULL, "What is watched."},
    {"adapt.target", TYPE_CHOICE, "step|rate", "step", NULL, "What is adapted."},
    {"adapt.threshold", TYPE_NUMBER, "(0, 1]", "?kernel 0.95; kernel.type=mala 0.57; 0.95", NULL,
     "The level the signal is compared with."},
    {"adapt.factor", TYPE_NUMBER, "[1, inf)", "?kernel 1.01; kernel.type=mala 1.02; 1.01", NULL,
     "The factor; 1 switches the rule off."},
    {"adapt.min", TYPE_NUMBER, "(0, inf)", "1.0e-8", NULL, "The target is never made smaller."},
    {"adapt.max", TYPE_NUMBER, "(0, inf)", "1.0e+8", NULL, "The target is never made larger."},
    {"adapt.before_move", TYPE_FLAG, NULL, "false", NULL,
     "With `scheme.order: authors` and `mala`, `rwm` or `hmc`: the move of the same iteration sees the new value."},

    {"optimiser", TYPE_MAP, "type", "{}", OPTIMISED, "How theta follows the gradient."},
    {"optimiser.type", TYPE_CHOICE, "sgd|momentum|nesterov|rmsprop|adagrad|adam|adamw|mirror", "adam", NULL,
     "Which optimiser."},
    {"optimiser.map", TYPE_CHOICE, "entropy|log", REQUIRED, "optimiser.type=mirror", "Where theta lies, and stays."},
    {"optimiser.rate", TYPE_NUMBER, "[0, inf)", UNLESS_NAMED("0.01", "0.05"), NULL,
     "The learning rate at the start; 0 leaves theta where it is."},
    {"optimiser.momentum", TYPE_NUMBER, "[0, 1)", "0.9", "optimiser.type=momentum|nesterov",
     "How much of the last update is kept."},
    {"optimiser.decay", TYPE_NUMBER, "[0, 1)", "0.9", "optimiser.type=rmsprop",
     "The decay of the mean of squared gradients."},
    {"optimiser.beta1", TYPE_NUMBER, "[0, 1)", "0.9", "optimiser.type=adam|adamw", "The decay of the mean gradient."},
    {"optimiser.beta2", TYPE_NUMBER, "[0, 1)", "0.999", "optimiser.type=adam|adamw",
     "The decay of the mean of squared gradients."},
    {"optimiser.eps", TYPE_NUMBER, "[0, inf)", "1.0e-8", "optimiser.type=rmsprop|adagrad|adam|adamw",
     "Added to the root of the squared gradients."},
    {"optimiser.weight_decay", TYPE_NUMBER, "[0, inf)", "0.01", "optimiser.type=adamw",
     "Theta shrinks by rate times this in every update."},
    {"optimiser.clip", TYPE_NUMBER, "[0, inf)", "0", NULL, "The largest norm of a gradient; 0 leaves it as it is."},
    {"optimiser.low", TYPE_NUMBER, NULL, ABSENT, NULL, "Theta is held above this after every update."},
    {"optimiser.high", TYPE_NUMBER, NULL, ABSENT, NULL, "And below this."},
    {"optimiser.noise", TYPE_NUMBER, "[0, inf)", "0", NULL,
     "Makes the update a Langevin step: theta gets this times sqrt(2 rate / particles) times a standard normal. With "
     "`sgd`, an unweighted scheme and 1 this is IPLA, with a proximal kernel myIPLA."},
    {"optimiser.schedule", TYPE_MAP, "type", "{}", NULL, "How the rate changes with the number of updates k."},
    {"optimiser.schedule.type", TYPE_CHOICE, "constant|robbins_monro|exponential|cosine|steps",
     UNLESS_NAMED("constant", "cosine"), NULL, "Which schedule."},
    {"optimiser.schedule.a", TYPE_NUMBER, "(0, inf)", REQUIRED,
     "optimiser.schedule.type=robbins_monro|exponential|steps", "Its time scale, in updates."},
    {"optimiser.schedule.a", TYPE_NUMBER, "(0, inf)", "=count iterations", "optimiser.schedule.type=cosine",
     "The updates in which the rate falls."},
    {"optimiser.schedule.b", TYPE_NUMBER, "[0, inf)", "0.6", "optimiser.schedule.type=robbins_monro",
     "The power with which the rate falls."},
    {"optimiser.schedule.b", TYPE_NUMBER, "[0, inf)", "0", "optimiser.schedule.type=cosine",
     "The fraction of the rate that is left at the end."},
    {"optimiser.schedule.b", TYPE_NUMBER, "(0, 1]", REQUIRED, "optimiser.schedule.type=steps",
     "The rate is multiplied by it after every `a` updates."},
    {"optimiser.schedule.warmup", TYPE_LONG, "[0, inf)", "0", NULL,
     "The first so many updates rise linearly to the rate: a cloud that is carried gently keeps its weights."},
    {"optimiser.average", TYPE_NUMBER, "[0, 1]", "0", NULL,
     "Averages theta: 0 is off, 1 the plain mean, between them the decay of an exponential average."},
    {"optimiser.average_from", TYPE_LONG, "[0, inf)", "0", NULL, "The first update that enters the average."},

    {"particles", TYPE_INTEGER, "[1, inf)",
     "?objective.type=temper 4096; settings=automatic&model.type=mlp 2048; settings=automatic 1024; 1000", NULL,
     "The number of particles; with `settings: automatic` a multiple of 16 of at least 128."},
    {"iterations", TYPE_LONG, "[0, inf)", "1000", NULL, "The number of iterations."},
    {"seed", TYPE_SEED, NULL, "0", NULL, "Names all random numbers: the same seed gives the same run, bit for bit."},
    {"threads", TYPE_INTEGER, "[1, 1024]", "1", NULL, "Threads; their number does not change the result."},
    {"on_nonfinite", TYPE_CHOICE, "default|fail|drop|retry|restart", "default", NULL,
     "What happens when a move gives values that are not finite."},
    {"on_collapse", TYPE_CHOICE, "stop|continue", "stop", NULL,
     "What happens when the effective sample size of a weighted method was below 2 in 100 iterations in a row; it does not "
     "apply to fewer than 20 particles. A run that it ended continues with `--set on_collapse=continue --resume`."},

    {"precision", TYPE_NUMBER, "(0, inf)", ABSENT, AUTOMATIC,
     "How small the Monte Carlo error has to be: for likelihoods as a share of the statistical standard errors of theta, for "
     "rewards in the loss. Without it, 0.045 for `mmle` (which costs 0.001 nats per parameter), 0.1 for `ebm_likelihood`, and "
     "0.002 of the decrease of the loss for rewards. For a network: the gain of 50 updates below which the rate is cut, in nats "
     "per point; without it, 0.001."},

    {"limits", TYPE_MAP, NULL, "{}", AUTOMATIC,
     "When the solver, or tempering, ends though it is not done. What it has is then told, with a verdict that says so; `--resume` with larger "
     "limits goes on."},
    {"limits.seconds", TYPE_NUMBER, "[0, inf)", "0", NULL,
     "Wall-clock time of all steps, in all processes that worked on them; 0: no limit. A step that takes more than a second is ended before "
     "it is done, and taken back."},
    {"limits.evaluations", TYPE_LONG, "[0, inf)", "0", NULL, "Evaluations of U for one particle; 0: no limit."},

    {"judge", TYPE_MAP, "cost", "{}", NULL,
     "What the run is worth: theta with its errors, log Z, loss, divergence and reward from fresh particles that did not steer "
     "theta, and a verdict. The iterations are the same bits whatever stands here; `judge: none` switches it off."},
    {"judge.cost", TYPE_LEVEL, "(0, 0.5]|none", "0.05", NULL,
     "The share of the cost of the iterations that judging may take: half of it while they go on, half of it after the last. "
     "With `none` nothing is gathered and no fresh particles are drawn: there are no errors and there is no verdict."},

    {"evaluate", TYPE_MAP, "every", "{}", NULL,
     "What the model is worth while the run goes on: exact values on a lattice for models of points in the plane, and the "
     "mean reward of fresh chains for any. It goes to evaluation.csv."},
    {"evaluate.every", TYPE_LONG, "[0, inf)", "0", NULL, "After every so many iterations; 0 is never."},
    {"evaluate.stop", TYPE_NUMBER, "[0, inf)", "0", NULL,
     "Above 0: the run ends where the loss, from one evaluation to the next, has gained less than this, once `objective.ramp` is over. "
     "In the plane it is the loss on the lattice, elsewhere that of fresh particles with the same random numbers every time."},
    {"evaluate.sampler", TYPE_CHOICE, "ula|jitter", "ula", NULL, "How fresh chains move."},
    {"evaluate.nodes", TYPE_INTEGER, "[2, 4000]", "400", NULL,
     "Nodes of the lattice along each axis; an even number keeps them off the axes."},
    {"evaluate.low", TYPE_NUMBER, NULL, "-6", "evaluate.sampler=ula", "Where the lattice begins, along each axis."},
    {"evaluate.low", TYPE_NUMBER, NULL, "-1", "evaluate.sampler=jitter",
     "Chains start uniform between this and `evaluate.high` in every coordinate."},
    {"evaluate.high", TYPE_NUMBER, NULL, "6", "evaluate.sampler=ula", "Where it ends."},
    {"evaluate.high", TYPE_NUMBER, NULL, "1", "evaluate.sampler=jitter", "Likewise."},
    {"evaluate.chains", TYPE_INTEGER, "[0, inf)", "0", NULL,
     "Fresh chains from uniform points of the box, whose mean reward is told beside the exact one; 0 is none."},
    {"evaluate.burn_in", TYPE_LONG, "[0, inf)", "15000", "evaluate.sampler=ula",
     "Their first steps, which do not count."},
    {"evaluate.averaged", TYPE_LONG, "[1, inf)", "5000", "evaluate.sampler=ula", "Their steps that count."},
    {"evaluate.steps", TYPE_LONG, "[1, inf)", "512", "evaluate.sampler=jitter",
     "Their steps; only the states after the last one count."},
    {"evaluate.step", TYPE_NUMBER, "(0, inf)", "0.005", "evaluate.sampler=ula", "Their step size."},
    {"evaluate.step", TYPE_NUMBER, "(0, inf)", "10", "evaluate.sampler=jitter", "As `kernel.step` of `jitter`."},
    {"evaluate.noise", TYPE_NUMBER, "[0, inf)", "0.005", "evaluate.sampler=jitter", "As `kernel.noise` of `jitter`."},
    {"evaluate.gradient_clip", TYPE_NUMBER, "[0, inf)", "0.03", "evaluate.sampler=jitter",
     "As `kernel.gradient_clip`."},
    {"evaluate.clamp", TYPE_NUMBER, "[0, inf)", "1", "evaluate.sampler=jitter", "As `kernel.clamp` of `jitter`."},

    {"output", TYPE_MAP, NULL, "{}", NULL, "What a run leaves in its folder."},
    {"output.thin", TYPE_LONG, "[1, inf)", "1", NULL,
     "The trace has one row for every so many iterations, and the last."},
    {"output.trace_rows", TYPE_LONG, "[0, inf)", "100000", NULL,
     "The trace has at most so many rows and the last: whenever it outgrows them, every other row goes; 0 keeps all."},
    {"output.checkpoint_seconds", TYPE_NUMBER, "[0, inf)", "60", NULL,
     "Write a checkpoint when this much time has passed since the last; 0 takes no notice of time."},
    {"output.checkpoint_every", TYPE_LONG, "[0, inf)", "0", NULL,
     "Write a checkpoint every so many iterations; 0 does not count them."},
    {"output.particles", TYPE_FLAG, NULL, "true", NULL, "Write the final particles and their weights."},
    {"output.report", TYPE_FLAG, NULL, "true", NULL, "Write the report and its figures."},
    {"output.moments_from", TYPE_LONG, "[0, inf)", ABSENT, NULL,
     "From this iteration on, average the weighted cloud over time: mean.npy and sd.npy hold the mean and the standard "
     "deviation of every coordinate."},
    {"output.moments_settle", TYPE_FLAG, NULL, "false", DEBLUR,
     "With `output.moments_from`, the run ends when theta has settled: its means over the two halves of what is averaged differ by at most 2 / sqrt(d), d "
     "being the numbers of the picture: two standard errors of theta if the picture were known. What is averaged is 20 iterations or, if "
     "more, half of those before them; while theta moves, averaging begins anew behind them, and `iterations` is the most. For a "
     "constant rate."},
    {"output.moments_every", TYPE_LONG, "[1, inf)", "10", NULL,
     "So many iterations lie between the clouds that are averaged: neighbours tell nearly the same."},
    {NULL, TYPE_MAP, NULL, NULL, NULL, NULL},
};

const schema_choice schema_choices[] = {
    {"settings", "automatic",
     "the solver: it finds where particles start, how they move, how far theta goes and when to end, and needs no other key"},
    {"settings", "explicit", "you: method, kernel, optimiser and the number of iterations, with the defaults below"},
    {"settings", "paper",
     "you, and what is left out is as in Algorithm 1 of the paper: `ula` (`myula` for `deblur`) with a fixed step, Adam with a "
     "constant rate, multinomial resampling"},
    {"model.type", "gaussian_mixture", "a mixture of Gaussians whose weights are the softmax of theta, or theta"},
    {"model.type", "hierarchical_gaussian", "x_d ~ N(theta, 1), y_d ~ N(x_d, 1): every answer is known in closed form"},
    {"model.type", "logistic_regression", "Bayesian logistic regression that learns the mean theta of its prior"},
    {"model.type", "deblur", "a blurred, noisy picture whose total-variation prior learns its strength e^theta"},
    {"model.type", "mlp", "an energy that is a multi-layer perceptron, to be trained"},
    {"model.type", "network", "an energy of pictures: convolutions and dense layers, to be trained"},
    {"model.type", "stored", "a network from a file of weights"},
    {"model.type", "own",
     "the model of another program that holds this run file, such as a function in Python; `sosmc run` cannot run it"},
    {"model.weights", "softmax", "the weights are the softmax of theta"},
    {"model.weights", "probabilities", "theta are the weights, with `optimiser: {type: mirror, map: entropy}` alone"},
    {"model.missing", "refuse", "the run does not begin, and a sentence names line and column"},
    {"model.missing", "drop",
     "the row is left out; how many were is told at the beginning, in the summary and in the report"},
    {"model.blur", "none", "not at all: denoising, or painting in"},
    {"model.blur", "box", "the mean over a square window, of what is inside the picture"},
    {"model.blur", "gaussian", "weights that fall as a normal density"},
    {"model.blur", "motion", "along a straight line"},
    {"model.tv", "isotropic", "the sum of the lengths of the differences to the neighbours below and to the right"},
    {"model.tv", "anisotropic", "the sum of their absolute values"},
    {"model.prox_tv", "isotropic", "as in `model.tv`"},
    {"model.prox_tv", "anisotropic", "as in `model.tv`; faster"},
    {"model.freedom", "pixels", "the number of pixels, as in the paper"},
    {"model.units", "data", "those of the data, and columns of a table by their names"},
    {"model.units", "scaled", "those of the points as they were scaled before the fit"},
    {"model.freedom", "exact", "one less for every channel, because total variation does not see constants"},
    {"model.activation", "silu", "z / (1 + exp(-z))"},
    {"model.activation", "softplus", "log(1 + exp(z))"},
    {"model.activation", "tanh", "the hyperbolic tangent"},
    {"model.base", "none",
     "nothing: an untrained network then has no finite integral, and only unweighted methods start"},
    {"model.base", "gaussian", "|x|^2 / (2 base_sd^2), so that the untrained network is nearly a Gaussian"},
    {"objective.type", "reward_forward",
     "-E[R] + beta KL(pi_ref || pi_theta): a reward, held to a reference by its samples"},
    {"objective.type", "reward_reverse",
     "-E[R] + beta KL(pi_theta || pi_ref): a reward, held to a reference by its density"},
    {"objective.type", "mmle", "-log of the marginal likelihood; with `kernel.type: ula` this is JALA-EM"},
    {"objective.type", "ebm_likelihood", "-mean log pi_theta of data points: training an energy-based model"},
    {"objective.type", "none", "nothing: theta stays, the particles sample the model"},
    {"objective.type", "anneal",
     "nothing: the particles are carried from a normal law to the model along temperatures that are written down, by the kernel "
     "of the file"},
    {"objective.type", "temper",
     "nothing: the particles are carried to the model, or to the model tilted by a reward, along temperatures that are found, with "
     "log Z and its error"},
    {"objective.reward.type", "hard_gate", "1{x1 >= 0} exp(-|x - center|^2 / tau) / alpha"},
    {"objective.reward.type", "smooth_gate", "logistic(x1 / lambda) exp(-|x - center|^2 / tau) / alpha"},
    {"objective.reward.type", "multi_modal", "the largest of exp(-|x - center|^2 / tau) / alpha over several centres"},
    {"objective.reward.type", "half_plane", "1{normal . x > offset}"},
    {"objective.reward.type", "formula", "whatever you type"},
    {"objective.reward.type", "bright", "the mean of all pixels"},
    {"objective.reward.type", "dark", "minus the mean of all pixels"},
    {"objective.reward.type", "half", "half of the mean of the lower half of the rows less that of the upper half"},
    {"objective.reward.type", "mask", "the mean of the pixels, weighted by a picture"},
    {"objective.reward.type", "network", "an output of a stored network"},
    {"objective.reward.type", "own", "the reward of the program that holds this run file"},
    {"objective.data.type", "file", "from a file"},
    {"objective.data.type", "two_moons", "two interleaved half circles of radius 1"},
    {"objective.data.type", "circles", "two circles around the same centre"},
    {"objective.data.type", "blobs", "round Gaussian clusters"},
    {"objective.data.type", "images", "pictures, for networks of pictures"},
    {"objective.data.type", "own", "the points of the program that holds this run file"},
    {"objective.data.missing", "refuse", "the run does not begin, and a sentence names line and column"},
    {"objective.data.missing", "drop",
     "the point is left out; how many were is told at the beginning, in the summary and in the report"},
    {"objective.batches", "random", "independently, so that a point may come twice"},
    {"objective.batches", "epochs",
     "every point once per epoch, in an order shuffled anew; points that fill no whole batch wait for the next epoch"},
    {"model.border", "inside", "nothing: pixels at the border are blurred with pixels of the picture alone"},
    {"model.border", "unknown",
     "pixels that were not seen, as far as the blur reaches: they are estimated with the picture and cut off where it is stored, "
     "as a photograph needs it"},
    {"init.type", "model", "exact draws from pi_theta at `init.theta`"},
    {"init.type", "laplace", "Laplace's approximation of the posterior at `init.theta`, mixed with the prior"},
    {"init.type", "normal",
     "independent normal coordinates; of `deblur` without a density, so the weights start equal (W_0 = 1) and do not correct the start"},
    {"init.type", "uniform",
     "uniform on a box; without a density as far as weights are concerned, since it does not cover the plane"},
    {"init.type", "seen", "what was seen, with noise"},
    {"init.type", "base", "the network's Gaussian base, with its density"},
    {"init.type", "file", "stored points"},
    {"init.type", "inside", "N(0, I) of the transformed coordinates of a model with `model.x_low` or `model.x_high`"},
    {"init.type", "own", "the law of the program that holds this run file"},
    {"init.type", "data", "points of `objective.data`, drawn at random; for unweighted methods that fit them"},
    {"scheme.type", "sosmc", "weighted particles that are moved, weighed and resampled: the method of the paper"},
    {"scheme.type", "impdiff",
     "implicit diffusion as its authors run it: move, then take the gradient at the new particles"},
    {"scheme.type", "impdiff_printed", "implicit diffusion as it is printed: take the gradient, then move"},
    {"scheme.type", "unweighted",
     "particles without weights and every option open; under `mmle`, particle gradient descent"},
    {"scheme.type", "soul", "one chain, of which the later part is averaged"},
    {"scheme.type", "pcd", "persistent contrastive divergence: a pool of particles with restarts"},
    {"scheme.type", "jala_em",
     "Jarzynski-adjusted Langevin for EM: `sosmc` with `kernel.type: ula` and `objective.type: mmle`"},
    {"scheme.type", "pgd",
     "particle gradient descent: `unweighted` with `kernel.type: ula` and `objective.type: mmle`"},
    {"scheme.type", "mypgd", "Moreau-Yosida particle gradient descent: `pgd` with `kernel.type: myula`"},
    {"scheme.type", "ipla",
     "interacting particle Langevin: `pgd` with `optimiser.type: sgd` and `optimiser.noise: 1`, so that theta diffuses too"},
    {"scheme.type", "myipla", "Moreau-Yosida interacting particle Langevin: `ipla` with `kernel.type: myula`"},
    {"scheme.type", "cd",
     "contrastive divergence: `pcd` with `init.type: data`, `scheme.refresh: 1` and `objective.type: ebm_likelihood`, so that "
     "all chains restart from data points in every iteration"},
    {"scheme.order", "paper", "move and weigh, estimate, optimise, adapt, resample"},
    {"scheme.order", "authors", "estimate, optimise, weigh, adapt, resample, move (`ula` moves before it weighs)"},
    {"scheme.pool_rule", "in_place", "each returns to where it was drawn from; the pool starts full"},
    {"scheme.pool_rule", "newest",
     "they are put in front and the oldest fall out; the pool starts with `particles` and grows"},
    {"scheme.drift_at", "previous", "the theta before the last update"},
    {"scheme.drift_at", "current", "the theta after it"},
    {"kernel.type", "ula", "unadjusted Langevin"},
    {"kernel.type", "mala", "Langevin with a Metropolis test"},
    {"kernel.type", "rwm", "random-walk Metropolis, which needs no gradient"},
    {"kernel.type", "hmc", "Hamiltonian Monte Carlo"},
    {"kernel.type", "underdamped",
     "Langevin with momentum that the particles keep, weighed exactly; one evaluation per move"},
    {"kernel.type", "leapfrog",
     "Hamiltonian dynamics from fresh momentum, weighed exactly instead of accepted or rejected"},
    {"kernel.type", "jitter",
     "noise, then a step along the clipped gradient, within bounds: for training on pictures. It has no density: unweighted "
     "methods only"},
    {"kernel.type", "myula",
     "unadjusted Langevin for a potential with a non-smooth part: along its Moreau-Yosida envelope"},
    {"kernel.type", "mymala", "the same with a Metropolis test on the potential itself"},
    {"kernel.type", "gibbs",
     "for `model.type: deblur` alone: the picture and the variances behind its differences, each given the other; exact, and "
     "without a step size"},
    {"kernel.forward", "previous", "theta before the last update, whose gradients the particles keep"},
    {"kernel.forward", "current", "theta now: a second gradient at the old particles"},
    {"kernel.backward", "previous", "theta before the last update: a second gradient at the new particles"},
    {"kernel.backward", "current", "theta now"},
    {"kernel.weight", "invariant", "as if the move left pi_theta invariant: U at the old theta less U at the new one"},
    {"kernel.weight", "ratio", "exactly, with both kernels at the new theta; a second proximal map"},
    {"kernel.weight", "cached", "exactly, with the forward kernel at the previous theta"},
    {"resampling.scheme", "multinomial", "independent draws"},
    {"resampling.scheme", "stratified", "one draw in each of N equal strata"},
    {"resampling.scheme", "systematic", "one draw, shifted into every stratum"},
    {"resampling.scheme", "residual", "whole copies first, the remainder drawn independently"},
    {"resampling.scheme", "ssp", "Srinivasan sampling: floor or ceiling of every expected count"},
    {"resampling.threshold", "always", "resample in every iteration"},
    {"resampling.threshold", "never", "do not resample"},
    {"adapt.signal", "ess", "the effective sample size, as a fraction of the particles"},
    {"adapt.signal", "accept", "the mean acceptance probability of `mala`, `rwm` or `hmc`"},
    {"adapt.target", "step", "the step of the kernel"},
    {"adapt.target", "rate", "the learning rate"},
    {"optimiser.type", "sgd", "plain gradient descent"},
    {"optimiser.type", "momentum", "heavy-ball momentum"},
    {"optimiser.type", "nesterov", "Nesterov's momentum"},
    {"optimiser.type", "rmsprop", "gradients divided by their recent size"},
    {"optimiser.type", "adagrad", "gradients divided by their accumulated size"},
    {"optimiser.type", "adam", "momentum and recent size, both corrected for their start"},
    {"optimiser.type", "adamw", "Adam with weight decay apart from the gradient"},
    {"optimiser.type", "mirror", "mirror descent: each number of theta is multiplied by exp(-rate gradient)"},
    {"optimiser.map", "entropy", "theta are probabilities: above 0, with sum 1; every update is divided by its sum"},
    {"optimiser.map", "log", "every number of theta is positive"},
    {"optimiser.schedule.type", "constant", "rate"},
    {"optimiser.schedule.type", "robbins_monro", "rate (1 + k/a)^-b"},
    {"optimiser.schedule.type", "exponential", "rate exp(-k/a)"},
    {"optimiser.schedule.type", "cosine", "from rate to b rate over a updates, then b rate"},
    {"optimiser.schedule.type", "steps", "rate b^floor(k/a)"},
    {"evaluate.sampler", "ula", "unadjusted Langevin; the mean is taken over time"},
    {"evaluate.sampler", "jitter", "as the kernel `jitter`; the mean is taken over the last states"},
    {"on_nonfinite", "default", "`drop` for weighted methods, `fail` for others"},
    {"on_nonfinite", "fail", "the run stops"},
    {"on_nonfinite", "drop", "weighted methods: the particle has no weight until resampling replaces it"},
    {"on_nonfinite", "retry",
     "weighted methods: the whole move is repeated with half the step, up to 8 times (not exact)"},
    {"on_nonfinite", "restart", "other methods: the particle restarts from `init`"},
    {"on_collapse", "stop", "the run ends with a sentence that says what to change"},
    {"on_collapse", "continue", "it goes on, for studies of what then happens"},
    {"judge.cost", "none", "the run is not judged"},
    {NULL, NULL, NULL},
};

const schema_method schema_methods[] = {
    {"jala_em", "sosmc", "objective.type=mmle|kernel.type=ula"},
    {"pgd", "unweighted", "objective.type=mmle|kernel.type=ula"},
    {"mypgd", "unweighted", "objective.type=mmle|kernel.type=myula"},
    {"ipla", "unweighted", "objective.type=mmle|kernel.type=ula|optimiser.type=sgd|optimiser.noise=1"},
    {"myipla", "unweighted", "objective.type=mmle|kernel.type=myula|optimiser.type=sgd|optimiser.noise=1"},
    {"cd", "pcd", "objective.type=ebm_likelihood|init.type=data|scheme.refresh=1"},
    {NULL, NULL, NULL},
};

const schema_method *schema_method_named(const char *name)
{
    for (const schema_method *m = schema_methods; m->name; m++)
        if (!strcmp(m->name, name)) return m;
    return NULL;
}

const char *const schema_chosen = CHOSEN;

/* Earlier versions wrote these keys into every resolved file, also where they do not apply and nothing reads them. Such a
 * file still runs: config_resolve drops the keys there. */
const char *const schema_once_written = "init|optimiser|model.column";

/* ---------------------------------------------------------------------------- words and intervals */

int schema_word(const char **list, char *word, size_t room)
{
    if (!*list || !**list) return 0;
    size_t length = strcspn(*list, "|");
    snprintf(word, room, "%.*s", (int)length, *list);
    *list += length + ((*list)[length] == '|');
    return 1;
}

int schema_has_word(const char *list, const char *word)
{
    char one[64];
    while (schema_word(&list, one, sizeof one))
        if (!strcmp(one, word)) return 1;
    return 0;
}

int schema_case(const char **rule, char when[PATH_ROOM], char value[PATH_ROOM])
{
    if (!**rule) return 0;
    const char *end = strstr(*rule, "; "), *space = strchr(*rule, ' ');
    snprintf(when, PATH_ROOM, "%.*s", end ? (int)(space - *rule) : 0, *rule);
    if (end) *rule = space + 1;
    snprintf(value, PATH_ROOM, "%.*s", end ? (int)(end - *rule) : (int)strlen(*rule), *rule);
    *rule = end ? end + 2 : *rule + strlen(*rule);
    return 1;
}

static int has_interval(const char *allowed) { return allowed && strchr("([", *allowed); }

const char *schema_words(const schema_key *row)
{
    if (!has_interval(row->allowed)) return row->allowed;
    const char *bar = strchr(row->allowed, '|');
    return bar ? bar + 1 : NULL;
}

typedef struct {
    double low, high;
    int low_open, high_open;
} interval;

static interval read_interval(const char *text)
{
    char *end;
    interval range = {.low = strtod(text + 1, &end), .low_open = *text == '('};
    range.high = strtod(end + 1, &end);
    range.high_open = *end == ')';
    return range;
}

int schema_in_range(const char *allowed, double x)
{
    if (!has_interval(allowed)) return 1;
    interval r = read_interval(allowed);
    return (r.low_open ? x > r.low : x >= r.low) && (r.high_open ? x < r.high : x <= r.high);
}

void schema_join(const char *words, const char *last, char *out, size_t room)
{
    char word[64];
    size_t used = 0;
    out[0] = 0;
    for (int first = 1; schema_word(&words, word, sizeof word) && used < room; first = 0) {
        const char *between = first ? "" : words && *words ? ", " : last;
        int more = snprintf(out + used, room - used, "%s%s", between, word);
        used += more > 0 ? (size_t)more : 0;
    }
}

/* "a positive number", "a whole number of at least 1", "a number in [0, 1)". */
static void describe_numbers(const char *allowed, const char *noun, const char *plural, char *out, size_t room)
{
    const char *what = plural ? plural : noun, *article = plural ? "" : "a ";
    if (!has_interval(allowed) || strcmp(allowed, SCHEMA_BOUND) == 0) {
        snprintf(out, room, "%s%s", article, what);
        return;
    }
    interval r = read_interval(allowed);
    int length = (int)strcspn(allowed, "|");
    if (r.low == 0 && isinf(r.high) && r.low_open)
        snprintf(out, room, "%spositive %s", article, what);
    else if (isinf(r.high) && !r.low_open)
        snprintf(out, room, "%s%s of at least %g", article, what, r.low);
    else
        snprintf(out, room, "%s%s in %.*s", article, what, length, allowed);
}

void schema_expected(const schema_key *row, char *out, size_t room)
{
    const char *said = NULL;
    char part[160];
    switch (row->type) {
    case TYPE_MAP: said = "a mapping of keys to values"; break;
    case TYPE_RULES: said = "a mapping of keys to values, or a list of at most 2 of them"; break;
    case TYPE_TEXT: said = "text"; break;
    case TYPE_PATH: said = "the name of a file"; break;
    case TYPE_SEED: said = "a whole number from 0 to 2^64 - 1"; break;
    case TYPE_FLAG: said = "true or false"; break;
    case TYPE_COLUMN: said = "a column's name, or its number counted from 1"; break;
    case TYPE_COLUMNS: said = "a list of columns, each a name or a number counted from 1"; break;
    case TYPE_MATRIX: said = "a list of equally long lists of numbers"; break;
    case TYPE_CHOICE: schema_join(row->allowed, " or ", out, room); return;
    case TYPE_NUMBER: describe_numbers(row->allowed, "number", NULL, out, room); return;
    case TYPE_INTEGER:
    case TYPE_LONG: describe_numbers(row->allowed, "whole number", NULL, out, room); return;
    case TYPE_VECTOR:
        describe_numbers(row->allowed, "number", "numbers", part, sizeof part);
        snprintf(out, room, "a list of %s", part);
        return;
    case TYPE_LEVEL:
        describe_numbers(row->allowed, "number", NULL, part, sizeof part);
        snprintf(out, room, "%s, ", part);
        schema_join(schema_words(row), " or ", out + strlen(out), room - strlen(out));
        return;
    }
    snprintf(out, room, "%s", said);
}

const char *schema_meaning(const char *path, const char *choice)
{
    for (const schema_choice *c = schema_choices; c->path; c++)
        if (!strcmp(c->path, path) && !strcmp(c->name, choice)) return c->meaning;
    return NULL;
}

/* ---------------------------------------------------------------------------- finding keys */

const schema_key *schema_find(const char *path)
{
    for (const schema_key *row = schema_keys; row->path; row++)
        if (*row->path == *path && !strcmp(row->path, path))
            return row; /* one letter first: this is called thousands of times per file */
    return NULL;
}

const char *schema_leaf(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? dot + 1 : path;
}

size_t schema_parent_length(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? (size_t)(dot - path) : 0;
}

int schema_is_child(const schema_key *row, const char *parent)
{
    size_t length = strlen(parent);
    return schema_parent_length(row->path) == length && !strncmp(row->path, parent, length);
}

enum { NAME = 32 }; /* no key is longer */

static int least(int a, int b) { return a < b ? a : b; }

/* Insertions, deletions, replacements and swaps of neighbours that turn a into b. */
static int edit_distance(const char *a, const char *b)
{
    int d[NAME + 1][NAME + 1], m = (int)strlen(a), n = (int)strlen(b);
    for (int i = 0; i <= m; i++) d[i][0] = i;
    for (int j = 0; j <= n; j++) d[0][j] = j;
    for (int i = 1; i <= m; i++)
        for (int j = 1; j <= n; j++) {
            d[i][j] = least(least(d[i - 1][j], d[i][j - 1]) + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = least(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[m][n];
}

/* The distance between two names; a large number when one is not a plausible misspelling of the other. */
static int name_distance(const char *typed, const char *name)
{
    enum { FAR = 1000 };
    size_t length = strlen(typed);
    if (length == 0 || length > NAME || strlen(name) > NAME) return FAR;
    int d = edit_distance(typed, name);
    if (d <= least(3, (int)(length + 2) / 3) && d < (int)length) return d;
    if (length >= 3 && (strstr(name, typed) || (strlen(name) >= 3 && strstr(typed, name))))
        return 4; /* one name contains the other: iter for iterations, learning_rate for rate */
    return FAR;
}

const char *schema_nearest(const char *parent, const char *name)
{
    const char *best = NULL;
    int best_distance = 5;
    for (const schema_key *row = schema_keys; row->path; row++) {
        int d = schema_is_child(row, parent) ? name_distance(name, schema_leaf(row->path)) : best_distance;
        if (d >= best_distance) continue;
        best = row->path;
        best_distance = d;
    }
    for (const schema_key *row = schema_keys; row->path && !best; row++)
        if (!strcmp(schema_leaf(row->path), name)) best = row->path;
    return best;
}

const char *schema_nearest_word(const char *words, const char *name, char *word, size_t room)
{
    char one[64];
    int best_distance = 5;
    while (schema_word(&words, one, sizeof one)) {
        int d = name_distance(name, one);
        if (d >= best_distance) continue;
        best_distance = d;
        snprintf(word, room, "%s", one);
    }
    return best_distance < 5 ? word : NULL;
}

/* ---------------------------------------------------------------------------- the manual */

static const char *const table_head = "| key | value | default | applies when | meaning |\n|---|---|---|---|---|\n";

static const char *const manual_head =
    "# The run file\n"
    "\n"
    "<!-- Generated from program/runfile/schema.c by config_document(); tests/runfile/test_config.c compares the two. -->\n"
    "\n"
    "A run file is a YAML mapping that names everything a run depends on. `sosmc run FILE.yaml` runs it, and the "
    "resolved file in the run's folder, which holds every key with its value, runs the same again. The smallest "
    "useful file names a model and an objective; everything else has a default.\n"
    "\n"
    "**A file that chooses nothing is solved automatically.** It names a model and an objective, and none of `scheme`, `kernel`, "
    "`resampling`, `adapt`, `optimiser`, `iterations` and the other keys below that apply only when `settings` is explicit or "
    "paper. A solver then finds where the particles start, how they move, how far theta goes in every update and when to end; "
    "`seed`, `threads`, `particles`, `init`, `precision`, `limits` and `output` may be given with it. The resolved file says "
    "`settings: automatic`, so it replays what was run. A perceptron with a Gaussian base that is fitted to points is trained so; "
    "a stored network of points is tuned so under `reward_reverse` (one without a base law needs an `init` that covers it, such as "
    "`{type: normal, sd: 4}`). Other networks and the picture model `deblur` are beyond the solver, and runs "
    "that optimise nothing (`none`, `anneal`) have nothing to solve: their files are explicit, whatever they name. `temper` finds "
    "its moves and temperatures: its files are automatic, whatever the model.\n"
    "\n"
    "```yaml\n"
    "model: {type: hierarchical_gaussian, y: [0.3, 1.9, 2.4, -0.6, 1.5, 2.0]}\n"
    "objective: mmle\n"
    "```\n"
    "\n"
    "**A file that chooses something is explicit**, and what it leaves out has defaults. Without `kernel` it gets `mala` with a "
    "rule that leads its step to an acceptance rate of 0.57, and without `optimiser` Adam with rate 0.05 and a cosine over its "
    "iterations. A file that has the mapping, even an empty one, "
    "keeps the fixed defaults of the keys it leaves out: `ula` with step 0.05, Adam with rate 0.01. Exceptions: the picture "
    "model `deblur`, whose prior is not smooth, gets `gibbs` (no rule); `impdiff`, `soul` and `pcd` are published with "
    "unadjusted moves and get `ula`; networks keep the fixed rate, because 0.05 can destroy a trained one. Runs that "
    "optimise nothing (`none`, `anneal`) have no `optimiser`. A rate that falls over the iterations makes a run of other length "
    "another run: `--resume` with more iterations needs an `optimiser` in the file. `settings: paper` has the fixed defaults "
    "also where the mapping is missing.\n"
    "\n"
    "Methods under the names they are published with, and the experiments of the paper: [paper.md](paper.md). A file that "
    "chooses everything:\n"
    "\n"
    "```yaml\n"
    "model: {type: gaussian_mixture, means: [[-3, 0], [3, 0]], variance: 0.5, theta: [0, 0], eps: 1.0e-9}\n"
    "objective:\n"
    "  type: reward_forward            # reward_reverse, mmle, ebm_likelihood\n"
    "  reward: {type: smooth_gate, center: [4, 3.8], tau: 20, lambda: 0.5, alpha: 0.7}   # or a formula in x1, x2, "
    "...\n"
    "  beta: 0.1\n"
    "  reference: {theta: [0, 0], batch: 5000}\n"
    "scheme: sosmc                     # impdiff, soul, pcd, or a mapping with their options\n"
    "kernel: {type: ula, step: 0.1}    # mala, rwm, hmc {step, leapfrog, mass}\n"
    "resampling: {scheme: multinomial, threshold: 0.9}\n"
    "adapt: {threshold: 0.95, factor: 1.01, min: 0.001, max: 0.99}\n"
    "optimiser: {type: adam, rate: 0.1}\n"
    "particles: 10000\n"
    "iterations: 1000\n"
    "seed: 0\n"
    "```\n"
    "\n"
    "More to copy from: `examples/*.yaml`.\n"
    "\n"
    "## How it is read\n"
    "\n"
    "- **Mistakes are errors.** An unknown key, a key that does not apply to the chosen type, a wrong type or range, a "
    "duplicate: the message names file, line, what was found and what is expected.\n"
    "- **`--set PATH=VALUE`** changes a key from the command line: `--set kernel.step=0.2`, "
    "`--set 'model.theta=[1, -1]'`, `--set adapt.1.factor=1.02` (items of a list count from 0). A value that begins "
    "with `[`, `{`, `'` or `\"` is YAML, "
    "anything else is taken as it stands, so a formula needs no quotes of its own. Mappings are made when missing.\n"
    "- **`null`** takes a key out, and its default returns: `--set adapt=null`. To change a type together with its "
    "options, replace the whole mapping: `--set 'kernel={type: hmc, step: 0.1, leapfrog: 5}'`.\n"
    "- **A bare value** instead of a mapping stands for its `type`: `scheme: soul`, `kernel: mala`, `objective: mmle`. "
    "A bare `reward` is a formula, a bare `objective.data` a file, a bare `resampling` its scheme, "
    "a bare `judge` its cost.\n"
    "- **Numbers** are decimal, with or without exponent (`1e-9`, `.5`; `010` is ten), and finite. A whole number may "
    "be written `1e4`. A number in quotes is text. **Flags** are `true` or `false` (also `yes`, `no`, `on`, `off`). "
    "Where a list of numbers is expected, a bare number is a list of one.\n"
    "- **Data files** are relative to the run file; those named by `--set`, to the current folder. In the resolved "
    "file they are absolute.\n"
    "- **Columns** of a table are named, or counted from 1. A name that looks like a number needs quotes.\n"
    "- Anchors and aliases work; tags and merge keys (`<<`) do not. A file has at most 64 MB, 1,000,000 values and 32 "
    "levels.\n"
    "\n"
    "## Keys\n";

/* "`model.type` is a or b" of "model.type=a|b"; "`kernel` is given" of "kernel"; "the file names a or b" of "@a|b"; conditions
 * joined by '&' by "and". */
static void describe_when(const char *when, char *out, size_t room)
{
    char one[PATH_ROOM];
    size_t length = strcspn(when, "&"), word = strcspn(when, "=&");
    int used = *when == '@'     ? snprintf(out, room, "the file names ")
               : word == length ? snprintf(out, room, "`%.*s` is given", (int)word, when)
                                : snprintf(out, room, "`%.*s` is ", (int)word, when);
    snprintf(one, sizeof one, "%.*s", (int)length, when);
    if ((*when == '@' || word < length) && (size_t)used < room)
        schema_join(one + (*when == '@' ? 1 : word + 1), " or ", out + used, room - (size_t)used);
    if (!when[length]) return;
    size_t end = strlen(out);
    snprintf(out + end, room - end, " and ");
    describe_when(when + length + 1, out + end + 5, room - end - 5);
}

/* "`a` when `P` is given; `b` when `Q` is c or d; else `e`". */
static void describe_cases(const char *rule, char *out, size_t room)
{
    char when[PATH_ROOM], value[PATH_ROOM], described[3 * PATH_ROOM];
    size_t used = 0;
    for (rule++; schema_case(&rule, when, value) && used < room;) {
        describe_when(when, described, sizeof described);
        int more = *when ? snprintf(out + used, room - used, "`%s` when %s; ", value, described)
                         : snprintf(out + used, room - used, "else `%s`", value);
        used += more > 0 ? (size_t)more : 0;
    }
}

static void describe_default(const schema_key *row, char *out, size_t room)
{
    const char *f = row->fallback;
    if (!f)
        snprintf(out, room, "required");
    else if (!*f)
        snprintf(out, room, "none");
    else if (!strncmp(f, "=zeros ", 7))
        snprintf(out, room, "zeros, one per row of `%s`", f + 7);
    else if (!strncmp(f, "=half ", 6))
        snprintf(out, room, "half of `%s`, at least 1", f + 6);
    else if (!strncmp(f, "=count ", 7))
        snprintf(out, room, "the value of `%s`, at least 1", f + 7);
    else if (*f == '=')
        snprintf(out, room, "the value of `%s`", f + 1);
    else if (*f == '?')
        describe_cases(f, out, room);
    else if (row->type == TYPE_MAP)
        snprintf(out, room, "its keys' defaults");
    else
        snprintf(out, room, "`%s`", f);
}

static void document_row(FILE *out, const schema_key *row)
{
    char value[240], fallback[1000], when[240] = "always";
    size_t used = 0;
    schema_expected(row, value, sizeof value);
    describe_default(row, fallback, sizeof fallback);
    if (row->when) describe_when(row->when, when, sizeof when);
    if (schema_has_word(schema_chosen, row->path)) {
        if (row->when) used = strlen(when);
        snprintf(when + used, sizeof when - used, "%s`settings` is explicit or paper", used ? " and " : "");
    }
    fprintf(out, "| `%s` | %s | %s | %s | %s |\n", row->path, value, fallback, when, row->meaning);
}

static void document_choices(FILE *out, const schema_key *row)
{
    if (row->type != TYPE_CHOICE && row->type != TYPE_LEVEL) return;
    if (row > schema_keys && !strcmp(row->path, row[-1].path)) return; /* another row of the same key */
    fprintf(out, "\n`%s`:\n\n", row->path);
    for (const schema_choice *c = schema_choices; c->path; c++)
        if (!strcmp(c->path, row->path)) fprintf(out, "- `%s`: %s\n", c->name, c->meaning);
}

static const schema_key *document_table(FILE *out, const schema_key *row, const char *section)
{
    size_t length = strlen(section);
    fprintf(out, "\n%s", table_head);
    for (; row->path && !strncmp(row->path, section, length) && (!row->path[length] || row->path[length] == '.'); row++)
        document_row(out, row);
    return row;
}

/* A mapping with all that is in it. */
static const schema_key *document_mapping(FILE *out, const schema_key *row)
{
    char when[240];
    fprintf(out, "\n### `%s`\n\n%s%s\n", row->path, row->meaning, row->fallback ? "" : " Required.");
    if (schema_has_word(schema_chosen, row->path)) fputs("\nApplies when `settings` is explicit or paper.\n", out);
    if (row->when) {
        describe_when(row->when, when, sizeof when);
        fprintf(out, "\nApplies when %s.\n", when);
    }
    const schema_key *end = document_table(out, row + 1, row->path);
    for (const schema_key *r = row + 1; r < end; r++) document_choices(out, r);
    return end;
}

/* Single keys at the top, which stand together. */
static const schema_key *document_singles(FILE *out, const schema_key *row)
{
    const schema_key *end = row;
    fprintf(out, "\n### %s\n\n%s", row == schema_keys ? "Who chooses" : "The run itself", table_head);
    for (; end->path && end->type != TYPE_MAP && end->type != TYPE_RULES; end++) document_row(out, end);
    for (const schema_key *r = row; r < end; r++) document_choices(out, r);
    return end;
}

void config_document(FILE *out)
{
    const schema_key *row = schema_keys;
    fputs(manual_head, out);
    while (row->path)
        row = row->type == TYPE_MAP || row->type == TYPE_RULES ? document_mapping(out, row)
                                                               : document_singles(out, row);
}
