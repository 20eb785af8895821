/* consumer.c: the installed header and the installed library are of one version, and the header is plain C99. */
#include <sosmc/models.h>
#include <sosmc/sosmc.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    sosmc_settings settings = sosmc_defaults();
    printf("header %s, library %s, vector code %s\n", SOSMC_VERSION, sosmc_version(),
           sosmc_simd_name(sosmc_simd_best()));
    return strcmp(SOSMC_VERSION, sosmc_version()) != 0 || settings.scheme.particles <= 0;
}
