// SPDX-License-Identifier: BSD-3-Clause
/// Room, completions, keys and limits of a send queue.
#include "tx_fixture.hpp"

#include <gtest/gtest.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

namespace stride::test {
namespace {

using mbufqp::TxRefusal;

class TxQueueTest : public TxFixture {
  protected:
    std::uint64_t refused(TxRefusal reason) const {
        return queue_->stats().refused[static_cast<std::size_t>(reason)];
    }
};

TEST_F(TxQueueTest, FullRingTakesFromTheFrontOnly) {
    open({.features = TxFeature::multi_packet});
    auto mbufs = packets(100);
    ASSERT_EQ(put(mbufs), 64U);
    EXPECT_EQ(put(mbufs.data() + 64, 36), 0U);
    EXPECT_EQ(queue_->stats().full, 2U);
    hca_->execute();
    ASSERT_EQ(put(mbufs.data() + 64, 36), 36U);
    hca_->execute();
    ASSERT_EQ(hca_->frames().size(), 100U);
    for (std::size_t i = 0; i < 100; ++i)
        ASSERT_EQ(hca_->frames()[i].bytes, content(64, static_cast<std::uint8_t>(i)));
    finish();
}

TEST_F(TxQueueTest, RingFullOfWqebbsTakesFromTheFrontOnly) {
    open({.features = {}, .mbufs = 512}); // a WQEBB a packet
    auto mbufs = packets(100);
    ASSERT_EQ(put(mbufs), 64U);
    EXPECT_EQ(queue_->write_avail(), 0U);
    hca_->execute(10);
    EXPECT_EQ(put(mbufs.data() + 64, 36), 0U) << "no completion yet was asked for";
    hca_->execute();
    EXPECT_EQ(put(mbufs.data() + 64, 36), 36U);
    finish();
}

TEST_F(TxQueueTest, EveryRingSizeSendsThreeRoundsInOrder) {
    for (unsigned log_wqebbs = 6; log_wqebbs <= 15; ++log_wqebbs) {
        open({.features = TxFeature::multi_packet,
              .log_wqebbs = log_wqebbs,
              .log_cqes = 8,
              .mbufs = 1U << log_wqebbs});
        const unsigned total = 3U << log_wqebbs;
        unsigned sent = 0;
        while (sent < total) {
            std::vector<rte_mbuf*> mbufs = packets(32);
            for (std::size_t i = 0; i < 32; ++i)
                *rte_pktmbuf_mtod(mbufs[i], std::uint32_t*) = sent + static_cast<unsigned>(i);
            unsigned done = 0;
            while (done < 32) {
                done += put(mbufs.data() + done, 32 - done);
                hca_->execute();
            }
            sent += 32;
        }
        for (unsigned i = 0; i < total; ++i) {
            std::uint32_t number;
            std::memcpy(&number, hca_->frames()[i].bytes.data(), sizeof number);
            ASSERT_EQ(number, i) << "ring of " << (1U << log_wqebbs);
        }
        finish();
        EXPECT_EQ(hca_->broken(), "");
    }
}

TEST_F(TxQueueTest, IndicesWrapPastSixteenBitsInTheLargestRing) {
    open({.features = {}, .log_wqebbs = 15, .log_cqes = 12, .mbufs = 32768});
    for (unsigned i = 0; i < 200000 / 64; ++i) {
        ASSERT_EQ(put(packets(64)), 64U);
        hca_->execute();
        hca_->frames().clear();
    }
    finish();
}

TEST_F(TxQueueTest, BurstsOf32MakeOneCompletionAndOneDoorbellEach) {
    open({.features = {TxFeature::multi_packet, TxFeature::fast_free}, .log_wqebbs = 9, .mbufs = 512});
    for (unsigned i = 0; i < 100; ++i) {
        ASSERT_EQ(put(packets(32)), 32U);
        hca_->execute();
    }
    EXPECT_LE(hca_->cqes_written(), 101U);
    EXPECT_EQ(queue_->stats().doorbells, 100U);
    EXPECT_LE(queue_->stats().wqes, 100U + 100U * 9 / 512 + 1)
        << "one WQE a burst, one more at the end of the ring";
    finish();
}

TEST_F(TxQueueTest, SinglePacketsWhileTheHcaIsBehindMakeACompletionEvery32) {
    open({.features = TxFeature::multi_packet, .log_wqebbs = 10, .mbufs = 1024});
    for (unsigned i = 0; i < 640; ++i)
        ASSERT_EQ(put({packet(64)}), 1U);
    hca_->execute();
    EXPECT_LE(hca_->cqes_written(), 640U / 32 + 1);
    finish();
}

TEST_F(TxQueueTest, LonePacketIsFreedWithoutFurtherTraffic) {
    open({.features = TxFeature::multi_packet});
    ASSERT_EQ(put({packet(64)}), 1U);
    hca_->execute();
    EXPECT_EQ(queue_->done_cleanup(0), 1U);
    EXPECT_EQ(hca_->nops(), 0U) << "with no completion to come the packet asked for its own";
}

TEST_F(TxQueueTest, CompletionQueueOfFourNeitherOverflowsNorStalls) {
    open({.features = {}, .log_wqebbs = 8, .log_cqes = 2, .mbufs = 256});
    for (unsigned i = 0; i < 200; ++i) {
        auto mbufs = packets(100);
        unsigned done = put(mbufs);
        while (done < 100) {
            hca_->execute();
            const unsigned more = put(mbufs.data() + done, 100 - done);
            ASSERT_NE(more, 0U) << "stalled";
            done += more;
        }
    }
    EXPECT_EQ(hca_->broken(), "");
    for (int i = 0; i < 4; ++i) {
        hca_->execute();
        queue_->done_cleanup(0);
    }
    EXPECT_EQ(queue_->in_flight(), 0U);
}

TEST_F(TxQueueTest, CqEntriesSufficeForEveryRingSize) {
    for (std::uint32_t mbufs = 64; mbufs <= 32768; mbufs *= 2)
        for (std::uint32_t wqebbs = 64; wqebbs <= 32768; wqebbs *= 2) {
            const std::uint32_t thresholds = mbufs / std::min(32U, mbufs / 4) + 4;
            EXPECT_GE(TxQueue::cq_entries(mbufs, wqebbs), thresholds + 2);
        }
}

TEST_F(TxQueueTest, Cqes128BytesLongAreReadInTheirSecondHalf) {
    open({.features = TxFeature::multi_packet, .cqe_bytes = 128});
    for (unsigned i = 0; i < 300; ++i) {
        ASSERT_EQ(put(packets(40)), 40U);
        hca_->execute();
    }
    finish();
}

TEST_F(TxQueueTest, KeyIsLookedUpOnceAndThenHitsTheCache) {
    open({.features = TxFeature::multi_packet});
    const auto chunks = hca_->keys().size();
    for (unsigned i = 0; i < 50; ++i) {
        ASSERT_EQ(put(packets(32)), 32U);
        hca_->execute();
    }
    EXPECT_LE(key_lookups_, chunks);
    EXPECT_EQ(queue_->stats().key_misses, key_lookups_);
    finish();
}

TEST_F(TxQueueTest, PacketInMemoryWithoutAKeyIsRefusedAndThoseBeforeItGo) {
    open({.features = TxFeature::multi_packet});
    std::vector<std::uint8_t> foreign(256, 7);
    rte_mbuf_ext_shared_info shared{};
    shared.free_cb = [](void*, void*) {};
    rte_mbuf_ext_refcnt_set(&shared, 1);
    rte_mbuf* alien = packet(0);
    rte_pktmbuf_attach_extbuf(alien, foreign.data(), 0, 256, &shared);
    alien->data_off = 0;
    alien->data_len = 100;
    alien->pkt_len = 100;
    std::vector<rte_mbuf*> mbufs{packet(64), packet(64), alien, packet(64)};
    EXPECT_EQ(put(mbufs), 2U);
    EXPECT_EQ(refused(TxRefusal::no_key), 1U);
    EXPECT_EQ(queue_->stats().full, 0U);
    hca_->add_key(foreign.data(), foreign.size());
    EXPECT_EQ(put(mbufs.data() + 2, 2), 2U) << "it has a key now";
    hca_->execute();
    EXPECT_EQ(hca_->frames().at(2).bytes, Bytes(foreign.begin(), foreign.begin() + 100));
    finish();
}

TEST_F(TxQueueTest, KeyThatEndsInsideAPacketIsNoKeyForIt) {
    open({.features = TxFeature::multi_packet});
    std::vector<std::uint8_t> foreign(256, 7);
    hca_->add_key(foreign.data(), 99);
    rte_mbuf_ext_shared_info shared{};
    shared.free_cb = [](void*, void*) {};
    rte_mbuf_ext_refcnt_set(&shared, 1);
    rte_mbuf* alien = packet(0);
    rte_pktmbuf_attach_extbuf(alien, foreign.data(), 0, 256, &shared);
    alien->data_off = 0;
    alien->data_len = 100;
    alien->pkt_len = 100;
    EXPECT_EQ(put({alien}), 0U);
    alien->data_len = 99;
    alien->pkt_len = 99;
    EXPECT_EQ(put({alien}), 1U);
    finish();
}

TEST_F(TxQueueTest, ForgottenRangeIsLookedUpAgain) {
    open({.features = TxFeature::multi_packet});
    ASSERT_EQ(put({packet(64)}), 1U);
    hca_->execute();
    const auto before = hca_->keys();
    for (const auto& [lkey, range] : before) {
        hca_->remove_key(lkey);
        hca_->add_key(reinterpret_cast<const void*>(range.base), range.bytes);
    }
    ++generation_;
    ASSERT_EQ(put({packet(64)}), 1U);
    hca_->execute();
    EXPECT_EQ(hca_->broken(), "");
    finish();
}

TEST_F(TxQueueTest, FramesOutsideTheLengthLimitsAreRefusedByReason) {
    open({.features = {TxFeature::multi_packet, TxFeature::multi_segment}, .max_frame_bytes = 1518});
    rte_mbuf* limit = packet(1518);
    rte_mbuf* too_long = packet(1519);
    rte_mbuf* too_short = packet(13);
    rte_mbuf* long_chain = packet(1519, 1, 3);
    rte_mbuf* liar = packet(3000, 1, 3);
    liar->pkt_len = 1000;
    EXPECT_EQ(put({limit, too_long}), 1U);
    EXPECT_EQ(put({too_short}), 0U);
    EXPECT_EQ(put({long_chain}), 0U);
    EXPECT_EQ(put({liar}), 0U);
    EXPECT_EQ(refused(TxRefusal::too_long), 3U);
    EXPECT_EQ(refused(TxRefusal::too_short), 1U);
    for (rte_mbuf* mbuf : {too_long, too_short, long_chain, liar})
        rte_pktmbuf_free(mbuf);
    finish();
}

TEST_F(TxQueueTest, PrepareNamesTheFirstPacketThatPutWouldRefuse) {
    open({.features = TxFeature::multi_segment, .max_frame_bytes = 1518});
    TxRefusal reason{};
    std::vector<rte_mbuf*> mbufs{packet(64), packet(64, 1, 61), packet(64, 1, 62), packet(1519, 1, 2),
                                 packet(64)};
    mbufs[4]->ol_flags = RTE_MBUF_F_TX_IP_CKSUM;
    EXPECT_EQ(queue_->prepare(mbufs.data(), 5, reason), 2U);
    EXPECT_EQ(reason, TxRefusal::too_many_segments);
    EXPECT_EQ(queue_->prepare(mbufs.data() + 3, 2, reason), 0U);
    EXPECT_EQ(reason, TxRefusal::too_long);
    EXPECT_EQ(queue_->prepare(mbufs.data() + 4, 1, reason), 0U);
    EXPECT_EQ(reason, TxRefusal::offload);
    EXPECT_EQ(queue_->prepare(mbufs.data(), 2, reason), 2U);
    for (rte_mbuf* mbuf : mbufs)
        rte_pktmbuf_free(mbuf);
}

TEST_F(TxQueueTest, DescriptorStatusAndWriteAvailFollowTheRing) {
    open({.features = TxFeature::multi_packet, .log_wqebbs = 8});
    EXPECT_EQ(queue_->write_avail(), 64U);
    EXPECT_EQ(queue_->descriptor_status(63), RTE_ETH_TX_DESC_DONE);
    EXPECT_EQ(queue_->descriptor_status(64), -EINVAL);
    ASSERT_EQ(put(packets(10)), 10U);
    EXPECT_EQ(queue_->write_avail(), 54U);
    EXPECT_EQ(queue_->descriptor_status(53), RTE_ETH_TX_DESC_DONE);
    EXPECT_EQ(queue_->descriptor_status(54), RTE_ETH_TX_DESC_FULL);
    hca_->execute();
    EXPECT_EQ(queue_->descriptor_status(63), RTE_ETH_TX_DESC_DONE);
    finish();
}

TEST_F(TxQueueTest, DoneCleanupBringsHomeWhatNoCompletionWasAskedFor) {
    open({.features = TxFeature::multi_packet});
    ASSERT_EQ(put({packet(64)}), 1U);
    ASSERT_EQ(put({packet(64)}), 1U); // the first one's completion is to come: this one asks for none
    hca_->execute();
    EXPECT_EQ(queue_->done_cleanup(0), 1U);
    hca_->execute();
    EXPECT_EQ(queue_->done_cleanup(0), 1U);
    EXPECT_EQ(hca_->nops(), 1U);
}

TEST_F(TxQueueTest, DoneCleanupStopsAtTheNumberAskedFor) {
    open({.features = {}, .log_wqebbs = 9, .mbufs = 512});
    for (unsigned i = 0; i < 10; ++i)
        ASSERT_EQ(put(packets(32)), 32U);
    hca_->execute();
    EXPECT_EQ(queue_->done_cleanup(1), 32U);
    EXPECT_EQ(queue_->in_flight(), 288U);
    finish();
}

TEST_F(TxQueueTest, ConfigurationOutsideTheLimitsIsRefusedWithANumber) {
    FakeHca small{5, 6};
    FakeHca fine{6, 6};
    mbufqp::TxQueueConfig config;
    config.sq = small.sq();
    config.cq = small.cq();
    config.keys.find = &TxFixture::find_key;
    config.recovery.recover = &TxFixture::recover;
    auto made = TxQueue::create(config);
    ASSERT_FALSE(made.ok());
    EXPECT_EQ(made.error().code, EINVAL);
    EXPECT_NE(made.error().what.find("32 WQEBBs"), std::string::npos);
    config.sq = fine.sq();
    config.mbufs = 32769;
    EXPECT_FALSE(TxQueue::create(config).ok());
    config.mbufs = 64;
    config.min_inline_bytes = 19;
    EXPECT_FALSE(TxQueue::create(config).ok());
    config.min_inline_bytes = 18;
    EXPECT_TRUE(TxQueue::create(config).ok());
}

TEST_F(TxQueueTest, CountersAddUpAndStartAgainAtZero) {
    open({.features = TxFeature::multi_packet});
    ASSERT_EQ(put(packets(10, 100)), 10U);
    auto stats = queue_->stats();
    EXPECT_EQ(stats.packets, 10U);
    EXPECT_EQ(stats.bytes, 1000U);
    EXPECT_EQ(stats.wqes, 1U);
    EXPECT_EQ(stats.doorbells, 1U);
    queue_->reset_stats();
    finish();
    stats = queue_->stats();
    EXPECT_EQ(stats.packets, 0U);
    EXPECT_EQ(stats.completions, 1U);
}

TEST_F(TxQueueTest, EveryFeatureSetSendsAMixedStreamUnchanged) {
    std::mt19937 generator{7};
    const auto random = [&] { return static_cast<std::uint32_t>(generator()); };
    for (unsigned bits = 0; bits < 64; ++bits) {
        TxFeatures features = TxFeatures::from_bits(static_cast<std::uint8_t>(bits));
        open({.features = features, .log_cqes = 8, .inline_max_bytes = 200});
        const bool chains = features.has(TxFeature::multi_segment);
        std::vector<std::uint32_t> lengths;
        for (unsigned round = 0; round < 40; ++round) {
            std::vector<rte_mbuf*> mbufs;
            for (unsigned i = 0; i < 16; ++i) {
                const std::uint32_t bytes = 14 + random() % 1400;
                lengths.push_back(bytes);
                mbufs.push_back(packet(bytes, static_cast<std::uint8_t>(lengths.size()),
                                       chains && random() % 4 == 0 ? 1 + random() % 12 : 1));
            }
            unsigned done = 0;
            while (done < 16) {
                done += put(mbufs.data() + done, 16 - done);
                hca_->execute(1 + random() % 8);
            }
        }
        hca_->execute();
        ASSERT_EQ(hca_->broken(), "") << bits;
        ASSERT_EQ(hca_->frames().size(), lengths.size());
        for (std::size_t i = 0; i < lengths.size(); ++i)
            ASSERT_EQ(hca_->frames()[i].bytes, content(lengths[i], static_cast<std::uint8_t>(i + 1))) << bits;
        finish();
    }
}

TEST_F(TxQueueTest, HcaOnAnotherThreadSeesWholeWqesOnly) {
    open({.features = {TxFeature::multi_packet, TxFeature::multi_segment}, .log_cqes = 8});
    constexpr unsigned total = 20000;
    std::thread device{[&] {
        while (hca_->frames().size() < total && hca_->broken().empty())
            if (hca_->execute() == 0) std::this_thread::yield();
    }};
    unsigned sent = 0;
    while (sent < total) {
        std::vector<rte_mbuf*> mbufs;
        for (unsigned i = 0; i < 20; ++i)
            mbufs.push_back(packet(64, static_cast<std::uint8_t>(sent + i), i == 7 ? 5 : 1));
        unsigned done = 0;
        while (done < 20) {
            const unsigned more = put(mbufs.data() + done, 20 - done);
            if (more == 0) std::this_thread::yield();
            done += more;
        }
        sent += 20;
    }
    device.join();
    for (unsigned i = 0; i < total; ++i)
        ASSERT_EQ(hca_->frames()[i].bytes, content(64, static_cast<std::uint8_t>(i)));
    finish();
}

} // namespace
} // namespace stride::test
