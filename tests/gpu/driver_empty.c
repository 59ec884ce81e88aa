/* A libcuda that lacks the functions that are looked up in it. */
#include "core/base.h"

__attribute__((visibility("default"))) int cuOther(void);

int cuOther(void) { return 0; }
