// SPDX-License-Identifier: BSD-3-Clause
/// Golden vectors: RFC 4391 (sections 4, 6, 9), ip_ib_mc_map() of the kernel's include/net/ip.h,
/// ipv6_ib_mc_map() of include/net/if_inet6.h, and create_ah of rdma-core's providers/mlx5/verbs.c.
#include "mbufqp/encap/ipoib.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace stride::mbufqp {
namespace {

using Bytes = std::vector<std::uint8_t>;

const std::byte* bytes_of(const Bytes& bytes) { return reinterpret_cast<const std::byte*>(bytes.data()); }
void append(Bytes& to, const Bytes& more) { to.insert(to.end(), more.begin(), more.end()); }

constexpr UdAddress alice{Qpn{0x000123}, 0x0007};
constexpr UdAddress bob{Qpn{0xabcdef}, 0xbfff};
constexpr Mac alice_mac{0x02, 0x00, 0x01, 0x23, 0x00, 0x07};
constexpr Mac bob_mac{0x02, 0xab, 0xcd, 0xef, 0xbf, 0xff};
constexpr Gid alice_gid{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0xa1};
constexpr Gid bob_gid{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0xb0};

IpoibConfig config(UdAddress own = alice, Gid gid = alice_gid) {
    IpoibConfig made;
    made.own = own;
    made.gid = gid;
    made.pkey = 0x8012;
    made.service_level = 3;
    made.gid_index = 2;
    return made;
}

Bytes frame(const Mac& destination, const Mac& source, std::uint16_t type, const Bytes& payload) {
    Bytes made(destination.begin(), destination.end());
    made.insert(made.end(), source.begin(), source.end());
    made.push_back(static_cast<std::uint8_t>(type >> 8));
    made.push_back(static_cast<std::uint8_t>(type));
    append(made, payload);
    return made;
}

struct Sent {
    InlineHeader header;
    mlx5_wqe_av av{};
    Bytes payload; ///< IPoIB header and what follows
};
Sent send(const IpoibPort& port, const Bytes& made) {
    Sent sent;
    std::array<std::byte, Ipoib::max_header_bytes> out;
    std::array<std::byte, std::size_t{Ipoib::address_ds} * 16> address{};
    sent.header = Ipoib::header({.frame = bytes_of(made),
                                 .frame_bytes = static_cast<std::uint32_t>(made.size()),
                                 .context = &port,
                                 .address = address.data()},
                                out.data());
    if (!sent.header.ok()) return sent;
    std::memcpy(&sent.av, address.data(), sizeof sent.av);
    const auto* begin = reinterpret_cast<const std::uint8_t*>(out.data());
    sent.payload.assign(begin, begin + sent.header.inlined_bytes);
    sent.payload.insert(sent.payload.end(), made.begin() + sent.header.taken_bytes, made.end());
    return sent;
}

/// As a UD QP scatters it: GRH area, then the payload.
struct Received {
    Decapsulated result;
    Bytes frame;
};
Received receive(IpoibPort& port, const Bytes& payload, UdAddress source, const Gid* group = nullptr) {
    Bytes data(40, 0xee);
    if (group != nullptr) std::copy(group->begin(), group->end(), data.begin() + 24);
    append(data, payload);
    Received got;
    got.result = Ipoib::receive(&port, {.data = reinterpret_cast<std::byte*>(data.data()),
                                        .bytes = static_cast<std::uint32_t>(data.size()),
                                        .source_qpn = source.qpn.value,
                                        .source_lid = source.lid,
                                        .grh = group != nullptr});
    if (got.result.ok())
        got.frame.assign(data.begin() + got.result.offset,
                         data.begin() + got.result.offset + got.result.bytes);
    return got;
}

Bytes hardware_address(UdAddress address, const Gid& gid) {
    Bytes made{0, static_cast<std::uint8_t>(address.qpn.value >> 16),
               static_cast<std::uint8_t>(address.qpn.value >> 8),
               static_cast<std::uint8_t>(address.qpn.value)};
    made.insert(made.end(), gid.begin(), gid.end());
    return made;
}

// ---- addresses ------------------------------------------------------------------------------------------

TEST(IpoibMac, HoldsQpnAndLid) {
    EXPECT_EQ(mac_of(bob), bob_mac);
    UdAddress peer;
    EXPECT_TRUE(peer_of(reinterpret_cast<const std::byte*>(bob_mac.data()), peer));
    EXPECT_EQ(peer, bob);
}

TEST(IpoibMac, WhatCanBeNoPeerIsNone) {
    const auto is_peer = [](const Mac& mac) {
        UdAddress peer;
        return peer_of(reinterpret_cast<const std::byte*>(mac.data()), peer);
    };
    EXPECT_TRUE(is_peer({2, 0, 0, 1, 0, 1}));
    EXPECT_FALSE(is_peer({0, 0, 0, 1, 0, 1}));
    EXPECT_FALSE(is_peer({6, 0, 0, 1, 0, 1}));
    EXPECT_FALSE(is_peer({2, 0, 0, 0, 0, 1})) << "QPN 0";
    EXPECT_FALSE(is_peer({2, 0xff, 0xff, 0xff, 0, 1})) << "the multicast QPN";
    EXPECT_FALSE(is_peer({2, 0, 0, 1, 0, 0})) << "LID 0";
    EXPECT_FALSE(is_peer({2, 0, 0, 1, 0xc0, 0})) << "a multicast LID";
}

TEST(IpoibGroups, HaveTheGidsOfTheRfc) {
    const IpoibConfig mine = config();
    EXPECT_EQ(broadcast_gid(mine),
              (Gid{0xff, 0x12, 0x40, 0x1b, 0x80, 0x12, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}));
    std::uint32_t address;
    const std::uint8_t ipv4[4] = {239, 129, 2, 3};
    std::memcpy(&address, ipv4, 4);
    // ip_ib_mc_map: buf[16] = addr & 0x0f, the low 28 bits.
    EXPECT_EQ(ipv4_group_gid(mine, address),
              (Gid{0xff, 0x12, 0x40, 0x1b, 0x80, 0x12, 0, 0, 0, 0, 0, 0, 0x0f, 129, 2, 3}));
    const Gid ipv6{0xff, 0x02, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    // ipv6_ib_mc_map: 80 bits of the address.
    EXPECT_EQ(ipv6_group_gid(mine, ipv6),
              (Gid{0xff, 0x12, 0x60, 0x1b, 0x80, 0x12, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}));
    IpoibConfig global = mine;
    global.scope = 0xe;
    EXPECT_EQ(broadcast_gid(global)[1], 0x1e);
}

// ---- sending --------------------------------------------------------------------------------------------

TEST(IpoibSend, EthernetHeaderBecomesFourBytesAndTheMacAnAddressVector) {
    const IpoibPort port{config()};
    for (std::size_t length = 0; length <= 2044; length += length < 200 ? 1 : 13) {
        Bytes payload(length);
        for (std::size_t i = 0; i < length; ++i)
            payload[i] = static_cast<std::uint8_t>(i);
        const Sent sent = send(port, frame(bob_mac, alice_mac, 0x0800, payload));
        ASSERT_TRUE(sent.header.ok());
        Bytes expected{0x08, 0x00, 0, 0};
        append(expected, payload);
        ASSERT_EQ(sent.payload, expected);
        ASSERT_EQ(be32::from_wire(sent.av.dqp_dct).host(), 0x80abcdefU);
        ASSERT_EQ(be16::from_wire(sent.av.rlid).host(), 0xbfff);
        ASSERT_EQ(be32::from_wire(sent.av.key.qkey.qkey).host(), 0x0b1bU);
        ASSERT_EQ(sent.av.stat_rate_sl, 3);
        ASSERT_EQ(sent.av.grh_gid_fl, 0U) << "no GRH within the subnet";
    }
}

TEST(IpoibSend, UnknownUnicastAndTagsAreRefused) {
    const IpoibPort port{config()};
    EXPECT_EQ(send(port, frame({0, 1, 2, 3, 4, 5}, alice_mac, 0x0800, Bytes(46))).header.refusal,
              TxRefusal::no_address);
    const Bytes made = frame(bob_mac, alice_mac, 0x0800, Bytes(46));
    std::array<std::byte, Ipoib::max_header_bytes> out;
    std::array<std::byte, 64> address;
    EXPECT_EQ(Ipoib::header({.frame = bytes_of(made),
                             .frame_bytes = 60,
                             .tag = true,
                             .context = &port,
                             .address = address.data()},
                            out.data())
                  .refusal,
              TxRefusal::offload);
}

Bytes ipv4_packet(std::array<std::uint8_t, 4> destination) {
    Bytes ip(40);
    ip[0] = 0x45;
    ip[9] = 17;
    std::copy(destination.begin(), destination.end(), ip.begin() + 16);
    return ip;
}

TEST(IpoibSend, MulticastGoesToItsGroupOrToAll) {
    IpoibPort port{config()};
    const Mac group_mac{0x01, 0x00, 0x5e, 1, 2, 3};
    const Bytes made = frame(group_mac, alice_mac, 0x0800, ipv4_packet({239, 129, 2, 3}));
    Sent sent = send(port, made);
    const Gid everybody = broadcast_gid(port.config());
    EXPECT_EQ(be32::from_wire(sent.av.dqp_dct).host(), 0x80ffffffU);
    EXPECT_EQ(be16::from_wire(sent.av.rlid).host(), 0xc000);
    EXPECT_EQ(std::memcmp(sent.av.rgid, everybody.data(), 16), 0);
    // GRH, source GID index 2.
    EXPECT_EQ(be32::from_wire(sent.av.grh_gid_fl).host(), 0x40200000U);

    std::uint32_t address;
    std::memcpy(&address, "\xef\x81\x02\x03", 4);
    const Gid group = ipv4_group_gid(port.config(), address);
    ASSERT_TRUE(port.add_group(group, 0xc005).ok());
    sent = send(port, made);
    EXPECT_EQ(be16::from_wire(sent.av.rlid).host(), 0xc005);
    EXPECT_EQ(std::memcmp(sent.av.rgid, group.data(), 16), 0);
    // The same MAC, another group of the 32 that share it.
    EXPECT_EQ(be16::from_wire(
                  send(port, frame(group_mac, alice_mac, 0x0800, ipv4_packet({238, 129, 2, 3}))).av.rlid)
                  .host(),
              0xc000);
    ASSERT_TRUE(port.remove_group(group));
    EXPECT_EQ(be16::from_wire(send(port, made).av.rlid).host(), 0xc000);

    const Gid solicited{0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 1, 2, 3};
    ASSERT_TRUE(port.add_group(ipv6_group_gid(port.config(), solicited), 0xc077).ok());
    Bytes ip(60);
    ip[0] = 0x60;
    ip[6] = 17;
    std::copy(solicited.begin(), solicited.end(), ip.begin() + 24);
    EXPECT_EQ(
        be16::from_wire(send(port, frame({0x33, 0x33, 0xff, 1, 2, 3}, alice_mac, 0x86dd, ip)).av.rlid).host(),
        0xc077);
}

TEST(IpoibSend, GroupsThatCannotBeAreRefused) {
    IpoibConfig small = config();
    small.groups = 1;
    IpoibPort port{small};
    EXPECT_EQ(port.add_group(alice_gid, 0xc001).error().code, EINVAL);
    EXPECT_EQ(port.add_group(broadcast_gid(small), 0x0001).error().code, EINVAL);
    EXPECT_TRUE(port.add_group(ipv4_group_gid(small, 1), 0xc001).ok());
    EXPECT_EQ(port.add_group(ipv4_group_gid(small, 2), 0xc001).error().code, ENOSPC);
}

// ---- ARP ------------------------------------------------------------------------------------------------

Bytes ethernet_arp(std::uint8_t operation, const Mac& sender, const Mac& target) {
    Bytes arp{0, 1, 8, 0, 6, 4, 0, operation};
    arp.insert(arp.end(), sender.begin(), sender.end());
    append(arp, {10, 0, 0, 1});
    arp.insert(arp.end(), target.begin(), target.end());
    append(arp, {10, 0, 0, 2});
    return arp;
}
Bytes infiniband_arp(std::uint8_t operation, const Bytes& sender, const Bytes& target) {
    Bytes arp{0, 32, 8, 0, 20, 4, 0, operation};
    append(arp, sender);
    append(arp, {10, 0, 0, 1});
    append(arp, target);
    append(arp, {10, 0, 0, 2});
    return arp;
}

TEST(IpoibArp, RequestIsWidenedAndItsEthernetPaddingLeftOut) {
    const IpoibPort port{config()};
    Bytes made =
        frame({0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, alice_mac, 0x0806, ethernet_arp(1, alice_mac, {}));
    made.resize(60);
    const Sent sent = send(port, made);
    Bytes expected{0x08, 0x06, 0, 0};
    append(expected, infiniband_arp(1, hardware_address(alice, alice_gid), Bytes(20)));
    EXPECT_EQ(sent.payload, expected);
    EXPECT_EQ(sent.payload.size(), 4 + 56U);
}

TEST(IpoibArp, ExchangeTeachesBothSidesTheirGids) {
    IpoibPort a{config(alice, alice_gid)}, b{config(bob, bob_gid)};
    const Gid everybody = broadcast_gid(a.config());
    const Mac all{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    const Sent request = send(a, frame(all, alice_mac, 0x0806, ethernet_arp(1, alice_mac, {})));
    const Received asked = receive(b, request.payload, alice, &everybody);
    ASSERT_TRUE(asked.result.ok());
    EXPECT_EQ(asked.frame, frame(all, alice_mac, 0x0806, ethernet_arp(1, alice_mac, {})));

    const Sent reply = send(b, frame(alice_mac, bob_mac, 0x0806, ethernet_arp(2, bob_mac, alice_mac)));
    Bytes expected{0x08, 0x06, 0, 0};
    append(expected, infiniband_arp(2, hardware_address(bob, bob_gid), hardware_address(alice, alice_gid)));
    EXPECT_EQ(reply.payload, expected) << "Bob has remembered Alice's GID";
    const Received answered = receive(a, reply.payload, bob);
    ASSERT_TRUE(answered.result.ok());
    EXPECT_EQ(answered.frame, frame(alice_mac, bob_mac, 0x0806, ethernet_arp(2, bob_mac, alice_mac)));
}

TEST(IpoibArp, ReplyNamesItsTargetThoughBothPortsHaveOneQpn) {
    // Every host's first UD QP has the same number.
    const UdAddress twin{alice.qpn, bob.lid};
    const Mac twin_mac = mac_of(twin);
    IpoibPort a{config(alice, alice_gid)}, b{config(twin, bob_gid)};
    const Bytes made = frame(alice_mac, twin_mac, 0x0806, ethernet_arp(2, twin_mac, alice_mac));
    // Alice's GID is not known: her address leaves with zeros for it.
    EXPECT_EQ(receive(a, send(b, made).payload, twin).frame, made);
    EXPECT_EQ(a.hardware_address(reinterpret_cast<const std::byte*>(twin_mac.data())),
              b.hardware_address(reinterpret_cast<const std::byte*>(twin_mac.data())))
        << "the sender's GID is remembered, not the target's";
}

TEST(IpoibArp, SenderThatNobodyCouldAnswerIsRefused) {
    const IpoibPort port{config()};
    EXPECT_EQ(
        send(port, frame(bob_mac, alice_mac, 0x0806, ethernet_arp(1, {0, 1, 2, 3, 4, 5}, {}))).header.refusal,
        TxRefusal::no_address);
}

TEST(IpoibArp, ForeignAndMalformedOnesAreDropped) {
    IpoibPort port{config()};
    const Bytes good = infiniband_arp(1, hardware_address(bob, bob_gid), Bytes(20));
    const auto drop = [&](const Bytes& arp, UdAddress source) {
        Bytes payload{0x08, 0x06, 0, 0};
        append(payload, arp);
        return receive(port, payload, source).result.drop;
    };
    EXPECT_EQ(drop(good, bob), RxDrop::none);
    EXPECT_EQ(drop(good, {Qpn{0x99}, 5}), RxDrop::rx_foreign_address);
    for (const std::size_t at : {1U, 2U, 4U, 5U}) {
        Bytes bad = good;
        bad[at] ^= 1;
        EXPECT_EQ(drop(bad, bob), RxDrop::rx_logic) << at;
    }
    for (std::size_t bytes = 0; bytes < good.size(); ++bytes)
        EXPECT_EQ(drop(Bytes(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(bytes)), bob),
                  RxDrop::rx_logic);
}

TEST(IpoibArp, PeerTableIsBounded) {
    IpoibConfig small = config();
    small.peers = 16;
    IpoibPort port{small};
    for (std::uint16_t lid = 1; lid < 5000; ++lid) {
        const UdAddress peer{Qpn{0x40}, lid};
        Bytes payload{0x08, 0x06, 0, 0};
        append(payload, infiniband_arp(1, hardware_address(peer, bob_gid), Bytes(20)));
        ASSERT_TRUE(receive(port, payload, peer).result.ok());
        const Mac mac = mac_of(peer);
        const HardwareAddress known = port.hardware_address(reinterpret_cast<const std::byte*>(mac.data()));
        ASSERT_EQ(Bytes(known.begin(), known.end()), hardware_address(peer, bob_gid))
            << "the newest is known";
    }
}

// ---- neighbour discovery --------------------------------------------------------------------------------

std::uint16_t icmpv6_checksum(const Bytes& ip) {
    const std::size_t length = std::size_t{ip[4]} << 8 | ip[5];
    std::uint32_t sum = static_cast<std::uint32_t>(length) + 58;
    for (std::size_t i = 8; i < 40 + length; i += 2)
        sum += static_cast<std::uint32_t>(ip[i]) << 8 | (i + 1 < 40 + length ? ip[i + 1] : 0U);
    while (sum >> 16 != 0)
        sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(~sum);
}

/// `options` behind the fixed part of message `type`; the checksum is right.
Bytes neighbour(std::uint8_t type, std::size_t fixed, const Bytes& options) {
    Bytes ip(40 + fixed);
    ip[0] = 0x60;
    const std::size_t length = fixed + options.size();
    ip[4] = static_cast<std::uint8_t>(length >> 8);
    ip[5] = static_cast<std::uint8_t>(length);
    ip[6] = 58;
    ip[7] = 255;
    for (std::size_t i = 8; i < 40; ++i)
        ip[i] = static_cast<std::uint8_t>(i * 11);
    ip[40] = type;
    for (std::size_t i = 44; i < ip.size(); ++i)
        ip[i] = static_cast<std::uint8_t>(i * 5);
    append(ip, options);
    const std::uint16_t checksum = icmpv6_checksum(ip);
    ip[42] = static_cast<std::uint8_t>(checksum >> 8);
    ip[43] = static_cast<std::uint8_t>(checksum);
    return ip;
}
Bytes short_option(std::uint8_t type, const Mac& mac) {
    Bytes option{type, 1};
    option.insert(option.end(), mac.begin(), mac.end());
    return option;
}
Bytes long_option(std::uint8_t type, const Bytes& address) {
    Bytes option{type, 3, 0, 0};
    append(option, address);
    return option;
}
const Bytes prefix_option = [] {
    Bytes option(32, 0x5a);
    option[0] = 3;
    option[1] = 4;
    return option;
}();

struct Message {
    std::uint8_t type;
    std::size_t fixed;
};
constexpr Message messages[] = {{133, 8}, {134, 16}, {135, 24}, {136, 24}, {137, 40}};

TEST(IpoibNeighbour, LinkAddressIsWidenedAndNarrowedInEveryMessageAndPlace) {
    IpoibPort a{config(alice, alice_gid)}, b{config(bob, bob_gid)};
    for (const auto [type, fixed] : messages)
        for (unsigned before = 0; before < 2; ++before)
            for (unsigned behind = 0; behind < 3; ++behind) {
                Bytes options, wide;
                const auto both = [&](const Bytes& option) {
                    append(options, option);
                    append(wide, option);
                };
                for (unsigned i = 0; i < before; ++i)
                    both(prefix_option);
                append(options, short_option(1, alice_mac));
                append(wide, long_option(1, hardware_address(alice, alice_gid)));
                for (unsigned i = 0; i < behind; ++i)
                    both(prefix_option);
                const Bytes made = frame(bob_mac, alice_mac, 0x86dd, neighbour(type, fixed, options));
                const Sent sent = send(a, made);
                ASSERT_TRUE(sent.header.ok());
                Bytes expected{0x86, 0xdd, 0, 0};
                append(expected, neighbour(type, fixed, wide));
                ASSERT_EQ(sent.payload, expected)
                    << "type " << unsigned{type} << ", " << before << ", " << behind;
                const Received got = receive(b, sent.payload, alice);
                ASSERT_TRUE(got.result.ok());
                ASSERT_EQ(got.frame, made);
            }
}

TEST(IpoibNeighbour, SourceAndTargetAddressInOneMessage) {
    IpoibPort a{config(alice, alice_gid)}, b{config(bob, bob_gid)};
    Bytes options = short_option(1, alice_mac);
    append(options, prefix_option);
    append(options, short_option(2, alice_mac));
    const Bytes made = frame(bob_mac, alice_mac, 0x86dd, neighbour(136, 24, options));
    const Sent sent = send(a, made);
    EXPECT_EQ(sent.payload.size(), made.size() - 14 + 4 + 32);
    EXPECT_EQ(receive(b, sent.payload, alice).frame, made);
}

TEST(IpoibNeighbour, WhatIsNoneStaysAsItIs) {
    IpoibPort a{config(alice, alice_gid)}, b{config(bob, bob_gid)};
    Bytes echo = neighbour(128, 8, short_option(1, alice_mac));
    Bytes near = neighbour(135, 24, short_option(1, alice_mac));
    near[7] = 64; // came over a router: not to be believed
    Bytes empty_option = neighbour(135, 24, {1, 0, 1, 2, 3, 4, 5, 6});
    for (const Bytes& ip : {echo, near, empty_option}) {
        const Sent sent = send(a, frame(bob_mac, alice_mac, 0x86dd, ip));
        Bytes expected{0x86, 0xdd, 0, 0};
        append(expected, ip);
        EXPECT_EQ(sent.payload, expected);
    }
}

TEST(IpoibNeighbour, CutAndLyingMessagesAreNeverReadBeyondTheirEnd) {
    IpoibPort a{config(alice, alice_gid)}, b{config(bob, bob_gid)};
    const Bytes ip = neighbour(135, 24, short_option(1, alice_mac));
    Bytes wide{0x86, 0xdd, 0, 0};
    append(wide, neighbour(135, 24, long_option(1, hardware_address(alice, alice_gid))));
    for (std::size_t bytes = 0; bytes <= ip.size(); ++bytes)
        EXPECT_TRUE(send(a, frame(bob_mac, alice_mac, 0x86dd,
                                  Bytes(ip.begin(), ip.begin() + static_cast<std::ptrdiff_t>(bytes))))
                        .header.ok());
    for (std::size_t bytes = 0; bytes < wide.size(); ++bytes)
        receive(b, Bytes(wide.begin(), wide.begin() + static_cast<std::ptrdiff_t>(bytes)), alice);
    for (unsigned length = 0; length < 256; ++length) {
        Bytes lying = wide;
        lying[4 + 40 + 24 + 1] = static_cast<std::uint8_t>(length);
        const RxDrop drop = receive(b, lying, alice).result.drop;
        EXPECT_EQ(drop == RxDrop::none, length == 3) << length;
    }
    EXPECT_EQ(receive(b, wide, {Qpn{0x77}, 3}).result.drop, RxDrop::rx_foreign_address);
}

// ---- receiving ------------------------------------------------------------------------------------------

TEST(IpoibReceive, EthernetHeaderStandsInFrontOfThePayloadWhereItWas) {
    IpoibPort port{config()};
    const Bytes payload{0x08, 0x00, 0, 0, 1, 2, 3, 4, 5};
    const Received got = receive(port, payload, bob);
    ASSERT_TRUE(got.result.ok());
    EXPECT_EQ(got.frame, frame(alice_mac, bob_mac, 0x0800, {1, 2, 3, 4, 5}));
    EXPECT_EQ(got.result.offset + 14, 44U) << "GRH area and header; the payload was not moved";
}

TEST(IpoibReceive, GrhNamesTheGroupAndThePacketItsMac) {
    IpoibPort port{config()};
    const Gid everybody = broadcast_gid(port.config());
    Bytes payload{0x08, 0x00, 0, 0};
    append(payload, ipv4_packet({239, 129, 2, 3}));
    const Mac group_mac{0x01, 0x00, 0x5e, 1, 2, 3};
    EXPECT_EQ(receive(port, payload, bob, &everybody).frame,
              frame(group_mac, bob_mac, 0x0800, ipv4_packet({239, 129, 2, 3})));
    Bytes other{0x12, 0x34, 0, 0, 9};
    EXPECT_EQ(receive(port, other, bob, &everybody).frame,
              frame({255, 255, 255, 255, 255, 255}, bob_mac, 0x1234, {9}));
    // A unicast GRH: through a router.
    EXPECT_EQ(receive(port, other, bob, &alice_gid).frame, frame(alice_mac, bob_mac, 0x1234, {9}));
}

TEST(IpoibReceive, OwnMulticastIsDroppedAndNothingElse) {
    IpoibPort port{config()};
    const Gid everybody = broadcast_gid(port.config());
    const Bytes payload{0x12, 0x34, 0, 0, 9};
    EXPECT_EQ(receive(port, payload, alice, &everybody).result.drop, RxDrop::rx_own_multicast);
    // Another node's QP of the same number; unicast to oneself.
    EXPECT_EQ(receive(port, payload, {alice.qpn, 9}, &everybody).result.drop, RxDrop::none);
    EXPECT_EQ(receive(port, payload, alice).result.drop, RxDrop::none);
}

TEST(IpoibReceive, LengthsBeyondTheMtuAndBelowTheHeaderAreDropped) {
    for (const std::uint16_t mtu : {std::uint16_t{2044}, std::uint16_t{4092}}) {
        IpoibConfig sized = config();
        sized.mtu_bytes = mtu;
        IpoibPort port{sized};
        EXPECT_EQ(receive(port, Bytes(4U + mtu), bob).result.drop, RxDrop::none);
        EXPECT_EQ(receive(port, Bytes(5U + mtu), bob).result.drop, RxDrop::rx_oversize);
        for (std::size_t bytes = 0; bytes < 4; ++bytes)
            EXPECT_EQ(receive(port, Bytes(bytes), bob).result.drop, RxDrop::rx_runt);
        EXPECT_EQ(port.max_frame_bytes(), mtu + 14U);
    }
}

TEST(IpoibReceive, EveryLengthComesBackAsItWasSent) {
    IpoibPort a{config(alice, alice_gid)}, b{config(bob, bob_gid)};
    for (std::size_t length = 0; length <= 2044; ++length) {
        Bytes payload(length, static_cast<std::uint8_t>(length));
        const Bytes made = frame(bob_mac, alice_mac, 0x0800, payload);
        ASSERT_EQ(receive(b, send(a, made).payload, alice).frame, made);
    }
}

TEST(IpoibReceive, SpoiltPacketsGiveAFrameWithinThemOrNone) {
    IpoibPort port{config()};
    std::mt19937 random{20161};
    const Gid everybody = broadcast_gid(port.config());
    Bytes options = prefix_option;
    append(options, long_option(1, hardware_address(bob, bob_gid)));
    append(options, long_option(2, hardware_address(bob, bob_gid)));
    Bytes discovery{0x86, 0xdd, 0, 0}, arp{0x08, 0x06, 0, 0};
    append(discovery, neighbour(134, 16, options));
    append(arp, infiniband_arp(2, hardware_address(bob, bob_gid), hardware_address(alice, alice_gid)));
    for (int i = 0; i < 20000; ++i) {
        Bytes spoilt = i % 2 == 0 ? discovery : arp;
        for (unsigned hits = random() % 4; hits > 0; --hits)
            spoilt[random() % spoilt.size()] = static_cast<std::uint8_t>(random());
        if (i % 3 == 0) spoilt.resize(random() % (spoilt.size() + 1));
        const Received got = receive(port, spoilt, bob, i % 5 == 0 ? &everybody : nullptr);
        if (got.result.ok()) {
            ASSERT_GE(got.result.bytes, 14U);
            ASSERT_LE(got.result.offset + got.result.bytes, 40 + spoilt.size());
        }
    }
}

TEST(IpoibConfig, NonsenseIsRefusedByName) {
    const auto error = [](auto change) {
        IpoibConfig bad = config();
        change(bad);
        const Status status = IpoibPort::check(bad);
        return status.ok() ? std::string{} : status.error().what;
    };
    EXPECT_EQ(error([](IpoibConfig&) {}), "");
    EXPECT_NE(error([](IpoibConfig& c) { c.own.qpn = multicast_qpn; }).find("QPN"), std::string::npos);
    EXPECT_NE(error([](IpoibConfig& c) { c.own.lid = 0; }).find("LID 0x0"), std::string::npos);
    EXPECT_NE(error([](IpoibConfig& c) { c.mtu_bytes = 4093; }).find("MTU 4093"), std::string::npos);
    EXPECT_NE(error([](IpoibConfig& c) { c.broadcast_lid = 5; }).find("broadcast LID"), std::string::npos);
    EXPECT_NE(error([](IpoibConfig& c) { c.service_level = 16; }).find("service level 16"),
              std::string::npos);
}

} // namespace
} // namespace stride::mbufqp
