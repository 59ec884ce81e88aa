/* pccl-master: a master as a separate process. Also installed as ccoip_master. */
#include "commands.h"
#include "help.h"
#include "system/holder.h"
#include "log_format.h"
#include "system/notify.h"
#include "settings.h"
#include "status.h"
#include "system/process.h"
#include "system/signals.h"
#include "token.h"

#include "api/api.h"
#include "drive/credentials.h"
#include "drive/master_server.h"
#include "net/build.h"
#include "wire/greeting.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    EXIT_USAGE = 2,
    GO_ON = -1,
    DRAIN_MS = 5000, /* time after which a master that is still running is considered stuck */
};

struct command {
    struct settings settings;
    const char *config;
    bool check_config, print_config;
};

/* ---- the command line ---- */

static int usage_error(const char *words)
{
    fprintf(stderr, "pccl-master: %s\nTry 'pccl-master --help'.\n", words);
    return EXIT_USAGE;
}

static int usage_error_about(const char *what, const char *about)
{
    struct settings_problem problem;
    settings_explain(&problem, "%s: %.200s", what, about);
    return usage_error(problem.words);
}

/* Checks that all output was written. Returns the exit status. */
static int end_of_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return EXIT_SUCCESS;
    fprintf(stderr, "pccl-master: cannot write to standard output: %s\n", strerror(errno));
    return EXIT_FAILURE;
}

static int print_help(void)
{
    static const struct help_row rows[] = {
        {NULL, "usage: pccl-master [OPTION]...\n       pccl-master status [OPTION]... [ADDRESS]\n       pccl-master "
               "token create|list|revoke|rotate [OPTION]..."},
        {NULL, "Runs a PCCL master until SIGTERM or SIGINT, upon which it notifies its peers and exits. On disk it "
               "keeps only its key, its tokens and a record of the active run. SIGHUP reloads its certificates."},
        {"--listen ADDRESS", "host:port, 1.2.3.4:port or [v6]:port; may be given several times. Default: [::]:48148, "
                             "port 48148 on all addresses"},
        {"--token-file FILE", "token that peers need to join, created with the master's key if missing; peers read it "
                              "from PCCL_TOKEN or PCCL_TOKEN_FILE, and all connections are encrypted"},
        {"--state DIR", "directory for the master's key, its tokens (see 'pccl-master token --help'), the run's own "
                        "token (run.token) unless --token-file is given, and a record of the active run, so that "
                        "newcomers wait for its members after a restart of the master"},
        {"--tls-cert FILE, --tls-key FILE, --tls-ca FILE", "instead of a token: the master's certificate and key, and "
                                                           "the authority that signs peers' certificates; all in PEM"},
        {"--insecure",
         "disables the warning about listening on non-loopback addresses without a token, and allows plain HTTP there"},
        {"--config FILE",
         "file with lines 'key = value'; the keys are listen, log_format, idle_exit_ms and the parameters below"},
        {"--http ADDRESS",
         "same as --set http=ADDRESS: address for metrics and status over HTTP; see 'pccl-master status --help'"},
        {"--http-cert FILE, --http-key FILE",
         "certificate and key in PEM for HTTPS on non-loopback addresses; clients need a token with the role observe "
         "or admin, or the one in --admin-token-file"},
        {"--admin-token-file FILE", "file with a token that allows draining and expelling peers over HTTP"},
        {"--alert-command COMMAND",
         "shell command that runs for a verdict, and when the run stalls or continues; PCCL_ALERT_TEXT in its "
         "environment has the reason"},
        {"--slow-peer warn|expel",
         "action for a peer that repeatedly makes the others wait; expel: removes it and refuses it for a while"},
        {"--slow-peer-limit SECONDS", "time for which a peer must be slow before it is expelled"},
        {"--set NAME=VALUE",
         "sets a parameter, or idle_exit_ms: time without peers after which the master exits; 0: never"},
        {"--log-level LEVEL", "same as --set log_level=LEVEL"},
        {"--log-format FORMAT", "text, logfmt or json, one line for each event on standard error"},
        {"--listen-address, --option", "aliases of --listen and --set"},
        {"--check-config", "checks all settings and exits"},
        {"--print-config", "prints the effective settings and their origins as a configuration file, and exits"},
        {"--help, --version", "prints this text or the version, and exits"},
        {NULL, "The command line overrides the environment, which overrides the configuration file."},
        {NULL, "Examples:\n  pccl master --token-file run.token          peers join with PCCL_TOKEN_FILE\n  pccl "
               "master --state /var/lib/pccl --http 127.0.0.1\n  pccl master --config master.conf --check-config"},
        {NULL, "Parameters, with their environment variable and default (also: PCCL_LISTEN, PCCL_LOG_FORMAT, "
               "PCCL_IDLE_EXIT_MS):"},
    };
    help_print(rows, PCCL_COUNT_OF(rows));
    for (size_t i = 0; i < pcclGetParameterCount(); i++) {
        pcclParameterInfo_t info = PCCL_PARAMETER_INFO_INIT;
        char term[128];
        if (pcclGetParameterInfo(i, &info) != pcclSuccess || info.scope == pcclParameterCommunicator)
            continue;
        const char *value = i == PCCL_PARAM_log_level ? "INFO" : info.default_value;
        (void)snprintf(term, sizeof term, "%-19s %-*s%s", info.name, value[0] != '\0' ? 32 : 0, info.env, value);
        help_print_row(term, info.help);
    }
    printf("\nexit status: 0 terminated by a signal, or done; 1 failure; 2 wrong usage or\nconfiguration\n");
    return end_of_output();
}

