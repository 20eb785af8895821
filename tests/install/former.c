/* former.c: names that a program found in models.h and lattice.h before networks.h and analysis.h took them over. */
#include <sosmc/lattice.h>
#include <sosmc/models.h>

sosmc_model former_model(const sosmc_mlp *mlp) { return sosmc_mlp_model(mlp); }
sosmc_model former_network(const sosmc_network *network) { return sosmc_network_model(network); }
sosmc_model former_tempering(const sosmc_tempering *tempering) { return sosmc_tempered_model(tempering); }

sosmc_status former_information(const sosmc_model *model, const double *theta, const double *x, double *information)
{
    return sosmc_louis(model, theta, 1, x, NULL, information);
}

double former_node(const sosmc_lattice *lattice) { return sosmc_lattice_node(lattice, 0, 0); }
