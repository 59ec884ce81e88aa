/*
 * A text is refused as a token file, or the result of reading it writes a text that reads as the same one, and the
 * result conforms to the rules of token files.
 */
#include "fuzz.h"

#include "ops/token_file.h"
#include "net/heap.h"

#include <string.h>

static void check(const struct pccl_token_file *book)
{
    EXPECT(book->count <= PCCL_TOKEN_FILE_PASSES_MAX && book->invitation_count <= PCCL_TOKEN_FILE_INVITATIONS_MAX);
    for (uint32_t i = 0; i < book->count; i++) {
        const struct pccl_pass *pass = &book->passes[i];
        EXPECT(pass->number <= book->last_number && pass->role < PCCL_ROLES);
        EXPECT(pass->uses == 0 || pass->used <= pass->uses);
        EXPECT(i == 0 || pass[-1].number < pass->number);
        EXPECT(memchr(pass->label, '\0', sizeof pass->label) != NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pccl_token_file book, again;
    struct pccl_print one, two;
    struct pccl_text reason;
    pccl_token_file_init(&book, pccl_heap());
    if (pccl_token_file_read(&book, (const char *)data, size, &reason) != PCCL_OK) {
        EXPECT(reason.length > 0 && book.count == 0);
        return 0;
    }
    check(&book);
    pccl_print_init(&one, pccl_heap(), PCCL_TOKEN_FILE_TEXT_MAX);
    pccl_print_init(&two, pccl_heap(), PCCL_TOKEN_FILE_TEXT_MAX);
    pccl_token_file_init(&again, pccl_heap());
    pccl_token_file_write(&book, &one);
    pccl_token_file_pad(&book, &one);
    EXPECT(!one.failed && pccl_token_file_read(&again, one.bytes, one.length, &reason) == PCCL_OK);
    pccl_token_file_write(&again, &two);
    pccl_token_file_pad(&again, &two);
    EXPECT(one.length == two.length && memcmp(one.bytes, two.bytes, one.length) == 0);
    pccl_print_fini(&one);
    pccl_print_fini(&two);
    pccl_token_file_fini(&book);
    pccl_token_file_fini(&again);
    return 0;
}
