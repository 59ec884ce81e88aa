#include "options.h"

#include "core/base.h"
#include "help.h"

static const struct help_row rows[] = {
    {NULL,
     "Usage: pccl-perf [OPTION]...\n         starts a local master and peers, measures all-reduce or another "
     "collective\n       pccl-perf --connect HOST:PORT [OPTION]...\n         runs as one peer of a real cluster; start "
     "one on each machine\n       pccl-perf limit [OPTION]...\n         measures only plain sockets that move the same "
     "traffic\n       pccl-perf --solve FILE [OPTION]...\n         only searches for a ring over the links in FILE"},
    {"-N, --peers N", "number of peers (2); with --connect, peers to wait for"},
    {"-b, --minbytes SIZE", "smallest size (4); K, M and G are powers of 1024"},
    {"-e, --maxbytes SIZE", "largest size (64M)"},
    {"-f, --stepfactor F", "factor between sizes (4)"},
    {"-i, --stepbytes SIZE", "difference between sizes; requires -f 1"},
    {"    --sizes LIST", "exact sizes in ascending order: 4,64K,1M"},
    {"-n, --iters N", "timed operations for each size (20; fewer for very large sizes)"},
    {"-w, --warmup_iters N", "warm-up operations for each size (5)"},
    {"-d, --datatype TYPE", "u8 i8 i16 u16 u32 i32 u64 i64 f16 bf16 f32 f64 bool f8e4m3fn f8e5m2 (f32)"},
    {"-o, --op OP", "all_reduce broadcast all_gather all_gather_v reduce_scatter reduce gather scatter all_to_all "
                    "gather_v scatter_v all_to_all_v send exclusive_scan inclusive_scan barrier (all_reduce); or a "
                    "reduction: sum avg prod max min and or xor premul_sum (sum); may be given twice, once for each"},
    {"-c, --check 0|1", "verify results (1)"},
    {"-k, --concurrent K", "split the bytes among K concurrent operations (1)"},
    {"-t, --tensors K", "all-reduces of K coalesced tensors; the largest is 256 times the smallest (1)"},
    {"-q, --codec CODEC",
     "none, minmax:TYPE, zps:TYPE, or e4m3, e5m2, int4, e3m0, e2m1 with :BLOCK, :SCALE (f32, bf16, pow2), :ROUNDING "
     "(nearest, stochastic) or :feedback; or auto, with the same suffixes and a budget (none)"},
    {"    --budget-ms N", "with --codec auto: time budget of an operation in ms"},
    {"    --budget-percent N", "the same as a share of the time between two operations"},
    {"-p, --pool N", "connections to each neighbor (0: chosen by the library)"},
    {"-O, --option NAME=VALUE", "parameter of the library, pccl(7): bind_address=10.0.0.1; may be repeated"},
    {"    --in-place 0|1|both", "operations in place, out of place, or both (both)"},
    {"    --no-limit", "do not measure the limit of the machine"},
    {"    --limit-cache", "use socket buffers that fit the cache instead of large ones as in the library: twice as "
                          "fast, but not attainable by an all-reduce"},
    {"    --limit-cpu C", "ignore a limit with more CPU seconds per GB: the machine was busy (0.40)"},
    {"    --json FILE", "write results as JSON; - for standard output (the table moves to standard error)"},
    {"    --gate FILE", "compare with goals; exit code 1 if missed"},
    {"    --chaos kill|stop", "kill or stop a peer during operations of --maxbytes, and print the times to the error "
                              "and to the next good result"},
    {"    --rounds N", "rounds of --chaos (20)"},
    {"    --exact", "with a codec: also measure without it in the same run"},
    {"    --state", "synchronizations of shared state instead (256M): of equal content (compared with digesting "
                    "alone), of a newcomer, and with differences in 1 % of the chunks; with --chaos a donor is killed"},
    {"    --topology", "optimization of the topology: its time, all-reduce (1M) before and after, and the known links "
                       "afterward; --iters is the number of repetitions (1)"},
    {"    --solve FILE", "search for a ring over the links in FILE, as written by --dump; - for standard input"},
    {"    --seed N", "seed of that search, instead of the one in the file"},
    {"    --steps N", "maximum work of that search"},
    {"    --dump FILE", "with --topology or --solve: write the known links and the ring; - for standard output"},
    {"-h, --help", "print this text"},
    {"-V, --version", "print the version"},
    {NULL, "Examples:\n  pccl perf -N 4 --sizes 64K,1M,64M           on this machine\n  pccl perf -N 4 -e 1G -q int4 "
           "--exact        with and without a codec\n  pccl perf --connect 10.0.0.1:48148 -N 8     one on each of 8 "
           "machines\n  pccl perf -N 4 -e 64M --chaos kill          a peer dies during operations"},
};

void perf_print_help(void) { help_print(rows, PCCL_COUNT_OF(rows)); }
