/* pcclCreateCodec and pcclMeasureCodec: the codecs that exist, and the error that they report. */
#include "unit.h"
#include "api_support.h"

#include <math.h>
#include <string.h>

enum { COUNT = 3000 };

static pcclQuantizationOptions_t codec_of(pcclQuantizationAlgorithm_t format, uint32_t block)
{
    pcclCodecParams_t params = PCCL_CODEC_PARAMS_INIT;
    pcclQuantizationOptions_t codec;
    params.format = format;
    params.block = block;
    assert_int_equal(pcclCreateCodec(&params, &codec), pcclSuccess);
    assert_int_equal(codec.algorithm, format);
    return codec;
}

TEST(codecs_that_there_are_not)
{
    pcclCodecParams_t params = PCCL_CODEC_PARAMS_INIT;
    pcclQuantizationOptions_t codec = {pcclUint8, pcclQuantMinMax};
    is_refused(pcclCreateCodec(NULL, &codec), "NULL");
    is_refused(pcclCreateCodec(&params, NULL), "NULL");
    params.size = 0;
    is_refused(pcclCreateCodec(&params, &codec), "PCCL_CODEC_PARAMS_INIT");
    for (uint32_t block = 0; block < 1024; block++) {
        params = (pcclCodecParams_t)PCCL_CODEC_PARAMS_INIT;
        params.block = block;
        if (block != 16 && block != 32 && block != 64 && block != 128 && block != 256)
            is_refused(pcclCreateCodec(&params, &codec), "invalid block size");
    }
    for (unsigned number = 0; number < 40; number++) {
        params = (pcclCodecParams_t)PCCL_CODEC_PARAMS_INIT;
        params.format = (pcclQuantizationAlgorithm_t)number;
        if (number == pcclQuantAuto)
            is_refused(pcclCreateCodec(&params, &codec), "needs budget_ms");
        else if (number < pcclQuantE4M3 || number > pcclQuantE2M1)
            is_refused(pcclCreateCodec(&params, &codec), "unknown format");
    }
    params = (pcclCodecParams_t)PCCL_CODEC_PARAMS_INIT;
    params.scale = (pcclCodecScale_t)3;
    is_refused(pcclCreateCodec(&params, &codec), "unknown scale");
    params.scale = pcclScaleFloat;
    params.rounding = (pcclCodecRounding_t)2;
    is_refused(pcclCreateCodec(&params, &codec), "unknown rounding");
    assert_int_equal(codec.algorithm, pcclQuantMinMax);
}

TEST(automatic_codecs)
{
    const float value = 1;
    pcclCodecParams_t params = PCCL_CODEC_PARAMS_INIT;
    pcclCodecError_t error = PCCL_CODEC_ERROR_INIT;
    pcclQuantizationOptions_t one, other;
    params.budget_ms = 1;
    is_refused(pcclCreateCodec(&params, &one), "budget_ms requires an automatic codec");
    params.budget_ms = 0;
    params.budget_percent = 1;
    is_refused(pcclCreateCodec(&params, &one), "budget_percent requires an automatic codec");
    params.budget_percent = 0;
    params.format = pcclQuantAuto;
    params.budget_ms = 131072;
    is_refused(pcclCreateCodec(&params, &one), "budget_ms is more than 131071");
    params.budget_percent = 20;
    is_refused(pcclCreateCodec(&params, &one), "budget_ms or budget_percent, not both");
    params.budget_ms = 0;
    assert_int_equal(pcclCreateCodec(&params, &other), pcclSuccess);
    params.budget_percent = 101;
    is_refused(pcclCreateCodec(&params, &one), "budget_percent is more than 100");
    params.budget_percent = 0;
    params.budget_ms = 20;
    assert_int_equal(pcclCreateCodec(&params, &one), pcclSuccess);
    assert_true(one.algorithm == other.algorithm && one.quantized_datatype != other.quantized_datatype);
    is_refused(pcclMeasureCodec(&other, &value, 1, pcclFloat, &error), "an automatic codec cannot be measured");
    params.block = 17;
    is_refused(pcclCreateCodec(&params, &one), "invalid block size");
    params.block = 64;
    params.budget_ms = 131071;
    assert_int_equal(pcclCreateCodec(&params, &one), pcclSuccess);
    params.budget_ms = 1;
    assert_int_equal(pcclCreateCodec(&params, &other), pcclSuccess);
    assert_true(one.algorithm == pcclQuantAuto && one.quantized_datatype != other.quantized_datatype);
    is_refused(pcclMeasureCodec(&one, &value, 1, pcclFloat, &error), "an automatic codec cannot be measured");
    one.quantized_datatype = pcclUint8;
    is_refused(pcclMeasureCodec(&one, &value, 1, pcclFloat, &error), "with pcclCreateCodec");
}

