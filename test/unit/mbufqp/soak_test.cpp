// SPDX-License-Identifier: BSD-3-Clause
/// Soak: random features, rings, packets, bursts and faults. Every frame that leaves is checked: whole, in
/// the order of its flow, once; every packet taken is sent or counted as lost; every mbuf is home at the end
/// of each run. STRIDE_SOAK_PACKETS: packets in all (300,000).
#include "tx_fixture.hpp"

#include <array>
#include <cstdlib>
#include <cstring>
#include <random>

namespace stride::test {
namespace {

constexpr std::uint64_t packets_of_a_run = 100000;
constexpr std::uint16_t flows = 64;

std::uint64_t packets_wanted() {
    const char* text = std::getenv("STRIDE_SOAK_PACKETS");
    if (text != nullptr) return std::strtoull(text, nullptr, 10);
    const char* scope = std::getenv("STRIDE_TEST_SCOPE");
    return scope != nullptr && std::string{scope} == "long" ? 100000000 : 300000;
}

/// STRIDE_SOAK_SEED: to go on from where another run has been.
std::uint64_t seed() {
    const char* text = std::getenv("STRIDE_SOAK_SEED");
    return text != nullptr ? std::strtoull(text, nullptr, 10) : 20161128;
}

/// Behind the EtherType of every frame.
struct Stamp {
    std::uint16_t flow;
    std::uint16_t bytes; ///< of the frame as the application has it
    std::uint64_t sequence;
} __attribute__((packed));
constexpr std::uint32_t stamp_at = 14, smallest = 60, tag_bytes = 4;
constexpr std::uint32_t tso_header_bytes = 14 + 20 + 20;

class Soak : public TxFixture {
  protected:
    std::uint32_t random(std::uint32_t below) { return static_cast<std::uint32_t>(random_() % below); }
    bool one_in(std::uint32_t count) { return random(count) == 0; }

    QueueOptions some_queue() {
        QueueOptions options;
        options.features =
            mbufqp::canonical(TxFeatures::from_bits(static_cast<TxFeatures::Bits>(random(256))));
        options.log_wqebbs = 6 + random(4);
        options.log_cqes = 2 + random(6);
        options.cqe_bytes = one_in(2) ? 64 : 128;
        options.mbufs = 64U << random(4);
        options.min_inline_bytes = options.features.has(TxFeature::inline_header) ? 18 : 0;
        options.inline_max_bytes = options.features.has(TxFeature::inline_frames) ? random(300) : 0;
        options.max_frame_bytes = 1518;
        return options;
    }

    void open_run() {
        const QueueOptions options = some_queue();
        open(options);
        features_ = queue_->features();
        hca_->on_frame = [this](const SentFrame& frame) { check(frame); };
        hca_->fail_wqe = [this](std::uint16_t) { return failing_ && one_in(2000); };
        sent_ = 0;
        forgetful_ = false;
        careful_ = one_in(2);
    }

    rte_mbuf* make() {
        const std::uint16_t flow = static_cast<std::uint16_t>(random(flows));
        const bool chain = features_.has(TxFeature::multi_segment) && one_in(16);
        const std::uint32_t bytes = one_in(8) ? smallest + random(1400) : smallest + random(64);
        const std::uint32_t segments = chain ? 1 + random(8) : 1;
        rte_mbuf* mbuf = packet_of(bytes, segments);
        const Stamp stamp{flow, static_cast<std::uint16_t>(bytes), next_[flow]++};
        std::memcpy(rte_pktmbuf_mtod_offset(mbuf, void*, stamp_at), &stamp, sizeof stamp);
        if (features_.has(TxFeature::vlan_insert) && one_in(32)) mbuf->ol_flags |= RTE_MBUF_F_TX_VLAN;
        if (features_.has(TxFeature::checksum) && one_in(4)) mbuf->ol_flags |= RTE_MBUF_F_TX_IP_CKSUM;
        if (features_.has(TxFeature::tso) && one_in(64)) {
            mbuf->ol_flags |= RTE_MBUF_F_TX_TCP_SEG | RTE_MBUF_F_TX_IPV4;
            mbuf->l2_len = 14;
            mbuf->l3_len = mbuf->l4_len = 20;
            mbuf->tso_segsz = 500;
        }
        return mbuf;
    }
    /// The first segment holds the headers; the rest is spread.
    rte_mbuf* packet_of(std::uint32_t bytes, std::uint32_t segments) {
        rte_mbuf* head = rte_pktmbuf_alloc(pool_);
        head->pkt_len = bytes;
        head->nb_segs = static_cast<std::uint16_t>(segments);
        head->data_len = static_cast<std::uint16_t>(segments == 1 ? bytes : smallest - 1);
        rte_mbuf* last = head;
        std::uint32_t left = bytes - head->data_len;
        for (std::uint32_t i = 1; i < segments; ++i) {
            rte_mbuf* segment = rte_pktmbuf_alloc(pool_);
            segment->data_len = static_cast<std::uint16_t>(i + 1 == segments ? left : left / 2);
            left -= segment->data_len;
            last->next = segment;
            last = segment;
        }
        *rte_pktmbuf_mtod_offset(last, std::uint8_t*, last->data_len - 1) = static_cast<std::uint8_t>(bytes);
        return head;
    }

