// SPDX-License-Identifier: BSD-3-Clause
/// Who frees what: shared, indirect, external and pinned mbufs, in every order, and at every end.
#include "tx_fixture.hpp"

#include <gtest/gtest.h>

#include <rte_malloc.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace stride::test {
namespace {

class TxOwnership : public TxFixture {
  protected:
    struct External {
        alignas(64) std::array<std::uint8_t, 512> bytes{};
        rte_mbuf_ext_shared_info shared{};
        unsigned freed{};
    };
    static constexpr std::size_t externals = 16;

    /// External segment `index` of 40 bytes.
    rte_mbuf* external(std::size_t index) {
        External& ext = externals_[index];
        ext.shared.free_cb = [](void*, void* opaque) { ++static_cast<External*>(opaque)->freed; };
        ext.shared.fcb_opaque = &ext;
        rte_mbuf_ext_refcnt_set(&ext.shared, 1);
        rte_mbuf* mbuf = packet(0);
        rte_pktmbuf_attach_extbuf(mbuf, ext.bytes.data(), 0, 512, &ext.shared);
        mbuf->data_off = 0;
        mbuf->data_len = 40;
        mbuf->pkt_len = 40;
        return mbuf;
    }
    /// A clone of a new 40-byte mbuf, which is itself dropped: only the clone holds it.
    rte_mbuf* indirect() {
        rte_mbuf* direct = packet(40);
        rte_mbuf* clone = rte_pktmbuf_clone(direct, pool_);
        rte_pktmbuf_free(direct);
        return clone;
    }
    void open_for_chains(TxFeatures more = {}) {
        open({.features = more | TxFeature::multi_segment, .log_cqes = 8});
        hca_->add_key(externals_.data(), sizeof externals_);
    }
    static rte_mbuf* chain(const std::vector<rte_mbuf*>& segments) {
        for (std::size_t i = 0; i + 1 < segments.size(); ++i)
            segments[i]->next = segments[i + 1];
        segments[0]->nb_segs = static_cast<std::uint16_t>(segments.size());
        segments[0]->pkt_len = static_cast<std::uint32_t>(segments.size() * 40);
        return segments[0];
    }
    std::vector<rte_mbuf*> segments_in_order(std::array<int, 4> order) {
        std::vector<rte_mbuf*> segments;
        std::size_t next_external = 0;
        for (const int kind : order)
            segments.push_back(kind == 0 ? packet(40) : kind == 1 ? indirect() : external(next_external++));
        return segments;
    }
    void expect_externals_freed(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i) {
            EXPECT_EQ(externals_[i].freed, 1U) << i;
            externals_[i].freed = 0;
        }
    }

    std::array<External, externals> externals_{};
};

