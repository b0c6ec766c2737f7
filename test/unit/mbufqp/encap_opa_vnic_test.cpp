// SPDX-License-Identifier: BSD-3-Clause
/// Golden vectors: the bits of the table "Omni-Path encapsulated Ethernet packet format" in the kernel's
/// Documentation/infiniband/opa_vnic.rst, set here one field at a time, and opa_vnic_make_header() of
/// drivers/infiniband/ulp/opa_vnic/opa_vnic_encap.c worked out by hand.
#include "mbufqp/encap/opa_vnic.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace stride::mbufqp {
namespace {

using Bytes = std::vector<std::byte>;

/// A packet as the document draws it: quad word, lowest bit, bits.
class QuadWords {
  public:
    explicit QuadWords(std::size_t bytes)
        : bytes_(bytes) {}
    void set(unsigned quad_word, unsigned low, unsigned width, std::uint64_t value) {
        for (unsigned bit = 0; bit < width; ++bit) {
            const unsigned at = quad_word * 64 + low + bit;
            if ((value >> bit & 1) != 0) bytes_[at / 8] |= std::byte{static_cast<std::uint8_t>(1U << at % 8)};
        }
    }
    const Bytes& bytes() const { return bytes_; }

  private:
    Bytes bytes_;
};

OpaVnicConfig config() {
    OpaVnicConfig made;
    made.vesw_id = 0x123;
    made.pkey = 0x8001;
    made.encap_slid = 0xabcde1;
    made.u_mcast_dlid = 0xf00042;
    made.u_ucast_dlid = {0x000100, 0x000101, 0x000102, 0x000103};
    made.def_port_mask = 0b1010;
    made.rc = 7U << 24 | 6U << 20 | 5U << 16 | 4U << 12 | 3U << 8 | 2U << 4 | 1U;
    for (std::uint8_t pcp = 0; pcp < 8; ++pcp) {
        made.pcp_to_sc_uc[pcp] = pcp;
        made.pcp_to_sc_mc[pcp] = static_cast<std::uint8_t>(8 + pcp);
        made.pcp_to_vl_uc[pcp] = static_cast<std::uint8_t>(pcp / 2);
        made.pcp_to_vl_mc[pcp] = static_cast<std::uint8_t>(4 + pcp / 2);
    }
    made.non_vlan_sc_uc = 20;
    made.non_vlan_sc_mc = 21;
    made.non_vlan_vl_uc = 2;
    made.non_vlan_vl_mc = 3;
    return made;
}

/// Locally administered: DLID 0x563412 in bytes 5, 4, 3.
Bytes frame(std::size_t bytes, Mac destination = {0x02, 0, 0, 0x12, 0x34, 0x56},
            std::uint16_t type = 0x1234) {
    Bytes made(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
        made[i] = std::byte{static_cast<std::uint8_t>(i * 7 + 1)};
    std::memcpy(made.data(), destination.data(), destination.size());
    store_at(made.data() + 12, be16{type});
    return made;
}
Bytes ip_frame(std::uint16_t type, std::uint8_t protocol, std::uint16_t source_port = 1000) {
    Bytes made = frame(80, {0x02, 0, 0, 0x12, 0x34, 0x56}, type);
    std::byte* ip = made.data() + 14;
    std::memset(ip, 0, made.size() - 14);
    const bool v4 = type == ether_type::ipv4;
    ip[0] = v4 ? std::byte{0x45} : std::byte{0x60};
    ip[v4 ? 9 : 6] = std::byte{protocol};
    store_at(ip + (v4 ? 20 : 40), be16{source_port});
    return made;
}

struct Sent {
    InlineHeader header;
    Bytes packet;
};
/// What the HCA would gather.
Sent send(const OpaVnicPort& port, const Bytes& made, bool tag = false, std::uint16_t tci = 0) {
    Sent sent;
    std::array<std::byte, OpaVnic::max_header_bytes> out;
    sent.header = OpaVnic::header({.frame = made.data(),
                                   .frame_bytes = static_cast<std::uint32_t>(made.size()),
                                   .tag = tag,
                                   .tci = tci,
                                   .context = &port},
                                  out.data());
    if (!sent.header.ok()) return sent;
    sent.packet.assign(out.begin(), out.begin() + sent.header.inlined_bytes);
    sent.packet.insert(sent.packet.end(), made.begin() + sent.header.taken_bytes, made.end());
    const auto on_wire = static_cast<std::uint32_t>(made.size()) + (tag ? 4 : 0);
    std::array<std::byte, OpaVnic::max_trailer_bytes> trailer;
    OpaVnic::trailer(on_wire, trailer.data());
    sent.packet.insert(sent.packet.end(), trailer.begin(), trailer.begin() + OpaVnic::trailer_bytes(on_wire));
    return sent;
}
Decapsulated receive(const OpaVnicPort& port, Bytes& packet) {
    return port.receive({.data = packet.data(), .bytes = static_cast<std::uint32_t>(packet.size())});
}

TEST(OpaVnicHeader, EveryFieldLiesWhereTheKernelsDocumentSays) {
    QuadWords expected{24};
    expected.set(0, 0, 20, 0xbcde1);  // SLID[19:0]
    expected.set(0, 20, 11, 0x5a5);   // length in quad words
    expected.set(0, 31, 1, 1);        // BECN
    expected.set(0, 32, 20, 0x54321); // DLID[19:0]
    expected.set(0, 52, 5, 0x15);     // SC
    expected.set(0, 57, 3, 5);        // RC
    expected.set(0, 60, 1, 1);        // FECN
    expected.set(0, 61, 2, 2);        // L2: 16B
    expected.set(0, 63, 1, 1);        // LT: head flit
    expected.set(1, 0, 8, 0x78);      // L4 type: Ethernet
    expected.set(1, 8, 4, 0xa);       // SLID[23:20]
    expected.set(1, 12, 4, 0x6);      // DLID[23:20]
    expected.set(1, 16, 16, 0x8001);  // P_Key
    expected.set(1, 32, 16, 0x00c3);  // entropy
    expected.set(2, 16, 16, 0x0123);  // L4 header
    std::array<std::byte, OpaHeader::bytes> header;
    const OpaHeader::Fields fields{.slid = 0xabcde1,
                                   .dlid = 0x654321,
                                   .quad_words = 0x5a5,
                                   .sc = 0x15,
                                   .rc = 5,
                                   .becn = true,
                                   .fecn = true,
                                   .pkey = 0x8001,
                                   .entropy = 0xc3,
                                   .l4_header = 0x123};
    OpaHeader::write(header.data(), fields);
    EXPECT_EQ(Bytes(header.begin(), header.end()),
              Bytes(expected.bytes().begin(), expected.bytes().begin() + 20));
    const OpaHeader::Fields read = OpaHeader::read(header.data());
    EXPECT_EQ(read.slid, fields.slid);
    EXPECT_EQ(read.dlid, fields.dlid);
    EXPECT_EQ(read.quad_words, fields.quad_words);
    EXPECT_EQ(read.sc, fields.sc);
    EXPECT_EQ(read.rc, fields.rc);
    EXPECT_TRUE(read.becn && read.fecn && read.head);
    EXPECT_EQ(read.l2, 2);
    EXPECT_EQ(read.l4, 0x78);
    EXPECT_EQ(read.pkey, fields.pkey);
    EXPECT_EQ(read.entropy, fields.entropy);
    EXPECT_EQ(read.l4_header, fields.l4_header);
}

TEST(OpaVnicHeader, IsWhatTheKernelsFunctionMakes) {
    // opa_vnic_make_header(slid 0x000012, dlid 0x563412, len 12, pkey 0x8001, entropy 0x5a, sc 3, rc 1,
    // l4_type 0x78, l4_hdr 0x123): h[0] = 0x12 | 12 << 20; h[1] = 0xc0000000 | 0x63412 | 1 << 25 | 3 << 20;
    // h[2] = 0x78 | 0x5 << 12 | 0x8001 << 16; h[3] = 0x5a; h[4] = 0x123 << 16; each stored little-endian.
    const std::uint8_t expected[20] = {0x12, 0x00, 0xc0, 0x00, 0x12, 0x34, 0x36, 0xc2, 0x78, 0x50,
                                       0x01, 0x80, 0x5a, 0x00, 0x00, 0x00, 0x00, 0x00, 0x23, 0x01};
    std::uint8_t header[20];
    OpaHeader::write(reinterpret_cast<std::byte*>(header), {.slid = 0x12,
                                                            .dlid = 0x563412,
                                                            .quad_words = 12,
                                                            .sc = 3,
                                                            .rc = 1,
                                                            .pkey = 0x8001,
                                                            .entropy = 0x5a,
                                                            .l4_header = 0x123});
    for (std::size_t i = 0; i < sizeof header; ++i)
        EXPECT_EQ(header[i], expected[i]) << "byte " << i;
}

TEST(OpaVnicTrailer, FillsEveryLengthToQuadWordsAndTellsItsPad) {
    const OpaVnicPort port{config()};
    std::array<bool, 8> pads{};
    for (std::uint32_t bytes = 60; bytes < 1600; ++bytes) {
        const Sent sent = send(port, frame(bytes));
        ASSERT_TRUE(sent.header.ok());
        ASSERT_EQ(sent.packet.size() % 8, 0U) << bytes;
        ASSERT_EQ(OpaHeader::read(sent.packet.data()).quad_words * 8, sent.packet.size());
        const std::uint32_t trailer = OpaVnic::trailer_bytes(bytes);
        ASSERT_LE(trailer, 12U) << "one DS";
        const std::uint32_t pad = trailer - 5;
        pads[pad] = true;
        // Tail in bits 56-61, LT = 01 in bits 62-63 of the last quad word.
        QuadWords last{8};
        last.set(0, 56, 6, pad);
        last.set(0, 62, 2, 1);
        ASSERT_EQ(sent.packet.back(), last.bytes().back());
        for (std::uint32_t i = 2; i <= trailer; ++i)
            ASSERT_EQ(sent.packet[sent.packet.size() - i], std::byte{0}) << "pad and ICRC are left 0";
    }
    for (const bool seen : pads)
        EXPECT_TRUE(seen);
}

TEST(OpaVnicTrailer, MakesARuntTheSmallestFrame) {
    const OpaVnicPort port{config()};
    for (std::uint32_t bytes = 14; bytes < 60; ++bytes) {
        Sent sent = send(port, frame(bytes));
        ASSERT_LE(OpaVnic::trailer_bytes(bytes), OpaVnic::max_trailer_bytes);
        const Decapsulated got = receive(port, sent.packet);
        ASSERT_TRUE(got.ok()) << bytes;
        ASSERT_EQ(got.bytes, 60U);
        for (std::uint32_t i = bytes; i < 60; ++i)
            ASSERT_EQ(sent.packet[got.offset + i], std::byte{0});
    }
}

TEST(OpaVnicPort, EveryLengthComesBackAsItWasSent) {
    OpaVnicConfig large = config();
    large.eth_mtu = OpaVnicPort::max_mtu_bytes;
    const OpaVnicPort port{large};
    for (std::uint32_t bytes = 60; bytes <= port.max_frame_bytes(); bytes += bytes < 1600 ? 1 : 61) {
        const Bytes made = frame(bytes);
        Sent sent = send(port, made);
        const Decapsulated got = receive(port, sent.packet);
        ASSERT_TRUE(got.ok()) << bytes;
        ASSERT_EQ(Bytes(sent.packet.begin() + got.offset, sent.packet.begin() + got.offset + got.bytes),
                  made);
    }
}

TEST(OpaVnicPort, InsertedTagIsInTheFrameAndChoosesTheServiceClass) {
    const OpaVnicPort port{config()};
    const Bytes made = frame(100);
    Sent sent = send(port, made, true, 5U << 13 | 42);
    EXPECT_EQ(OpaHeader::read(sent.packet.data()).sc, 5);
    const Decapsulated got = receive(port, sent.packet);
    ASSERT_TRUE(got.ok());
    Bytes tagged(made.begin(), made.begin() + 12);
    for (const unsigned byte : {0x81U, 0x00U, 0xa0U, 42U})
        tagged.push_back(std::byte{static_cast<std::uint8_t>(byte)});
    tagged.insert(tagged.end(), made.begin() + 12, made.end());
    EXPECT_EQ(Bytes(sent.packet.begin() + got.offset, sent.packet.begin() + got.offset + got.bytes), tagged);
}

TEST(OpaVnicRoute, DlidComesFromTableThenGroupThenAddressThenDefaultPort) {
    OpaVnicPort port{config()};
    const auto dlid = [&](Mac mac) {
        const Bytes made = frame(64, mac);
        return port.route(made.data(), parse_frame(made.data(), 64)).dlid;
    };
    EXPECT_EQ(dlid({0x02, 0, 0, 0x12, 0x34, 0x56}), 0x563412U) << "bytes 5, 4, 3";
    EXPECT_EQ(dlid({0x01, 0, 0x5e, 0, 0, 1}), 0xf00042U);
    EXPECT_EQ(dlid({0xff, 0xff, 0xff, 0xff, 0xff, 0xff}), 0xf00042U);
    // A locally administered group address is a group.
    EXPECT_EQ(dlid({0x03, 0, 0, 1, 2, 3}), 0xf00042U);
    const std::uint32_t unknown = dlid({0x00, 1, 2, 3, 4, 5});
    EXPECT_TRUE(unknown == 0x101 || unknown == 0x103) << "a port of the mask";
    for (const Mac& mac :
         {Mac{0x02, 0, 0, 0x12, 0x34, 0x56}, Mac{0x01, 0, 0x5e, 0, 0, 1}, Mac{0, 1, 2, 3, 4, 5}}) {
        ASSERT_TRUE(port.add_mac(mac, 0x777).ok());
        EXPECT_EQ(dlid(mac), 0x777U) << "the table comes first";
        EXPECT_TRUE(port.remove_mac(mac));
        EXPECT_NE(dlid(mac), 0x777U);
    }
}

TEST(OpaVnicRoute, FrameWithoutDlidIsRefused) {
    OpaVnicConfig lonely = config();
    lonely.def_port_mask = 0;
    lonely.u_mcast_dlid = 0;
    const OpaVnicPort port{lonely};
    for (const Mac& mac : {Mac{0, 1, 2, 3, 4, 5}, Mac{1, 0, 0x5e, 0, 0, 1}, Mac{2, 0, 0, 0, 0, 0}})
        EXPECT_EQ(send(port, frame(64, mac)).header.refusal, TxRefusal::no_address);
}

TEST(OpaVnicRoute, DefaultPortsAreSharedByFlow) {
    OpaVnicConfig spread = config();
    spread.def_port_mask = 0xffff;
    for (std::uint32_t i = 0; i < 16; ++i)
        spread.u_ucast_dlid[i] = 0x1000 + i;
    const OpaVnicPort port{spread};
    const std::byte mac[6]{};
    for (std::uint32_t hash = 0; hash < 256; ++hash) {
        FrameFields fields;
        fields.flow_hash = hash;
        // (entropy & 15) + (entropy >> 4), in a table of 32 filled round robin.
        EXPECT_EQ(port.route(mac, fields).dlid, 0x1000 + ((hash & 15) + (hash >> 4)) % 32 % 16);
    }
}

TEST(OpaVnicRoute, EntropyIsTheXorOfTheHashsBytes) {
    EXPECT_EQ(OpaVnicPort::entropy(0x01020408), 0x0f);
    EXPECT_EQ(OpaVnicPort::entropy(0xff00ff00), 0x00);
    EXPECT_EQ(OpaVnicPort::entropy(0x80000001), 0x81);
}

TEST(OpaVnicRoute, ServiceClassAndLaneFollowPriorityAndKind) {
    const OpaVnicPort port{config()};
    const Mac group{1, 0, 0, 0, 0, 1}, single{2, 0, 0, 1, 0, 0};
    const auto route = [&](const Mac& mac, bool tagged, unsigned pcp) {
        FrameFields fields;
        fields.tagged = tagged;
        fields.tci = static_cast<std::uint16_t>(pcp << 13 | 0x123);
        return port.route(reinterpret_cast<const std::byte*>(mac.data()), fields);
    };
    for (unsigned pcp = 0; pcp < 8; ++pcp) {
        EXPECT_EQ(route(single, true, pcp).sc, pcp);
        EXPECT_EQ(route(group, true, pcp).sc, 8 + pcp);
        EXPECT_EQ(route(single, true, pcp).vl, pcp / 2);
        EXPECT_EQ(route(group, true, pcp).vl, 4 + pcp / 2);
    }
    EXPECT_EQ(route(single, false, 0).sc, 20);
    EXPECT_EQ(route(group, false, 0).sc, 21);
    EXPECT_EQ(route(single, false, 0).vl, 2);
    EXPECT_EQ(route(group, false, 0).vl, 3);
}

TEST(OpaVnicRoute, RoutingControlFollowsIpVersionAndProtocol) {
    const OpaVnicPort port{config()};
    const auto rc = [&](const Bytes& made) { return OpaHeader::read(send(port, made).packet.data()).rc; };
    EXPECT_EQ(rc(frame(64)), 1);
    EXPECT_EQ(rc(ip_frame(ether_type::ipv4, 1)), 2);
    EXPECT_EQ(rc(ip_frame(ether_type::ipv4, ip_protocol::udp)), 3);
    EXPECT_EQ(rc(ip_frame(ether_type::ipv4, ip_protocol::tcp)), 4);
    EXPECT_EQ(rc(ip_frame(ether_type::ipv6, 58)), 5);
    EXPECT_EQ(rc(ip_frame(ether_type::ipv6, ip_protocol::tcp)), 6);
    EXPECT_EQ(rc(ip_frame(ether_type::ipv6, ip_protocol::udp)), 7);
}

TEST(OpaVnicRoute, PacketsOfAFlowAndFragmentsOfADatagramKeepOneEntropy) {
    const auto hash = [](const Bytes& made) {
        return parse_frame(made.data(), static_cast<std::uint32_t>(made.size())).flow_hash;
    };
    Bytes first = ip_frame(ether_type::ipv4, ip_protocol::udp, 1000);
    Bytes second = first;
    second[70] = std::byte{0x99}; // payload
    EXPECT_EQ(hash(first), hash(second));
    EXPECT_NE(hash(first), hash(ip_frame(ether_type::ipv4, ip_protocol::udp, 1001)));
    store_at(first.data() + 20, be16{0x2000});  // more fragments
    store_at(second.data() + 20, be16{0x0010}); // a later one
    store_at(second.data() + 34, be16{0x4242}); // no ports there
    EXPECT_EQ(hash(first), hash(second));
}

TEST(OpaVnicReceive, CountsByTheKernelsNames) {
    OpaVnicPort port{config()};
    Sent sent = send(port, frame(60));
    const Bytes good = sent.packet;
    ASSERT_TRUE(receive(port, sent.packet).ok());

    OpaVnicConfig other = config();
    other.vesw_id = 0x124;
    EXPECT_EQ(receive(OpaVnicPort{other}, sent.packet).drop, RxDrop::rx_bad_veswid);

    port.set_forwarding(false);
    EXPECT_EQ(receive(port, sent.packet).drop, RxDrop::rx_drop_state);
    EXPECT_EQ(send(port, frame(60)).header.refusal, TxRefusal::not_forwarding);
    port.set_forwarding(true);

    Sent long_one = send(port, frame(1519));
    EXPECT_EQ(receive(port, long_one.packet).drop, RxDrop::rx_oversize) << "MTU 1500 + 14 + 4";
    long_one = send(port, frame(1518));
    EXPECT_TRUE(receive(port, long_one.packet).ok());

    // 60 - 7 bytes: the pad field says more than the sender padded.
    sent.packet.back() = std::byte{OpaVnic::tail_flit | 7};
    EXPECT_EQ(receive(port, sent.packet).drop, RxDrop::rx_runt);
    EXPECT_STREQ(rx_drop_names[static_cast<std::size_t>(RxDrop::rx_bad_veswid)], "rx_bad_veswid");
    EXPECT_STREQ(rx_drop_names[static_cast<std::size_t>(RxDrop::rx_runt)], "rx_runt");
}

TEST(OpaVnicReceive, MalformedPacketsAreDropped) {
    const OpaVnicPort port{config()};
    const Bytes good = send(port, frame(100)).packet;
    const auto with = [&](unsigned quad_word, unsigned low, unsigned width, std::uint64_t value) {
        Bytes bad = good;
        for (unsigned bit = 0; bit < width; ++bit) {
            const unsigned at = quad_word * 64 + low + bit;
            const auto mask = std::byte{static_cast<std::uint8_t>(1U << at % 8)};
            bad[at / 8] = (value >> bit & 1) != 0 ? bad[at / 8] | mask : bad[at / 8] & ~mask;
        }
        return receive(port, bad).drop;
    };
    EXPECT_EQ(with(0, 61, 2, 2), RxDrop::none) << "unchanged";
    EXPECT_EQ(with(0, 61, 2, 1), RxDrop::rx_logic) << "not 16B";
    EXPECT_EQ(with(0, 63, 1, 0), RxDrop::rx_logic) << "no head flit";
    EXPECT_EQ(with(1, 0, 8, 0x79), RxDrop::rx_logic) << "another L4";
    for (std::uint64_t length = 0; length < 2048; ++length)
        if (length * 8 != good.size()) {
            EXPECT_EQ(with(0, 20, 11, length), RxDrop::rx_logic) << length;
        }
    const auto last = static_cast<unsigned>(good.size() / 8 - 1);
    for (std::uint64_t tail = 8; tail < 64; ++tail)
        EXPECT_EQ(with(last, 56, 6, tail), RxDrop::rx_logic) << tail;
    // Any cut is noticed, and nothing behind it is read.
    for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
        Bytes cut(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(bytes));
        EXPECT_FALSE(receive(port, cut).ok()) << bytes;
    }
}

TEST(OpaVnicReceive, SpoiltPacketsGiveAFrameWithinThemOrNone) {
    const OpaVnicPort port{config()};
    std::mt19937 random{2017};
    for (int i = 0; i < 20000; ++i) {
        Bytes spoilt = send(port, frame(14 + random() % 200)).packet;
        for (unsigned hits = random() % 4; hits > 0; --hits)
            spoilt[random() % spoilt.size()] = std::byte{static_cast<std::uint8_t>(random())};
        if (i % 3 == 0) spoilt.resize(random() % (spoilt.size() + 1));
        const Decapsulated got = receive(port, spoilt);
        if (got.ok()) {
            ASSERT_GE(got.bytes, 60U);
            ASSERT_LE(got.offset + got.bytes + 5, spoilt.size());
        }
    }
}

TEST(OpaVnicDemux, PortsThatAllGetEveryPacketTakeTheirOwnAndCountNobodysOnce) {
    const auto of_switch = [](std::uint16_t vesw_id) {
        OpaVnicConfig made = config();
        made.vesw_id = vesw_id;
        return made;
    };
    OpaVnicDemux siblings;
    OpaVnicPort first{of_switch(5)}, second{of_switch(6)};
    ASSERT_TRUE(first.join(siblings).ok());
    ASSERT_TRUE(second.join(siblings).ok());
    const auto drops = [&](std::uint16_t vesw_id) {
        OpaVnicPort sender{of_switch(vesw_id)};
        Sent sent = send(sender, frame(64));
        const ReceiveRequest request{.data = sent.packet.data(),
                                     .bytes = static_cast<std::uint32_t>(sent.packet.size())};
        return std::pair{first.receive(request).drop, second.receive(request).drop};
    };
    EXPECT_EQ(drops(5), (std::pair{RxDrop::none, RxDrop::rx_other_port}));
    EXPECT_EQ(drops(6), (std::pair{RxDrop::rx_other_port, RxDrop::none}));
    EXPECT_EQ(drops(7), (std::pair{RxDrop::rx_bad_veswid, RxDrop::rx_other_port}));
    {
        OpaVnicPort third{of_switch(7)}, twin{of_switch(6)};
        ASSERT_TRUE(third.join(siblings).ok());
        EXPECT_EQ(twin.join(siblings).error().code, EEXIST);
        EXPECT_EQ(drops(7), (std::pair{RxDrop::rx_other_port, RxDrop::rx_other_port}));
    }
    EXPECT_EQ(drops(7).first, RxDrop::rx_bad_veswid) << "it has left";
    EXPECT_EQ(drops(6).second, RxDrop::none) << "a port that could not join takes nobody along";
}

TEST(OpaVnicConfig, NonsenseIsRefusedByName) {
    const auto error = [](auto change) {
        OpaVnicConfig bad = config();
        change(bad);
        const Status status = OpaVnicPort::check(bad);
        return status.ok() ? std::string{} : status.error().what;
    };
    EXPECT_EQ(error([](OpaVnicConfig&) {}), "");
    EXPECT_NE(error([](OpaVnicConfig& c) { c.vesw_id = 0; }).find("id 0"), std::string::npos);
    EXPECT_NE(error([](OpaVnicConfig& c) { c.encap_slid = 0x1000000; }).find("24 bits"), std::string::npos);
    EXPECT_NE(error([](OpaVnicConfig& c) { c.non_vlan_sc_uc = 32; }).find("SC 32"), std::string::npos);
    EXPECT_NE(error([](OpaVnicConfig& c) { c.eth_mtu = 10241; }).find("MTU 10241"), std::string::npos);
    OpaVnicConfig small = config();
    small.mac_entries = 2;
    OpaVnicPort port{small};
    EXPECT_EQ(port.add_mac({}, 5).error().code, EINVAL);
    EXPECT_TRUE(port.add_mac({2, 0, 0, 0, 0, 1}, 5).ok());
    EXPECT_TRUE(port.add_mac({2, 0, 0, 0, 0, 2}, 5).ok());
    EXPECT_EQ(port.add_mac({2, 0, 0, 0, 0, 3}, 5).error().code, ENOSPC);
    EXPECT_TRUE(port.add_mac({2, 0, 0, 0, 0, 2}, 6).ok()) << "a change needs no room";
}

} // namespace
} // namespace stride::mbufqp
