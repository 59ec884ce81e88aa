/* Prints docs/METRICS.md from the table of metrics. `make wiredoc` writes the page, and a tidy test compares it. */
#include <stdio.h>

#include "ops/metrics.h"

int main(void)
{
    printf("# The metrics of a master\n"
           "\n"
           "This page is generated from `src/ops/metrics.h` by `make wiredoc`; do not edit it.\n"
           "[The guide](guide/metrics.md) explains their collection. They cover one master since its start; a\n"
           "restarted master counts from 0. No label contains a peer, a group or a tag, so there are fewer than\n"
           "200 series.\n"
           "\n"
           "| name | type | labels | meaning |\n"
           "|---|---|---|---|\n");
#define PCCL_METRIC_LINE(name, type, labels, help) printf("| `pccl_%s` | %s | %s | %s |\n", #name, #type, labels, help);
    PCCL_METRICS(PCCL_METRIC_LINE)
    return 0;
}
