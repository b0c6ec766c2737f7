// SPDX-License-Identifier: BSD-3-Clause
/// The objects of the HCA: what a command creates and the engine works on.
///
/// Plain structures. The control plane (abi/, hca/) changes them only while the engine is quiesced
/// (engine/engine.hpp); the engine alone writes the members marked [engine] in between. Addresses are virtual
/// addresses of the process that made the object: the model reads and writes user memory where it lies.
#pragma once

#include "base/be.hpp"
#include "base/ids.hpp"
#include "base/ring.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace swhca {

using stride::be32;
using stride::be64;
using stride::Cqn;
using stride::Lkey;
using stride::Pdn;
using stride::Qpn;
using stride::RingSize;
using stride::Wqn;

struct Context;
struct Port;

/// A registered memory region. `iova` is the address WQEs use; `start` is where it lies (equal unless asked).
struct Mr {
    Lkey lkey{};
    Pdn pd{};
    std::uint64_t start{};
    std::uint64_t iova{};
    std::uint64_t length_bytes{};
    bool local_write{};
};

/// Completion channel: a socket pair; the program polls one end, the engine writes events to the other.
struct CompChannel {
    std::uint32_t handle{};
    int program_fd{-1}; ///< our own copy of the program's end, to take unread events back
    int engine_fd{-1};
    std::uint32_t users{}; ///< CQs that report here
    bool closed{};         ///< the program closed its end; goes with its last CQ
};

/// What a CQ with compression makes of runs of CQEs (mlx5-abi.h, cqe_comp_res_format).
enum class MiniCqeFormat : std::uint8_t { none, hash, csum, csum_stridx };

/// A run of CQEs that is held back to become one compressed session (engine/compression.hpp).
struct MiniCqeSession {
    static constexpr std::uint32_t max_count = 64;
    std::uint32_t first{};        ///< index of the title CQE, which lies in its slot, not yet handed over
    std::uint32_t count{};        ///< completions held back; 0: none
    std::uint32_t next_counter{}; ///< WQE index or stride the next packet must have
    std::array<std::array<std::byte, 8>, max_count> minis{};
    std::array<std::byte, 64> candidate{}; ///< the CQE after the title, before it is a mini-CQE
};

/// What the engine touches of a CQ for every completion: one cache line, so that many queues cost what one
/// does.
struct alignas(64) CqHot {
    std::byte* ring{};
    std::unique_ptr<MiniCqeSession> session{}; ///< [engine] with compression; open_cq makes it
    be32* dbrec{};               ///< [0] consumer index (24 bits, some programs write 16), [1] arm
    RingSize size{};             ///< in CQEs
    std::uint32_t cqe_bytes{64}; ///< 64 or 128
    std::uint32_t pi{};          ///< [engine] free-running producer index
    std::uint32_t ci{};          ///< [engine] consumer index as last read, to be read again only when full
    std::uint32_t armed_dbrec{}; ///< [engine] last arm word seen
    bool armed{};                ///< [engine] the program waits for an event
    bool armed_solicited{};      ///< [engine] ... for solicited or failed completions only
    bool overrun{};              ///< [engine] a completion was lost; the CQ is dead
    MiniCqeFormat mini_cqe{MiniCqeFormat::none};
};
static_assert(sizeof(CqHot) == 64);

struct Cq : CqHot {
    Cqn cqn{};
    std::uint32_t handle{};
    Context* context{};
    CompChannel* channel{};
    std::uint64_t user_handle{}; ///< cq_handle of the program, goes into completion events
    std::uint16_t moderation_count{}, moderation_period_us{};
    std::uint32_t comp_events{}; ///< [engine] events written to the channel
    std::uint32_t async_events{};
    std::uint32_t users{}; ///< queues that complete here; destroy answers EBUSY while not 0
};

/// State of a WQ or of a QP; the values are each object's own in the ABI, translated in abi/.
enum class QueueState : std::uint8_t { reset, init, rtr, ready, sqd, error };

/// A stretch of program memory that a data segment names. Without initializers: lists of them are made per
/// packet.
struct MemoryPart {
    std::byte* data;
    std::uint32_t length_bytes;
    std::uint32_t lkey; ///< number of the Lkey
};

