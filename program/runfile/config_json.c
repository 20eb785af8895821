/* config_json.c: the table of keys, and the values of a resolved run file, as JSON for other programs. */
#include "files/files.h"
#include "schema.h"

#include <string.h>

/* ---------------------------------------------------------------------------- values */

/* Of several rows for a key the first is used: they have the same type. */
static int repeats(const schema_key *row) { return row > schema_keys && strcmp(row->path, row[-1].path) == 0; }

static void put_column(json_writer *w, const char *key, const node *n)
{
    if (n->whole)
        json_put_unsigned(w, key, n->whole);
    else
        json_put_text(w, key, n->text);
}

static void put_lists(json_writer *w, const char *key, const schema_key *row, const node *n)
{
    json_open_list(w, key);
    for (int i = 0; i < n->rows && row->type == TYPE_MATRIX; i++)
        json_put_numbers(w, NULL, n->values + (size_t)i * (size_t)n->cols, n->cols);
    for (const node *item = n->first; item && row->type == TYPE_COLUMNS; item = item->next) put_column(w, NULL, item);
    json_close(w);
}

static void put_value(json_writer *w, const schema_key *row, const node *n)
{
    const char *key = schema_leaf(row->path);
    switch (row->type) {
    case TYPE_MAP:
    case TYPE_RULES: break;
    case TYPE_VECTOR: json_put_numbers(w, key, n->values, n->cols); break;
    case TYPE_MATRIX:
    case TYPE_COLUMNS: put_lists(w, key, row, n); break;
    case TYPE_COLUMN: put_column(w, key, n); break;
    case TYPE_FLAG: json_put_truth(w, key, n->whole != 0); break;
    case TYPE_TEXT:
    case TYPE_PATH:
    case TYPE_CHOICE: json_put_text(w, key, n->text); break;
    case TYPE_INTEGER:
    case TYPE_LONG:
    case TYPE_SEED: json_put_unsigned(w, key, n->whole); break; /* no key takes a negative one */
    case TYPE_LEVEL:
        if (schema_has_word(schema_words(row), n->text))
            json_put_text(w, key, n->text);
        else
            json_put_number(w, key, n->number);
        break;
    case TYPE_NUMBER: json_put_number(w, key, n->number); break;
    }
}

/* The next key of the mapping `parent` that has a value, which *n becomes; NULL: there is no more. */
static const schema_key *next_child(const schema_key *row, const char *parent, const node *map, const node **n)
{
    for (; row->path; row++) {
        if (!schema_is_child(row, parent) || repeats(row)) continue;
        *n = node_child(map, schema_leaf(row->path));
        if (*n) return row;
    }
    return NULL;
}

/* One level of keys; a mapping in it is opened, and closed behind its own keys. */
static void put_keys(json_writer *w, const char *parent, const node *map)
{
    const node *n;
    for (const schema_key *row = next_child(schema_keys, parent, map, &n); row;
         row = next_child(row + 1, parent, map, &n)) {
        if (row->type != TYPE_MAP && row->type != TYPE_RULES) {
            put_value(w, row, n);
            continue;
        }
        int rules = row->type == TYPE_RULES;
        if (rules)
            json_open_list(w, schema_leaf(row->path));
        else
            json_open_object(w, schema_leaf(row->path));
        for (const node *rule = rules ? n->first : NULL; rule; rule = rule->next) {
            json_open_object(w, NULL);
            put_keys(w, row->path, rule);
            json_close(w);
        }
        if (!rules) put_keys(w, row->path, n);
        json_close(w);
    }
}

int config_write_json(const config *c, FILE *out)
{
    atomic_file f = {.stream = out};
    json_writer w = json_to(&f);
    if (!c->resolved) return -1;
    json_open_object(&w, NULL);
    put_keys(&w, "", c->root);
    json_close(&w);
    return f.error || ferror(out) ? -1 : 0;
}

/* ---------------------------------------------------------------------------- the table */

