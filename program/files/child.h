/* child.h: other programs that ours starts. They end with us, whatever way we end, and do not run beyond a time limit. */
#ifndef SOSMC_FILES_CHILD_H
#define SOSMC_FILES_CHILD_H

#include <sys/types.h>

/* Starts the program, found like the shell would, with these descriptors as its standard streams, in a process group of its own.
 * 0, or the errno that says why it could not be started. */
int child_start(pid_t *pid, const char *const argv[], int in, int out, int err);

enum { CHILD_LATE = -1, CHILD_STOPPED = -2, CHILD_LOST = -3 };
/* Waits for it; its exit code, 128 + its signal, or: CHILD_LATE, it took longer than so many seconds and was ended;
 * CHILD_STOPPED, it was ended because child_stop_with said so; CHILD_LOST, nothing is known. */
int child_wait(pid_t pid, double seconds);

/* The function that is asked, while we wait, whether to end the children; NULL: nobody. Whether it says so now. */
void child_stop_with(int (*asked)(void));
int child_must_stop(void);

/* For those who fork themselves: in the child before exec; and in the parent, around the life of the child. */
void child_begin(pid_t parent);
void child_note(pid_t pid);
void child_forget(pid_t pid);
void child_end_all(void); /* may be called from a signal handler */

#endif
