/* config.c: loads run files, applies assignments, and returns the values of keys. The tree behind it is in config_tree.c. */
#include "schema.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "files/files.h"

/* ---------------------------------------------------------------------------- files */

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash) return realpath(".", NULL);
    char *folder = strndup(path, slash == path ? 1 : (size_t)(slash - path));
    char *absolute = folder ? realpath(folder, NULL) : NULL;
    free(folder);
    return absolute;
}

static config *make_config(const char *name, const char *path, char *error, size_t room)
{
    config *c = calloc(1, sizeof *c);
    if (c) {
        config_listen(c, error, room);
        c->name = strdup(name);
        errno = 0;
        c->directory = folder_of(path);
        if (!c->directory && errno != ENOMEM)
            c->directory = strdup("."); /* the folder was removed, or is not readable */
    }
    if (c && c->name && c->directory) return c;
    if (error && room) snprintf(error, room, "%s: out of memory", name);
    config_free(c);
    errno = ENOMEM;
    return NULL;
}

void config_free(config *c)
{
    if (!c) return;
    config_return_memory(c);
    free(c->name);
    free(c->directory);
    free(c);
}

/* To be asked before any --set. */
static int has_chosen(const config *c)
{
    char path[PATH_ROOM];
    for (const char *list = schema_chosen; schema_word(&list, path, sizeof path);) {
        const node *n = config_find(c, path);
        if (n && !node_is_null(n)) return 1;
    }
    return 0;
}

static config *parse_into(config *c, const char *text, size_t length)
{
    errno = 0;
    c->stored = length > strlen(SCHEMA_RESOLVED) && !strncmp(text, SCHEMA_RESOLVED, strlen(SCHEMA_RESOLVED));
    c->root = config_read_yaml(c, text, length, FROM_FILE, NULL);
    int why = !c->root && errno == ENOMEM ? ENOMEM : 0;
    if (c->root && c->root->kind != NODE_MAP) {
        config_fail(c, c->root, "a run file is a mapping of keys to values, such as 'seed: 1'");
        c->root = NULL;
    }
    errno = 0;
    if (c->root) {
        c->chosen = has_chosen(c);
        return c;
    }
    config_free(c);
    errno = why;
    return NULL;
}

config *config_parse(const char *text, const char *name, char *error, size_t room)
{
    config *c = make_config(name, "", error, room);
    return c ? parse_into(c, text, strlen(text)) : NULL;
}

/* Everything up to MOST_BYTES; NULL with errno set. */
static char *read_all(FILE *in, size_t *length)
{
    const size_t most = MOST_BYTES + 1; /* one byte more than allowed, which shows that the file is too long */
    size_t room = 0, used = 0;
    char *text = NULL;
    do {
        room = room ? 2 * room : 65536;
        if (room > most) room = most;
        char *more = realloc(text, room);
        if (!more) free(text);
        text = more;
        if (text) used += fread(text + used, 1, room - used, in);
    } while (text && used == room && room < most);
    int why = !text ? ENOMEM : ferror(in) ? (errno ? errno : EIO) : used == most ? EFBIG : 0;
    if (why) {
        free(text);
        text = NULL;
    }
    errno = why;
    *length = used;
    return text;
}

config *config_load(const char *path, char *error, size_t room)
{
    int standard_input = !strcmp(path, "-");
    size_t length = 0;
    config *c = make_config(standard_input ? "stdin" : path, standard_input ? "" : path, error, room);
    if (!c) return NULL;
    c->from_file = !standard_input;
    errno = 0;
    FILE *in = standard_input ? stdin : fopen(path, "rb");
    char *text = in ? read_all(in, &length) : NULL;
    int why = errno;
    if (in && !standard_input) fclose(in);
    if (text) {
        c = parse_into(c, text, length);
        free(text);
        return c;
    }
    if (why == EFBIG)
        config_fail(c, NULL, "larger than %d MB, which no run file is", MOST_BYTES >> 20);
    else
        config_fail(c, NULL, "cannot be read: %s", strerror(why));
    config_free(c);
    errno = why;
    return NULL;
}

/* ---------------------------------------------------------------------------- assignments */

/* The number that a name is, or -1. The name ends with its text or at a dot. */
static int index_of(const char *name)
{
    size_t digits = strspn(name, "0123456789");
    return digits && digits < 8 && (!name[digits] || name[digits] == '.') ? (int)strtol(name, NULL, 10) : -1;
}

/* What `name` means inside n: a key, an item, or a key of the only item. *owner is where a new one would go. */
static node *look(node *n, const char *name, node **owner)
{
    int index = n->kind == NODE_LIST ? index_of(name) : -1;
    *owner = n;
    if (index >= 0) return node_item(n, index);
    if (n->kind == NODE_LIST && n->count == 1 && n->first->kind == NODE_MAP) *owner = n->first;
    return node_child(*owner, name);
}

