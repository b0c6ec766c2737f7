// SPDX-License-Identifier: BSD-3-Clause
/// Faults on request.
#include "datagram_rig.hpp"
#include "swhca/engine/faults.hpp"

#include <cerrno>

namespace swhca::test {
namespace {

using prm::Cqe;

/// An HCA of one device with one striding RQ that gets everything, and a send queue.
struct Faulty {
    Faulty() {
        reset_broken(true);
        hca.engines.push_back(std::make_unique<Engine>(EngineOptions{-1, false, true}));
        hca.devices.push_back(std::make_unique<Device>());
        Device& device = *hca.devices[0];
        device.name = "mlx5_0";
        device.engine = hca.engines.front().get();
        auto made = std::make_unique<TestWire>();
        wire = made.get();
        device.port.wire = std::move(made);
        device.engine->add_port(device.port);
    }
    Device& device() { return *hca.devices[0]; }
    stride::Status fault(const std::string& text) { return inject_fault(hca, text); }

    Hca hca{};
    TestWire* wire{};
};

struct FaultyQueues : Faulty, TestDevice {
    FaultyQueues()
        : TestDevice{"unused"} {
        context.device = &Faulty::device();
        // Keys are looked up in the device of the context.
        buffers = std::make_unique<Memory>(std::size_t{8192});
        Mr mr{};
        mr.pd = pd;
        mr.start = mr.iova = buffers->address();
        mr.length_bytes = buffers->bytes();
        mr.local_write = true;
        key = Faulty::device().mrs.add(mr);
        rqt.wqs = {&rq.rq};
        rq.rq.context = &context;
        rq.lkey = key;
        for (std::uint32_t i = 0; i < 2; ++i) {
            rq.write_wqe(i);
            prm::DataSegment::address::set(rq.wqe(i) + 16, buffers->address() + i * rq.wqe_bytes());
        }
        Port& port = Faulty::device().port;
        set_rq_state(rq.rq, QueueState::ready, port);
        qp.type = QpType::rss;
        qp.rqt = &rqt;
        flow.kind = FlowKind::all_default;
        flow.qp = &qp;
        port.flows = {&flow};
        ++port.flow_changes;
        rq.post(2);
    }
    TestCq cq{*this, 5};
    TestStridingRq rq{*this, cq, {.log_wqes = 1, .log_strides = 4}};
    std::unique_ptr<Memory> buffers{};
    Lkey key{};
    Rqt rqt{};
    Qp qp{};
    Flow flow{};
};

TEST(Fault, PacketCompletesInErrorAfterSoManyThatDoNot) {
    FaultyQueues t;
    ASSERT_TRUE(t.fault("mlx5_0 rx_error after=2 syndrome=0x4").ok());
    for (unsigned i = 0; i < 4; ++i)
        t.wire->give(plain_frame(60));
    t.hca.step(1);
    EXPECT_EQ(t.cq.poll()->opcode(), prm::CqeOpcode::responder_send);
    EXPECT_EQ(t.cq.poll()->opcode(), prm::CqeOpcode::responder_send);
    const auto failed = t.cq.poll();
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->opcode(), prm::CqeOpcode::responder_error);
    EXPECT_EQ(failed->syndrome(), prm::Syndrome::local_protection);
    const auto flushed = t.cq.poll();
    ASSERT_TRUE(flushed);
    EXPECT_EQ(flushed->syndrome(), prm::Syndrome::flushed);
    EXPECT_EQ(broken_total(), 0U);
}

TEST(Fault, FillersComeWhereAskedAndPacketsGoOnBehindThem) {
    FaultyQueues t;
    ASSERT_TRUE(t.fault("mlx5_0 filler every=2 strides=3").ok());
    for (unsigned i = 0; i < 4; ++i)
        t.wire->give(plain_frame(60));
    std::vector<std::uint32_t> at, fillers;
    while (const auto cqe = t.cq.poll()) {
        (cqe->get<Cqe::filler>() != 0 ? fillers : at).push_back(cqe->get<Cqe::wqe_counter>());
    }
    EXPECT_EQ(at, (std::vector<std::uint32_t>{0, 4, 5, 9}));
    EXPECT_EQ(fillers, (std::vector<std::uint32_t>{1, 6}));
}

TEST(Fault, CompletionsComeInAnotherOrderThanPackets) {
    FaultyQueues t;
    ASSERT_TRUE(t.fault("mlx5_0 disorder every=2").ok());
    const auto strides = [&] {
        std::vector<std::uint32_t> found;
        while (const auto cqe = t.cq.poll()) {
            EXPECT_EQ(cqe->opcode(), prm::CqeOpcode::responder_send);
            found.push_back(cqe->get<Cqe::wqe_counter>());
        }
        return found;
    };
    for (unsigned i = 0; i < 5; ++i)
        t.wire->give(plain_frame(60, i));
    EXPECT_EQ(strides(), (std::vector<std::uint32_t>{0, 2, 1, 3}));
    t.hca.step(1);
    EXPECT_EQ(strides(), (std::vector<std::uint32_t>{4})) << "nothing more came";
    for (std::uint32_t i = 0; i < 5; ++i)
        EXPECT_EQ(t.buffers->copy(i * 64, 60), plain_frame(60, i)) << "packets lie where they should";
    ASSERT_TRUE(t.fault("mlx5_0 disorder every=0").ok());
    t.wire->give(plain_frame(60));
    t.wire->give(plain_frame(60));
    EXPECT_EQ(strides(), (std::vector<std::uint32_t>{5, 6}));
    EXPECT_EQ(broken_total(), 0U);
}

TEST(Fault, HeldCompletionsGoWithTheirQueue) {
    FaultyQueues t;
    ASSERT_TRUE(t.fault("mlx5_0 disorder every=1").ok());
    t.wire->give(plain_frame(60));
    set_rq_state(t.rq.rq, QueueState::reset, t.Faulty::device().port);
    t.hca.step(1);
    EXPECT_FALSE(t.cq.poll());
}

TEST(Fault, CapsAreOthersUntilCleared) {
    Faulty t;
    const std::uint32_t before = t.device().caps.max_qp_wr;
    ASSERT_TRUE(t.fault("mlx5_0 caps max_qp_wr=64 striding=off").ok());
    EXPECT_EQ(t.device().caps.max_qp_wr, 64U);
    EXPECT_FALSE(t.device().caps.striding);
    ASSERT_TRUE(t.fault("mlx5_0 caps max_sge=2").ok());
    ASSERT_TRUE(t.fault("mlx5_0 clear").ok());
    EXPECT_EQ(t.device().caps.max_qp_wr, before);
    EXPECT_TRUE(t.device().caps.striding);
    EXPECT_EQ(t.device().caps.max_sge, DeviceCaps{}.max_sge);
}

TEST(Fault, CqOverrunKillsTheCqOfAPacket) {
    FaultyQueues t;
    ASSERT_TRUE(t.fault("mlx5_0 cq_overrun after=1").ok());
    t.wire->give(plain_frame(60));
    EXPECT_FALSE(t.cq.cq.overrun);
    t.wire->give(plain_frame(60));
    EXPECT_TRUE(t.cq.cq.overrun);
    EXPECT_EQ(t.rq.rq.state, QueueState::error);
}

TEST(Fault, CommandIsRefusedAtTheNthCall) {
    Faulty t;
    ASSERT_TRUE(t.fault("mlx5_0 refuse command=REG_MR after=2 errno=11").ok());
    EXPECT_EQ(refused_by_fault(t.device(), "REG_MR"), 0);
    EXPECT_EQ(refused_by_fault(t.device(), "CREATE_CQ"), 0);
    EXPECT_EQ(refused_by_fault(t.device(), "REG_MR"), 0);
    EXPECT_EQ(refused_by_fault(t.device(), "REG_MR"), EAGAIN);
    EXPECT_EQ(refused_by_fault(t.device(), "REG_MR"), 0);
}

TEST(Fault, RemovedDeviceAnswersEio) {
    Faulty t;
    ASSERT_TRUE(t.fault("mlx5_0 remove").ok());
    EXPECT_EQ(refused_by_fault(t.device(), "QUERY_DEVICE"), EIO);
    ASSERT_TRUE(t.fault("mlx5_0 clear").ok());
    EXPECT_EQ(refused_by_fault(t.device(), "QUERY_DEVICE"), EIO);
}

TEST(Fault, LatePortSleepsThroughPasses) {
    Faulty t;
    ASSERT_TRUE(t.fault("mlx5_0 late passes=3 every=4").ok());
    // Nothing to see but that one pass in four looks at the wire.
    struct Polls final : Wire {
        void attach(FrameSink&) override {}
        unsigned transmit(std::span<const Frame> frames) override {
            return static_cast<unsigned>(frames.size());
        }
        unsigned poll(unsigned) override { return ++polls, 0; }
        unsigned polls{};
    };
    auto made = std::make_unique<Polls>();
    Polls* polls = made.get();
    t.device().port.wire = std::move(made);
    for (unsigned i = 0; i < 40; ++i)
        t.hca.step(1);
    EXPECT_EQ(polls->polls, 10U);
}

TEST(Fault, NonsenseIsNamed) {
    Faulty t;
    const auto why = [&](const char* text) {
        const stride::Status status = t.fault(text);
        return status.ok() ? std::string{} : status.error().what;
    };
    EXPECT_NE(why("mlx5_9 clear").find("mlx5_9"), std::string::npos);
    EXPECT_NE(why("mlx5_0 eat").find("eat"), std::string::npos);
    EXPECT_NE(why("mlx5_0 rx_error after=x").find("after=x"), std::string::npos);
    EXPECT_NE(why("mlx5_0 rx_error when=3").find("when=3"), std::string::npos);
    EXPECT_NE(why("mlx5_0 caps max_qp_wr=0").find("max_qp_wr=0"), std::string::npos);
    EXPECT_NE(why("mlx5_0 caps colour=3").find("colour=3"), std::string::npos);
    EXPECT_NE(why("mlx5_0 caps min_log_stride=9 max_log_stride=7").find("above"), std::string::npos);
    EXPECT_NE(why("").find("DEVICE"), std::string::npos);
}

TEST(Fault, SendCompletesInErrorAndTheRestIsFlushed) {
    IbBench t;
    TestUdQp qp{t, 0x48, 7};
    t.device.port.faults = std::make_unique<PortFaults>();
    t.device.port.faults->tx_error = {true, 2, 0x02};
    for (unsigned i = 0; i < 4; ++i)
        qp.send({.qpn = 0x77, .qkey = 7, .lid = 9}, Bytes(40, 1));
    t.engine.step(64);
    t.engine.step(64);
    EXPECT_EQ(t.wire->sent.size(), 2U);
    EXPECT_EQ(qp.send_cq.poll()->opcode(), prm::CqeOpcode::requester);
    EXPECT_EQ(qp.send_cq.poll()->opcode(), prm::CqeOpcode::requester);
    EXPECT_EQ(qp.send_cq.poll()->syndrome(), prm::Syndrome::local_qp_operation);
    EXPECT_EQ(qp.send_cq.poll()->syndrome(), prm::Syndrome::flushed);
    EXPECT_EQ(broken_total(), 0U);
}

/// A send queue of a port whose completions come in another order.
struct DisorderedSends : Bench {
    DisorderedSends() {
        device.port.faults = std::make_unique<PortFaults>();
        device.port.faults->tx_disorder = {.every = 2, .countdown = 2};
    }
    /// Sends, and returns the WQE indices of the completions as they come.
    std::vector<std::uint32_t> send(unsigned count) {
        for (unsigned i = 0; i < count; ++i)
            sq.send(lkey, memory.address(), 60);
        engine.step(64);
        return completed();
    }
    std::vector<std::uint32_t> completed() {
        std::vector<std::uint32_t> found;
        while (const auto cqe = cq.poll())
            found.push_back(cqe->get<Cqe::wqe_counter>());
        return found;
    }
    Memory memory{4096};
    Lkey lkey{add_region(memory, false)};
    TestCq cq{*this, 5};
    TestSq sq{*this, cq};
};

TEST(Fault, CompletionsOfSendsComeInAnotherOrderThanWqes) {
    DisorderedSends t;
    EXPECT_EQ(t.send(5), (std::vector<std::uint32_t>{0, 2, 1, 3}));
    t.engine.step(64);
    EXPECT_EQ(t.completed(), (std::vector<std::uint32_t>{4})) << "nothing more was sent";
    EXPECT_EQ(t.wire->sent.size(), 5U);
    EXPECT_EQ(broken_total(), 0U);
}

TEST(Fault, HeldCompletionOfASendGoesWithItsQueue) {
    DisorderedSends t;
    EXPECT_EQ(t.send(2), (std::vector<std::uint32_t>{0}));
    set_qp_state(t.sq.qp, QueueState::reset);
    t.engine.step(64);
    EXPECT_TRUE(t.completed().empty());
}

} // namespace
} // namespace swhca::test
