// SPDX-License-Identifier: BSD-3-Clause
/// Mini-CQEs: the same packets, in the same mbufs, as with ordinary completions.
#include "rx_fixture.hpp"

namespace stride::mprq::test {
namespace {

class Compressed : public RxFixture {
  protected:
    static constexpr RxOffloads offloads =
        RxOffloads{RxOffload::packet_type} | RxOffload::checksum | RxOffload::vlan_strip;

    static std::vector<std::vector<std::byte>> frames(std::uint32_t first, std::uint32_t count,
                                                      std::uint32_t bytes) {
        std::vector<std::vector<std::byte>> all;
        for (std::uint32_t n = first; n < first + count; ++n)
            all.push_back(frame_of(n, bytes + n % 7));
        return all;
    }
};

TEST_F(Compressed, BlocksOfEverySizeGiveTheirPacketsInOrder) {
    set_up({.log_strides = 7, .mbufs = 1023, .compressed = true, .offloads = offloads});
    std::uint32_t n = 0;
    for (std::uint32_t size = 1; size <= 64; ++size)
        for (const std::uint16_t wanted : {std::uint16_t{1}, std::uint16_t{3}, std::uint16_t{64}}) {
            if (hca->next_stride() + 2 * size > shape.strides_per_wqe())
                hca->fill(shape.strides_per_wqe() - hca->next_stride());
            hca->receive_compressed(frames(n, size, 200));
            EXPECT_EQ(queue->ready_packets(), size);
            for (const std::uint32_t end = n + size; n < end;) {
                std::vector<rte_mbuf*> packets = burst(wanted);
                ASSERT_FALSE(packets.empty());
                for (rte_mbuf* m : packets) {
                    expect_packet(m, n, 200 + n % 7);
                    ++n;
                }
                EXPECT_EQ(queue->ready_packets(), end - n);
                free_all(packets);
            }
        }
    EXPECT_EQ(queue->stats().compressed, n);
    expect_sums_up(n);
}

TEST_F(Compressed, BlockThatSaysMoreThanTheRingHoldsIsNotCountedAsReady) {
    set_up({.log_strides = 4, .compressed = true, .offloads = offloads});
    for (std::uint32_t n = 0; n < 3; ++n)
        ASSERT_TRUE(send(n, 200));
    hca->receive_compressed(frames(3, 2, 200),
                            [](mlx5_cqe64& title) { title.byte_cnt = be32{60000}.wire(); });
    EXPECT_LE(queue->ready_packets(), shape.cq_entries());
    std::vector<rte_mbuf*> packets = burst();
    free_all(packets);
}

TEST_F(Compressed, MbufFieldsAreThoseOfOrdinaryCompletions) {
    set_up({.log_strides = 7, .compressed = true, .offloads = offloads});
    const FakeHca::Edit describe = [](mlx5_cqe64& cqe) {
        cqe.hds_ip_ext = MLX5_CQE_L3_OK | MLX5_CQE_L4_OK;
        cqe.l4_hdr_type_etc = MLX5_CQE_L3_HDR_TYPE_IPV4 << 2 | 2 << 4 | 1;
        cqe.vlan_info = be16{0x2123}.wire();
    };
    ASSERT_TRUE(hca->receive(frame_of(0, 300), describe) && hca->receive(frame_of(1, 300), describe));
    std::vector<rte_mbuf*> plain = burst();
    hca->receive_compressed({frame_of(2, 300), frame_of(3, 300)}, describe);
    std::vector<rte_mbuf*> packets = burst();
    ASSERT_EQ(packets.size(), 2U);
    for (std::uint32_t n = 0; n < 2; ++n) {
        EXPECT_EQ(packets[n]->ol_flags, plain[n]->ol_flags);
        EXPECT_NE(packets[n]->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED, 0U);
        EXPECT_EQ(packets[n]->packet_type, plain[n]->packet_type);
        EXPECT_EQ(packets[n]->vlan_tci, plain[n]->vlan_tci);
        EXPECT_EQ(packets[n]->pkt_len, plain[n]->pkt_len);
        expect_packet(packets[n], n + 2, 300);
    }
    free_all(plain);
    free_all(packets);
}

TEST_F(Compressed, BlockOfErrorsOrOfImpossibleSizeIsNotBelieved) {
    const FakeHca::Edit lies[] = {
        [](mlx5_cqe64& title) { title.op_own = MLX5_CQE_RESP_ERR << 4 | 3 << 2; },
        [](mlx5_cqe64& title) { title.byte_cnt = 0; },
        [](mlx5_cqe64& title) { title.byte_cnt = be32{1U << 20}.wire(); },
    };
    for (const FakeHca::Edit& lie : lies) {
        set_up({.log_strides = 7, .compressed = true});
        hca->receive_compressed(frames(0, 4, 200), lie);
        EXPECT_TRUE(burst().empty());
        EXPECT_EQ(queue->stats().recoveries, 1U);
        EXPECT_EQ(queue->stats().packets, 0U);
        TearDown();
        pool = nullptr;
    }
}

TEST_F(Compressed, CompletionsOfABlockAreCountedWhenTheQueueStops) {
    set_up({.log_strides = 7, .compressed = true});
    hca->receive_compressed(frames(0, 20, 200));
    hca->reset();
    queue->stop();
    EXPECT_EQ(queue->stats().discarded_at_stop, 20U);
}

TEST_F(Compressed, HashFormatGivesAll32BitsOfEachHashAndFindsEachPacket) {
    set_up(
        {.log_strides = 7, .mbufs = 1023, .compressed = true, .offloads = RxOffloads{RxOffload::rss_hash}});
    const FakeHca::Edit hashed = [](mlx5_cqe64& title) {
        reinterpret_cast<std::byte*>(&title)[mlx5::cqe_rx_hash_type_offset] = std::byte{0xc1};
    };
    std::uint32_t n = 0;
    for (std::uint32_t size = 1; size <= 30; ++size) {
        if (hca->next_stride() + 2 * size > shape.strides_per_wqe())
            hca->fill(shape.strides_per_wqe() - hca->next_stride());
        std::vector<std::uint32_t> hashes;
        for (std::uint32_t i = 0; i < size; ++i)
            hashes.push_back((n + i + 1) * 0x9e3779b1U);
        hca->receive_compressed(frames(n, size, 100 * (size % 3 + 1)), hashed, hashes);
        std::vector<rte_mbuf*> packets = burst(64);
        ASSERT_EQ(packets.size(), size);
        for (rte_mbuf* m : packets) {
            EXPECT_NE(m->ol_flags & RTE_MBUF_F_RX_RSS_HASH, 0U);
            EXPECT_EQ(m->hash.rss, (n + 1) * 0x9e3779b1U);
            expect_packet(m, n, 100 * (size % 3 + 1) + n % 7);
            ++n;
        }
        free_all(packets);
    }
    expect_sums_up(n);
}

} // namespace
} // namespace stride::mprq::test
