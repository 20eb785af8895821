/* test_config_replay.c: a resolved run file that is written out reads as the same run, with whatever texts and numbers;
 * hostile files are survived: refused in one line, or they replay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runfile/config.h"
#include "runtext.h"
#include "runfile/schema.h"

/* ---------------------------------------------------------------------------- writing */

static void strange_texts_replay(void **state)
{
    static const char *const texts[] = {
        "true",       "No",       "null",      "~",      "12",       "1e5",      "a: b", "a #b",
        "- a",        "'",        "\"",        "\\",     "%",        "@",        "a\nb", "tab\there",
        " lead",      "trail ",   "caf\u00e9", "\u2028", "\xC2\x85", "\ufeff",   "\x7f", "\u20ac \U0001F600",
        "[",          "{}",       "&a",        "*a",     "!a",       "|",        ">",    "?",
        "x1 ? y : z", "/usr/a b", ".",         "-",      "0x1",      "\x01\x1b", "y",    "N",
        "yes_",       "trueish"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        config *c = runtext_parse(
            "{model: {type: logistic_regression, data: /d, label: a, train: {column: a}}, objective: mmle}");
        node *n = config_find(c, "model.train");
        node *value = node_make(c, NODE_SCALAR, n), *label = config_find(c, "model.label");
        assert_non_null(value);
        value->quoted = label->quoted = 1;
        value->text = label->text = texts[i];
        node_append(n, value, "value");
        runtext_resolve(c);
        char *text = runtext_written(c);
        config *again = runtext_resolved(text);
        assert_string_equal(config_text(again, "model.train.value"), texts[i]);
        assert_string_equal(config_text(again, "model.label"), texts[i]);
        assert_int_equal(config_column(again, "model.label"), 0);
        config_free(again);
        free(text);
        runtext_assert_replays(c);
        config_free(c);
    }
}