/// What the engine touches of a receive queue for every packet: one cache line, as of a CQ. (A regular one
/// reads its ring besides.)
struct alignas(64) RqHot {
    Cq* cq{};
    be32* dbrec{}; ///< producer index, low 16 bits
    Context* context{};
    std::byte* strides{};        ///< [engine] striding: where WQE ci's strides lie; null: not looked up yet
    std::uint32_t key_changes{}; ///< [engine] MrTable::changes when `strides` was looked up
    std::uint32_t next_stride{}; ///< [engine] first free stride of WQE ci
    std::uint32_t user_index{};  ///< goes to the CQE's srqn_uidx
    std::uint16_t pi{};          ///< [engine] last doorbell record seen
    std::uint16_t ci{};          ///< [engine] WQEs consumed
    std::uint8_t log_stride_bytes{};
    std::uint8_t log_strides{}; ///< strides per WQE
    QueueState state{QueueState::reset};
    bool striding{};
    bool two_byte_shift{};
    bool vlan_strip{};
    bool scatter_fcs{};
    bool in_parts{}; ///< [engine] WQE ci's strides are several data segments: `parts` has them
};
static_assert(sizeof(RqHot) == 64);

/// A receive queue: a verbs WQ, or the RQ half of a QP.
struct Rq : RqHot {
    std::byte* ring{};
    RingSize size{}; ///< in WQEs
    std::uint32_t log_wqe_bytes{};
    Pdn pd{};
    Wqn wqn{};
    std::uint32_t handle{};
    bool end_padding{};
    std::uint32_t users{}; ///< indirection tables that hold it
    std::uint64_t user_handle{};
    Port* port{};                    ///< set when the first packet can reach it
    std::uint32_t async_events{};    ///< [engine] events written to the context's async channel
    std::vector<MemoryPart> parts{}; ///< [engine] striding: where WQE ci's data segments lie
    Qpn qpn{};                       ///< QP whose half it is (engine/queues.hpp sets it); 0: a WQ
    std::uint64_t out_of_buffer{};   ///< [engine] frames dropped for want of a WQE
};

/// Shared receive queue for UD QPs. Its WQEs are a list: each begins with the index of the next one (libmlx5
/// srq.c), and the doorbell record counts how many were posted.
struct Srq {
    std::uint32_t srqn{};
    std::uint32_t handle{};
    Context* context{};
    Pdn pd{};
    std::byte* ring{};
    RingSize size{}; ///< in WQEs
    std::uint32_t log_wqe_bytes{};
    be32* dbrec{};              ///< WQEs posted, low 16 bits
    std::uint32_t user_index{}; ///< goes to the CQE's srqn_uidx
    std::uint64_t user_handle{};
    std::uint32_t max_wr{}, max_sge{};
    std::uint32_t limit{}; ///< an event is due when fewer WQEs are left; 0: none. The engine clears it then
    std::uint32_t users{}; ///< QPs that receive from it
    std::uint32_t async_events{}; ///< [engine] events written to the context's async channel
    std::uint16_t pi{};           ///< [engine] last doorbell record seen
    std::uint16_t ci{};           ///< [engine] WQEs consumed
    std::uint16_t next_wqe{};     ///< [engine] index of the first WQE that is not consumed
};

/// A GID as it stands in tables, GRHs and AVs.
using Gid = std::array<std::uint8_t, 16>;

/// A group a UD QP is attached to.
struct MulticastGroup {
    Gid gid{};
    std::uint16_t lid{};
    bool operator==(const MulticastGroup&) const = default;
};

/// Receive indirection table (ethdev: RETA).
struct Rqt {
    std::uint32_t handle{};
    std::uint32_t number{};
    Context* context{};
    std::vector<Rq*> wqs{}; ///< a power of two of them
    std::uint32_t users{};
};

/// Hash of an RSS QP (TIR). Field masks are the ABI's MLX5_RX_HASH_* bits; 0 = everything to entry 0.
struct RssHash {
    std::uint64_t fields{};
    std::array<std::uint8_t, 40> key{};
    bool inner{};
};

enum class QpType : std::uint8_t { raw_packet, rss, ud };

constexpr std::size_t bfreg_halves = 2; ///< of a UAR register; programs use them in turn
constexpr std::size_t bfreg_half_bytes = 256;

