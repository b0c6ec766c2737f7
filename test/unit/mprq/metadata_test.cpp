// SPDX-License-Identifier: BSD-3-Clause
/// What mbufs say of their packets, for every combination of offloads.
#include "rx_fixture.hpp"

#include <rte_mbuf_dyn.h>
#include <rte_mbuf_ptype.h>

namespace stride::mprq::test {
namespace {

class Metadata : public RxFixture {};

void describe_tcp(mlx5_cqe64& cqe) {
    auto* bytes = reinterpret_cast<std::uint8_t*>(&cqe);
    const be32 hash{0xdeadbeef};
    std::memcpy(bytes + mlx5::cqe_rx_hash_result_offset, &hash, sizeof hash);
    bytes[mlx5::cqe_rx_hash_type_offset] = 0x0a;
    cqe.hds_ip_ext = MLX5_CQE_L2_OK | MLX5_CQE_L3_OK | MLX5_CQE_L4_OK;
    cqe.l4_hdr_type_etc = 4 << 4 | MLX5_CQE_L3_HDR_TYPE_IPV4 << 2 | 1; // TCP, IPv4, VLAN stripped
    cqe.vlan_info = be16{0x6123}.wire();
    cqe.timestamp = be64{0x0123456789abcdefULL}.wire();
}

TEST_F(Metadata, EveryCombinationOfOffloadsFillsItsFieldsAndNoOthers) {
    const RxOffloads stamped{RxOffload::timestamp};
    for (std::uint32_t bits = 0; bits < 32; ++bits)
        for (const std::uint32_t bytes : {100U, 1000U}) {
            const RxOffloads on =
                bits < 16 ? RxOffloads::from_bits(bits) : RxOffloads::from_bits(bits - 16) | stamped;
            set_up({.offloads = on});
            ASSERT_TRUE(hca->receive(frame_of(0, bytes), describe_tcp));
            std::vector<rte_mbuf*> packets = burst();
            ASSERT_EQ(packets.size(), 1U);
            const rte_mbuf& m = *packets[0];
            std::uint64_t flags = bytes > 128 ? RTE_MBUF_F_EXTERNAL : 0;
            if (on.has(RxOffload::checksum))
                flags |= RTE_MBUF_F_RX_IP_CKSUM_GOOD | RTE_MBUF_F_RX_L4_CKSUM_GOOD;
            if (on.has(RxOffload::rss_hash)) flags |= RTE_MBUF_F_RX_RSS_HASH;
            if (on.has(RxOffload::vlan_strip)) flags |= RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_RX_VLAN_STRIPPED;
            if (on.has(RxOffload::timestamp)) flags |= timestamp_flag;
            EXPECT_EQ(m.ol_flags, flags);
            EXPECT_EQ(*RTE_MBUF_DYNFIELD(&m, timestamp_offset, const std::uint64_t*),
                      on.has(RxOffload::timestamp) ? 0x0123456789abcdefULL : 0U);
            EXPECT_EQ(m.packet_type,
                      on.has(RxOffload::packet_type)
                          ? RTE_PTYPE_L2_ETHER | RTE_PTYPE_L3_IPV4_EXT_UNKNOWN | RTE_PTYPE_L4_TCP
                          : 0U);
            EXPECT_EQ(m.hash.rss, on.has(RxOffload::rss_hash) ? 0xdeadbeefU : 0U);
            EXPECT_EQ(m.vlan_tci, on.has(RxOffload::vlan_strip) ? 0x6123 : 0);
            free_all(packets);
            TearDown();
            pool = nullptr;
        }
}

TEST_F(Metadata, UnhashedUncheckedUntaggedPacketSaysSo) {
    set_up({.offloads = RxOffloads::from_bits(15)});
    ASSERT_TRUE(send(0, 64));
    std::vector<rte_mbuf*> packets = burst();
    ASSERT_EQ(packets.size(), 1U);
    EXPECT_EQ(packets[0]->ol_flags, 0U);
    EXPECT_EQ(packets[0]->packet_type, std::uint32_t{RTE_PTYPE_L2_ETHER});
    free_all(packets);
}

TEST_F(Metadata, MbufReusedAfterRichPacketCarriesNothingOver) {
    set_up({.mbufs = 1, .offloads = RxOffloads::from_bits(15)});
    ASSERT_TRUE(hca->receive(frame_of(0, 1000), describe_tcp));
    std::vector<rte_mbuf*> packets = burst();
    ASSERT_EQ(packets.size(), 1U);
    free_all(packets);
    ASSERT_TRUE(send(1, 64));
    packets = burst();
    ASSERT_EQ(packets.size(), 1U);
    expect_packet(packets[0], 1, 64);
    EXPECT_EQ(packets[0]->ol_flags, 0U);
    EXPECT_EQ(packets[0]->hash.rss, 0U);
    EXPECT_EQ(packets[0]->vlan_tci, 0);
    free_all(packets);
}

} // namespace
} // namespace stride::mprq::test
