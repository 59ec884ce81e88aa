/*
 * Framing: all other code sees whole messages only.
 *
 * The header has 32 bytes, little-endian, frozen for all versions:
 *   u32 body length | u16 message type | u16 zero | u64 sequence (0: not numbered) |
 *   u64 acknowledged | u32 checksum | u32 zero
 * The checksum is the low 32 bits of XXH3-64 over the first 24 bytes and the body.
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
    const uint8_t *body; /* a view of the reader's buffer, valid until the next call for it */
    uint32_t length;
};

/* Returns the size of the message's frame, including the header, in bytes. */
size_t pccl_frame_size(const struct pccl_msg *msg);
/* Writes header and body, exactly pccl_frame_size(msg) bytes. */
void pccl_frame_encode(const struct pccl_msg *msg, uint64_t sequence, uint64_t acknowledged, uint8_t *bytes);

/*
 * Collects the bytes of a connection and splits them into frames. Its buffer never exceeds one frame of the permitted
 * size.
 */
struct pccl_frame_reader {
    const struct pccl_memory *memory;
    uint8_t *buffer; /* owned */
    uint32_t capacity, start, end;
    uint32_t body_max; /* PCCL_FRAME_HELLO_MAX until raised */
};
void pccl_frame_reader_init(struct pccl_frame_reader *reader, const struct pccl_memory *memory);
void pccl_frame_reader_fini(struct pccl_frame_reader *reader);
/* Permits larger frames from now on, up to PCCL_FRAME_BODY_MAX. Call when the hello has been accepted. */
void pccl_frame_reader_raise(struct pccl_frame_reader *reader, uint32_t body_max);
/*
 * Returns room for at least one byte to be read, valid until the next call. Call it when pccl_frame_reader_next has
 * returned 0. Returns NULL if out of memory. The buffer starts at 1 KiB and doubles as bytes arrive, regardless of the
 * length that a header claims.
 */
uint8_t *pccl_frame_reader_space(struct pccl_frame_reader *reader, size_t *length);
/* Records that `length` bytes have been read into that room. */
void pccl_frame_reader_filled(struct pccl_frame_reader *reader, size_t length);
/*
 * Returns 1 with a frame, 0 if more bytes are needed, and -1 with a reason if the input is malformed (too long, wrong
 * checksum, non-zero padding). After -1 the connection is unusable, and all later calls return -1.
 */
PCCL_MUST_CHECK int pccl_frame_reader_next(struct pccl_frame_reader *reader, struct pccl_frame *frame,
                                           struct pccl_text *reason);

#endif
