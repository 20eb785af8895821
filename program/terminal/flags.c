/* flags.c: see flags.h. */
#include "flags.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "progress.h"
#include "say.h"
#include "runfile/schema.h"

enum { FIRST = 256 }; /* beyond every letter */

int flag_given(const flag_values *v, int row) { return v->value[row] != NULL; }
const char *flag_text(const flag_values *v, int row, const char *otherwise)
{
    return v->value[row] ? v->value[row] : otherwise;
}
double flag_number(const flag_values *v, int row, double otherwise)
{
    return v->value[row] ? strtod(v->value[row], NULL) : otherwise;
}
int64_t flag_whole(const flag_values *v, int row, int64_t otherwise)
{
    return v->value[row] ? (int64_t)strtod(v->value[row], NULL) : otherwise;
}

/* ---------------------------------------------------------------------------- words that are none */

const char *flags_did_you_mean(const char *words, const char *typed, const char *otherwise, char *out, size_t room)
{
    char word[64];
    const char *near = schema_nearest_word(words, typed, word, sizeof word);
    (void)snprintf(out, room, near ? "; did you mean '%s'?" : "; %s", near ? near : otherwise);
    return out;
}

/* The names of the flags that begin with the first `length` bytes of `name`, as "--a|--b"; their number is returned. */
static int flags_that_begin(const struct option *known, const char *name, size_t length, char *out, size_t room)
{
    int count = 0;
    size_t used = 0;
    out[0] = 0;
    for (; known->name; known++) {
        if (strncmp(known->name, name, length) != 0) continue;
        int n = snprintf(out + used, room - used, "%s--%s", count ? "|" : "", known->name);
        if (n > 0 && (size_t)n < room - used) used += (size_t)n;
        count++;
    }
    return count;
}

static const char *command_of(const char *name)
{
    const char *blank = strrchr(name, ' ');
    return blank ? blank + 1 : name;
}

/* `typed` is the word with its dashes and its value; `missing`: a value should have followed. */
static int wrong_flag(const char *command, const struct option *known, const char *typed, int missing)
{
    char flag[CLIP + 4], list[1024], joined[1024], help[64], end[160];
    (void)config_clip(typed, flag);
    char *value = strchr(flag, '=');
    if (value) *value++ = 0;
    const char *name = flag + strspn(flag, "-");
    int found = flags_that_begin(known, name, strlen(name), list, sizeof list);
    if (missing) return complain('?', "%s: %s needs a value; see 'sosmc help %s'", command, flag, command);
    if (value && found == 1) return complain('?', "%s: %s takes no value; found '%s'", command, list, value);
    if (found > 1 && strncmp(flag, "--", 2) == 0) {
        schema_join(list, " or ", joined, sizeof joined);
        return complain('?', "%s: '%s' may be %s", command, flag, joined);
    }
    (void)flags_that_begin(known, "", 0, list, sizeof list);
    (void)snprintf(help, sizeof help, "see 'sosmc help %s'", command);
    return complain('?', "%s has no flag '%s'%s", command, flag, flags_did_you_mean(list, flag, help, end, sizeof end));
}

/* getopt_long for long flags and -h. Where getopt_long returns '?', this has said on standard error what is wrong and which
 * flag was probably meant. */
static int next_flag(int argc, char **argv, const struct option *known)
{
    int from = optind > 0 ? optind : 1;
    opterr = 0; /* the sentence is made here, not by getopt_long */
    int option = getopt_long(argc, argv, ":h", known, NULL);
    if (option != '?' && option != ':') return option;
    const char *command = command_of(argv[0]), *typed = argv[optind > from ? optind - 1 : from];
    char letter[3] = {'-', (char)optopt, 0};
    return wrong_flag(command, known, typed[0] == '-' && typed[1] == '-' ? typed : letter, option == ':');
}

/* ---------------------------------------------------------------------------- values */

