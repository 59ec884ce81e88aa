/*
 * Join token: the one string with which a peer and a master authenticate each other. It contains a pin of the master's
 * public key, and a secret. Also the text form of a master's private key.
 */
#ifndef PCCL_CORE_TOKEN_H
#define PCCL_CORE_TOKEN_H

#include "core/base.h"

enum {
    PCCL_SECRET_BYTES = 32,
    PCCL_PIN_BYTES = 16,
    PCCL_PUBLIC_BYTES = 32,            /* size of the public key derived from a token's secret (net/keys.h) */
    PCCL_TOKEN_CHECKSUM_BYTES = 4,     /* size of the checksum after the secret */
    PCCL_TOKEN_TEXT = 6 + 22 + 1 + 48, /* length of a token without the terminator */
    PCCL_SECRET_TEXT = 11 + 43,        /* length of a private key as text */
    PCCL_SHARED_TEXT_MIN = 22,         /* length of a pre-shared secret: 16 random bytes in base64 */
    PCCL_SHARED_TEXT_MAX = 256,
};

struct pccl_secret {
    uint8_t bytes[PCCL_SECRET_BYTES];
};

struct pccl_token {
    uint8_t pin[PCCL_PIN_BYTES]; /* pin of the master's public key (net/keys.h) */
    struct pccl_secret secret;
    bool checked; /* the text had a valid checksum */
    bool shared;  /* derived from a pre-shared secret */
};

/* Writes "pccl2.<pin>.<secret and checksum>" in base64url without padding, and a terminator. */
void pccl_token_write(const struct pccl_token *token, char text[PCCL_TOKEN_TEXT + 1]);
/*
 * Reads that text, or "pccl1.<pin>.<secret>", which has no checksum. Ignores surrounding white space. Returns NULL, or
 * the reason why it is not a token, in a form that can follow a colon.
 */
PCCL_MUST_CHECK const char *pccl_token_read(const char *text, struct pccl_token *token);

/* Write and read "pccl-key1: <key>", the content of a master's key file. */
void pccl_secret_write(const struct pccl_secret *secret, char text[PCCL_SECRET_TEXT + 1]);
PCCL_MUST_CHECK bool pccl_secret_read(const char *text, struct pccl_secret *secret);

/*
 * Returns the length of the pre-shared secret at the beginning of the text, which white space may follow. All peers of
 * a run have the same secret. Returns 0 if it is too short or too long, contains blanks or unprintable characters, or
 * is not random enough.
 */
#define PCCL_SHARED_TEXT_RULE                                                                                          \
    "too easy to guess: expected 22 to 256 random characters, at least 32 unless upper and lower case are both used, " \
    "and no sequence of 8 characters twice"
PCCL_MUST_CHECK size_t pccl_shared_secret_length(const char *text);

/* Overwrites memory that contained a secret, in a way that compilers cannot omit. */
void pccl_wipe(void *bytes, size_t length);

#endif
