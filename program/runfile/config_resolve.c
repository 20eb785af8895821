/* config_resolve.c: a tree and the table become values: every key known, of its type, in its range, none missing.
 *
 *     forget    null entries, and the defaults of an earlier call
 *     expand    `scheme: soul` into `scheme: {type: soul}`, a single rule into a list of one
 *     name      `scheme: pgd` into what it stands for
 *     unknown   keys the table does not have
 *     settle    row by row: does it apply, is it there, what is its default, is it right
 *     derive    defaults that are other keys' values
 *     rules     what holds between keys: lengths, orders
 *
 * Rows are settled in the order of the table, so a `type` is known to be right before anything asks for it. */
#include "schema.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------------------- the mapping around a key */

/* The mappings that may hold the row's key: one, or as many as there are rules. Returns their number. */
static int find_parents(const config *c, const schema_key *row, node *parents[RULES_MOST])
{
    char path[PATH_ROOM];
    int count = 0;
    snprintf(path, sizeof path, "%.*s", (int)schema_parent_length(row->path), row->path);
    node *parent = *path ? config_find(c, path) : c->root;
    if (!parent) return 0;
    if (parent->kind == NODE_MAP) parents[count++] = parent;
    if (parent->kind != NODE_LIST) return count;
    for (node *n = parent->first; n && count < RULES_MOST; n = n->next) parents[count++] = n;
    return count;
}

/* The key's path as the user would write it: numbered only when there are several rules. */
static void name_key(const schema_key *row, const node *parent, int index, char path[PATH_ROOM])
{
    int several = parent->parent && parent->parent->kind == NODE_LIST && parent->parent->count > 1;
    int length = (int)schema_parent_length(row->path);
    if (several)
        snprintf(path, PATH_ROOM, "%.*s.%d.%s", length, row->path, index, schema_leaf(row->path));
    else
        snprintf(path, PATH_ROOM, "%s", row->path);
}

/* ---------------------------------------------------------------------------- forget and expand */

static void forget(node *n)
{
    node *next;
    for (node *child = n->first; child; child = next) {
        next = child->next;
        if (child->method) child->text = child->method;
        child->method = NULL;
        if (n->kind == NODE_MAP && (child->origin >= FROM_METHOD || node_is_null(child)))
            node_remove(n, child);
        else
            forget(child);
    }
}

/* A mapping becomes a list of one rule. An empty mapping is a rule with every default. */
static int expand_rule(config *c, node *n)
{
    int empty = n->count == 0;
    node *rule = empty ? node_make(c, NODE_MAP, n) : NULL;
    if ((empty && !rule) || node_into_list(c, n)) return -1;
    if (rule) node_append(n, rule, NULL);
    return 0;
}

static int expand_key(config *c, const schema_key *row, node *n)
{
    if (row->type == TYPE_MAP && row->allowed && n->kind == NODE_SCALAR && *n->text) {
        node *child = node_make(c, NODE_SCALAR, n);
        if (!child) return -1;
        node_into_map(n, child, row->allowed);
    }
    if (row->type == TYPE_RULES && n->kind == NODE_MAP) return expand_rule(c, n);
    return 0;
}

static int expand(config *c)
{
    node *parents[RULES_MOST];
    for (const schema_key *row = schema_keys; row->path; row++) {
        if (row->type != TYPE_MAP && row->type != TYPE_RULES) continue;
        int count = find_parents(c, row, parents);
        for (int i = 0; i < count; i++) {
            node *n = node_child(parents[i], schema_leaf(row->path));
            if (n && expand_key(c, row, n)) return -1;
        }
    }
    return 0;
}

/* ---------------------------------------------------------------------------- methods with a name */

/* Values are compared as words, or as numbers: 0.0 equals 0. */
static int same_value(const node *n, const char *value)
{
    char *end_a, *end_b;
    if (n->kind != NODE_SCALAR) return 0;
    if (!strcmp(n->text, value)) return 1;
    double a = strtod(n->text, &end_a), b = strtod(value, &end_b);
    return end_a > n->text && !*end_a && end_b > value && !*end_b && a == b;
}

