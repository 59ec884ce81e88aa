/*
 * The book of tokens: everything that a master knows about its tokens except the secrets. For each token, it contains
 * the public key derived from its secret, its role, its time limit and use limit, and the peers that have used it. Also
 * converts the book to and from the text of the token file. Pure. Times are calendar times, because the book outlives
 * the process.
 *
 * A token that has expired or is used up admits no new peers, but peers that have used it can rejoin, so a broken
 * connection or a restart of the master costs no member. A revoked token admits no peer at all.
 */
#ifndef PCCL_OPS_TOKEN_FILE_H
#define PCCL_OPS_TOKEN_FILE_H

#include "core/id.h"
#include "core/memory.h"
#include "core/print.h"
#include "core/status.h"
#include "core/token.h"

enum pccl_role {
    PCCL_ROLE_JOIN,    /* join as a peer */
    PCCL_ROLE_OBSERVE, /* read pages over HTTP */
    PCCL_ROLE_ADMIN,   /* read pages and give commands over HTTP */
    PCCL_ROLES,
};

enum {
    PCCL_TOKEN_FILE_PASSES_MAX = 1000,
    PCCL_TOKEN_FILE_INVITATIONS_MAX = 16384, /* total over all passes */
    PCCL_TOKEN_FILE_USES_MAX = 4096,         /* maximum for one pass */
    PCCL_TOKEN_FILE_LABEL_MAX = 64,          /* maximum length in bytes */
    PCCL_TOKEN_FILE_TTL_S_MAX = 10 * 366 * 86400,
    PCCL_TOKEN_FILE_TEXT_MAX = 2 << 20,
};

/* A token without its secret. */
struct pccl_pass {
    uint32_t number; /* unique number, never used again */
    uint8_t key[PCCL_PUBLIC_BYTES];
    enum pccl_role role;
    uint64_t made_s;
    uint64_t ends_s;    /* expiry time; 0: never */
    uint64_t revoked_s; /* time of the revocation; 0: not revoked */
    uint32_t uses;      /* number of peers that may use it; 0: unlimited */
    uint32_t used;      /* number of peers that have used it */
    char label[PCCL_TOKEN_FILE_LABEL_MAX + 1];
};

/*
 * A peer that has used a limited pass, identified by a digest of one of the peer's secrets (the token in its hello).
 * Sorted by time of arrival.
 */
struct pccl_invitation {
    uint32_t pass;
    struct pccl_id digest;
};

struct pccl_token_file {
    const struct pccl_memory *memory;
    struct pccl_pass *passes; /* sorted by number */
    uint32_t count, capacity, last_number;
    struct pccl_invitation *guests;
    uint32_t invitation_count, invitation_capacity;
    /* entry that was dropped in favor of the newest one; its pass is 0 until an entry is dropped */
    struct pccl_invitation forgotten;
    uint32_t forgotten_at; /* index of that entry */
};

/* Terms of a new token. */
struct pccl_terms {
    enum pccl_role role;
    uint64_t ttl_s; /* lifetime; 0: unlimited */
    uint32_t uses;  /* number of peers that may use it; 0: unlimited */
    char label[PCCL_TOKEN_FILE_LABEL_MAX + 1];
};

/* Returns "join", "observe" or "admin". */
const char *pccl_role_name(enum pccl_role role);
bool pccl_pass_has_expired(const struct pccl_pass *pass, uint64_t now_s);
bool pccl_pass_is_used_up(const struct pccl_pass *pass);
PCCL_MUST_CHECK bool pccl_role_find(const char *name, size_t length, enum pccl_role *role);

void pccl_token_file_init(struct pccl_token_file *book, const struct pccl_memory *memory);
void pccl_token_file_fini(struct pccl_token_file *book);

/*
 * Adds a token. If there are already PCCL_TOKEN_FILE_PASSES_MAX, drops the oldest revoked one or, if none was revoked,
 * the oldest one that admits no more peers. Returns NULL with a reason if the terms are invalid, the book is full, or
 * memory runs out. The pointer is valid until the book changes.
 */
struct pccl_pass *pccl_token_file_add(struct pccl_token_file *book, const uint8_t key[PCCL_PUBLIC_BYTES],
                                      const struct pccl_terms *terms, uint64_t now_s, struct pccl_text *reason);
/* Removes a token, as if it had never existed. */
void pccl_token_file_drop(struct pccl_token_file *book, uint32_t number);
/* Return NULL if there is no such pass. */
struct pccl_pass *pccl_token_file_find(const struct pccl_token_file *book, const uint8_t key[PCCL_PUBLIC_BYTES]);
struct pccl_pass *pccl_token_file_numbered(const struct pccl_token_file *book, uint32_t number);
/* Returns the newest pass with this label, or with this number in decimal digits. Returns NULL if no pass matches. */
struct pccl_pass *pccl_token_file_named(const struct pccl_token_file *book, const char *name);
/* Revokes a pass. Returns false if it was already revoked. */
bool pccl_token_file_revoke(struct pccl_token_file *book, struct pccl_pass *pass, uint64_t now_s);

/*
 * Checks whether a pass permits this role. digest: identifies a peer; NULL for an HTTP request. Returns OK if it does,
 * otherwise a status with a reason. Sets *noted if the book has changed, because one of a limited number of uses was
 * used up or a peer that may rejoin was recorded.
 */
PCCL_MUST_CHECK enum pccl_status pccl_token_file_admit(struct pccl_token_file *book, struct pccl_pass *pass,
                                                       enum pccl_role role, const struct pccl_id *digest,
                                                       uint64_t now_s, bool *noted, struct pccl_text *reason);

/* Undoes the change that pccl_token_file_admit has just made, and restores the entry that it replaced. */
void pccl_token_file_take_back(struct pccl_token_file *book);
/* Records that a peer used this pass before the pass had a limit, so that it can rejoin after the pass has expired. */
void pccl_token_file_keep(struct pccl_token_file *book, struct pccl_pass *pass, const struct pccl_id *digest);

/*
 * Writes the text of the book, at most PCCL_TOKEN_FILE_TEXT_MAX bytes. It contains no secrets. Each line ends with a
 * checksum that also depends on all previous lines.
 */
void pccl_token_file_write(const struct pccl_token_file *book, struct pccl_print *print);
/* Appends empty lines as padding, so that revoking tokens does not make the file longer. */
void pccl_token_file_pad(const struct pccl_token_file *book, struct pccl_print *print);
/*
 * Reads the text, with or without padding, into an initialized and empty book. Also accepts the format of older
 * versions, which has no checksums. If the text is invalid, returns an error with a reason and leaves the book empty.
 */
PCCL_MUST_CHECK enum pccl_status pccl_token_file_read(struct pccl_token_file *book, const char *text, size_t length,
                                                      struct pccl_text *reason);

#endif
