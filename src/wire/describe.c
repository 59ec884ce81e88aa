#include "wire/describe.h"

#include "kernels/codec.h"

/* What needs saying only where peers differ in it. */
struct details {
    bool codec, way;
};

static void describe_codec(struct pccl_text *words, const struct pccl_descriptor *descriptor)
{
    pccl_text_append(words, " (quantization %s", pccl_codec_kind_name((enum pccl_codec_kind)descriptor->codec));
    if (descriptor->codec != PCCL_CODEC_NONE)
        pccl_text_append(words, " to %s", pccl_datatype_name((enum pccl_datatype)descriptor->codec_datatype));
    pccl_text_append(words, ")");
}

static void describe(struct pccl_text *words, const struct pccl_described *one, struct details details)
{
    const struct pccl_descriptor *descriptor = one->descriptor;
    pccl_text_append(words, "peer %i called %s of %u %s", one->peer,
                     pccl_reduction_name((enum pccl_reduction)descriptor->operation), descriptor->count,
                     pccl_datatype_name((enum pccl_datatype)descriptor->datatype));
    if (details.codec)
        describe_codec(words, descriptor);
    if (details.way)
        pccl_text_append(words, one->tiny ? " through the master" : " peer to peer");
}

void pccl_describe_difference(struct pccl_text *words, const struct pccl_described *a, const struct pccl_described *b)
{
    const struct details details = {
        .codec = a->descriptor->codec != b->descriptor->codec ||
                 a->descriptor->codec_datatype != b->descriptor->codec_datatype,
        .way = a->tiny != b->tiny,
    };
    pccl_text_clear(words);
    describe(words, a, details);
    pccl_text_append(words, " but ");
    describe(words, b, details);
}