static int print_version(void)
{
    struct pccl_text text;
    pccl_text_clear(&text);
    pccl_build_describe(&text, pccl_build_own());
    printf("pccl-master %s\n", text.bytes);
    return end_of_output();
}

static int set_flag(struct command *command, const char *flag, const char *name, const char *value)
{
    struct settings_problem problem;
    char where[320];
    (void)snprintf(where, sizeof where, "%s %.256s", flag, value);
    if (settings_set(&command->settings, SETTINGS_FLAG, 0, where, name, value, &problem))
        return GO_ON;
    return usage_error(problem.words);
}

static int set_parameter(struct command *command, const char *setting)
{
    struct settings_problem problem;
    const char *equals = strchr(setting, '=');
    char name[64], where[320];
    if (!equals || equals == setting || (size_t)(equals - setting) >= sizeof name)
        return usage_error_about("--set requires NAME=VALUE", setting);
    memcpy(name, setting, (size_t)(equals - setting));
    name[equals - setting] = 0;
    if (strcmp(name, "token") == 0) /* does not print the token */
        return usage_error("--set token: other users can read the command line; use --token-file");
    (void)snprintf(where, sizeof where, "--set %.256s", setting);
    if (settings_set(&command->settings, SETTINGS_FLAG, 0, where, name, equals + 1, &problem))
        return GO_ON;
    return usage_error(problem.words);
}

/* Flags that abbreviate --set NAME=. */
static const struct {
    const char *flag, *name;
} valued[] = {
    {"--listen", "listen"},
    {"--listen-address", "listen"},
    {"--token-file", "master_token_file"},
    {"--state", "master_state"},
    {"--log-level", "log_level"},
    {"--log-format", "log_format"},
    {"--http", "http"},
    {"--http-cert", "http_cert"},
    {"--http-key", "http_key"},
    {"--tls-cert", "master_tls_cert"},
    {"--tls-key", "master_tls_key"},
    {"--tls-ca", "master_tls_ca"},
    {"--admin-token-file", "admin_token_file"},
    {"--alert-command", "alert_command"},
    {"--slow-peer", "slow_peer"},
    {"--slow-peer-limit", "slow_peer_limit_s"},
    {"--set", NULL},
    {"--option", NULL},
    {"--config", NULL},
};

/* Reports an unknown argument, with the flag that it was probably meant to be. */
static int reject(const char *argument)
{
    enum { VALUED = sizeof valued / sizeof *valued };
    static const char *const others[] = {"--help", "--version", "--check-config", "--print-config", "--insecure"};
    const char *names[VALUED + PCCL_COUNT_OF(others)];
    struct settings_problem problem;
    char flag[32];
    for (size_t i = 0; i < PCCL_COUNT_OF(names); i++)
        names[i] = i < VALUED ? valued[i].flag : others[i - VALUED];
    (void)snprintf(flag, sizeof flag, "%.*s", (int)strcspn(argument, "="), argument);
    const char *closest = help_closest(flag, names, PCCL_COUNT_OF(names));
    settings_explain(&problem, "unknown argument: %.200s%s%s%s", argument, closest ? "; did you mean '" : "",
                     closest ? closest : "", closest ? "'?" : "");
    return usage_error(problem.words);
}

static int take_valued(struct command *command, const char *flag, const char *name, const char *value)
{
    if (name)
        return set_flag(command, flag, name, value);
    if (strcmp(flag, "--config") != 0)
        return set_parameter(command, value);
    if (command->config)
        return usage_error_about("--config is given more than once", value);
    command->config = value;
    return GO_ON;
}

