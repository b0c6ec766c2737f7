// SPDX-License-Identifier: BSD-3-Clause
/// IPoIB and OPA VNIC through put and get: what the fake HCA gathers is received again.
#include "mbufqp/rx_decap.hpp"
#include "tx_fixture.hpp"

#include "mprq/metadata.hpp"

#include <algorithm>
#include <cstring>

namespace stride::test {
namespace {

using namespace stride::mbufqp;

constexpr UdAddress alice{Qpn{0x123}, 7}, bob{Qpn{0xabcdef}, 0x1234};

IpoibConfig ipoib_config(UdAddress own) {
    IpoibConfig config;
    config.own = own;
    config.gid = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, static_cast<std::uint8_t>(own.lid)};
    config.mtu_bytes = 4092;
    return config;
}
OpaVnicConfig opa_config() {
    OpaVnicConfig config;
    config.vesw_id = 9;
    config.encap_slid = 1;
    config.eth_mtu = 10000;
    return config;
}

class EncapPut : public TxFixture {
  protected:
    static constexpr TxFeatures chains{TxFeature::multi_segment};

    void open_ipoib(TxFeatures features = chains) {
        open({.features = features,
              .max_frame_bytes = 4106,
              .encap = EncapKind::ipoib,
              .encap_context = &alice_});
    }
    void open_opa(TxFeatures features = chains) {
        open({.features = features,
              .max_frame_bytes = 10018,
              .encap = EncapKind::opa_vnic,
              .encap_context = &vnic_});
    }
    rte_mbuf* addressed(std::uint32_t bytes, const Mac& to, std::uint8_t seed = 1,
                        std::uint32_t segments = 1) {
        rte_mbuf* mbuf = packet(bytes, seed, segments);
        const Mac from = mac_of(alice);
        std::uint32_t at = 0;
        for (rte_mbuf* seg = mbuf; seg != nullptr; seg = seg->next)
            for (std::uint32_t i = 0; i < seg->data_len && at < 14; ++i, ++at)
                rte_pktmbuf_mtod(seg, std::uint8_t*)[i] = at < 6    ? to[at]
                                                          : at < 12 ? from[at - 6]
                                                                    : std::uint8_t{0x12};
        return mbuf;
    }
    static Bytes bytes_of(const rte_mbuf* mbuf) {
        Bytes out;
        for (; mbuf != nullptr; mbuf = mbuf->next) {
            const auto* data = rte_pktmbuf_mtod(mbuf, const std::uint8_t*);
            out.insert(out.end(), data, data + mbuf->data_len);
        }
        return out;
    }
    /// As a receive queue with mbufs of `room` bytes hands over what was sent.
    rte_mbuf* received(const Bytes& wire, std::size_t room, std::size_t grh_bytes) {
        Bytes all(grh_bytes, 0x77);
        all.insert(all.end(), wire.begin(), wire.end());
        rte_mbuf *head = nullptr, *last = nullptr;
        for (std::size_t at = 0; at < all.size(); at += room) {
            rte_mbuf* seg = rte_pktmbuf_alloc(pool_);
            seg->data_len = static_cast<std::uint16_t>(std::min(room, all.size() - at));
            std::memcpy(rte_pktmbuf_mtod(seg, void*), all.data() + at, seg->data_len);
            if (head == nullptr)
                head = seg;
            else
                last->next = seg, ++head->nb_segs;
            last = seg;
        }
        head->pkt_len = static_cast<std::uint32_t>(all.size());
        head->tx_offload = mprq::DatagramSource{alice.qpn.value, alice.lid, 0}.packed();
        return head;
    }
    /// The frame that comes out at the other end; empty if it was dropped.
    Bytes get(EncapKind kind, void* context, const Bytes& wire, std::size_t room = 2048) {
        rte_mbuf* mbuf = received(wire, room, kind == EncapKind::ipoib ? 40 : 0);
        if (encap_decap(kind)(context, &mbuf, 1, frames_) == 0) return {};
        EXPECT_EQ(mbuf->tx_offload, 0U);
        Bytes out = bytes_of(mbuf);
        EXPECT_EQ(out.size(), mbuf->pkt_len);
        rte_mbuf_sanity_check(mbuf, 1);
        rte_pktmbuf_free(mbuf);
        return out;
    }

