/* draft.c: run files from flags. */
#include "draft.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/files.h"
#include "terminal/say.h"

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
