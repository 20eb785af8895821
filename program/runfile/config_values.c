/* config_values.c: a value of the tree and its row of the table: is it of the type, in the range, one of the words? What it
 * is as a number, a flag or a list is left in the node. */
#include "schema.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "files/files.h"

static const double largest_whole = 9007199254740992.0; /* 2^53 */

/* ---------------------------------------------------------------------------- scalars */

static int is_plain(const node *n) { return n->kind == NODE_SCALAR && !n->quoted; }

int node_is_null(const node *n) { return is_plain(n) && schema_has_word("null|Null|NULL|~", n->text); }

static size_t digits(const char *p) { return strspn(p, "0123456789"); }

/* Decimal, with or without sign, point and exponent. Not strtod alone: it also takes hex, nan and trailing spaces. */
static int looks_like_number(const char *text)
{
    const char *p = text + (*text == '+' || *text == '-');
    size_t before = digits(p), after = 0;
    p += before;
    if (*p == '.') {
        after = digits(++p);
        p += after;
    }
    if (before + after == 0) return 0;
    if (*p == 'e' || *p == 'E') {
        p += 1 + (p[1] == '+' || p[1] == '-');
        if (!digits(p)) return 0;
        p += digits(p);
    }
    return !*p;
}

static int read_number(const node *n, double *x)
{
    if (!is_plain(n) || !looks_like_number(n->text)) return 0;
    *x = strtod(n->text, NULL);
    return isfinite(*x);
}

/* A number that the key takes; a bound may be infinite, in quotes too, because JSON has no such number. */
static int read_allowed(const schema_key *row, const node *n, double *x)
{
    if (row->allowed && strcmp(row->allowed, SCHEMA_BOUND) == 0 && n->kind == NODE_SCALAR &&
        schema_has_word("-inf|-.inf|inf|.inf", n->text)) {
        *x = n->text[0] == '-' ? -INFINITY : INFINITY;
        return 1;
    }
    return read_number(n, x) && schema_in_range(row->allowed, *x);
}

static int read_flag(const node *n, uint64_t *flag)
{
    if (!is_plain(n)) return 0;
    *flag = (uint64_t)schema_has_word("true|True|TRUE|yes|Yes|YES|on|On|ON", n->text);
    return *flag || schema_has_word("false|False|FALSE|no|No|NO|off|Off|OFF", n->text);
}

static int read_seed(const node *n, uint64_t *seed)
{
    double x;
    if (!read_number(n, &x) || n->text[0] == '-') return 0;
    const char *p = n->text + (n->text[0] == '+');
    errno = 0;
    if (!p[digits(p)])
        *seed = strtoull(p, NULL, 10);
    else if (x != floor(x) || x > largest_whole)
        return 0;
    else
        *seed = (uint64_t)x;
    return errno == 0;
}

/* ---------------------------------------------------------------------------- messages */

/* 'fast', '0.1' in quotes, a list, ... */
static void describe(const node *n, char *out, size_t room)
{
    char clipped[CLIP + 4];
    if (n->kind == NODE_MAP)
        snprintf(out, room, "a mapping");
    else if (n->kind == NODE_LIST)
        snprintf(out, room, "%s", n->count ? "a list" : "an empty list");
    else if (!*n->text)
        snprintf(out, room, "empty");
    else
        snprintf(out, room, "'%s'%s", config_clip(n->text, clipped),
                 n->quoted && looks_like_number(n->text) ? " in quotes" : "");
}

static int wrong(config *c, const node *n, const char *path, const char *expected)
{
    char found[2 * CLIP];
    describe(n, found, sizeof found);
    return config_fail(c, n, "%s is %s; expected %s", path, found, expected);
}

