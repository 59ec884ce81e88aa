/* A text is refused, or it is an address whose text reads as the same address; any 16 bytes have a valid text. */
#include "fuzz.h"

#include "core/address.h"

#include <string.h>

/* Parses the address part of "1.2.3.4:5" or "[::1]:5" back. */
static void expect_same_from_text(const struct pccl_address *address)
{
    struct pccl_text text;
    struct pccl_address again;
    pccl_address_text(address, &text);
    const char *colon = memrchr(text.bytes, ':', text.length);
    EXPECT(colon != NULL);
    const char *begin = text.bytes, *end = colon;
    if (*begin == '[') {
        begin++;
        end--;
        EXPECT(*end == ']');
    }
    EXPECT(pccl_address_parse_ip(begin, (size_t)(end - begin), &again));
    EXPECT(strtoul(colon + 1, NULL, 10) == address->port);
    again.port = address->port;
    EXPECT(pccl_address_equal(address, &again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pccl_address address;
    if (pccl_address_parse_ip((const char *)data, size, &address)) {
        EXPECT(address.port == 0);
        expect_same_from_text(&address);
    }
    if (size >= sizeof address.ip + 2) {
        memcpy(address.ip, data, sizeof address.ip);
        address.port = (uint16_t)(data[16] | data[17] << 8);
        expect_same_from_text(&address);
    }
    return 0;
}
