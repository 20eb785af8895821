/* checkpoint.h: the checkpoint of a run directory, with the one before it. */
#ifndef SOSMC_RUN_CHECKPOINT_H
#define SOSMC_RUN_CHECKPOINT_H

#include <stddef.h>

#include "stepper.h"

/* Writes PATH; the file that was there becomes PATH.previous. Whenever the machine stops, one of the two is whole. On failure
 * a sentence. */
sosmc_status checkpoint_save(stepper *s, const char *path, char *error, size_t room);

/* Loads PATH; or, where that is missing or damaged, PATH.previous, or PATH.tmp, which earlier versions left. A damaged PATH is
 * removed when another one could be loaded, because it must not become PATH.previous in place of a whole one; `note` then says
 * so, and is empty otherwise. On failure a sentence. */
sosmc_status checkpoint_load(stepper *s, const char *path, char *note, size_t note_room, char *error, size_t room);

#endif
