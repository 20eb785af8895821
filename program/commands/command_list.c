/* command_list.c: `sosmc list`. */
#include <stdio.h>

#include "commands.h"
#include "list.h"
#include "terminal/say.h"

const char list_text[] =
    "sosmc list [--json]\n"
    "\n"
    "One line for each thing a run file can name.\n"
    "\n"
    "  --json                the whole table of keys for other programs: {\"keys\": [...], \"choices\": [...], \"methods\": [...]}.\n"
    "                        A row of keys has key, type, bare (the key for which a bare value stands), values and range that are\n"
    "                        allowed, required, default, derived (a default that depends on other keys), when it applies, chosen\n"
    "                        (only runs with chosen settings read it), expected and meaning, in words\n";

enum { JSON, HELP, FLAGS };

int command_list(int argc, char **argv)
{
    static const flag_row table[FLAGS] = {[JSON] = {.name = "json"}, [HELP] = {.name = "help"}};
    flag_values v;
    int code;
    if (flags_read(&v, table, FLAGS, 0, argc, argv, NULL, list_text, &code)) return code;
    if (!flag_given(&v, JSON))
        list_choices(stdout);
    else if (config_document_json(stdout))
        return SOSMC_EXIT_IO;
    return SOSMC_EXIT_OK;
}
