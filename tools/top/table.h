/* The peers of a run as a table: columns that fit, sorting and searching. */
#ifndef PCCL_TOOLS_TOP_TABLE_H
#define PCCL_TOOLS_TOP_TABLE_H

#include "top/run.h"

enum { TABLE_SEARCH_MAX = 64, TABLE_BY_URGENCY = -1 };

struct table {
    int sorted_by; /* column, or TABLE_BY_URGENCY */
    bool reversed;
    char search[TABLE_SEARCH_MAX + 1]; /* shows only peers that contain this; "": all */
    uint32_t first;                    /* first row on the screen */
    uint32_t page;                     /* rows that fit, after table_draw */
    uint32_t found;                    /* rows that contain `search`, after table_draw */
};

/* Sets the column to sort by, "state" for the urgency. Returns false after a message on standard error. */
bool table_set_order(struct table *table, const char *command, const char *name);
/* Selects the next column to sort by. */
void table_next_order(struct table *table);
/* Moves the first row on the screen. */
void table_scroll(struct table *table, int64_t rows);
/* Returns the name of the order. */
const char *table_order(const struct table *table);

/* Sorts the rows and draws the ones that fit into the rows of the canvas. */
void table_draw(struct table *table, struct run *run, struct canvas *canvas);

#endif
