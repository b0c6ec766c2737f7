// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/wire/gen_templates.hpp"

#include "base/be.hpp"
#include "base/ring.hpp"
#include "swhca/engine/checksum.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

namespace swhca {
namespace {

using stride::be16;
using stride::be32;

constexpr std::uint32_t least_templates = 64;
constexpr std::uint32_t range_templates = 1024; ///< different random lengths
constexpr std::uint32_t cache_line_bytes = 64;
constexpr std::uint8_t protocol_tcp = 6, protocol_udp = 17;

/// 7:4:1, spread so that no long run of one length comes.
constexpr std::uint32_t imix_bytes[12] = {64, 590, 64, 64, 590, 64, 1514, 64, 590, 64, 590, 64};

/// A whole number of rounds of flows, lengths and wrong checksums, if gen_max_templates allows it; a whole
/// number of rounds of flows at least.
std::uint32_t template_count(const GenOptions& options) {
    const std::uint64_t lengths = options.sizes == GenOptions::Sizes::imix    ? std::size(imix_bytes)
                                  : options.sizes == GenOptions::Sizes::range ? range_templates
                                                                              : 1;
    const std::uint64_t bad = std::max(1U, options.bad_csum_period);
    std::uint64_t count = std::lcm(std::lcm<std::uint64_t>(options.flows, lengths), bad);
    if (count > gen_max_templates) count = options.flows;
    const std::uint64_t rounds = (least_templates + count - 1) / count;
    return static_cast<std::uint32_t>(count * rounds);
}

/// Appends fields in wire order.
class Writer {
  public:
    explicit Writer(std::byte* at) noexcept
        : at_{at} {}
    template <class T>
    Writer& put(T value) noexcept {
        std::memcpy(at_, &value, sizeof value);
        at_ += sizeof value;
        return *this;
    }
    std::byte* at() const noexcept { return at_; }

