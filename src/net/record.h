/*
 * Records (PROTOCOL 17.5): up to 256 KiB of what a connection carries, sealed at once, where TLS
 * seals 16 KiB. Their keys come of the TLS handshake that was before, and change as they are used
 * up.
 *
 * A record is 12 bytes of header, the sealed content and a tag of 16 bytes. The header,
 * little-endian, is authenticated too: u32 length of the content, with the kind in the upper 8 bits
 * | u64 number of the record in its direction. The number is also what makes the nonce, so a record
 * opens in its place only.
 *
 * Moves no bytes of sockets and knows no other state, so tests and the fuzzer see all of it.
 */
#ifndef PCCL_NET_RECORD_H
#define PCCL_NET_RECORD_H

#include "core/memory.h"
#include "core/token.h"
#include "net/openssl.h"

enum {
    PCCL_RECORD_HEADER = 12,
    PCCL_RECORD_TAG = 16,
    PCCL_RECORD_OVERHEAD = PCCL_RECORD_HEADER + PCCL_RECORD_TAG,
    PCCL_RECORD_CONTENT_MAX = 256 << 10, /* the longest segment on short paths */
    PCCL_RECORD_AHEAD_MAX = 4 << 10,
    /* What a buffer has at most: a small record, and the longest. */
    PCCL_RECORD_BUFFER_MAX = PCCL_RECORD_CONTENT_MAX + PCCL_RECORD_OVERHEAD + 4 * PCCL_RECORD_AHEAD_MAX,
    PCCL_RECORD_NONCE = 12,
    PCCL_RECORD_KEY_BYTES = 32,
};

enum pccl_record_kind {
    PCCL_RECORD_NONE,
    PCCL_RECORD_CONTENT, /* at least one byte */
    PCCL_RECORD_END,     /* nothing, and nothing follows */
    PCCL_RECORD_KEY,     /* a public key, for new keys (net/renewal.h) */
    PCCL_RECORD_NEXT,    /* nothing; later records have the new key */
};

enum pccl_record_cipher { PCCL_RECORD_AES_128_GCM, PCCL_RECORD_CHACHA20_POLY1305 };

/* One direction of a connection, at one of its ends. */
struct pccl_record_line {
    const struct pccl_openssl *openssl;
    struct evp_cipher_ctx_st *context; /* NULL: not begun */
    enum pccl_record_cipher cipher;
    bool seals;                /* else it opens */
    struct pccl_secret secret; /* of the present keys, and all later ones */
    uint8_t nonce[PCCL_RECORD_NONCE];
    uint64_t number;             /* of the next record */
    uint64_t blocks, blocks_max; /* of 16 bytes that the key has sealed, and may seal */
};

/* For a zeroed struct. false: out of memory; to be ended all the same. */
PCCL_MUST_CHECK bool pccl_record_begin(struct pccl_record_line *line, const struct pccl_openssl *openssl,
                                       enum pccl_record_cipher cipher, const struct pccl_secret *secret, bool seals);
void pccl_record_end(struct pccl_record_line *line);
/* Mixes a secret into the secret of the line, for all later records. false: the line is useless. */
PCCL_MUST_CHECK bool pccl_record_mix(struct pccl_record_line *line, const struct pccl_secret *secret);

/*
 * Writes one record of both parts: first_length + second_length + PCCL_RECORD_OVERHEAD bytes.
 * false: out of memory, and the line is useless.
 */
PCCL_MUST_CHECK bool pccl_record_seal(struct pccl_record_line *line, enum pccl_record_kind kind, const uint8_t *first,
                                      size_t first_length, const uint8_t *second, size_t second_length, uint8_t *out);

/*
 * Received bytes, on their way to the memory of whoever reads. A buffer as large as the record that
 * comes is its limit, whatever a header claims.
 */
struct pccl_record_reader {
    const struct pccl_memory *memory;
    uint8_t *buffer;
    uint32_t capacity, start, end;      /* sealed bytes */
    uint32_t opened_start, opened_end;  /* opened content in the buffer that was not taken yet */
    uint32_t ahead;                     /* so much is received beyond the record that is awaited */
    enum pccl_record_kind met;          /* END; or KEY or NEXT, until the owner has acted on it and cleared this */
    uint8_t key[PCCL_RECORD_KEY_BYTES]; /* of KEY */
    bool is_broken;                     /* what came is no record */
};
void pccl_record_reader_fini(struct pccl_record_reader *reader);
/*
 * Room for what is received next, at least one byte, valid until the next call. Call it when
 * pccl_record_take has found too little. NULL: out of memory.
 */
uint8_t *pccl_record_space(struct pccl_record_reader *reader, const struct pccl_record_line *line, size_t *length);
void pccl_record_filled(struct pccl_record_reader *reader, size_t length);
/*
 * Moves received content to the first place, and the rest of it to the second. A record that fits is opened there, and
 * only then counted; the rest of a larger one waits for the next call. Stops at a record of another kind: see `met`.
 * Returns the bytes; 0: more must be received, or see `met`. -1: the other end has not sealed these bytes; the places
 * may have been written to.
 */
PCCL_MUST_CHECK ptrdiff_t pccl_record_take(struct pccl_record_reader *reader, struct pccl_record_line *line,
                                           uint8_t *first, size_t first_length, uint8_t *second, size_t second_length);
/* Whether pccl_record_take would find something, or why nothing more comes. */
bool pccl_record_has_input(const struct pccl_record_reader *reader, const struct pccl_record_line *line);

/*
 * Makes a buffer so large, of which nothing larger than PCCL_RECORD_BUFFER_MAX is asked for; keeps
 * what is in it. false: out of memory.
 */
PCCL_MUST_CHECK bool pccl_record_fit(const struct pccl_memory *memory, uint8_t **buffer, uint32_t *capacity,
                                     uint32_t needed);

#endif
