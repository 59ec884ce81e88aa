/*
 * The state of a run as JSON for programs and as text for people. Both are written item by item, so that a long page
 * does not delay other work.
 */
#ifndef PCCL_OPS_PAGES_H
#define PCCL_OPS_PAGES_H

#include "core/print.h"
#include "master/figures.h"

enum { PCCL_PAGE_BYTES_MAX = 8 << 20 }; /* a peer takes less than 1 KiB, and there are at most PCCL_PEERS_MAX peers */

/* Append item number *at, which starts at 0, and increment it. Return false if that was the last item. */
bool pccl_page_json(const struct pccl_figures *figures, uint32_t *at, struct pccl_print *print);
bool pccl_page_text(const struct pccl_figures *figures, uint32_t *at, struct pccl_print *print);

#endif
