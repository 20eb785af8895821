/* config_write.c: a resolved run file, written so that it reads back as the same values. */
#include "schema.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "files/words.h"

enum { WIDTH = 110 };

typedef struct {
    FILE *out;
    int column;             /* of the line under way */
    const char *dir, *root; /* see config_write_in; NULL: all names are absolute */
} writer;

static void put_text(writer *w, const char *text)
{
    fputs(text, w->out);
    w->column += (int)strlen(text);
}

/* The shortest that reads back as the same double. With an exponent a point is written too: other YAML readers would
 * take 1e-09 for text. */
static void format_number(double x, char out[40])
{
    if (fabs(x) < 1e15 && x == floor(x)) {
        snprintf(out, 40, "%.0f", x);
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, 40, "%.*g", digits, x);
        if (strtod(out, NULL) == x) break;
    }
    char *e = strchr(out, 'e');
    if (!e || strchr(out, '.')) return;
    memmove(e + 2, e, strlen(e) + 1);
    e[0] = '.';
    e[1] = '0';
}

static int is_plain_word(const char *text)
{
    static const char *const reserved = "true|false|yes|no|on|off|null|y|n|";
    char lower[8] = "";
    const char *letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_/";
    if (!*text || !strchr(letters, *text) ||
        text[strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_/"
                          "0123456789.-")])
        return 0;
    for (size_t i = 0; i < sizeof lower - 1 && text[i]; i++) lower[i] = (char)(text[i] | 0x20);
    return !schema_has_word(reserved, lower);
}

/* A character YAML would fold, strip or refuse when it stood there as itself, or a terminal obey. */
static int needs_escape(unsigned code) { return words_control(code) || (code >= 0xFFFE && code < 0x10000); }

static void put_quoted(writer *w, const char *text)
{
    char piece[16];
    put_text(w, "\"");
    while (*text) {
        unsigned code;
        size_t length = (size_t)words_next(text, &code); /* well-formed: checked when it was read */
        if (code == '"' || code == '\\')
            snprintf(piece, sizeof piece, "\\%c", (char)code);
        else if (code == '\n')
            snprintf(piece, sizeof piece, "\\n");
        else if (needs_escape(code))
            snprintf(piece, sizeof piece, "\\u%04X", code);
        else
            snprintf(piece, sizeof piece, "%.*s", (int)length, text);
        put_text(w, piece);
        text += length;
    }
    put_text(w, "\"");
}

static void put_string(writer *w, const char *text)
{
    if (is_plain_word(text))
        put_text(w, text);
    else
        put_quoted(w, text);
}

/* Flow lists may break between items, wherever the next line is indented. */
static void put_separator(writer *w, int first)
{
    if (first) return;
    put_text(w, ",");
    if (w->column < WIDTH)
        put_text(w, " ");
    else {
        fputs("\n        ", w->out);
        w->column = 8;
    }
}

static void put_numbers(writer *w, const double *x, int n)
{
    char number[40];
    put_text(w, "[");
    for (int j = 0; j < n; j++) {
        put_separator(w, j == 0);
        format_number(x[j], number);
        put_text(w, number);
    }
    put_text(w, "]");
}

static void put_rows(writer *w, const node *m)
{
    put_text(w, "[");
    for (int i = 0; i < m->rows; i++) {
        put_separator(w, i == 0);
        put_numbers(w, m->values + (size_t)i * (size_t)m->cols, m->cols);
    }
    put_text(w, "]");
}

static void put_column(writer *w, const node *n)
{
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)n->whole);
    if (n->whole)
        put_text(w, number);
    else
        put_string(w, n->text);
}

static void put_columns(writer *w, const node *list)
{
    put_text(w, "[");
    for (const node *n = list->first; n; n = n->next) {
        put_separator(w, n == list->first);
        put_column(w, n);
    }
    put_text(w, "]");
}

/* Relative to w->dir where the file lies below w->root: "../" for every folder between the two, then what follows the root. */
static void put_path(writer *w, const char *text)
{
    size_t root = w->root ? strlen(w->root) : 0;
    char *real = root ? realpath(text, NULL) : NULL;
    if (!real || strncmp(real, w->root, root) != 0 || real[root] != '/') {
        put_string(w, text);
        free(real);
        return;
    }
    size_t ups = 0, rest = strlen(real + root + 1);
    for (const char *p = w->dir + root; *p; p++) ups += *p == '/';
    char *relative = malloc(3 * ups + rest + 1);
    char *end = relative;
    for (size_t i = 0; relative && i < ups; i++) end = stpcpy(end, "../");
    if (relative) (void)stpcpy(end, real + root + 1);
    put_string(w, relative ? relative : text);
    free(relative);
    free(real);
}

