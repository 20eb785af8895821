/* model_file.c: multi-layer perceptrons and layer lists in files of tensors.
 *
 * Invariant: every tensor of a file that is read becomes part of theta, once, and sizes of neighbouring layers agree, or
 * agree with the description; reading what was written gives the same structure and theta rounded to float32. */
#include "model_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "files/files.h"
#include "network_text.h"
#include "files/tensors.h"

static const char activation_key[] = "sosmc.activation", base_key[] = "sosmc.base_sd", network_key[] = "sosmc.network",
                  centre_key[] = "sosmc.centre", factor_key[] = "sosmc.factor", columns_key[] = "sosmc.columns";

static int known_activation(const char *name)
{
    return !strcmp(name, "silu") || !strcmp(name, "softplus") || !strcmp(name, "tanh");
}

int model_parameters(int inputs, const int *width, int hidden_layers)
{
    int64_t total = 0, in = inputs;
    if (inputs < 1 || hidden_layers < 0 || hidden_layers > MODEL_LAYERS) return -1;
    for (int i = 0; i <= hidden_layers; i++) {
        int64_t out = i < hidden_layers ? width[i] : 1;
        if (out < 1) return -1;
        total += (in + 1) * out; /* below 2^62 + 2^28 */
        if (total > TENSORS_NUMBERS) return -1;
        in = out;
    }
    return (int)total;
}

void model_free(model_file *m)
{
    free(m->width);
    free(m->theta);
    network_free(&m->network);
    scaling_free(&m->scaling);
    *m = (model_file){0};
}

/* ------------------------------------------------------------------------------------------------ reading */

typedef struct {
    const tensor *weight, *bias;
    size_t stem; /* length of the name in front of "weight" */
    long number; /* the last in the name; -1: none */
} layer;

typedef struct {
    const char *path;
    tensor_file file;
    layer list[MODEL_LAYERS + 1];
    int layers, convolutions;
} parts;

/* The length of the name in front of ".WORD" or "_WORD"; 0: it does not end so. */
static size_t stem(const char *name, const char *word)
{
    size_t n = strlen(name), m = strlen(word);
    if (n < m + 2 || strcmp(name + n - m, word) != 0 || !strchr("._", name[n - m - 1])) return 0;
    return n - m - 1;
}

/* The last number in the first n bytes, which is the layer's where modules are numbered too; -1: there is none, or it is
 * too large. */
static long layer_number(const char *name, size_t n)
{
    while (n > 0 && !(name[n - 1] >= '0' && name[n - 1] <= '9')) n--;
    size_t end = n;
    while (n > 0 && name[n - 1] >= '0' && name[n - 1] <= '9') n--;
    return end == n || end - n > 9 ? -1 : strtol(name + n, NULL, 10);
}

static const tensor *find_bias(const tensor_file *f, const char *weight, size_t n)
{
    for (int i = 0; i < f->count; i++) {
        const char *name = f->tensor[i].name;
        if (stem(name, "bias") == n && !strncmp(name, weight, n) && name[n] == weight[n]) return &f->tensor[i];
    }
    return NULL;
}

/* The numbers of two names that are otherwise the same, from the first on; 2: the names have other letters. */
static int compare_numbers(const layer *a, const layer *b)
{
    const char *p = a->weight->name, *q = b->weight->name, *ends[2] = {p + a->stem, q + b->stem};
    int order = 0;
    while (p < ends[0] && q < ends[1]) {
        size_t m = strspn(p, "0123456789"), n = strspn(q, "0123456789");
        if ((m > 0) != (n > 0) || m > 9 || n > 9 || (m == 0 && *p != *q)) return 2;
        if (m > 0 && order == 0) {
            long left = strtol(p, NULL, 10), right = strtol(q, NULL, 10);
            order = (left > right) - (left < right);
        }
        p += m ? m : 1;
        q += n ? n : 1;
    }
    return p == ends[0] && q == ends[1] ? order : 2;
}

/* Convolutions come first. Names that differ in their numbers alone are ordered by all of them (block1.conv2 before
 * block2.conv1), others by the last (in1, hidden2, out3). */
