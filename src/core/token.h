/*
 * Join token: the one string that a peer needs to trust a master and to be trusted by it. It pins the master's public
 * key and carries a secret. Also the text form of a master's private key.
 */
#ifndef PCCL_CORE_TOKEN_H
#define PCCL_CORE_TOKEN_H

#include "core/base.h"

enum {
    PCCL_SECRET_BYTES = 32,
    PCCL_PIN_BYTES = 16,
    PCCL_PUBLIC_BYTES = 32,            /* of the key derived from a token's secret (net/keys.h) */
    PCCL_TOKEN_CHECKSUM_BYTES = 4,     /* of the checksum behind the secret */
    PCCL_TOKEN_TEXT = 6 + 22 + 1 + 48, /* characters, without a terminator */
    PCCL_SECRET_TEXT = 11 + 43,        /* the same for a private key */
    PCCL_SHARED_TEXT_MIN = 22,         /* pre-shared secret: 16 random bytes in base64 */
    PCCL_SHARED_TEXT_MAX = 256,
};

struct pccl_secret {
    uint8_t bytes[PCCL_SECRET_BYTES];
};

struct pccl_token {
    uint8_t pin[PCCL_PIN_BYTES]; /* of the master's public key (net/keys.h) */
    struct pccl_secret secret;
    bool checked; /* its text had a valid checksum */
    bool shared;  /* derived from a pre-shared secret */
};

/* Writes "pccl2.<pin>.<secret and checksum>", in base64url without padding, and a terminator. */
void pccl_token_write(const struct pccl_token *token, char text[PCCL_TOKEN_TEXT + 1]);
/*
 * Reads that text, or "pccl1.<pin>.<secret>", which has no checksum, and ignores white space around it. Returns NULL,
 * or the reason why it is not a token, worded to follow a colon.
 */
PCCL_MUST_CHECK const char *pccl_token_read(const char *text, struct pccl_token *token);

/* Write and read "pccl-key1: <key>", the content of a master's key file. */
void pccl_secret_write(const struct pccl_secret *secret, char text[PCCL_SECRET_TEXT + 1]);
PCCL_MUST_CHECK bool pccl_secret_read(const char *text, struct pccl_secret *secret);

/*
 * Returns the length of a pre-shared secret, a text that all peers of a run have; white space may follow it. Returns 0
 * if it is too short or too long, contains blanks or unprintable characters, or cannot be random.
 */
#define PCCL_SHARED_TEXT_RULE                                                                                          \
    "too easy to guess: expected 22 to 256 random letters, at least 32 unless both upper and lower case are "          \
    "among "                                                                                                           \
    "used, and no sequence of 8 letters twice"
PCCL_MUST_CHECK size_t pccl_shared_secret_length(const char *text);

/* Overwrites memory that had a secret; compilers cannot omit it. */
void pccl_wipe(void *bytes, size_t length);

#endif