/* A bare value on the way (kernel: ula, then --set kernel.step=1) becomes the mapping it stands for. */
static int open_scalar(config *c, node *n, const char *path, const node *like)
{
    const schema_key *row = schema_find(path);
    char clipped[CLIP + 4];
    int stands = row && row->type == TYPE_MAP && row->allowed && n->kind == NODE_SCALAR;
    if (!stands)
        return config_fail(c, like, "'%s' is not a mapping, so nothing in it can be set", config_clip(path, clipped));
    if (!n->quoted && !*n->text) {
        n->kind = NODE_MAP;
        return 0;
    }
    node *child = node_make(c, NODE_SCALAR, n);
    if (!child) return -1;
    node_into_map(n, child, row->allowed);
    return 0;
}

/* Puts `value` under `name` in n, in place of what is there. */
static int put(config *c, node *n, const char *name, node *value, const node *like)
{
    node *owner, *old = look(n, name, &owner);
    char clipped[CLIP + 4];
    if (owner->kind == NODE_LIST && index_of(name) < 0 && owner->count == 0) {
        node *map = node_make(c, NODE_MAP, like);
        if (!map) return -1;
        node_append(owner, map, NULL);
        owner = map;
    }
    if (owner->kind == NODE_LIST && index_of(name) != owner->count && !old)
        return config_fail(c, like, "the list has %d items, numbered from 0; '%s' is not one of them", owner->count,
                           config_clip(name, clipped));
    if (owner->kind == NODE_MAP && !old && owner->count >= MOST_KEYS)
        return config_fail(c, like, "a mapping has more than %d keys", MOST_KEYS);
    const char *key = owner->kind == NODE_MAP ? config_keep(c, name, strlen(name)) : NULL;
    if (owner->kind == NODE_MAP && !key) return -1;
    if (!old) {
        node_append(owner, value, key);
        return 0;
    }
    node *next = old->next; /* copied over the old node: the links of its neighbours stay valid */
    *old = *value;
    old->key = key;
    old->parent = owner;
    old->next = next;
    for (node *child = old->first; child; child = child->next) child->parent = old;
    return 0;
}

/* The mapping or list at one more name of the path, made when missing. */
static node *descend(config *c, node *n, const char *name, const char *path, const node *like)
{
    node *owner, *found = look(n, name, &owner);
    if (!found) {
        node *map = node_make(c, NODE_MAP, like);
        if (!map || put(c, n, name, map, like)) return NULL;
        found = look(n, name, &owner);
    }
    if (found->kind == NODE_SCALAR && open_scalar(c, found, path, like)) return NULL;
    if (found->origin >= FROM_METHOD) { /* it holds an assignment now, so the next config_resolve must keep it */
        found->origin = FROM_SET;
        found->source = like->source;
    }
    return found;
}

/* A single rule that is addressed by number (adapt: {...}, then --set adapt.1.factor=2) becomes a list. */
static int open_rules(config *c, node *n, const char *path, const char *name)
{
    const schema_key *row = schema_find(path);
    if (!row || row->type != TYPE_RULES || n->kind != NODE_MAP || index_of(name) < 0) return 0;
    return node_into_list(c, n);
}

static int assign(config *c, char *path, node *value, const node *like)
{
    node *at = c->root;
    char *name = path;
    for (char *dot = strchr(name, '.'); dot; dot = strchr(name, '.')) {
        *dot = 0;
        at = descend(c, at, name, path, like);
        int failed = !at || open_rules(c, at, path, dot + 1);
        *dot = '.';
        if (failed) return -1;
        name = dot + 1;
    }
    return put(c, at, name, value, like);
}

static int check_path(config *c, const char *path, const node *like)
{
    int dots = 0;
    for (const char *p = path; *p; p++) {
        dots += *p == '.';
        if (*p == '.' && (p == path || p[1] == '.' || !p[1])) return config_fail(c, like, "the path has an empty name");
    }
    if (!*path) return config_fail(c, like, "the path is empty; expected PATH=VALUE, such as kernel.step=0.1");
    if (dots >= MOST_DEPTH) return config_fail(c, like, "the path is deeper than %d levels", MOST_DEPTH);
    return 0;
}

int config_set(config *c, const char *assignment, char *error, size_t room)
{
    config_listen(c, error, room);
    node like = {.kind = NODE_MAP, .origin = FROM_SET, .source = config_keep(c, assignment, strlen(assignment))};
    const char *equals = strchr(assignment, '=');
    if (!like.source) return -1;
    if (!equals) return config_fail(c, &like, "there is no '='; expected PATH=VALUE, such as kernel.step=0.1");
    if (strlen(equals) > MOST_TEXT) return config_fail(c, &like, "the value is longer than %d bytes", MOST_TEXT);
    if (!files_is_utf8(assignment)) return config_fail(c, &like, "not valid UTF-8");
    char *path = config_take(c, (size_t)(equals - assignment) + 1);
    if (!path) return -1;
    memcpy(path, assignment, (size_t)(equals - assignment));
    if (check_path(c, path, &like)) return -1;
    node *value = node_from_text(c, equals + 1, FROM_SET, like.source);
    if (!value) return -1;
    if (value->kind == NODE_SCALAR && !value->quoted && !*value->text)
        return config_fail(c, &like, "there is no value after '='; null stands for the default");
    c->resolved = 0;
    return assign(c, path, value, &like);
}

