/* A libcuda without what is looked for in it. */
#include "core/base.h"

__attribute__((visibility("default"))) int cuOther(void);

int cuOther(void) { return 0; }