static uint64_t noise(uint64_t *s) /* splitmix64 */
{
    uint64_t z = *s += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Every finite double comes back as it was, also from long lists that are broken over lines. */
static void numbers_replay(void **state)
{
    enum { COUNT = 5000 };
    static const double special[] = {0.1,  1e-9, 5e-324, 1.7976931348623157e308, -0.0, 1e15, 123456789012345680.0,
                                     1e22, 3.0,  1e5};
    uint64_t s = 1;
    char *text = malloc(COUNT * 32 + 200);
    assert_non_null(text);
    double x[COUNT];
    size_t used = (size_t)sprintf(text, "objective: mmle\nmodel: {type: hierarchical_gaussian, y: [");
    for (int i = 0; i < COUNT; i++) {
        uint64_t bits = noise(&s);
        memcpy(&x[i], &bits, sizeof bits);
        if (!isfinite(x[i])) x[i] = 1.5;
        if (i < 10) x[i] = special[i];
        used += (size_t)sprintf(text + used, "%s%.17g", i ? ", " : "", x[i]);
    }
    memcpy(text + used, "]}\n", 4);
    config *c = runtext_resolved(text);
    char *out = runtext_written(c);
    config *again = runtext_resolved(out);
    int n;
    const double *y = config_vector(again, "model.y", &n);
    assert_int_equal(n, COUNT);
    assert_memory_equal(y, x, sizeof x);
    assert_non_null(strstr(out, "[0.1, 1.0e-09, 5.0e-324, 1.7976931348623157e+308, -0, 1.0e+15, "));
    runtext_assert_replays(c);
    config_free(again);
    config_free(c);
    free(out);
    free(text);
}

/* ---------------------------------------------------------------------------- hostile files */

static char *repeated(const char *begin, const char *each, int count, const char *end)
{
    char *text = malloc(strlen(begin) + strlen(each) * (size_t)count + strlen(end) + 1), *p = text;
    assert_non_null(text);
    p = stpcpy(p, begin);
    for (int i = 0; i < count; i++) p = stpcpy(p, each);
    memcpy(p, end, strlen(end) + 1);
    return text;
}

static void refuse_repeated(const char *begin, const char *each, int count, const char *end, const char *message)
{
    char *text = repeated(begin, each, count, end);
    assert_string_equal(runtext_complaint(text), message);
    free(text);
}

static void hostile_files(void **state)
{
    refuse_repeated("a: ", "[", 100000, "", "run.yaml:1: the file is nested deeper than 32 levels");
    refuse_repeated("a: ", "{a: ", 100000, "", "run.yaml:1: the file is nested deeper than 32 levels");
    refuse_repeated("", "- ", 100000, "", "run.yaml:1: the file is nested deeper than 32 levels");
    refuse_repeated("a: [", "1,", 1100000, "]",
                    "run.yaml:1: the file has more than 1000000 values; tables belong in a file of their own");
    refuse_repeated("seed: ", "x", 70000, "", "run.yaml:1: a value is longer than 65536 bytes; is a quote missing?");
    refuse_repeated("a: [", "&a 1,", 2000, "]", "run.yaml:1: the file has more than 1000 anchors");

    char *text = malloc(1 << 20), *p = text;
    assert_non_null(text);
    for (int i = 0; i < 1500; i++) p += sprintf(p, "k%d: 1\n", i);
    assert_string_equal(runtext_complaint(text), "run.yaml:1001: a mapping has more than 1000 keys");
    p = text + sprintf(text, "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"); /* a billion laughs */
    for (int i = 1; i < 10; i++) {
        p += sprintf(p, "a%d: &a%d [*a%d", i, i, i - 1);
        for (int j = 0; j < 8; j++) p += sprintf(p, ", *a%d", i - 1);
        p += sprintf(p, "]\n");
    }
    assert_non_null(strstr(runtext_complaint(text), "the file has more than 1000000 values"));
    p = text + sprintf(text, "a0: &a0 x\n"); /* shallow to read, deep when aliases are followed */
    for (int i = 1; i < 900; i++) p += sprintf(p, "a%d: &a%d [*a%d]\n", i, i, i - 1);
    assert_non_null(strstr(runtext_complaint(text), "the file is nested deeper than 32 levels"));
    free(text);

    config *c = runtext_parse("{}");
    text = repeated("a", ".a", 100, "=1");
    assert_int_equal(config_set(c, text, runtext_error, sizeof runtext_error), -1);
    assert_non_null(strstr(runtext_error, "the path is deeper than 32 levels"));
    free(text);
    text = repeated("seed=", "1", 70000, "");
    assert_int_equal(config_set(c, text, runtext_error, sizeof runtext_error), -1);
    assert_non_null(strstr(runtext_error, "the value is longer than 65536 bytes"));
    free(text);
    config_free(c);
}

/* Bytes changed, cut, doubled: whatever comes out is either refused in one line or replays. */
static void mutated_files(void **state)
{
    runtext_files f = {0};
    uint64_t s = 7;
    if (runtext_examples(&f)) skip();
    for (size_t e = 0; e < f.found.gl_pathc; e++) {
        char *text = runtext_read(f.found.gl_pathv[e]);
        assert_non_null(text);
        for (int trial = 0; trial < 200; trial++) {
            static const char marks[] = "{}[]:,-#&*!|>'\"%@ \n\t0123.e+=~\\\x01\x80\xff";
            char *mutant = strdup(text);
            size_t length = strlen(mutant);
            for (int change = 1 + (int)(noise(&s) % 3); change > 0; change--) {
                size_t at = noise(&s) % length, other = noise(&s) % length;
                char mark = marks[noise(&s) % (sizeof marks - 1)];
                switch (noise(&s) % 4) {
                case 0: mutant[at] = mark; break;
                case 1: mutant[at] = mutant[other]; break;
                case 2: memmove(mutant + at, mutant + at + 1, length - at); break;
                default: memmove(mutant + at, mutant + other, (at < other ? length - other : length - at) / 8); break;
                }
                length = strlen(mutant);
                if (length == 0) break;
            }
            config *c = config_parse(mutant, "mutant", runtext_error, sizeof runtext_error);
            if (c && !config_resolve(c, runtext_error, sizeof runtext_error))
                runtext_assert_replays(c);
            else {
                assert_int_equal(strncmp(runtext_error, "mutant:", 7), 0);
                assert_null(strchr(runtext_error, '\n'));
            }
            config_free(c);
            free(mutant);
        }
        free(text);
    }
    globfree(&f.found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strange_texts_replay),
        cmocka_unit_test(numbers_replay),
        cmocka_unit_test(hostile_files),
        cmocka_unit_test(mutated_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
