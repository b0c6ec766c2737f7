// SPDX-License-Identifier: BSD-3-Clause
/// Which frames a port receives and on which queue: RQT, one TIR for each kind of traffic that is hashed
/// differently, and a rule for each filter and kind. No DPDK objects here.
#pragma once

#include "ibv/flow.hpp"
#include "ibv/rqt.hpp"
#include "ibv/tir.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace stride::pmd {

inline constexpr std::uint16_t max_reta_entries = 256;

struct RssConfig {
    bool enabled{};
    std::uint64_t hash_types{}; ///< RTE_ETH_RSS_*
    ibv::RssKey key{};
    std::vector<std::uint16_t> reta{}; ///< queue of each entry, a power of two of them

    static const ibv::RssKey default_key;
};

/// A TIR hashes one IP version and one L4 protocol; the more a kind names, the earlier its rules are tried.
struct TrafficKind {
    ibv::L3 l3;
    ibv::L4 l4;
    std::uint64_t fields; ///< IBV_RX_HASH_*
    std::uint64_t types;  ///< RTE_ETH_RSS_* that ask for it
    std::uint16_t priority;
};
inline constexpr std::uint16_t kind_priorities = 3;
std::span<const TrafficKind> traffic_kinds() noexcept;
/// The kind is hashed if these types are asked for; what no kind names goes to the table's first queue.
inline bool is_wanted(const TrafficKind& kind, std::uint64_t types) noexcept {
    return kind.fields == 0 || (types & kind.types) != 0;
}

/// Of the 16 priorities of verbs, applications' rules (rte_flow) have the first, MAC and mode filters the
/// last.
inline constexpr std::uint16_t flow_priorities = 4;
inline constexpr std::uint16_t filter_priority = flow_priorities * kind_priorities;

/// RTE_ETH_RSS_* types that a device with these hash fields can do.
std::uint64_t hash_types_of(const ibv::Caps& caps) noexcept;

class Steering {
  public:
    /// `wqs` by queue id, alive as long as this. RSS off: everything goes to queue 0.
    static Result<Steering> create(std::shared_ptr<ibv::Device> device, std::span<ibv_wq* const> wqs,
                                   const RssConfig& rss);

    /// Makes the rules those of `filters`. Rules that stay are not touched, new ones are added before old
    /// ones go: no frame is missed or received twice. On failure the rules are as before.
    Status set_filters(const std::vector<ibv::FlowMatch>& filters);

  private:
    struct Target {
        ibv::L3 l3;
        ibv::L4 l4;
        std::uint16_t priority;
        ibv::Tir tir;
    };
    struct Rule {
        ibv::FlowMatch match;
        ibv::Flow flow;
    };

    Steering(std::shared_ptr<ibv::Device> device, ibv::Rqt rqt) noexcept
        : device_{std::move(device)}
        , rqt_{std::move(rqt)} {}

    std::shared_ptr<ibv::Device> device_;
    ibv::Rqt rqt_;
    std::vector<Target> targets_{};
    std::vector<Rule> rules_{};
};

} // namespace stride::pmd