/* Sets a key that a method stands for. `path` has two names, such as "kernel.type"; the mapping is made when missing. */
static int set_implied(config *c, const schema_method *m, const node *like, const char *path, const char *value)
{
    char parent[PATH_ROOM], clipped[CLIP + 4];
    node *n = config_find(c, path), *map;
    if (n && same_value(n, value)) return 0;
    if (n)
        return config_fail(c, n, "scheme %s means %s %s, and here it is %s; write scheme: %s to combine them", m->name,
                           path, value, n->kind == NODE_SCALAR ? config_clip(n->text, clipped) : "not a single value",
                           m->scheme);
    snprintf(parent, sizeof parent, "%.*s", (int)schema_parent_length(path), path);
    if (!(map = config_find(c, parent))) {
        map = node_make(c, NODE_MAP, like);
        if (!map) return -1;
        node_append(c->root, map, config_keep(c, parent, strlen(parent)));
        if (!map->key) return -1;
    }
    if (map->kind != NODE_MAP) return 0; /* The type of the value is refused later, by its row of the table. */
    n = node_make(c, NODE_SCALAR, like);
    if (!n || !(n->text = config_keep(c, value, strlen(value)))) return -1;
    node_append(map, n, schema_leaf(schema_find(path)->path));
    return 0;
}

/* Replaces the name of a method in scheme.type by its scheme, and fills in the other keys that the name stands for. */
static int name_method(config *c)
{
    char word[PATH_ROOM];
    node *type = config_find(c, "scheme.type");
    const schema_method *m = type && type->kind == NODE_SCALAR ? schema_method_named(type->text) : NULL;
    if (!m) return 0;
    node like = *type;
    like.origin = FROM_METHOD;
    type->method = type->text;
    type->text = m->scheme;
    for (const char *values = m->values; schema_word(&values, word, sizeof word);) {
        char *equals = strchr(word, '=');
        *equals = 0;
        if (set_implied(c, m, &like, word, equals + 1)) return -1;
    }
    return 0;
}

/* ---------------------------------------------------------------------------- unknown keys */

static void list_keys(const char *parent, char *out, size_t room)
{
    char words[600] = "";
    const char *last = "";
    for (const schema_key *row = schema_keys; row->path; row++) {
        const char *leaf = schema_leaf(row->path);
        if (!schema_is_child(row, parent) || !strcmp(leaf, last)) continue;
        size_t used = strlen(words);
        snprintf(words + used, sizeof words - used, "%s%s", used ? "|" : "", leaf);
        last = leaf;
    }
    schema_join(words, " and ", out, room);
}

static int unknown(config *c, const node *n, const char *parent, const char *path)
{
    char keys[700];
    const char *near = schema_nearest(parent, n->key);
    if (near) return config_fail(c, n, "unknown key '%s'; did you mean '%s'?", path, near);
    list_keys(parent, keys, sizeof keys);
    return config_fail(c, n, "unknown key '%s'; %s%s has the keys %s", path, *parent ? "" : "a run file", parent, keys);
}

static int check_known(config *c, const node *map, const char *parent)
{
    char path[PATH_ROOM], clipped[CLIP + 4];
    for (const node *n = map->first; n; n = n->next) {
        snprintf(path, sizeof path, "%s%s%s", parent, *parent ? "." : "", config_clip(n->key, clipped));
        const schema_key *row = schema_find(path);
        if (!row) return unknown(c, n, parent, path);
        if (row->type == TYPE_MAP && n->kind == NODE_MAP && check_known(c, n, path)) return -1;
        if (row->type != TYPE_RULES) continue;
        for (const node *rule = n->first; rule; rule = rule->next)
            if (rule->kind == NODE_MAP && check_known(c, rule, path)) return -1;
    }
    return 0;
}

/* ---------------------------------------------------------------------------- settle */

/* Whether the key, or a mapping around it, is one that the solver decides. */
static int left_to_solver(const config *c, const schema_key *row)
{
    char path[PATH_ROOM];
    const node *settings = node_child(c->root, "settings");
    if (!settings || settings->kind != NODE_SCALAR || strcmp(settings->text, "automatic") != 0) return 0;
    for (const char *list = schema_chosen; schema_word(&list, path, sizeof path);) {
        size_t length = strlen(path);
        if (!strncmp(row->path, path, length) && (!row->path[length] || row->path[length] == '.')) return 1;
    }
    return 0;
}