static int compare_layers(const layer *a, const layer *b)
{
    if (a->weight->dims != b->weight->dims) return a->weight->dims > b->weight->dims ? -1 : 1;
    int order = compare_numbers(a, b);
    return order == 2 ? (a->number > b->number) - (a->number < b->number) : order;
}

static int add_layer(parts *p, const tensor *t, char *error, size_t room)
{
    size_t n = stem(t->name, "weight");
    if (p->layers > MODEL_LAYERS)
        return files_fail(error, room, "%s holds more than %d layers", p->path, MODEL_LAYERS + 1);
    if (t->dims != 2 && t->dims != 4)
        return files_fail(error, room,
                          "tensor '%s' of %s has %d dimensions; the weight of a linear layer has 2, of a convolution 4",
                          t->name, p->path, t->dims);
    layer l = {.weight = t, .bias = find_bias(&p->file, t->name, n), .stem = n, .number = layer_number(t->name, n)};
    if (!l.bias) return files_fail(error, room, "tensor '%s' of %s has no bias beside it", t->name, p->path);
    int at = p->layers++;
    p->convolutions += t->dims == 4;
    for (; at > 0 && compare_layers(&p->list[at - 1], &l) > 0; at--) p->list[at] = p->list[at - 1];
    p->list[at] = l;
    return 0;
}

/* Refuses names from which no order of the layers follows. A number is optional for a single convolution, and
 * for a single linear layer after convolutions. The comparison is not transitive where names of several patterns occur, so
 * all pairs are compared. */
static int check_order(const parts *p, char *error, size_t room)
{
    for (int k = 0; k < p->layers; k++) {
        const layer *l = &p->list[k];
        int alone = l->weight->dims == 4 ? p->convolutions == 1 : p->convolutions && p->layers - p->convolutions == 1;
        if (l->number < 0 && !alone)
            return files_fail(error, room, "tensor '%s' of %s has no number in its name to say which layer it is",
                              l->weight->name, p->path);
        for (int i = 0; i < k; i++) {
            int order = compare_layers(&p->list[i], l);
            if (order < 0) continue;
            return files_fail(error, room, "tensors '%s' and '%s' of %s %s; layers need an order",
                              p->list[i].weight->name, l->weight->name, p->path,
                              order ? "have names whose numbers contradict others" : "have the same number");
        }
    }
    return 0;
}

static int collect_layers(parts *p, char *error, size_t room)
{
    const tensor_file *f = &p->file;
    for (int i = 0; i < f->count; i++)
        if (stem(f->tensor[i].name, "weight") && add_layer(p, &f->tensor[i], error, room)) return -1;
    for (int i = 0; i < f->count; i++) {
        const tensor *t = &f->tensor[i];
        int used = stem(t->name, "weight") > 0;
        for (int k = 0; k < p->layers; k++) used |= p->list[k].bias == t;
        if (!used)
            return files_fail(error, room, "tensor '%s' of %s is neither weight nor bias of a layer", t->name, p->path);
    }
    return p->layers ? check_order(p, error, room) : files_fail(error, room, "%s holds no tensors", p->path);
}

/* The outputs of one layer are the inputs of the next, and the last has one. */
static int check_chain(const parts *p, char *error, size_t room)
{
    for (int k = 0; k < p->layers; k++) {
        const tensor *w = p->list[k].weight, *b = p->list[k].bias, *before = k ? p->list[k - 1].weight : NULL;
        if (w->shape[0] < 1 || w->shape[1] < 1)
            return files_fail(error, room, "tensor '%s' of %s is empty: %" PRId64 " outputs of %" PRId64 " inputs",
                              w->name, p->path, w->shape[0], w->shape[1]);
        if (b->dims != 1)
            return files_fail(error, room, "tensor '%s' of %s has %d dimensions; a bias has 1", b->name, p->path,
                              b->dims);
        if (b->shape[0] != w->shape[0])
            return files_fail(error, room,
                              "tensor '%s' of %s holds %" PRId64 " numbers, but '%s' has %" PRId64 " outputs", b->name,
                              p->path, b->shape[0], w->name, w->shape[0]);
        if (before && before->shape[0] != w->shape[1])
            return files_fail(error, room,
                              "tensor '%s' of %s has %" PRId64 " inputs, but '%s' before it has %" PRId64 " outputs",
                              w->name, p->path, w->shape[1], before->name, before->shape[0]);
    }
    const tensor *last = p->list[p->layers - 1].weight;
    if (last->shape[0] == 1) return 0;
    return files_fail(error, room, "tensor '%s' of %s, the last layer, has %" PRId64 " outputs; an energy has 1",
                      last->name, p->path, last->shape[0]);
}

