#include "top/top.h"

#include "help.h"
#include "master/client.h"
#include "system/signals.h"
#include "system/terminal.h"
#include "top/table.h"

#include "net/heap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum {
    EXIT_USAGE = 2,
    INTERVAL_MS = 1000, /* between requests */
    OUTPUT_BYTES_MAX = 64 << 20,
    REASON_BYTES = 1000,
};

static const char command[] = "pccl top";

static const struct help_row keys[] = {
    {"up, down, j, k", "scroll by one line; page up, page down, home, end: by more"},
    {"s", "sorts by the next column; at first the most urgent peers are on top"},
    {"r", "reverses the order"},
    {"/", "searches: shows only the peers whose name, id, state, call or address contains the text; Enter keeps the "
          "search, Esc ends it"},
    {"?, h", "shows the keys"},
    {"q, Ctrl-C", "quit"},
};

struct top {
    struct client *client;
    struct run run;
    struct table table;
    bool color, utf8;
    bool searches;   /* keys are text to search for */
    bool shows_keys; /* instead of the run */
    bool quits;
    char reason[REASON_BYTES]; /* why the master did not answer the last request; "": it did */
};

/* ---- output ---- */

/* Writes the text to standard output. Returns the exit status; a reader that has closed its end has enough. */
static int flush(struct pccl_print *print)
{
    bool full = print->failed;
    errno = full ? ENOMEM : 0;
    bool good = !full && fwrite(print->bytes, 1, print->length, stdout) == print->length && fflush(stdout) == 0;
    int error = errno;
    pccl_print_fini(print);
    if (good || error == EPIPE)
        return EXIT_SUCCESS;
    (void)fprintf(stderr, "%s: cannot write to standard output: %s\n", command, strerror(error));
    return EXIT_FAILURE;
}

static void draw_keys(struct canvas *canvas)
{
    for (size_t i = 0; i < PCCL_COUNT_OF(keys); i++) {
        canvas_put_left(canvas, keys[i].term, 16);
        canvas_put_lines(canvas, keys[i].about);
    }
}

static void draw_last_line(const struct top *top, struct canvas *canvas)
{
    const struct table *table = &top->table;
    uint32_t last = table->first + table->page < table->found ? table->first + table->page : table->found;
    if (top->searches) {
        canvas_format(canvas, "search: %s_", table->search);
    } else if (top->shows_keys) {
        canvas_put(canvas, "any key: back");
    } else {
        canvas_format(canvas, "%u-%u of %u%s%s  by %s%s", last > 0 ? table->first + 1 : 0, last, table->found,
                      table->search[0] != '\0' ? " with " : "", table->search, table_order(table),
                      table->reversed ? ", reversed" : "");
        canvas_put(canvas, "  ? keys  / search  s sort  q quit");
    }
    canvas_end_line(canvas);
}

/* Draws the run, of which everything but the peers gets at most half of the rows. */
static void draw_run(struct top *top, struct canvas *canvas)
{
    int rows = canvas->rows, row = canvas->row;
    if (top->run.status == NULL)
        return;
    canvas->rows = rows == CANVAS_ALL ? CANVAS_ALL : (rows + 1) / 2;
    run_draw(&top->run, canvas);
    if (canvas->row > canvas->rows)
        canvas->row = canvas->rows > row ? canvas->rows : row;
    canvas->rows = rows;
    canvas_end_line(canvas);
    table_draw(&top->table, &top->run, canvas);
}

/* Draws the whole screen. */
static void draw_screen(struct top *top)
{
    struct pccl_print print;
    struct canvas canvas = {.print = &print, .rows = CANVAS_ALL, .color = top->color, .utf8 = top->utf8};
    terminal_size(&canvas.columns, &canvas.rows);
    int rows = canvas.live_rows = canvas.rows;
    pccl_print_init(&print, pccl_heap(), OUTPUT_BYTES_MAX);
    pccl_print_add(&print, "\033[H");
    canvas.rows = rows - 1;
    if (top->shows_keys) {
        draw_keys(&canvas);
    } else {
        if (top->reason[0] != '\0') {
            canvas_style(&canvas, STYLE_BAD);
            canvas_put_lines(&canvas, top->reason);
        }
        draw_run(top, &canvas);
    }
    canvas.rows = rows;
    while (canvas.row + 1 < rows)
        canvas_end_line(&canvas);
    canvas.row = rows - 1;
    draw_last_line(top, &canvas);
    top->quits = flush(&print) != EXIT_SUCCESS || top->quits;
}

