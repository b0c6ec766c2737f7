// SPDX-License-Identifier: BSD-3-Clause
/// Completion queue elements and CQ doorbell records, both sides.
#include "agreement.hpp"
#include "mlx5/mini_cqe.hpp"
#include "swhca/prm/cqe.hpp"

#include <infiniband/mlx5dv.h>

namespace stride::test {

namespace {

/// No structure in mlx5dv.h; libmlx5 writes [0] consumer index, [1] arm (sequence, command, index).
struct CqDoorbellRecord {
    std::uint32_t consumer;
    std::uint32_t arm;
};

const std::vector<Agreement> receive_fields{
    // Packet information and hash are reserved in mlx5dv.h.
    AGREE_IN(Cqe, outer_l3_ipv6, mlx5_cqe64, rsvd0, 0, 1, 1, 1),
    AGREE_IN(Cqe, tunneled, mlx5_cqe64, rsvd0, 0, 1, 0, 0),
    AGREE(Cqe, wqe_id, mlx5_cqe64, wqe_id, 15, 0),
    AGREE_IN(Cqe, rx_hash_result, mlx5_cqe64, rsvd4, 8, 4, 31, 0),
    AGREE_IN(Cqe, rx_hash_l4_destination, mlx5_cqe64, rsvd4, 12, 1, 7, 6),
    AGREE_IN(Cqe, rx_hash_l4_source, mlx5_cqe64, rsvd4, 12, 1, 5, 4),
    AGREE_IN(Cqe, rx_hash_ip_destination, mlx5_cqe64, rsvd4, 12, 1, 3, 2),
    AGREE_IN(Cqe, rx_hash_ip_source, mlx5_cqe64, rsvd4, 12, 1, 1, 0),
    AGREE(Cqe, path_bits, mlx5_cqe64, ml_path, 7, 0),
    AGREE_IN(Cqe, checksum, mlx5_cqe64, rsvd20, 2, 2, 15, 0),
    AGREE(Cqe, source_lid, mlx5_cqe64, slid, 15, 0),
    AGREE(Cqe, grh, mlx5_cqe64, flags_rqpn, 29, 28),
    AGREE(Cqe, service_level, mlx5_cqe64, flags_rqpn, 27, 24),
    AGREE(Cqe, source_qpn, mlx5_cqe64, flags_rqpn, 23, 0),
    AGREE(Cqe, l4_ok, mlx5_cqe64, hds_ip_ext, 2, 2),
    AGREE(Cqe, l3_ok, mlx5_cqe64, hds_ip_ext, 1, 1),
    AGREE(Cqe, l2_ok, mlx5_cqe64, hds_ip_ext, 0, 0),
    AGREE(Cqe, ip_fragment, mlx5_cqe64, l4_hdr_type_etc, 7, 7),
    AGREE(Cqe, l4_type, mlx5_cqe64, l4_hdr_type_etc, 6, 4),
    AGREE(Cqe, l3_type, mlx5_cqe64, l4_hdr_type_etc, 3, 2),
    AGREE(Cqe, ip_options, mlx5_cqe64, l4_hdr_type_etc, 1, 1),
    AGREE(Cqe, vlan_stripped, mlx5_cqe64, l4_hdr_type_etc, 0, 0),
    AGREE(Cqe, vlan_tci, mlx5_cqe64, vlan_info, 15, 0),
    AGREE(Cqe, lro_segments, mlx5_cqe64, srqn_uidx, 31, 24),
    AGREE(Cqe, user_index, mlx5_cqe64, srqn_uidx, 23, 0),
    AGREE(Cqe, metadata, mlx5_cqe64, imm_inval_pkey, 31, 0),
    AGREE(Cqe, byte_count, mlx5_cqe64, byte_cnt, 31, 0),
    AGREE(Cqe, filler, mlx5_cqe64, byte_cnt, 31, 31),
    AGREE(Cqe, strides, mlx5_cqe64, byte_cnt, 30, 16),
    AGREE(Cqe, stride_bytes, mlx5_cqe64, byte_cnt, 15, 0),
    AGREE(Cqe, timestamp, mlx5_cqe64, timestamp, 63, 0),
    AGREE(Cqe, send_opcode, mlx5_cqe64, sop_drop_qpn, 31, 24),
    AGREE(Cqe, qpn, mlx5_cqe64, sop_drop_qpn, 23, 0),
    AGREE(Cqe, flow_tag, mlx5_cqe64, sop_drop_qpn, 23, 0),
    AGREE(Cqe, wqe_counter, mlx5_cqe64, wqe_counter, 15, 0),
    AGREE(Cqe, signature, mlx5_cqe64, signature, 7, 0),
    AGREE(Cqe, opcode, mlx5_cqe64, op_own, 7, 4),
    AGREE(Cqe, format, mlx5_cqe64, op_own, 3, 2),
    AGREE(Cqe, solicited, mlx5_cqe64, op_own, 1, 1),
    AGREE(Cqe, owner, mlx5_cqe64, op_own, 0, 0),
};

const std::vector<Agreement> error_fields{
    // What an error CQE keeps of the ordinary one is reserved in mlx5_err_cqe.
    AGREE_IN(ErrorCqe, wqe_id, mlx5_err_cqe, rsvd0, 2, 2, 15, 0),
    AGREE(ErrorCqe, user_index, mlx5_err_cqe, srqn, 23, 0),
    AGREE_IN(ErrorCqe, byte_count, mlx5_err_cqe, rsvd1, 8, 4, 31, 0),
    AGREE_IN(ErrorCqe, hardware_syndrome, mlx5_err_cqe, rsvd1, 16, 1, 7, 0),
    AGREE_IN(ErrorCqe, hardware_syndrome_type, mlx5_err_cqe, rsvd1, 17, 1, 7, 0),
    AGREE(ErrorCqe, vendor_syndrome, mlx5_err_cqe, vendor_err_synd, 7, 0),
    AGREE(ErrorCqe, syndrome, mlx5_err_cqe, syndrome, 7, 0),
    AGREE(ErrorCqe, send_opcode, mlx5_err_cqe, s_wqe_opcode_qpn, 31, 24),
    AGREE(ErrorCqe, qpn, mlx5_err_cqe, s_wqe_opcode_qpn, 23, 0),
    AGREE(ErrorCqe, wqe_counter, mlx5_err_cqe, wqe_counter, 15, 0),
};

const std::vector<Agreement> doorbell_fields{
    AGREE(CqDoorbell, consumer_index, CqDoorbellRecord, consumer, 23, 0),
    AGREE(CqDoorbell, arm_sequence, CqDoorbellRecord, arm, 29, 28),
    AGREE(CqDoorbell, arm_solicited_only, CqDoorbellRecord, arm, 24, 24),
    AGREE(CqDoorbell, arm_consumer_index, CqDoorbellRecord, arm, 23, 0),
};

/// Compressed completions: mlx5dv.h has no structure for them, so the driver declares its own.
const std::vector<Agreement> mini_fields{
    AGREE(MiniCqe, checksum, mlx5::StrideMiniCqe, checksum, 15, 0),
    AGREE(MiniCqe, stride_index, mlx5::StrideMiniCqe, stride_index, 15, 0),
    AGREE(MiniCqe, rx_hash_result, mlx5::HashMiniCqe, rx_hash_result, 31, 0),
    AGREE(MiniCqe, byte_count, mlx5::StrideMiniCqe, byte_cnt, 31, 0),
};

} // namespace

std::vector<Agreement> cqe_agreements() {
    std::vector<Agreement> all{receive_fields};
    all.insert(all.end(), error_fields.begin(), error_fields.end());
    all.insert(all.end(), doorbell_fields.begin(), doorbell_fields.end());
    all.insert(all.end(), mini_fields.begin(), mini_fields.end());
    return all;
}

} // namespace stride::test