static int applies(const config *c, const schema_key *row)
{
    char path[PATH_ROOM];
    if (left_to_solver(c, row)) return 0;
    if (!row->when) return 1;
    size_t length = strcspn(row->when, "=");
    snprintf(path, sizeof path, "%.*s", (int)length, row->when);
    const char *value = config_text(c, path);
    return value && schema_has_word(row->when + length + 1, value);
}

/* A key may have several rows in the table, one after the other. Returns whether one of them applies. */
static int applies_anywhere(const config *c, const schema_key *row)
{
    for (const schema_key *r = schema_find(row->path); r->path && !strcmp(r->path, row->path); r++)
        if (applies(c, r)) return 1;
    return 0;
}

static int refuse_key(config *c, const schema_key *row, const node *n, const char *path)
{
    char selector[PATH_ROOM], words[300] = "", joined[400];
    if (left_to_solver(c, row))
        return config_fail(
            c, n,
            "%s is decided by the solver, because settings is automatic%s; to choose it yourself, set "
            "settings to explicit (--set settings=explicit)",
            path,
            node_child(c->root, "settings")->origin == FROM_DEFAULT ? ", as in every file that chooses nothing" : "");
    snprintf(selector, sizeof selector, "%.*s", (int)strcspn(row->when, "="), row->when);
    for (const schema_key *r = schema_find(row->path); r->path && !strcmp(r->path, row->path); r++) {
        size_t used = strlen(words);
        snprintf(words + used, sizeof words - used, "%s%s", used ? "|" : "", strchr(r->when, '=') + 1);
    }
    schema_join(words, " or ", joined, sizeof joined);
    const char *now = config_text(c, selector);
    return config_fail(c, n, "%s applies only when %s is %s; here it is %s", path, selector, joined,
                       now ? now : "missing");
}

/* The first value inside this key that --set assigned, or NULL. */
static const node *assigned(const node *n)
{
    const node *found = n->origin == FROM_SET ? n : NULL;
    for (const node *child = n->first; child && !found; child = child->next) found = assigned(child);
    return found;
}

/* Removes a key that earlier versions wrote into resolved files without reading it, and returns 1. A value from --set is
 * never removed. */
static int drop_once_written(const config *c, const schema_key *row, node *parent, const node *n)
{
    if (!c->stored || assigned(n) || !schema_has_word(schema_once_written, row->path)) return 0;
    node_remove(parent, n);
    return 1;
}

static int missing(config *c, const schema_key *row, const node *parent, const char *path)
{
    char expected[EXPECTED_ROOM], selector[PATH_ROOM];
    schema_expected(row, expected, sizeof expected);
    if (!row->when) return config_fail(c, parent, "%s is missing; expected %s", path, expected);
    snprintf(selector, sizeof selector, "%.*s", (int)strcspn(row->when, "="), row->when);
    return config_fail(c, parent, "%s is missing; expected %s, because %s is %s", path, expected, selector,
                       config_text(c, selector));
}

/* Is this key written, or has it one of these values? */
static int condition_holds(const config *c, const char *when)
{
    char path[PATH_ROOM], word[64];
    size_t length = strcspn(when, "=");
    if (*when == '@') return c->chosen;
    snprintf(path, sizeof path, "%.*s", (int)length, when);
    const node *n = config_find(c, path);
    if (!n || !when[length]) return n && n->origin != FROM_DEFAULT;
    for (const char *words = when + length + 1; schema_word(&words, word, sizeof word);)
        if (same_value(n, word)) return 1;
    return 0;
}

static int case_holds(const config *c, const char *when)
{
    char one[PATH_ROOM];
    for (size_t length; *when; when += length + (when[length] == '&')) {
        length = strcspn(when, "&");
        snprintf(one, sizeof one, "%.*s", (int)length, when);
        if (!condition_holds(c, one)) return 0;
    }
    return 1;
}

static node *make_default(config *c, const char *text);