/* ---- keys ---- */

static void edit_search(struct top *top, int key)
{
    char *search = top->table.search;
    size_t length = strlen(search);
    if (key == TERMINAL_ESCAPE)
        search[0] = '\0';
    if (key == TERMINAL_ESCAPE || key == TERMINAL_ENTER)
        top->searches = false;
    else if (key == TERMINAL_BACKSPACE && length > 0) {
        while (length > 1 && ((unsigned char)search[length - 1] & 0xc0) == 0x80) /* the rest of a character */
            length--;
        search[length - 1] = '\0';
    } else if (key >= ' ' && key < TERMINAL_NONE && length < TABLE_SEARCH_MAX) {
        search[length] = (char)key;
        search[length + 1] = '\0';
    }
    top->table.first = 0;
}

static void obey(struct top *top, int key)
{
    struct table *table = &top->table;
    int64_t page = table->page > 1 ? table->page - 1 : 1;
    switch (key) {
    case 'q':
    case 'Q': top->quits = true; break;
    case '?':
    case 'h': top->shows_keys = true; break;
    case '/': top->searches = true; break;
    case TERMINAL_ESCAPE: table->search[0] = '\0'; break;
    case 's': table_next_order(table); break;
    case 'r': table->reversed = !table->reversed; break;
    case 'k':
    case TERMINAL_UP: table_scroll(table, -1); break;
    case 'j':
    case TERMINAL_DOWN: table_scroll(table, 1); break;
    case TERMINAL_PAGE_UP: table_scroll(table, -page); break;
    case ' ':
    case TERMINAL_PAGE_DOWN: table_scroll(table, page); break;
    case 'g':
    case TERMINAL_HOME: table_scroll(table, INT32_MIN); break;
    case 'G':
    case TERMINAL_END: table_scroll(table, INT32_MAX); break;
    default: break;
    }
}

/* Waits for a key and obeys it. Returns false if there was none. */
static bool take_key(struct top *top, int limit_ms)
{
    int key = terminal_key(limit_ms);
    if (key == TERMINAL_NONE)
        return false;
    if (key == TERMINAL_QUIT)
        top->quits = true;
    else if (key != TERMINAL_REDRAW && top->shows_keys)
        top->shows_keys = false;
    else if (key != TERMINAL_REDRAW && top->searches)
        edit_search(top, key);
    else
        obey(top, key);
    if (!top->quits)
        draw_screen(top);
    return true;
}

/* Obeys keys while a request waits. */
static bool is_stopped(void *context)
{
    struct top *top = context;
    while (!top->quits && take_key(top, 0))
        continue;
    return top->quits;
}

/* ---- the command ---- */

/* Requests the state. On failure keeps the last state and sets the reason. */
static void update(struct top *top)
{
    const char *text = client_get(top->client, "/status.json");
    top->reason[0] = '\0';
    if (text == NULL)
        (void)snprintf(top->reason, sizeof top->reason, "%s", client_reason(top->client));
    else if (!run_read(&top->run, text))
        (void)snprintf(top->reason, sizeof top->reason, "the master's answer is not the state of a run");
}

static int watch(struct top *top)
{
    client_set_stop(top->client, is_stopped, top);
    terminal_begin();
    draw_screen(top);
    while (!top->quits) {
        update(top);
        if (!top->quits)
            draw_screen(top);
        uint64_t now, until = uv_hrtime() / 1000000 + INTERVAL_MS;
        while (!top->quits && (now = uv_hrtime() / 1000000) < until)
            (void)take_key(top, (int)(until - now));
    }
    terminal_end();
    return EXIT_SUCCESS;
}

