// SPDX-License-Identifier: BSD-3-Clause
/// UD QPs and ports that take datagrams, for tests of the engine.
#pragma once

#include "frames.hpp"
#include "rig.hpp"
#include "swhca/wire/infiniband.hpp"

namespace swhca::test {

/// A regular RQ of 16 WQEs with one buffer of 512 bytes each.
class TestPlainRq {
  public:
    static constexpr std::uint32_t buffer_bytes = 512, wqes = 16;
    TestPlainRq(TestDevice& on, TestCq& cq, Rq& rq)
        : ring_{wqes * 16}
        , record_{64}
        , buffers_{wqes * buffer_bytes} {
        rq.wqn = Wqn{0x10};
        rq.context = &on.context;
        rq.pd = on.pd;
        rq.cq = &cq.cq;
        rq.ring = ring_.data();
        rq.size = RingSize::from_log(4);
        rq.log_wqe_bytes = 4;
        rq.dbrec = reinterpret_cast<be32*>(record_.data());
        rq.user_index = 0x99;
        const Lkey lkey = on.add_region(buffers_);
        for (std::uint32_t i = 0; i < wqes; ++i) {
            std::byte* segment = ring_.data() + i * 16;
            prm::DataSegment::byte_count::set(segment, buffer_bytes);
            prm::DataSegment::lkey::set(segment, lkey.value);
            prm::DataSegment::address::set(segment, buffers_.address() + i * buffer_bytes);
        }
        stride::store_to_device(rq.dbrec, be32{wqes});
    }
    Bytes at(std::uint32_t wqe, std::size_t offset, std::size_t length) const {
        return buffers_.copy(wqe * buffer_bytes + offset, length);
    }

  private:
    Memory ring_, record_, buffers_;
};

/// A UD QP in RTS with both halves.
class TestUdQp {
  public:
    TestUdQp(TestDevice& on, std::uint32_t qpn, std::uint32_t qkey, std::uint32_t source_qpn = 0)
        : send_cq{on, 6}
        , receive_cq{on, 6}
        , sq{on, send_cq}
        , data_{4096} {
        Qp& qp = sq.qp;
        set_qp_state(qp, QueueState::reset);
        qp.type = QpType::ud;
        qp.qpn = Qpn{qpn};
        qp.qkey = qkey;
        qp.source_qpn = source_qpn;
        qp.recv_cq = &receive_cq.cq;
        if (source_qpn == 0) {
            qp.rq = std::make_unique<Rq>();
            rq.emplace(on, receive_cq, *qp.rq);
        }
        set_qp_state(qp, QueueState::ready);
        lkey_ = on.add_region(data_);
    }
    ~TestUdQp() { close_qp(sq.qp); }
    TestUdQp(const TestUdQp&) = delete;
    TestUdQp& operator=(const TestUdQp&) = delete;

    struct To {
        std::uint32_t qpn{}, qkey{};
        std::uint16_t lid{};
        bool global{};
        Gid gid{};
        std::array<std::uint8_t, 6> mac{};
        std::uint32_t gid_index{};
    };
    void address(const To& to) {
        using Av = prm::DatagramSegment;
        std::array<std::byte, Av::bytes> av{};
        Av::qkey::set(av.data(), to.qkey);
        Av::extended::set(av.data(), 1);
        Av::destination_qpn::set(av.data(), to.qpn);
        Av::service_level::set(av.data(), 3);
        Av::remote_lid::set(av.data(), to.lid);
        Av::grh::set(av.data(), to.global ? 1 : 0);
        Av::source_gid_index::set(av.data(), to.gid_index);
        std::memcpy(av.data() + 0x14, to.mac.data(), to.mac.size());
        std::memcpy(av.data() + 0x20, to.gid.data(), to.gid.size());
        for (unsigned i = 0; i < 3; ++i)
            std::memcpy(sq.ds(1 + i), av.data() + i * 16, 16);
    }
    void send(const To& to, const Bytes& payload, prm::Opcode opcode = prm::Opcode::send) {
        sq.ctrl(opcode, 5);
        prm::CtrlSegment::immediate::set(sq.ds(0), 0xcafe0001);
        address(to);
        data_.put(0, payload);
        sq.pointer(4, lkey_, data_.address(), static_cast<std::uint32_t>(payload.size()));
        sq.post(5);
    }
    /// IPoIB: the first 4 bytes inlined, checksums inserted if asked.
    void send_underlay(const To& to, const Bytes& payload, bool checksums = false,
                       std::uint32_t inline_bytes = 4) {
        const unsigned inline_ds = inline_bytes > 2 ? (inline_bytes - 2 + 15) / 16 : 0;
        const unsigned data = 6 + inline_ds;
        sq.ctrl(prm::Opcode::send, data + 1);
        address(to);
        prm::EthSegment::inline_header_bytes::set(sq.ds(5), inline_bytes);
        prm::EthSegment::l3_checksum::set(sq.ds(5), checksums ? 1 : 0);
        prm::EthSegment::l4_checksum::set(sq.ds(5), checksums ? 1 : 0);
        sq.copy_in(5 * 16 + prm::EthSegment::inline_start,
                   Bytes(payload.begin(), payload.begin() + inline_bytes));
        data_.put(0, payload);
        sq.pointer(data, lkey_, data_.address() + inline_bytes,
                   static_cast<std::uint32_t>(payload.size() - inline_bytes));
        sq.post(data + 1);
    }

    TestCq send_cq, receive_cq;
    TestSq sq;
    std::optional<TestPlainRq> rq{};

  private:
    Memory data_;
    Lkey lkey_{};
};

/// An InfiniBand port with LID 5.
struct IbBench : Bench {
    static constexpr std::uint16_t lid = 5;
    IbBench() {
        Port& port = device.port;
        port.link_layer = LinkLayer::infiniband;
        port.lid = lid;
        port.mtu_bytes = 2048;
        port.pkeys = {0xffff, 0x8123};
        port.gids = {{Gid{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}, false}};
    }
    const PortCounters& counters() const { return device.port.counters; }
};

inline std::uint32_t header_at(const Bytes& frame, std::size_t offset, std::uint32_t (*get)(const void*)) {
    return get(frame.data() + offset);
}

} // namespace swhca::test
