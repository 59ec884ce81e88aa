/*
 * Makes frames for tests that talk to a master or a peer byte by byte: Python has no XXH3. One
 * command a line, hex out.
 *   frame <type> <sequence> <acknowledged> <body in hex, or ->   a frame with a right checksum
 *   random <type> <seed>      the body of a random valid message of that type
 */
#include "core/prng.h"
#include "net/build.h"
#include "support/wire_random.h"
#include "wire/frame.h"
#include "wire/wire.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct pccl_wire_scratch scratch;

static void put(uint8_t *at, uint64_t value, int width)
{
    for (int i = 0; i < width; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

static void print_hex(const uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        printf("%02x", bytes[i]);
    printf("\n");
    fflush(stdout);
}

static void forge_frame(uint64_t type, uint64_t sequence, uint64_t acknowledged, const char *hex)
{
    enum { HEADER = PCCL_FRAME_HEADER_BYTES, CHECKED = 24 };
    size_t length = strcmp(hex, "-") == 0 ? 0 : strlen(hex) / 2;
    uint8_t *frame = calloc(1, HEADER + length), *summed = malloc(CHECKED + length);
    if (frame == NULL || summed == NULL)
        exit(3);
    put(frame, length, 4);
    put(frame + 4, type, 2);
    put(frame + 8, sequence, 8);
    put(frame + 16, acknowledged, 8);
    for (size_t i = 0; i < length; i++) {
        char pair[] = {hex[2 * i], hex[2 * i + 1], 0};
        frame[HEADER + i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    memcpy(summed, frame, CHECKED);
    memcpy(summed + CHECKED, frame + HEADER, length);
    put(frame + CHECKED, XXH3_64bits(summed, CHECKED + length), 4);
    print_hex(frame, HEADER + length);
    free(frame);
    free(summed);
}

static void forge_random(uint64_t type, uint64_t seed)
{
    struct pccl_prng prng;
    struct pccl_msg msg;
    if (pccl_wire_layout_of((uint16_t)type) == NULL) {
        printf("-\n");
        fflush(stdout);
        return;
    }
    pccl_prng_seed(&prng, seed);
    pccl_wire_random((uint16_t)type, &prng, &scratch, &msg);
    if (type == PCCL_MSG_hello)
        msg.as.hello.build = *pccl_build_own();
    size_t length = pccl_wire_size(&msg);
    uint8_t *body = malloc(length + 1);
    if (body == NULL)
        exit(3);
    pccl_wire_encode(&msg, body);
    print_hex(body, length);
    free(body);
}

int main(void)
{
    static char line[1 << 20];
    while (fgets(line, sizeof line, stdin) != NULL) {
        char *rest = NULL, *words[5] = {0};
        for (int i = 0; i < 5; i++)
            words[i] = strtok_r(i == 0 ? line : NULL, " \n", &rest);
        if (words[4] != NULL && strcmp(words[0], "frame") == 0)
            forge_frame(strtoull(words[1], NULL, 0), strtoull(words[2], NULL, 0), strtoull(words[3], NULL, 0),
                        words[4]);
        else if (words[2] != NULL && strcmp(words[0], "random") == 0)
            forge_random(strtoull(words[1], NULL, 0), strtoull(words[2], NULL, 0));
        else
            return 3;
    }
    return 0;
}
