/* For the programs that define no main: the linker takes this file from the library only for those. */
#include "unit.h"

int main(void) { return unit_run(NULL, NULL); }