TEST_F(TxOwnership, ChainsOfDirectIndirectAndExternalSegmentsComeHomeInEveryOrder) {
    open_for_chains();
    std::array<int, 4> order{0, 1, 2, 3};
    do {
        ASSERT_EQ(put({chain(segments_in_order(order))}), 1U);
        finish();
        expect_externals_freed(2);
        expect_pool_full();
    } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(TxOwnership, RefusedChainStaysWholeWithTheCaller) {
    open({.features = TxFeature::multi_segment}); // the externals have no key
    std::array<int, 4> order{0, 1, 2, 3};
    do {
        rte_mbuf* mbuf = chain(segments_in_order(order));
        ASSERT_EQ(put({mbuf}), 0U);
        EXPECT_EQ(mbuf->nb_segs, 4U);
        rte_pktmbuf_free(mbuf);
        expect_externals_freed(2);
        expect_pool_full();
    } while (std::next_permutation(order.begin(), order.end()));
}

TEST_F(TxOwnership, SharedPacketIsStillTheApplicationsAfterItIsSent) {
    open({.features = TxFeature::multi_packet});
    rte_mbuf* mbuf = packet(64);
    rte_mbuf_refcnt_update(mbuf, 1);
    ASSERT_EQ(put({mbuf}), 1U);
    finish();
    EXPECT_EQ(rte_mbuf_refcnt_read(mbuf), 1U);
    EXPECT_EQ(held(), 1U);
    rte_pktmbuf_free(mbuf);
}

TEST_F(TxOwnership, OnePacketSentTwiceIsFreedOnce) {
    open({.features = TxFeature::multi_packet});
    rte_mbuf* mbuf = packet(64);
    rte_mbuf_refcnt_update(mbuf, 1);
    ASSERT_EQ(put({mbuf, mbuf}), 2U);
    finish();
    expect_pool_full();
}

TEST_F(TxOwnership, OneOddPacketAtAnyPlaceOfABurstIsSeen) {
    for (const TxFeatures more : {TxFeatures{}, TxFeatures{TxFeature::inline_frames}}) {
        for (std::size_t place = 0; place < 11; ++place) {
            open({.features = more | TxFeature::multi_packet, .inline_max_bytes = 64});
            hca_->add_key(externals_.data(), sizeof externals_);
            auto mbufs = packets(11);
            rte_mbuf_refcnt_update(mbufs[place], 1);
            ASSERT_EQ(put(mbufs), 11U);
            finish();
            EXPECT_EQ(held(), 1U) << place;
            rte_pktmbuf_free(mbufs[place]);

            mbufs = packets(11);
            rte_pktmbuf_free(mbufs[place]);
            mbufs[place] = place % 2 == 0 ? indirect() : external(0);
            ASSERT_EQ(put(mbufs), 11U);
            finish();
            EXPECT_EQ(externals_[0].freed, place % 2) << place;
            externals_[0].freed = 0;
            expect_pool_full();
        }
    }
}

TEST_F(TxOwnership, FastFreedBurstMayHoldExternalBuffersOfAReceiveQueue) {
    open({.features = {TxFeature::multi_packet, TxFeature::fast_free}});
    hca_->add_key(externals_.data(), sizeof externals_);
    for (std::size_t place = 0; place < 11; ++place) {
        auto mbufs = packets(11);
        rte_pktmbuf_free(mbufs[place]);
        mbufs[place] = external(place);
        ASSERT_EQ(put(mbufs), 11U);
        finish();
    }
    expect_externals_freed(11);
}

TEST_F(TxOwnership, InlinedFramesAreFreeAtOnceAndCountedIfLost) {
    open({.features = {TxFeature::multi_packet, TxFeature::inline_frames}, .inline_max_bytes = 64});
    ASSERT_EQ(put(packets(30)), 30U);
    expect_pool_full();
    std::vector<rte_mbuf*> mixed = packets(3);
    mixed.push_back(packet(200));
    ASSERT_EQ(put(mixed), 4U);
    EXPECT_EQ(held(), 4U) << "one of their WQE is pointed to";
    EXPECT_FALSE(queue_->drain(2)) << "they are not sent yet";
    hca_->reset();
    queue_->reset();
    EXPECT_EQ(queue_->stats().dropped, 34U);
}

TEST_F(TxOwnership, PacketsOfSeveralPoolsGoBackToTheirOwn) {
    open({.features = {TxFeature::multi_packet, TxFeature::inline_frames}, .inline_max_bytes = 64});
    rte_mempool* other = rte_pktmbuf_pool_create("other", 63, 0, 0, 512, SOCKET_ID_ANY);
    ASSERT_NE(other, nullptr);
    std::vector<rte_mbuf*> mbufs;
    for (unsigned i = 0; i < 40; ++i) {
        rte_mbuf* mbuf = i % 3 == 0 ? rte_pktmbuf_alloc(other) : packet(64);
        mbuf->data_len = 64; // inlined, so the other pool needs no key
        mbuf->pkt_len = 64;
        mbufs.push_back(mbuf);
    }
    ASSERT_EQ(put(mbufs), 40U);
    finish();
    EXPECT_EQ(rte_mempool_avail_count(other), 63U);
    rte_mempool_free(other);
}

TEST_F(TxOwnership, PinnedExternalMbufsGoBackToTheirPool) {
    open({.features = TxFeature::multi_packet});
    constexpr std::size_t bytes = 64 * 2048;
    void* memory = rte_zmalloc(nullptr, bytes, 4096);
    const rte_pktmbuf_extmem area{memory, rte_malloc_virt2iova(memory), bytes, 2048};
    rte_mempool* pinned = rte_pktmbuf_pool_create_extbuf("pinned", 32, 0, 0, 2048, SOCKET_ID_ANY, &area, 1);
    ASSERT_NE(pinned, nullptr);
    hca_->add_key(memory, bytes);
    std::vector<rte_mbuf*> mbufs;
    for (unsigned i = 0; i < 30; ++i) {
        rte_mbuf* mbuf = rte_pktmbuf_alloc(pinned);
        ASSERT_NE(mbuf, nullptr);
        rte_pktmbuf_append(mbuf, 100);
        mbufs.push_back(mbuf);
    }
    ASSERT_EQ(put(mbufs), 30U);
    finish();
    EXPECT_EQ(rte_mempool_avail_count(pinned), 32U);
    rte_mempool_free(pinned);
    rte_free(memory);
}

TEST_F(TxOwnership, StopRightAfterSendingReleasesEveryExternalBuffer) {
    open_for_chains(TxFeature::multi_packet);
    for (std::size_t i = 0; i < externals; ++i)
        ASSERT_EQ(put({external(i)}), 1U);
    hca_->reset(); // the owner's modify to RESET
    queue_->reset();
    expect_externals_freed(externals);
    expect_pool_full();
    EXPECT_EQ(queue_->stats().dropped, externals);
    EXPECT_EQ(queue_->in_flight(), 0U);
}

TEST_F(TxOwnership, DrainWaitsForWhatIsPostedAndThenNothingIsHeld) {
    open({.features = TxFeature::multi_packet});
    ASSERT_EQ(put({packet(64)}), 1U);
    ASSERT_EQ(put({packet(64)}), 1U);
    EXPECT_FALSE(queue_->drain(3)) << "the HCA does nothing";
    hca_->execute();
    EXPECT_TRUE(queue_->drain(3));
    EXPECT_EQ(hca_->frames().size(), 2U);
}

TEST_F(TxOwnership, RestartedQueueSendsFromTheStartOfTheRing) {
    open({.features = {TxFeature::multi_packet, TxFeature::fast_free}});
    for (unsigned round = 0; round < 100; ++round) {
        ASSERT_EQ(put(packets(1 + round % 60)), 1 + round % 60);
        hca_->execute(round % 3);
        hca_->reset();
        queue_->reset();
        expect_pool_full();
        ASSERT_EQ(put(packets(5)), 5U);
        hca_->execute();
        ASSERT_EQ(hca_->broken(), "");
        finish();
    }
}

TEST_F(TxOwnership, QueueDestroyedWithPacketsInFlightFreesThem) {
    open({.features = TxFeature::multi_packet});
    ASSERT_EQ(put(packets(50)), 50U);
    queue_.reset();
    expect_pool_full();
}

} // namespace
} // namespace stride::test
