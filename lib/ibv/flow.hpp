// SPDX-License-Identifier: BSD-3-Clause
/// Steering rules of a port: which frames go to which TIR.
#pragma once

#include "ibv/tir.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

namespace stride::ibv {

enum class L3 : std::uint8_t { any, ipv4, ipv6 };
enum class L4 : std::uint8_t { any, tcp, udp };

/// Frames a rule takes. The destination MAC is compared under a mask, so that one form serves unicast (all
/// ones), all multicast (the group bit alone) and promiscuous (no bit).
struct FlowMatch {
    MacAddress dst_mac{};
    MacAddress dst_mac_mask{};
    L3 l3{L3::any};
    L4 l4{L4::any}; ///< any unless l3 is given
    bool copy{};    ///< takes all, whatever other rules do with it; nothing else counts

    static FlowMatch unicast(const MacAddress& mac) noexcept;
    static FlowMatch all_multicast() noexcept;
    static FlowMatch everything() noexcept { return {}; }
    static FlowMatch copies() noexcept;
    friend bool operator==(const FlowMatch&, const FlowMatch&) = default;
};

/// A share of the datagrams under the source QPN of an underlay QP. The fields of IP are those behind the
/// IPoIB header.
struct DatagramMatch {
    L3 l3{L3::any};
    L4 l4{L4::any}; ///< any unless l3 is given
    /// Low bits of both ports (if l4 is given), else of both addresses (if l3 is).
    std::uint8_t source_bits{}, destination_bits{}, mask{};
};

/// A rule in verbs' words, for what applications ask for: specifications one behind the other, at most one
/// of each layer, and what happens to the frame besides going to a TIR.
class FlowRule {
  public:
    /// `Spec`: ibv_flow_spec_eth, _ipv4_ext, _ipv6, _tcp_udp, _action_tag or _action_drop; sets its size.
    template <class Spec>
    void append(Spec spec, std::uint32_t type) noexcept {
        spec.type = static_cast<decltype(spec.type)>(type);
        spec.size = sizeof spec;
        std::memcpy(bytes_ + used_, &spec, sizeof spec);
        used_ += sizeof spec;
        ++attr().num_of_specs;
    }

  private:
    friend class Flow;
    static constexpr std::size_t max_bytes =
        sizeof(ibv_flow_attr) + sizeof(ibv_flow_spec_eth) + sizeof(ibv_flow_spec_ipv6) +
        sizeof(ibv_flow_spec_tcp_udp) + sizeof(ibv_flow_spec_action_tag) + sizeof(ibv_flow_spec_action_drop);
    ibv_flow_attr* finish(const Device& device, std::uint16_t priority) noexcept;
    ibv_flow_attr& attr() noexcept { return *reinterpret_cast<ibv_flow_attr*>(bytes_); }

    alignas(8) std::byte bytes_[max_bytes]{};
    std::size_t used_{sizeof(ibv_flow_attr)};
};

class Flow {
  public:
    /// As `rule` says, for frames to `tir`, which must outlive it.
    static Result<Flow> create(std::shared_ptr<Device> device, const Tir& tir, const FlowRule& rule,
                               std::uint16_t priority);
    /// `tir` must outlive the rule. Lower `priority` is tried first.
    static Result<Flow> create(std::shared_ptr<Device> device, const Tir& tir, const FlowMatch& match,
                               std::uint16_t priority);
    /// A sniffer's rule: copies of all that comes in, to the TIR's first queue.
    static Result<Flow> create_copies(std::shared_ptr<Device> device, const Tir& tir);
    /// `underlay`: a SOURCE_QPN QP with a receive queue; it must outlive the rule.
    static Result<Flow> create(std::shared_ptr<Device> device, ibv_qp* underlay, const DatagramMatch& match,
                               std::uint16_t priority);

  private:
    explicit Flow(Owned<ibv_flow> flow) noexcept
        : flow_{std::move(flow)} {}

    Owned<ibv_flow> flow_;
};

} // namespace stride::ibv
