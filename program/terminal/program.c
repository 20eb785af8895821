/* program.c: how a program of ours begins and ends. */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/files.h"
#include "interrupt.h"
#include "say.h"
#include "streams.h"

/* Opens /dev/null for every standard stream that the caller closed. Otherwise a file that is opened later would get its
 * descriptor, and messages would be written into that file. */
static void fill_closed_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0) return;
}

void program_begin(void)
{
    fill_closed_streams();
    if (streams_begin()) exit(complain(SOSMC_EXIT_NUMERIC, "out of memory"));
    json_survive_lack_of_memory();
    interrupt_catch();
}

int program_end(int code)
{
    code = complain_code(code);
    errno = 0;
    int failed = fflush(stdout) || ferror(stdout);
    streams_end();
    if (!failed) return code;
    return complain(code > 1 ? code : SOSMC_EXIT_IO, "cannot write to standard output: %s",
                    errno ? strerror(errno) : "there was no room or no memory for what was said before");
}