static int read_base(const parts *p, double *base_sd, char *error, size_t room)
{
    const char *base = tensors_metadata(&p->file, base_key);
    char *end;
    if (!base) return 0;
    *base_sd = strtod(base, &end);
    if (end != base && !*end && isfinite(*base_sd) && *base_sd >= 0.0) return 0;
    return files_fail(error, room, "%s has '%.40s' as %s; a number from 0 on is expected", p->path, base, base_key);
}

/* How the points of the network were scaled, where the file says it. */
static int read_scaling(const parts *p, model_file *out, char *error, size_t room)
{
    const char *centre = tensors_metadata(&p->file, centre_key), *factor = tensors_metadata(&p->file, factor_key),
               *columns = tensors_metadata(&p->file, columns_key);
    int positive = 1;
    if (!centre && !factor) return 0;
    if (columns ? scaling_name(&out->scaling, out->inputs, columns) : scaling_make(&out->scaling, out->inputs))
        return files_fail(error, room, "no memory to read %s", p->path);
    int wrong = !centre || !factor || scaling_numbers(centre, out->scaling.centre, out->inputs) ||
                scaling_numbers(factor, out->scaling.factor, out->inputs);
    for (int j = 0; j < out->inputs && !wrong; j++) positive = positive && out->scaling.factor[j] > 0;
    if (!wrong && positive) return 0;
    return files_fail(error, room, "%s needs %d numbers as %s and as many positive ones as %s, with blanks between",
                      p->path, out->inputs, centre_key, factor_key);
}

/* What the file says of itself and what the caller says must be the same. Where neither says anything nothing is guessed, but
 * a network without hidden layers needs none. */
static int find_activation(const parts *p, const char *given, model_file *out, char *error, size_t room)
{
    const char *own = tensors_metadata(&p->file, activation_key), *activation = own ? own : given;
    if (own && !known_activation(own))
        return files_fail(error, room, "%s has '%.40s' as %s; silu, softplus and tanh are known", p->path, own,
                          activation_key);
    if (given && !known_activation(given))
        return files_fail(error, room, "%s with the activation '%.40s'; silu, softplus and tanh are known", p->path,
                          given);
    if (own && given && strcmp(own, given) != 0)
        return files_fail(error, room, "%s has %s as its activation, but %s was given; expected none", p->path, own,
                          given);
    if (!activation && p->layers > 1)
        return files_fail(
            error, room,
            "%s does not say what its hidden layers are followed by; say it with model.activation in a run "
            "file or --activation: silu, softplus or tanh, as it was trained",
            p->path);
    (void)snprintf(out->activation, sizeof out->activation, "%s", activation ? activation : "silu");
    return 0;
}

static int read_settings(const parts *p, const char *given, model_file *out, char *error, size_t room)
{
    return find_activation(p, given, out, error, room) || read_base(p, &out->base_sd, error, room) ? -1 : 0;
}

static double *copy_numbers(double *out, const tensor *t)
{
    int64_t n = tensor_count(t);
    for (int64_t i = 0; i < n; i++) out[i] = (double)t->data[i];
    return out + n;
}

static int fill_theta(const parts *p, model_file *out, char *error, size_t room)
{
    out->theta = calloc((size_t)out->parameters, sizeof *out->theta);
    if (!out->theta) return files_fail(error, room, "no memory to read %s", p->path);
    double *next = out->theta;
    for (int k = 0; k < p->layers; k++) next = copy_numbers(copy_numbers(next, p->list[k].weight), p->list[k].bias);
    return 0;
}

