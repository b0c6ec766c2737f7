// SPDX-License-Identifier: BSD-3-Clause
/// Hand-made devices, rings and memory keys for tests of the engine: what libibverbs and the control plane
/// would have made, in arrays.
#pragma once

#include "bytes.hpp"

#include "base/barrier.hpp"
#include "swhca/engine/engine.hpp"
#include "swhca/engine/queues.hpp"
#include "swhca/hca/device.hpp"
#include "swhca/hca/rules.hpp"
#include "swhca/prm/cqe.hpp"
#include "swhca/prm/wqe.hpp"
#include "swhca/wire/make_wire.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace swhca::test {

/// Zeroed memory on a page boundary.
class Memory {
  public:
    explicit Memory(std::size_t bytes)
        : data_{static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096))}
        , bytes_{bytes} {
        std::memset(data_.get(), 0, bytes_);
    }
    std::byte* data() const noexcept { return data_.get(); }
    std::size_t bytes() const noexcept { return bytes_; }
    std::uint64_t address() const noexcept { return reinterpret_cast<std::uint64_t>(data_.get()); }
    Bytes copy(std::size_t offset, std::size_t length) const {
        Bytes bytes(length);
        std::memcpy(bytes.data(), data_.get() + offset, length);
        return bytes;
    }
    void put(std::size_t offset, const Bytes& bytes) const {
        std::memcpy(data_.get() + offset, bytes.data(), bytes.size());
    }

  private:
    struct Free {
        void operator()(std::byte* memory) const noexcept { std::free(memory); }
    };
    std::unique_ptr<std::byte, Free> data_;
    std::size_t bytes_;
};

/// A CQE as the program found it.
struct CqeCopy {
    std::array<std::byte, 64> bytes{};
    template <class F>
    std::uint32_t get() const {
        return F::get(bytes.data());
    }
    prm::CqeOpcode opcode() const { return static_cast<prm::CqeOpcode>(get<prm::Cqe::opcode>()); }
    prm::Syndrome syndrome() const { return static_cast<prm::Syndrome>(get<prm::ErrorCqe::syndrome>()); }
};

/// A device with one port and one context, and an engine that is stepped by hand.
struct TestDevice {
    explicit TestDevice(std::string name) {
        device.name = device.port.device_name = std::move(name);
        context.device = &device;
    }
    Lkey add_region(const Memory& memory, bool writable = true) {
        Mr mr{};
        mr.pd = pd;
        mr.start = mr.iova = memory.address();
        mr.length_bytes = memory.bytes();
        mr.local_write = writable;
        return device.mrs.add(mr);
    }

    Device device{};
    Context context{};
    Pdn pd{7};
};

/// A doorbell record: a cache line of its own, where programs have many in a page.
struct alignas(64) Record {
    std::array<be32, 2> words{};
};

/// A CQ and the program that polls it.
class TestCq {
  public:
    TestCq(TestDevice& on, unsigned log_cqes, std::uint32_t cqe_bytes = 64)
        : ring_{(std::size_t{1} << log_cqes) * cqe_bytes} {
        std::memset(ring_.data(), 0xf1, ring_.bytes()); // opcode invalid, owned by the HCA
        cq.cqn = Cqn{0x400};
        cq.context = &on.context;
        cq.ring = ring_.data();
        cq.size = RingSize::from_log(log_cqes);
        cq.cqe_bytes = cqe_bytes;
        cq.dbrec = record_.words.data();
        open_cq(cq, on.device.port);
    }
    /// The next CQE, if there is one; the program tells the HCA that it has read it.
    std::optional<CqeCopy> poll() {
        const std::byte* slot = cq.ring + std::size_t{cq.size.slot(ci_)} * cq.cqe_bytes + cq.cqe_bytes - 64;
        const auto op_own = static_cast<unsigned>(stride::load_from_device(slot + 63));
        if ((op_own & 1U) != (cq.size.round_parity(ci_) ? 1U : 0U) || op_own >> 4 == 15) return {};
        CqeCopy copy;
        std::memcpy(copy.bytes.data(), slot, copy.bytes.size());
        ++ci_;
        if (acknowledge) stride::store_to_device(&cq.dbrec[0], be32{ci_ & index_mask});
        return copy;
    }

    Cq cq{};
    bool acknowledge{true};
    std::uint32_t index_mask{0xffffff}; ///< bits of the consumer index this program writes

