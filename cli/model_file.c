/* model_file.c: multi-layer perceptrons in files of tensors.
 *
 * Invariant: every tensor of a file that is read becomes part of theta, once, and sizes of neighbouring layers agree;
 * reading what was written gives the same structure and theta rounded to float32. */
#include "model_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "tensors.h"

static const char activation_key[] = "sosmc.activation", base_key[] = "sosmc.base_sd";

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
    *m = (model_file){0};
}

/* ------------------------------------------------------------------------------------------------ reading */

typedef struct {
    const tensor *weight, *bias;
    long number; /* in the names: their order */
} layer;

typedef struct {
    const char *path;
    tensor_file file;
    layer list[MODEL_LAYERS + 1];
    int layers;
} parts;

/* The length of the name in front of ".WORD" or "_WORD"; 0: it does not end so. */
static size_t stem(const char *name, const char *word)
{
    size_t n = strlen(name), m = strlen(word);
    if (n < m + 2 || strcmp(name + n - m, word) != 0 || !strchr("._", name[n - m - 1])) return 0;
    return n - m - 1;
}

/* The last number in the first n bytes: the layer's among those that number modules too; -1: none, or absurd. */
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

static int add_layer(parts *p, const tensor *t, char *error, size_t room)
{
    size_t n = stem(t->name, "weight");
    if (p->layers > MODEL_LAYERS)
        return files_fail(error, room, "%s holds more than %d layers", p->path, MODEL_LAYERS + 1);
    if (t->dims != 2)
        return files_fail(error, room, "tensor '%s' of %s has %d dimensions; the weight of a linear layer has 2",
                          t->name, p->path, t->dims);
    layer l = {.weight = t, .bias = find_bias(&p->file, t->name, n), .number = layer_number(t->name, n)};
    if (l.number < 0)
        return files_fail(error, room, "tensor '%s' of %s has no number in its name to say which layer it is", t->name,
                          p->path);
    if (!l.bias) return files_fail(error, room, "tensor '%s' of %s has no bias beside it", t->name, p->path);
    int at = p->layers++;
    for (; at > 0 && p->list[at - 1].number > l.number; at--) p->list[at] = p->list[at - 1];
    p->list[at] = l;
    if (at == 0 || p->list[at - 1].number != l.number) return 0;
    return files_fail(error, room, "tensors '%s' and '%s' of %s have the same number; layers need an order",
                      p->list[at - 1].weight->name, t->name, p->path);
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
            return files_fail(error, room, "tensor '%s' of %s is neither weight nor bias of a linear layer", t->name,
                              p->path);
    }
    return p->layers ? 0 : files_fail(error, room, "%s holds no tensors", p->path);
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

static int read_settings(const parts *p, model_file *out, char *error, size_t room)
{
    const char *activation = tensors_metadata(&p->file, activation_key), *base = tensors_metadata(&p->file, base_key);
    if (!activation) activation = "silu";
    if (!known_activation(activation))
        return files_fail(error, room, "%s has '%.40s' as %s; silu, softplus and tanh are known", p->path, activation,
                          activation_key);
    (void)snprintf(out->activation, sizeof out->activation, "%s", activation);
    if (!base) return 0;
    char *end;
    out->base_sd = strtod(base, &end);
    if (end != base && !*end && isfinite(out->base_sd) && out->base_sd >= 0.0) return 0;
    return files_fail(error, room, "%s has '%.40s' as %s; a number from 0 on is expected", p->path, base, base_key);
}

static double *copy_numbers(double *out, const tensor *t)
{
    int64_t n = tensor_count(t);
    for (int64_t i = 0; i < n; i++) out[i] = (double)t->data[i];
    return out + n;
}

static int fill_model(const parts *p, model_file *out, char *error, size_t room)
{
    out->inputs = (int)p->list[0].weight->shape[1];
    out->hidden_layers = p->layers - 1;
    out->width = calloc((size_t)p->layers, sizeof *out->width);
    if (!out->width) return files_fail(error, room, "no memory to read %s", p->path);
    for (int k = 0; k < out->hidden_layers; k++) out->width[k] = (int)p->list[k].weight->shape[0];
    out->parameters = model_parameters(out->inputs, out->width, out->hidden_layers);
    out->theta = calloc((size_t)out->parameters, sizeof *out->theta);
    if (!out->theta) return files_fail(error, room, "no memory to read %s", p->path);
    double *next = out->theta;
    for (int k = 0; k < p->layers; k++) next = copy_numbers(copy_numbers(next, p->list[k].weight), p->list[k].bias);
    return 0;
}

int model_read(const char *path, model_file *out, char *error, size_t room)
{
    parts p = {.path = path};
    *out = (model_file){0};
    int status = tensors_read(path, &p.file, error, room);
    if (!status) status = collect_layers(&p, error, room);
    if (!status) status = check_chain(&p, error, room);
    if (!status) status = read_settings(&p, out, error, room);
    if (!status) status = fill_model(&p, out, error, room);
    tensors_free(&p.file);
    if (status) model_free(out);
    return status;
}

/* ------------------------------------------------------------------------------------------------ writing */

static int check_model(const char *path, const model_file *m, char *error, size_t room)
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

/* The next tensor: its numbers come from *theta, which moves on. */
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

static int put_layers(const char *path, tensor_file *f, const model_file *m, char *error, size_t room)
{
    char separator = tensors_ending(path) == TENSORS_NPZ ? '_' : '.', name[TENSOR_NAME];
    const double *theta = m->theta;
    int in = m->inputs;
    for (int k = 0; k <= m->hidden_layers; k++) {
        int out = k < m->hidden_layers ? m->width[k] : 1;
        int64_t shape[2] = {out, in};
        (void)snprintf(name, sizeof name, "layer%d%cweight", k + 1, separator);
        if (put_tensor(path, f, name, 2, shape, &theta, error, room)) return -1;
        (void)snprintf(name, sizeof name, "layer%d%cbias", k + 1, separator);
        if (put_tensor(path, f, name, 1, shape, &theta, error, room)) return -1;
        in = out;
    }
    return 0;
}

int model_write(const char *path, const model_file *m, char *error, size_t room)
{
    tensor_file f = {0};
    char number[32];
    if (check_model(path, m, error, room)) return -1;
    int status = put_layers(path, &f, m, error, room);
    if (!status && (tensors_describe(&f, "format", "pt") || tensors_describe(&f, activation_key, m->activation) ||
                    (m->base_sd > 0.0 && tensors_describe(&f, base_key, files_number(m->base_sd, number)))))
        status = files_fail(error, room, "no memory to write %s", path);
    if (!status) status = tensors_write(path, &f, error, room);
    tensors_free(&f);
    return status;
}

sosmc_mlp model_network(const model_file *m)
{
    return (sosmc_mlp){.inputs = m->inputs,
                       .hidden = m->hidden_layers,
                       .width = m->width,
                       .activation = !strcmp(m->activation, "softplus") ? SOSMC_SOFTPLUS
                                     : !strcmp(m->activation, "tanh")   ? SOSMC_TANH
                                                                        : SOSMC_SILU,
                       .base_sd = m->base_sd};
}