static int read_perceptron(const parts *p, const char *activation, model_file *out, char *error, size_t room)
{
    if (check_chain(p, error, room) || read_settings(p, activation, out, error, room)) return -1;
    out->inputs = (int)p->list[0].weight->shape[1];
    out->hidden_layers = p->layers - 1;
    out->width = calloc((size_t)p->layers, sizeof *out->width);
    if (!out->width) return files_fail(error, room, "no memory to read %s", p->path);
    for (int k = 0; k < out->hidden_layers; k++) out->width[k] = (int)p->list[k].weight->shape[0];
    out->parameters = model_parameters(out->inputs, out->width, out->hidden_layers);
    return 0;
}

/* 16x1x5x5; a single number has no dimensions. */
static const char *shape_text(int dims, const int64_t *shape, char out[96])
{
    size_t used = 0;
    (void)snprintf(out, 96, "a single number");
    for (int i = 0; i < dims; i++)
        used += (size_t)snprintf(out + used, 96 - used, "%s%" PRId64, i ? "x" : "", shape[i]);
    return out;
}

static int check_shape(const parts *p, const tensor *t, int number, int dims, const int64_t *shape, char *error,
                       size_t room)
{
    char found[96], wanted[96];
    int same = t->dims == dims;
    for (int i = 0; same && i < dims; i++) same = t->shape[i] == shape[i];
    if (same) return 0;
    return files_fail(error, room, "tensor '%s' of %s has shape %s, but layer %d of the network asks for %s", t->name,
                      p->path, shape_text(t->dims, t->shape, found), number, shape_text(dims, shape, wanted));
}

static int check_layers(const parts *p, const sosmc_network *n, char *error, size_t room)
{
    int64_t shape[TENSOR_DIMS];
    layer_map map = network_picture(n);
    if (p->layers != n->count)
        return files_fail(error, room, "%s holds %d layers, but its description has %d", p->path, p->layers, n->count);
    for (int k = 0; k < n->count; k++) {
        int dims = network_weights(map, &n->layer[k], shape);
        if (check_shape(p, p->list[k].weight, k + 1, dims, shape, error, room) ||
            check_shape(p, p->list[k].bias, k + 1, 1, shape, error, room))
            return -1;
        map = network_behind(map, &n->layer[k]);
    }
    return 0;
}

/* The file's own description and the caller's, where both exist, must be the same. */
static int find_description(const parts *p, const char *given, sosmc_network *out, char *error, size_t room)
{
    char why[512], inside[NETWORK_TEXT], outside[NETWORK_TEXT];
    const char *own = tensors_metadata(&p->file, network_key);
    sosmc_network other;
    if (network_parse(own ? own : given, out, why, sizeof why))
        return own ? files_fail(error, room, "%s has a %s that cannot be read: %s", p->path, network_key, why)
                   : files_fail(error, room, "%s as '%.200s': %s", p->path, given, why);
    if (!own || !given) return 0;
    if (network_parse(given, &other, why, sizeof why))
        return files_fail(error, room, "%s as '%.200s': %s", p->path, given, why);
    int failed = network_print(out, inside, sizeof inside) || network_print(&other, outside, sizeof outside);
    network_free(&other);
    return failed || strcmp(inside, outside) != 0
               ? files_fail(error, room, "%s is '%.200s' by its own description, but '%.200s' was given; expected none",
                            p->path, inside, outside)
               : 0;
}

static int read_network(const parts *p, const char *given, model_file *out, char *error, size_t room)
{
    sosmc_network *n = &out->network;
    double base = 0;
    if (find_description(p, given, n, error, room) || check_layers(p, n, error, room) ||
        read_base(p, &base, error, room))
        return -1;
    if (base > 0 && n->base_sd > 0 && base != n->base_sd)
        return files_fail(error, room, "%s has %g as %s, but its description says base %g; expected the same", p->path,
                          base, base_key, n->base_sd);
    if (base > 0) n->base_sd = base;
    out->base_sd = n->base_sd;
    out->inputs = n->channels * n->rows * n->columns;
    out->parameters = (int)network_parameters(n); /* the file holds as many */
    return 0;
}

