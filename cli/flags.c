/* flags.c: see flags.h. */
#include "flags.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "progress.h"
#include "run.h"
#include "schema.h"

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

static int take(flag_values *v, const flag_row *row, int at, const char *value)
{
    char expected[256];
    const schema_key *key = row->like ? schema_find(row->like) : NULL;
    v->value[at] = value;
    if (strcmp(row->name, "set") == 0) {
        if (v->sets == FLAGS_SETS) return complain(-1, "more than %d --set", FLAGS_SETS);
        v->set[v->sets++] = value;
    }
    if (row->words && !schema_has_word(row->words, value))
        schema_join(row->words, " or ", expected, sizeof expected);
    else if (key && !fits(key, value))
        schema_expected(key, expected, sizeof expected);
    else if (row->takes_value && !*value)
        (void)snprintf(expected, sizeof expected, "a value");
    else
        return 0;
    return complain(-1, "--%s is '%s'; expected %s", row->name, value, expected);
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
    optind = 0; /* begin anew, whoever parsed before */
    while ((option = getopt_long(argc, argv, "h", known, NULL)) != -1) {
        int at = option == 'h' ? asked : option - FIRST;
        if (option == '?' || take(v, &table[at], at, optarg ? optarg : "")) return -1;
    }
    if (flag_given(v, asked)) {
        *code = fputs(help, stdout) < 0 ? SOSMC_EXIT_IO : SOSMC_EXIT_OK;
        return -1;
    }
    if (argc - optind != 1) {
        int most = (int)strcspn(help, "\n");
        return complain(-1, "expected one %s, found %d; usage: %.*s", operand, argc - optind, most, help);
    }
    v->operand = argv[optind];
    return 0;
}
