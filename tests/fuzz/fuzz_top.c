/*
 * Any text is refused, or `pccl top` shows it as the state of a run: on a screen of any size all lines fit, and they
 * consist of printable characters.
 */
#include "fuzz.h"

#include "top/table.h"

#include "net/heap.h"

#include <stdlib.h>
#include <string.h>

static void check_lines(const struct canvas *canvas)
{
    const char *at = canvas->print->bytes, *end = at + canvas->print->length;
    int rows = 0;
    while (at < end) {
        char line[4096];
        size_t length = 0, size;
        for (; at < end && *at != '\n'; at += size, length += size) {
            size = pccl_text_character(at, (size_t)(end - at));
            EXPECT(size > 0 && length + size < sizeof line);
            memcpy(line + length, at, size);
        }
        line[length] = '\0';
        EXPECT(canvas->columns == 0 || canvas_width(canvas, line) <= canvas->columns);
        at++;
        rows++;
    }
    EXPECT(rows <= canvas->rows);
}

static void draw(struct run *run, int columns, int rows, int order)
{
    struct pccl_print print;
    struct canvas canvas = {.print = &print, .columns = columns, .rows = rows, .utf8 = order % 2 == 0};
    struct table table = {.sorted_by = order, .first = 3, .reversed = order % 3 == 0, .search = "e"};
    table.search[order & 1] = '\0'; /* sorted_by may be -1 */
    pccl_print_init(&print, pccl_heap(), 1 << 20);
    run_draw(run, &canvas);
    table_draw(&table, run, &canvas);
    EXPECT(table.found <= run->count);
    if (!print.failed)
        check_lines(&canvas);
    pccl_print_fini(&print);
}

/* A text is torn only if it is no JSON; its items have the counted number of values. */
static void check_torn(const char *text)
{
    bool torn = false;
    const struct json_value *root = json_read(text, NULL), *part = json_read(text, &torn);
    EXPECT(root == NULL || (part != NULL && !torn && part->values == root->values));
    for (const struct json_value *at = json_first(part); at != NULL; at = json_next(part, at))
        EXPECT(at->values > 0 && at + at->values <= part + part->values && at->text != NULL);
    json_free(root);
    json_free(part);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int sizes[][2] = {{0, CANVAS_ALL}, {80, 24}, {200, 50}, {40, 8}, {3, 2}, {1, 1}};
    struct run run = {.count = 0};
    char *text = malloc(size + 1);
    if (text == NULL)
        return 0;
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    check_torn(text);
    if (run_read(&run, text)) {
        for (size_t i = 0; i < PCCL_COUNT_OF(sizes); i++)
            draw(&run, sizes[i][0], sizes[i][1], (int)(size + i) % 11 - 1);
        run_free(&run);
    }
    free(text);
    return 0;
}