int model_read_as(const char *path, const char *description, const char *activation, model_file *out, char *error,
                  size_t room)
{
    parts p = {.path = path};
    *out = (model_file){0};
    int status = tensors_read_shapes(path, &p.file, error, room);
    if (!status) status = collect_layers(&p, error, room);
    int described = description || tensors_metadata(&p.file, network_key);
    if (!status && p.convolutions && !described)
        status = files_fail(error, room,
                            "%s has convolutions but no description of strides and padding: give it with model.network "
                            "or --network, such as mnist",
                            path);
    if (!status && described && activation)
        status = files_fail(error, room,
                            "%s is a network of pictures, whose layers have their own activations; %s was given", path,
                            activation);
    if (!status)
        status = described ? read_network(&p, description, out, error, room)
                           : read_perceptron(&p, activation, out, error, room);
    if (!status) status = read_scaling(&p, out, error, room);
    if (!status) status = tensors_read_numbers(path, &p.file, error, room) || fill_theta(&p, out, error, room) ? -1 : 0;
    tensors_free(&p.file);
    if (status) model_free(out);
    return status;
}

int model_read(const char *path, model_file *out, char *error, size_t room)
{
    return model_read_as(path, NULL, NULL, out, error, room);
}

/* ------------------------------------------------------------------------------------------------ writing */

static int check_perceptron(const char *path, const model_file *m, char *error, size_t room)
{
    int wanted = model_parameters(m->inputs, m->width, m->hidden_layers);
    if (wanted < 0)
        return files_fail(
            error, room,
            "cannot write %s: %d inputs and %d hidden layers with their widths make no network of at most %d "
            "numbers",
            path, m->inputs, m->hidden_layers, TENSORS_NUMBERS);
    if (wanted != m->parameters)
        return files_fail(error, room, "cannot write %s: the network has %d parameters, its layers need %d", path,
                          m->parameters, wanted);
    if (!known_activation(m->activation))
        return files_fail(error, room, "cannot write %s: the activation is '%s'; silu, softplus and tanh are known",
                          path, m->activation);
    if (!isfinite(m->base_sd) || m->base_sd < 0.0)
        return files_fail(error, room, "cannot write %s: base_sd is %g; a number from 0 on is expected", path,
                          m->base_sd);
    return 0;
}

static int check_network(const char *path, const model_file *m, char *error, size_t room)
{
    char text[512];
    const char *problem = sosmc_network_problem(&m->network, text, sizeof text);
    if (problem) return files_fail(error, room, "cannot write %s: %s", path, problem);
    int64_t wanted = network_parameters(&m->network);
    if (wanted > TENSORS_NUMBERS)
        return files_fail(error, room, "cannot write %s: the network has %" PRId64 " numbers; a file holds at most %d",
                          path, wanted, TENSORS_NUMBERS);
    if (wanted == m->parameters) return 0;
    return files_fail(error, room, "cannot write %s: the network has %d parameters, its layers need %" PRId64, path,
                      m->parameters, wanted);
}

static int check_model(const char *path, const model_file *m, char *error, size_t room)
{
    return model_is_network(m) ? check_network(path, m, error, room) : check_perceptron(path, m, error, room);
}

/* Adds the next tensor. Its numbers are read from *theta, which is advanced behind them. */
static int put_tensor(const char *path, tensor_file *f, const char *name, int dims, const int64_t *shape,
                      const double **theta, char *error, size_t room)
{
    float *data = tensors_add(f, name, dims, shape);
    if (!data) return files_fail(error, room, "no memory to write %s", path);
    int64_t n = tensor_count(&f->tensor[f->count - 1]);
    for (int64_t i = 0; i < n; i++) {
        data[i] = (float)(*theta)[i];
        if (!isfinite(data[i]))
            return files_fail(
                error, room, "cannot write %s: number %" PRId64 " of %s is %g, which no finite 32-bit float stands for",
                path, i + 1, name, (*theta)[i]);
    }
    *theta += n;
    return 0;
}

