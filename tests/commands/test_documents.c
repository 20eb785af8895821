/* test_documents.c: what the Markdown files of the tree point to is there: every link, every path of the tree that stands in
 * code, and every source file that CONTRIBUTING.md names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtext.h"

enum { WORD = 512 };

/* The folders whose paths are recognised as such, and those that hold sources. */
static const char *const roots[] = {"include/", "src/",         "program/", "cmake/", "examples/", "tests/",
                                    "fuzz/",    "experiments/", "bench/",   "docs/",  "tools/",    ".ci/"};
static const char *const sources[] = {"include/sosmc/", "src/*/", "program/*/", "experiments/*/", "tests/*/",
                                      "examples/",      "bench/", "fuzz/",      "tools/"};
enum { ROOTS = sizeof roots / sizeof *roots, SOURCES = sizeof sources / sizeof *sources };

typedef struct {
    const char *name; /* README.md, docs/maths.md */
    int line, checked, missing;
} document;

/* Does FOLDER/PATH exist in the tree? <name> in it stands for anything, as * does. */
static int exists(const char *folder, const char *path)
{
    char rest[RUNTEXT_PATH], pattern[RUNTEXT_PATH];
    size_t n = (size_t)snprintf(rest, sizeof rest / 2, "%s", folder);
    for (const char *at = path; *at && n + 1 < sizeof rest / 2; at++) {
        if (*at == '<' && strchr(at, '>')) {
            at = strchr(at, '>');
            rest[n++] = '*';
        } else {
            rest[n++] = *at;
        }
    }
    rest[n] = 0;
    glob_t found;
    if (!runtext_source(rest, pattern)) return 0;
    int there = glob(pattern, 0, NULL, &found) == 0;
    globfree(&found);
    return there;
}

static void expect(document *d, int there, const char *what, const char *word)
{
    d->checked++;
    if (there) return;
    d->missing++;
    print_error("%s:%d: the %s '%s' does not exist\n", d->name, d->line, what, word);
}

/* ---------------------------------------------------------------------------- links */

/* TARGET of [words](TARGET) or src="TARGET", relative to the file; addresses and places in the same page are passed over. */
static void check_target(document *d, const char *begin, char end)
{
    char target[WORD], folder[WORD] = "";
    const char *slash = strrchr(d->name, '/');
    if (slash) (void)snprintf(folder, sizeof folder, "%.*s", (int)(slash + 1 - d->name), d->name);
    size_t n = 0;
    while (begin[n] && begin[n] != end && begin[n] != '#' && n + 1 < sizeof target) n++;
    (void)snprintf(target, sizeof target, "%.*s", (int)n, begin);
    if (n == 0 || strchr(target, ':')) return;
    expect(d, exists(folder, target), "link", target);
}

static void check_links(document *d, const char *line)
{
    for (const char *at = line; (at = strstr(at, "](")) != NULL; at += 2) check_target(d, at + 2, ')');
    for (const char *at = line; (at = strstr(at, "src=\"")) != NULL; at += 5) check_target(d, at + 5, '"');
}

/* ---------------------------------------------------------------------------- code */

static int in_tree(const char *word)
{
    for (int i = 0; i < ROOTS; i++)
        if (strncmp(word, roots[i], strlen(roots[i])) == 0) return 1;
    return 0;
}

static int is_source(const char *word)
{
    const char *dot = strrchr(word, '.');
    return dot && dot > word && !strchr(word, '/') && (strcmp(dot, ".c") == 0 || strcmp(dot, ".h") == 0);
}

static int source_exists(const char *word)
{
    for (int i = 0; i < SOURCES; i++)
        if (exists(sources[i], word)) return 1;
    return 0;
}

static void check_word(document *d, char *word)
{
    size_t n = strlen(word);
    while (n > 0 && (word[n - 1] == '.' || word[n - 1] == ',')) word[--n] = 0;
    if (in_tree(word))
        expect(d, exists("", word), "path", word);
    else if (strcmp(d->name, "CONTRIBUTING.md") == 0 && is_source(word))
        expect(d, source_exists(word), "source file", word);
}

/* The words of code are made of what paths are made of. */
static void check_code(document *d, const char *begin, size_t length)
{
    char word[WORD];
    size_t n = 0;
    for (size_t i = 0; i <= length; i++) {
        unsigned char c = i < length ? (unsigned char)begin[i] : ' ';
        if (c && (isalnum(c) || strchr("_./*<>-", c)) && n + 1 < sizeof word) {
            word[n++] = (char)c;
            continue;
        }
        word[n] = 0;
        if (n > 0) check_word(d, word);
        n = 0;
    }
}

static void check_spans(document *d, const char *line)
{
    for (const char *at = strchr(line, '`'); at; at = strchr(at + 1, '`')) {
        const char *end = strchr(at + 1, '`');
        if (!end) return;
        check_code(d, at + 1, (size_t)(end - at - 1));
        at = end;
    }
}

/* ---------------------------------------------------------------------------- files */

static document check_document(const char *path, const char *name)
{
    document d = {.name = name};
    char *text = runtext_read(path), *rest = text;
    int fenced = 0, code = strcmp(name, "CHANGELOG.md") != 0; /* what was changed may be gone by now */
    if (!text) fail_msg("%s cannot be read", path);
    for (char *line = strsep(&rest, "\n"); line; line = strsep(&rest, "\n")) {
        d.line++;
        if (strncmp(line, "```", 3) == 0)
            fenced = !fenced;
        else if (fenced)
            check_code(&d, line, code ? strlen(line) : 0);
        else if (code)
            check_spans(&d, line);
        if (!fenced) check_links(&d, line);
    }
    free(text);
    return d;
}

static void what_documents_name_is_there(void **state)
{
    static const char *const patterns[] = {"*.md", "docs/*.md", "examples/*.md", "experiments/*.md",
                                           "experiments/*/*.md"};
    char path[RUNTEXT_PATH], root[RUNTEXT_PATH];
    int files = 0, checked = 0, missing = 0;
    if (!runtext_source("", root)) skip();
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        glob_t found;
        if (glob(runtext_source(patterns[i], path), 0, NULL, &found)) continue;
        for (size_t k = 0; k < found.gl_pathc; k++, files++) {
            document d = check_document(found.gl_pathv[k], found.gl_pathv[k] + strlen(root));
            checked += d.checked;
            missing += d.missing;
        }
        globfree(&found);
    }
    print_message("%d files, %d names\n", files, checked);
    assert_true(files >= 5 && checked >= 50);
    assert_int_equal(missing, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_documents_name_is_there)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
