/* words.c: see words.h. */
#include "words.h"

#include <string.h>

#include "files.h"

int words_next(const char *s, unsigned *code)
{
    const unsigned char *b = (const unsigned char *)s;
    int n = files_utf8(s);
    if (n < 1) {
        *code = WORDS_BAD;
        return 1;
    }
    *code = n == 1 ? b[0] : b[0] & (0x7FU >> n);
    for (int i = 1; i < n; i++) *code = *code << 6 | (b[i] & 0x3FU);
    return n;
}

int words_control(unsigned code)
{
    static const struct {
        unsigned first, last;
    } range[] = {{0, 0x1F},        {0x7F, 0x9F},     {0x61C, 0x61C},   {0x200E, 0x200F},
                 {0x2028, 0x202E}, {0x2066, 0x206F}, {0xFEFF, 0xFEFF}, {WORDS_BAD, WORDS_BAD}};
    for (size_t i = 0; i < sizeof range / sizeof *range; i++)
        if (code >= range[i].first && code <= range[i].last) return 1;
    return 0;
}

const char *words_line(const char *text, char *out, size_t room)
{
    size_t used = 0;
    while (*text) {
        unsigned code;
        size_t n = (size_t)words_next(text, &code), length = words_control(code) ? 1 : n;
        if (used + length >= room) break;
        memcpy(out + used, words_control(code) ? "?" : text, length);
        used += length;
        text += n;
    }
    out[used] = 0;
    return out;
}
