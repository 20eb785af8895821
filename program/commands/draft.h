/* draft.h: what commands that write run files share: a text that grows, and the run file made of it. */
#ifndef CLI_DRAFT_H
#define CLI_DRAFT_H

#include <stdio.h>

#include "runfile/config.h"

/* Memory is the only thing that can fail; draft_config tells. */
typedef struct {
    FILE *out;
    char *bytes;
    size_t size;
} draft;

int draft_open(draft *d); /* 0, or -1, having said so */
void draft_put(draft *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* In double quotes, where YAML takes every byte that is not escaped as it stands. */
void draft_put_quoted(draft *d, const char *text);
/* The resolved run file with these assignments; the draft is used up. NULL, having said what is wrong. */
config *draft_config(draft *d, const char *name, const char *const *set, int sets);

/* Does the directory hold a run that could be continued? */
int draft_holds_run(const char *dir);

#endif
