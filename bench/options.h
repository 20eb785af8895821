/* options.h: the command line of a benchmark: options with a text or a whole number, and flags. */
#ifndef SOSMC_BENCH_OPTIONS_H
#define SOSMC_BENCH_OPTIONS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* One of the three pointers says where the value goes. */
typedef struct {
    const char *name;
    const char **text;
    int64_t *number; /* from 0 to a billion */
    int *flag;
} bench_option;

static inline int options_number(const char *text, int64_t *out)
{
    char *end = NULL;
    long long value = strtoll(text, &end, 10);
    *out = value;
    return end == text || *end || value < 0 || value > 1000000000;
}

/* NULL, or the argument that is not understood. */
static inline const char *options_read(int argc, char **argv, const bench_option *options, size_t count)
{
    for (int k = 1; k < argc; k++) {
        size_t o = 0;
        while (o < count && strcmp(argv[k], options[o].name) != 0) o++;
        if (o < count && options[o].flag) {
            *options[o].flag = 1;
            continue;
        }
        if (o == count || k + 1 == argc) return argv[k];
        k++;
        if (options[o].text)
            *options[o].text = argv[k];
        else if (options_number(argv[k], options[o].number))
            return argv[k];
    }
    return NULL;
}

#endif
