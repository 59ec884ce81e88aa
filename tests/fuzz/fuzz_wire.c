/*
 * A type byte and a body: it is refused with a reason, or printed, and written again as the same
 * bytes.
 */
#include "fuzz.h"

#include "wire/wire.h"

#include <string.h>

static struct pccl_wire_scratch scratch;

static void expect_printable(const struct pccl_text *text)
{
    size_t size;
    EXPECT(text->length > 0 && text->length <= PCCL_REASON_MAX && text->bytes[text->length] == '\0');
    for (size_t at = 0; at < text->length; at += size) {
        size = pccl_text_character(text->bytes + at, text->length - at);
        EXPECT(size > 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const uint8_t *body = data + 1;
    size_t length = size - 1;
    struct pccl_msg msg;
    struct pccl_text text;
    uint32_t version;
    (void)pccl_wire_peek_hello(body, length, &version);
    pccl_text_clear(&text);
    if (pccl_wire_decode(data[0], body, length, &scratch, &msg, &text) != PCCL_OK) {
        expect_printable(&text);
        return 0;
    }
    EXPECT(msg.type == data[0]);
    EXPECT(pccl_wire_invalid(&msg) == NULL);
    pccl_wire_print(&msg, &text);
    expect_printable(&text);
    EXPECT(pccl_wire_size(&msg) == length);
    uint8_t *again = malloc(length + 1);
    EXPECT(again != NULL);
    pccl_wire_encode(&msg, again);
    EXPECT(length == 0 || memcmp(again, body, length) == 0);
    free(again);
    return 0;
}
