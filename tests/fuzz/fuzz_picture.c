/* A text is refused in words that name a line, or it is a picture that prints as a text of the same picture. */
#include "fuzz.h"

#include "topology/picture.h"

#include <string.h>

/* Counts what is asked for at once: a short text must not make it much. */
struct heap {
    size_t live, most;
};

static void *heap_resize(void *context, void *block, size_t old_bytes, size_t new_bytes)
{
    struct heap *heap = context;
    heap->live += new_bytes - old_bytes;
    if (heap->live > heap->most)
        heap->most = heap->live;
    if (new_bytes > 0) {
        void *grown = realloc(block, new_bytes);
        EXPECT(grown != NULL);
        return grown;
    }
    free(block);
    return NULL;
}

/* Printed in full, read and printed again it is the same text. */
static void expect_stable(const struct pccl_picture *picture, const struct pccl_memory *memory, bool ring_only)
{
    struct pccl_picture again;
    struct pccl_text words;
    size_t length = pccl_picture_print(picture, ring_only, NULL, 0);
    char *text = malloc(length), *second = malloc(length);
    EXPECT(text != NULL && second != NULL);
    EXPECT(pccl_picture_print(picture, ring_only, text, length) == length);
    EXPECT(pccl_picture_print(picture, ring_only, second, length / 2) == length);
    EXPECT(memcmp(text, second, length / 2) == 0);
    EXPECT(pccl_picture_read(text, length, memory, &again, &words) == PCCL_OK);
    EXPECT(pccl_picture_print(&again, false, second, length) == length);
    EXPECT(memcmp(text, second, length) == 0);
    pccl_picture_fini(&again);
    free(text);
    free(second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct heap heap = {0};
    const struct pccl_memory memory = {heap_resize, &heap};
    struct pccl_picture picture;
    struct pccl_text words;
    if (pccl_picture_read((const char *)data, size, &memory, &picture, &words) == PCCL_OK) {
        expect_stable(&picture, &memory, false);
        expect_stable(&picture, &memory, true);
        pccl_picture_fini(&picture);
    } else {
        EXPECT(words.length > 6 && memcmp(words.bytes, "line ", 5) == 0);
    }
    EXPECT(heap.live == 0);
    EXPECT(heap.most <= 1000 + 50 * size); /* two pictures at once */
    return 0;
}
