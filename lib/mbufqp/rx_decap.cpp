// SPDX-License-Identifier: BSD-3-Clause
#include "mbufqp/rx_decap.hpp"

#include "mprq/metadata.hpp"

#include <rte_mbuf.h>

#include <utility>

namespace stride::mbufqp {
namespace {

ReceiveRequest request_of(rte_mbuf* packet) noexcept {
    const auto source = mprq::DatagramSource::unpacked(packet->tx_offload);
    ReceiveRequest request{.data = rte_pktmbuf_mtod(packet, std::byte*),
                           .bytes = packet->data_len,
                           .behind_bytes = packet->pkt_len - packet->data_len,
                           .source_qpn = source.qpn,
                           .source_lid = source.lid,
                           .grh = source.grh != 0};
    packet->tx_offload = 0;
    if (request.behind_bytes != 0) [[unlikely]] {
        rte_mbuf* last = rte_pktmbuf_lastseg(packet);
        request.last_byte = rte_pktmbuf_mtod(last, const std::byte*)[last->data_len - 1];
    }
    return request;
}

/// Cuts a chain to `bytes`; segments beyond are freed.
[[gnu::noinline]] void cut_chain(rte_mbuf* packet, std::uint32_t bytes) noexcept {
    std::uint32_t left = bytes;
    std::uint16_t segments = 1;
    rte_mbuf* segment = packet;
    while (left > segment->data_len) {
        left -= segment->data_len;
        segment = segment->next;
        ++segments;
    }
    segment->data_len = static_cast<std::uint16_t>(left);
    rte_pktmbuf_free(std::exchange(segment->next, nullptr));
    packet->nb_segs = segments;
}

void trim(rte_mbuf* packet, Decapsulated frame) noexcept {
    packet->data_off = static_cast<std::uint16_t>(packet->data_off + frame.offset);
    packet->data_len = static_cast<std::uint16_t>(packet->data_len - frame.offset);
    if (packet->nb_segs == 1) [[likely]]
        packet->data_len = static_cast<std::uint16_t>(frame.bytes);
    else
        cut_chain(packet, frame.bytes);
    packet->pkt_len = frame.bytes;
}

template <class Encap>
std::uint16_t decapsulate(void* context, rte_mbuf** packets, std::uint16_t count, RxFrames& frames) noexcept {
    std::uint16_t kept = 0;
    std::uint64_t bytes = 0;
    for (std::uint16_t i = 0; i < count; ++i) {
        rte_mbuf* const packet = packets[i];
        const Decapsulated frame = Encap::receive(context, request_of(packet));
        if (!frame.ok()) [[unlikely]] {
            frames.drops[static_cast<std::size_t>(frame.drop)].add(1);
            rte_pktmbuf_free(packet);
            continue;
        }
        trim(packet, frame);
        bytes += frame.bytes;
        packets[kept++] = packet;
    }
    frames.packets.add(kept);
    frames.bytes.add(bytes);
    return kept;
}

template <class Encap>
constexpr RxDecap decap_of() noexcept {
    if constexpr (requires(void* context, ReceiveRequest request) { Encap::receive(context, request); })
        return &decapsulate<Encap>;
    else
        return nullptr;
}

} // namespace

RxDecap encap_decap(EncapKind kind) noexcept {
    switch (kind) {
#define STRIDE_ENCAP_DECAP(name, type)                                                                       \
    case EncapKind::name:                                                                                    \
        return decap_of<type>();
        STRIDE_ENCAPS(STRIDE_ENCAP_DECAP)
#undef STRIDE_ENCAP_DECAP
    }
    return nullptr;
}

} // namespace stride::mbufqp
