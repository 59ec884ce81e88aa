/* The waits of unfinished operations in several dumps. */
#ifndef PCCL_TOOLS_RECORDER_EXPLAIN_H
#define PCCL_TOOLS_RECORDER_EXPLAIN_H

#include "recorder/dumps.h"

/*
 * Prints, for each unfinished operation, the waiting peers and the peers that they wait for, as text or as JSON. Each
 * duration is measured on a single peer's clock. Returns false if memory is short.
 */
bool recorder_explain(const struct dumps *dumps, bool json);

#endif
