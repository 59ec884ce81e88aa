#include "top/table.h"

#include "help.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELL_BYTES = 160 };

/* ---- columns ---- */

static void put_name(const struct json_value *peer, char *text) { run_name_text(peer, text, CELL_BYTES); }

static void put_number(const struct json_value *peer, const char *key, char *text)
{
    const struct json_value *value = json_get(peer, key);
    (void)snprintf(text, CELL_BYTES, "%s", value != NULL && value->type == JSON_NUMBER ? value->text : "-");
}

static void put_group(const struct json_value *peer, char *text) { put_number(peer, "group", text); }

static void put_rank(const struct json_value *peer, char *text) { put_number(peer, "rank", text); }

static void put_seen(const struct json_value *peer, char *text)
{
    run_time_text(json_number(peer, "last_word_ms"), text, CELL_BYTES);
}

static double rate_of(const struct json_value *peer)
{
    double achieved = json_number(peer, "achieved_to_next");
    return achieved > 0 ? achieved : json_number(peer, "rate_to_next");
}

static void put_rate(const struct json_value *peer, char *text)
{
    if (rate_of(peer) > 0)
        run_rate_text(rate_of(peer), text, CELL_BYTES);
    else
        (void)snprintf(text, CELL_BYTES, "-");
}

static void put_step(const struct json_value *peer, char *text) { put_number(peer, "step", text); }

static void put_loss(const struct json_value *peer, char *text)
{
    const struct json_value *loss = json_get(peer, "loss");
    if (loss != NULL && loss->type == JSON_NUMBER)
        (void)snprintf(text, CELL_BYTES, "%.4g", loss->number);
    else
        (void)snprintf(text, CELL_BYTES, loss != NULL ? "nan" : "-");
}

static void put_call(const struct json_value *peer, char *text)
{
    const char *call = json_string(peer, "in");
    (void)snprintf(text, CELL_BYTES, "%s", call[0] != '\0' ? call : "its own code");
}

static void put_address(const struct json_value *peer, char *text)
{
    (void)snprintf(text, CELL_BYTES, "%s", json_string(peer, "address"));
}

static double seen_of(const struct json_value *peer) { return -json_number(peer, "last_word_ms"); }

static double step_of(const struct json_value *peer) { return json_number(peer, "step"); }

static double loss_of(const struct json_value *peer)
{
    const struct json_value *loss = json_get(peer, "loss");
    return loss == NULL ? HUGE_VAL : loss->type == JSON_NUMBER ? -loss->number : -HUGE_VAL;
}

static double group_of(const struct json_value *peer) { return json_number(peer, "group"); }

static double rank_of(const struct json_value *peer) { return json_number(peer, "rank"); }

static const struct column {
    const char *title, *name;
    /* Writes the cell; NULL: the state. */
    void (*put)(const struct json_value *peer, char *text);
    /* Returns the value to sort by, the least first; NULL: sorted by the text. */
    double (*value)(const struct json_value *peer);
    int least, most; /* width; a column that is as wide as its content has least 0 */
    int order;       /* the column with the highest one is left out first; 0: never */
    bool is_left;
} columns[] = {
    {"PEER", "peer", put_name, NULL, 18, 40, 0, true},        {"STATE", "state", NULL, NULL, 0, 12, 0, true},
    {"GROUP", "group", put_group, group_of, 0, 10, 3, false}, {"RANK", "rank", put_rank, rank_of, 0, 5, 2, false},
    {"LAST SEEN", "seen", put_seen, seen_of, 9, 9, 0, false}, {"TO NEXT", "rate", put_rate, rate_of, 9, 10, 0, false},
    {"STEP", "step", put_step, step_of, 0, 20, 0, false},     {"LOSS", "loss", put_loss, loss_of, 0, 10, 0, false},
    {"IN", "call", put_call, NULL, 10, 40, 1, true},          {"ADDRESS", "address", put_address, NULL, 0, 48, 4, true},
};

enum { COLUMNS = PCCL_COUNT_OF(columns), PEER = 0, STATE = 1, GROUP = 2, CALL = 8, NARROW_NAME = 8 };