static void put_words(json_writer *w, const char *key, const char *words)
{
    char word[64];
    json_open_list(w, key);
    while (schema_word(&words, word, sizeof word)) json_put_text(w, NULL, word);
    json_close(w);
}

/* "(0, inf)" of "(0, inf)|never"; NULL: there is no interval. */
static const char *range_of(const schema_key *row, char out[64])
{
    if (!row->allowed || !strchr("([", *row->allowed)) return NULL;
    (void)snprintf(out, 64, "%.*s", (int)strcspn(row->allowed, "|"), row->allowed);
    return out;
}

/* The key, or a mapping that holds it, is read by runs with chosen settings alone. */
static int is_chosen(const char *path)
{
    char part[PATH_ROOM];
    for (size_t n = strlen(path); n > 0; n = schema_parent_length(part)) {
        (void)snprintf(part, sizeof part, "%.*s", (int)n, path);
        if (schema_has_word(schema_chosen, part)) return 1;
    }
    return 0;
}

static void put_default(json_writer *w, const schema_key *row)
{
    const char *f = row->fallback;
    int derived = f && (*f == '=' || *f == '?');
    json_put_truth(w, "required", f == NULL);
    json_put_text(w, "default", f && *f && !derived ? f : NULL);
    json_put_text(w, "derived", derived ? f : NULL);
}

static void put_row(json_writer *w, const schema_key *row)
{
    static const char *const types[] = {
        [TYPE_MAP] = "map",       [TYPE_RULES] = "rules",   [TYPE_TEXT] = "text",      [TYPE_PATH] = "path",
        [TYPE_CHOICE] = "choice", [TYPE_NUMBER] = "number", [TYPE_LEVEL] = "level",    [TYPE_INTEGER] = "integer",
        [TYPE_LONG] = "integer",  [TYPE_SEED] = "integer",  [TYPE_FLAG] = "flag",      [TYPE_VECTOR] = "vector",
        [TYPE_MATRIX] = "matrix", [TYPE_COLUMN] = "column", [TYPE_COLUMNS] = "columns"};
    char expected[EXPECTED_ROOM], range[64];
    schema_expected(row, expected, sizeof expected);
    json_open_object(w, NULL);
    json_put_text(w, "key", row->path);
    json_put_text(w, "type", types[row->type]);
    json_put_text(w, "bare", row->type == TYPE_MAP ? row->allowed : NULL);
    put_words(w, "values", row->type == TYPE_CHOICE || row->type == TYPE_LEVEL ? schema_words(row) : NULL);
    json_put_text(w, "range", row->type == TYPE_MAP ? NULL : range_of(row, range));
    put_default(w, row);
    json_put_text(w, "when", row->when);
    json_put_truth(w, "chosen", is_chosen(row->path));
    json_put_text(w, "expected", expected);
    json_put_text(w, "meaning", row->meaning);
    json_close(w);
}

static void put_method(json_writer *w, const schema_method *m)
{
    json_open_object(w, NULL);
    json_put_text(w, "name", m->name);
    json_put_text(w, "scheme", m->scheme);
    put_words(w, "values", m->values);
    json_close(w);
}

static void put_choice(json_writer *w, const schema_choice *c)
{
    json_open_object(w, NULL);
    json_put_text(w, "key", c->path);
    json_put_text(w, "value", c->name);
    json_put_text(w, "meaning", c->meaning);
    json_close(w);
}

int config_document_json(FILE *out)
{
    atomic_file f = {.stream = out};
    json_writer w = json_to(&f);
    json_open_object(&w, NULL);
    json_open_list(&w, "keys");
    for (const schema_key *row = schema_keys; row->path; row++) put_row(&w, row);
    json_close(&w);
    json_open_list(&w, "choices");
    for (const schema_choice *c = schema_choices; c->path; c++) put_choice(&w, c);
    json_close(&w);
    json_open_list(&w, "methods");
    for (const schema_method *m = schema_methods; m->name; m++) put_method(&w, m);
    json_close(&w);
    json_close(&w);
    return f.error || ferror(out) ? -1 : 0;
}
