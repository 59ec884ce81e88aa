/*
 * A text is refused, or it is the only text of its token with the right checksum, apart from white space around it; any
 * bytes have a valid text. The same applies to a master's key. The first bytes of a connection are of one kind only.
 */
#include "fuzz.h"

#include "core/token.h"
#include "net/knock.h"
#include "wire/frame.h"

#include <string.h>

static bool is_blank(char letter) { return letter == ' ' || letter == '\n' || letter == '\r' || letter == '\t'; }

/* Compares a text with the expected one, apart from the white space. */
static void expect_text(const char *text, const char *meant)
{
    while (is_blank(*text))
        text++;
    size_t length = strlen(meant);
    EXPECT(strncmp(text, meant, length) == 0);
    for (text += length; *text != '\0'; text++)
        EXPECT(is_blank(*text));
}

static void read_text(const char *text)
{
    struct pccl_token token;
    struct pccl_secret secret;
    char again[PCCL_TOKEN_TEXT + 1];
    if (!pccl_token_read(text, &token) && token.checked) {
        pccl_token_write(&token, again);
        expect_text(text, again);
    }
    if (pccl_secret_read(text, &secret)) {
        pccl_secret_write(&secret, again);
        expect_text(text, again);
    }
}

static void write_text(const uint8_t *data)
{
    struct pccl_token token, read;
    char text[PCCL_TOKEN_TEXT + 1];
    memcpy(token.pin, data, sizeof token.pin);
    memcpy(token.secret.bytes, data + sizeof token.pin, sizeof token.secret.bytes);
    pccl_token_write(&token, text);
    EXPECT(!pccl_token_read(text, &read) && read.checked);
    EXPECT(memcmp(read.pin, token.pin, sizeof token.pin) == 0);
    EXPECT(memcmp(read.secret.bytes, token.secret.bytes, sizeof token.secret.bytes) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[256];
    size_t length = size < sizeof text ? size : sizeof text - 1;
    memcpy(text, data, length);
    text[length] = '\0';
    read_text(text);
    if (size >= PCCL_PIN_BYTES + PCCL_SECRET_BYTES)
        write_text(data);
    if (pccl_knock_is_secure(data, size)) /* then it is not a valid first frame */
        EXPECT((data[0] | data[1] << 8 | data[2] << 16) > PCCL_FRAME_HELLO_MAX);
    return 0;
}
