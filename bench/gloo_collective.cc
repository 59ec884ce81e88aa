// A collective with Gloo over TCP, for comparison: one process of it. compare.py compiles and runs it.
//   gloo_collective RANK RANKS STORE_FOLDER ADDRESS NAME ALGORITHM WARM_UP BYTES:ITERATIONS ...
// NAME is one of compare.py's; only all_reduce has several algorithms. BYTES are those of the larger buffer. Prints,
// for each size: bytes, iterations, seconds of all, CPU seconds of all, wrong elements.
#include <gloo/algorithm.h>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

using Context = std::shared_ptr<gloo::rendezvous::Context>;
using Buffer = std::vector<float>;

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

static float sum_of_values(size_t i, int ranks)
{
    float sum = 0;
    for (int rank = 0; rank < ranks; rank++)
        sum += value(i, rank);
    return sum;
}

// The two older algorithms work in place, and keep what they prepared.
static std::function<void()> all_reduce(const std::string &algorithm, const Context &context, Buffer &input,
                                        Buffer &output)
{
    const int count = static_cast<int>(input.size());
    std::vector<float *> pointers{output.data()};
    output = input;
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

// One collective: its buffers, how it is called, and what must come out.
struct Collective {
    Buffer input, output;
    std::function<void()> run;
    std::function<float(size_t)> expected;

    void fill(int rank, size_t in, size_t out)
    {
        input.resize(in);
        output.assign(out, 0);
        for (size_t i = 0; i < in; i++)
            input[i] = value(i, rank);
    }
};

// Those with a root at which something ends or begins, all-to-all and send. false: it is another one.
static bool prepare_parts(Collective &it, const std::string &name, const Context &context, size_t count)
{
    const int rank = context->rank, ranks = context->size;
    const size_t part = count / static_cast<size_t>(ranks), whole = part * static_cast<size_t>(ranks);
    const size_t own = static_cast<size_t>(rank) * part;
    if (name == "reduce") { // everybody's output is worked in
        it.fill(rank, count, count);
        it.run = [&it, context] {
            gloo::ReduceOptions options(context);
            options.setInput(it.input.data(), it.input.size());
            options.setOutput(it.output.data(), it.output.size());
            options.setReduceFunction(
                static_cast<void (*)(void *, const void *, const void *, size_t)>(&gloo::sum<float>));
            options.setRoot(0);
            gloo::reduce(options);
        };
        it.expected = [ranks](size_t i) { return sum_of_values(i, ranks); };
    } else if (name == "gather") {
        it.fill(rank, part, rank == 0 ? whole : 0);
        it.run = [&it, context, rank] {
            gloo::GatherOptions options(context);
            options.setInput(it.input.data(), it.input.size());
            if (rank == 0)
                options.setOutput(it.output.data(), it.output.size());
            options.setRoot(0);
            gloo::gather(options);
        };
        it.expected = [part](size_t i) { return value(i % part, static_cast<int>(i / part)); };
    } else if (name == "scatter") {
        it.fill(rank, rank == 0 ? whole : 0, part);
        it.run = [&it, context, part, rank, ranks] {
            gloo::ScatterOptions options(context);
            if (rank == 0) {
                std::vector<float *> parts;
                for (int to = 0; to < ranks; to++)
                    parts.push_back(it.input.data() + static_cast<size_t>(to) * part);
                options.setInputs(parts, part);
            }
            options.setOutput(it.output.data(), it.output.size());
            options.setRoot(0);
            gloo::scatter(options);
        };
        it.expected = [own](size_t i) { return value(own + i, 0); };
    } else if (name == "all_to_all") {
        it.fill(rank, whole, whole);
        it.run = [&it, context] {
            gloo::AlltoallOptions options(context);
            options.setInput(it.input.data(), it.input.size());
            options.setOutput(it.output.data(), it.output.size());
            gloo::alltoall(options);
        };
        it.expected = [own, part](size_t i) { return value(own + i % part, static_cast<int>(i / part)); };
    } else if (name == "send") { // of each two the first one to the second
        const bool sends = rank % 2 == 0;
        it.fill(rank, sends ? count : 0, sends ? 0 : count);
        void *data = sends ? it.input.data() : it.output.data();
        std::shared_ptr<gloo::transport::UnboundBuffer> buffer =
            context->createUnboundBuffer(data, count * sizeof(float));
        it.run = [buffer, rank, sends] {
            if (sends) {
                buffer->send(rank + 1, 0);
                buffer->waitSend();
            } else {
                buffer->recv(rank - 1, 0);
                buffer->waitRecv();
            }
        };
        it.expected = [rank](size_t i) { return value(i, rank - 1); };
    }
    return it.run != nullptr;
}

static void prepare(Collective &it, const std::string &name, const std::string &algorithm, const Context &context,
                    size_t count)
{
    const int rank = context->rank, ranks = context->size;
    const size_t part = count / static_cast<size_t>(ranks), whole = part * static_cast<size_t>(ranks);
    if (prepare_parts(it, name, context, count))
        return;
    if (name == "all_reduce") {
        it.fill(rank, count, count);
        it.run = all_reduce(algorithm, context, it.input, it.output);
        it.expected = [ranks](size_t i) { return sum_of_values(i, ranks); };
    } else if (name == "broadcast") {
        it.fill(rank, count, count);
        it.run = [&it, context, rank] {
            gloo::BroadcastOptions options(context);
            if (rank == 0)
                options.setInput(it.input.data(), it.input.size());
            options.setOutput(it.output.data(), it.output.size());
            options.setRoot(0);
            gloo::broadcast(options);
        };
        it.expected = [](size_t i) { return value(i, 0); };
    } else if (name == "all_gather") {
        it.fill(rank, part, whole);
        it.run = [&it, context] {
            gloo::AllgatherOptions options(context);
            options.setInput(it.input.data(), it.input.size());
            options.setOutput(it.output.data(), it.output.size());
            gloo::allgather(options);
        };
        it.expected = [part](size_t i) { return value(i % part, static_cast<int>(i / part)); };
    } else if (name == "reduce_scatter") { // in place, and the share comes to the beginning
        it.fill(rank, 0, whole);
        for (size_t i = 0; i < whole; i++)
            it.output[i] = value(i, rank);
        auto kept = std::make_shared<gloo::ReduceScatterHalvingDoubling<float>>(
            context, std::vector<float *>{it.output.data()}, static_cast<int>(whole),
            std::vector<int>(static_cast<size_t>(ranks), static_cast<int>(part)));
        it.run = [kept] { kept->run(); };
        it.expected = [part, rank, ranks](size_t i) {
            return sum_of_values(static_cast<size_t>(rank) * part + i, ranks);
        };
    } else if (name == "barrier") {
        it.run = [context] {
            gloo::BarrierOptions options(context);
            gloo::barrier(options);
        };
    } else {
        throw std::runtime_error("no such collective: " + name);
    }
}

static void measure(const std::string &name, const std::string &algorithm, const Context &context, size_t bytes,
                    int warm_up, int iterations)
{
    Collective it;
    prepare(it, name, algorithm, context, bytes / sizeof(float));
    it.run();
    size_t wrong = 0;
    const size_t results = name == "reduce_scatter" ? it.output.size() / static_cast<size_t>(context->size)
                           : name == "reduce" && context->rank > 0 ? 0
                                                                   : it.output.size();
    for (size_t i = 0; i < results; i++)
        wrong += it.output[i] != it.expected(i);
    for (int i = 0; i < warm_up; i++)
        it.run();
    gloo::BarrierOptions barrier(context);
    gloo::barrier(barrier);
    const double cpu = cpu_s(), start = now_s();
    for (int i = 0; i < iterations; i++)
        it.run();
    const double end = now_s();
    std::printf("%zu %d %.9f %.9f %zu\n", bytes, iterations, end - start, cpu_s() - cpu, wrong);
    std::fflush(stdout);
    gloo::barrier(barrier);
}

int main(int count, char **arguments)
{
    if (count < 9) {
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
        for (int i = 8; i < count; i++) {
            size_t colon = 0;
            const std::string size = arguments[i];
            const size_t bytes = std::stoull(size, &colon);
            measure(arguments[5], arguments[6], context, bytes, std::stoi(arguments[7]),
                    std::stoi(size.substr(colon + 1)));
        }
    } catch (const std::exception &error) {
        std::fprintf(stderr, "gloo_collective: %s\n", error.what());
        return 1;
    }
    return 0;
}