static void put_cell(const struct run_row *row, int column, char *text)
{
    if (columns[column].put != NULL)
        columns[column].put(row->peer, text);
    else
        (void)snprintf(text, CELL_BYTES, "%s", row->state);
}

/* ---- widths ---- */

static int total_of(const int widths[COLUMNS])
{
    int total = -1;
    for (int i = 0; i < COLUMNS; i++)
        total += widths[i] > 0 ? widths[i] + 1 : 0;
    return total;
}

/* Makes a column narrower, as far as needed and allowed. */
static void narrow(int widths[COLUMNS], int column, int least, int room)
{
    int excess = total_of(widths) - room;
    if (excess > 0 && widths[column] > least)
        widths[column] = widths[column] - excess > least ? widths[column] - excess : least;
}

static int find_least_important(const int widths[COLUMNS])
{
    int found = -1;
    for (int i = 0; i < COLUMNS; i++)
        if (widths[i] > 0 && columns[i].order > 0 && (found < 0 || columns[i].order > columns[found].order))
            found = i;
    return found;
}

/* Sets the width that each column needs for all rows; 0: the column says nothing. */
static void measure(const struct run *run, const struct canvas *canvas, int widths[COLUMNS])
{
    bool has_groups = false;
    for (int i = 0; i < COLUMNS; i++)
        widths[i] = (int)strlen(columns[i].title) > columns[i].least ? (int)strlen(columns[i].title) : columns[i].least;
    for (uint32_t i = 0; i < run->count; i++) {
        has_groups = has_groups || group_of(run->rows[i].peer) != 0;
        for (int column = 0; column < COLUMNS; column++) {
            char text[CELL_BYTES];
            put_cell(&run->rows[i], column, text);
            int width = canvas_width(canvas, text);
            width = width < columns[column].most ? width : columns[column].most;
            widths[column] = width > widths[column] ? width : widths[column];
        }
    }
    if (!has_groups)
        widths[GROUP] = 0;
}

static void fit(const struct run *run, const struct canvas *canvas, int widths[COLUMNS])
{
    int least[COLUMNS], left_out;
    measure(run, canvas, widths);
    if (canvas->columns == 0)
        return;
    for (int i = 0; i < COLUMNS; i++)
        least[i] = columns[i].least > 0 && columns[i].least < widths[i] ? columns[i].least : widths[i];
    while (total_of(least) > canvas->columns && (left_out = find_least_important(least)) >= 0)
        least[left_out] = widths[left_out] = 0;
    narrow(widths, CALL, least[CALL], canvas->columns);
    narrow(widths, PEER, NARROW_NAME, canvas->columns);
}

/* ---- order ---- */

static const struct table *sorting; /* qsort has no argument for it */

static int compare(const void *a, const void *b)
{
    const struct run_row *row = a, *other = b;
    const struct column *column = &columns[sorting->sorted_by];
    int order;
    if (column->value != NULL) {
        double first = column->value(row->peer), second = column->value(other->peer);
        order = (first > second) - (first < second);
    } else {
        char first[CELL_BYTES], second[CELL_BYTES];
        put_cell(row, sorting->sorted_by, first);
        put_cell(other, sorting->sorted_by, second);
        order = strcmp(first, second);
    }
    return order != 0 ? order : run_compare(a, b);
}

static void sort(const struct table *table, struct run *run)
{
    sorting = table;
    qsort(run->rows, run->count, sizeof *run->rows, table->sorted_by == TABLE_BY_URGENCY ? run_compare : compare);
    for (uint32_t i = 0; table->reversed && i < run->count / 2; i++) {
        struct run_row row = run->rows[i];
        run->rows[i] = run->rows[run->count - 1 - i];
        run->rows[run->count - 1 - i] = row;
    }
}

