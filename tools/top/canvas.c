#include "top/canvas.h"

#include <stdio.h>
#include <string.h>

/* A character of a text in the form that is written. */
struct shown {
    const char *bytes;
    size_t length; /* of `bytes` */
    size_t taken;  /* bytes of the text; 0 at its end */
    int width;     /* columns */
};

/* Returns the number of columns of a character: most East Asian characters and symbols take two. */
static int width_of(const char *bytes, size_t length)
{
    static const struct {
        uint32_t first, last;
        int width;
    } ranges[] = {{0x0300, 0x036f, 0},  {0x1100, 0x115f, 2},   {0x2e80, 0xa4cf, 2},   {0xac00, 0xd7a3, 2},
                  {0xf900, 0xfaff, 2},  {0xfe20, 0xfe2f, 0},   {0xfe30, 0xfe6f, 2},   {0xff00, 0xff60, 2},
                  {0xffe0, 0xffe6, 2},  {0x1f300, 0x1f64f, 2}, {0x1f680, 0x1f6ff, 2}, {0x1f900, 0x1faff, 2},
                  {0x20000, 0x3fffd, 2}};
    static const unsigned char masks[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t character = (unsigned char)bytes[0] & masks[length];
    for (size_t i = 1; i < length; i++)
        character = character << 6 | ((unsigned char)bytes[i] & 0x3f);
    for (size_t i = 0; i < PCCL_COUNT_OF(ranges); i++)
        if (character >= ranges[i].first && character <= ranges[i].last)
            return ranges[i].width;
    return 1;
}

static struct shown next_shown(const struct canvas *canvas, const char *text)
{
    struct shown shown = {.bytes = text, .taken = pccl_text_character(text, pccl_string_length(text, 4)), .width = 1};
    shown.length = shown.taken;
    if (*text == '\0' || (shown.taken > 0 && (canvas->utf8 || shown.taken == 1))) {
        if (shown.taken > 1)
            shown.width = width_of(text, shown.taken);
        return shown;
    }
    shown.bytes = "?";
    shown.length = 1;
    shown.taken = shown.taken > 0 ? shown.taken : 1;
    return shown;
}

int canvas_width(const struct canvas *canvas, const char *text)
{
    int width = 0;
    for (struct shown shown; (shown = next_shown(canvas, text)).taken > 0; text += shown.taken)
        width += shown.width;
    return width;
}

static bool has_row(const struct canvas *canvas) { return canvas->row < canvas->rows; }

static void put_blanks(struct canvas *canvas)
{
    for (; canvas->blanks > 0; canvas->blanks--, canvas->column++)
        pccl_print_add(canvas->print, " ");
}

static void add(struct canvas *canvas, const char *bytes, size_t length, int width)
{
    int column = canvas->column + canvas->blanks;
    if (!has_row(canvas) || (canvas->columns > 0 && column + width > canvas->columns)) {
        canvas->column = canvas->columns; /* narrower characters that follow would be in the wrong place */
        return;
    }
    put_blanks(canvas);
    pccl_print_add_bytes(canvas->print, bytes, length);
    canvas->column += width;
}

static void put_until(struct canvas *canvas, const char *text, const char *end, int width)
{
    for (struct shown shown; text != end && (shown = next_shown(canvas, text)).taken > 0; text += shown.taken) {
        if (shown.width > width)
            return;
        width -= shown.width;
        add(canvas, shown.bytes, shown.length, shown.width);
    }
}

static void pad(struct canvas *canvas, int width) { canvas->blanks += width > 0 ? width : 0; }

void canvas_put(struct canvas *canvas, const char *text) { put_until(canvas, text, NULL, INT32_MAX); }

void canvas_put_left(struct canvas *canvas, const char *text, int width)
{
    put_until(canvas, text, NULL, width);
    pad(canvas, width - canvas_width(canvas, text));
}

void canvas_put_right(struct canvas *canvas, const char *text, int width)
{
    pad(canvas, width - canvas_width(canvas, text));
    put_until(canvas, text, NULL, width);
}

void canvas_format(struct canvas *canvas, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    canvas_put(canvas, text);
}

void canvas_style(struct canvas *canvas, enum style style)
{
    static const char *const codes[] = {
        [STYLE_PLAIN] = "\033[0m", [STYLE_BAD] = "\033[1;31m", [STYLE_CARE] = "\033[33m",
        [STYLE_GOOD] = "\033[32m", [STYLE_TITLE] = "\033[7m",  [STYLE_FAINT] = "\033[2m"};
    canvas->style = style;
    if (!canvas->color || !has_row(canvas))
        return;
    if (style != STYLE_PLAIN && (canvas->columns == 0 || canvas->column + canvas->blanks < canvas->columns))
        put_blanks(canvas);
    pccl_print_add(canvas->print, codes[style]);
}

void canvas_end_line(struct canvas *canvas)
{
    canvas_style(canvas, STYLE_PLAIN);
    if (has_row(canvas)) {
        if (canvas->live_rows > 0)
            pccl_print_add(canvas->print, "\033[K"); /* a line break after the last row would scroll */
        if (canvas->row + 1 != canvas->live_rows)
            pccl_print_add(canvas->print, "\n");
    }
    canvas->column = canvas->blanks = 0;
    canvas->row++;
}

void canvas_put_lines(struct canvas *canvas, const char *text)
{
    const char *word = text;
    enum style style = canvas->style;
    while (*word != '\0') {
        const char *end = word + strspn(word, " "), *begin = canvas->column == 0 ? end : word;
        end += strcspn(end, " ");
        int width = canvas_width(canvas, begin) - canvas_width(canvas, end);
        if (canvas->column > 0 && canvas->columns > 0 && canvas->column + width > canvas->columns) {
            canvas_end_line(canvas);
            canvas_style(canvas, style);
            pad(canvas, 2);
            begin += strspn(begin, " ");
        }
        put_until(canvas, begin, end, INT32_MAX);
        word = end;
    }
    canvas_end_line(canvas);
}

void canvas_put_bars(struct canvas *canvas, const double *values, int count)
{
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char *const letters[] = {" ", ".", ":", "-", "=", "+", "*", "#", "@"};
    double most = 0;
    for (int i = 0; i < count; i++)
        most = values[i] > most ? values[i] : most;
    for (int i = 0; i < count; i++) {
        int height = values[i] > 0 ? (int)(8 * (values[i] / most) + 0.5) : 0;
        if (values[i] > 0 && height == 0)
            height = 1;
        canvas_put(canvas, canvas->utf8 ? blocks[height] : letters[height]);
    }
}