static void put_value(writer *w, const schema_key *row, const node *n)
{
    char number[40];
    switch (row->type) {
    case TYPE_MAP:
    case TYPE_RULES: break;
    case TYPE_VECTOR: put_numbers(w, n->values, n->cols); break;
    case TYPE_MATRIX: put_rows(w, n); break;
    case TYPE_COLUMN: put_column(w, n); break;
    case TYPE_COLUMNS: put_columns(w, n); break;
    case TYPE_FLAG: put_text(w, n->whole ? "true" : "false"); break;
    case TYPE_TEXT: put_string(w, n->text); break;
    case TYPE_PATH: put_path(w, n->text); break;
    case TYPE_CHOICE: put_text(w, n->text); break; /* as it was read: a word of the table */
    case TYPE_INTEGER:
    case TYPE_LONG:
    case TYPE_SEED:
        snprintf(number, sizeof number, "%llu", (unsigned long long)n->whole); /* no key takes a negative one */
        put_text(w, number);
        break;
    case TYPE_LEVEL:
        if (schema_has_word(schema_words(row), n->text)) {
            put_text(w, n->text);
            break;
        }
        __attribute__((fallthrough));
    case TYPE_NUMBER:
        format_number(n->number, number);
        put_text(w, number);
        break;
    }
}

static void put_line(writer *w, const schema_key *row, const node *n, int indent, const char *bullet)
{
    fprintf(w->out, "%*s%s%s:", indent - (int)strlen(bullet), "", bullet, schema_leaf(row->path));
    w->column = indent + (int)strlen(schema_leaf(row->path)) + 1;
    if (row->type != TYPE_MAP && row->type != TYPE_RULES) {
        put_text(w, " ");
        put_value(w, row, n);
    }
    if (row->type == TYPE_MAP && n->count == 0)
        put_text(w, " {}"); /* without them it would read back as an empty value */
    fputc('\n', w->out);
}

/* A single rule is a mapping, several are a list. */
static void put_rules(writer *w, const schema_key *row, const node *list)
{
    if (list->count == 0)
        fprintf(w->out, "%s: []\n", row->path);
    else
        fprintf(w->out, "%s:\n", row->path);
    for (const node *rule = list->first; rule; rule = rule->next) {
        const char *bullet = list->count > 1 ? "- " : "";
        for (const schema_key *key = row + 1; key->path && schema_is_child(key, row->path); key++) {
            const node *n = node_child(rule, schema_leaf(key->path));
            if (!n) continue;
            put_line(w, key, n, list->count > 1 ? 4 : 2, bullet);
            bullet = "";
        }
    }
}

static int is_of_rules(const schema_key *row)
{
    char parent[64];
    snprintf(parent, sizeof parent, "%.*s", (int)schema_parent_length(row->path), row->path);
    const schema_key *above = schema_find(parent);
    return above && above->type == TYPE_RULES;
}

static int depth_of(const char *path)
{
    int depth = 0;
    for (; *path; path++) depth += *path == '.';
    return depth;
}

/* Rows for the same path stand together and have the same type, so the first of them is used. */
static int write_with(const config *c, writer w)
{
    const char *last = "";
    FILE *out = w.out;
    const node *type = config_find(c, "model.type");
    if (!c->resolved) return -1;
    int own = type && strcmp(type->text, "own") == 0;
    fprintf(out, SCHEMA_RESOLVED " every key with its value. %s\n",
            own ? "A program that holds the model repeats the run with this file."
                : "`sosmc run` on this file repeats the run.");
    for (const schema_key *row = schema_keys; row->path; row++) {
        const node *n = config_find(c, row->path);
        if (n && row->type == TYPE_RULES)
            put_rules(&w, row, n);
        else if (n && !is_of_rules(row) && strcmp(row->path, last) != 0)
            put_line(&w, row, n, 2 * depth_of(row->path), "");
        last = row->path;
    }
    return ferror(out) ? -1 : 0;
}

int config_write(const config *c, FILE *out) { return write_with(c, (writer){.out = out}); }

int config_write_in(const config *c, FILE *out, const char *dir, const char *root)
{
    char *real_dir = realpath(dir, NULL), *real_root = realpath(root, NULL);
    size_t n = real_root ? strlen(real_root) : 0;
    int below = real_dir && n > 1 && strncmp(real_dir, real_root, n) == 0 && (!real_dir[n] || real_dir[n] == '/');
    int rc = write_with(c, (writer){.out = out, .dir = below ? real_dir : NULL, .root = below ? real_root : NULL});
    free(real_dir);
    free(real_root);
    return rc;
}