/// The send queue of a QP: what sending touches is one cache line.
struct alignas(64) Sq {
    std::byte* ring{};
    std::byte* bfreg{}; ///< the UAR register that belongs to this QP (two halves)
    be32* dbrec{};      ///< producer index, low 16 bits (dbrec[1] of the QP)
    Cq* cq{};
    RingSize size{};             ///< in WQEBBs of 64 bytes
    std::uint16_t pi{};          ///< [engine] last doorbell record seen
    std::uint16_t ci{};          ///< [engine] WQEBBs executed
    std::uint32_t frames_done{}; ///< [engine] frames of the WQE at ci already on the wire
    QueueState state{QueueState::reset};
    std::uint32_t user_index{};
    std::uint32_t min_inline_bytes{};
};
static_assert(sizeof(Sq) == 64);

struct Qp {
    Qpn qpn{};
    std::uint32_t handle{};
    Context* context{};
    QpType type{QpType::raw_packet};
    Pdn pd{};
    Port* port{};
    QueueState state{QueueState::reset};
    std::uint64_t user_handle{};
    Sq sq{};
    std::unique_ptr<Rq> rq{}; ///< RQ half, if the QP has one (max_recv_wr > 0)
    Rqt* rqt{};               ///< RSS QP
    RssHash rss{};            ///< RSS QP
    std::uint32_t qkey{};
    std::uint32_t source_qpn{}; ///< UD with SOURCE_QPN: what its packets say they come from; 0: its own
    Srq* srq{};                 ///< instead of `rq`
    std::vector<MulticastGroup> groups{}; ///< UD
    bool block_multicast_loopback{};      ///< UD: no copy of what the port itself sent to a group
    std::uint32_t flows{};                ///< flow rules that end here
    std::uint32_t async_events{};         ///< [engine] events written to the context's async channel
    bool sq_signal_all{};
    std::uint32_t bfreg_number{}; ///< of the UAR register in the context
    Cq* recv_cq{};                ///< CQ named for receives, if any
    std::uint8_t port_number{};   ///< attributes as given to modify, for query
    std::uint16_t pkey_index{};
    std::uint32_t sq_psn{};
    std::uint32_t max_send_wr{}, max_recv_wr{}, max_send_sge{}, max_recv_sge{}, max_inline_bytes{};
};

/// What a flow rule compares, in one normal form: frame fields with masks. Unused ones have zero masks.
struct FlowMatch {
    std::array<std::uint8_t, 6> dst_mac{}, dst_mac_mask{}, src_mac{}, src_mac_mask{};
    std::uint16_t ether_type{}, ether_type_mask{};
    std::uint16_t vlan_tci{}, vlan_tci_mask{};
    bool needs_vlan{};         ///< the program gave a VLAN id: only tagged frames
    std::uint8_t ip_version{}; ///< 4, 6, or 0 for any
    std::array<std::uint8_t, 16> src_ip{}, src_ip_mask{}, dst_ip{},
        dst_ip_mask{}; ///< IPv4 in the first 4 bytes
    std::uint8_t ip_proto{}, ip_proto_mask{};
    std::uint16_t src_port{}, src_port_mask{}, dst_port{}, dst_port_mask{};
    std::uint8_t ip_tos{}, ip_tos_mask{};     ///< IPv6: traffic class
    std::uint8_t ip_ttl{}, ip_ttl_mask{};     ///< IPv6: hop limit
    std::uint8_t ip_flags{}, ip_flags_mask{}; ///< IPv4: the three flag bits, DF = 2, MF = 1
    std::uint32_t ip6_flow_label{}, ip6_flow_label_mask{};
    bool drop{};         ///< action drop
    std::uint32_t tag{}; ///< action tag: to the CQE's flow tag
    bool has_tag{};
};

enum class FlowKind : std::uint8_t { normal, all_default, multicast_default, sniffer };

struct Flow {
    std::uint32_t handle{};
    Context* context{};
    FlowKind kind{FlowKind::normal};
    std::uint16_t priority{}; ///< lower wins
    std::uint64_t order{};    ///< creation order, breaks ties: later loses
    FlowMatch match{};
    Qp* qp{};
    Port* port{};
};

} // namespace swhca
