// SPDX-License-Identifier: BSD-3-Clause
/// The Toeplitz hash against Microsoft's verification suite ("Verifying the RSS Hash Calculation").
#include "frames.hpp"

#include "swhca/engine/rss.hpp"

namespace swhca::test {
namespace {

constexpr std::array<std::uint8_t, 40> verification_key{
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
    0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
    0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

constexpr std::uint64_t addresses_and_ports = 0xff;

RssResult hash_of(const FrameSpec& spec, std::uint64_t fields) {
    static const ToeplitzTables tables{verification_key};
    const CutFrame cut{make_frame(spec)};
    return rss_hash(tables, fields, cut.data(), parse(cut.frame()));
}

struct Vector {
    const char* dst;
    std::uint16_t dst_port;
    const char* src;
    std::uint16_t src_port;
    std::uint32_t addresses, with_ports;
};

constexpr Vector ipv4_vectors[] = {
    {"161.142.100.80", 1766, "66.9.149.187", 2794, 0x323e8fc2, 0x51ccc178},
    {"65.69.140.83", 4739, "199.92.111.2", 14230, 0xd718262a, 0xc626b0ea},
    {"12.22.207.184", 38024, "24.19.198.95", 12898, 0xd2d0a5de, 0x5c2b394a},
    {"209.142.163.6", 2217, "38.27.205.30", 48228, 0x82989176, 0xafc7327f},
    {"202.188.127.2", 1303, "153.39.163.191", 44251, 0x5d1809c5, 0x10e828a2},
};
constexpr Vector ipv6_vectors[] = {
    {"3ffe:2501:200:3::1", 1766, "3ffe:2501:200:1fff::7", 2794, 0x2cc18cd5, 0x40207d3d},
    {"ff02::1", 4739, "3ffe:501:8::260:97ff:fe40:efab", 14230, 0x0f0c461c, 0xdde51bbf},
    {"fe80::200:f8ff:fe21:67cf", 38024, "3ffe:1900:4545:3:200:f8ff:fe21:67cf", 44251, 0x4b61e985, 0x02d1feef},
};

FrameSpec spec_of(const Vector& vector, bool ipv6, bool tcp) {
    FrameSpec spec;
    spec.ipv6 = ipv6;
    spec.tcp = tcp;
    spec.src = vector.src;
    spec.dst = vector.dst;
    spec.src_port = vector.src_port;
    spec.dst_port = vector.dst_port;
    return spec;
}

TEST(Rss, MicrosoftVectorsForIpv4) {
    for (const Vector& vector : ipv4_vectors) {
        for (const bool tcp : {false, true}) {
            const FrameSpec spec = spec_of(vector, false, tcp);
            EXPECT_EQ(hash_of(spec, 0x03).hash, vector.addresses) << vector.dst;
            EXPECT_EQ(hash_of(spec, addresses_and_ports).hash, vector.with_ports) << vector.dst;
        }
    }
}

TEST(Rss, MicrosoftVectorsForIpv6) {
    for (const Vector& vector : ipv6_vectors) {
        for (const bool tcp : {false, true}) {
            const FrameSpec spec = spec_of(vector, true, tcp);
            EXPECT_EQ(hash_of(spec, 0x0c).hash, vector.addresses) << vector.dst;
            EXPECT_EQ(hash_of(spec, addresses_and_ports).hash, vector.with_ports) << vector.dst;
        }
    }
}

TEST(Rss, FieldsOfOtherKindsOfPacketAreNotHashed) {
    const FrameSpec udp = spec_of(ipv4_vectors[0], false, false);
    EXPECT_EQ(hash_of(udp, 0x03 | 0x30).hash, ipv4_vectors[0].addresses) << "ports of TCP only";
    EXPECT_EQ(hash_of(udp, 0x0c).hash, 0U) << "addresses of IPv6 only";
}

TEST(Rss, PortsOfFragmentsAreNotHashed) {
    FrameSpec spec = spec_of(ipv4_vectors[0], false, false);
    spec.fragment = 0x2000;
    EXPECT_EQ(hash_of(spec, addresses_and_ports).hash, ipv4_vectors[0].addresses);
}

TEST(Rss, ResultTellsWhatWasHashed) {
    const RssResult tcp4 = hash_of(spec_of(ipv4_vectors[0], false, true), addresses_and_ports);
    EXPECT_EQ(tcp4.ip_source, 1);
    EXPECT_EQ(tcp4.ip_destination, 1);
    EXPECT_EQ(tcp4.l4_source, 1);
    EXPECT_EQ(tcp4.l4_destination, 1);
    const RssResult udp6 = hash_of(spec_of(ipv6_vectors[0], true, false), 0x08 | 0x40);
    EXPECT_EQ(udp6.ip_source, 0);
    EXPECT_EQ(udp6.ip_destination, 2);
    EXPECT_EQ(udp6.l4_source, 2);
    EXPECT_EQ(udp6.l4_destination, 0);
}

} // namespace
} // namespace swhca::test
