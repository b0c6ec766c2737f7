// SPDX-License-Identifier: BSD-3-Clause
/// Soak: random lengths, bursts, holds, faults, restarts, for every policy. Every byte of every packet is
/// checked, and everything is home at the end. STRIDE_SOAK_PACKETS: packets of each run (200,000).
#include "rx_fixture.hpp"

#include <cstdlib>
#include <deque>
#include <random>

namespace stride::mprq::test {
namespace {

std::uint64_t packets_wanted() {
    const char* text = std::getenv("STRIDE_SOAK_PACKETS");
    return text != nullptr ? std::strtoull(text, nullptr, 10) : 200000;
}

class Soak : public RxFixture {
  protected:
    struct Packet {
        rte_mbuf* mbuf;
        std::uint32_t number, bytes;
    };
    std::uint32_t random(std::uint32_t below) { return static_cast<std::uint32_t>(random_() % below); }

    void arrive() {
        const std::uint32_t kind = random(1000);
        if (kind == 0) { // too long for the queue: dropped, if there is a WQE for it at all
            hca->receive(frame_of(0, setup.max_frame_bytes + 1 + random(500)));
            return;
        }
        const std::uint32_t bytes = kind < 500 ? 60 + random(80) : 60 + random(setup.max_frame_bytes - 59);
        if (!send(next_, bytes)) return;
        expected_.push_back({nullptr, next_++, bytes});
    }
    void take() {
        for (rte_mbuf* m : burst(static_cast<std::uint16_t>(1 + random(64)))) {
            ASSERT_FALSE(expected_.empty());
            const Packet packet = expected_.front();
            expected_.pop_front();
            ++received_;
            held_.push_back({m, packet.number, packet.bytes});
        }
    }
    void let_go(std::size_t keep) {
        while (held_.size() > keep) {
            std::swap(held_[random(static_cast<std::uint32_t>(held_.size()))], held_.back());
            expect_packet(held_.back().mbuf, held_.back().number, held_.back().bytes);
            rte_pktmbuf_free(held_.back().mbuf);
            held_.pop_back();
        }
    }
    void fault() {
        while (!expected_.empty()) {
            take();
            let_go(0);
        }
        hca->error(MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, 0);
        EXPECT_TRUE(burst().empty());
    }
    void restart() {
        hca->reset();
        queue->stop();
        expected_.clear();
        ASSERT_TRUE(queue->start().ok());
        hca->ready = true;
    }
    void run(const QueueSetup& wanted) {
        set_up(wanted);
        for (const std::uint64_t all = packets_wanted(); received_ < all && !HasFatalFailure();) {
            for (std::uint32_t n = random(40); n > 0; --n)
                arrive();
            take();
            const std::uint32_t event = random(2000);
            if (event == 0) fault();
            if (event == 1) restart();
            let_go(random(4) == 0 ? random(200) : random(20));
        }
        let_go(0);
        while (!expected_.empty() && !HasFatalFailure()) {
            take();
            let_go(0);
        }
        const RxStats stats = queue->stats();
        EXPECT_EQ(stats.packets, received_);
        EXPECT_EQ(stats.attached + stats.direct + stats.copied(), stats.packets);
        EXPECT_EQ(stats.dropped_bad_cqe, 0U);
        EXPECT_EQ(stats.dropped_no_mbuf, 0U);
        EXPECT_EQ(stats.buffers_held, 0U);
    }

  private:
    std::mt19937 random_{42};
    std::deque<Packet> expected_{};
    std::vector<Packet> held_{};
    std::uint64_t received_{};
    std::uint32_t next_{};
};

TEST_F(Soak, BoundPacketsAreAllRight) {
    run({.log_strides = 5,
         .max_frame_bytes = 1522,
         .mbufs = 2047,
         .data_room_bytes = 1792,
         .pool_ops = "stride"});
}
TEST_F(Soak, AttachedPacketsAreAllRight) {
    run({.log_stride_bytes = 11, .log_strides = 5, .mbufs = 1023, .headroom_bytes = 128});
}
TEST_F(Soak, PacketsInSmallStridesAreAllRight) {
    run({.log_stride_bytes = 7, .log_strides = 8, .mbufs = 1023, .headroom_bytes = 128});
}
TEST_F(Soak, CopiedPacketsAreAllRight) {
    run({.log_stride_bytes = 8, .log_strides = 6, .mbufs = 1023, .always_copy = true});
}

} // namespace
} // namespace stride::mprq::test