/* ---------------------------------------------------------------------------- values */

/* The last node on the path that exists; *whole says whether the whole path does. */
static node *follow(const config *c, const char *path, int *whole)
{
    node *at = c->root, *owner;
    char name[CLIP];
    *whole = 0;
    for (;;) {
        size_t length = strcspn(path, ".");
        if (length >= sizeof name) return at;
        memcpy(name, path, length);
        name[length] = 0;
        node *next = look(at, name, &owner);
        if (!next) return at;
        at = next;
        if (!path[length]) break;
        path += length + 1;
    }
    *whole = 1;
    return at;
}

node *config_find(const config *c, const char *path)
{
    int whole;
    node *n = follow(c, path, &whole);
    return whole ? n : NULL;
}

int config_has(const config *c, const char *path) { return config_find(c, path) != NULL; }

/* The node of a key whose value is asked for; it is marked as read while config_watch is on. */
static const node *asked_for(const config *c, const char *path)
{
    node *n = config_find(c, path);
    if (n && c->watching) n->read = 1;
    return n;
}

int config_count(const config *c, const char *path)
{
    const node *n = asked_for(c, path);
    return n ? n->count : 0;
}

const char *config_text(const config *c, const char *path)
{
    const node *n = asked_for(c, path);
    return n ? n->text : NULL;
}

double config_number(const config *c, const char *path)
{
    const node *n = asked_for(c, path);
    return n ? n->number : NAN;
}

int64_t config_integer(const config *c, const char *path) { return (int64_t)config_unsigned(c, path); }

uint64_t config_unsigned(const config *c, const char *path)
{
    const node *n = asked_for(c, path);
    return n ? n->whole : 0;
}

int config_flag(const config *c, const char *path) { return config_unsigned(c, path) != 0; }
int config_column(const config *c, const char *path) { return (int)config_unsigned(c, path); }

const double *config_vector(const config *c, const char *path, int *n)
{
    const node *v = asked_for(c, path);
    *n = v ? v->cols : 0;
    return v ? v->values : NULL;
}

const double *config_matrix(const config *c, const char *path, int *rows, int *cols)
{
    const node *m = asked_for(c, path);
    *rows = m ? m->rows : 0;
    *cols = m ? m->cols : 0;
    return m ? m->values : NULL;
}

int config_line(const config *c, const char *path)
{
    const node *n = config_find(c, path);
    return n && n->origin == FROM_FILE ? n->line : 0;
}

const char *config_where(const config *c, const char *path, char *out, size_t room)
{
    int whole;
    config_place(c, follow(c, path, &whole), out, room);
    return out;
}

const char *config_directory(const config *c) { return c->directory; }

const char *config_file(const config *c) { return c->from_file ? c->name : NULL; }

void config_lend(config *c, const void *values) { c->lent = values; }

const void *config_lent(const config *c) { return c->lent; }

int config_is_resolved_file(const config *c) { return c->from_file && c->stored; }

/* ---------------------------------------------------------------------------- which keys were read */

static void mark_unread(node *n)
{
    n->read = 0;
    for (node *child = n->first; child; child = child->next) mark_unread(child);
}

void config_watch(config *c)
{
    mark_unread(c->root);
    c->watching = 1;
}

/* Whether the key has a value that was not read, in one of the mappings that hold it. */
static int is_unread(const config *c, const schema_key *row)
{
    char parent[PATH_ROOM];
    snprintf(parent, sizeof parent, "%.*s", (int)schema_parent_length(row->path), row->path);
    const node *map = *parent ? config_find(c, parent) : c->root, *n;
    if (!map) return 0;
    if (map->kind != NODE_LIST) return (n = node_child(map, schema_leaf(row->path))) && !n->read;
    for (const node *rule = map->first; rule; rule = rule->next)
        if ((n = node_child(rule, schema_leaf(row->path))) && !n->read) return 1;
    return 0;
}

const char *config_unread(const config *c, int *at)
{
    while (schema_keys[*at].path) {
        const schema_key *row = &schema_keys[(*at)++];
        /* Of several rows for one key, the first is enough. */
        int several = *at > 1 && !strcmp(row->path, row[-1].path);
        if (row->type != TYPE_MAP && row->type != TYPE_RULES && !several && is_unread(c, row)) return row->path;
    }
    return NULL;
}