/* Equal codecs are equal values; others differ. */
TEST(codecs_are_values)
{
    pcclQuantizationOptions_t made[5 * 5 * 3 * 2];
    size_t count = 0;
    for (unsigned format = pcclQuantE4M3; format <= pcclQuantE2M1; format++)
        for (uint32_t block = 16; block <= 256; block *= 2)
            for (unsigned scale = 0; scale < 3; scale++)
                for (unsigned rounding = 0; rounding < 2; rounding++) {
                    pcclCodecParams_t params = PCCL_CODEC_PARAMS_INIT;
                    params.format = (pcclQuantizationAlgorithm_t)format;
                    params.block = block;
                    params.scale = (pcclCodecScale_t)scale;
                    params.rounding = (pcclCodecRounding_t)rounding;
                    assert_int_equal(pcclCreateCodec(&params, &made[count++]), pcclSuccess);
                }
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(&made[i], &made[k], sizeof made[i]);
}

TEST(what_coding_costs)
{
    static float values[COUNT];
    const pcclQuantizationOptions_t int4 = codec_of(pcclQuantInt4, 16), e3m0 = codec_of(pcclQuantE3M0, 256);
    pcclCodecError_t error = PCCL_CODEC_ERROR_INIT;
    for (int i = 0; i < COUNT; i++)
        values[i] = (float)(i % 15 - 7);
    values[COUNT - 1] = 7; /* the last block has no other */
    assert_int_equal(pcclMeasureCodec(&int4, values, COUNT, pcclFloat, &error), pcclSuccess);
    assert_true(error.largest == 0 && error.rms == 0 && error.not_finite == 0);
    assert_int_equal(error.packed_bytes, 187 * 4 + 188 * 8 + 4);
    for (int i = 0; i < COUNT; i++)
        values[i] = i % 4 == 0 ? 6 : 8;
    values[1] = NAN;
    assert_int_equal(pcclMeasureCodec(&e3m0, values, COUNT, pcclFloat, &error), pcclSuccess);
    assert_float_equal(error.largest, 0.25, 1e-12);
    assert_float_equal(error.rms, sqrt(0.25 * 4 / (0.25 * 36 + 0.75 * 64)), 1e-3);
    assert_int_equal(error.not_finite, 1);
    const pcclQuantizationOptions_t u8 = {pcclUint8, pcclQuantMinMax}, none = {pcclUint8, pcclQuantNone};
    values[1] = 8;
    assert_int_equal(pcclMeasureCodec(&u8, values, COUNT, pcclFloat, &error), pcclSuccess);
    assert_true(error.largest == 0 && error.packed_bytes == COUNT + 3 * 9);
    assert_int_equal(pcclMeasureCodec(&none, values, COUNT, pcclFloat, &error), pcclSuccess);
    assert_true(error.largest == 0 && error.packed_bytes == COUNT * sizeof *values);
    assert_int_equal(pcclMeasureCodec(&e3m0, values, 0, pcclFloat, &error), pcclSuccess);
    assert_int_equal(error.packed_bytes, 0);
}

TEST(what_cannot_be_measured)
{
    const float value = 1;
    const pcclQuantizationOptions_t int4 = codec_of(pcclQuantInt4, 16), bare = {pcclUint8, pcclQuantInt4},
                                    unknown = {pcclUint8, (pcclQuantizationAlgorithm_t)9};
    pcclCodecError_t error = PCCL_CODEC_ERROR_INIT;
    is_refused(pcclMeasureCodec(NULL, &value, 1, pcclFloat, &error), "NULL");
    is_refused(pcclMeasureCodec(&int4, NULL, 1, pcclFloat, &error), "NULL");
    is_refused(pcclMeasureCodec(&int4, &value, 1, pcclFloat, NULL), "NULL");
    is_refused(pcclMeasureCodec(&bare, &value, 1, pcclFloat, &error), "pcclCreateCodec");
    is_refused(pcclMeasureCodec(&unknown, &value, 1, pcclFloat, &error), "unknown quantization");
    is_refused(pcclMeasureCodec(&int4, &value, 1, (pcclDataType_t)15, &error), "unknown data type");
    is_refused(pcclMeasureCodec(&int4, &value, 0, pcclDouble, &error), "int4 packs f16, bf16 and f32, not f64");
    error.size = 1;
    is_refused(pcclMeasureCodec(&int4, &value, 1, pcclFloat, &error), "PCCL_CODEC_ERROR_INIT");
}
