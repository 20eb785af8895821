/* zeroed.c: returns 0 where -ftrivial-auto-var-init=zero leaves members alone. gcc 12 takes bytes of members for padding where an
 * array of structs that end with padding comes before them, and sets them to zero after the variable was set. */
#include <string.h>

typedef struct {
    double first[4];
    int last[3];
} padded;

typedef struct {
    char name[160];
    int i;
    double q[30];
    int n, scheme[14];
    padded list[2];
    long set[11];
    int more;
    long end[3];
    int tail;
} outer;

__attribute__((noinline)) outer make(int byte)
{
    outer o;
    memset(&o, byte, sizeof o);
    return o;
}

int main(void)
{
    outer two[2] = {make(1), make(1)};
    volatile long *first = two[0].set, *second = two[1].set;
    for (int i = 0; i < 11; i++)
        if (first[i] != 0x0101010101010101 || second[i] != 0x0101010101010101) return 1;
    return 0;
}
