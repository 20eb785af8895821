/* network_text.c: descriptions of networks, read and written.
 *
 * Invariant: network_parse(network_print(n)) is n, field by field, for every network that sosmc_network_problem has nothing
 * against; the message about a refused description names the number of the clause and the word that is wrong. */
#include "network_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "files/files.h"

/* The tutorial's network of MNIST digits, whose output is minus the energy. */
static const struct {
    const char *name, *text;
} named[] = {{"mnist", "1x28x28; conv 16 5 stride 2 pad 4 silu; conv 32 3 stride 2 pad 1 silu; "
                       "conv 64 3 stride 2 pad 1 silu; conv 64 3 stride 2 pad 1 silu; dense 64 silu; dense 1; "
                       "energy -1"}};

static const struct {
    const char *word;
    int value;
} activations[] = {{"silu", SOSMC_SILU}, {"swish", SOSMC_SILU}, {"softplus", SOSMC_SOFTPLUS},
                   {"tanh", SOSMC_TANH}, {"gelu", SOSMC_GELU},  {"leaky_relu", SOSMC_LEAKY_RELU}};
enum { ACTIVATIONS = sizeof activations / sizeof *activations };

/* No size is larger; it keeps every product of two of them in 64 bits. */
enum { LARGEST = 1 << 24 };

/* ------------------------------------------------------------------------------------------------ reading */

typedef struct {
    const char *at; /* what is not read yet */
    int clause;     /* its number, from 1; empty ones do not count */
    sosmc_layer layer[NETWORK_LAYERS];
    sosmc_network found;
    int has_sign, has_output, has_base, has_temperature;
    char word[48]; /* the word that was read last, cut to this length; every known word is shorter */
    char *error;
    size_t room;
} reader;

static int is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }
static int is_end(char c) { return c == ';' || c == '\n'; }

/* The next word of this clause into r->word; 0: the clause has no more. */
static int next_word(reader *r)
{
    size_t n = 0;
    while (is_space(*r->at)) r->at++;
    for (; *r->at && !is_space(*r->at) && !is_end(*r->at); r->at++)
        if (n + 1 < sizeof r->word) r->word[n++] = *r->at;
    r->word[n] = 0;
    return n > 0;
}

/* On to the next clause that is not empty; 0: there is none. */
static int next_clause(reader *r)
{
    while (is_space(*r->at) || is_end(*r->at)) r->at++;
    r->clause++;
    return *r->at != 0;
}

static int refuse(reader *r, const char *what, const char *expected)
{
    if (!*r->word)
        return files_fail(r->error, r->room, "clause %d of the network ends early; expected %s", r->clause, expected);
    return files_fail(r->error, r->room, "clause %d of the network: '%s' %s; expected %s", r->clause, r->word, what,
                      expected);
}

/* Digits alone, from `least` to LARGEST; moves *text behind them. */
static int take_digits(const char **text, int least, int *out)
{
    size_t n = strspn(*text, "0123456789");
    long value = n > 0 && n < 10 ? strtol(*text, NULL, 10) : -1;
    if (value < least || value > LARGEST) return -1;
    *text += n;
    *out = (int)value;
    return 0;
}

static int read_number(reader *r, const char *name, int least, int *out)
{
    char expected[96];
    (void)next_word(r);
    const char *end = r->word;
    if (take_digits(&end, least, out) == 0 && !*end) return 0;
    (void)snprintf(expected, sizeof expected, "%s, a whole number from %d to %d", name, least, LARGEST);
    return refuse(r, "is out of place", expected);
}

static int read_picture(reader *r)
{
    static const char expected[] =
        "channels x rows x columns of a picture, such as 1x28x28, or a name that is known: mnist";
    sosmc_network *n = &r->found;
    (void)next_word(r);
    const char *at = r->word;
    int bad = take_digits(&at, 1, &n->channels) || *at++ != 'x' || take_digits(&at, 1, &n->rows) || *at++ != 'x' ||
              take_digits(&at, 1, &n->columns) || *at;
    return bad ? refuse(r, "is no picture", expected) : 0;
}

static int read_activation(reader *r, sosmc_layer *l)
{
    for (int i = 0; i < ACTIVATIONS; i++)
        if (!strcmp(activations[i].word, r->word)) {
            if (l->activation != SOSMC_IDENTITY) return refuse(r, "is a second activation", "one at most");
            l->activation = activations[i].value;
            return 1;
        }
    return 0;
}

