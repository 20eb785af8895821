/* draft.c: run files from flags. */
#include "draft.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/files.h"
#include "run/place.h"
#include "terminal/say.h"
#include "terminal/say_lock.h"

enum { SENTENCE = 1024 };

int draft_open(draft *d)
{
    *d = (draft){0};
    d->out = open_memstream(&d->bytes, &d->size);
    return d->out ? 0 : complain(-1, "out of memory");
}

void draft_put(draft *d, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vfprintf(d->out, format, args);
    va_end(args);
}

void draft_put_quoted(draft *d, const char *text)
{
    if (!files_is_utf8(text)) (void)snprintf(d->foreign, sizeof d->foreign, "%s", text);
    draft_put(d, "\"");
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            draft_put(d, "\\%c", c);
        else if (c < 0x20 || c == 0x7F)
            draft_put(d, "\\x%02X", c);
        else
            draft_put(d, "%c", c);
    }
    draft_put(d, "\"");
}

config *draft_config(draft *d, const char *name, const char *const *set, int sets)
{
    char error[SENTENCE] = "out of memory";
    int rc = fclose(d->out) || !d->bytes ? -1 : 0; /* no bytes: there was no memory for them */
    if (rc == 0 && *d->foreign)
        rc = files_fail(
            error, sizeof error,
            "'%s' is not valid UTF-8, and a run file can hold nothing else; rename it, or go there through a "
            "link with a plain name",
            d->foreign);
    config *c = rc ? NULL : config_parse(d->bytes, name, error, sizeof error);
    free(d->bytes);
    for (int i = 0; c && rc == 0 && i < sets; i++) rc = config_set(c, set[i], error, sizeof error);
    if (c && rc == 0) rc = config_resolve(c, error, sizeof error);
    if (c && rc == 0) return c;
    (void)complain(0, "%s", error);
    config_free(c);
    return NULL;
}

int draft_holds_run(const char *dir)
{
    static const char *const names[] = {"checkpoint", "checkpoint.previous", "summary.json"};
    char path[FILES_PATH], ignored[SENTENCE];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (files_join(path, dir, names[i], ignored, sizeof ignored) == 0 && access(path, F_OK) == 0) return 1;
    return 0;
}

int draft_take_place(const config *c, session_options *options, const char *dir, const char *photo,
                     const char *const *more, int names, int made, run_lock *lock)
{
    char error[SENTENCE];
    inputs in;
    place there = {.dir = dir,
                   .lock = lock,
                   .more = more,
                   .names = names,
                   .resume = options->resume,
                   .overwrite = options->overwrite};
    if (files_directory(dir, error, sizeof error)) return complain(SOSMC_EXIT_IO, "%s", error);
    int code = say_lock(lock, dir), before;
    if (code != SOSMC_EXIT_OK) return code;
    options->lock = lock;
    inputs_find(&in, c, "photo", photo);
    for (int i = 0; i < made; i++) inputs_drop(&in, dir, more[i]);
    if (place_check(&there, c, &in, error, sizeof error)) return complain(SOSMC_EXIT_USAGE, "%s", error);
    if (!options->resume) return SOSMC_EXIT_OK;
    inputs_drop_missing(&in);
    if (inputs_measure(&in, error, sizeof error)) return complain(SOSMC_EXIT_IO, "%s", error);
    if (inputs_compare(&in, dir, options->accept_changed, &before, error, sizeof error))
        return complain(SOSMC_EXIT_USAGE, "%s", error);
    return SOSMC_EXIT_OK;
}
