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

/* ---- items of the status in JSON, for changes.h ---- */

/* Kinds of items, in the order of the page. All but the first and the last are items of lists. */
enum pccl_page_part {
    PCCL_PAGE_HEAD,
    PCCL_PAGE_REMOVED,
    PCCL_PAGE_ROW,
    PCCL_PAGE_BLOCK,
    PCCL_PAGE_PEER,
    PCCL_PAGE_GROUP,
    PCCL_PAGE_VERDICT,
    PCCL_PAGE_WAIT,
    PCCL_PAGE_TAIL
};

/* Returns the kind of item number `at`. *index is its index among the items of this kind. */
enum pccl_page_part pccl_page_part(const struct pccl_figures *figures, uint32_t at, uint32_t *index);
struct pccl_page_list {
    const char *name; /* NULL for HEAD and TAIL */
    uint32_t count;
};
/* Returns the list of the items of a kind. */
struct pccl_page_list pccl_page_list(const struct pccl_figures *figures, enum pccl_page_part part);
/* Writes one item as an object. HEAD: all keys that are not lists of items. TAIL is not allowed. */
void pccl_page_item(const struct pccl_figures *figures, enum pccl_page_part part, uint32_t index,
                    struct pccl_print *print);

#endif
