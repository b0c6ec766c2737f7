// SPDX-License-Identifier: BSD-3-Clause
#include "mbufqp/rx_steering.hpp"

#include "base/ring.hpp"

namespace stride::mbufqp {
namespace {

/// A TIR hashes one IP version; what is neither goes to the table's first queue. The more specific rule has
/// the lower priority number.
struct Spread {
    ibv::L3 l3;
    std::uint64_t fields;
    std::uint16_t priority;
};
constexpr Spread spreads[] = {
    {ibv::L3::any, 0, 1},
    {ibv::L3::ipv4, IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4, 0},
    {ibv::L3::ipv6, IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_DST_IPV6, 0},
};

// The key of the verification suite in Microsoft's description of RSS.
constexpr ibv::RssKey key = {0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
                             0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
                             0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
                             0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

} // namespace

Result<RxSteering> RxSteering::create(std::shared_ptr<ibv::Device> device, std::span<ibv_wq* const> wqs,
                                      std::span<const ibv::FlowMatch> matches) {
    std::vector<ibv_wq*> table(RingSize::at_least(static_cast<std::uint32_t>(wqs.size())).entries());
    for (std::size_t entry = 0; entry < table.size(); ++entry)
        table[entry] = wqs[entry % wqs.size()];
    auto rqt = ibv::Rqt::create(device, table);
    if (!rqt) return rqt.take_error();
    RxSteering steering{std::move(rqt).value()};
    for (const Spread& spread : spreads) {
        if (spread.fields != 0 && wqs.size() == 1) continue;
        auto tir = ibv::Tir::create(device, steering.rqt_, {.hash_fields = spread.fields, .key = key});
        if (!tir) return tir.take_error();
        steering.tirs_.push_back(std::make_unique<ibv::Tir>(std::move(tir).value()));
        for (ibv::FlowMatch match : matches) {
            match.l3 = spread.l3;
            auto flow = ibv::Flow::create(device, *steering.tirs_.back(), match, spread.priority);
            if (!flow) return flow.take_error();
            steering.flows_.push_back(std::move(flow).value());
        }
    }
    return steering;
}

} // namespace stride::mbufqp