/* The value of the first case that holds. */
static node *make_case(config *c, const char *rule)
{
    char when[PATH_ROOM], value[PATH_ROOM];
    for (rule++; schema_case(&rule, when, value);)
        if (case_holds(c, when)) return make_default(c, value);
    return NULL;
}

static node *make_default(config *c, const char *text)
{
    node like = {.origin = FROM_DEFAULT};
    if (!strcmp(text, "{}")) return node_make(c, NODE_MAP, &like);
    if (!strcmp(text, "[]")) return node_make(c, NODE_LIST, &like);
    if (*text == '?') return make_case(c, text);
    return node_from_text(c, text, FROM_DEFAULT, NULL);
}

static void mark_default(node *n)
{
    n->origin = FROM_DEFAULT;
    for (node *child = n->first; child; child = child->next) mark_default(child);
}

static node *make_zeros(config *c, int count)
{
    node *list = make_default(c, "[]");
    for (int i = 0; list && i < count; i++) {
        node *zero = make_default(c, "0");
        if (!zero) return NULL;
        node_append(list, zero, NULL);
    }
    return list;
}

/* The key that a derived default takes its value from; NULL: it has none, and neither has the default. */
static const node *source_of(const config *c, const char *rule)
{
    return config_find(c, strchr(rule, ' ') ? strchr(rule, ' ') + 1 : rule + 1);
}

static node *make_derived(config *c, const char *rule)
{
    char text[24];
    const node *from = source_of(c, rule);
    if (!strncmp(rule, "=zeros ", 7)) return make_zeros(c, from->rows);
    if (!strncmp(rule, "=half ", 6)) {
        snprintf(text, sizeof text, "%lld", (long long)(from->whole > 1 ? from->whole / 2 : 1));
        return make_default(c, text);
    }
    if (!strncmp(rule, "=count ", 7)) {
        snprintf(text, sizeof text, "%lld", (long long)(from->whole > 1 ? from->whole : 1));
        return make_default(c, text);
    }
    node *copy = node_copy(c, from, 0);
    if (copy) mark_default(copy);
    return copy;
}

/* Derived defaults are filled in the second round, when all written values and all plain defaults are known. */
static int fill(config *c, const schema_key *row, node *parent, const char *path, int round)
{
    if (!row->fallback) return round ? 0 : missing(c, row, parent, path);
    int derived = row->fallback[0] == '=';
    if (row->fallback[0] == 0 || derived != round) return 0;
    if (derived && !source_of(c, row->fallback)) return 0;
    int former = c->stored && !strcmp(row->path, "model.units"); /* as runs were before there was this key */
    node *n = derived ? make_derived(c, row->fallback) : make_default(c, former ? "scaled" : row->fallback);
    if (!n) return -1;
    node_append(parent, n, schema_leaf(row->path));
    return config_check_value(c, row, n, path);
}

static int settle_row(config *c, const schema_key *row, int round)
{
    node *parents[RULES_MOST];
    char path[PATH_ROOM];
    int count = find_parents(c, row, parents), fits = applies(c, row);
    for (int i = 0; i < count; i++) {
        node *n = node_child(parents[i], schema_leaf(row->path));
        name_key(row, parents[i], i, path);
        if (!fits && n && !applies_anywhere(c, row))
            if (!drop_once_written(c, row, parents[i], n))
                return refuse_key(c, row, assigned(n) ? assigned(n) : n, path);
        if (!fits || (round && n)) continue;
        if (n ? config_check_value(c, row, n, path) : fill(c, row, parents[i], path, round)) return -1;
    }
    return 0;
}

static int settle(config *c)
{
    for (int round = 0; round < 2; round++)
        for (const schema_key *row = schema_keys; row->path; row++)
            if (settle_row(c, row, round)) return -1;
    return 0;
}

/* ---------------------------------------------------------------------------- rules between keys */

static int is(const config *c, const char *path, const char *word)
{
    const char *text = config_text(c, path);
    return text && !strcmp(text, word);
}

