/* launcher.h: programs such as mpirun, which start a command several times. */
#ifndef SOSMC_TERMINAL_LAUNCHER_H
#define SOSMC_TERMINAL_LAUNCHER_H

/* 0, or -1 having said that a launcher started this process as one of several: each would write the same files. */
int launcher_refuse(void);

#endif
