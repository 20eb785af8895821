/* schema.h: what the files behind config.h share: the tree of nodes, and the table of keys. */
#ifndef SOSMC_RUNFILE_SCHEMA_H
#define SOSMC_RUNFILE_SCHEMA_H

#include <stddef.h>
#include <stdint.h>

#include "config.h"

/* ---------------------------------------------------------------------------- the table of keys */

typedef enum {
    TYPE_MAP,     /* a mapping; `allowed` is the key that a bare value stands for */
    TYPE_RULES,   /* a mapping, or a list of up to RULES_MOST of them */
    TYPE_TEXT,    /* any text but the empty one */
    TYPE_PATH,    /* the name of a file, made absolute */
    TYPE_CHOICE,  /* one of the words in `allowed` */
    TYPE_NUMBER,  /* finite, in the interval `allowed` */
    TYPE_LEVEL,   /* a number in the interval, or one of the words, in `allowed` */
    TYPE_INTEGER, /* fits an int */
    TYPE_LONG,    /* up to 2^53 */
    TYPE_SEED,    /* 64 bits without sign */
    TYPE_FLAG,    /* true or false */
    TYPE_VECTOR,  /* numbers in the interval `allowed`; a bare number is a list of one */
    TYPE_MATRIX,  /* rows of equal length */
    TYPE_COLUMN,  /* of a table: a name, or a number counted from 1 */
    TYPE_COLUMNS  /* a list of them, possibly empty */
} schema_type;

enum { RULES_MOST = 2 };

#define REQUIRED NULL
#define ABSENT ""

/* Keys stand in the order of the manual and of the resolved file: a mapping before its keys, a `type` before what
 * depends on it. A path may stand in several rows whose conditions exclude each other. */
typedef struct {
    const char *path;
    schema_type type;
    const char *allowed; /* words "a|b", an interval "(0, inf)", or both, interval first; NULL: anything of the type */
    /* The default as YAML; REQUIRED; ABSENT; or derived: "=PATH" (its value), "=zeros PATH" (one per row),
     * "=half PATH", "=count PATH" (both at least 1); or cases "?PATH a; PATH=b|c d; e": a when PATH is written, d when
     * it has one of these values, else e. A case may have several conditions, joined by '&'; "@PATH|PATH" is that the file
     * itself, without --set, has one of these keys, and stands for schema_chosen alone. */
    const char *fallback;
    const char *when; /* "PATH=a|b": the key applies when PATH has one of these values; NULL: always */
    const char *meaning;
} schema_key;

typedef struct {
    const char *path, *name, *meaning;
} schema_choice;

/* A name of scheme.type that stands for another one together with values of other keys, "PATH=VALUE|PATH=VALUE". */
typedef struct {
    const char *name, *scheme, *values;
} schema_method;

extern const schema_method schema_methods[]; /* ends with a NULL name */
extern const schema_key schema_keys[];       /* ends with a NULL path */
extern const schema_choice schema_choices[];
extern const char *const schema_chosen; /* keys that only a run with chosen settings reads, with all that is in them */
#define SCHEMA_BOUND "[-inf, inf]"      /* the interval of numbers that may be infinite */
extern const char *const schema_once_written; /* keys of resolved files that earlier versions wrote and never read */
#define SCHEMA_RESOLVED \
    "# A resolved run file:" /* how every resolved file begins, of this version and of earlier ones */

/* Words separated by |: the next one of *list into `word`, 0 when there is none left. */
int schema_word(const char **list, char *word, size_t room);
int schema_has_word(const char *list, const char *word);
/* The words of `allowed` after its interval, if any. */
const char *schema_words(const schema_key *row);
/* Is x in the interval `allowed` begins with? True when there is none. */
int schema_in_range(const char *allowed, double x);
enum { PATH_ROOM = 256, EXPECTED_ROOM = 240 }; /* for the path of a key, and for what was expected of it */
/* The next of the cases behind the '?' of a default: its condition, "" for the last, and its value; 0: none is left. */
int schema_case(const char **rule, char when[PATH_ROOM], char value[PATH_ROOM]);
const schema_method *schema_method_named(const char *name); /* NULL: it is none of them */
/* "a positive number", "ula, mala, rwm or hmc": what a message and the manual say. */
void schema_expected(const schema_key *row, char *out, size_t room);
/* "ula, mala or rwm" of "ula|mala|rwm". */
void schema_join(const char *words, const char *last, char *out, size_t room);
const char *schema_meaning(const char *path, const char *choice);

