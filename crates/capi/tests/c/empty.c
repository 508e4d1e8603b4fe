/* A program that uses the library and leaks nothing. */
#include <opkeep.h>

int main(void) { return opkeep_abi() == OPKEEP_ABI ? 0 : 1; }
