/* A text is refused with a reason that names a line, or it is a report that prints as a text of the same report. */
#include "fuzz.h"

#include "perf/report_parse.h"

#include <string.h>

/* Counts the memory that is requested, because a short text must not cause large requests. */
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

/* Checks that a report, printed in full and read again, prints as the same text. */
static void expect_stable(const struct pccl_topology_report *report, const struct pccl_memory *memory, bool ring_only)
{
    struct pccl_topology_report again;
    struct pccl_text reason;
    size_t length = pccl_topology_report_print(report, ring_only, NULL, 0);
    char *text = malloc(length), *second = malloc(length);
    EXPECT(text != NULL && second != NULL);
    EXPECT(pccl_topology_report_print(report, ring_only, text, length) == length);
    EXPECT(pccl_topology_report_print(report, ring_only, second, length / 2) == length);
    EXPECT(memcmp(text, second, length / 2) == 0);
    EXPECT(perf_report_parse(text, length, memory, &again, &reason) == PCCL_OK);
    EXPECT(pccl_topology_report_print(&again, false, second, length) == length);
    EXPECT(memcmp(text, second, length) == 0);
    pccl_topology_report_fini(&again);
    free(text);
    free(second);
}

static void expect_readable(const struct pccl_topology_report *report)
{
    struct pccl_topology_report again;
    struct pccl_text reason;
    size_t length = pccl_topology_report_print(report, false, NULL, 0);
    char *text = malloc(length);
    EXPECT(text != NULL);
    (void)pccl_topology_report_print(report, false, text, length);
    EXPECT(perf_report_parse(text, length, &report->memory, &again, &reason) == PCCL_OK);
    pccl_topology_report_fini(&again);
    free(text);
}

/* Checks that neither the ring nor trees promise more than the bound, and that the text of a promise is readable. */
static void expect_promise(struct pccl_topology_report *report)
{
    EXPECT(pccl_topology_report_promise(report, report->ring));
    EXPECT(report->promise.ring <= report->promise.bound.rate);
    EXPECT(report->promise.trees.rate <= report->promise.bound.rate);
    expect_readable(report);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct heap heap = {0};
    const struct pccl_memory memory = {heap_resize, &heap};
    struct pccl_topology_report report;
    struct pccl_text reason;
    if (perf_report_parse((const char *)data, size, &memory, &report, &reason) == PCCL_OK) {
        expect_stable(&report, &memory, false);
        expect_stable(&report, &memory, true);
        EXPECT(heap.most <= 1000 + 50 * size); /* enough for two reports at once */
        expect_promise(&report);
        pccl_topology_report_fini(&report);
    } else {
        EXPECT(reason.length > 6 && memcmp(reason.bytes, "line ", 5) == 0);
        EXPECT(heap.most <= 1000 + 50 * size);
    }
    EXPECT(heap.live == 0);
    return 0;
}
