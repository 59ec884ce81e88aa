/* The terminal of a program that draws on all of it and reads single keys. */
#ifndef PCCL_TOOLS_SYSTEM_TERMINAL_H
#define PCCL_TOOLS_SYSTEM_TERMINAL_H

#include <stdbool.h>

/* Keys that are not one byte of text. */
enum {
    TERMINAL_NONE = 256, /* no key within the time limit */
    TERMINAL_REDRAW,     /* the size has changed, or the program continues after a stop */
    TERMINAL_QUIT,       /* Ctrl-C, or a signal that ends programs */
    TERMINAL_ESCAPE,
    TERMINAL_ENTER,
    TERMINAL_BACKSPACE,
    TERMINAL_UP,
    TERMINAL_DOWN,
    TERMINAL_LEFT,
    TERMINAL_RIGHT,
    TERMINAL_PAGE_UP,
    TERMINAL_PAGE_DOWN,
    TERMINAL_HOME,
    TERMINAL_END,
};

/* Returns true if standard output is a terminal that can move its cursor, and makes it accept control sequences. */
bool terminal_is_capable(void);
/* Returns true if the terminal shows UTF-8. */
bool terminal_is_utf8(void);
/* Sets the size of the terminal; 80 x 24 if it is unknown. */
void terminal_size(int *columns, int *rows);
/* Begins to deliver single keys without displaying them. Signals that end programs become TERMINAL_QUIT. */
void terminal_begin(void);
/* Restores the terminal. */
void terminal_end(void);
/*
 * Waits for a key. Returns one of the constants, or a byte of text. Without a terminal as standard input only signals
 * arrive.
 */
int terminal_key(int limit_ms);

#endif
