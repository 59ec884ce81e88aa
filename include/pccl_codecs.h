/*
 * PCCL: codecs of 8 and 4 bits, automatic codecs, error feedback, and the sparse codec. pccl_collectives.h includes
 * this file, and so does pccl.h. Nothing in this file exists in PCCL 1.0.
 */
#ifndef PCCL_CODECS_H
#define PCCL_CODECS_H

#include "pccl_collectives.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------- codecs */

/* Encoding of a block's scale. */
typedef enum pcclCodecScale_t {
    pcclScaleFloat = 0,
    pcclScaleBFloat16 = 1,
    pcclScalePowerOfTwo = 2 /* in one byte */
} pcclCodecScale_t;

typedef enum pcclCodecRounding_t {
    pcclRoundNearest = 0,
    /*
     * Rounds up or down at random, more often to the nearer value, so that the mean of many roundings is the element.
     * The choice depends on the operation, the peer and the element's index; a retry chooses again.
     */
    pcclRoundStochastic = 1
} pcclCodecRounding_t;

/* A codec of 8 or 4 bits, or an automatic codec, for elements of float, float16 and bfloat16. */
typedef struct pcclCodecParams_t {
    size_t size;                        /* set by PCCL_CODEC_PARAMS_INIT */
    pcclQuantizationAlgorithm_t format; /* pcclQuantE4M3 or a later value */
    uint32_t block;                     /* number of elements that share a scale: 16, 32, 64, 128 or 256 */
    pcclCodecScale_t scale;
    pcclCodecRounding_t rounding;
    /*
     * Error feedback, for sums and averages: the library keeps the rounding error of this peer's contribution for the
     * tag, and adds it to the next contribution with the tag, so that errors do not accumulate over many operations. A
     * failed operation does not change it. Each peer decides for itself whether to use feedback, which takes 8 bytes
     * for each element of each tag until the handle is destroyed; the option feedback_mib limits it. If the tag is used
     * with another count, type or codec, the library drops the feedback and logs a warning.
     */
    bool feedback;
    /* Budget of pcclQuantAuto, as either this or budget_percent: the time of an operation, at most 131071 ms. */
    uint32_t budget_ms;
    uint32_t budget_percent; /* the budget as a percentage of the time between two uses of the tag, at most 100; the
                                first two uses are exact */
} pcclCodecParams_t;

#define PCCL_CODEC_PARAMS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(pcclCodecParams_t), pcclQuantInt4, 256, pcclScaleFloat, pcclRoundNearest, false, 0, 0                   \
    }

/*
 * Creates a codec. It is a plain value that needs no release and serves any number of operations with quantization, on
 * any thread. If peers differ in format, block, scale or rounding, the operation fails for all, as for any difference
 * in quantization. In a reduction with a codec, each part is packed once and sent to one peer, which sums the parts as
 * float and packs the result once; in groups without links between all peers, or of more than 16 peers, parts are sent
 * along the ring instead, where each peer packs the sum again. NaN arrives as NaN, an infinity as an infinity with
 * pcclQuantE5M2 and as NaN with the others. docs/CODECS.md has the formats and error bounds.
 *
 * With pcclQuantAuto, for sums and averages in all-reduces and in reduce-scatters of equal shares, the library chooses
 * for each operation: unquantized floats, 16 (pcclQuantZeroPointScale), 8 (pcclQuantE4M3) or 4 bits (pcclQuantE2M1). It
 * chooses the largest number of bits that is expected, from the last use of the tag, to stay within the budget, or else
 * 4 bits. All peers make the same choice, and must pass the same budget. Block, scale and rounding apply to 8 and 4
 * bits; so does feedback, which stays unchanged while more bits are used. pcclOperationInfo_t reports the choice and
 * its reason.
 * pcclSuccess
 * pcclInvalidArgument a pointer is NULL, the size is not set, the codec is unknown, or a budget for a format other than
 *                     pcclQuantAuto, or both budgets
 */
PCCL_EXPORT pcclResult_t pcclCreateCodec(const pcclCodecParams_t *params, pcclQuantizationOptions_t *codec_out);

/* Errors and size of encoded elements. */
typedef struct pcclCodecError_t {
    size_t size;           /* set by PCCL_CODEC_ERROR_INIT */
    double largest;        /* largest error, relative to the largest magnitude */
    double rms;            /* root mean square of the errors, relative to the root mean square of the elements */
    uint64_t not_finite;   /* number of skipped elements, which are NaN or infinite before or after decoding */
    uint64_t packed_bytes; /* length of the encoded elements */
} pcclCodecError_t;

