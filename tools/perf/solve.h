/*
 * --solve: searches a ring over the links in the text of a topology report (topology/report.h).
 */
#ifndef PCCL_TOOLS_PERF_SOLVE_H
#define PCCL_TOOLS_PERF_SOLVE_H

#include "options.h"

/*
 * Returns an exit code: 0: a ring was found; 1: none exists, or none was found; 2 with a message:
 * it could not be tried.
 */
int perf_solve_run(const struct perf_options *options);
/* Writes the text to what --dump names, if that is set. false: a message is on standard error. */
bool perf_dump(const struct perf_options *options, const char *text, size_t length);

#endif
