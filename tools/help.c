#include "help.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum {
    COLUMNS = 80,
    ABOUT_COLUMN = 24, /* column in which descriptions begin */
    WORD_BYTES_MAX = 32,
    TYPOS_MAX = 2,
};

/* Prints text from this column on, with line breaks between words, and ends the last line. */
static void print_wrapped(const char *text, int indent, int column)
{
    while (*text != '\0') {
        int spaces = (int)strspn(text, " "), length = (int)strcspn(text + spaces, " \n");
        const char *word = text + spaces;
        if (column > indent && column + spaces + length > COLUMNS) {
            (void)putchar('\n');
            column = spaces = 0;
        }
        column += printf("%*s%.*s", spaces + (column < indent ? indent - column : 0), "", length, word);
        text = word + length;
        if (*text == '\n') {
            (void)putchar('\n');
            column = 0;
            text++;
        }
    }
    (void)putchar('\n');
}

void help_print_row(const char *term, const char *about)
{
    int column = term != NULL ? printf("  %s", term) : 0;
    if (column + 2 > ABOUT_COLUMN) {
        (void)putchar('\n');
        column = 0;
    }
    print_wrapped(about, term != NULL ? ABOUT_COLUMN : 0, column);
}

void help_print(const struct help_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const bool is_paragraph = rows[i].term == NULL;
        if (i > 0 && (is_paragraph || rows[i - 1].term == NULL))
            (void)putchar('\n');
        help_print_row(rows[i].term, rows[i].about);
    }
}

/* ---- misspelled words ---- */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Returns the number of letters to insert, remove or replace, or of neighbours to swap, to get from one to the other.
 */
static size_t count_typos(const char *a, const char *b)
{
    size_t cost[WORD_BYTES_MAX + 1][WORD_BYTES_MAX + 1];
    size_t a_bytes = strlen(a), b_bytes = strlen(b);
    if (a_bytes > WORD_BYTES_MAX || b_bytes > WORD_BYTES_MAX)
        return WORD_BYTES_MAX;
    for (size_t i = 0; i <= a_bytes; i++) {
        for (size_t j = 0; j <= b_bytes; j++) {
            if (i == 0 || j == 0) {
                cost[i][j] = i + j;
                continue;
            }
            cost[i][j] = least(least(cost[i - 1][j], cost[i][j - 1]) + 1, cost[i - 1][j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                cost[i][j] = least(cost[i][j], cost[i - 2][j - 2] + 1);
        }
    }
    return cost[a_bytes][b_bytes];
}

const char *help_closest(const char *word, const char *const *names, size_t count)
{
    const char *closest = NULL;
    size_t fewest = least(TYPOS_MAX, strlen(word) / 3) + 1; /* short words are close to many names */
    for (size_t i = 0; i < count; i++) {
        size_t typos = count_typos(word, names[i]);
        if (typos < fewest) {
            fewest = typos;
            closest = names[i];
        }
    }
    return closest;
}
