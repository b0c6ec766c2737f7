// SPDX-License-Identifier: BSD-3-Clause
/// What the engine costs per packet: receiving from the generator, with RSS over N striding queues, and from
/// a send queue to a receive queue over a pair. Only passes of the engine are timed, not what the program
/// does in between.
#include "../unit/swhca/frames.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <vector>

namespace swhca::test {
namespace {

constexpr unsigned burst = 64;

/// A queue whose buffers take `kib`; frames up to `frame_bytes` take one stride.
TestStridingRq::Shape shape_of(std::uint64_t kib, std::uint64_t frame_bytes) {
    const unsigned log_stride_bytes = frame_bytes > 64 ? 11 : 6;
    const auto log_total = static_cast<unsigned>(std::bit_width(kib) + 9) - log_stride_bytes;
    const unsigned log_strides = std::min(log_total - 1, 9U);
    return {.log_wqes = log_total - log_strides,
            .log_strides = log_strides,
            .log_stride_bytes = log_stride_bytes};
}

/// A receive queue of a program that reads everything and gives it all back. A CQE for every stride.
struct Drain {
    Drain(TestDevice& on, const TestStridingRq::Shape& strides)
        : cq{on, strides.log_wqes + strides.log_strides}
        , rq{on, cq, strides} {}
    void turn() {
        stride::store_to_device(&cq.cq.dbrec[0], be32{cq.cq.pi & 0xffffff});
        rq.post(rq.rq.ci + rq.rq.size.entries());
    }
    TestCq cq;
    TestStridingRq rq;
};

/// Queues behind an RSS rule of a port on `wire`.
struct Receiving : TestDevice {
    Receiving(const std::string& name, const PortOptions& options, unsigned queues,
              const TestStridingRq::Shape& strides)
        : TestDevice{name} {
        device.port.wire = std::move(make_wire(options)).value();
        for (unsigned i = 0; i < queues; ++i) {
            drains.push_back(std::make_unique<Drain>(*this, strides));
            rqt.wqs.push_back(&drains.back()->rq.rq);
        }
        qp.type = QpType::rss;
        qp.rqt = &rqt;
        qp.rss.fields = 0xff; // addresses and ports
        for (std::size_t i = 0; i < qp.rss.key.size(); ++i)
            qp.rss.key[i] = static_cast<std::uint8_t>(i * 37 + 11);
        flow.kind = FlowKind::all_default;
        flow.qp = &qp;
        device.port.flows = {&flow};
        ++device.port.flow_changes;
        turn();
    }
    void turn() {
        for (const auto& drain : drains)
            drain->turn();
    }
    std::vector<std::unique_ptr<Drain>> drains{};
    Rqt rqt{};
    Qp qp{};
    Flow flow{};
};

PortOptions options_of(const std::string& name, const std::string& wire,
                       std::vector<std::pair<std::string, std::string>> values) {
    PortOptions options;
    options.name = name;
    options.wire = wire;
    options.values = std::move(values);
    return options;
}

/// Times of passes; the median is what a machine with other work to do shows best.
class Passes {
  public:
    void time(benchmark::State& state, Engine& engine) {
        const auto begin = std::chrono::steady_clock::now();
        moved_ += engine.step(burst);
        const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        state.SetIterationTime(took);
        seconds_.push_back(took);
    }
    std::uint64_t moved() const { return moved_; }
    void report(benchmark::State& state, std::uint64_t bytes) {
        const auto middle = seconds_.begin() + static_cast<std::ptrdiff_t>(seconds_.size() / 2);
        std::nth_element(seconds_.begin(), middle, seconds_.end());
        state.counters["ns/packet"] = *middle / burst * 1e9;
        state.counters["Gb/s"] = burst * static_cast<double>(bytes) * 8 / *middle / 1e9;
        state.counters["broken"] = static_cast<double>(broken_total());
    }