static int print_once(struct top *top, bool terminal)
{
    struct pccl_print print;
    struct canvas canvas = {.print = &print, .rows = CANVAS_ALL, .color = top->color, .utf8 = top->utf8};
    int rows;
    update(top);
    if (top->reason[0] != '\0') {
        (void)fprintf(stderr, "%s: %s\n", command, top->reason);
        return EXIT_FAILURE;
    }
    if (terminal)
        terminal_size(&canvas.columns, &rows);
    pccl_print_init(&print, pccl_heap(), OUTPUT_BYTES_MAX);
    draw_run(top, &canvas);
    return flush(&print);
}

static int print_help(void)
{
    static const struct help_row rows[] = {
        {NULL, "usage: pccl top [OPTION]... [ADDRESS | https://ADDRESS]"},
        {NULL, "Shows a run live in a terminal: its peers with state and last contact, the rate of their links, steps "
               "and losses; the pending calls and the missing peers. ADDRESS is the one given to the master's --http; "
               "default: 127.0.0.1:48180. If the output is not a terminal, prints the state once."},
        {"--once", "prints the state once, even on a terminal"},
        {"--json", "prints the master's /status.json once"},
        {"--sort COLUMN", "peer, state, group, rank, seen, rate, step, loss, call or address; default: state, the most "
                          "urgent first"},
        {"--search TEXT", "shows only the peers whose name, id, state, call or address contains the text"},
        {"--help", "prints this text"},
    };
    static const struct help_row end[] = {
        {NULL, "\nNO_COLOR=1 in the environment disables colors."},
        {NULL,
         "Examples:\n  pccl top\n  pccl top --sort loss --once | head\n  pccl top --token-file observe.token --ca "
         "ca.pem https://master:48180"},
        {NULL, "exit status: 0 success; 1 no answer, for the printed reason; 2 wrong usage"},
    };
    help_print(rows, PCCL_COUNT_OF(rows));
    printf("\nKeys:\n\n");
    help_print(keys, PCCL_COUNT_OF(keys));
    client_print_help();
    help_print(end, PCCL_COUNT_OF(end));
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int show(struct top *top, const struct client_options *options, bool once, bool json)
{
    int status;
    bool terminal = terminal_is_capable();
    const char *no_color = getenv("NO_COLOR");
    top->color = terminal && (no_color == NULL || no_color[0] == '\0');
    top->utf8 = !terminal || terminal_is_utf8();
    top->client = client_create(command, options, &status);
    if (top->client == NULL)
        return status;
    signals_ignore_broken_pipes();
    if (json)
        status = client_print(top->client, command, "/status.json");
    else
        status = terminal && !once ? watch(top) : print_once(top, terminal);
    client_destroy(top->client);
    run_free(&top->run);
    return status;
}

int top_main(int argc, char **argv)
{
    struct client_options options = {.address = NULL};
    struct top top = {.table = {.sorted_by = TABLE_BY_URGENCY}};
    const char *order = NULL, *search = "";
    bool once = false, json = false;
    for (int i = 1; i < argc; i++) {
        const char **value = strcmp(argv[i], "--sort") == 0     ? &order
                             : strcmp(argv[i], "--search") == 0 ? &search
                                                                : client_option(&options, argv[i]);
        if (value != NULL && i + 1 == argc)
            return client_usage_error(command, "missing value after ", argv[i]);
        if (value != NULL)
            *value = argv[++i];
        else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return print_help();
        else if (strcmp(argv[i], "--once") == 0)
            once = true;
        else if (strcmp(argv[i], "--json") == 0)
            json = true;
        else if (argv[i][0] == '-')
            return client_usage_error(command, "unknown argument: ", argv[i]);
        else if (options.address != NULL)
            return client_usage_error(command, "more than one address: ", argv[i]);
        else
            options.address = argv[i];
    }
    if (order != NULL && !table_set_order(&top.table, command, order))
        return EXIT_USAGE;
    if (strlen(search) > TABLE_SEARCH_MAX)
        return client_usage_error(command, "too long for --search: ", search);
    memcpy(top.table.search, search, strlen(search) + 1);
    return show(&top, &options, once, json);
}