/* Weight and bias of layer `number` (from 1); the outputs are shape[0]. */
static int put_layer(const char *path, tensor_file *f, int number, int dims, const int64_t *shape, const double **theta,
                     char *error, size_t room)
{
    char separator = tensors_ending(path) == TENSORS_NPZ ? '_' : '.', name[TENSOR_NAME];
    (void)snprintf(name, sizeof name, "layer%d%cweight", number, separator);
    if (put_tensor(path, f, name, dims, shape, theta, error, room)) return -1;
    (void)snprintf(name, sizeof name, "layer%d%cbias", number, separator);
    return put_tensor(path, f, name, 1, shape, theta, error, room);
}

static int put_perceptron(const char *path, tensor_file *f, const model_file *m, char *error, size_t room)
{
    const double *theta = m->theta;
    char number[32];
    int in = m->inputs;
    for (int k = 0; k <= m->hidden_layers; k++) {
        int64_t shape[2] = {k < m->hidden_layers ? m->width[k] : 1, in};
        if (put_layer(path, f, k + 1, 2, shape, &theta, error, room)) return -1;
        in = (int)shape[0];
    }
    if (tensors_describe(f, activation_key, m->activation) ||
        (m->base_sd > 0.0 && tensors_describe(f, base_key, files_number(m->base_sd, number))))
        return files_fail(error, room, "no memory to write %s", path);
    return 0;
}

static int put_network(const char *path, tensor_file *f, const model_file *m, char *error, size_t room)
{
    const double *theta = m->theta;
    char text[NETWORK_TEXT];
    int64_t shape[TENSOR_DIMS];
    layer_map map = network_picture(&m->network);
    for (int k = 0; k < m->network.count; k++) {
        const sosmc_layer *l = &m->network.layer[k];
        if (put_layer(path, f, k + 1, network_weights(map, l, shape), shape, &theta, error, room)) return -1;
        map = network_behind(map, l);
    }
    if (network_print(&m->network, text, sizeof text) || tensors_describe(f, network_key, text))
        return files_fail(error, room, "no memory to write %s", path);
    return 0;
}

static int put_scaling(tensor_file *f, const points_scaling *s)
{
    if (s->dim == 0) return 0;
    char *centre = scaling_text(s->centre, s->dim), *factor = scaling_text(s->factor, s->dim);
    int rc = centre && factor && !tensors_describe(f, centre_key, centre) && !tensors_describe(f, factor_key, factor) &&
             !(s->columns && tensors_describe(f, columns_key, s->columns));
    free(centre);
    free(factor);
    return rc ? 0 : -1;
}

int model_write(const char *path, const model_file *m, char *error, size_t room)
{
    tensor_file f = {0};
    if (check_model(path, m, error, room)) return -1;
    int status = tensors_describe(&f, "format", "pt") ? files_fail(error, room, "no memory to write %s", path)
                 : model_is_network(m)                ? put_network(path, &f, m, error, room)
                                                      : put_perceptron(path, &f, m, error, room);
    if (!status && put_scaling(&f, &m->scaling)) status = files_fail(error, room, "no memory to write %s", path);
    if (!status) status = tensors_write(path, &f, error, room);
    tensors_free(&f);
    return status;
}

/* ------------------------------------------------------------------------------------------------ the library's view */

int model_is_network(const model_file *m) { return m->network.count > 0; }

sosmc_mlp model_network(const model_file *m)
{
    if (model_is_network(m)) return (sosmc_mlp){0};
    return (sosmc_mlp){.inputs = m->inputs,
                       .hidden = m->hidden_layers,
                       .width = m->width,
                       .activation = !strcmp(m->activation, "softplus") ? SOSMC_SOFTPLUS
                                     : !strcmp(m->activation, "tanh")   ? SOSMC_TANH
                                                                        : SOSMC_SILU,
                       .base_sd = m->base_sd};
}

sosmc_model model_energy(const model_file *m, sosmc_mlp *mlp)
{
    *mlp = model_network(m);
    return model_is_network(m) ? sosmc_network_model(&m->network) : sosmc_mlp_model(mlp);
}
