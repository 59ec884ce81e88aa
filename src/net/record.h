/*
 * Records (PROTOCOL 17.5), which seal up to 256 KiB of a connection's bytes at once; TLS seals 16 KiB. Their keys are
 * derived from the preceding TLS handshake, and are replaced when they have been used for long enough.
 *
 * A record consists of a 12-byte header, the sealed content and a 16-byte tag. The header is little-endian and also
 * authenticated: u32 length of the content, with the kind in the upper 8 bits | u64 number of the record in its
 * direction. The nonce is derived from the number, so a record can only be opened at its position.
 *
 * Does no I/O and has no global state, so tests and the fuzzer can cover all of it.
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
    PCCL_RECORD_CONTENT_MAX = 256 << 10, /* size of the longest segment on short paths */
    PCCL_RECORD_AHEAD_MAX = 4 << 10,
    /* Maximum capacity of a buffer: a record of maximum size and a small one. */
    PCCL_RECORD_BUFFER_MAX = PCCL_RECORD_CONTENT_MAX + PCCL_RECORD_OVERHEAD + 4 * PCCL_RECORD_AHEAD_MAX,
    PCCL_RECORD_NONCE = 12,
    PCCL_RECORD_KEY_BYTES = 32,
};

enum pccl_record_kind {
    PCCL_RECORD_NONE,
    PCCL_RECORD_CONTENT, /* at least one byte */
    PCCL_RECORD_END,     /* empty; no record follows */
    PCCL_RECORD_KEY,     /* a public key, for new keys (net/renewal.h) */
    PCCL_RECORD_NEXT,    /* empty; later records use the new key */
};

enum pccl_record_cipher { PCCL_RECORD_AES_128_GCM, PCCL_RECORD_CHACHA20_POLY1305 };

/* One direction of a connection, at one of its ends. */
struct pccl_record_line {
    const struct pccl_openssl *openssl;
    struct evp_cipher_ctx_st *context; /* NULL: not begun */
    enum pccl_record_cipher cipher;
    bool seals;                /* true if it seals records, false if it opens them */
    struct pccl_secret secret; /* secret from which the current keys and, indirectly, all later ones are derived */
    uint8_t nonce[PCCL_RECORD_NONCE];
    uint64_t number;             /* number of the next record */
    uint64_t blocks, blocks_max; /* number of 16-byte blocks that the key has sealed, and the limit for it */
};

/* Initializes a zeroed struct. Returns false if out of memory; call pccl_record_end either way. */
PCCL_MUST_CHECK bool pccl_record_begin(struct pccl_record_line *line, const struct pccl_openssl *openssl,
                                       enum pccl_record_cipher cipher, const struct pccl_secret *secret, bool seals);
void pccl_record_end(struct pccl_record_line *line);
/*
 * Mixes a secret into the line's secret, which affects all later records. Returns false on failure; the line is then
 * unusable.
 */
PCCL_MUST_CHECK bool pccl_record_mix(struct pccl_record_line *line, const struct pccl_secret *secret);

/*
 * Writes one record that contains both parts: first_length + second_length + PCCL_RECORD_OVERHEAD bytes. Returns false
 * if out of memory; the line is then unusable.
 */
PCCL_MUST_CHECK bool pccl_record_seal(struct pccl_record_line *line, enum pccl_record_kind kind, const uint8_t *first,
                                      size_t first_length, const uint8_t *second, size_t second_length, uint8_t *out);

/*
 * Buffer for received bytes that have not been moved to their destination. It never grows beyond the size for the
 * largest record, whatever length a header states.
 */
struct pccl_record_reader {
    const struct pccl_memory *memory;
    uint8_t *buffer;
    uint32_t capacity, start, end;     /* size of the buffer, and range of the sealed bytes in it */
    uint32_t opened_start, opened_end; /* range of the opened content in the buffer that has not been taken */
    uint32_t ahead;                    /* number of bytes to receive beyond the awaited record */
    /*
     * kind of a record that stops reading: END; or KEY or NEXT, until the owner has processed it and cleared this field
     */
    enum pccl_record_kind met;
    uint8_t key[PCCL_RECORD_KEY_BYTES]; /* content of a KEY record */
    bool is_broken;                     /* the received bytes are not a valid record */
};
void pccl_record_reader_fini(struct pccl_record_reader *reader);
/*
 * Returns room for at least one received byte, valid until the next call. Returns NULL if out of memory. Call it when
 * pccl_record_take needs more bytes.
 */
uint8_t *pccl_record_space(struct pccl_record_reader *reader, const struct pccl_record_line *line, size_t *length);
void pccl_record_filled(struct pccl_record_reader *reader, size_t length);
/*
 * Moves received content to the first place, and the rest to the second. A record that fits is opened directly in its
 * place, and counts only if it is valid. The remaining content of a larger record waits for the next call. Stops at a
 * record of another kind (see `met`). Returns the number of bytes moved; 0 if more bytes are needed or `met` is set; -1
 * if these bytes were not sealed by the other end, in which case the places may have been overwritten.
 */
PCCL_MUST_CHECK ptrdiff_t pccl_record_take(struct pccl_record_reader *reader, struct pccl_record_line *line,
                                           uint8_t *first, size_t first_length, uint8_t *second, size_t second_length);
/* Returns true if pccl_record_take would find content, a record of another kind, or invalid bytes. */
bool pccl_record_has_input(const struct pccl_record_reader *reader, const struct pccl_record_line *line);

/*
 * Enlarges a buffer to `needed` bytes, at most PCCL_RECORD_BUFFER_MAX, and preserves its content. Returns false if out
 * of memory.
 */
PCCL_MUST_CHECK bool pccl_record_fit(const struct pccl_memory *memory, uint8_t **buffer, uint32_t *capacity,
                                     uint32_t needed);

#endif