/*
 * Parses the arguments. Returns GO_ON, or the exit status. A value is the next argument, or follows '=' in the flag's
 * argument.
 */
static int parse(struct command *command, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i], *value = NULL;
        size_t flag = 0;
        if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0)
            return print_help();
        if (strcmp(argument, "--version") == 0)
            return print_version();
        if (strcmp(argument, "--check-config") == 0 || strcmp(argument, "--print-config") == 0) {
            *(argument[2] == 'c' ? &command->check_config : &command->print_config) = true;
            continue;
        }
        if (strcmp(argument, "--insecure") == 0) {
            (void)set_flag(command, argument, "insecure", "1");
            continue;
        }
        for (; flag < PCCL_COUNT_OF(valued); flag++) {
            size_t length = strlen(valued[flag].flag);
            if (strncmp(argument, valued[flag].flag, length) == 0 && (argument[length] == '=' || !argument[length])) {
                value = argument[length] == '=' ? argument + length + 1 : NULL;
                break;
            }
        }
        if (flag == PCCL_COUNT_OF(valued))
            return reject(argument);
        if (!value && ++i == argc)
            return usage_error_about("missing value after", argument);
        int status = take_valued(command, valued[flag].flag, valued[flag].name, value ? value : argv[i]);
        if (status != GO_ON)
            return status;
    }
    return GO_ON;
}

/* ---- running ---- */

enum { IDLE_BEAT_MS_MAX = 1000 };

struct service {
    struct pccl_master_server *server;
    struct notify notify;
    uint32_t idle_exit_ms;
    uint64_t last_peer_ns; /* last time at which there was a peer, or the start; 0: not checked yet */
    bool named;            /* the master's thread has been named */
    bool broken;           /* valid when ended: true if a defect has ended the master */
    atomic_bool ended, idle;
};

static void report(enum pccl_log_level level, const char *words)
{
    /* When the program exits, it prints the reason regardless of the log level. */
    if (level == PCCL_LOG_ERROR && !pccl_logger_wants(level))
        fprintf(stderr, "pccl-master: %s\n", words);
    else
        pccl_logger_write(level, "daemon", words);
}

static bool says(const struct pccl_text *words, int error) { return strstr(words->bytes, uv_strerror(error)) != NULL; }

/* Returns the port from the message "cannot listen on <address>:<port>: <why>". */
static uint16_t port_in(const struct pccl_text *words, int why)
{
    const char *end = strstr(words->bytes, uv_strerror(why));
    const char *colon = end;
    for (int i = 0; i < 2; i++) /* finds the second to last colon before the reason */
        for (colon--; colon > words->bytes && *colon != ':';)
            colon--;
    return (uint16_t)strtoul(colon + 1, NULL, 10);
}

/* Reports that the start has failed, with advice. */
static void explain_failure(const struct pccl_text *words)
{
    struct settings_problem problem;
    char holder[128];
    const char *option = strstr(words->bytes, "for HTTP") ? "--http" : "--listen";
    settings_explain(&problem, "%s", words->bytes);
    if (says(words, UV_EADDRINUSE)) {
        uint16_t port = port_in(words, UV_EADDRINUSE);
        if (!holder_of_port(port, holder, sizeof holder))
            (void)snprintf(holder, sizeof holder, "Another program, possibly another user's,");
        settings_explain(
            &problem,
            "%s. %s uses the port; it may be a running master. Find it, or a connection on that port, with "
            "'ss -tanp sport = :%u'; stop it, or choose another port with %s",
            words->bytes, holder, (unsigned)port, option);
    } else if (says(words, UV_EACCES)) {
        settings_explain(&problem, "%s. Ports below 1024 require a privilege; choose a higher one with %s",
                         words->bytes, option);
    } else if (says(words, UV_EADDRNOTAVAIL)) {
        settings_explain(&problem, "%s. This machine does not have that address; 'ip address' lists its addresses",
                         words->bytes);
    }
    report(PCCL_LOG_ERROR, problem.words);
}

static void watch_idleness(struct service *service, const struct pccl_master_counts *counts)
{
    uint64_t now_ns = uv_hrtime();
    if (service->last_peer_ns == 0 || counts->members > 0 || counts->pending > 0 || counts->recovering)
        service->last_peer_ns = now_ns;
    if (service->idle_exit_ms == 0 || now_ns - service->last_peer_ns < service->idle_exit_ms * (uint64_t)1000000)
        return;
    atomic_store(&service->idle, true);
    signals_wake();
}