  private:
    std::byte* at_;
};

std::byte* put_ethernet(std::byte* at, const GenOptions& options) {
    Writer out{at};
    out.put(options.destination).put(options.source);
    if (options.vlan) out.put(be16{0x8100}).put(be16{*options.vlan});
    return out.put(be16{static_cast<std::uint16_t>(options.ipv6 ? 0x86dd : 0x0800)}).at();
}

/// Addresses and ports of flow `flow`: source 10.x.y.z (fd00::x) with the flow's number, port likewise, so
/// that both 2- and 4-tuple hashes spread.
std::byte* put_ip(std::byte* at, const GenOptions& options, std::uint32_t flow, std::uint32_t l4_bytes) {
    const std::uint8_t protocol = options.tcp ? protocol_tcp : protocol_udp;
    Writer out{at};
    if (options.ipv6) {
        out.put(be32{0x60000000}).put(be16{static_cast<std::uint16_t>(l4_bytes)});
        out.put(protocol).put(std::uint8_t{64});
        out.put(be32{0xfd000000}).put(be32{0}).put(be32{0}).put(be32{flow + 1});
        return out.put(be32{0xfd000000}).put(be32{0}).put(be32{1}).put(be32{1}).at();
    }
    out.put(be16{0x4500}).put(be16{static_cast<std::uint16_t>(20 + l4_bytes)}).put(be32{0});
    out.put(std::uint8_t{64}).put(protocol).put(be16{0});
    out.put(be32{0x0a000001 + flow}).put(be32{0x0a800001});
    const auto sum = static_cast<std::uint16_t>(~fold_sum(sum_bytes(at, 20)));
    std::memcpy(at + 10, &sum, sizeof sum);
    return out.at();
}

std::byte* put_l4(std::byte* at, const GenOptions& options, std::uint32_t flow, std::uint32_t l4_bytes) {
    Writer out{at};
    out.put(be16{static_cast<std::uint16_t>(1024 + flow % 64000)}).put(be16{9});
    if (!options.tcp) return out.put(be16{static_cast<std::uint16_t>(l4_bytes)}).put(be16{0}).at();
    return out.put(be32{1}).put(be32{1}).put(be16{0x5010}).put(be16{0xffff}).put(be32{0}).at();
}

/// Sum of pseudo header, L4 header and payload: `ip` to the first `in_front` bytes behind it, and the rest.
std::uint16_t l4_checksum(const std::byte* ip, const GenOptions& options, std::uint32_t l4_bytes,
                          std::span<const Segment> parts) {
    std::uint64_t sum = options.ipv6 ? sum_bytes(ip + 8, 32) : sum_bytes(ip + 12, 8);
    sum += sum_term(options.tcp ? protocol_tcp : protocol_udp);
    sum += sum_term(static_cast<std::uint16_t>(l4_bytes));
    // header_bytes is even and so is every header: the second part begins at an even offset.
    for (const Segment& part : parts)
        sum += sum_bytes(part.data, part.length_bytes);
    const auto checksum = static_cast<std::uint16_t>(~fold_sum(sum));
    return checksum == 0 && !options.tcp ? std::uint16_t{0xffff} : checksum;
}

} // namespace

GenTemplates::GenTemplates(const GenOptions& options)
    : stamp_offset_{options.header_length()}
    , pitch_bytes_{stride::align_up(std::min(options.max_bytes, header_bytes), cache_line_bytes)} {
    const std::uint32_t count = template_count(options);
    headers_.resize(static_cast<std::size_t>(count) * pitch_bytes_ / cache_line_bytes);
    payload_.resize(options.max_bytes > header_bytes ? options.max_bytes - header_bytes : 0);
    std::mt19937_64 random{options.seed};
    for (CacheLine& line : headers_)
        for (std::byte& byte : line.bytes)
            byte = static_cast<std::byte>(random());
    for (std::byte& byte : payload_)
        byte = static_cast<std::byte>(random());
    segments_.resize(std::size_t{2} * count);
    frames_.resize(count);
    std::uniform_int_distribution<std::uint32_t> any_length{options.min_bytes, options.max_bytes};
    for (std::uint32_t index = 0; index < count; ++index) {
        std::uint32_t length = any_length(random);
        if (options.sizes == GenOptions::Sizes::imix) length = imix_bytes[index % std::size(imix_bytes)];
        build(index, length, options);
    }
}

void GenTemplates::build(std::uint32_t index, std::uint32_t length_bytes, const GenOptions& options) {
    std::byte* frame = header(index);
    const std::uint32_t in_front = std::min(length_bytes, header_bytes);
    Segment* parts = &segments_[std::size_t{2} * index];
    parts[0] = {frame, in_front};
    parts[1] = {payload_.data(), length_bytes - in_front};
    frames_[index] = {{parts, length_bytes > in_front ? 2U : 1U}, length_bytes};

    const std::uint32_t flow = index % options.flows;
    std::byte* ip = put_ethernet(frame, options);
    const std::uint32_t l4_bytes =
        length_bytes - static_cast<std::uint32_t>(ip - frame) - (options.ipv6 ? 40 : 20);
    std::byte* l4 = put_ip(ip, options, flow, l4_bytes);
    put_l4(l4, options, flow, l4_bytes);
    stamp(index, 0);

    const Segment behind_ip[2] = {{l4, static_cast<std::uint32_t>(frame + in_front - l4)}, parts[1]};
    std::uint16_t checksum = l4_checksum(ip, options, l4_bytes, behind_ip);
    if (options.bad_csum_period != 0 && index % options.bad_csum_period == options.bad_csum_period - 1)
        checksum = static_cast<std::uint16_t>(checksum ^ (checksum == 0x0101 ? 0x0202 : 0x0101));
    std::memcpy(l4 + (options.tcp ? 16 : 6), &checksum, sizeof checksum);
}

void GenTemplates::stamp(std::uint32_t index, std::uint32_t sequence) noexcept {
    Writer{header(index) + stamp_offset_}.put(be32{sequence}).put(be32{~sequence});
}

} // namespace swhca
