/* same_run.c: whether a run file continues the run that another one began.
 *
 * Both are compared in resolved form, as the program writes them, so that two ways to write the same value are equal. */
#include "same_run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files/directory.h"
#include "files/files.h"
#include "runfile/schema.h"

/* A resolved run file without what may change between a run and its continuation. */
static char *comparable(const config *c)
{
    char *text = NULL, *kept = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    int failed = !f || config_write(c, f);
    if (f && fclose(f)) failed = 1;
    if (!failed && text) kept = calloc(size + 1, 1); /* no text: there was no memory for it */
    int skipping = 0;
    size_t used = 0;
    for (char *line = text; kept && line && *line;) {
        char *end = strchr(line, '\n');
        size_t length = end ? (size_t)(end - line) + 1 : strlen(line);
        if (*line != ' ' && *line != '#')
            skipping = strncmp(line, "iterations:", 11) == 0 || strncmp(line, "threads:", 8) == 0 ||
                       strncmp(line, "output:", 7) == 0 || strncmp(line, "evaluate:", 9) == 0 ||
                       strncmp(line, "on_collapse:", 12) == 0 || strncmp(line, "judge:", 6) == 0 ||
                       strncmp(line, "limits:", 7) == 0;
        if (!skipping && *line != '#') {
            memcpy(kept + used, line, length);
            used += length;
        }
        line = end ? end + 1 : NULL;
    }
    free(text);
    return kept;
}

/* The first lines in which two run files differ, for the message. */
static void difference(const char *a, const char *b, char *out, size_t room)
{
    size_t line = 0;
    for (size_t i = 0; a[i] && a[i] == b[i]; i++)
        if (a[i] == '\n') line = i + 1;
    (void)snprintf(out, room, "it has '%.*s', this run '%.*s'", (int)strcspn(a + line, "\n"), a + line,
                   (int)strcspn(b + line, "\n"), b + line);
}

/* The rate of each falls over its own number of iterations, as by default, and these differ. */
static int falls_over_its_iterations(const config *c)
{
    int64_t iterations = config_integer(c, "iterations");
    return config_number(c, "optimiser.schedule.a") == (double)(iterations > 1 ? iterations : 1);
}

static void tell_apart(const config *old, const config *c, const char *path, const char *words, char *error,
                       size_t room)
{
    long long before = config_integer(old, "iterations"), now = config_integer(c, "iterations");
    if (falls_over_its_iterations(old) && falls_over_its_iterations(c) && before != now)
        files_say(
            error, room,
            "%s belongs to another run: its learning rate falls over %lld iterations, that of this run over %lld; "
            "begin in a new directory (a run that is to be prolonged later needs an optimiser in its file)",
            path, before, now);
    else
        files_say(error, room, "%s belongs to another run: %s (given as the run file, it continues what is there)",
                  path, words);
}

/* Gives the old run file the names that the files of the new one have. */
static int take_names(config *old, const config *c, char *error, size_t room)
{
    char assignment[FILES_PATH + PATH_ROOM];
    for (const schema_key *row = schema_keys; row->path; row++) {
        if (row->type != TYPE_PATH || !config_has(old, row->path) || !config_has(c, row->path)) continue;
        (void)snprintf(assignment, sizeof assignment, "%s=%s", row->path, config_text(c, row->path));
        if (config_set(old, assignment, error, room)) return -1;
    }
    return config_resolve(old, error, room);
}

/* Versions that had no model.activation took silu where the file of a network does not say it. */
static int take_activation(config *old, const config *c, char *error, size_t room)
{
    const char *type = config_text(old, "model.type"), *now = config_text(c, "model.activation");
    if (!type || strcmp(type, "stored") != 0 || config_has(old, "model.activation") || !now || strcmp(now, "silu") != 0)
        return 0;
    return config_set(old, "model.activation=silu", error, room) || config_resolve(old, error, room) ? -1 : 0;
}

int same_run_check(const config *c, const char *path, int same_files, char *error, size_t room)
{
    char words[256];
    if (directory_regular(path, error, room)) return -1;
    config *old = config_load(path, error, room);
    if (!old || config_resolve(old, error, room) || (same_files && take_names(old, c, error, room)) ||
        take_activation(old, c, error, room)) {
        config_free(old);
        return -1;
    }
    char *a = comparable(old), *b = comparable(c);
    int same = a && b && strcmp(a, b) == 0, no_memory = !a || !b;
    if (no_memory) {
        files_say(error, room, "no memory to compare this run with %s", path);
    } else if (!same) {
        difference(a, b, words, sizeof words);
        tell_apart(old, c, path, words, error, room);
    }
    free(a);
    free(b);
    config_free(old);
    if (no_memory) errno = ENOMEM;
    return same ? 0 : -1;
}
