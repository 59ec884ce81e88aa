/* --solve: searches for a ring, using the links in a topology report (topology/report.h). */
#ifndef PCCL_TOOLS_PERF_SOLVE_H
#define PCCL_TOOLS_PERF_SOLVE_H

#include "options.h"

/*
 * Returns the exit code: 0 if a ring was found, 1 if there is no ring, 2 after a message if the search was not
 * possible.
 */
int perf_solve_run(const struct perf_options *options);
/* Writes the text to the file of --dump, if it is set. Returns false after a message on standard error. */
bool perf_dump(const struct perf_options *options, const char *text, size_t length);

#endif