#define PCCL_CODEC_ERROR_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(pcclCodecError_t), 0, 0, 0, 0                                                                           \
    }

/*
 * Packs and unpacks these elements locally with any quantization, and measures the errors. In an all-reduce with a
 * codec of pcclCreateCodec, the errors of the peers' parts and of the result add up.
 * pcclSuccess
 * pcclInvalidArgument a pointer is NULL, the size is not set, or the quantization does not suit the elements
 */
PCCL_EXPORT pcclResult_t pcclMeasureCodec(const pcclQuantizationOptions_t *codec, const void *elements, size_t count,
                                          pcclDataType_t datatype, pcclCodecError_t *error_out);

/*
 * Returns the error feedback of a tag, for a checkpoint. If feedback_out is NULL, only sets *count to the number of
 * floats of the feedback, or to 0 if there is no feedback. Otherwise *count must already be this number, and
 * feedback_out must have room for that many floats.
 * pcclSuccess
 * pcclInvalidArgument the feedback has a different number of floats, or count is NULL
 */
PCCL_EXPORT pcclResult_t pcclGetFeedback(const pcclComm_t *comm, uint64_t tag, float *PCCL_NULLABLE feedback_out,
                                         size_t *count);
/*
 * Replaces the error feedback of a tag. The next operation with the tag uses it if that operation has `count` elements,
 * and otherwise drops it. A `count` of 0 removes the feedback.
 * pcclSuccess
 * pcclInvalidArgument feedback is NULL although count is not 0
 * pcclInvalidUsage    an operation with the tag has not been awaited
 * pcclInternalError   out of memory, or feedback_mib is exceeded (ext. pcclOutOfMemory)
 */
PCCL_EXPORT pcclResult_t pcclSetFeedback(const pcclComm_t *comm, uint64_t tag, const float *PCCL_NULLABLE feedback,
                                         size_t count);

/* -------------------------------------------------------------------------------------------- sparse codec */

/*
 * The sparse codec keeps the `kept` floats of the largest magnitude in each chunk of PCCL_SPARSE_CHUNK floats; in a
 * shorter last chunk it keeps the same share, rounded up. A kept float takes 14 bits: its index, its sign, and one of
 * two magnitudes; each chunk takes 8 more bytes. Equal elements give equal bytes, and equal bytes give equal bits, on
 * all machines. It is not a codec for operations, as each peer keeps different elements. Peers exchange the bytes
 * (pcclAllGatherV), and each peer adds up the decoded bytes of all peers. docs/CODECS.md has the layout.
 */
#define PCCL_SPARSE_CHUNK 4096

/*
 * Returns the packed length of `count` elements.
 * pcclSuccess
 * pcclInvalidArgument kept is not 1 to PCCL_SPARSE_CHUNK, or bytes_out is NULL
 */
PCCL_EXPORT pcclResult_t pcclGetSparseBytes(size_t count, uint32_t kept, size_t *bytes_out);
/*
 * Packs elements and subtracts the decoded values from them; the remainder is the error feedback to add to the next
 * elements. bytes must be the result of pcclGetSparseBytes.
 * pcclSuccess
 * pcclInvalidArgument a pointer is NULL, a number is out of range, or an element is not finite: no output was written
 */
PCCL_EXPORT pcclResult_t pcclPackSparse(float *elements, size_t count, uint32_t kept, void *packed, size_t bytes);
/*
 * Checks that bytes from another peer are a valid packing of `count` elements. *square_out receives the sum of the
 * squares of the decoded values.
 * pcclSuccess
 * pcclInvalidArgument the bytes are invalid, a number is out of range, or a pointer is NULL
 */
PCCL_EXPORT pcclResult_t pcclCheckSparse(const void *packed, size_t bytes, size_t count, uint32_t kept,
                                         double *square_out);
/*
 * Adds factor times the decoded values to `count` sums.
 * pcclSuccess
 * pcclInvalidArgument as for pcclCheckSparse: the sums are unchanged
 */
PCCL_EXPORT pcclResult_t pcclAddSparse(const void *packed, size_t bytes, size_t count, uint32_t kept, float factor,
                                       float *sums);

#ifdef __cplusplus
}
#endif

#endif
