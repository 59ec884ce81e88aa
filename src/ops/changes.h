/*
 * The status of a run as changes since an earlier answer, for a page that asks once a second: at 1,000 peers a tenth of
 * the bytes of /status.json. Works on the text of that page, item by item: each field of the head and of a peer, and
 * each item of another list, has a stamp with the hash of its text and the revision in which it last changed. An answer
 * contains the changes after the client's revision, so it depends on no other client, and any client may skip
 * answers. docs/guide/metrics.md describes the format.
 *
 * Ages (last_word_ms, told_ms, since_ms) count as changed only if their beginning has changed, because they grow as
 * uptime_ms does.
 */
#ifndef PCCL_OPS_CHANGES_H
#define PCCL_OPS_CHANGES_H

#include "master/figures.h"
#include "ops/pages.h"

enum { PCCL_CHANGES_KEYS_MAX = 32, PCCL_CHANGES_KEY_BYTES = 24 };

struct pccl_stamp {
    uint64_t hash, revision;
};

/* An object whose fields are compared one by one. */
struct pccl_stamps {
    uint64_t number;                                 /* number of a peer, in order of arrival */
    uint64_t whole;                                  /* revision in which it appeared, or lost a field */
    uint32_t present;                                /* fields that it has, as a bit set */
    struct pccl_stamp fields[PCCL_CHANGES_KEYS_MAX]; /* by the index of the key */
};

struct pccl_keys_seen {
    char names[PCCL_CHANGES_KEYS_MAX][PCCL_CHANGES_KEY_BYTES];
    uint32_t count;
};

/* A list whose items are compared as a whole. */
struct pccl_stamped_list {
    struct pccl_stamp *items; /* owned */
    uint32_t count, capacity;
    uint64_t resized; /* revision in which the number of items has changed */
    bool is_open;     /* true if the answer already contains the beginning of this list */
};

/*
 * Changes of a field of many peers: runs of consecutive numbers, each `first,[value,...]`, or `first,count,value` if
 * all values are equal.
 */
struct pccl_column {
    struct pccl_print print, value;
    uint64_t first, count; /* equal values that are not printed yet, which are `value` */
    uint64_t next;         /* with `is_open`: number that continues the printed array */
    bool is_open;
};

struct pccl_changes {
    const struct pccl_memory *memory; /* borrowed */
    uint64_t boot;                    /* random number of this process, so that revisions of others are recognized */
    uint64_t revision;                /* of the latest answer; 0 before the first */
    uint64_t since;                   /* revision with which the answer in progress is compared; 0: nothing is known */
    uint64_t uptime_ms;
    struct pccl_keys_seen head_keys, peer_keys;
    struct pccl_stamps head;
    struct pccl_stamps **peers; /* owned, in order of arrival */
    uint32_t peer_count, peer_capacity;
    struct pccl_stamped_list lists[PCCL_PAGE_TAIL];
    struct pccl_print item;  /* text of the item in progress */
    struct pccl_print whole; /* peers that the answer contains as a whole */
    struct pccl_column columns[PCCL_CHANGES_KEYS_MAX];
};

/* Initializes a zeroed struct. */
void pccl_changes_init(struct pccl_changes *changes, const struct pccl_memory *memory, uint64_t boot);
void pccl_changes_fini(struct pccl_changes *changes);
/*
 * Reads the revision that a client knows, as in an earlier answer, or "0". A revision of another process or one that
 * does not exist yet is 0, so that the answer contains everything. Returns false if the text has another form.
 */
PCCL_MUST_CHECK bool pccl_changes_read(const struct pccl_changes *changes, const char *text, size_t length,
                                       uint64_t *since);
/*
 * Begins an answer for clients that know the revision `since`, or a later one. Returns false if out of memory.
 */
PCCL_MUST_CHECK bool pccl_changes_begin(struct pccl_changes *changes, const struct pccl_figures *figures,
                                        uint64_t since);
/*
 * Visits item number *at of the page, which starts at 0, and increments it. Appends to the answer. Returns false if
 * that was the last item.
 */
bool pccl_changes_next(struct pccl_changes *changes, const struct pccl_figures *figures, uint32_t *at,
                       struct pccl_print *print);

#endif
