// SPDX-License-Identifier: BSD-3-Clause
/// The engine's thread and its handshake with commands. Under ThreadSanitizer these are the proof.
#include "rig.hpp"

#include <atomic>
#include <thread>

namespace swhca::test {
namespace {

/// A bench with a real engine thread and a wire that counts its polls without any synchronization of its own.
class CountingWire final : public Wire {
  public:
    void attach(FrameSink&) override {}
    unsigned transmit(std::span<const Frame> frames) override { return static_cast<unsigned>(frames.size()); }
    unsigned poll(unsigned) override {
        ++polls; // plain: only a quiesced reader may look
        return 0;
    }
    std::uint64_t polls{};
};

struct Running : TestDevice {
    explicit Running(EngineOptions options = {})
        : TestDevice{"mlx5_0"}
        , engine{options} {
        reset_broken(true);
        auto made = std::make_unique<CountingWire>();
        wire = made.get();
        device.port.wire = std::move(made);
        engine.add_port(device.port);
    }
    std::uint64_t polls() {
        const Engine::Quiesced quiesced{engine};
        return wire->polls;
    }
    CountingWire* wire{};
    Engine engine;
};

/// Waits until the engine has made another pass; fails the test by never returning if it is stuck.
void await_pass(Running& t) {
    const std::uint64_t before = t.polls();
    while (t.polls() == before)
        std::this_thread::yield();
}

TEST(Engine, NoPassRunsWhileQuiesced) {
    Running t;
    t.engine.start();
    await_pass(t);
    for (unsigned i = 0; i < 1000; ++i) {
        const Engine::Quiesced outer{t.engine};
        const Engine::Quiesced inner{t.engine};
        const std::uint64_t before = t.wire->polls;
        t.wire->polls += 1; // a write the engine must not race with
        EXPECT_EQ(t.wire->polls, before + 1);
    }
    await_pass(t);
}

TEST(Engine, SeveralCommandersTakeTurns) {
    Running t;
    t.engine.start();
    std::uint64_t shared = 0;
    std::vector<std::thread> commanders;
    for (unsigned i = 0; i < 4; ++i) {
        commanders.emplace_back([&] {
            for (unsigned n = 0; n < 300; ++n) {
                const Engine::Quiesced quiesced{t.engine};
                ++shared;
                ++t.wire->polls;
            }
        });
    }
    for (std::thread& commander : commanders)
        commander.join();
    EXPECT_EQ(shared, 1200U);
    await_pass(t);
}

TEST(Engine, HoldGivesThePacketsToTheStepper) {
    Running t;
    t.engine.start();
    await_pass(t);
    t.engine.hold();
    t.engine.hold();
    const std::uint64_t before = t.wire->polls;
    for (unsigned i = 0; i < 10; ++i)
        t.engine.step(1);
    EXPECT_EQ(t.wire->polls, before + 10);
    t.engine.release();
    std::this_thread::yield();
    EXPECT_EQ(t.wire->polls, before + 10) << "held twice";
    t.engine.release();
    await_pass(t);
}

TEST(Engine, StopsWhileHeldAndStartsAgain) {
    Running t;
    for (unsigned i = 0; i < 3; ++i) {
        t.engine.start();
        t.engine.start();
        t.engine.hold();
        t.engine.stop();
        t.engine.stop();
        t.engine.release();
        t.engine.start();
        await_pass(t);
        t.engine.stop();
    }
}

TEST(Engine, QuiescesWithoutAThread) {
    Running t{EngineOptions{-1, false, true}};
    t.engine.start();
    EXPECT_EQ(t.polls(), 0U);
    t.engine.step(1);
    EXPECT_EQ(t.polls(), 1U);
}

TEST(Engine, IdleEngineStillAnswers) {
    Running t{EngineOptions{-1, true, false}};
    t.engine.start();
    for (unsigned i = 0; i < 5; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
        await_pass(t);
    }
}

/// A program thread that sends to itself over a pair, against the engine's thread: rings, records, registers
/// and payload are shared by nothing but their own protocol.
TEST(Engine, ProgramAndEngineShareRingsWithoutARace) {
    reset_broken(true);
    TestDevice sender{"a"}, receiver{"b"};
    PortOptions options;
    for (TestDevice* side : {&sender, &receiver}) {
        options.name = side->device.name;
        options.values = {{"pause", "on"}};
        auto wire = make_wire(options);
        ASSERT_TRUE(wire.ok());
        side->device.port.wire = std::move(wire).value();
    }
    Engine engine{EngineOptions{}};
    engine.add_port(sender.device.port);
    engine.add_port(receiver.device.port);
    TestCq send_cq{sender, 6}, receive_cq{receiver, 8};
    TestSq sq{sender, send_cq, 6};
    TestStridingRq rq{receiver, receive_cq, {2, 4, 6, false}};
    Memory memory{64 * 64};
    const Lkey lkey = sender.add_region(memory, false);
    Rqt rqt;
    rqt.wqs = {&rq.rq};
    Qp rss;
    rss.type = QpType::rss;
    rss.rqt = &rqt;
    Flow flow;
    flow.kind = FlowKind::all_default;
    flow.qp = &rss;
    receiver.device.port.flows = {&flow};
    rq.post(4);
    engine.start();
    constexpr unsigned total = 20000;
    unsigned sent = 0, completed = 0, received = 0, posted = 4;
    while (received < total) {
        if (sent < total && sent - completed < 32) {
            memory.put(sent % 64 * 64, plain_frame(60, sent));
            sq.send(lkey, memory.address() + sent % 64 * 64, 60, true);
            ++sent;
        }
        while (send_cq.poll())
            ++completed;
        while (const auto cqe = receive_cq.poll()) {
            const Bytes found = rq.at(cqe->get<prm::Cqe::wqe_id>(), cqe->get<prm::Cqe::wqe_counter>(), 60);
            ASSERT_EQ(found, plain_frame(60, received)) << received;
            if (++received % 16 == 0) rq.post(++posted);
        }
    }
    engine.stop();
    EXPECT_EQ(broken_total(), 0U);
    EXPECT_EQ(receiver.device.port.counters.rx_frames, total);
}

} // namespace
} // namespace swhca::test
