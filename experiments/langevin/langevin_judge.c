/* langevin_judge.c: differences from the noise-free recursion in standard errors. Invariant: the threshold depends on the number of
 * cells and seeds alone, never on what they gave. */
#include "langevin_judge.h"

#include <math.h>

enum { TIGHT = 3 }; /* setting D */

int langevin_follows(int setting, langevin_method method)
{
    return method >= SOSMC_ULA && !(method == SOSMC_ULA && setting == TIGHT);
}

double langevin_error(int setting, langevin_method method, const double own[LANGEVIN_METHODS])
{
    double square = 0;
    int n = 0;
    for (int m = 0; m < LANGEVIN_METHODS; m++)
        if (langevin_follows(setting, (langevin_method)m)) {
            square += own[m] * own[m];
            n++;
        }
    double pooled = sqrt(square / n);
    return own[method] > pooled ? own[method] : pooled;
}

int langevin_freedom(int seeds)
{
    int least = LANGEVIN_METHODS;
    for (int k = 0; k < LANGEVIN_SETTINGS; k++) {
        int n = 0;
        for (int m = 0; m < LANGEVIN_METHODS; m++) n += langevin_follows(k, (langevin_method)m);
        least = n < least ? n : least;
    }
    return least * (seeds - 1);
}

/* P(|T| > t) under Student's law with a whole number of degrees of freedom: the finite sums in cos of arctan(t / sqrt(n)). */
static double both_tails(double t, int n)
{
    double angle = atan(t / sqrt(n)), c = cos(angle), term = n % 2 ? c : 1, sum = 0;
    for (int k = n % 2 ? 3 : 2; k <= n; k += 2) {
        sum += term;
        term *= c * c * (k - 1) / k;
    }
    return n % 2 ? 1 - (angle + sin(angle) * sum) * 2 / M_PI : 1 - sin(angle) * sum;
}

double langevin_threshold(int cells, int freedom)
{
    double level = 0.05 / cells, low = 0, high = 1;
    if (freedom < 1) return NAN;
    while (both_tails(high, freedom) > level && high < 1e6) high *= 2;
    for (int k = 0; k < 60; k++) {
        double middle = (low + high) / 2;
        if (both_tails(middle, freedom) > level)
            low = middle;
        else
            high = middle;
    }
    return high;
}

const char *langevin_cause(int setting, langevin_method method)
{
    static const char tight
        [] =
            "the particles leave the tight modes in the first steps, because the step 0.1 is ten times the modes' variance, and then "
            "diffuse freely",
   slow[] = "the particles have no weights, so they have to cross between the modes themselves and stay behind theta",
   chain[] =
        "the states are those of one chain, which sits in one mode or another during a whole iteration or leaves them "
        "all, so single rewards are nearly two-valued and a few runs say little",
   lost[] =
        "whole modes are lost by chance in the iterations in which the published rule shrinks the step to what the tight "
        "modes bear; only the distribution over many seeds is comparable",
   small[] =
        "the method should follow; besides Monte Carlo error it has a bias of order 1/N (about 0.05/N in V_tight under "
        "Adam, measured from 250 to 4,000 particles), which many seeds resolve, and a difference beyond that is "
        "unexplained";
    if (method == SOUL) return chain;
    if (method == IMPDIFF) return setting == TIGHT ? tight : slow;
    return langevin_follows(setting, method) ? small : lost;
}