static int wrong_for(config *c, const schema_key *row, const node *n, const char *path)
{
    char expected[EXPECTED_ROOM], word[64];
    int has_words = row->type == TYPE_CHOICE || row->type == TYPE_LEVEL;
    schema_expected(row, expected, sizeof expected);
    size_t used = strlen(expected);
    if (has_words && n->kind == NODE_SCALAR && schema_nearest_word(schema_words(row), n->text, word, sizeof word))
        snprintf(expected + used, sizeof expected - used, " (did you mean '%s'?)", word);
    return wrong(c, n, path, expected);
}

/* ---------------------------------------------------------------------------- types */

static int check_number(config *c, const schema_key *row, node *n, const char *path)
{
    return read_allowed(row, n, &n->number) ? 0 : wrong_for(c, row, n, path);
}

static int check_whole(config *c, const schema_key *row, node *n, const char *path)
{
    double most = row->type == TYPE_INTEGER ? INT_MAX : largest_whole;
    char expected[64];
    if (check_number(c, row, n, path)) return -1;
    if (n->number != floor(n->number)) return wrong_for(c, row, n, path);
    snprintf(expected, sizeof expected, "a whole number of at most %.0f", most);
    if (fabs(n->number) > most) return wrong(c, n, path, expected);
    n->whole = (uint64_t)(int64_t)n->number;
    return 0;
}

static int check_level(config *c, const schema_key *row, node *n, const char *path)
{
    if (n->kind != NODE_SCALAR || !schema_has_word(schema_words(row), n->text)) return check_number(c, row, n, path);
    n->number = strcmp(n->text, "always") ? 0 : 2;
    return 0;
}

static int check_choice(config *c, const schema_key *row, const node *n, const char *path)
{
    if (n->kind == NODE_SCALAR && schema_has_word(row->allowed, n->text)) return 0;
    return wrong_for(c, row, n, path);
}

static int check_text(config *c, const schema_key *row, const node *n, const char *path)
{
    return n->kind == NODE_SCALAR && *n->text ? 0 : wrong_for(c, row, n, path);
}

static int check_flag(config *c, const schema_key *row, node *n, const char *path)
{
    return read_flag(n, &n->whole) ? 0 : wrong_for(c, row, n, path);
}

static int check_seed(config *c, const schema_key *row, node *n, const char *path)
{
    if (!read_seed(n, &n->whole)) return wrong_for(c, row, n, path);
    n->number = (double)n->whole;
    return 0;
}

/* Relative to the run file; typed on the command line, to the current folder, as a shell would complete it. */
static int check_path(config *c, const schema_key *row, node *n, const char *path)
{
    if (check_text(c, row, n, path)) return -1;
    if (n->text[0] == '/') return 0;
    char *here = n->origin == FROM_SET ? realpath(".", NULL) : NULL;
    const char *folder = here ? here : c->directory;
    size_t room = strlen(folder) + strlen(n->text) + 2;
    char *absolute = config_take(c, room);
    if (absolute) snprintf(absolute, room, "%s/%s", strcmp(folder, "/") ? folder : "", n->text);
    free(here);
    if (!absolute) return -1;
    if (!files_is_utf8(absolute)) return config_fail(c, n, "the folder of %s has a name that is not valid UTF-8", path);
    n->text = absolute;
    return 0;
}

static int check_column(config *c, const schema_key *row, node *n, const char *path)
{
    if (check_text(c, row, n, path)) return -1;
    n->whole = 0;
    if (n->quoted || !looks_like_number(n->text)) return 0;
    n->number = strtod(n->text, NULL);
    if (!(n->number >= 1 && n->number <= INT_MAX) || n->number != floor(n->number)) return wrong_for(c, row, n, path);
    n->whole = (uint64_t)n->number;
    return 0;
}

static int check_columns(config *c, const schema_key *row, const node *list, const char *path)
{
    static const schema_key each = {.type = TYPE_COLUMN};
    char item[PATH_ROOM];
    int index = 0;
    if (list->kind != NODE_LIST) return wrong_for(c, row, list, path);
    for (node *n = list->first; n; n = n->next) {
        snprintf(item, sizeof item, "%s.%d", path, index++);
        if (check_column(c, &each, n, item)) return -1;
    }
    return 0;
}