/* The row for a path, whatever its condition (the first of several); NULL: unknown. */
const schema_key *schema_find(const char *path);
/* The last name of a path, and the length of what stands before it and its dot. */
const char *schema_leaf(const char *path);
size_t schema_parent_length(const char *path);
int schema_is_child(const schema_key *row, const char *parent); /* parent "": of the file itself */
/* The key that a misspelt one probably meant: a near name in the same mapping, or the same name elsewhere; or NULL. */
const char *schema_nearest(const char *parent, const char *name);
const char *schema_nearest_word(const char *words, const char *name, char *word, size_t room);

/* ---------------------------------------------------------------------------- the tree */

typedef enum { NODE_SCALAR, NODE_LIST, NODE_MAP } node_kind;
typedef enum { FROM_FILE, FROM_SET, FROM_METHOD, FROM_DEFAULT } node_origin; /* FROM_METHOD: by a name of scheme.type */

typedef struct node node;
struct node {
    node_kind kind;
    node_origin origin;
    int line;           /* FROM_FILE: counted from 1 */
    int quoted;         /* a scalar in quotes is text, never a number */
    int count;          /* of children */
    int rows, cols;     /* of values */
    const char *source; /* FROM_SET: the assignment */
    const char *key;    /* its name in the mapping above; NULL in a list */
    const char *text;   /* of a scalar */
    const char *method; /* of scheme.type: the name that `text` replaces */
    node *parent, *first, *last, *next;
    /* What config_resolve makes of it: */
    double number;
    uint64_t whole; /* the bits of an int64_t, or a seed */
    double *values; /* rows x cols */
    int read;       /* the value was read since config_watch */
};

struct config {
    char *name, *directory;
    node *root;
    struct block *blocks; /* all memory of the tree */
    int nodes;            /* made so far: bounds what aliases can do */
    int resolved;
    int watching;     /* see config_watch */
    int from_file;    /* `name` is the path of a file that was read */
    int stored;       /* it begins as resolved files do, so it may have keys of schema_once_written */
    int chosen;       /* the file itself has a key of schema_chosen */
    const void *lent; /* see config_lend */
    char *error;      /* of the call under way */
    size_t room;
};

enum {
    MOST_BYTES = 64 << 20,
    MOST_NODES = 1000000,
    MOST_DEPTH = 32,
    MOST_KEYS = 1000,
    MOST_ANCHORS = 1000,
    MOST_TEXT = 65536
};

void config_listen(config *c, char *error, size_t room); /* where the messages of this call go */
void *config_take(config *c, size_t bytes);              /* zeroed; NULL with the message set */
const char *config_keep(config *c, const char *text, size_t length);
void config_return_memory(config *c);
void config_place(const config *c, const node *at, char *out, size_t room); /* "FILE:LINE" */
/* The message, with the place of `at` in front; control characters become '?'. Always returns -1. */
int config_fail(config *c, const node *at, const char *format, ...) __attribute__((format(printf, 3, 4)));

enum { CLIP = 48 };
/* At most CLIP bytes of a user's text, whole characters, for a message. */
const char *config_clip(const char *text, char out[CLIP + 4]);

node *node_make(config *c, node_kind kind, const node *like); /* origin, line and source as those of `like` */
node *node_copy(config *c, const node *from, int depth);
void node_append(node *parent, node *child, const char *key);
node *node_child(const node *map, const char *key);
node *node_item(const node *list, int index);
void node_remove(node *parent, const node *child);
void node_into_map(node *scalar, node *child,
                   const char *key);      /* a scalar becomes {key: scalar}; `child` is room for it */
int node_into_list(config *c, node *map); /* a mapping becomes a list of it; an empty one, an empty list */
node *config_read_yaml(config *c, const char *text, size_t length, node_origin origin, const char *source);
/* VALUE of an assignment or a default of the table; NULL with the message set. */
node *node_from_text(config *c, const char *text, node_origin origin, const char *source);
node *config_find(const config *c, const char *path);
int node_is_null(const node *n); /* null, as YAML spells it */
/* 0, with the value in the node; else -1 with the message, which calls the key `path`. */
int config_check_value(config *c, const schema_key *row, node *n, const char *path);

#endif
