/* say_lock.h: the lock of a directory, for commands that write there themselves. */
#ifndef SOSMC_TERMINAL_SAY_LOCK_H
#define SOSMC_TERMINAL_SAY_LOCK_H

#include "run/lock.h"

/* Takes the lock and says what is wrong: SOSMC_EXIT_OK, also where there are no locks; SOSMC_EXIT_BUSY; or SOSMC_EXIT_IO. */
int say_lock(run_lock *lock, const char *dir);

#endif
