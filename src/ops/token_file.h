/*
 * The book of tokens: everything that a master knows of its tokens except the secrets: the public key that is made
 * from each secret, its roles, its limits in time and uses, and its guests. Also its text, which the master keeps
 * in a file. Pure; times are calendar times, because the book outlives the process.
 *
 * An expired or used-up token admits no new peer, but its guests can come back: a broken connection or a restart
 * of the master costs no member. A revoked token admits no peer at all.
 */
#ifndef PCCL_OPS_TOKEN_FILE_H
#define PCCL_OPS_TOKEN_FILE_H

#include "core/id.h"
#include "core/memory.h"
#include "core/print.h"
#include "core/status.h"
#include "core/token.h"

enum pccl_role {
    PCCL_ROLE_JOIN,    /* be a peer */
    PCCL_ROLE_OBSERVE, /* read over HTTP */
    PCCL_ROLE_ADMIN,   /* read and act over HTTP */
    PCCL_ROLES,
};

enum {
    PCCL_TOKEN_FILE_PASSES_MAX = 1000,
    PCCL_TOKEN_FILE_INVITATIONS_MAX = 16384, /* of all passes */
    PCCL_TOKEN_FILE_USES_MAX = 4096,         /* of one */
    PCCL_TOKEN_FILE_LABEL_MAX = 64,          /* bytes */
    PCCL_TOKEN_FILE_TTL_S_MAX = 10 * 366 * 86400,
    PCCL_TOKEN_FILE_TEXT_MAX = 2 << 20,
};

/* A token without its secret. */
struct pccl_pass {
    uint32_t number; /* its name, never used again */
    uint8_t key[PCCL_PUBLIC_BYTES];
    enum pccl_role role;
    uint64_t made_s;
    uint64_t ends_s;    /* 0: never */
    uint64_t revoked_s; /* 0: it is not */
    uint32_t uses;      /* how many may come with it; 0: any number */
    uint32_t used;      /* guests */
    char label[PCCL_TOKEN_FILE_LABEL_MAX + 1];
};

/*
 * A peer that used a pass with a limit, by a digest of a secret of the peer (the token of its hello). In order of
 * arrival.
 */
struct pccl_invitation {
    uint32_t pass;
    struct pccl_id digest;
};

struct pccl_token_file {
    const struct pccl_memory *memory;
    struct pccl_pass *passes; /* in the order of their numbers */
    uint32_t count, capacity, last_number;
    struct pccl_invitation *guests;
    uint32_t invitation_count, invitation_capacity;
    struct pccl_invitation forgotten; /* in favor of the newest guest; pass 0: none was */
    uint32_t forgotten_at;            /* its place among the guests */
};

/* The terms of a new token. */
struct pccl_terms {
    enum pccl_role role;
    uint64_t ttl_s; /* 0: for ever */
    uint32_t uses;  /* 0: any number */
    char label[PCCL_TOKEN_FILE_LABEL_MAX + 1];
};

/* "join", "observe", "admin". */
const char *pccl_role_name(enum pccl_role role);
PCCL_MUST_CHECK bool pccl_role_find(const char *name, size_t length, enum pccl_role *role);

void pccl_token_file_init(struct pccl_token_file *book, const struct pccl_memory *memory);
void pccl_token_file_fini(struct pccl_token_file *book);

/*
 * Adds a token. When there are PCCL_TOKEN_FILE_PASSES_MAX, the oldest revoked one is dropped, or else the oldest that
 * admits no peer. Returns NULL with a reason if the terms are invalid, the book is full, or memory is short. The
 * pointer is valid until the book changes.
 */
struct pccl_pass *pccl_token_file_add(struct pccl_token_file *book, const uint8_t key[PCCL_PUBLIC_BYTES],
                                      const struct pccl_terms *terms, uint64_t now_s, struct pccl_text *reason);
/* Takes it out, as if it had never been there. */
void pccl_token_file_drop(struct pccl_token_file *book, uint32_t number);
/* Returns NULL if there is no such pass. */
struct pccl_pass *pccl_token_file_find(const struct pccl_token_file *book, const uint8_t key[PCCL_PUBLIC_BYTES]);
struct pccl_pass *pccl_token_file_numbered(const struct pccl_token_file *book, uint32_t number);
/* Returns the newest pass with this label, or with this number in digits; NULL if there is no such pass. */
struct pccl_pass *pccl_token_file_named(const struct pccl_token_file *book, const char *name);
/* false: it was before. */
bool pccl_token_file_revoke(struct pccl_token_file *book, struct pccl_pass *pass, uint64_t now_s);

/*
 * Checks that a pass permits this role. A peer is identified by its digest; NULL: an HTTP request. OK: permitted;
 * *noted is true if the book has changed, because this is one of the limited uses or a guest who may come back.
 * Otherwise with a reason.
 */
PCCL_MUST_CHECK enum pccl_status pccl_token_file_admit(struct pccl_token_file *book, struct pccl_pass *pass,
                                                       enum pccl_role role, const struct pccl_id *digest,
                                                       uint64_t now_s, bool *noted, struct pccl_text *reason);

/* Takes back the use that pccl_token_file_admit has just noted, and brings back the guest that it replaced. */
void pccl_token_file_take_back(struct pccl_token_file *book);
/* Notes that a peer used this pass before the pass had a limit, so that it can come back after the pass's end. */
void pccl_token_file_keep(struct pccl_token_file *book, struct pccl_pass *pass, const struct pccl_id *digest);

/*
 * Writes the text of the book, at most PCCL_TOKEN_FILE_TEXT_MAX bytes. It holds no secret. Each line ends with a
 * checksum that depends on all lines before it, too.
 */
void pccl_token_file_write(const struct pccl_token_file *book, struct pccl_print *print);
/* Appends empty lines, so that the padded text does not become longer if tokens of the book are revoked. */
void pccl_token_file_pad(const struct pccl_token_file *book, struct pccl_print *print);
/*
 * Reads that text, padded or not, or the text of former versions, which has no checksums, into a book that was only
 * initialized. Not OK, with a reason: it is not the text of a book; then the book is empty.
 */
PCCL_MUST_CHECK enum pccl_status pccl_token_file_read(struct pccl_token_file *book, const char *text, size_t length,
                                                      struct pccl_text *reason);
/* For people: a line for each token. */
void pccl_token_file_list(const struct pccl_token_file *book, uint64_t now_s, struct pccl_print *print);

#endif