/* The words behind the sizes of a layer; each number at most once. */
static int read_options(reader *r, sosmc_layer *l)
{
    int convolution = l->kind == SOSMC_CONVOLUTION, seen[3] = {0};
    struct {
        const char *word, *name;
        int least, *value;
    } options[] = {{"add", "how many layers back the residual begins", 1, &l->skip},
                   {"stride", "the stride", 1, &l->stride},
                   {"pad", "the width of the padding", 0, &l->padding}};
    while (next_word(r)) {
        int found = read_activation(r, l);
        if (found < 0) return -1;
        for (int i = 0; !found && i < (convolution ? 3 : 1); i++) {
            if (strcmp(options[i].word, r->word) != 0) continue;
            if (seen[i]++) return refuse(r, "stands twice", "it once");
            if (read_number(r, options[i].name, options[i].least, options[i].value)) return -1;
            found = 1;
        }
        if (!found)
            return refuse(r, "is not known",
                          convolution ? "stride, pad, add or an activation (silu, softplus, tanh, gelu, leaky_relu)"
                                      : "add or an activation (silu, softplus, tanh, gelu, leaky_relu)");
    }
    return 0;
}

static int read_layer(reader *r, int kind)
{
    if (r->found.count == NETWORK_LAYERS)
        return files_fail(r->error, r->room, "clause %d of the network is one layer too many; expected at most %d",
                          r->clause, NETWORK_LAYERS);
    if (r->has_sign || r->has_output || r->has_base || r->has_temperature)
        return refuse(r, "stands behind the last layer's settings", "energy, output, base or temperature");
    sosmc_layer *l = &r->layer[r->found.count++];
    *l = (sosmc_layer){.kind = kind, .activation = SOSMC_IDENTITY};
    if (kind == SOSMC_DENSE) return read_number(r, "the units", 1, &l->outputs) ? -1 : read_options(r, l);
    l->stride = 1;
    if (read_number(r, "the channels", 1, &l->outputs) || read_number(r, "the side of the kernel", 1, &l->kernel))
        return -1;
    return read_options(r, l);
}

static int read_sign(reader *r)
{
    (void)next_word(r);
    if (strcmp(r->word, "1") != 0 && strcmp(r->word, "-1") != 0) return refuse(r, "is no sign of an energy", "1 or -1");
    r->found.sign = *r->word == '-' ? -1 : 1;
    return 0;
}

static int read_positive(reader *r, const char *what, double *out)
{
    char *end;
    (void)next_word(r);
    *out = strtod(r->word, &end);
    if (end != r->word && !*end && isfinite(*out) && *out > 0) return 0;
    return refuse(r, what, "a number above 0");
}

static int read_setting(reader *r)
{
    int *seen = !strcmp(r->word, "energy")        ? &r->has_sign
                : !strcmp(r->word, "output")      ? &r->has_output
                : !strcmp(r->word, "base")        ? &r->has_base
                : !strcmp(r->word, "temperature") ? &r->has_temperature
                                                  : NULL;
    if (!seen) return refuse(r, "is not known", "conv, dense, energy, output, base or temperature");
    if ((*seen)++) return refuse(r, "stands twice", "it once");
    int rc = seen == &r->has_sign          ? read_sign(r)
             : seen == &r->has_base        ? read_positive(r, "is no standard deviation", &r->found.base_sd)
             : seen == &r->has_temperature ? read_positive(r, "is no temperature", &r->found.temperature)
                                           : read_number(r, "an output of the last layer, from 0", 0, &r->found.output);
    if (rc == 0 && next_word(r)) rc = refuse(r, "is one word too many", "the end of the clause");
    return rc;
}

static int read_clause(reader *r)
{
    (void)next_word(r);
    if (!strcmp(r->word, "conv")) return read_layer(r, SOSMC_CONVOLUTION);
    if (!strcmp(r->word, "dense")) return read_layer(r, SOSMC_DENSE);
    return read_setting(r);
}

static const char *known_text(const char *text)
{
    size_t before = strspn(text, " \t\r\n"), n = strcspn(text + before, " \t\r\n");
    if (text[before + n + strspn(text + before + n, " \t\r\n")]) return text;
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (strlen(named[i].name) == n && !strncmp(named[i].name, text + before, n)) return named[i].text;
    return text;
}

static int read_all(reader *r)
{
    if (!next_clause(r))
        return files_fail(r->error, r->room,
                          "the network is empty; expected a description such as "
                          "'1x28x28; conv 16 3 stride 2 pad 1 silu; dense 1', or a name: mnist");
    if (read_picture(r)) return -1;
    if (next_word(r)) return refuse(r, "is one word too many", "the end of the clause");
    while (next_clause(r))
        if (read_clause(r)) return -1;
    return 0;
}