  private:
    Memory ring_;
    Record record_{};
    std::uint32_t ci_{};
};

/// A striding RQ with one buffer per WQE.
class TestStridingRq {
  public:
    struct Shape {
        unsigned log_wqes{1}, log_strides{3}, log_stride_bytes{6};
        bool two_byte_shift{};
    };
    TestStridingRq(TestDevice& on, TestCq& cq, Shape shape)
        : buffers{std::size_t{1} << (shape.log_wqes + shape.log_strides + shape.log_stride_bytes)}
        , ring_{(std::size_t{1} << shape.log_wqes) * 32} {
        rq.wqn = Wqn{0x10};
        rq.context = &on.context;
        rq.pd = on.pd;
        rq.cq = &cq.cq;
        rq.ring = ring_.data();
        rq.size = RingSize::from_log(shape.log_wqes);
        rq.log_wqe_bytes = 5;
        rq.dbrec = record_.words.data();
        rq.user_index = 0x1234;
        rq.striding = true;
        rq.two_byte_shift = shape.two_byte_shift;
        rq.log_strides = static_cast<std::uint8_t>(shape.log_strides);
        rq.log_stride_bytes = static_cast<std::uint8_t>(shape.log_stride_bytes);
        lkey = on.add_region(buffers);
        for (std::uint32_t i = 0; i < rq.size.entries(); ++i)
            write_wqe(i);
        set_rq_state(rq, QueueState::ready, on.device.port);
    }
    std::uint32_t wqe_bytes() const { return 1U << (rq.log_strides + rq.log_stride_bytes); }
    std::byte* wqe(std::uint32_t index) const { return rq.ring + rq.size.slot(index) * 32; }
    void write_wqe(std::uint32_t index) {
        std::byte* segment = wqe(index) + prm::NextSegment::bytes;
        prm::DataSegment::byte_count::set(segment, wqe_bytes());
        prm::DataSegment::lkey::set(segment, lkey.value);
        prm::DataSegment::address::set(segment, buffers.address() + rq.size.slot(index) * wqe_bytes());
    }
    void post(std::uint32_t pi) { stride::store_to_device(rq.dbrec, be32{pi & 0xffff}); }
    /// What lies in stride `stride` of WQE `wqe_index`.
    Bytes at(std::uint32_t wqe_index, std::uint32_t stride, std::size_t length) const {
        return buffers.copy(rq.size.slot(wqe_index) * wqe_bytes() + (stride << rq.log_stride_bytes), length);
    }

    Memory buffers;
    Rq rq{};
    Lkey lkey{};

  private:
    Memory ring_;
    Record record_{};
};

