// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/engine/rss.hpp"

#include <cstring>

namespace swhca {
namespace {

constexpr std::uint32_t bit(RssField field) noexcept { return static_cast<std::uint32_t>(field); }

/// The key's bits `offset` to `offset + 31`.
std::uint32_t key_window(const std::array<std::uint8_t, 40>& key, std::size_t offset) noexcept {
    std::uint32_t window = 0;
    for (std::size_t i = 0; i < 32; ++i) {
        const std::size_t at = offset + i;
        const std::uint32_t value = at / 8 < key.size() ? (key[at / 8] >> (7 - at % 8)) & 1U : 0U;
        window = window << 1 | value;
    }
    return window;
}

/// The input of one hash, field by field.
struct Input {
    std::array<std::byte, rss_input_bytes> bytes;
    std::size_t length{};

    void add(const std::byte* field, std::size_t field_bytes) noexcept {
        std::memcpy(bytes.data() + length, field, field_bytes);
        length += field_bytes;
    }
};

/// Which bits of the field mask select what for this packet's kind, and where it lies.
struct Selection {
    std::uint32_t source, destination;
    std::uint8_t kind;
    std::size_t offset, bytes;
};

Selection address_selection(const PacketInfo& info) noexcept {
    if (info.ip_version == 4)
        return {bit(RssField::src_ipv4), bit(RssField::dst_ipv4), 1, info.l3_offset + 12U, 4};
    return {bit(RssField::src_ipv6), bit(RssField::dst_ipv6), 2, info.l3_offset + 8U, 16};
}

/// Addresses and ports, all four: they lie in the packet as they stand in the input.
void hash_four(const ToeplitzTables& tables, const std::byte* frame, const PacketInfo& info,
               RssResult& result) noexcept {
    const Selection ip = address_selection(info);
    const std::byte* const addresses = frame + ip.offset;
    const std::uint8_t l4_kind = info.l4_type == prm::L4Type::udp ? 2 : 1;
    const std::uint32_t of_addresses =
        info.ip_version == 4 ? tables.part<8>(0, addresses) : tables.part<32>(0, addresses);
    const std::uint32_t of_ports = tables.part<4>(2 * ip.bytes, frame + info.l4_offset);
    result.hash = of_addresses ^ of_ports;
    result.ip_source = result.ip_destination = ip.kind;
    result.l4_source = result.l4_destination = l4_kind;
}

Selection port_selection(const PacketInfo& info) noexcept {
    if (info.l4_type == prm::L4Type::udp)
        return {bit(RssField::src_port_udp), bit(RssField::dst_port_udp), 2, info.l4_offset, 2};
    return {bit(RssField::src_port_tcp), bit(RssField::dst_port_tcp), 1, info.l4_offset, 2};
}

} // namespace

ToeplitzTables::ToeplitzTables(const std::array<std::uint8_t, 40>& key) noexcept {
    for (std::size_t at = 0; at < rss_input_bytes; ++at) {
        for (std::size_t bit_in_byte = 0; bit_in_byte < 8; ++bit_in_byte) {
            const std::uint32_t window = key_window(key, at * 8 + bit_in_byte);
            const std::size_t mask = std::size_t{0x80} >> bit_in_byte;
            for (std::size_t value = 0; value < 256; ++value)
                terms_[at][value] ^= (value & mask) != 0 ? window : 0U;
        }
    }
}

void rss_hash_into(const ToeplitzTables& tables, std::uint64_t fields, const std::byte* frame,
                   const PacketInfo& info, RssResult& result) noexcept {
    result = RssResult{};
    if (info.ip_version == 0) return;
    const Selection ip = address_selection(info);
    if (info.l4_type != prm::L4Type::none) {
        const Selection l4 = port_selection(info);
        const std::uint32_t four = ip.source | ip.destination | l4.source | l4.destination;
        if ((fields & four) == four) return hash_four(tables, frame, info, result);
    }
    Input input;
    if ((fields & ip.source) != 0) {
        input.add(frame + ip.offset, ip.bytes);
        result.ip_source = ip.kind;
    }
    if ((fields & ip.destination) != 0) {
        input.add(frame + ip.offset + ip.bytes, ip.bytes);
        result.ip_destination = ip.kind;
    }
    if (info.l4_type != prm::L4Type::none) {
        const Selection l4 = port_selection(info);
        if ((fields & l4.source) != 0) {
            input.add(frame + l4.offset, l4.bytes);
            result.l4_source = l4.kind;
        }
        if ((fields & l4.destination) != 0) {
            input.add(frame + l4.offset + l4.bytes, l4.bytes);
            result.l4_destination = l4.kind;
        }
    }
    result.hash = tables.hash(input.bytes.data(), input.length);
}

} // namespace swhca
