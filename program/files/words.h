/* words.h: text from outside (names of files, cells of tables, messages of other programs, variables of the environment) made fit to be
 * shown. What a terminal would obey instead of showing, and what would turn the order of letters round, is a control character:
 *
 *     C0 and DEL (U+0000 to U+001F, U+007F), C1 (U+0080 to U+009F), line and paragraph separators (U+2028, U+2029), a byte
 *     order mark (U+FEFF), and all that governs directions: U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+206F.
 *
 * Each of these, and each byte that is not UTF-8, is shown as a question mark. */
#ifndef SOSMC_FILES_WORDS_H
#define SOSMC_FILES_WORDS_H

#include <stddef.h>

/* The character at s, which is not the end of the string, and the number of its bytes; WORDS_BAD: the byte there is not UTF-8. */
enum { WORDS_BAD = 0x110000 };
int words_next(const char *s, unsigned *code);
int words_control(unsigned code); /* also WORDS_BAD */

/* The text as one line in `out`, cut short between two characters where it does not fit; returns `out`. */
const char *words_line(const char *text, char *out, size_t room);

#endif
