/* draft.h: what commands that write run files share: a text that grows, and the run file made of it. */
#ifndef SOSMC_DRAFTS_DRAFT_H
#define SOSMC_DRAFTS_DRAFT_H

#include <stdio.h>

#include "runfile/config.h"
#include "terminal/session.h"

/* Only memory can run out while a draft grows; draft_config reports it. */
typedef struct {
    FILE *out;
    char *bytes;
    size_t size;
    char foreign[200]; /* the beginning of a text that no run file can hold; empty: none was put */
} draft;

int draft_open(draft *d); /* 0, or -1 with a message on standard error */
void draft_put(draft *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends the text in double quotes, escaped as YAML needs it. */
void draft_put_quoted(draft *d, const char *text);
/* Closes the draft and returns its text as a resolved run file with these assignments; NULL, with a message on standard error. */
config *draft_config(draft *d, const char *name, const char *const *set, int sets);

/* Does the directory hold a run that could be continued? */
int draft_holds_run(const char *dir);

/* For commands that write to the directory of a run before the run itself does: makes and locks the directory and refuses to
 * write over what the command reads, the run file's files and `photo` (NULL: none), or over what no run made. `more` are names of
 * files that the command writes besides those of a run; the first `made` of them are for the run to read. Sets options->lock; an exit code. The caller gives back the lock. */
int draft_take_place(const config *c, session_options *options, const char *dir, const char *photo,
                     const char *const *more, int names, int made, run_lock *lock);

#endif
