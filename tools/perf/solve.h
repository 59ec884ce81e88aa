/* --solve: searches for a ring over the links in the text of a topology report (topology/report.h). */
#ifndef PCCL_TOOLS_PERF_SOLVE_H
#define PCCL_TOOLS_PERF_SOLVE_H

#include "options.h"

/* Returns an exit code. 0: found a ring; 1: found no ring; 2, with a message: the search could not be made. */
int perf_solve_run(const struct perf_options *options);
/* Writes the text to the file in --dump, if it is set. Returns false after a message on standard error. */
bool perf_dump(const struct perf_options *options, const char *text, size_t length);

#endif
