/* streams.c: see streams.h. Invariant: what is held back is the beginning of one character whose other bytes have not come yet. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* for fopencookie */
#endif
#include "streams.h"

#ifdef __GLIBC__

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "files/words.h"

enum { LONGEST = 4 }; /* bytes of a character */

typedef struct {
    int fd, failed; /* failed: errno of a write */
    char held[LONGEST];
    size_t holds;
    char out[1024]; /* what goes to the descriptor next */
    size_t used;
    char buffer[BUFSIZ]; /* of the stream */
} filter;
static filter words_out = {.fd = STDOUT_FILENO}, words_err = {.fd = STDERR_FILENO};
static FILE *raw_err;

static void pour(filter *f)
{
    for (size_t done = 0; done < f->used && !f->failed;) {
        ssize_t n = write(f->fd, f->out + done, f->used - done);
        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            f->failed = n == 0 ? EIO : errno;
    }
    f->used = 0;
}

static void put(filter *f, const char *bytes, size_t n)
{
    if (f->used + n > sizeof f->out) pour(f);
    memcpy(f->out + f->used, bytes, n);
    f->used += n;
}

/* Whether `n` bytes, which are no character, may become one when others follow. */
static int may_begin(const char *s, size_t n)
{
    unsigned char lead = (unsigned char)*s;
    size_t wants = lead < 0xC2 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 1;
    for (size_t i = 1; i < n; i++)
        if (((unsigned char)s[i] & 0xC0) != 0x80) return 0;
    return n < wants;
}

/* Puts the first character of `left` bytes, and returns how many they were; 0: it is not whole, and `more` may come. */
static size_t put_first(filter *f, const char *bytes, size_t left, int more)
{
    char s[LONGEST + 1] = "";
    unsigned code = 0;
    memcpy(s, bytes, left < LONGEST ? left : LONGEST);
    size_t n = *s ? (size_t)words_next(s, &code) : 1; /* a NUL is a character here */
    if (code == WORDS_BAD && more && left < LONGEST && may_begin(s, left)) return 0;
    if (words_control(code) && code != '\n')
        put(f, "?", 1);
    else
        put(f, s, n);
    return n;
}

/* The bytes that were held back and new ones. */
static void pass(filter *f, const char *bytes, size_t n, int more)
{
    size_t done = 0;
    while (f->holds > 0) {
        char s[2 * LONGEST];
        size_t fresh = n - done < LONGEST ? n - done : LONGEST, all = f->holds + fresh;
        memcpy(s, f->held, f->holds);
        if (fresh) memcpy(s + f->holds, bytes + done, fresh);
        size_t used = put_first(f, s, all, more);
        if (used == 0) { /* all of the new ones belong to it */
            memcpy(f->held, s, all);
            f->holds = all;
            return;
        }
        if (used >= f->holds) {
            done += used - f->holds;
            f->holds = 0;
        } else {
            memmove(f->held, f->held + used, f->holds -= used);
        }
    }
    while (done < n) {
        size_t used = put_first(f, bytes + done, n - done, more);
        if (used == 0) break;
        done += used;
    }
    f->holds = n - done;
    if (f->holds) memcpy(f->held, bytes + done, f->holds);
}

static ssize_t filtered(void *cookie, const char *bytes, size_t n)
{
    filter *f = cookie;
    f->failed = 0;
    pass(f, bytes, n, 1);
    pour(f);
    if (!f->failed) return (ssize_t)n;
    errno = f->failed;
    return 0;
}

static FILE *open_filter(filter *f, int mode)
{
    FILE *stream = fopencookie(f, "w", (cookie_io_functions_t){.write = filtered});
    if (stream) (void)setvbuf(stream, f->buffer, mode, sizeof f->buffer);
    return stream;
}

int streams_begin(void)
{
    FILE *out = open_filter(&words_out, isatty(STDOUT_FILENO) ? _IOLBF : _IOFBF),
         *err = open_filter(&words_err, _IONBF);
    if (!out || !err) return -1;
    raw_err = stderr;
    stdout = out;
    stderr = err;
    return 0;
}

void streams_end(void)
{
    filter *f[] = {&words_out, &words_err};
    (void)fflush(stdout);
    for (int i = 0; i < 2; i++) {
        pass(f[i], "", 0, 0);
        pour(f[i]);
    }
}

FILE *streams_terminal(void) { return raw_err ? raw_err : stderr; }

#else

int streams_begin(void) { return 0; }
void streams_end(void) {}
FILE *streams_terminal(void) { return stderr; }

#endif