/* The dimension of x, as far as the run file itself tells; else 0. */
static int dimension(const config *c)
{
    int rows, cols, count = config_count(c, "model.features");
    if (config_matrix(c, "model.means", &rows, &cols)) return cols;
    if (config_vector(c, "model.y", &cols)) return cols;
    return is(c, "model.type", "own") ? (int)config_integer(c, "model.dim_x") : count;
}

/* A list that must have one number per something; `spread` lets a single number stand for all. */
static int check_length(config *c, const char *path, int expected, const char *why, int spread)
{
    const node *n = config_find(c, path);
    if (!n || expected == 0 || n->cols == expected || (spread && n->cols == 1)) return 0;
    return config_fail(c, n, "%s has %d number%s%s; expected %d, %s", path, n->cols, n->cols == 1 ? "" : "s",
                       n->rows > 1 ? " in a row" : "", expected, why);
}

static int rule_theta(config *c)
{
    int mixture = is(c, "model.type", "gaussian_mixture"), own = is(c, "model.type", "own");
    const node *means = config_find(c, "model.means");
    int expected = mixture ? means->rows : own ? (int)config_integer(c, "model.dim_theta") : 1;
    const char *why = mixture ? "one per row of model.means"
                      : own   ? "as model.dim_theta says"
                              : "because theta is a single number in this model";
    return check_length(c, "model.theta", expected, why, 0) || check_length(c, "init.theta", expected, why, 0) ||
                   check_length(c, "objective.reference.theta", expected, why, 0)
               ? -1
               : 0;
}

static int rule_dimension(config *c)
{
    static const char *const why = "the dimension of the model";
    int dim = dimension(c);
    return check_length(c, "objective.reward.center", dim, why, 0) ||
                   check_length(c, "objective.reward.centers", dim, why, 0) ||
                   check_length(c, "objective.reward.normal", dim, why, 0) ||
                   check_length(c, "init.mean", dim, why, 1) || check_length(c, "init.sd", dim, why, 1)
               ? -1
               : 0;
}

/* model.column and model.missing have a meaning with model.data alone. Where model.y is given instead, the default is removed,
 * and a value that the user wrote is refused. */
static int rule_of_table(config *c, const char *path)
{
    node *model = config_find(c, "model"), *n = config_find(c, path);
    if (!n || !config_has(c, "model.y")) return 0;
    if (n->origin != FROM_DEFAULT && !drop_once_written(c, schema_find(path), model, n))
        return config_fail(c, n, "%s applies only when model.data is given; here model.y is", path);
    node_remove(model, n);
    return 0;
}

static int rule_observations(config *c)
{
    if (!is(c, "model.type", "hierarchical_gaussian")) return 0;
    if (!config_has(c, "model.data") && !config_has(c, "model.y"))
        return config_fail(c, config_find(c, "model"), "model.data or model.y is missing; expected one of them");
    if (config_has(c, "model.data") && config_has(c, "model.y"))
        return config_fail(c, config_find(c, "model.y"), "model.data and model.y are both given; expected one of them");
    return rule_of_table(c, "model.column") || rule_of_table(c, "model.missing") ? -1 : 0;
}

static int rule_scheme(config *c)
{
    const node *keep = config_find(c, "scheme.keep"), *pool = config_find(c, "scheme.pool");
    int64_t sweeps = config_integer(c, "scheme.sweeps"), particles = config_integer(c, "particles");
    if (keep && (int64_t)keep->whole > sweeps)
        return config_fail(c, keep, "scheme.keep is %lld; expected at most scheme.sweeps, which is %lld",
                           (long long)keep->whole, (long long)sweeps);
    if (pool && (int64_t)pool->whole < particles)
        return config_fail(c, pool, "scheme.pool is %lld; expected at least particles, which is %lld",
                           (long long)pool->whole, (long long)particles);
    return 0;
}

/* Tempering finds its settings, and ends by itself. */
static int rule_temper(config *c)
{
    const node *settings = config_find(c, "settings"), *beta = config_find(c, "objective.beta");
    const node *precision = config_find(c, "precision");
    if (!is(c, "objective.type", "temper")) return 0;
    if (!is(c, "settings", "automatic"))
        return config_fail(
            c, config_find(c, "objective.type"),
            "objective.type is temper, which finds its moves and temperatures, and settings is %s; expected none "
            "of scheme, kernel, iterations and the like, or objective.type anneal",
            settings->text);
    if (precision)
        return config_fail(c, precision,
                           "precision is for solvers, and objective.type is temper, which ends by itself");
    if (beta && !config_has(c, "objective.reward"))
        return config_fail(c, beta, "objective.beta stands without objective.reward, which the model is tilted by");
    return 0;
}

