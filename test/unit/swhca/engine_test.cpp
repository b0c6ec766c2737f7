// SPDX-License-Identifier: BSD-3-Clause
/// The engine's thread and its handshake with commands. Under ThreadSanitizer these are the proof.
#include "frames.hpp"

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

/// Two devices on one wire, each with its queues; served by one engine, or by one each.
struct Ends {
    Ends(const std::string& kind, unsigned engine_count) {
        reset_broken(true);
        PortOptions options;
        options.wire = kind;
        options.engines = engine_count;
        for (unsigned i = 0; i < engine_count; ++i)
            engines.push_back(std::make_unique<Engine>(EngineOptions{.lane = i}));
        for (TestDevice* side : {&sender, &receiver}) {
            options.name = side->device.name;
            options.when_full = WhenFull::wait;
            auto wire = make_wire(options);
            EXPECT_TRUE(wire.ok());
            side->device.port.wire = std::move(wire).value();
        }
        engines.front()->add_port(sender.device.port);
        engines.back()->add_port(receiver.device.port);
        rqt.wqs = {&rq.rq};
        rss.type = QpType::rss;
        rss.rqt = &rqt;
        flow.kind = FlowKind::all_default;
        flow.qp = &rss;
        receiver.device.port.flows = {&flow};
        rq.post(4);
    }
    void start() {
        for (const auto& engine : engines)
            engine->start();
    }
    void stop() {
        for (const auto& engine : engines)
            engine->stop();
    }
    /// The `number`-th frame from the sender to the receiver.
    static Bytes frame_of(unsigned number) {
        Bytes bytes = plain_frame(60, number);
        const Bytes macs{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1};
        std::copy(macs.begin(), macs.end(), bytes.begin());
        return bytes;
    }
    /// What a switch learns the receiver's address from. Before start().
    void introduce_receiver() {
        const CutFrame hello{Bytes{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5}};
        EXPECT_EQ(receiver.device.port.wire->transmit({&hello.frame(), 1}), 1U);
    }
    /// Sends numbered frames of 60 bytes and checks that they arrive in order.
    void exchange(unsigned total) {
        unsigned sent = 0, completed = 0, received = 0, posted = 4;
        while (received < total) {
            if (sent < total && sent - completed < 32) {
                memory.put(sent % 64 * 64, frame_of(sent));
                sq.send(lkey, memory.address() + sent % 64 * 64, 60, true);
                ++sent;
            }
            while (send_cq.poll())
                ++completed;
            while (const auto cqe = receive_cq.poll()) {
                const Bytes found =
                    rq.at(cqe->get<prm::Cqe::wqe_id>(), cqe->get<prm::Cqe::wqe_counter>(), 60);
                ASSERT_EQ(found, frame_of(received)) << received;
                if (++received % 16 == 0) rq.post(++posted);
            }
        }
    }

    TestDevice sender{"a"}, receiver{"b"};
    std::vector<std::unique_ptr<Engine>> engines{};
    TestCq send_cq{sender, 6}, receive_cq{receiver, 8};
    TestSq sq{sender, send_cq, 6};
    TestStridingRq rq{receiver, receive_cq, {2, 4, 6, false}};
    Memory memory{64 * 64};
    Lkey lkey = sender.add_region(memory, false);
    Rqt rqt{};
    Qp rss{};
    Flow flow{};
};

/// A program thread that sends to itself against the engines' threads: rings, records, registers and payload
/// are shared by nothing but their own protocol.
void expect_exchange(const std::string& wire, unsigned engines, unsigned frames) {
    Ends t{wire, engines};
    if (wire == "switch") t.introduce_receiver();
    const std::uint64_t before = t.receiver.device.port.counters.rx_frames;
    t.start();
    t.exchange(frames);
    t.stop();
    EXPECT_EQ(broken_total(), 0U);
    EXPECT_EQ(t.receiver.device.port.counters.rx_frames - before, frames);
}

TEST(Engine, ProgramAndEngineShareRingsWithoutARace) { expect_exchange("pair", 1, 20000); }
TEST(Engine, EnginesOfTwoPortsShareAPairWithoutARace) { expect_exchange("pair", 2, 20000); }
TEST(Engine, EnginesOfTwoPortsShareASwitchWithoutARace) { expect_exchange("switch", 2, 5000); }

TEST(Engine, SenderWaitsForAnEngineThatIsBehind) {
    Ends t{"pair", 2};
    const CutFrame cut{Bytes(1000, 0x11)};
    Wire& wire = *t.sender.device.port.wire;
    unsigned sent = 0;
    while (wire.transmit({&cut.frame(), 1}) == 1)
        ++sent;
    EXPECT_GT(sent, 500U) << "the ring holds a megabyte";
    EXPECT_EQ(t.receiver.device.port.counters.rx_frames, 0U) << "nobody but its engine touches the port";
    EXPECT_GT(t.engines[1]->step(16), 0U);
    EXPECT_EQ(wire.transmit({&cut.frame(), 1}), 1U) << "there is room again";
}

/// Frames for a port whose plug is pulled, two engines.
struct Unplugged : Ends {
    Unplugged()
        : Ends{"pair", 2} {
        stride::store_to_device(rq.rq.dbrec, be32{4});
        set_rq_state(rq.rq, QueueState::ready, receiver.device.port);
    }
    unsigned send() { return sender.device.port.wire->transmit({&cut.frame(), 1}); }
    CutFrame cut{plain_frame(60)};
};

TEST(Engine, WhatWasOnItsWayWhenThePlugWasPulledIsLost) {
    Unplugged t;
    Port& port = t.receiver.device.port;
    EXPECT_EQ(t.send(), 1U);
    t.engines[1]->set_plug(port, false);
    t.engines[1]->set_plug(port, true);
    t.engines[1]->step(16);
    EXPECT_EQ(port.counters.rx_frames, 0U);
    EXPECT_EQ(port.counters.rx_unplugged, 1U);
    EXPECT_EQ(t.send(), 1U);
    t.engines[1]->step(16);
    EXPECT_EQ(port.counters.rx_frames, 1U);
}

TEST(Engine, WhatComesWhileThePlugIsOutIsLost) {
    Unplugged t;
    Port& port = t.receiver.device.port;
    t.engines[1]->set_plug(port, false);
    EXPECT_EQ(t.send(), 1U) << "lost at the far end of the wire";
    port.forced_down.store(false); // a sender that looked just before
    EXPECT_EQ(t.send(), 1U);
    port.forced_down.store(true);
    t.engines[1]->step(16);
    t.engines[1]->set_plug(port, true);
    t.engines[1]->step(16);
    EXPECT_EQ(port.counters.rx_frames, 0U);
    EXPECT_EQ(port.counters.rx_unplugged, 1U);
}

} // namespace
} // namespace swhca::test