    void check(const SentFrame& frame) {
        const bool tagged = frame.bytes[12] == 0x81;
        const std::uint32_t shift = tagged ? tag_bytes : 0;
        Stamp stamp;
        std::memcpy(&stamp, frame.bytes.data() + stamp_at + shift, sizeof stamp);
        ++sent_;
        if (stamp.flow >= flows || frame.bytes.size() != stamp.bytes + shift ||
            frame.bytes.back() != static_cast<std::uint8_t>(stamp.bytes))
            ++spoilt_;
        else if (stamp.sequence < seen_[stamp.flow])
            ++doubled_or_late_;
        else
            seen_[stamp.flow] = stamp.sequence + 1;
    }

    /// Something of what may happen to a queue beside sending.
    void trouble() {
        const std::uint32_t kind = random(8);
        if (careful_ && (kind == 3 || kind == 4)) return;
        switch (kind) {
        case 0:
            queue_->done_cleanup(random(100));
            break;
        case 1:
            recovery_fails_ = true;
            break;
        case 2:
            ++generation_; // memory was unmapped: all keys are looked up again
            break;
        case 3:
            forgetful_ = true;
            // Of a WQE that is not posted: a lie that could be true is believed, as it must be.
            hca_->forge_cqe(MLX5_CQE_REQ,
                            static_cast<std::uint16_t>(hca_->sq().dbrec->host() + random(30000)));
            break;
        case 4:
            forgetful_ = true;
            hca_->reset();
            queue_->reset();
            break;
        case 5:
            failing_ = !failing_;
            break;
        case 6:
            hca_->execute();
            break;
        default:
            queue_->reclaim_all();
        }
    }

    /// Sends `count` packets or more.
    void run(std::uint64_t count) {
        std::array<rte_mbuf*, 64> waiting{};
        std::uint32_t held = 0;
        for (std::uint64_t offered = 0; offered < count;) {
            const std::uint32_t wanted = 1 + random(waiting.size());
            while (held < wanted && rte_mempool_avail_count(pool_) > 16) {
                waiting[held++] = make();
                ++offered;
            }
            const std::uint32_t taken = put(waiting.data(), held);
            std::memmove(waiting.data(), waiting.data() + taken, (held - taken) * sizeof waiting[0]);
            held -= taken;
            if (!one_in(4)) hca_->execute(1 + random(64));
            if (held == waiting.size()) hca_->execute();
            if (one_in(500)) trouble();
            if (recovery_fails_ && one_in(64)) recovery_fails_ = false;
        }
        rte_pktmbuf_free_bulk(waiting.data(), held);
        settle();
    }
    void settle() {
        failing_ = recovery_fails_ = false;
        // A queue in error is recovered by the next put, or once it has been asked often enough.
        for (unsigned i = 0; i < 1000 && (hca_->failed() || queue_->in_flight() != 0); ++i) {
            hca_->execute();
            queue_->done_cleanup(0);
            (void)put(nullptr, 0);
        }
        finish();
        const mbufqp::TxStats stats = queue_->stats();
        lost_ += stats.errors + stats.dropped;
        recoveries_ += stats.recoveries;
        taken_ += stats.packets;
        // Whether what a queue is made to forget was sent nobody knows: it counts as lost.
        const std::uint64_t known = sent_ + stats.errors + stats.dropped;
        EXPECT_GE(known, stats.packets) << "taken, and neither sent nor counted";
        EXPECT_TRUE(forgetful_ || known == stats.packets) << known << " of " << stats.packets;
        EXPECT_LE(sent_, stats.packets);
        EXPECT_EQ(hca_->broken(), "");
        EXPECT_EQ(spoilt_, 0U);
        EXPECT_EQ(doubled_or_late_, 0U);
        expect_pool_full();
    }

    std::mt19937_64 random_{seed()};
    TxFeatures features_{};
    bool failing_{};
    bool careful_{}, forgetful_{}; ///< runs in which nothing is, and in which something was, forgotten
    std::array<std::uint64_t, flows> next_{}, seen_{};
    std::uint64_t sent_{}, spoilt_{}, doubled_or_late_{}, lost_{}, taken_{}, recoveries_{};
};

TEST_F(Soak, NoMbufIsLostNoneIsSentTwiceAndFlowsKeepTheirOrder) {
    const std::uint64_t wanted = packets_wanted();
    for (std::uint64_t done = 0; done < wanted && !HasFailure(); done += packets_of_a_run) {
        open_run();
        run(packets_of_a_run);
        if (HasFailure())
            ADD_FAILURE() << "after " << done << " packets, features " << unsigned{features_.bits()};
    }
    std::printf("%llu packets taken, %llu lost in faults, %llu recoveries\n",
                static_cast<unsigned long long>(taken_), static_cast<unsigned long long>(lost_),
                static_cast<unsigned long long>(recoveries_));
}

} // namespace
} // namespace stride::test