/* The numbers of one list into x. */
static int read_row(config *c, const schema_key *row, const node *list, const char *path, double *x)
{
    const schema_key each = {.type = TYPE_NUMBER, .allowed = row->allowed};
    char item[PATH_ROOM];
    int j = 0;
    for (node *n = list->first; n; n = n->next, j++) {
        snprintf(item, sizeof item, "%s.%d", path, j);
        if (check_number(c, &each, n, item)) return -1;
        x[j] = n->number;
    }
    return 0;
}

static int take_values(config *c, node *n, int rows, int cols)
{
    n->rows = rows;
    n->cols = cols;
    n->values = config_take(c, (size_t)rows * (size_t)cols * sizeof(double));
    return n->values ? 0 : -1;
}

static int check_vector(config *c, const schema_key *row, node *n, const char *path)
{
    if (n->kind == NODE_MAP || (n->kind == NODE_LIST && n->count == 0)) return wrong_for(c, row, n, path);
    if (take_values(c, n, 1, n->kind == NODE_LIST ? n->count : 1)) return -1;
    if (n->kind == NODE_LIST) return read_row(c, row, n, path, n->values);
    return read_allowed(row, n, n->values) ? 0 : wrong_for(c, row, n, path);
}

static int check_matrix(config *c, const schema_key *row, node *m, const char *path)
{
    char item[PATH_ROOM];
    int i = 0;
    if (m->kind != NODE_LIST || m->count == 0) return wrong_for(c, row, m, path);
    if (take_values(c, m, m->count, m->first->count)) return -1;
    for (const node *n = m->first; n; n = n->next, i++) {
        snprintf(item, sizeof item, "%s.%d", path, i);
        if (n->kind != NODE_LIST || n->count == 0) return wrong(c, n, item, "a list of numbers");
        if (n->count != m->cols)
            return config_fail(c, n, "%s is a list of %d; expected %d numbers, as in the first", item, n->count,
                               m->cols);
        if (read_row(c, row, n, item, m->values + (size_t)i * (size_t)m->cols)) return -1;
    }
    return 0;
}

static int check_rules(config *c, const schema_key *row, const node *list, const char *path)
{
    char item[PATH_ROOM];
    int index = 0;
    if (list->kind != NODE_LIST) return wrong_for(c, row, list, path);
    if (list->count > RULES_MOST)
        return config_fail(c, list, "%s is a list of %d; expected at most %d rules", path, list->count, RULES_MOST);
    for (const node *n = list->first; n; n = n->next) {
        snprintf(item, sizeof item, "%s.%d", path, index++);
        if (n->kind != NODE_MAP) return wrong(c, n, item, "a mapping of keys to values");
    }
    return 0;
}

int config_check_value(config *c, const schema_key *row, node *n, const char *path)
{
    switch (row->type) {
    case TYPE_MAP: return n->kind == NODE_MAP ? 0 : wrong_for(c, row, n, path);
    case TYPE_RULES: return check_rules(c, row, n, path);
    case TYPE_TEXT: return check_text(c, row, n, path);
    case TYPE_PATH: return check_path(c, row, n, path);
    case TYPE_CHOICE: return check_choice(c, row, n, path);
    case TYPE_NUMBER: return check_number(c, row, n, path);
    case TYPE_LEVEL: return check_level(c, row, n, path);
    case TYPE_INTEGER:
    case TYPE_LONG: return check_whole(c, row, n, path);
    case TYPE_SEED: return check_seed(c, row, n, path);
    case TYPE_FLAG: return check_flag(c, row, n, path);
    case TYPE_VECTOR: return check_vector(c, row, n, path);
    case TYPE_MATRIX: return check_matrix(c, row, n, path);
    case TYPE_COLUMN: return check_column(c, row, n, path);
    case TYPE_COLUMNS: return check_columns(c, row, n, path);
    }
    return -1;
}
