// SPDX-License-Identifier: BSD-3-Clause
/// Frames for tests, with checksums computed the slow and obvious way.
#pragma once

#include "rig.hpp"

#include <arpa/inet.h>

namespace swhca::test {

/// What a test wants in a frame; everything has a default.
struct FrameSpec {
    bool ipv6{}, tcp{}, no_l4{};
    std::string src{"10.0.0.1"}, dst{"10.0.0.2"};
    std::uint16_t src_port{1000}, dst_port{2000};
    std::size_t payload{20};
    std::vector<std::uint16_t> vlans{}; ///< TCIs, outermost first
    std::size_t options{};              ///< bytes of IPv4 options
    std::uint16_t fragment{};           ///< IPv4 flags and fragment offset
    std::uint8_t tcp_flags{0x18};
    std::size_t padding{}; ///< bytes behind the IP packet
    bool checksums{true};
    std::uint8_t payload_seed{3};
    std::array<std::uint8_t, 6> dst_mac{2, 0, 0, 0, 0, 1};
};

inline std::uint16_t naive_sum(const Bytes& bytes, std::size_t from, std::size_t to, std::uint32_t sum = 0) {
    for (std::size_t i = from; i < to; i += 2)
        sum += static_cast<std::uint32_t>(bytes[i] << 8) + (i + 1 < to ? bytes[i + 1] : 0U);
    while (sum >> 16 != 0)
        sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(sum);
}

inline void put16(Bytes& bytes, std::size_t at, std::size_t value) {
    bytes[at] = static_cast<std::uint8_t>(value >> 8);
    bytes[at + 1] = static_cast<std::uint8_t>(value);
}

inline void append16(Bytes& bytes, std::size_t value) {
    bytes.resize(bytes.size() + 2);
    put16(bytes, bytes.size() - 2, value);
}

inline Bytes address_bytes(const std::string& text, bool ipv6) {
    Bytes bytes(ipv6 ? 16 : 4);
    EXPECT_EQ(inet_pton(ipv6 ? AF_INET6 : AF_INET, text.c_str(), bytes.data()), 1) << text;
    return bytes;
}

/// Where the layers of a frame made from `spec` begin.
inline std::size_t l3_offset(const FrameSpec& spec) { return 14 + 4 * spec.vlans.size(); }
inline std::size_t l4_offset(const FrameSpec& spec) {
    return l3_offset(spec) + (spec.ipv6 ? 40 : 20 + spec.options);
}
inline std::size_t l4_checksum_offset(const FrameSpec& spec) {
    return l4_offset(spec) + (spec.tcp ? 16U : 6U);
}

inline void append_ip(Bytes& frame, const FrameSpec& spec, std::size_t l4_bytes) {
    const Bytes src = address_bytes(spec.src, spec.ipv6), dst = address_bytes(spec.dst, spec.ipv6);
    const std::uint8_t proto = spec.no_l4 ? 47 : spec.tcp ? 6 : 17;
    if (spec.ipv6) {
        const Bytes header{0x60, 0, 0, 0, 0, 0, proto, 64};
        frame.insert(frame.end(), header.begin(), header.end());
        put16(frame, frame.size() - 4, l4_bytes);
    } else {
        const std::size_t header_bytes = 20 + spec.options;
        append16(frame, 0x4000 + (header_bytes / 4 << 8));
        append16(frame, header_bytes + l4_bytes);
        append16(frame, 0x1234);
        append16(frame, spec.fragment);
        append16(frame, 64U << 8 | proto);
        append16(frame, 0);
    }
    frame.insert(frame.end(), src.begin(), src.end());
    frame.insert(frame.end(), dst.begin(), dst.end());
    if (!spec.ipv6) frame.insert(frame.end(), spec.options, 1);
}

inline void append_l4(Bytes& frame, const FrameSpec& spec, std::size_t l4_bytes) {
    append16(frame, spec.src_port);
    append16(frame, spec.dst_port);
    if (spec.tcp) {
        const Bytes rest{0, 0, 0, 9, 0, 0, 0, 8, 0x50, spec.tcp_flags, 0x10, 0, 0, 0, 0, 0};
        frame.insert(frame.end(), rest.begin(), rest.end());
    } else {
        append16(frame, l4_bytes);
        append16(frame, 0);
    }
}

inline void fill_checksums(Bytes& frame, const FrameSpec& spec, std::size_t l4_bytes) {
    const std::size_t l3 = l3_offset(spec), l4 = l4_offset(spec);
    if (!spec.ipv6) put16(frame, l3 + 10, static_cast<std::uint16_t>(~naive_sum(frame, l3, l4)));
    if (spec.no_l4) return;
    std::uint32_t sum = static_cast<std::uint32_t>(l4_bytes) + (spec.tcp ? 6U : 17U);
    sum += spec.ipv6 ? naive_sum(frame, l3 + 8, l3 + 40) : naive_sum(frame, l3 + 12, l3 + 20);
    const auto checksum = static_cast<std::uint16_t>(~naive_sum(frame, l4, l4 + l4_bytes, sum));
    put16(frame, l4_checksum_offset(spec), !spec.tcp && checksum == 0 ? 0xffff : checksum);
}

inline Bytes make_frame(const FrameSpec& spec) {
    Bytes frame(spec.dst_mac.begin(), spec.dst_mac.end());
    const Bytes src_mac{2, 0, 0, 0, 0, 2};
    frame.insert(frame.end(), src_mac.begin(), src_mac.end());
    for (const std::uint16_t tci : spec.vlans) {
        append16(frame, 0x8100);
        append16(frame, tci);
    }
    append16(frame, spec.ipv6 ? 0x86dd : 0x0800);
    const std::size_t l4_bytes = spec.payload + (spec.no_l4 ? 0U : spec.tcp ? 20U : 8U);
    append_ip(frame, spec, l4_bytes);
    if (!spec.no_l4) append_l4(frame, spec, l4_bytes);
    for (std::size_t i = 0; i < spec.payload; ++i)
        frame.push_back(static_cast<std::uint8_t>(i * spec.payload_seed + 1));
    if (spec.checksums) fill_checksums(frame, spec, l4_bytes);
    frame.insert(frame.end(), spec.padding, 0xaa);
    return frame;
}

/// A frame as the engine sees it, cut into segments of the lengths given (the last takes the rest).
class CutFrame {
  public:
    explicit CutFrame(Bytes bytes, const std::vector<std::uint32_t>& cuts = {})
        : bytes_{std::move(bytes)} {
        std::uint32_t at = 0;
        for (const std::uint32_t cut : cuts) {
            segments_.push_back({data() + at, cut});
            at += cut;
        }
        const auto length = static_cast<std::uint32_t>(bytes_.size());
        if (at != length) segments_.push_back({data() + at, length - at});
        frame_ = {segments_, length};
    }
    CutFrame(const CutFrame&) = delete;
    CutFrame& operator=(const CutFrame&) = delete;
    const Frame& frame() const noexcept { return frame_; }
    const std::byte* data() const noexcept { return reinterpret_cast<const std::byte*>(bytes_.data()); }

  private:
    Bytes bytes_;
    std::vector<Segment> segments_{};
    Frame frame_{};
};

} // namespace swhca::test
