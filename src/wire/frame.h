/*
 * Framing, in one place: the machines see whole messages only.
 *
 * Header, 32 bytes, little-endian, frozen for all versions:
 *   u32 body length | u16 message type | u16 zero | u64 sequence (0: not numbered) | u64 acknowledged | u32 checksum |
 * u32 zero The checksum is the low 32 bits of XXH3-64 over the first 24 bytes and the body.
 */
#ifndef PCCL_WIRE_FRAME_H
#define PCCL_WIRE_FRAME_H

#include "core/base.h"
#include "core/memory.h"
#include "core/status.h"
#include "wire/wire.h"

struct pccl_frame {
    uint16_t type;
    uint64_t sequence;
    uint64_t acknowledged;
    const uint8_t *body; /* a view into the reader's buffer, valid until its next call */
    uint32_t length;
};

/* Bytes of the whole frame for this message. */
size_t pccl_frame_size(const struct pccl_msg *msg);
/* Writes header and body: exactly pccl_frame_size(msg) bytes. */
void pccl_frame_encode(const struct pccl_msg *msg, uint64_t sequence, uint64_t acknowledged, uint8_t *bytes);

/*
 * Collects bytes of one connection and yields frames. Its buffer never grows beyond one frame of the permitted size.
 */
struct pccl_frame_reader {
    const struct pccl_memory *memory;
    uint8_t *buffer; /* owned */
    uint32_t capacity, start, end;
    uint32_t body_max; /* PCCL_FRAME_HELLO_MAX until raised */
};
void pccl_frame_reader_init(struct pccl_frame_reader *reader, const struct pccl_memory *memory);
void pccl_frame_reader_fini(struct pccl_frame_reader *reader);
/* After an accepted hello: larger frames are permitted from now on, up to PCCL_FRAME_BODY_MAX. */
void pccl_frame_reader_raise(struct pccl_frame_reader *reader, uint32_t body_max);
/*
 * Where to read() to: at least one byte; NULL: memory is short. Valid until the next call. To be called when next() has
 * returned 0. The buffer starts at a kilobyte and doubles as bytes come, whatever length a header claims.
 */
uint8_t *pccl_frame_reader_space(struct pccl_frame_reader *reader, size_t *length);
/* `length` bytes were put there. */
void pccl_frame_reader_filled(struct pccl_frame_reader *reader, size_t length);
/*
 * 1: a frame; 0: more bytes are needed; -1: malformed (too long, bad checksum, non-zero padding), reason in words, and
 * so for ever: the connection is of no use any more.
 */
PCCL_MUST_CHECK int pccl_frame_reader_next(struct pccl_frame_reader *reader, struct pccl_frame *frame,
                                           struct pccl_text *reason);

#endif
