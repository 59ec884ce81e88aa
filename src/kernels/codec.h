/*
 * Codecs pack elements into fewer bytes for transport. A codec knows nothing of schedules: it turns
 * `count` elements into exactly pccl_codec_bytes(codec, count) bytes and back. Scales are per block
 * of PCCL_CODEC_BLOCK elements and travel inside those bytes. On every machine and with all
 * kernels, the same elements give the same bytes, and the same bytes the same bits. docs/CODECS.md
 * has the formulas, the layout and the bounds of the error. Pure.
 *
 * A further codec is a row of the table behind pccl_codec_find and the code of its block. One that
 * packs elements into less than a byte also needs packed_bytes (codec_internal.h) to count bits.
 */
#ifndef PCCL_KERNELS_CODEC_H
#define PCCL_KERNELS_CODEC_H

#include "core/text.h"
#include "kernels/kernels.h"

enum { PCCL_CODEC_BLOCK = 1024 };

/* Values of pcclQuantizationAlgorithm_t. */
enum pccl_codec_kind { PCCL_CODEC_NONE, PCCL_CODEC_MIN_MAX, PCCL_CODEC_ZERO_POINT_SCALE, PCCL_CODEC_KINDS };

struct pccl_codec; /* one codec for one data type of elements and one width of packed values; constant */

const char *pccl_codec_kind_name(enum pccl_codec_kind kind); /* "none", "minmax", "zeropointscale" */

/*
 * Returns the codec for elements of `datatype`, packed as `packed`, in a reduction. Returns NULL
 *   with a reason  if this is unsupported or invalid: an unknown value, integers as elements, floats as the
 *                  packed type, signed integers under MinMax, PROD, MAX or MIN under ZeroPointScale.
 *   without one    if elements are sent unpacked: PCCL_CODEC_NONE; packed == datatype (whatever the other
 *                  arguments); or a supported packed type that is not narrower than the element, which
 *                  would cost bytes and lose digits.
 */
const struct pccl_codec *pccl_codec_find(enum pccl_codec_kind kind, enum pccl_datatype datatype,
                                         enum pccl_datatype packed, enum pccl_reduce_op reduction,
                                         struct pccl_text *reason);
/*
 * Returns the bytes of `count` packed elements with their scales; 0 for 0. Additive over whole blocks: elements that
 * begin at a multiple of PCCL_CODEC_BLOCK have their bytes at pccl_codec_bytes of that multiple, and decode alone.
 */
size_t pccl_codec_bytes(const struct pccl_codec *codec, size_t count);
/*
 * Encodes elements. Neither side needs alignment; bytes and elements must not overlap. NaN and infinities decode to NaN
 * and to the same infinity, and do not disturb their neighbors.
 */
void pccl_codec_encode(const struct pccl_codec *codec, const struct pccl_kernels *kernels, const void *elements,
                       size_t count, uint8_t *bytes);
/*
 * Decodes bytes. Bytes from a network are not trusted, so any bytes decode: a block with a head that no encoder writes
 * decodes to NaN.
 */
void pccl_codec_decode(const struct pccl_codec *codec, const struct pccl_kernels *kernels, const uint8_t *bytes,
                       size_t count, void *elements);
/* Does the same for elements that are not read soon: writes them like pccl_copy_streaming. */
void pccl_codec_decode_streaming(const struct pccl_codec *codec, const struct pccl_kernels *kernels,
                                 const uint8_t *bytes, size_t count, void *elements);

#endif
