// SPDX-License-Identifier: BSD-3-Clause
/// Work queue elements and doorbell records, both sides.
#include "agreement.hpp"
#include "swhca/prm/wqe.hpp"

#include <infiniband/mlx5dv.h>

namespace stride::test {

namespace {

/// A doorbell record has no structure in mlx5dv.h: a be32 each.
struct DoorbellRecord {
    std::uint32_t counter;
};

const std::vector<Agreement> send_fields{
    AGREE(CtrlSegment, opc_mod, mlx5_wqe_ctrl_seg, opmod_idx_opcode, 31, 24),
    AGREE(CtrlSegment, wqe_index, mlx5_wqe_ctrl_seg, opmod_idx_opcode, 23, 8),
    AGREE(CtrlSegment, opcode, mlx5_wqe_ctrl_seg, opmod_idx_opcode, 7, 0),
    AGREE(CtrlSegment, qpn, mlx5_wqe_ctrl_seg, qpn_ds, 31, 8),
    AGREE(CtrlSegment, reserved_ds, mlx5_wqe_ctrl_seg, qpn_ds, 7, 6),
    AGREE(CtrlSegment, ds, mlx5_wqe_ctrl_seg, qpn_ds, 5, 0),
    AGREE(CtrlSegment, signature, mlx5_wqe_ctrl_seg, signature, 7, 0),
    AGREE(CtrlSegment, stream_channel, mlx5_wqe_ctrl_seg, dci_stream_channel_id, 15, 0),
    AGREE(CtrlSegment, fence_mode, mlx5_wqe_ctrl_seg, fm_ce_se, 7, 5),
    AGREE(CtrlSegment, reserved_flag4, mlx5_wqe_ctrl_seg, fm_ce_se, 4, 4),
    AGREE(CtrlSegment, completion_event, mlx5_wqe_ctrl_seg, fm_ce_se, 3, 2),
    AGREE(CtrlSegment, solicited, mlx5_wqe_ctrl_seg, fm_ce_se, 1, 1),
    AGREE(CtrlSegment, reserved_flag0, mlx5_wqe_ctrl_seg, fm_ce_se, 0, 0),
    AGREE(CtrlSegment, immediate, mlx5_wqe_ctrl_seg, imm, 31, 0),
    // Software parser, metadata and inner checksums are reserved in mlx5dv.h.
    AGREE(EthSegment, parsing_offsets, mlx5_wqe_eth_seg, rsvd0, 31, 0),
    AGREE(EthSegment, l4_checksum, mlx5_wqe_eth_seg, cs_flags, 7, 7),
    AGREE(EthSegment, l3_checksum, mlx5_wqe_eth_seg, cs_flags, 6, 6),
    AGREE(EthSegment, l4_inner_checksum, mlx5_wqe_eth_seg, cs_flags, 5, 5),
    AGREE(EthSegment, l3_inner_checksum, mlx5_wqe_eth_seg, cs_flags, 4, 4),
    AGREE(EthSegment, reserved_checksum, mlx5_wqe_eth_seg, cs_flags, 3, 0),
    AGREE(EthSegment, parsing_flags, mlx5_wqe_eth_seg, rsvd1, 7, 0),
    AGREE(EthSegment, mss, mlx5_wqe_eth_seg, mss, 13, 0),
    AGREE(EthSegment, reserved_mss, mlx5_wqe_eth_seg, mss, 15, 14),
    AGREE(EthSegment, metadata, mlx5_wqe_eth_seg, rsvd2, 31, 0),
    AGREE(EthSegment, insert_vlan, mlx5_wqe_eth_seg, inline_hdr_sz, 15, 15),
    AGREE(EthSegment, insert_svlan, mlx5_wqe_eth_seg, inline_hdr_sz, 14, 14),
    AGREE(EthSegment, inline_header_bytes, mlx5_wqe_eth_seg, inline_hdr_sz, 9, 0),
    AGREE(EthSegment, vlan_tci, mlx5_wqe_eth_seg, inline_hdr_start, 15, 0),
    AGREE(DataSegment, inlined, mlx5_wqe_data_seg, byte_count, 31, 31),
    AGREE(DataSegment, byte_count, mlx5_wqe_data_seg, byte_count, 30, 0),
    AGREE(DataSegment, lkey, mlx5_wqe_data_seg, lkey, 31, 0),
    AGREE(DataSegment, address, mlx5_wqe_data_seg, addr, 63, 0),
    AGREE(InlineSegment, inlined, mlx5_wqe_inl_data_seg, byte_count, 31, 31),
    AGREE(InlineSegment, reserved, mlx5_wqe_inl_data_seg, byte_count, 30, 10),
    AGREE(InlineSegment, byte_count, mlx5_wqe_inl_data_seg, byte_count, 9, 0),
};

const std::vector<Agreement> address_fields{
    AGREE(DatagramSegment, qkey, mlx5_wqe_datagram_seg, av.key.qkey.qkey, 31, 0),
    AGREE(DatagramSegment, extended, mlx5_wqe_datagram_seg, av.dqp_dct, 31, 31),
    AGREE(DatagramSegment, destination_qpn, mlx5_wqe_datagram_seg, av.dqp_dct, 23, 0),
    AGREE(DatagramSegment, static_rate, mlx5_wqe_datagram_seg, av.stat_rate_sl, 7, 4),
    AGREE(DatagramSegment, service_level, mlx5_wqe_datagram_seg, av.stat_rate_sl, 3, 0),
    AGREE(DatagramSegment, force_loopback, mlx5_wqe_datagram_seg, av.fl_mlid, 7, 7),
    AGREE(DatagramSegment, source_path, mlx5_wqe_datagram_seg, av.fl_mlid, 6, 0),
    AGREE(DatagramSegment, remote_lid, mlx5_wqe_datagram_seg, av.rlid, 15, 0),
    AGREE_IN(DatagramSegment, remote_mac_high, mlx5_wqe_datagram_seg, av.rmac, 0, 4, 31, 0),
    AGREE_IN(DatagramSegment, remote_mac_low, mlx5_wqe_datagram_seg, av.rmac, 4, 2, 15, 0),
    AGREE(DatagramSegment, traffic_class, mlx5_wqe_datagram_seg, av.tclass, 7, 0),
    AGREE(DatagramSegment, hop_limit, mlx5_wqe_datagram_seg, av.hop_limit, 7, 0),
    AGREE(DatagramSegment, grh, mlx5_wqe_datagram_seg, av.grh_gid_fl, 30, 30),
    AGREE(DatagramSegment, source_gid_index, mlx5_wqe_datagram_seg, av.grh_gid_fl, 27, 20),
    AGREE(DatagramSegment, flow_label, mlx5_wqe_datagram_seg, av.grh_gid_fl, 19, 0),
    AGREE_IN(DatagramSegment, remote_gid_high, mlx5_wqe_datagram_seg, av.rgid, 0, 8, 63, 0),
    AGREE_IN(DatagramSegment, remote_gid_low, mlx5_wqe_datagram_seg, av.rgid, 8, 8, 63, 0),
};

const std::vector<Agreement> queue_fields{
    AGREE(NextSegment, next_wqe_index, mlx5_wqe_srq_next_seg, next_wqe_index, 15, 0),
    AGREE(NextSegment, signature, mlx5_wqe_srq_next_seg, signature, 7, 0),
    AGREE(WorkQueueDoorbell, counter, DoorbellRecord, counter, 15, 0),
};

} // namespace

std::vector<Agreement> wqe_agreements() {
    std::vector<Agreement> all{send_fields};
    all.insert(all.end(), address_fields.begin(), address_fields.end());
    all.insert(all.end(), queue_fields.begin(), queue_fields.end());
    return all;
}

} // namespace stride::test