/* Is the text a value for the key? */
static int fits(const schema_key *key, const char *text)
{
    char *end;
    if (key->type == TYPE_CHOICE) return schema_has_word(key->allowed, text);
    if (!*text || text[strspn(text, "0123456789.eE+-")]) return 0;
    double x = strtod(text, &end);
    if (*end || !isfinite(x)) return 0;
    if (key->type == TYPE_SEED) { /* 64 bits, more than a double holds */
        errno = 0;
        (void)strtoull(text, NULL, 10);
        return !text[strspn(text, "0123456789")] && errno == 0;
    }
    if (key->type != TYPE_NUMBER && x != floor(x)) return 0;
    if (key->type == TYPE_INTEGER && x > INT32_MAX) return 0;
    if (key->type == TYPE_LONG && x > 0x1p53) return 0;
    return schema_in_range(key->allowed, x);
}

static int add_set(flag_values *v, const char *assignment)
{
    if (v->sets == FLAGS_SETS) return complain(-1, "more than %d --set", FLAGS_SETS);
    v->set[v->sets++] = assignment;
    return 0;
}

/* --seed S is --set seed=S. */
static int add_key(flag_values *v, const flag_row *row, int at, const char *value)
{
    int n = snprintf(v->assignment[at], FLAGS_ASSIGNMENT, "%s=%s", row->key, value);
    if (n < 0 || n >= FLAGS_ASSIGNMENT)
        return complain(-1, "--%s is '%.32s...', %zu characters; expected a number of at most %zu", row->name, value,
                        strlen(value), (size_t)FLAGS_ASSIGNMENT - strlen(row->key) - 2);
    return add_set(v, v->assignment[at]);
}

/* Writes what the value should have been; 0: it is right. */
static int is_wrong(const flag_row *row, const char *value, char *expected, size_t room)
{
    const schema_key *key = row->like ? schema_find(row->like) : NULL;
    if (row->words && !schema_has_word(row->words, value))
        schema_join(row->words, " or ", expected, room);
    else if (key && !fits(key, value))
        schema_expected(key, expected, room);
    else if (row->takes_value && !*value)
        (void)snprintf(expected, room, "a value");
    else
        return 0;
    return 1;
}

static int take(flag_values *v, const flag_row *row, int at, const char *value)
{
    char expected[256];
    v->value[at] = value;
    if (is_wrong(row, value, expected, sizeof expected))
        return complain(-1, "--%s is '%s'; expected %s", row->name, value, expected);
    if (row->key) return add_key(v, row, at, value);
    return strcmp(row->name, "set") == 0 ? add_set(v, value) : 0;
}

int flags_read(flag_values *v, const flag_row *table, int rows, int command, int argc, char **argv, const char *operand,
               const char *help, int *code)
{
    struct option known[FLAGS_MOST + 1] = {{0}};
    int n = 0, asked = 0, option;
    for (int f = 0; f < rows; f++) {
        if (strcmp(table[f].name, "help") == 0) asked = f;
        if (!table[f].commands || (table[f].commands & command))
            known[n++] = (struct option){table[f].name, table[f].takes_value, NULL, FIRST + f};
    }
    *v = (flag_values){.command = argv[0], .begun = monotonic_seconds()};
    *code = SOSMC_EXIT_USAGE;
    optind = 0; /* makes getopt_long start from argv[1], also after an earlier call */
    while ((option = next_flag(argc, argv, known)) != -1) {
        int at = option == 'h' ? asked : option - FIRST;
        if (option == '?' || take(v, &table[at], at, optarg ? optarg : "")) return -1;
    }
    if (flag_given(v, asked)) {
        *code = fputs(help, stdout) < 0 ? SOSMC_EXIT_IO : SOSMC_EXIT_OK;
        return -1;
    }
    v->operands = argc - optind;
    v->operand = v->operands > 0 ? argv[optind] : NULL;
    if (operand && v->operands != 1) {
        int most = (int)strcspn(help, "\n");
        return complain(-1, "expected one %s, found %d; usage: %.*s", operand, v->operands, most, help);
    }
    return 0;
}
