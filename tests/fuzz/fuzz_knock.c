/*
 * The first bytes of a connection at a port with keys. The first byte of the input selects the port, and whether the
 * rest follows a good knock. More bytes never change a judgment, and without the key no knock is good.
 */
#include "fuzz.h"

#include "net/heap.h"
#include "net/knock.h"

#include <string.h>

static const struct pccl_id ticket = {"a fuzzed ticket"};

static bool tell_ticket(void *context, const struct pccl_id *from, const struct pccl_id *to, struct pccl_id *out)
{
    (void)context;
    (void)from;
    *out = ticket;
    return to->bytes[0] == 'b';
}

static struct pccl_keys *make_keys(void)
{
    struct pccl_text reason;
    struct pccl_keys *keys = pccl_keys_of_peer(pccl_heap(), &(struct pccl_token){.pin = "a fuzzed pin"}, &reason);
    EXPECT(keys);
    pccl_keys_set_tickets(keys, tell_ticket, NULL);
    return keys;
}

/* Returns the number of bytes of a knock; the greeting follows it in `bytes`. */
static size_t knock(const struct pccl_keys *keys, bool of_link, uint8_t *bytes, size_t greeting)
{
    /* the name that net/dialer would give the link from aa.. to bb.. */
    static const char name[] = "pccl1 ls61616161616161616161616161616161-62626262626262626262626262626262";
    struct pccl_link_key link = {.keys = keys, .ticket = ticket};
    memset(&link.name.from, 'a', sizeof link.name.from);
    memset(&link.name.to, 'b', sizeof link.name.to);
    memcpy(link.identity, name, sizeof link.identity);
    size_t length = pccl_knock_bytes(of_link);
    EXPECT(pccl_knock_write(keys, of_link ? &link : NULL, bytes, length + greeting));
    return length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct pccl_keys *keys;
    static uint8_t bytes[PCCL_KNOCK_MAX + PCCL_GREETING_MAX + 100];
    if (!keys)
        keys = make_keys();
    if (size < 2 || size - 1 > PCCL_GREETING_MAX + 100)
        return 0;
    bool of_link = data[0] & 1, knocks = data[0] & 2;
    size_t before = knocks ? pccl_knock_bytes(of_link) : 0, length = before + size - 1, needed;
    memcpy(bytes + before, data + 1, size - 1);
    if (knocks)
        EXPECT(knock(keys, of_link, bytes, size - 1) == before);
    enum pccl_knock all = pccl_knock_judge(keys, of_link, bytes, length, &needed);
    bool is_good = all == PCCL_KNOCK_GOOD;
    EXPECT(!is_good || (knocks && needed == before));
    EXPECT(all != PCCL_KNOCK_EARLY || (needed > length && needed <= PCCL_KNOCK_MAX + PCCL_GREETING_MAX));
    for (size_t part = 0; part < length; part += 1 + part / 8) {
        enum pccl_knock judged = pccl_knock_judge(keys, of_link, bytes, part, &needed);
        EXPECT(judged == all || (judged == PCCL_KNOCK_EARLY && needed > part));
    }
    if (is_good) {
        bytes[4 + data[0] % (length - 4)] ^= 1;
        EXPECT(pccl_knock_judge(keys, of_link, bytes, length, &needed) != PCCL_KNOCK_GOOD);
    }
    return 0;
}