    IpoibPort alice_{ipoib_config(alice)}, bob_{ipoib_config(bob)};
    OpaVnicPort vnic_{opa_config()};
    const Mac to_bob_ = mac_of(bob);
    const Mac to_lid_{0x02, 0, 0, 2, 0, 0};
    RxFrames frames_{};
};

TEST_F(EncapPut, IpoibFramesOfAllShapesArriveFromEveryPlaceInTheRing) {
    open_ipoib();
    std::uint32_t sent = 0;
    for (std::uint32_t bytes : {14U, 15U, 60U, 64U, 191U, 192U, 193U, 1514U, 2058U, 4106U})
        for (std::uint32_t segments : {1U, 2U, 3U, 13U, 40U}) {
            if (segments > bytes || bytes / segments > 2000) continue;
            for (int round = 0; round < 3; ++round) {
                rte_mbuf* mbuf = addressed(bytes, to_bob_, static_cast<std::uint8_t>(sent), segments);
                const Bytes frame = bytes_of(mbuf);
                ASSERT_EQ(put({mbuf}), 1U) << bytes << " in " << segments;
                hca_->execute();
                ASSERT_EQ(hca_->broken(), "");
                const SentFrame& wire = hca_->frames().back();
                ASSERT_EQ(get(EncapKind::ipoib, &bob_, wire.bytes), frame);
                ASSERT_EQ(get(EncapKind::ipoib, &bob_, wire.bytes, 200), frame) << "scattered";
                mlx5_wqe_av av;
                std::memcpy(&av, wire.address.data(), sizeof av);
                ASSERT_EQ(be32::from_wire(av.dqp_dct).host(), 0x80000000U | bob.qpn.value);
                ASSERT_EQ(be16::from_wire(av.rlid).host(), bob.lid);
                ++sent;
            }
        }
    finish();
    EXPECT_EQ(queue_->stats().packets, sent);
}

TEST_F(EncapPut, OpaFramesOfAllLengthsAndShapesArrive) {
    open_opa();
    for (std::uint32_t bytes = 60; bytes <= 10018; bytes += bytes < 200 ? 1 : 409)
        for (std::uint32_t segments : {1U, 2U, 7U, 45U}) {
            if (segments > bytes || bytes / segments > 2000) continue;
            rte_mbuf* mbuf = addressed(bytes, to_lid_, static_cast<std::uint8_t>(bytes), segments);
            const Bytes frame = bytes_of(mbuf);
            ASSERT_EQ(put({mbuf}), 1U) << bytes << " in " << segments;
            hca_->execute();
            ASSERT_EQ(hca_->broken(), "");
            ASSERT_EQ(hca_->frames().back().bytes.size() % 8, 0U);
            for (const std::size_t room : {2048U, 199U, 64U})
                ASSERT_EQ(get(EncapKind::opa_vnic, &vnic_, hca_->frames().back().bytes, room), frame);
            hca_->frames().clear();
        }
    finish();
}

TEST_F(EncapPut, OpaTagIsInsertedAndShortFramesArePadded) {
    open_opa({TxFeature::vlan_insert});
    rte_mbuf* mbuf = addressed(14, to_lid_);
    mbuf->ol_flags |= RTE_MBUF_F_TX_VLAN;
    mbuf->vlan_tci = 0x2005;
    Bytes frame = bytes_of(mbuf);
    ASSERT_EQ(put({mbuf}), 1U);
    hca_->execute();
    frame.insert(frame.begin() + 12, {0x81, 0x00, 0x20, 0x05});
    frame.resize(60);
    EXPECT_EQ(get(EncapKind::opa_vnic, &vnic_, hca_->frames().back().bytes), frame);
    finish();
}

TEST_F(EncapPut, ChainThatLiesAboutItsLengthIsRefused) {
    open_opa();
    rte_mbuf* mbuf = addressed(100, to_lid_, 1, 2);
    mbuf->pkt_len = 101;
    EXPECT_EQ(put({mbuf}), 0U);
    mbuf->pkt_len = 99;
    EXPECT_EQ(put({mbuf}), 0U);
    EXPECT_EQ(queue_->stats().refused[static_cast<std::size_t>(TxRefusal::too_short)], 1U);
    EXPECT_EQ(queue_->stats().refused[static_cast<std::size_t>(TxRefusal::too_long)], 1U);
    mbuf->pkt_len = 100;
    EXPECT_EQ(put({mbuf}), 1U);
    finish();
}

TEST_F(EncapPut, PutStopsAtAFrameThatHasNoWayAndKeepsNothingOfIt) {
    open_ipoib();
    const std::vector<rte_mbuf*> mbufs{addressed(64, to_bob_), addressed(64, {0, 1, 2, 3, 4, 5}),
                                       addressed(64, to_bob_)};
    EXPECT_EQ(put(mbufs), 1U);
    EXPECT_EQ(queue_->stats().refused[static_cast<std::size_t>(TxRefusal::no_address)], 1U);
    EXPECT_EQ(put({mbufs[2]}), 1U);
    rte_pktmbuf_free(mbufs[1]);
    finish();
    EXPECT_EQ(hca_->frames().size(), 2U);

    open_opa();
    vnic_.set_forwarding(false);
    rte_mbuf* held = addressed(64, to_lid_);
    EXPECT_EQ(put({held}), 0U);
    EXPECT_EQ(queue_->stats().refused[static_cast<std::size_t>(TxRefusal::not_forwarding)], 1U);
    vnic_.set_forwarding(true);
    EXPECT_EQ(put({held}), 1U);
    finish();
}

TEST_F(EncapPut, FullRingIsNotWrittenInto) {
    open_ipoib();
    std::vector<rte_mbuf*> mbufs;
    for (int i = 0; i < 40; ++i)
        mbufs.push_back(addressed(64, to_bob_, static_cast<std::uint8_t>(i)));
    EXPECT_EQ(queue_->write_avail(), 32U) << "two WQEBBs each";
    EXPECT_EQ(put(mbufs), 32U);
    EXPECT_EQ(queue_->write_avail(), 0U);
    EXPECT_EQ(put(mbufs.data() + 32, 8), 0U);
    hca_->execute();
    EXPECT_EQ(hca_->frames().size(), 32U);
    for (std::size_t i = 0; i < 32; ++i)
        EXPECT_EQ(get(EncapKind::ipoib, &bob_, hca_->frames()[i].bytes), bytes_of(mbufs[i]));
    EXPECT_EQ(put(mbufs.data() + 32, 8), 8U);
    finish();
}

TEST_F(EncapPut, DroppedPacketsAreFreedCountedAndLeaveNoGap) {
    open_ipoib();
    std::vector<rte_mbuf*> burst;
    for (int i = 0; i < 5; ++i) {
        Bytes wire{0x12, 0x34, 0, 0, static_cast<std::uint8_t>(i)};
        if (i == 1) wire.resize(2); // a runt
        if (i == 3) wire.resize(5000);
        burst.push_back(received(wire, 2048, 40));
    }
    const std::uint16_t left = encap_decap(EncapKind::ipoib)(&bob_, burst.data(), 5, frames_);
    ASSERT_EQ(left, 3U);
    for (std::uint16_t i = 0; i < left; ++i) {
        EXPECT_EQ(*rte_pktmbuf_mtod_offset(burst[i], std::uint8_t*, 14), 2 * i);
        rte_pktmbuf_free(burst[i]);
    }
    EXPECT_EQ(frames_.drops[static_cast<std::size_t>(RxDrop::rx_runt)].read(), 1U);
    EXPECT_EQ(frames_.drops[static_cast<std::size_t>(RxDrop::rx_oversize)].read(), 1U);
}

TEST(DatagramSource, IsWhatTheCqeOfAUdQueueSays) {
    for (unsigned flags = 0; flags < 256; ++flags) {
        mlx5_cqe64 cqe{};
        cqe.flags_rqpn = be32{flags << 24 | 0xabcdef}.wire();
        cqe.slid = be16{0x1234}.wire();
        const auto source = mprq::DatagramSource::unpacked(mprq::DatagramSource::of(cqe).packed());
        EXPECT_EQ(source.qpn, 0xabcdefU);
        EXPECT_EQ(source.lid, 0x1234);
        EXPECT_EQ(source.grh != 0, (flags & 0x30) != 0) << "flags_rqpn[29:28]";
    }
}

TEST(EncapTable, EveryEncapHasABurstAndEthernetNeedsNoDecap) {
    for (const EncapKind kind : {EncapKind::ethernet, EncapKind::ipoib, EncapKind::opa_vnic})
        for (unsigned bits = 0; bits < 1U << tx_feature_bits; ++bits)
            EXPECT_NE(encap_burst(kind, TxFeatures::from_bits(static_cast<TxFeatures::Bits>(bits))), nullptr);
    EXPECT_EQ(encap_decap(EncapKind::ethernet), nullptr);
    EXPECT_NE(encap_decap(EncapKind::ipoib), nullptr);
}

} // namespace
} // namespace stride::test