/* Returns the interval at which the master's thread calls on_beat; 0: never. */
static uint32_t beat_of(const struct service *service)
{
    uint32_t wanted = service->idle_exit_ms / 8 + 1;
    uint32_t beat = wanted < IDLE_BEAT_MS_MAX ? wanted : IDLE_BEAT_MS_MAX;
    if (service->idle_exit_ms == 0 || (service->notify.beat_ms > 0 && service->notify.beat_ms < beat))
        return service->notify.beat_ms;
    return beat;
}

static void on_beat(void *context, const struct pccl_master_counts *counts)
{
    struct service *service = context;
    if (!service->named) {
        service->named = true;
        process_name_thread("pccl-loop"); /* for top -H, and to identify a thread that hangs */
    }
    notify_beat(&service->notify, counts);
    watch_idleness(service, counts);
}

/*
 * Prints the token, or the name of its file, for use by the peers. The token itself is shown only once and only on a
 * terminal, because other output may be a log.
 */
static bool announce_token(const char *path, bool made)
{
    char shown[PCCL_TOKEN_TEXT + 1] = "";
    uv_fs_t full;
    bool terminal = made && uv_guess_handle(1) == UV_TTY;
    FILE *file = terminal ? fopen(path, "r") : NULL;
    if (file != NULL) {
        (void)!fgets(shown, sizeof shown, file);
        (void)fclose(file);
    }
    bool known = uv_fs_realpath(NULL, &full, path, NULL) == 0;
    if (shown[0] != '\0')
        printf("export PCCL_TOKEN=%s\n", shown);
    else
        printf("export PCCL_TOKEN_FILE=%s\n", known ? (const char *)full.ptr : path);
    uv_fs_req_cleanup(&full);
    pccl_wipe(shown, sizeof shown);
    return fflush(stdout) == 0;
}

static bool start(struct service *service, const struct pccl_params *params, const struct pccl_host *hosts,
                  uint32_t count, struct pccl_text *words)
{
    struct pccl_host http[PCCL_MASTER_HTTP_MAX];
    uint32_t http_count = 0;
    if (params->http[0] &&
        pccl_api_hosts(params->http, PCCL_MASTER_HTTP_PORT, http, PCCL_MASTER_HTTP_MAX, &http_count, words) != PCCL_OK)
        return false;
    struct pccl_master_config config = pccl_master_server_config(params);
    struct pccl_credentials credentials;
    if (pccl_credentials_of_master(params, &credentials, words) != PCCL_OK)
        return false;
    service->server = pccl_master_server_create(&config, hosts, count);
    if (!service->server) {
        pccl_credentials_end(&credentials);
        pccl_text_format(words, "out of memory for a master");
        return false;
    }
    pccl_master_server_secure(service->server, &credentials, params->insecure);
    if (credentials.token_file[0] != '\0' && credentials.keys != NULL)
        (void)announce_token(credentials.token_file, credentials.made);
    pccl_master_server_set_params(service->server, params, http, http_count);
    uint32_t beat_ms = beat_of(service);
    if (beat_ms > 0)
        pccl_master_server_set_beat(service->server, beat_ms, on_beat, service);
    if (pccl_master_server_run(service->server, words) == PCCL_OK)
        return true;
    pccl_master_server_destroy(service->server);
    service->server = NULL;
    return false;
}

static void await_end(void *argument)
{
    struct service *service = argument;
    service->broken = pccl_master_server_join(service->server) != PCCL_OK;
    atomic_store(&service->ended, true);
    signals_wake();
}

/* Ends the master: notifies the peers and waits until the last messages have been sent. */
static int drain(struct service *service, const char *signal_name)
{
    struct pccl_text words;
    uint64_t end_ns = uv_hrtime() + DRAIN_MS * UINT64_C(1000000);
    pccl_text_format(&words, "%s: notifying the peers, then exiting", signal_name);
    report(PCCL_LOG_INFO, words.bytes);
    notify_say(&service->notify, "STOPPING=1\nSTATUS=notifying the peers, then exiting");
    pccl_master_server_interrupt(service->server);
    for (uint64_t now_ns = uv_hrtime(); !atomic_load(&service->ended) && now_ns < end_ns; now_ns = uv_hrtime())
        (void)signals_wait((int)((end_ns - now_ns + 999999) / 1000000));
    if (atomic_load(&service->ended))
        return service->broken ? EXIT_FAILURE : EXIT_SUCCESS;
    report(PCCL_LOG_ERROR, "the master does not respond; exiting without notifying its peers");
    return EXIT_FAILURE;
}

