/* config_tree.c: the tree behind a run file: its memory, its messages, its nodes, and how YAML becomes one.
 *
 *     model: {type: t, means: [[1, 2]]}   ->   map - model: map -+- type: scalar "t"
 *                                                                +- means: list - list - scalar "1", scalar "2"
 *
 * Scalars stay text until config_resolve.c knows which type the key has: 1e-9 is a number and 010 is ten, whatever YAML
 * 1.1 makes of them. Every node remembers where it came from.
 *
 * A run file may be hostile, so everything that a few bytes could make large is bounded: bytes, nodes (aliases are
 * copied, and the copies count), depth, keys of one mapping and anchors (both are searched one by one), and the length
 * of one value. All memory belongs to the config and is freed together. */
#include "schema.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

/* ---------------------------------------------------------------------------- memory and messages */

struct block {
    struct block *next;
    size_t used, size;
    _Alignas(max_align_t) unsigned char bytes[];
};

static struct block *add_block(config *c, size_t bytes)
{
    size_t size = bytes > 65536 ? bytes : 65536;
    struct block *b = calloc(1, sizeof *b + size);
    if (!b) return NULL;
    b->size = size;
    b->next = c->blocks;
    c->blocks = b;
    return b;
}

void *config_take(config *c, size_t bytes)
{
    struct block *b = c->blocks;
    bytes = (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    if (!b || b->size - b->used < bytes) b = add_block(c, bytes);
    if (!b) {
        config_fail(c, NULL, "out of memory");
        return NULL;
    }
    b->used += bytes;
    return b->bytes + b->used - bytes;
}

void config_return_memory(config *c)
{
    while (c->blocks) {
        struct block *b = c->blocks;
        c->blocks = b->next;
        free(b);
    }
}

const char *config_keep(config *c, const char *text, size_t length)
{
    char *copy = config_take(c, length + 1);
    return copy ? memcpy(copy, text, length) : NULL;
}

static int is_middle_of_character(char byte) { return ((unsigned char)byte & 0xC0) == 0x80; }

const char *config_clip(const char *text, char out[CLIP + 4])
{
    size_t length = strlen(text);
    if (length <= CLIP) return memcpy(out, text, length + 1);
    length = CLIP;
    while (length > 0 && is_middle_of_character(text[length])) length--;
    snprintf(out, CLIP + 4, "%.*s...", (int)length, text);
    return out;
}

/* The nearest node around that the user wrote; a default has no place of its own. */
static const node *written(const node *at)
{
    while (at && at->origin == FROM_DEFAULT) at = at->parent;
    return at;
}

void config_place(const config *c, const node *at, char *out, size_t room)
{
    char clipped[CLIP + 4];
    at = written(at);
    if (!at)
        snprintf(out, room, "%s", c->name);
    else if (at->source)
        snprintf(out, room, "--set %s", config_clip(at->source, clipped));
    else
        snprintf(out, room, "%s:%d", c->name, at->line);
}

int config_fail(config *c, const node *at, const char *format, ...)
{
    char place[4200]; /* a path and a line */
    va_list arguments;
    if (!c->error || c->room == 0) return -1;
    config_place(c, at, place, sizeof place);
    int used = snprintf(c->error, c->room, "%s: ", place);
    va_start(arguments, format);
    if (used > 0 && (size_t)used < c->room) vsnprintf(c->error + used, c->room - (size_t)used, format, arguments);
    va_end(arguments);
    for (char *p = c->error; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7F) *p = '?'; /* a message is one line without control characters */
    return -1;
}

void config_listen(config *c, char *error, size_t room)
{
    c->error = error;
    c->room = room;
    if (error && room) error[0] = 0;
}

/* ---------------------------------------------------------------------------- nodes */

node *node_make(config *c, node_kind kind, const node *like)
{
    if (c->nodes >= MOST_NODES) {
        config_fail(c, like, "the file has more than %d values; tables belong in a file of their own", MOST_NODES);
        return NULL;
    }
    node *n = config_take(c, sizeof *n);
    if (!n) return NULL;
    c->nodes++;
    n->kind = kind;
    n->origin = like->origin;
    n->line = like->line;
    n->source = like->source;
    return n;
}

void node_append(node *parent, node *child, const char *key)
{
    child->key = key;
    child->parent = parent;
    child->next = NULL;
    if (parent->last)
        parent->last->next = child;
    else
        parent->first = child;
    parent->last = child;
    parent->count++;
}

node *node_child(const node *map, const char *key)
{
    for (node *n = map->kind == NODE_MAP ? map->first : NULL; n; n = n->next)
        if (!strcmp(n->key, key)) return n;
    return NULL;
}

node *node_item(const node *list, int index)
{
    node *n = list->kind == NODE_LIST && index >= 0 ? list->first : NULL;
    while (n && index-- > 0) n = n->next;
    return n;
}

void node_remove(node *parent, const node *child)
{
    node *before = NULL, *n = parent->first;
    for (; n && n != child; n = n->next) before = n;
    if (!n) return;
    if (before)
        before->next = n->next;
    else
        parent->first = n->next;
    if (parent->last == n) parent->last = before;
    parent->count--;
}

/* Children are copied, texts shared: a thousand aliases of a long text cost a thousand nodes. */
node *node_copy(config *c, const node *from, int depth)
{
    if (depth > MOST_DEPTH) {
        config_fail(c, from, "the file is nested deeper than %d levels", MOST_DEPTH);
        return NULL;
    }
    node *n = node_make(c, from->kind, from);
    if (!n) return NULL;
    n->quoted = from->quoted;
    n->text = from->text;
    for (const node *child = from->first; child; child = child->next) {
        node *copy = node_copy(c, child, depth + 1);
        if (!copy) return NULL;
        node_append(n, copy, child->key);
    }
    return n;
}

void node_into_map(node *scalar, node *child, const char *key)
{
    child->kind = NODE_SCALAR;
    child->quoted = scalar->quoted;
    child->text = scalar->text;
    scalar->kind = NODE_MAP;
    scalar->text = NULL;
    scalar->quoted = 0;
    node_append(scalar, child, key);
}

int node_into_list(config *c, node *map)
{
    node *first = map->first, *next, *item = NULL;
    if (first && !(item = node_make(c, NODE_MAP, map))) return -1;
    map->kind = NODE_LIST;
    map->first = map->last = NULL;
    map->count = 0;
    if (!item) return 0;
    for (; first; first = next) {
        next = first->next;
        node_append(item, first, first->key);
    }
    node_append(map, item, NULL);
    return 0;
}

/* ---------------------------------------------------------------------------- reading */

typedef struct anchor anchor;
struct anchor {
    const char *name;
    const node *value;
    anchor *next;
};

typedef struct {
    config *c;
    yaml_parser_t parser;
    node place; /* of the present event: new nodes get it, and messages name it */
    const char *text;
    size_t length;
    anchor *anchors;
    int anchor_count;
} reader;

static int line_of(size_t line) { return line < INT32_MAX ? (int)line + 1 : INT32_MAX; }

static int malformed(reader *r)
{
    const yaml_parser_t *p = &r->parser;
    size_t line = p->problem_mark.line;
    if (p->error == YAML_MEMORY_ERROR) return config_fail(r->c, NULL, "out of memory");
    if (p->error == YAML_READER_ERROR) { /* libyaml gives the byte alone */
        line = 0;
        for (size_t i = 0; i < p->problem_offset && i < r->length; i++) line += r->text[i] == '\n';
    }
    r->place.line = line_of(line);
    const char *problem = p->problem ? p->problem : "it cannot be read";
    int spans = p->context && r->place.origin == FROM_FILE && line != p->context_mark.line;
    if (!spans) return config_fail(r->c, &r->place, "not valid YAML: %s", problem);
    return config_fail(r->c, &r->place, "not valid YAML: %s %s that begins in line %d", problem, p->context,
                       line_of(p->context_mark.line));
}

static int next_event(reader *r, yaml_event_t *event)
{
    if (!yaml_parser_parse(&r->parser, event)) return malformed(r);
    r->place.line = line_of(event->start_mark.line);
    return 0;
}

static int remember(reader *r, const yaml_char_t *name, const node *value)
{
    if (!name) return 0;
    if (r->anchor_count++ == MOST_ANCHORS)
        return config_fail(r->c, value, "the file has more than %d anchors", MOST_ANCHORS);
    anchor *a = config_take(r->c, sizeof *a);
    if (!a) return -1;
    a->name = config_keep(r->c, (const char *)name, strlen((const char *)name));
    a->value = value;
    a->next = r->anchors;
    r->anchors = a;
    return a->name ? 0 : -1;
}

static node *read_alias(reader *r, const char *name, int depth)
{
    char clipped[CLIP + 4];
    const anchor *a = r->anchors;
    while (a && strcmp(a->name, name) != 0) a = a->next;
    if (a) return node_copy(r->c, a->value, depth);
    config_fail(r->c, &r->place, "the alias *%s has no anchor &%s before it", config_clip(name, clipped), clipped);
    return NULL;
}

static int check_scalar(reader *r, const yaml_event_t *event)
{
    size_t length = event->data.scalar.length;
    if (length > MOST_TEXT)
        return config_fail(r->c, &r->place, "a value is longer than %d bytes; is a quote missing?", MOST_TEXT);
    if (memchr(event->data.scalar.value, 0, length)) return config_fail(r->c, &r->place, "a value holds a zero byte");
    return 0;
}

static node *read_scalar(reader *r, const yaml_event_t *event)
{
    if (check_scalar(r, event)) return NULL;
    node *n = node_make(r->c, NODE_SCALAR, &r->place);
    if (!n) return NULL;
    n->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    n->text = config_keep(r->c, (const char *)event->data.scalar.value, event->data.scalar.length);
    return n->text ? n : NULL;
}

static node *read_node(reader *r, const yaml_event_t *event, int depth);

static int read_items(reader *r, node *list, int depth)
{
    for (;;) {
        yaml_event_t event;
        if (next_event(r, &event)) return -1;
        if (event.type == YAML_SEQUENCE_END_EVENT) return yaml_event_delete(&event), 0;
        node *item = read_node(r, &event, depth + 1);
        yaml_event_delete(&event);
        if (!item) return -1;
        node_append(list, item, NULL);
    }
}

static int check_key(reader *r, const node *map, const yaml_event_t *event)
{
    char clipped[CLIP + 4];
    if (event->type != YAML_SCALAR_EVENT) return config_fail(r->c, &r->place, "a key must be a word");
    if (check_scalar(r, event)) return -1;
    const char *key = (const char *)event->data.scalar.value;
    const node *other = node_child(map, key);
    if (other)
        return config_fail(r->c, &r->place, "duplicate key '%s'; line %d has it already", config_clip(key, clipped),
                           other->line);
    if (map->count >= MOST_KEYS) return config_fail(r->c, &r->place, "a mapping has more than %d keys", MOST_KEYS);
    return 0;
}

static node *read_value(reader *r, int depth)
{
    yaml_event_t event;
    if (next_event(r, &event)) return NULL;
    node *value = read_node(r, &event, depth);
    yaml_event_delete(&event);
    return value;
}

static int read_pairs(reader *r, node *map, int depth)
{
    for (;;) {
        yaml_event_t event;
        if (next_event(r, &event)) return -1;
        if (event.type == YAML_MAPPING_END_EVENT) return yaml_event_delete(&event), 0;
        int line = r->place.line;
        const char *key = NULL;
        if (!check_key(r, map, &event))
            key = config_keep(r->c, (const char *)event.data.scalar.value, event.data.scalar.length);
        yaml_event_delete(&event);
        node *value = key ? read_value(r, depth + 1) : NULL;
        if (!value) return -1;
        value->line = line; /* a block mapping begins below its key; the key's line is what a reader looks for */
        node_append(map, value, key);
    }
}

static int refuse_tag(reader *r, const yaml_char_t *tag)
{
    char clipped[CLIP + 4];
    if (!tag) return 0;
    return config_fail(r->c, &r->place, "the tag %s has no meaning here; for text use quotes",
                       config_clip((const char *)tag, clipped));
}

static node *read_collection(reader *r, const yaml_event_t *event, int depth)
{
    int is_map = event->type == YAML_MAPPING_START_EVENT;
    if (depth >= MOST_DEPTH) {
        config_fail(r->c, &r->place, "the file is nested deeper than %d levels", MOST_DEPTH);
        return NULL;
    }
    node *n = node_make(r->c, is_map ? NODE_MAP : NODE_LIST, &r->place);
    if (!n || (is_map ? read_pairs(r, n, depth) : read_items(r, n, depth))) return NULL;
    return n;
}

static node *read_node(reader *r, const yaml_event_t *event, int depth)
{
    const yaml_char_t *name = NULL;
    node *n = NULL;
    switch (event->type) {
    case YAML_ALIAS_EVENT: return read_alias(r, (const char *)event->data.alias.anchor, depth);
    case YAML_SCALAR_EVENT:
        if (refuse_tag(r, event->data.scalar.tag)) return NULL;
        name = event->data.scalar.anchor;
        n = read_scalar(r, event);
        break;
    case YAML_SEQUENCE_START_EVENT:
        if (refuse_tag(r, event->data.sequence_start.tag)) return NULL;
        name = event->data.sequence_start.anchor;
        n = read_collection(r, event, depth);
        break;
    case YAML_MAPPING_START_EVENT:
        if (refuse_tag(r, event->data.mapping_start.tag)) return NULL;
        name = event->data.mapping_start.anchor;
        n = read_collection(r, event, depth);
        break;
    default: config_fail(r->c, &r->place, "not valid YAML: a value is missing");
    }
    /* The anchor is remembered after its value was read: an alias inside that value is unknown, so nothing contains itself. */
    return n && !remember(r, name, n) ? n : NULL;
}

/* The next event, which must be of this type; anything else is a second document or a file without any. */
static int expect(reader *r, yaml_event_type_t type, const char *complaint)
{
    yaml_event_t event;
    if (next_event(r, &event)) return -1;
    int right = event.type == type;
    yaml_event_delete(&event);
    return right ? 0 : config_fail(r->c, &r->place, "%s", complaint);
}

static node *read_document(reader *r)
{
    if (expect(r, YAML_STREAM_START_EVENT, "not valid YAML") ||
        expect(r, YAML_DOCUMENT_START_EVENT,
               "there is nothing in it; a run file needs at least a model and an objective"))
        return NULL;
    node *n = read_value(r, 0);
    if (!n || expect(r, YAML_DOCUMENT_END_EVENT, "not valid YAML") ||
        expect(r, YAML_STREAM_END_EVENT, "a second document begins here; a run file holds one"))
        return NULL;
    return n;
}

node *config_read_yaml(config *c, const char *text, size_t length, node_origin origin, const char *source)
{
    reader r = {.c = c, .place = {.origin = origin, .line = 1, .source = source}, .text = text, .length = length};
    if (!yaml_parser_initialize(&r.parser)) {
        config_fail(c, NULL, "out of memory");
        return NULL;
    }
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, length);
    node *n = read_document(&r);
    yaml_parser_delete(&r.parser);
    return n;
}

node *node_from_text(config *c, const char *text, node_origin origin, const char *source)
{
    node like = {.origin = origin, .source = source};
    size_t length = strlen(text);
    while (length && strchr(" \t\n", *text)) text++, length--;
    while (length && strchr(" \t\n", text[length - 1])) length--;
    if (length && strchr("[{'\"", *text)) return config_read_yaml(c, text, length, origin, source);
    node *n = node_make(c, NODE_SCALAR, &like);
    if (n) n->text = config_keep(c, text, length);
    return n && n->text ? n : NULL;
}
