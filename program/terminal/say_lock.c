/* say_lock.c: see say_lock.h. */
#include "say_lock.h"

#include "say.h"

enum { SENTENCE = 1024 };

int say_lock(run_lock *lock, const char *dir)
{
    char error[SENTENCE];
    lock_status status = lock_take(lock, dir, error, sizeof error);
    if (status == LOCK_BUSY) return complain(SOSMC_EXIT_BUSY, "%s", error);
    if (status == LOCK_EIO) return complain(SOSMC_EXIT_IO, "%s", error);
    if (status == LOCK_NONE && *error) (void)complain(0, "%s", error);
    return SOSMC_EXIT_OK;
}
