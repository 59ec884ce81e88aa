/* Parses a topology report (topology/report.h). */
#ifndef PCCL_TOOLS_PERF_REPORT_PARSE_H
#define PCCL_TOOLS_PERF_REPORT_PARSE_H

#include "topology/report.h"

/*
 * Creates a report, which the caller must free after OK. Returns ARGUMENT with a reason that includes the line number,
 * or MEMORY. Uses memory of at most about 20 times the size of the text, regardless of its content.
 */
PCCL_MUST_CHECK enum pccl_status perf_report_parse(const char *text, size_t length, const struct pccl_memory *memory,
                                                   struct pccl_topology_report *report, struct pccl_text *reason);

#endif
