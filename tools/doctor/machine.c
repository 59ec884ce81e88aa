#include "doctor/checks.h"

#include "net/build.h"
#include "os/library.h"
#include "system/machine.h"
#include "wire/greeting.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum {
    FILES_FEW = 256,
    FILES_ENOUGH = 65536,
    BUFFER_MIN = 4 << 20, /* window for 1 Gbit/s at a round trip of 30 ms */
    LOCKED_MIN = 64 << 20,
    SETTING_BYTES = 256,
};

/* Reads a setting of IPv4 as text. Returns false if this system does not have it. */
static bool read_setting(const char *name, char text[SETTING_BYTES])
{
    char path[SETTING_BYTES];
    (void)snprintf(path, sizeof path, "/proc/sys/net/ipv4/%s", name);
    FILE *file = fopen(path, "r");
    bool good = file != NULL && fgets(text, SETTING_BYTES, file) != NULL;
    if (file != NULL)
        (void)fclose(file);
    text[good ? strcspn(text, "\n") : 0] = '\0';
    return good;
}

static void check_version(struct findings *findings)
{
    struct pccl_text build;
    uv_utsname_t system = {.sysname = "unknown system"};
    pccl_text_clear(&build);
    pccl_build_describe(&build, pccl_build_own());
    (void)uv_os_uname(&system);
    findings_ok(findings, "version", "PCCL %s, %s %s %s", build.bytes, system.sysname, system.release, system.machine);
}

static void check_files(struct findings *findings)
{
    uint64_t soft, hard;
    char fix[64];
    if (!machine_file_limit(&soft, &hard))
        return;
    if (soft >= FILES_FEW) {
        if (soft == UINT64_MAX)
            findings_ok(findings, "files", "this process may open any number of files and connections");
        else
            findings_ok(findings, "files", "this process may open %" PRIu64 " files and connections", soft);
        return;
    }
    (void)snprintf(fix, sizeof fix, "ulimit -n %" PRIu64, hard < FILES_ENOUGH ? hard : FILES_ENOUGH);
    findings_bad(findings, "files", fix,
                 "this process may open %" PRIu64 " files and connections, too few for connections to many peers",
                 soft);
}

static void check_buffers(struct findings *findings)
{
    static const struct {
        const char *name, *sample;
    } settings[] = {{"tcp_rmem", "4096 131072 6291456"}, {"tcp_wmem", "4096 16384 4194304"}};
    for (size_t i = 0; i < PCCL_COUNT_OF(settings); i++) {
        char text[SETTING_BYTES], fix[128];
        unsigned long long most;
        if (!read_setting(settings[i].name, text) || sscanf(text, "%*s %*s %llu", &most) != 1)
            continue;
        (void)snprintf(fix, sizeof fix, "sysctl -w net.ipv4.%s=\"%s\"", settings[i].name, settings[i].sample);
        if (most < BUFFER_MIN)
            findings_bad(findings, "buffers", fix,
                         "net.ipv4.%s allows %.1f MB per connection, too little for long paths", settings[i].name,
                         (double)most / 1e6);
        else
            findings_ok(findings, "buffers", "net.ipv4.%s allows %.1f MB per connection", settings[i].name,
                        (double)most / 1e6);
    }
}

static void check_congestion(struct findings *findings)
{
    char chosen[SETTING_BYTES], available[SETTING_BYTES];
    if (!read_setting("tcp_congestion_control", chosen))
        return;
    if (strncmp(chosen, "bbr", 3) == 0) {
        findings_ok(findings, "congestion", "congestion control is %s", chosen);
        return;
    }
    bool has_bbr = read_setting("tcp_available_congestion_control", available) && strstr(available, "bbr") != NULL;
    char fix[128];
    (void)snprintf(fix, sizeof fix, "%ssysctl -w net.ipv4.tcp_congestion_control=bbr",
                   has_bbr ? "" : "modprobe tcp_bbr && ");
    findings_note(findings, "congestion", fix,
                  "congestion control is %s: far slower than bbr on long paths with packet loss", chosen);
}

static void check_clock(struct findings *findings)
{
    switch (machine_clock()) {
    case MACHINE_CLOCK_SYNCHRONIZED: findings_ok(findings, "clock", "the clock is synchronized"); break;
    case MACHINE_CLOCK_FREE:
        findings_note(findings, "clock", "timedatectl set-ntp true",
                      "the clock is not synchronized, so logs of different machines are hard to compare");
        break;
    case MACHINE_CLOCK_UNKNOWN: break;
    }
}

/* Checks the memory that an accelerator's driver may lock, if there is a driver. */
static void check_locked_memory(struct findings *findings)
{
    uint64_t bytes;
    uv_lib_t driver;
    bool has_driver = uv_dlopen(pccl_library_cuda, &driver) == 0;
    uv_dlclose(&driver);
    if (has_driver && machine_locked_limit(&bytes) && bytes < LOCKED_MIN)
        findings_note(findings, "memory lock", "ulimit -l unlimited",
                      "this process may lock %.1f MB of memory, too little for an accelerator's buffers",
                      (double)bytes / 1e6);
}

void doctor_check_machine(struct findings *findings)
{
    check_version(findings);
    check_files(findings);
    check_buffers(findings);
    check_congestion(findings);
    check_clock(findings);
    check_locked_memory(findings);
}