static int attend(struct service *service)
{
    while (!atomic_load(&service->ended)) {
        switch (signals_wait(-1)) {
        case SIGNALS_INTERRUPT: return drain(service, "SIGINT");
        case SIGNALS_TERMINATE: return drain(service, "SIGTERM");
        case SIGNALS_RELOAD:
            report(PCCL_LOG_INFO, "SIGHUP: reloading certificates; other settings require a restart");
            pccl_master_server_reload(service->server);
            break;
        default: break;
        }
        if (atomic_load(&service->idle))
            return drain(service, "no peer was connected for idle_exit_ms");
    }
    report(PCCL_LOG_ERROR, "terminated by an internal error");
    return EXIT_FAILURE;
}

/* Logs the ports regardless of the log level, because a user who let the system choose a port needs to know it. */
static void announce(const struct service *service, const struct pccl_host *hosts, uint32_t count)
{
    struct pccl_params process;
    struct pccl_text words;
    bool known = pccl_params_load(NULL, pcclParameterProcess, &process, &words) == PCCL_OK;
    pccl_logger_set_level(known && process.log_level < PCCL_LOG_INFO ? process.log_level : PCCL_LOG_INFO);
    for (uint32_t i = 0; i < count; i++) {
        pccl_text_format(&words, "%s: listening on port %u", hosts[i].name,
                         pccl_master_server_port(service->server, i));
        report(PCCL_LOG_INFO, words.bytes);
    }
    if (pccl_master_server_http_port(service->server) != 0) {
        pccl_text_format(&words, "metrics and status: http on port %u", pccl_master_server_http_port(service->server));
        report(PCCL_LOG_INFO, words.bytes);
    }
    if (known)
        pccl_logger_set_level(process.log_level);
}

static bool start_somewhere(struct service *service, const struct settings *settings, const struct pccl_params *params)
{
    struct pccl_host hosts[PCCL_MASTER_HOSTS_MAX];
    struct pccl_text words;
    uint32_t count = settings_hosts(settings, hosts, PCCL_COUNT_OF(hosts));
    bool by_default = settings->all[SETTING_LISTEN].source == SETTINGS_DEFAULT;
    bool started = start(service, params, hosts, count, &words);
    if (!started && by_default && !says(&words, UV_EADDRINUSE)) { /* the system may not support IPv6 */
        memcpy(hosts[0].name, "0.0.0.0", sizeof "0.0.0.0");
        started = start(service, params, hosts, count, &words);
    }
    if (started)
        announce(service, hosts, count);
    else
        explain_failure(&words);
    return started;
}

static int serve(const struct settings *settings, const struct pccl_params *params)
{
    struct service service = {.idle_exit_ms = settings_idle_exit_ms(settings)};
    uv_thread_t waiter;
    signals_hold();
    notify_open(&service.notify);
    if (!start_somewhere(&service, settings, params))
        return EXIT_FAILURE;
    if (uv_thread_create(&waiter, await_end, &service) != 0) {
        report(PCCL_LOG_ERROR, "cannot start a thread");
        return EXIT_FAILURE;
    }
    notify_say(&service.notify, "READY=1");
    int status = attend(&service);
    if (!atomic_load(&service.ended))
        _Exit(status); /* the master's thread is stuck, so cleaning up would hang as well */
    (void)uv_thread_join(&waiter);
    pccl_master_server_destroy(service.server);
    notify_close(&service.notify);
    return status;
}

/* ---- */

static int run(struct command *command)
{
    struct settings_problem problem;
    struct pccl_params params;
    struct settings *settings = &command->settings;
    if ((command->config && !settings_read_file(settings, command->config, &problem)) ||
        !settings_read_environment(settings, &problem) || !settings_apply(settings, &params, &problem))
        return usage_error(problem.words);
    if (command->print_config)
        settings_print(settings, stdout);
    else if (command->check_config)
        printf("pccl-master: the configuration is valid\n");
    if (command->print_config || command->check_config)
        return end_of_output();
    pccl_logger_set_format(pccl_log_format_find(settings_text(settings, SETTING_LOG_FORMAT)));
    (void)pcclInit();                 /* sets the log level, and warns about invalid environment variables */
    process_raise_descriptor_limit(); /* each peer needs a descriptor */
    return serve(settings, &params);
}

int master_main(int argc, char **argv)
{
    struct command command = {.config = NULL};
    if (argc > 1 && strcmp(argv[1], "status") == 0)
        return status_main(argc - 1, argv + 1);
    if (argc > 1 && strcmp(argv[1], "token") == 0)
        return token_main(argc - 1, argv + 1);
    int status = parse(&command, argc, argv);
    if (status == GO_ON)
        status = run(&command);
    settings_free(&command.settings);
    return status;
}
