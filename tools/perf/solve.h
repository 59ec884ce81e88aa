/* --solve: the search for a ring over what a text tells of the links of a group (topology/report.h). */
#ifndef PCCL_TOOLS_PERF_SOLVE_H
#define PCCL_TOOLS_PERF_SOLVE_H

#include "options.h"

/* An exit code: 0: a ring was found; 1: none exists, or none was found; 2: it could not be tried, in words. */
int perf_solve_run(const struct perf_options *options);
/* Writes the text to what --dump names, if that is set. false: words on standard error. */
bool perf_dump(const struct perf_options *options, const char *text, size_t length);

#endif
