/*
 * A type byte and a body: a message is refused with a reason, or printed and encoded as the same bytes. Its content
 * about the creation of a subgroup, or about a tiny operation, is read as its receivers do.
 */
#include "fuzz.h"

#include "support/wire_print.h"
#include "wire/subgroup.h"
#include "wire/tiny.h"
#include "wire/greeting.h"
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

/* Checks that any bytes yield members in order and, in a ring, each at a different place. */
static void read_founded(const struct pccl_bytes *founded)
{
    static struct pccl_id ids[PCCL_PEERS_MAX];
    uint32_t count = pccl_founded_count(founded);
    uint64_t places = 0;
    if (count == 0)
        return;
    EXPECT(count <= PCCL_PEERS_MAX && founded->length == pccl_founded_bytes(count));
    (void)pccl_founded_cost(founded);
    pccl_founded_list(founded, ids);
    for (uint32_t i = 0; i + 1 < count; i++)
        EXPECT(pccl_id_compare(&ids[i], &ids[i + 1]) <= 0);
    for (uint32_t rank = 0; rank < count; rank++)
        places += pccl_founded_seat(founded, rank).place;
    EXPECT(!pccl_founded_has_ring(founded) || places == (uint64_t)count * (count - 1) / 2);
}

static void read_list(const struct pccl_instance *founding, const struct pccl_bytes *list)
{
    if (pccl_founding_is_valid(founding, list))
        EXPECT(pccl_founding_tag((const struct pccl_id *)list->data, list->length / sizeof(struct pccl_id)) ==
               founding->tag);
}

/* Checks that a result that fits can be listed. */
static void read_blobs(const struct pccl_msg_resume_operation *report)
{
    struct pccl_tiny_blob blobs[PCCL_TINY_BLOBS_MAX];
    const uint8_t collective = report->descriptor.collective;
    if (report->world == 0 ||
        !pccl_tiny_result_fits(&report->descriptor, report->world, &report->payload, PCCL_TINY_BYTES_MAX) ||
        !pccl_collective_is_of_blobs(collective))
        return;
    uint32_t count = pccl_tiny_list_blobs(collective, report->world, report->payload.data, blobs);
    EXPECT(count <= PCCL_TINY_BLOBS_MAX);
    for (uint32_t i = 0; i < count; i++)
        EXPECT(blobs[i].data == NULL || blobs[i].length <= report->payload.length);
}

static void read_payload(const struct pccl_msg *msg)
{
    const struct pccl_msg_resume_operation *report = &msg->as.resume_operation;
    switch (msg->type) {
    case PCCL_MSG_done: read_list(&msg->as.done.instance, &msg->as.done.payload); break;
    case PCCL_MSG_outcome: read_founded(&msg->as.outcome.result); break;
    case PCCL_MSG_resume_subgroup: read_founded(&msg->as.resume_subgroup.founded); break;
    case PCCL_MSG_resume_operation:
        read_list(&report->instance, &report->payload);
        read_founded(&report->payload);
        read_blobs(report);
        break;
    default: break;
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
    static const struct pccl_sides sides = {.here = "this side", .there = "the other side"};
    const struct pccl_build own = {.version = PCCL_PROTOCOL_VERSION};
    const struct pccl_frame frame = {.type = data[0], .body = body, .length = (uint32_t)length};
    pccl_text_clear(&text);
    if (pccl_greeting_is_foreign(&own, &sides, &frame, &text))
        expect_printable(&text);
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
    read_payload(&msg);
    uint8_t *again = malloc(length + 1);
    EXPECT(again != NULL);
    pccl_wire_encode(&msg, again);
    EXPECT(length == 0 || memcmp(again, body, length) == 0);
    free(again);
    return 0;
}