/// A raw packet QP's send queue and its doorbell register.
class TestSq {
  public:
    TestSq(TestDevice& on, TestCq& cq, unsigned log_wqebbs = 4)
        : ring_{(std::size_t{1} << log_wqebbs) * 64} {
        qp.qpn = Qpn{0x40};
        qp.context = &on.context;
        qp.pd = on.pd;
        qp.port = &on.device.port;
        qp.sq.ring = ring_.data();
        qp.sq.size = RingSize::from_log(log_wqebbs);
        qp.sq.dbrec = record_.words.data();
        qp.sq.bfreg = uar_.data();
        qp.sq.cq = &cq.cq;
        qp.sq.user_index = 0x4321;
        set_qp_state(qp, QueueState::reset);
        set_qp_state(qp, QueueState::ready);
    }
    /// DS `number` of the WQE at the producer index; wraps.
    std::byte* ds(unsigned number) const {
        const std::uint32_t at = qp.sq.size.slot(pi) * 64 + number * 16;
        return qp.sq.ring + (at & (qp.sq.size.entries() * 64 - 1));
    }
    void ctrl(prm::Opcode opcode, unsigned ds_count, bool completion = true) {
        for (unsigned i = 0; i < ds_count; ++i)
            std::memset(ds(i), 0, 16);
        prm::CtrlSegment::wqe_index::set(ds(0), pi);
        prm::CtrlSegment::opcode::set(ds(0), static_cast<std::uint32_t>(opcode));
        prm::CtrlSegment::qpn::set(ds(0), qp.qpn.value);
        prm::CtrlSegment::ds::set(ds(0), ds_count & 0x3f);
        prm::CtrlSegment::completion_event::set(ds(0), completion ? 2 : 0);
    }
    void pointer(unsigned number, Lkey lkey, std::uint64_t address, std::uint32_t bytes) {
        prm::DataSegment::byte_count::set(ds(number), bytes);
        prm::DataSegment::lkey::set(ds(number), lkey.value);
        prm::DataSegment::address::set(ds(number), address);
    }
    /// Copies bytes into the WQE from byte `offset` on, wrapping.
    void copy_in(unsigned offset, const Bytes& bytes) {
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            const unsigned at = offset + static_cast<unsigned>(i);
            ds(at / 16)[at % 16] = static_cast<std::byte>(bytes[i]);
        }
    }
    void advance(unsigned ds_count) { pi = static_cast<std::uint16_t>(pi + (ds_count + 3) / 4); }
    void record() { stride::store_to_device(qp.sq.dbrec, be32{pi}); }
    /// Rings for the WQE that starts at `index`.
    void ring(std::uint16_t index) {
        std::uint64_t value;
        std::memcpy(&value, qp.sq.ring + std::size_t{qp.sq.size.slot(index)} * 64, sizeof value);
        stride::ring_doorbell(qp.sq.bfreg, value);
    }
    /// A SEND of one stretch of memory, posted and rung for.
    void send(Lkey lkey, std::uint64_t address, std::uint32_t bytes, bool completion = true) {
        ctrl(prm::Opcode::send, 3, completion);
        pointer(2, lkey, address, bytes);
        post(3);
    }
    void post(unsigned ds_count) {
        const std::uint16_t index = pi;
        advance(ds_count);
        record();
        ring(index);
    }

    Qp qp{};
    std::uint16_t pi{};

  private:
    Memory ring_;
    Record record_{};
    alignas(64) std::array<std::byte, 512> uar_{};
};

/// Takes frames the port under test sends, and gives it frames.
class TestWire final : public Wire {
  public:
    void attach(FrameSink& to) override { sink = &to; }
    unsigned transmit(std::span<const Frame> frames) override {
        unsigned taken = 0;
        for (const Frame& frame : frames) {
            if (room == 0) break;
            --room;
            ++taken;
            Bytes bytes = bytes_of(frame);
            EXPECT_EQ(bytes.size(), frame.length_bytes);
            EXPECT_GE(frame.segments.front().length_bytes, std::min(frame.length_bytes, header_bytes));
            sent.push_back(std::move(bytes));
        }
        return taken;
    }
    unsigned poll(unsigned) override { return 0; }
    /// One frame to the port; true if it is gone.
    bool give(const Bytes& bytes, WhenFull when_full = WhenFull::drop) {
        Segment segment{};
        const Frame frame = frame_over(bytes, segment);
        return sink->deliver({&frame, 1}, when_full) == 1;
    }

    FrameSink* sink{};
    std::vector<Bytes> sent{};
    unsigned room{~0U}; ///< frames taken before it is busy
};

/// One device on a TestWire, with an engine stepped by hand.
struct Bench : TestDevice {
    Bench()
        : TestDevice{"mlx5_0"} {
        reset_broken(true);
        auto made = std::make_unique<TestWire>();
        wire = made.get();
        device.port.wire = std::move(made);
        engine.add_port(device.port);
    }
    /// A rule that takes everything and leads to `rq`.
    void steer_all_to(Rq& rq) {
        // The QP borrows the queue, as an RSS QP does.
        rqt.wqs = {&rq};
        qp.type = QpType::rss;
        qp.rqt = &rqt;
        flow.kind = FlowKind::all_default;
        flow.qp = &qp;
        device.port.flows = {&flow};
        ++device.port.flow_changes;
    }

    TestWire* wire{};
    Engine engine{EngineOptions{-1, false, true}};
    Rqt rqt{};
    Qp qp{};
    Flow flow{};
};

/// `length` bytes that differ from frame to frame, with an EtherType nobody parses.
inline Bytes plain_frame(std::size_t length, unsigned seed = 0) {
    Bytes bytes(length);
    for (std::size_t i = 0; i < length; ++i)
        bytes[i] = static_cast<std::uint8_t>(i * 7 + seed * 13 + 1);
    if (length >= 14) bytes[12] = 0x88, bytes[13] = 0xb5;
    return bytes;
}

} // namespace swhca::test
