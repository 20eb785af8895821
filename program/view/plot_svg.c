/* plot_svg.c: gnuplot's SVG with the same look in fewer bytes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plot_inside.h"

/* Writes tenths of a pixel in the shortest form that SVG accepts, with a space where the number would otherwise merge with
 * the one before it. */
static char *put_short(char *out, long v, int first)
{
    char text[32];
    long a = labs(v), part = a % 10;
    int n = a >= 10 || part == 0 ? snprintf(text, sizeof text, "%ld", a / 10) : 0;
    if (part) n += snprintf(text + n, sizeof text - (size_t)n, ".%ld", part);
    if (v < 0 || !first) *out++ = v < 0 ? '-' : ' ';
    memcpy(out, text, (size_t)n);
    return out + n;
}

/* The corners of <polygon fill = 'rgb( 67, 144, 200)' points = '89.36,210.60 ...'/> in tenths, the line behind it in
 * *next; 0 when it is anything else, or has so many corners that it might not become shorter. */
enum { CORNERS = 8, PAINT = 3 };
#define POLYGON "<polygon fill = 'rgb("
static int read_polygon(char *line, unsigned long paint[PAINT], long at[CORNERS][2], char **next)
{
    static const char points[] = ")' points = '";
    int n = 0;
    line += strspn(line, "\t ");
    if (strncmp(line, POLYGON, strlen(POLYGON)) != 0) return 0;
    line += strlen(POLYGON);
    for (int k = 0; k < PAINT; k++) {
        paint[k] = strtoul(line, &line, 10);
        if (paint[k] > 255) return 0;
        if (k + 1 < PAINT && *line++ != ',') return 0;
    }
    if (strncmp(line, points, strlen(points)) != 0) return 0;
    for (line += strlen(points); *line != '\''; n++) {
        if (n == CORNERS) return 0;
        for (int k = 0; k < 2; k++) {
            at[n][k] = lround(10.0 * strtod(line, &line));
            if (*line++ != (k ? ' ' : ',')) return 0;
        }
    }
    if (strncmp(line, "'/>\n", 4) != 0) return 0;
    *next = line + 4;
    return n;
}

static char *put_polygon(char *out, long at[CORNERS][2], int n)
{
    for (int i = 0; i < n; i++) {
        if (i < 2) *out++ = "Ml"[i];
        for (int k = 0; k < 2; k++) out = put_short(out, at[i][k] - (i ? at[i - 1][k] : 0), i < 2 && k == 0);
    }
    *out++ = 'z';
    return out;
}

/* gnuplot spends a line on every hexagon; neighbours of one colour become a single path with relative corners. The text
 * only shrinks, so it is done in place. */
void plot_merge_polygons(char *svg, size_t *size)
{
    char *in = svg, *out = svg, *next = NULL, head[64];
    unsigned long last[PAINT] = {0}, paint[PAINT] = {0};
    long at[CORNERS][2];
    int open = 0;
    while (*in) {
        int n = read_polygon(in, paint, at, &next);
        if (open && (n == 0 || memcmp(paint, last, sizeof last) != 0)) {
            out = stpcpy(out, "'/>\n");
            open = 0;
        }
        if (n == 0) { /* any other line stays */
            size_t length = strcspn(in, "\n");
            length += in[length] == '\n';
            memmove(out, in, length);
            out += length;
            in += length;
            continue;
        }
        (void)snprintf(head, sizeof head, "<path fill='#%02lX%02lX%02lX' d='", paint[0], paint[1], paint[2]);
        if (!open) out = stpcpy(out, head);
        out = put_polygon(out, at, n);
        memcpy(last, paint, sizeof last);
        open = 1;
        in = next;
    }
    *out = 0;
    *size = (size_t)(out - svg);
}
