/* command_load.c: the run file that a command names, with the assignments of its flags. */
#include <errno.h>

#include "commands.h"
#include "terminal/say.h"

enum { SENTENCE = 1024 };

static int resolve(config *c, const flag_values *v, char *error, size_t room)
{
    for (int i = 0; i < v->sets; i++)
        if (config_set(c, v->set[i], error, room)) return -1;
    return config_resolve(c, error, room);
}

config *command_load(const flag_values *v, int *code)
{
    char error[SENTENCE];
    *code = SOSMC_EXIT_USAGE;
    config *c = config_load(v->operand, error, sizeof error);
    if (!c && errno) *code = errno == ENOMEM ? SOSMC_EXIT_NUMERIC : SOSMC_EXIT_IO;
    if (c && resolve(c, v, error, sizeof error) == 0) {
        *code = SOSMC_EXIT_OK;
        return c;
    }
    (void)complain(0, "%s", error);
    config_free(c);
    return NULL;
}
