/* problem_table.c: columns of CSV files as a run file names them, for the models that read observations. */
#include <string.h>

#include "files/files.h"
#include "problem_inside.h"

int job_column(const builder *b, const csv_table *t, const char *path)
{
    int number = config_column(b->c, path);
    if (number > 0) {
        if (number <= t->columns) return number - 1;
        (void)job_wrong(b, path, "is %d; %s has %d columns", number, t->path, t->columns);
        return -1;
    }
    const csv_column *found = csv_find(t, config_text(b->c, path));
    int first = found ? (int)(found - t->column) : -1, again = first + 1;
    while (found && again < t->columns && strcmp(t->column[again].name, found->name) != 0) again++;
    if (found && again < t->columns) { /* which of the two is meant nobody can tell */
        (void)job_wrong(b, path,
                        "is '%s', which names columns %d and %d of %s; give the number of the one that is meant",
                        found->name, first + 1, again + 1, t->path);
        return -1;
    }
    if (found) return first;
    (void)job_wrong(b, path, "is '%s'; %s has no such column", config_text(b->c, path), t->path);
    return -1;
}

int job_read_table(builder *b, const char *path, csv_table *out)
{
    *b->io = 1;
    if (csv_read(config_text(b->c, path), NULL, out, b->error, b->room)) return -1;
    if (csv_needs_rows(out, b->error, b->room)) {
        csv_free(out);
        return -1;
    }
    *b->io = 0;
    return 0;
}
