/* command_list.c: `sosmc list`. */
#include "commands.h"
#include "list.h"
#include "terminal/say.h"

const char list_text[] = "sosmc list\n\nOne line for each thing a run file can name.\n";

int command_list(int argc, char **argv)
{
    static const flag_row table[] = {{.name = "help"}};
    flag_values v;
    int code;
    if (flags_read(&v, table, 1, 0, argc, argv, NULL, list_text, &code)) return code;
    list_choices(stdout);
    return SOSMC_EXIT_OK;
}
