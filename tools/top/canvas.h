/* Text for a screen of a given size. Everything that is put on it is made printable. */
#ifndef PCCL_TOOLS_TOP_CANVAS_H
#define PCCL_TOOLS_TOP_CANVAS_H

#include "core/print.h"

#include <stdbool.h>

enum { CANVAS_ALL = INT32_MAX };

enum style { STYLE_PLAIN, STYLE_BAD, STYLE_CARE, STYLE_GOOD, STYLE_TITLE, STYLE_FAINT };

struct canvas {
    struct pccl_print *print; /* borrowed */
    int columns;              /* 0: no limit */
    int rows;                 /* rows that may be used, or CANVAS_ALL */
    int live_rows;            /* rows of the screen on which lines replace others; 0: no such screen */
    bool color, utf8;
    int column, row; /* place of the next character */
    enum style style;
    int blanks; /* to be written before it */
};

/* Put text at the end of the line, as far as it fits. `width`: number of columns to fill; 0: as many as it needs. */
void canvas_put(struct canvas *canvas, const char *text);
void canvas_put_left(struct canvas *canvas, const char *text, int width);
void canvas_put_right(struct canvas *canvas, const char *text, int width);
PCCL_PRINTF(2, 3) void canvas_format(struct canvas *canvas, const char *format, ...);
/* Sets the style of the text that follows in this line. */
void canvas_style(struct canvas *canvas, enum style style);
void canvas_end_line(struct canvas *canvas);
/* Puts text in as many lines as it needs, each of whole words, and ends the last one. */
void canvas_put_lines(struct canvas *canvas, const char *text);
/* Puts a bar for each value, the highest of full height. */
void canvas_put_bars(struct canvas *canvas, const double *values, int count);
/* Returns the number of columns that the text takes. */
int canvas_width(const struct canvas *canvas, const char *text);

#endif
