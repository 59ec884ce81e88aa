/*
 * A text is none of a book of tokens, or what is read writes a text that is read as the same book: one with which
 * nothing can happen that the rules of books exclude.
 */
#include "fuzz.h"

#include "ops/book.h"
#include "net/heap.h"

#include <string.h>

static void check(const struct pccl_book *book)
{
    EXPECT(book->count <= PCCL_BOOK_PASSES_MAX && book->guest_count <= PCCL_BOOK_GUESTS_MAX);
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
    struct pccl_book book, again;
    struct pccl_print one, two;
    struct pccl_text reason;
    pccl_book_init(&book, pccl_heap());
    if (pccl_book_read(&book, (const char *)data, size, &reason) != PCCL_OK) {
        EXPECT(reason.length > 0 && book.count == 0);
        return 0;
    }
    check(&book);
    pccl_print_init(&one, pccl_heap(), PCCL_BOOK_TEXT_MAX);
    pccl_print_init(&two, pccl_heap(), PCCL_BOOK_TEXT_MAX);
    pccl_book_init(&again, pccl_heap());
    pccl_book_write(&book, &one);
    pccl_book_pad(&book, &one);
    EXPECT(!one.failed && pccl_book_read(&again, one.bytes, one.length, &reason) == PCCL_OK);
    pccl_book_write(&again, &two);
    pccl_book_pad(&again, &two);
    EXPECT(one.length == two.length && memcmp(one.bytes, two.bytes, one.length) == 0);
    pccl_print_fini(&one);
    pccl_print_fini(&two);
    pccl_book_fini(&book);
    pccl_book_fini(&again);
    return 0;
}