  private:
    std::vector<double> seconds_{};
    std::uint64_t moved_{};
};

/// Arguments: bytes of a frame, flows, queues, KiB of buffers of a queue (and as many of its CQ, if frames
/// are short), QPs that send nothing.
void receive(benchmark::State& state) {
    reset_broken(true);
    const auto bytes = static_cast<std::uint64_t>(state.range(0));
    const PortOptions options =
        options_of("g", "gen", {{"size", std::to_string(bytes)}, {"flows", std::to_string(state.range(1))}});
    Receiving port{"g", options, static_cast<unsigned>(state.range(2)),
                   shape_of(static_cast<std::uint64_t>(state.range(3)), bytes)};
    TestCq cq{port, 4};
    std::vector<std::unique_ptr<TestSq>> silent;
    for (std::int64_t i = 0; i < state.range(4); ++i)
        silent.push_back(std::make_unique<TestSq>(port, cq));
    Engine engine{EngineOptions{.manual = true}};
    engine.add_port(port.device.port);
    engine.on_fault([](const void*) { return true; }); // as in a program
    Passes passes;
    for (auto _ : state) {
        passes.time(state, engine);
        port.turn();
    }
    passes.report(state, bytes);
    if (passes.moved() != static_cast<std::uint64_t>(state.iterations()) * burst)
        state.SkipWithError("passes that were not full");
}
BENCHMARK(receive)
    ->ArgNames({"bytes", "flows", "queues", "kib", "silent"})
    ->Args({64, 1, 1, 256, 0})
    ->Args({64, 256, 1, 256, 0})
    ->Args({64, 256, 4, 256, 0})
    ->Args({64, 256, 16, 256, 0})
    ->Args({64, 256, 64, 256, 0})
    // The same memory in all, so that what is left is the engine's.
    ->Args({64, 256, 1, 16384, 0})
    ->Args({64, 256, 64, 8, 0})
    ->Args({64, 256, 1, 512, 0})
    ->Args({64, 256, 1, 256, 64})
    ->Args({1500, 256, 1, 1024, 0})
    ->UseManualTime();

/// Arguments: bytes of a frame. One send queue, one receive queue, frames pointed to.
void send_and_receive(benchmark::State& state) {
    reset_broken(true);
    const auto bytes = static_cast<std::uint32_t>(state.range(0));
    TestDevice sender{"a"};
    sender.device.port.wire = std::move(make_wire(options_of("a", "pair", {{"pause", "on"}}))).value();
    Receiving receiver{"b", options_of("b", "pair", {{"pause", "on"}}), 1,
                       shape_of(bytes > 64 ? 1024 : 256, bytes)};
    TestCq cq{sender, 12};
    TestSq sq{sender, cq, 8};
    Memory memory{std::size_t{burst} * 2048};
    const Lkey lkey = sender.add_region(memory, false);
    const Bytes frame = make_frame(FrameSpec{.payload = bytes - 42U});
    for (unsigned i = 0; i < burst; ++i)
        memory.put(std::size_t{i} * 2048, frame);
    Engine engine{EngineOptions{.manual = true}};
    engine.add_port(sender.device.port);
    engine.add_port(receiver.device.port);
    engine.on_fault([](const void*) { return true; });
    Passes passes;
    for (auto _ : state) {
        for (unsigned i = 0; i < burst; ++i)
            sq.send(lkey, memory.address() + std::uint64_t{i} * 2048, bytes, i + 1 == burst);
        passes.time(state, engine);
        stride::store_to_device(&cq.cq.dbrec[0], be32{cq.cq.pi & 0xffffff});
        receiver.turn();
    }
    passes.report(state, bytes);
    if (receiver.device.port.counters.rx_frames != passes.moved()) state.SkipWithError("frames were lost");
}
BENCHMARK(send_and_receive)->ArgName("bytes")->Arg(64)->Arg(1500)->UseManualTime();

} // namespace
} // namespace swhca::test

BENCHMARK_MAIN();
