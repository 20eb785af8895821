/* reproduce_command.c: executes sosmc-paper, the program of the paper's experiments: the one beside this program, else the one
 * that the shell would find. */
#include "reproduce_command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "files/files.h"
#include "terminal/say.h"

static const char NAME[] = "sosmc-paper";

/* DIR/sosmc-paper for the folder that holds the program which runs now; -1: it is not known. */
static int beside(char out[FILES_PATH])
{
    ssize_t n = readlink("/proc/self/exe", out, FILES_PATH - sizeof NAME);
    if (n <= 0) return -1;
    out[n] = 0;
    char *slash = strrchr(out, '/');
    if (!slash) return -1;
    memcpy(slash + 1, NAME, sizeof NAME);
    return 0;
}

static int execute(char **argv)
{
    char path[FILES_PATH];
    (void)fflush(NULL);
    if (beside(path) == 0) (void)execv(path, argv);
    (void)execvp(NAME, argv);
    if (errno == ENOENT)
        return complain(SOSMC_EXIT_USAGE,
                        "'sosmc reproduce' needs the program %s, which is neither beside this one nor in PATH; "
                        "'make' in the sources builds both, 'make install' installs both",
                        NAME);
    return complain(SOSMC_EXIT_IO, "cannot execute %s: %s", NAME, strerror(errno));
}

int command_reproduce(int argc, char **argv)
{
    (void)argc; /* argv ends with NULL; argv[0] names the command for messages */
    return execute(argv);
}

int reproduce_help(void)
{
    char name[] = "sosmc reproduce", flag[] = "--help", *argv[] = {name, flag, NULL};
    return execute(argv);
}
