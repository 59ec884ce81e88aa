// All-reduce with Gloo over TCP, for comparison: one process of it. compare.py compiles and runs it.
//   gloo_all_reduce RANK RANKS STORE_FOLDER ADDRESS ALGORITHM WARM_UP BYTES:ITERATIONS ...
// Prints, for each size: bytes, iterations, seconds of all, CPU seconds of all, wrong elements.
#include <gloo/algorithm.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

using Context = std::shared_ptr<gloo::rendezvous::Context>;

static double cpu_s()
{
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static double now_s()
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static float value(size_t i, int rank) { return static_cast<float>((i * 5 + static_cast<size_t>(rank) * 3) % 8); }

// What one all-reduce is. The two older algorithms work in place, and keep what they prepared.
static std::function<void()> operation(const std::string &algorithm, const Context &context, std::vector<float> &input,
                                       std::vector<float> &output)
{
    const int count = static_cast<int>(input.size());
    std::vector<float *> pointers{output.data()};
    if (algorithm == "ring_chunked") {
        auto kept = std::make_shared<gloo::AllreduceRingChunked<float>>(context, pointers, count);
        return [kept] { kept->run(); };
    }
    if (algorithm == "halving_doubling") {
        auto kept = std::make_shared<gloo::AllreduceHalvingDoubling<float>>(context, pointers, count);
        return [kept] { kept->run(); };
    }
    if (algorithm != "ring" && algorithm != "bcube")
        throw std::runtime_error("no such algorithm: " + algorithm);
    const bool ring = algorithm == "ring";
    return [&input, &output, context, ring] {
        gloo::AllreduceOptions options(context);
        options.setAlgorithm(ring ? gloo::AllreduceOptions::Algorithm::RING : gloo::AllreduceOptions::Algorithm::BCUBE);
        options.setInput(input.data(), input.size());
        options.setOutput(output.data(), output.size());
        options.setReduceFunction(static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<float>));
        gloo::allreduce(options);
    };
}

static void measure(const std::string &algorithm, const Context &context, size_t bytes, int warm_up, int iterations)
{
    std::vector<float> input(bytes / sizeof(float)), output(input.size());
    for (size_t i = 0; i < input.size(); i++)
        input[i] = output[i] = value(i, context->rank);
    auto reduce = operation(algorithm, context, input, output);
    reduce();
    size_t wrong = 0;
    for (size_t i = 0; i < input.size(); i++) {
        float expected = 0;
        for (int rank = 0; rank < context->size; rank++)
            expected += value(i, rank);
        wrong += output[i] != expected;
    }
    for (int i = 0; i < warm_up; i++)
        reduce();
    gloo::BarrierOptions barrier(context);
    gloo::barrier(barrier);
    const double cpu = cpu_s(), start = now_s();
    for (int i = 0; i < iterations; i++)
        reduce();
    const double end = now_s();
    std::printf("%zu %d %.9f %.9f %zu\n", bytes, iterations, end - start, cpu_s() - cpu, wrong);
    std::fflush(stdout);
    gloo::barrier(barrier);
}

int main(int count, char **arguments)
{
    if (count < 8) {
        std::fprintf(stderr, "see the head of the source\n");
        return 2;
    }
    try {
        gloo::transport::tcp::attr attributes(arguments[4]);
        auto device = gloo::transport::tcp::CreateDevice(attributes);
        auto context = std::make_shared<gloo::rendezvous::Context>(std::stoi(arguments[1]), std::stoi(arguments[2]));
        context->setTimeout(std::chrono::minutes(10));
        gloo::rendezvous::FileStore store(arguments[3]);
        context->connectFullMesh(store, device);
        for (int i = 7; i < count; i++) {
            size_t colon = 0;
            const std::string size = arguments[i];
            const size_t bytes = std::stoull(size, &colon);
            measure(arguments[5], context, bytes, std::stoi(arguments[6]), std::stoi(size.substr(colon + 1)));
        }
    } catch (const std::exception &error) {
        std::fprintf(stderr, "gloo_all_reduce: %s\n", error.what());
        return 1;
    }
    return 0;
}
