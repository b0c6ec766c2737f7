// SPDX-License-Identifier: BSD-3-Clause
/// Error completions and completions that can't be true.
#include "rx_fixture.hpp"

namespace stride::mprq::test {
namespace {

class Errors : public RxFixture {
  protected:
    /// Sends and receives `count` numbered packets from `n` on.
    void expect_traffic(std::uint32_t n, std::uint32_t count) {
        for (std::uint32_t end = n + count; n < end; ++n) {
            ASSERT_TRUE(send(n, 200 + n % 700));
            std::vector<rte_mbuf*> packets = burst();
            ASSERT_EQ(packets.size(), 1U) << n;
            expect_packet(packets[0], n, 200 + n % 700);
            free_all(packets);
        }
    }
};

TEST_F(Errors, LengthErrorLosesOnePacketSkipsItsStridesAndResetsNothing) {
    set_up({});
    for (const std::uint32_t strides : {0U, 1U, 3U}) {
        ASSERT_TRUE(send(0, 300));
        hca->error(MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR, strides);
        ASSERT_TRUE(send(1, 300));
        std::vector<rte_mbuf*> packets = burst();
        ASSERT_EQ(packets.size(), 2U);
        expect_packet(packets[0], 0, 300);
        expect_packet(packets[1], 1, 300);
        free_all(packets);
    }
    EXPECT_EQ(queue->stats().dropped_error, 3U);
    EXPECT_EQ(queue->stats().recoveries, 0U);
    expect_sums_up(9);
}

TEST_F(Errors, LengthErrorInCqesOf128BytesLosesOnePacketToo) {
    set_up({.cqe_bytes = 128});
    for (std::uint32_t round = 0; round < 200; ++round) {
        ASSERT_TRUE(send(round, 300));
        hca->error(MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR, 1);
        std::vector<rte_mbuf*> packets = burst();
        ASSERT_EQ(packets.size(), 1U);
        expect_packet(packets[0], round, 300);
        free_all(packets);
    }
    EXPECT_EQ(queue->stats().dropped_error, 200U);
    EXPECT_EQ(queue->stats().recoveries, 0U);
    expect_sums_up(400);
}

TEST_F(Errors, FlushedQueueIsRecoveredAndPacketsHeldStayIntact) {
    set_up({.log_strides = 6, .mbufs = 511});
    std::vector<rte_mbuf*> held;
    for (std::uint32_t n = 0; n < 37; ++n)
        ASSERT_TRUE(send(n, 200));
    held = burst();
    ASSERT_EQ(held.size(), 37U);
    hca->error(MLX5_CQE_SYNDROME_WR_FLUSH_ERR, 0);
    hca->error(MLX5_CQE_SYNDROME_WR_FLUSH_ERR, 0);
    EXPECT_TRUE(burst().empty());
    EXPECT_EQ(queue->stats().recoveries, 1U);
    EXPECT_EQ(queue->stats().dropped_error, 0U);
    expect_traffic(100, 1000);
    for (std::uint32_t n = 0; n < held.size(); ++n)
        expect_packet(held[n], n, 200);
    free_all(held);
    expect_sums_up(1037);
}

TEST_F(Errors, ProtectionErrorCountsThePacketAndWhatWasBehindIt) {
    set_up({});
    ASSERT_TRUE(send(0, 300));
    hca->error(MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, 1);
    ASSERT_TRUE(send(1, 300) && send(2, 300));
    std::vector<rte_mbuf*> packets = burst();
    ASSERT_EQ(packets.size(), 1U);
    free_all(packets);
    EXPECT_EQ(queue->stats().dropped_error, 3U);
    EXPECT_EQ(queue->stats().recoveries, 1U);
    expect_traffic(10, 100);
    expect_sums_up(104);
}

TEST_F(Errors, CompletionsThatContradictTheWqeAreNeverBelieved) {
    const FakeHca::Edit lies[] = {
        [](mlx5_cqe64& cqe) { cqe.wqe_counter = be16{1}.wire(); },              // behind us
        [](mlx5_cqe64& cqe) { cqe.wqe_counter = be16{200}.wire(); },            // beyond the WQE
        [](mlx5_cqe64& cqe) { cqe.byte_cnt = be32{0x7fff0100}.wire(); },        // strides beyond it
        [](mlx5_cqe64& cqe) { cqe.byte_cnt = be32{0x00000100}.wire(); },        // no strides
        [](mlx5_cqe64& cqe) { cqe.byte_cnt = be32{0x00010101}.wire(); },        // longer than its strides
        [](mlx5_cqe64& cqe) { cqe.byte_cnt = be32{0x00010000}.wire(); },        // no bytes
        [](mlx5_cqe64& cqe) { cqe.op_own = MLX5_CQE_RESP_SEND << 4 | 3 << 2; }, // compressed, not asked for
        [](mlx5_cqe64& cqe) { cqe.op_own = MLX5_CQE_RESP_ERR << 4 | 3 << 2; },  // compressed error
        [](mlx5_cqe64& cqe) { cqe.op_own = MLX5_CQE_RESP_WR_IMM << 4; },        // not a receive
        [](mlx5_cqe64& cqe) { cqe.op_own = MLX5_CQE_REQ << 4; },
    };
    for (const FakeHca::Edit& lie : lies) {
        set_up({});
        for (std::uint32_t n = 0; n < 5; ++n)
            ASSERT_TRUE(send(n, 250));
        ASSERT_TRUE(hca->receive(frame_of(5, 250), lie));
        std::vector<rte_mbuf*> packets = burst();
        ASSERT_EQ(packets.size(), 5U) << &lie - lies;
        for (std::uint32_t n = 0; n < 5; ++n)
            expect_packet(packets[n], n, 250);
        free_all(packets);
        EXPECT_EQ(queue->stats().dropped_bad_cqe, 1U) << &lie - lies;
        EXPECT_EQ(queue->stats().recoveries, 1U);
        expect_traffic(10, 100);
        expect_sums_up(106);
        TearDown();
        pool = nullptr;
    }
}

TEST_F(Errors, FailedRecoveryReceivesNothingUntilRestarted) {
    set_up({});
    hca->fail_reset = true;
    hca->error(MLX5_CQE_SYNDROME_WR_FLUSH_ERR, 0);
    EXPECT_TRUE(burst().empty());
    EXPECT_TRUE(burst().empty());
    EXPECT_EQ(queue->stats().failed_recoveries, 1U);
    hca->fail_reset = false;
    hca->reset();
    queue->stop();
    ASSERT_TRUE(queue->start().ok());
    hca->ready = true;
    expect_traffic(0, 100);
}

TEST_F(Errors, FailedRecoveryIsTriedAgainByItselfAndEverMoreRarely) {
    for (const bool at_ready : {false, true}) {
        set_up({});
        (at_ready ? hca->fail_ready : hca->fail_reset) = true;
        hca->error(MLX5_CQE_SYNDROME_WR_FLUSH_ERR, 0);
        for (int poll = 0; poll < 10000; ++poll)
            ASSERT_TRUE(burst().empty());
        EXPECT_GT(queue->stats().failed_recoveries, 2U);
        EXPECT_LT(queue->stats().failed_recoveries, 10U);
        hca->fail_ready = hca->fail_reset = false;
        for (int poll = 0; poll < 20000; ++poll)
            ASSERT_TRUE(burst().empty());
        expect_traffic(0, 100);
        expect_sums_up(100);
        TearDown();
        pool = nullptr;
    }
}

TEST_F(Errors, RecoveryWithPartOfTheRingPostedGoesOn) {
    set_up({});
    queue.reset();
    shape.log_wqes = 3;
    shape.posted_limit = 5;
    hca = std::make_unique<FakeHca>(FakeHca::striding(shape));
    Result<RxQueuePtr> made = RxQueue::create_striding(config(), shape, hca->cq_ring, hca->rq_ring);
    ASSERT_TRUE(made.ok());
    queue = std::move(made).value();
    ASSERT_TRUE(queue->start().ok());
    EXPECT_EQ(hca->posted(), 5U);
    for (int round = 0; round < 20; ++round) {
        expect_traffic(0, 100);
        EXPECT_EQ(hca->posted(), 5U);
        hca->error(MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, 0);
        EXPECT_TRUE(burst().empty());
        EXPECT_EQ(hca->posted(), 5U);
    }
    expect_traffic(0, 100);
}

} // namespace
} // namespace stride::mprq::test
