/* known.c: known.csv of an experiment. */
#include "known.h"

#include <math.h>
#include <string.h>

#include "files/share.h"

static char **text_of(const csv_table *t, const char *name)
{
    const csv_column *c = csv_find(t, name);
    return c ? c->text : NULL;
}

int known_open(known *k, const char *experiment, char *error, size_t room)
{
    char dir[FILES_PATH], path[FILES_PATH];
    const csv_options options = {.header = CSV_HEADER_YES};
    *k = (known){.value = NULL};
    if (share_find(experiment, "known.csv", dir))
        return files_fail(
            error, room,
            "no folder with known.csv was found; expected the environment variable SOSMC_SHARE with the folder "
            "above %s",
            experiment);
    if (files_join(path, dir, "known.csv", error, room) || csv_read(path, &options, &k->table, error, room)) return -1;
    const csv_column *value = csv_find(&k->table, "value");
    k->setting = text_of(&k->table, "setting");
    k->method = text_of(&k->table, "method");
    k->quantity = text_of(&k->table, "quantity");
    k->value = value ? value->number : NULL;
    if (k->setting && k->method && k->quantity && k->value) return 0;
    known_close(k);
    return files_fail(error, room, "%s: expected the columns setting, method, quantity (text) and value (numbers)",
                      path);
}

void known_close(known *k)
{
    if (k->table.column) csv_free(&k->table);
    *k = (known){.value = NULL};
}

double known_value(const known *k, const char *setting, const char *method, const char *quantity)
{
    for (int64_t i = 0; i < k->table.rows; i++)
        if (strcmp(k->quantity[i], quantity) == 0 && strcmp(k->setting[i], setting) == 0 &&
            strcmp(k->method[i], method) == 0)
            return k->value[i];
    return NAN;
}
