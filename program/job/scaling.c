/* scaling.c: see scaling.h. Invariant: a scaling with dim above 0 owns 2 dim finite numbers, the first half of which is `centre`. */
#include "scaling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "files/files.h"

int scaling_make(points_scaling *s, int dim)
{
    *s = (points_scaling){.dim = 0};
    double *v = dim > 0 ? calloc((size_t)dim, 2 * sizeof *v) : NULL;
    if (!v) return -1;
    for (int j = 0; j < dim; j++) v[dim + j] = 1;
    *s = (points_scaling){.dim = dim, .centre = v, .factor = v + dim};
    return 0;
}

int scaling_copy(points_scaling *out, const points_scaling *s)
{
    *out = (points_scaling){.dim = 0};
    if (s->dim == 0) return 0;
    if (scaling_make(out, s->dim)) return -1;
    memcpy(out->centre, s->centre, (size_t)s->dim * 2 * sizeof *s->centre);
    return s->columns ? scaling_name(out, s->dim, s->columns) : 0;
}

void scaling_free(points_scaling *s)
{
    free(s->centre);
    free(s->columns);
    free(s->names);
    *s = (points_scaling){.dim = 0};
}

void scaling_map(const points_scaling *s, int to_data, int64_t rows, double *x)
{
    for (int64_t i = 0; s && i < rows; i++)
        for (int j = 0; j < s->dim; j++, x++)
            *x = to_data ? s->centre[j] + *x / s->factor[j] : s->factor[j] * (*x - s->centre[j]);
}

int scaling_name(points_scaling *s, int dim, const char *columns)
{
    const size_t room = strlen(columns) + 1;
    if (s->dim == 0 && scaling_make(s, dim)) return -1;
    s->columns = strdup(columns);
    s->names = malloc((size_t)dim * sizeof *s->names + room);
    char *at = s->columns && s->names ? memcpy(s->names + dim, columns, room) : NULL;
    for (int j = 0; j < dim && s->columns && s->names; j++) s->names[j] = at ? strsep(&at, "\t") : "";
    return s->columns && s->names ? 0 : -1;
}

double scaling_log_density(const points_scaling *s)
{
    double sum = 0;
    for (int j = 0; j < s->dim; j++) sum += log(s->factor[j]);
    return sum;
}

char *scaling_text(const double *v, int n)
{
    enum { NUMBER = 32 };
    char number[NUMBER], *text = calloc((size_t)n + 1, NUMBER + 1);
    size_t used = 0, room = ((size_t)n + 1) * (NUMBER + 1);
    for (int j = 0; j < n && text; j++)
        used += (size_t)snprintf(text + used, room - used, "%s%s", j ? " " : "", files_number(v[j], number));
    return text;
}

int scaling_numbers(const char *text, double *v, int n)
{
    for (int j = 0; j < n; j++) {
        char *end;
        v[j] = strtod(text, &end);
        if (end == text || !isfinite(v[j])) return -1;
        text = end;
    }
    return text[strspn(text, " ")] ? -1 : 0;
}