int network_parse(const char *text, sosmc_network *out, char *error, size_t room)
{
    char text_of_problem[512];
    reader *r = malloc(sizeof *r);
    *out = (sosmc_network){0};
    if (!r) return files_fail(error, room, "no memory to read the network");
    *r = (reader){.at = known_text(text), .found = {.sign = 1}, .error = error, .room = room};
    r->found.layer = r->layer;
    int rc = read_all(r);
    const char *problem = rc ? NULL : sosmc_network_problem(&r->found, text_of_problem, sizeof text_of_problem);
    if (problem) rc = files_fail(error, room, "the network cannot be: %s", problem);
    if (rc == 0 && network_copy(&r->found, out)) rc = files_fail(error, room, "no memory to read the network");
    free(r);
    return rc;
}

/* ------------------------------------------------------------------------------------------------ writing */

static const char *activation_word(int activation)
{
    for (int i = 0; i < ACTIVATIONS; i++)
        if (activations[i].value == activation) return activations[i].word;
    return NULL;
}

static void print_layer(FILE *f, const sosmc_layer *l)
{
    const char *activation = activation_word(l->activation);
    if (l->kind == SOSMC_CONVOLUTION) {
        (void)fprintf(f, "; conv %d %d", l->outputs, l->kernel);
        if (l->stride != 1) (void)fprintf(f, " stride %d", l->stride);
        if (l->padding) (void)fprintf(f, " pad %d", l->padding);
    } else {
        (void)fprintf(f, "; dense %d", l->outputs);
    }
    if (l->skip) (void)fprintf(f, " add %d", l->skip);
    if (activation) (void)fprintf(f, " %s", activation);
}

int network_print(const sosmc_network *n, char *out, size_t room)
{
    char number[32];
    if (room < 2) return -1;
    FILE *f = fmemopen(out, room, "w");
    if (!f) return -1;
    (void)fprintf(f, "%dx%dx%d", n->channels, n->rows, n->columns);
    for (int i = 0; i < n->count; i++) print_layer(f, &n->layer[i]);
    if (n->sign < 0) (void)fprintf(f, "; energy -1");
    if (n->output) (void)fprintf(f, "; output %d", n->output);
    if (n->base_sd > 0) (void)fprintf(f, "; base %s", files_number(n->base_sd, number));
    if (n->temperature > 0 && n->temperature != 1)
        (void)fprintf(f, "; temperature %s", files_number(n->temperature, number));
    long size = ftell(f);
    int failed = ferror(f) | fflush(f) | (size < 0 || (size_t)size >= room); /* the text must fit with its final NUL */
    (void)fclose(f);
    return failed ? -1 : 0;
}

int network_copy(const sosmc_network *n, sosmc_network *out)
{
    size_t bytes = (size_t)n->count * sizeof *n->layer;
    sosmc_layer *layer = malloc(bytes + 1);
    if (!layer) return -1;
    if (bytes) memcpy(layer, n->layer, bytes);
    *out = *n;
    out->layer = layer;
    return 0;
}

void network_free(sosmc_network *n)
{
    free((void *)n->layer);
    *n = (sosmc_network){0};
}

/* ------------------------------------------------------------------------------------------------ shapes */

layer_map network_picture(const sosmc_network *n) { return (layer_map){n->channels, n->rows, n->columns}; }

layer_map network_behind(layer_map in, const sosmc_layer *l)
{
    if (l->kind == SOSMC_DENSE) return (layer_map){l->outputs, 1, 1};
    return (layer_map){l->outputs, (in.rows + 2 * l->padding - l->kernel) / l->stride + 1,
                       (in.columns + 2 * l->padding - l->kernel) / l->stride + 1};
}

int network_weights(layer_map in, const sosmc_layer *l, int64_t shape[4])
{
    shape[0] = l->outputs;
    shape[1] = in.channels;
    shape[2] = shape[3] = l->kernel;
    if (l->kind == SOSMC_CONVOLUTION) return 4;
    shape[1] = (int64_t)in.channels * in.rows * in.columns;
    return 2;
}

int64_t network_parameters(const sosmc_network *n)
{
    int64_t total = 0, shape[4];
    layer_map map = network_picture(n);
    for (int i = 0; i < n->count; i++) {
        int dims = network_weights(map, &n->layer[i], shape);
        total += shape[0] * (shape[1] * (dims == 4 ? shape[2] * shape[3] : 1) + 1);
        map = network_behind(map, &n->layer[i]);
    }
    return total;
}