/* The solver keeps particles in groups. */
static int rule_particles(config *c)
{
    enum { LEAST = 128, MULTIPLE = 16 };
    const node *n = config_find(c, "particles");
    if (!is(c, "settings", "automatic") || is(c, "objective.type", "temper") ||
        ((int64_t)n->whole >= LEAST && n->whole % MULTIPLE == 0))
        return 0;
    return config_fail(c, n,
                       "particles is %lld; expected a multiple of %d of at least %d, because settings is automatic",
                       (long long)n->whole, MULTIPLE, LEAST);
}

static int rule_kernel(config *c)
{
    const node *kernel = config_find(c, "kernel.type");
    if (!is(c, "kernel.type", "gibbs")) return 0;
    if (!is(c, "model.type", "deblur"))
        return config_fail(c, kernel, "kernel.type is gibbs, which knows the model deblur alone; model.type is %s",
                           config_text(c, "model.type"));
    if (config_number(c, "model.envelope") > 0)
        return config_fail(c, kernel, "kernel.type is gibbs, which knows no envelope; expected model.envelope to be 0");
    return 0;
}

static int accepts_everything(const config *c)
{
    return is(c, "kernel.type", "ula") || is(c, "kernel.type", "underdamped") || is(c, "kernel.type", "leapfrog") ||
           is(c, "kernel.type", "myula") || is(c, "kernel.type", "jitter");
}

/* One rule of `adapt`: the signal must exist, and the interval must not be empty. */
static int check_rule(config *c, const node *rule)
{
    const node *signal = node_child(rule, "signal"), *low = node_child(rule, "min"), *high = node_child(rule, "max"),
               *target = node_child(rule, "target");
    int weighted = is(c, "scheme.type", "sosmc"), ess = !strcmp(signal->text, "ess");
    if (node_child(rule, "factor")->number == 1) return 0;
    if (low->number > high->number)
        return config_fail(c, high, "adapt.max is %g; expected at least adapt.min, which is %g", high->number,
                           low->number);
    if (ess && !weighted)
        return config_fail(c, signal,
                           "adapt follows the effective sample size, which scheme %s does not have; take adapt out, "
                           "for instance with --set adapt=null",
                           config_text(c, "scheme.type"));
    if (ess && config_find(c, "kernel")->origin == FROM_DEFAULT && is(c, "kernel.type", "mala") &&
        !strcmp(target->text, "step"))
        return config_fail(c, signal,
                           "adapt follows the effective sample size, which says nothing about the step of mala, the "
                           "kernel of a file that names none; expected adapt.signal accept, or a kernel such as ula");
    if (!strcmp(target->text, "rate") && !config_has(c, "optimiser"))
        return config_fail(c, target, "adapt.target is rate, but objective.type %s has no learning rate; expected step",
                           config_text(c, "objective.type"));
    if (!ess && accepts_everything(c))
        return config_fail(c, signal, "adapt.signal is accept, but kernel %s accepts everything; expected ess",
                           config_text(c, "kernel.type"));
    return 0;
}

static int rule_adapt(config *c)
{
    const node *list = config_find(c, "adapt");
    for (const node *rule = list ? list->first : NULL; rule; rule = rule->next)
        if (check_rule(c, rule)) return -1;
    return 0;
}

int config_resolve(config *c, char *error, size_t room)
{
    static int (*const rules[])(config *) = {rule_theta,  rule_dimension, rule_observations, rule_scheme,
                                             rule_temper, rule_particles, rule_kernel,       rule_adapt};
    config_listen(c, error, room);
    c->resolved = 0;
    forget(c->root);
    if (expand(c) || name_method(c) || check_known(c, c->root, "") || settle(c)) return -1;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i](c)) return -1;
    c->resolved = 1;
    return 0;
}