bool table_set_order(struct table *table, const char *command, const char *name)
{
    const char *names[COLUMNS];
    for (int i = 0; i < COLUMNS; i++) {
        names[i] = columns[i].name;
        if (strcmp(name, names[i]) == 0) {
            table->sorted_by = i == STATE ? TABLE_BY_URGENCY : i;
            return true;
        }
    }
    const char *closest = help_closest(name, names, COLUMNS);
    (void)fprintf(stderr, "%s: invalid value '%.200s' for --sort: expected ", command, name);
    for (int i = 0; i < COLUMNS; i++)
        (void)fprintf(stderr, "%s%s", i == 0 ? "" : i + 1 < COLUMNS ? ", " : " or ", names[i]);
    if (closest != NULL)
        (void)fprintf(stderr, "; did you mean '%s'?", closest);
    (void)fputs("\n", stderr);
    return false;
}

void table_next_order(struct table *table)
{
    int next = table->sorted_by + 1;
    table->sorted_by = next == STATE ? STATE + 1 : next < COLUMNS ? next : TABLE_BY_URGENCY;
    table->reversed = false;
}

const char *table_order(const struct table *table)
{
    return columns[table->sorted_by == TABLE_BY_URGENCY ? STATE : table->sorted_by].name;
}

/* ---- search ---- */

static char lower(char byte) { return (char)(byte >= 'A' && byte <= 'Z' ? byte - 'A' + 'a' : byte); }

static bool contains(const char *text, const char *word)
{
    for (; *text != '\0'; text++) {
        size_t same = 0;
        while (word[same] != '\0' && lower(text[same]) == lower(word[same]))
            same++;
        if (word[same] == '\0')
            return true;
    }
    return word[0] == '\0';
}

static bool is_wanted(const struct table *table, const struct run_row *row)
{
    if (contains(json_string(row->peer, "id"), table->search))
        return true;
    for (int i = 0; i < COLUMNS; i++) {
        char text[CELL_BYTES];
        put_cell(row, i, text);
        if (columns[i].is_left && contains(text, table->search))
            return true;
    }
    return false;
}

/* Moves the wanted rows to the front, in their order. */
static void search(struct table *table, struct run *run)
{
    table->found = 0;
    for (uint32_t i = 0; i < run->count; i++)
        if (is_wanted(table, &run->rows[i])) {
            struct run_row row = run->rows[i];
            run->rows[i] = run->rows[table->found];
            run->rows[table->found++] = row;
        }
}

/* ---- drawing ---- */

static void draw_row(const struct run_row *row, const int widths[COLUMNS], struct canvas *canvas)
{
    int separator = 0;
    for (int i = 0; i < COLUMNS; i++) {
        char text[CELL_BYTES];
        if (widths[i] == 0)
            continue;
        canvas_put_left(canvas, "", separator);
        separator = 1;
        if (row != NULL)
            put_cell(row, i, text);
        const char *cell = row != NULL ? text : columns[i].title;
        if (row != NULL && i == STATE)
            canvas_style(canvas, row->style);
        if (columns[i].is_left)
            canvas_put_left(canvas, cell, widths[i]);
        else
            canvas_put_right(canvas, cell, widths[i]);
        if (row != NULL && i == STATE)
            canvas_style(canvas, STYLE_PLAIN);
    }
    canvas_end_line(canvas);
}

void table_scroll(struct table *table, int64_t rows)
{
    int64_t first = (int64_t)table->first + rows;
    int64_t last = table->found > table->page ? (int64_t)table->found - table->page : 0;
    first = first > last ? last : first;
    table->first = first > 0 ? (uint32_t)first : 0;
}

void table_draw(struct table *table, struct run *run, struct canvas *canvas)
{
    int widths[COLUMNS];
    fit(run, canvas, widths);
    sort(table, run);
    search(table, run);
    int room = canvas->rows - canvas->row - 1;
    table->page = room > 0 ? (uint32_t)room : 0;
    table_scroll(table, 0);
    canvas_style(canvas, STYLE_TITLE);
    draw_row(NULL, widths, canvas);
    for (uint32_t i = 0; i < table->page && table->first + i < table->found; i++)
        draw_row(&run->rows[table->first + i], widths, canvas);
}
