/* commands_ebm.h: energy-based models without writing a run file: train one on points, tune it towards a reward, sample it.
 *
 * Each command makes a run file from its flags and hands it to session_run; --print shows that file instead. They return the
 * program's exit code (run.h), having said on standard error what went wrong. argv[0] is the command. */
#ifndef SOSMC_DRAFTS_COMMANDS_EBM_H
#define SOSMC_DRAFTS_COMMANDS_EBM_H

extern const char train_text[], tune_text[], sample_text[]; /* for `sosmc help` */

int command_train(int argc, char **argv);
int command_tune(int argc, char **argv);
int command_sample(int argc, char **argv);

#endif
