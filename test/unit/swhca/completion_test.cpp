// SPDX-License-Identifier: BSD-3-Clause
/// Arming CQs and the events that follow.
#include "rig.hpp"

#include <rdma/ib_user_verbs.h>
#include <sys/socket.h>
#include <unistd.h>

namespace swhca::test {
namespace {

/// A CQ with a completion channel, and a send queue that completes there.
struct Armed : Bench {
    Armed()
        : cq{*this, 4}
        , sq{*this, cq}
        , memory{4096} {
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fds), 0);
        channel.program_fd = fds[0];
        channel.engine_fd = fds[1];
        cq.cq.channel = &channel;
        cq.cq.user_handle = 0xfeedULL;
        lkey = add_region(memory);
        open_cq(cq.cq, device.port);
    }
    ~Armed() {
        close(fds[0]);
        close(fds[1]);
    }
    void arm(std::uint32_t sequence, std::uint32_t ci, bool solicited_only = false) {
        stride::store_to_device(&cq.cq.dbrec[1], be32{sequence << 28 | (solicited_only ? 1U << 24 : 0) | ci});
    }
    void complete_one(bool solicited = false) {
        sq.ctrl(prm::Opcode::nop, 1);
        prm::CtrlSegment::solicited::set(sq.ds(0), solicited ? 1 : 0);
        sq.post(1);
        engine.step(1);
        engine.step(1); // the arm word is looked at once a round
    }
    /// Number of events waiting; each must name the CQ.
    unsigned events() {
        unsigned count = 0;
        ib_uverbs_comp_event_desc event{};
        while (recv(fds[0], &event, sizeof event, 0) == static_cast<ssize_t>(sizeof event)) {
            EXPECT_EQ(event.cq_handle, 0xfeedULL);
            ++count;
        }
        return count;
    }

    TestCq cq;
    TestSq sq;
    Memory memory;
    Lkey lkey{};
    CompChannel channel{};
    int fds[2]{-1, -1};
};

TEST(CompletionEvents, UnarmedCqSendsNone) {
    Armed t;
    t.complete_one();
    EXPECT_EQ(t.events(), 0U);
}

TEST(CompletionEvents, FirstArmWithAllBitsZeroIsSeen) {
    Armed t;
    t.arm(0, 0);
    t.engine.step(1);
    EXPECT_EQ(t.events(), 0U);
    t.complete_one();
    EXPECT_EQ(t.events(), 1U);
    EXPECT_EQ(t.cq.cq.comp_events, 1U);
    t.complete_one();
    EXPECT_EQ(t.events(), 0U) << "one event per arm";
}

TEST(CompletionEvents, CompletionsThatCameBeforeTheArmFireAtOnce) {
    Armed t;
    t.complete_one();
    t.arm(0, 0); // the program has not seen the completion
    t.engine.step(1);
    EXPECT_EQ(t.events(), 1U);
    t.arm(1, 1);
    t.engine.step(1);
    EXPECT_EQ(t.events(), 0U) << "it has seen it now";
    t.complete_one();
    EXPECT_EQ(t.events(), 1U);
}

TEST(CompletionEvents, SolicitedOnlyWaitsForASolicitedCompletion) {
    Armed t;
    t.arm(0, 0, true);
    t.engine.step(1);
    t.complete_one(false);
    EXPECT_EQ(t.events(), 0U);
    t.complete_one(true);
    EXPECT_EQ(t.events(), 1U);
}

TEST(CompletionEvents, SolicitedOnlyWakesForAnErrorToo) {
    Armed t;
    t.arm(0, 0, true);
    t.engine.step(1);
    t.sq.send(Lkey{0x99900}, 0, 60);
    t.engine.step(1);
    EXPECT_EQ(t.events(), 1U);
}

TEST(CompletionEvents, OverrunIsToldOnTheAsyncChannel) {
    Armed t;
    int async[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, async), 0);
    t.context.async_engine_fd = async[1];
    t.cq.acknowledge = false;
    for (unsigned i = 0; i < 17; ++i)
        t.complete_one();
    ib_uverbs_async_event_desc event{};
    EXPECT_EQ(recv(async[0], &event, sizeof event, 0), static_cast<ssize_t>(sizeof event));
    EXPECT_EQ(event.event_type, 0U) << "IB_EVENT_CQ_ERR";
    EXPECT_EQ(event.element, 0xfeedULL);
    EXPECT_EQ(t.cq.cq.async_events, 1U);
    close(async[0]);
    close(async[1]);
}

} // namespace
} // namespace swhca::test
