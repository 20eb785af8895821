/* small_network.h: a network 2 -> 8 -> 1 whose energy can be written out, as a file of weights. */
#ifndef SOSMC_TESTS_SMALL_NETWORK_H
#define SOSMC_TESTS_SMALL_NETWORK_H

/* Parameters of size `slope`, another law for each; over a Gaussian base of that standard deviation, 0: none. The format is
 * that of the path's ending. The test fails when the file cannot be written. */
void small_network_write(const char *path, double slope, double base_sd);
double small_network_energy(double slope, double base_sd, double x, double y);

#endif
