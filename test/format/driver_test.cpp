// SPDX-License-Identifier: BSD-3-Clause
/// What the driver's and mlx5dv.h's own functions write is what the model reads, and the other way round.
#include "mlx5/cq_cursor.hpp"
#include "mlx5/doorbell.hpp"
#include "mlx5/receive_cqe.hpp"
#include "mlx5/receive_wqe.hpp"
#include "mlx5/send_cqe.hpp"
#include "mlx5/wqe.hpp"
#include "swhca/prm/cqe.hpp"
#include "swhca/prm/wqe.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace stride::test {
namespace {

namespace prm = swhca::prm;
using Buffer = std::array<std::byte, 64>;

TEST(DriverWrites, ControlSegmentOfEveryIndexAndDsCount) {
    for (std::uint32_t index = 0; index <= 0xffff; index += 0x11) {
        const std::uint32_t ds = index % 64;
        const auto seg =
            mlx5::control_segment(mlx5::SendOpcode::enhanced_mpw, static_cast<std::uint16_t>(index),
                                  Qpn{0xabcdef}, ds, mlx5::CqeMode::always);
        ASSERT_EQ(prm::CtrlSegment::wqe_index::get(&seg), index);
        ASSERT_EQ(prm::CtrlSegment::ds::get(&seg), ds);
        ASSERT_EQ(prm::CtrlSegment::qpn::get(&seg), 0xabcdefU);
        ASSERT_EQ(prm::CtrlSegment::opcode::get(&seg), static_cast<unsigned>(prm::Opcode::enhanced_mpsw));
        ASSERT_EQ(prm::CtrlSegment::completion_event::get(&seg), 2U);
        ASSERT_EQ(prm::CtrlSegment::reserved_ds::get(&seg), 0U);
        ASSERT_EQ(prm::CtrlSegment::opc_mod::get(&seg), 0U);
        ASSERT_EQ(prm::CtrlSegment::immediate::get(&seg), 0U);
    }
}

TEST(DriverWrites, CompletionRequestInPlace) {
    Buffer wqe{};
    mlx5::write_control_segment(
        wqe.data(), mlx5::control_segment(mlx5::SendOpcode::send, 7, Qpn{1}, 4, mlx5::CqeMode::first_error));
    EXPECT_EQ(prm::CtrlSegment::completion_event::get(wqe.data()), 1U);
    mlx5::request_completion(wqe.data());
    EXPECT_EQ(prm::CtrlSegment::completion_event::get(wqe.data()), 2U);
    EXPECT_EQ(prm::CtrlSegment::wqe_index::get(wqe.data()), 7U);
    EXPECT_EQ(prm::CtrlSegment::fence_mode::get(wqe.data()), 0U);
}

TEST(DriverWrites, EthernetSegmentOfEveryHeaderLength) {
    for (std::uint16_t bytes = 0; bytes < 1024; ++bytes) {
        Buffer ds{};
        mlx5::write_eth_segment(ds.data(), {.cs_flags = MLX5_ETH_WQE_L3_CSUM,
                                            .mss = static_cast<std::uint16_t>(bytes * 16),
                                            .header_bytes = bytes});
        ASSERT_EQ(prm::EthSegment::inline_header_bytes::get(ds.data()), bytes);
        ASSERT_EQ(prm::EthSegment::mss::get(ds.data()), bytes * 16U);
        ASSERT_EQ(prm::EthSegment::l3_checksum::get(ds.data()), 1U);
        ASSERT_EQ(prm::EthSegment::l4_checksum::get(ds.data()), 0U);
        ASSERT_EQ(prm::EthSegment::insert_vlan::get(ds.data()), 0U);
    }
}

TEST(DriverWrites, DataSegmentsOfBothSides) {
    Buffer sent{}, received{};
    mlx5::write_data_segment(sent.data(), 0x1122334455667788U, 0x7fffffffU, be32{0xcafebabeU});
    mlx5_wqe_data_seg seg{};
    mlx5::write_data_segment(seg, 0x7fffffffU, be32{0xcafebabeU}, 0x1122334455667788U);
    std::memcpy(received.data(), &seg, sizeof seg);
    EXPECT_EQ(sent, received);
    EXPECT_EQ(prm::DataSegment::byte_count::get(sent.data()), 0x7fffffffU);
    EXPECT_EQ(prm::DataSegment::inlined::get(sent.data()), 0U);
    EXPECT_EQ(prm::DataSegment::lkey::get(sent.data()), 0xcafebabeU);
    EXPECT_EQ(prm::DataSegment::address::get(sent.data()), 0x1122334455667788U);
}

TEST(DriverWrites, InlineFrameOfEveryLength) {
    for (std::uint32_t bytes = 1; bytes < 1024; ++bytes) {
        Buffer ds{};
        mlx5::write_inline_count(ds.data(), bytes);
        ASSERT_EQ(prm::InlineSegment::inlined::get(ds.data()), 1U);
        ASSERT_EQ(prm::InlineSegment::byte_count::get(ds.data()), bytes);
        ASSERT_EQ(prm::InlineSegment::reserved::get(ds.data()), 0U);
    }
}

TEST(DriverWrites, StridingWqeHasItsDataSegmentBehindTheNextSegment) {
    Buffer ring;
    ring.fill(std::byte{0xff});
    mlx5::RqRing rq{.wqes = ring.data(), .size = RingSize::from_log(0), .log_wqe_bytes = 6};
    mlx5::prepare_striding_wqe(rq, 0, 1U << 21, Lkey{0x12345600});
    mlx5::set_striding_address(*mlx5::striding_wqe(rq, 0), ring.data());
    const std::byte* data = ring.data() + prm::NextSegment::bytes;
    EXPECT_EQ(prm::NextSegment::next_wqe_index::get(ring.data()), 0U);
    EXPECT_EQ(prm::DataSegment::byte_count::get(data), 1U << 21);
    EXPECT_EQ(prm::DataSegment::lkey::get(data), 0x12345600U);
    EXPECT_EQ(prm::DataSegment::address::get(data), reinterpret_cast<std::uintptr_t>(ring.data()));
    EXPECT_EQ(prm::DataSegment::lkey::get(data + prm::DataSegment::bytes), prm::terminator_lkey);
    EXPECT_EQ(prm::DataSegment::byte_count::get(data + prm::DataSegment::bytes), 0U);
}

TEST(DriverWrites, DoorbellRecordsOfAllQueues) {
    Buffer wqe{};
    const auto seg = mlx5::control_segment(mlx5::SendOpcode::send, 0x1234, Qpn{5}, 3, mlx5::CqeMode::always);
    mlx5::write_control_segment(wqe.data(), seg);
    alignas(8) std::array<std::byte, 8> reg{};
    for (const std::uint32_t index : {0x0U, 0x1U, 0x8000U, 0xffffU, 0x12345U, 0xffffffU, 0x1000000U}) {
        be32 send{0}, receive{0}, cq{0};
        mlx5::ring_send_doorbell(&send, reg.data(), static_cast<std::uint16_t>(index), wqe.data());
        mlx5::ring_receive_doorbell(&receive, index);
        mlx5::CqCursor cursor{{.cqes = wqe.data(), .size = RingSize::from_log(0), .dbrec = &cq}};
        cursor.consume(index);
        cursor.publish();
        EXPECT_EQ(prm::WorkQueueDoorbell::counter::get(&send), index & 0xffff);
        EXPECT_EQ(send.host() >> 16, 0U);
        EXPECT_EQ(prm::WorkQueueDoorbell::counter::get(&receive), index & 0xffff);
        EXPECT_EQ(prm::CqDoorbell::consumer_index::get(&cq), index & 0xffffff);
        EXPECT_EQ(std::memcmp(reg.data(), wqe.data(), sizeof reg), 0)
            << "the register takes the WQE's first 8 bytes";
    }
}

TEST(Mlx5dvWrites, WhatTheModelReads) {
    std::uint8_t mac[6]{2, 3, 4, 5, 6, 7};
    std::uint8_t gid[16]{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8};
    mlx5_wqe_ctrl_seg ctrl{};
    mlx5dv_set_ctrl_seg(&ctrl, 0xbeef, MLX5_OPCODE_SEND, 3, 0x123456, MLX5_WQE_CTRL_CQ_UPDATE, 5, 9, 0);
    EXPECT_EQ(prm::CtrlSegment::wqe_index::get(&ctrl), 0xbeefU);
    EXPECT_EQ(prm::CtrlSegment::opc_mod::get(&ctrl), 3U);
    EXPECT_EQ(prm::CtrlSegment::signature::get(&ctrl), 9U);
    EXPECT_EQ(prm::CtrlSegment::completion_event::get(&ctrl), 2U);
    mlx5_wqe_datagram_seg av{};
    mlx5dv_set_dgram_seg(&av, 0x80010000ULL << 32, 0xabcdef, 1, 0x35, 0x81, 0x4321, mac, 7, 64,
                         1U << 30 | 2U << 20 | 3, gid);
    EXPECT_EQ(prm::DatagramSegment::qkey::get(&av), 0x80010000U);
    EXPECT_EQ(prm::DatagramSegment::destination_qpn::get(&av), 0xabcdefU);
    EXPECT_EQ(prm::DatagramSegment::extended::get(&av), 1U);
    EXPECT_EQ(prm::DatagramSegment::static_rate::get(&av), 3U);
    EXPECT_EQ(prm::DatagramSegment::service_level::get(&av), 5U);
    EXPECT_EQ(prm::DatagramSegment::remote_lid::get(&av), 0x4321U);
    EXPECT_EQ(prm::DatagramSegment::remote_mac_high::get(&av), 0x02030405U);
    EXPECT_EQ(prm::DatagramSegment::remote_mac_low::get(&av), 0x0607U);
    EXPECT_EQ(prm::DatagramSegment::grh::get(&av), 1U);
    EXPECT_EQ(prm::DatagramSegment::source_gid_index::get(&av), 2U);
    EXPECT_EQ(prm::DatagramSegment::flow_label::get(&av), 3U);
    EXPECT_EQ(prm::DatagramSegment::remote_gid_low::get(&av), 0x0102030405060708U);
}

TEST(ModelWrites, SendCqeThatTheDriverReads) {
    Buffer cqe{};
    mlx5::CqRing ring{.cqes = cqe.data(), .size = RingSize::from_log(0)};
    const mlx5::CqCursor cq{ring};
    for (unsigned opcode = 0; opcode < 16; ++opcode) {
        for (unsigned format = 0; format < 4; ++format) {
            for (std::uint32_t ci = 0; ci < 2; ++ci) {
                prm::Cqe::opcode::set(cqe.data(), opcode);
                prm::Cqe::format::set(cqe.data(), format);
                prm::Cqe::wqe_counter::set(cqe.data(), 0xfedc);
                prm::Cqe::owner::set(cqe.data(), ci ^ 1);
                ASSERT_EQ(mlx5::send_cqe_kind(cq, ci), mlx5::SendCqeKind::hardware);
                prm::Cqe::owner::set(cqe.data(), ci);
                const auto kind = opcode == 15                 ? mlx5::SendCqeKind::hardware
                                  : opcode == 0 && format == 0 ? mlx5::SendCqeKind::done
                                  : opcode == 13               ? mlx5::SendCqeKind::error
                                                               : mlx5::SendCqeKind::unexpected;
                ASSERT_EQ(mlx5::send_cqe_kind(cq, ci), kind) << opcode << " " << format;
                ASSERT_EQ(mlx5::send_wqe_counter(cq, ci), 0xfedc);
            }
        }
    }
    prm::ErrorCqe::syndrome::set(cqe.data(), static_cast<unsigned>(prm::Syndrome::local_protection));
    EXPECT_EQ(reinterpret_cast<const mlx5_err_cqe*>(cq.at(0))->syndrome, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR);
}

TEST(ModelWrites, ReceiveCqeThatTheDriverReads) {
    mlx5_cqe64 cqe{};
    for (std::uint32_t strides = 0; strides < 0x8000; strides += 7) {
        prm::Cqe::strides::set(&cqe, strides);
        prm::Cqe::stride_bytes::set(&cqe, strides * 2);
        prm::Cqe::filler::set(&cqe, strides & 1);
        const auto count = mlx5::striding_byte_count(cqe);
        ASSERT_EQ(count.strides(), strides);
        ASSERT_EQ(count.bytes(), strides * 2);
        ASSERT_EQ(count.filler(), (strides & 1) != 0);
        ASSERT_EQ(mlx5::byte_count(cqe), prm::Cqe::byte_count::get(&cqe));
    }
    prm::Cqe::rx_hash_result::set(&cqe, 0xdeadbeef);
    prm::Cqe::rx_hash_ip_source::set(&cqe, 1);
    prm::Cqe::rx_hash_l4_destination::set(&cqe, 2);
    prm::Cqe::vlan_stripped::set(&cqe, 1);
    prm::Cqe::vlan_tci::set(&cqe, 0x6123);
    prm::Cqe::l3_ok::set(&cqe, 1);
    prm::Cqe::wqe_id::set(&cqe, 0x1234);
    prm::Cqe::wqe_counter::set(&cqe, 0x4321);
    EXPECT_EQ(mlx5::rx_hash_result(cqe), 0xdeadbeefU);
    EXPECT_EQ(mlx5::rx_hash_type(cqe), 0x81);
    EXPECT_TRUE(mlx5::vlan_stripped(cqe));
    EXPECT_EQ(mlx5::vlan_tci(cqe), 0x6123);
    EXPECT_EQ(mlx5::checksum_bits(cqe), MLX5_CQE_L3_OK);
    EXPECT_EQ(mlx5::wqe_id(cqe), 0x1234);
    EXPECT_EQ(mlx5::wqe_counter(cqe), 0x4321);
}

TEST(ModelWrites, PacketTypeThatTheDriverIndexesBy) {
    for (unsigned index = 0; index < 256; ++index) {
        mlx5_cqe64 cqe{};
        prm::Cqe::l3_type::set(&cqe, index & 3);
        prm::Cqe::l4_type::set(&cqe, index >> 2 & 7);
        prm::Cqe::ip_fragment::set(&cqe, index >> 5 & 1);
        prm::Cqe::tunneled::set(&cqe, index >> 6 & 1);
        prm::Cqe::outer_l3_ipv6::set(&cqe, index >> 7 & 1);
        prm::Cqe::ip_options::set(&cqe, 1);
        prm::Cqe::vlan_stripped::set(&cqe, 1);
        ASSERT_EQ(mlx5::packet_type_index(cqe), index);
    }
}

TEST(ModelWrites, OwnerOpcodeAndErrorThatTheReceiveSideReads) {
    Buffer cqe{};
    mlx5::CqRing ring{.cqes = cqe.data(), .size = RingSize::from_log(0)};
    const mlx5::CqCursor cursor{ring};
    for (unsigned opcode = 0; opcode < 16; ++opcode) {
        prm::Cqe::opcode::set(cqe.data(), opcode);
        prm::Cqe::owner::set(cqe.data(), 1);
        ASSERT_EQ(cursor.poll(), nullptr);
        prm::Cqe::owner::set(cqe.data(), 0);
        ASSERT_EQ(cursor.poll() == nullptr, opcode == 15);
        const std::uint8_t op_own = cursor.at(0)->op_own;
        ASSERT_EQ(mlx5::opcode_of(op_own), opcode);
        ASSERT_EQ(mlx5::is_error(op_own), opcode == 13 || opcode == 14);
        ASSERT_EQ(mlx5::is_plain_receive(op_own), opcode == 2);
        ASSERT_EQ(mlx5dv_get_cqe_opcode(reinterpret_cast<mlx5_cqe64*>(cqe.data())), opcode);
    }
    prm::ErrorCqe::syndrome::set(cqe.data(), static_cast<unsigned>(prm::Syndrome::flushed));
    EXPECT_EQ(mlx5::syndrome(*cursor.at(0)), MLX5_CQE_SYNDROME_WR_FLUSH_ERR);
}

template <class E>
constexpr unsigned number(E value) {
    return static_cast<unsigned>(value);
}

TEST(Numbers, AreTheSameOnBothSides) {
    EXPECT_EQ(prm::wqebb_bytes, mlx5::wqebb_bytes);
    EXPECT_EQ(prm::ds_bytes, mlx5::ds_bytes);
    EXPECT_EQ(prm::max_ds, mlx5::max_wqe_ds);
    EXPECT_EQ(prm::EthSegment::inline_start, mlx5::eth_header_offset);
    EXPECT_EQ(prm::terminator_lkey, number(MLX5_INVALID_LKEY));
    EXPECT_EQ(prm::terminator_lkey, mlx5::list_end_lkey);
    EXPECT_EQ(prm::WorkQueueDoorbell::receive_dword, number(MLX5_RCV_DBR));
    EXPECT_EQ(prm::WorkQueueDoorbell::send_dword, number(MLX5_SND_DBR));
    EXPECT_EQ(number(prm::Opcode::nop), number(mlx5::SendOpcode::nop));
    EXPECT_EQ(number(prm::Opcode::send), number(mlx5::SendOpcode::send));
    EXPECT_EQ(number(prm::Opcode::tso), number(mlx5::SendOpcode::tso));
    EXPECT_EQ(number(prm::Opcode::enhanced_mpsw), number(mlx5::SendOpcode::enhanced_mpw));
    EXPECT_EQ(number(prm::CqeOpcode::requester), number(MLX5_CQE_REQ));
    EXPECT_EQ(number(prm::CqeOpcode::responder_send), number(MLX5_CQE_RESP_SEND));
    EXPECT_EQ(number(prm::CqeOpcode::requester_error), number(MLX5_CQE_REQ_ERR));
    EXPECT_EQ(number(prm::CqeOpcode::responder_error), number(MLX5_CQE_RESP_ERR));
    EXPECT_EQ(number(prm::CqeOpcode::invalid), number(MLX5_CQE_INVALID));
    EXPECT_EQ(number(prm::L3Type::none), number(MLX5_CQE_L3_HDR_TYPE_NONE));
    EXPECT_EQ(number(prm::L3Type::ipv6), number(MLX5_CQE_L3_HDR_TYPE_IPV6));
    EXPECT_EQ(number(prm::L3Type::ipv4), number(MLX5_CQE_L3_HDR_TYPE_IPV4));
    EXPECT_EQ(number(prm::Syndrome::local_length), number(MLX5_CQE_SYNDROME_LOCAL_LENGTH_ERR));
    EXPECT_EQ(number(prm::Syndrome::local_qp_operation), number(MLX5_CQE_SYNDROME_LOCAL_QP_OP_ERR));
    EXPECT_EQ(number(prm::Syndrome::local_protection), number(MLX5_CQE_SYNDROME_LOCAL_PROT_ERR));
    EXPECT_EQ(number(prm::Syndrome::flushed), number(MLX5_CQE_SYNDROME_WR_FLUSH_ERR));
}

} // namespace
} // namespace stride::test
