// SPDX-License-Identifier: BSD-3-Clause
// A device that lies: CQEs of any content against the receive queue's burst, which must stay in its memory,
// hand over sound mbufs and lose none.
#include "input.hpp"

#include "fake_hca.hpp"
#include "mprq/stride_pool.hpp"

#include <rte_eal.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#include <bit>
#include <deque>
#include <memory>
#include <string>

namespace {

using namespace stride;
using namespace stride::mprq;
using fuzz::Input;
using stride::mprq::test::FakeHca;

constexpr std::uint32_t mbufs = 127;
constexpr std::uint32_t max_frame_bytes = 2000;

/// Pools of the application's, one for each way packets are handed over; made once.
rte_mempool* pool_of(bool stride_ops) {
    static rte_mempool* pools[2]{};
    rte_mempool*& pool = pools[stride_ops];
    if (pool == nullptr)
        pool = rte_pktmbuf_pool_create_by_ops(stride_ops ? "bound" : "plain", mbufs, 0, 0, 2048 + 128, -1,
                                              stride_ops ? "stride" : nullptr);
    fuzz::check(pool != nullptr, "a pool can be made");
    return pool;
}

/// What the first bytes of the input choose.
struct Setup {
    explicit Setup(Input& input) {
        const std::uint8_t form = input.byte();
        striding = (form & 3) != 0;
        config.pool = pool_of((form & 4) != 0);
        config.max_frame_bytes = max_frame_bytes;
        config.copy_threshold_bytes = (form & 8) != 0 ? 0 : 128;
        config.headroom_bytes = (form & 16) != 0 ? 128 : 0;
        config.scatter = (form & 32) != 0;
        config.always_copy = (form & 64) != 0;
        cqe_bytes = (form & 128) != 0 ? 128 : 64;
        const std::uint8_t offloads = input.byte();
        config.compressed = striding && (offloads & 128) != 0;
        config.offloads = RxOffloads::from_bits(offloads & (config.compressed ? 0x0bU : 0x0fU));
        shape.log_stride_bytes = 6 + input.byte() % 6U;
        shape.log_strides = 3 + input.byte() % 4U;
        shape.log_wqes = 1 + input.byte() % 3U;
        shape.spare_wqes = input.byte() % 4U;
        shape.max_frame_bytes = max_frame_bytes;
        shape.two_byte_shift = (offloads & 64) != 0;
    }
    bool striding{};
    std::uint32_t cqe_bytes{};
    RxQueueConfig config{};
    Geometry shape{};
};

/// The queue, the device that lies to it, and the application that holds packets for a while.
class Run {
  public:
    explicit Run(const Setup& setup)
        : setup_{setup}
        , hca_{setup.striding ? FakeHca::striding(setup.shape, setup.cqe_bytes)
                              : FakeHca{4, 4, 4, setup.cqe_bytes}} {
        setup_.config.owner = hca_.owner();
        auto made = setup.striding
                        ? RxQueue::create_striding(setup_.config, setup_.shape, hca_.cq_ring, hca_.rq_ring)
                        : RxQueue::create_single_packet(setup_.config, hca_.cq_ring, hca_.rq_ring);
        if (!made.ok()) return;
        queue_ = std::move(made).value();
        if (!queue_->start().ok()) queue_.reset();
    }
    ~Run() {
        free_held(held_.size());
        if (queue_ != nullptr && setup_.striding) {
            const RxStats stats = queue_->stats();
            fuzz::check(stats.attached + stats.copied() == stats.packets,
                        "every packet was attached or copied");
        }
        queue_.reset();
        fuzz::check(StridePool::alive() == 0, "no pool of WQE buffers is left");
        fuzz::check(rte_mempool_avail_count(setup_.config.pool) == mbufs, "every mbuf is back");
    }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    bool ready() const { return queue_ != nullptr; }

    void act(Input& input) {
        const std::uint8_t action = input.byte();
        if (action < 0x90)
            complete(input);
        else if (action < 0xa8)
            complete_block(input);
        else if (action < 0xe0)
            burst(1 + action % 64U);
        else if (action < 0xf0)
            free_held(action & 15U);
        else
            look(action);
    }
    void burst(unsigned count) {
        rte_mbuf* packets[64];
        const unsigned got = queue_->burst()(queue_.get(), packets, static_cast<std::uint16_t>(count));
        fuzz::check(got <= count, "no more packets than asked for");
        for (unsigned n = 0; n < got; ++n) {
            check_packet(packets[n]);
            held_.push_back(packets[n]);
        }
        if (held_.size() > mbufs / 2) free_held(held_.size());
    }

  private:
    std::byte* slot(std::uint32_t index) const {
        return hca_.cq_ring.cqes + std::size_t{hca_.cq_ring.size.slot(index)} * hca_.cq_ring.cqe_bytes +
               hca_.cq_ring.cqe_bytes - sizeof(mlx5_cqe64);
    }
    bool has_room(std::uint32_t wanted) const {
        const std::uint32_t ci = be32{hca_.cq_ring.dbrec[0]}.host() & 0xffffff;
        return ((pi_ + wanted - ci) & 0xffffff) <= hca_.cq_ring.size.entries();
    }
    /// A CQE that is mostly good: the next strides, a length they hold; then what the input changes.
    mlx5_cqe64 make(Input& input) {
        const std::uint8_t form = input.byte();
        const std::uint32_t bytes = 14 + input.word() % (form & 1 ? 4000U : 300U);
        const std::uint32_t strides =
            (bytes + (setup_.shape.two_byte_shift ? 2 : 0) + setup_.shape.stride_bytes() - 1) >>
            setup_.shape.log_stride_bytes;
        if (next_stride_ + strides > setup_.shape.strides_per_wqe()) next_stride_ = 0;
        mlx5_cqe64 cqe{};
        cqe.wqe_counter = be16{static_cast<std::uint16_t>(setup_.striding ? next_stride_ : pi_)}.wire();
        cqe.byte_cnt =
            be32{setup_.striding ? mlx5::StridingByteCount::make((form & 2) != 0, strides, bytes) : bytes}
                .wire();
        cqe.op_own = MLX5_CQE_RESP_SEND << 4;
        next_stride_ = (next_stride_ + strides) % setup_.shape.strides_per_wqe();
        auto* raw = reinterpret_cast<std::byte*>(&cqe);
        for (unsigned n = 0; n < (form >> 2 & 7U); ++n)
            raw[input.byte() % sizeof cqe] ^= std::byte{input.byte()};
        return cqe;
    }
    void write(std::uint32_t index, mlx5_cqe64 cqe) const {
        cqe.op_own =
            static_cast<std::uint8_t>((cqe.op_own & ~1) | (hca_.cq_ring.size.round_parity(index) ? 1 : 0));
        std::memcpy(slot(index), &cqe, sizeof cqe);
    }
    void complete(Input& input) {
        if (!has_room(1)) return;
        write(pi_, make(input));
        ++pi_;
    }
    /// A block of mini-CQEs: a title that says how many, and any content.
    void complete_block(Input& input) {
        const std::uint32_t minis = 1 + input.byte() % 20U;
        if (!has_room(minis)) return;
        mlx5_cqe64 title = make(input);
        title.byte_cnt = be32{minis}.wire();
        title.op_own = static_cast<std::uint8_t>(MLX5_CQE_RESP_SEND << 4 | 3 << 2);
        const std::uint8_t form = input.byte();
        if (form < 0x20) title.byte_cnt = be32{input.word()}.wire();
        for (std::uint32_t at = 1; at < minis; ++at) {
            const auto bytes = input.some(64);
            std::memcpy(slot(pi_ + at), bytes.data(), bytes.size());
            // A mini-CQE array has no owner bit: whatever its last byte says, it must not be read as a CQE.
        }
        write(pi_, title);
        pi_ += minis;
    }
    void look(std::uint8_t action) {
        fuzz::check(queue_->ready_packets() <= hca_.cq_ring.size.entries(),
                    "no more packets ready than the CQ holds");
        queue_->descriptor_status(static_cast<std::uint16_t>(action * 7U));
        queue_->stats();
        if ((action & 7) != 7) return;
        queue_->stop();
        hca_.reset();
        // As after MODIFY_WQ to RESET: the CQ goes on where it is.
        if (!queue_->start().ok()) std::abort();
        next_stride_ = 0;
    }
    void check_packet(rte_mbuf* packet) const {
        const char* why = "";
        if (rte_mbuf_check(packet, 1, &why) != 0) fuzz::check(false, why);
        fuzz::check(packet->pkt_len <= max_frame_bytes && packet->port == 3,
                    "a packet no longer than agreed");
        for (const rte_mbuf* segment = packet; segment != nullptr; segment = segment->next) {
            fuzz::check(std::uint32_t{segment->data_off} + segment->data_len <= segment->buf_len,
                        "the data is in its buffer");
            if (!RTE_MBUF_HAS_EXTBUF(segment)) continue;
            const auto begin = reinterpret_cast<std::uintptr_t>(segment->buf_addr);
            fuzz::check(begin >= hca_.registered.base &&
                            begin + segment->buf_len <= hca_.registered.base + hca_.registered.bytes,
                        "an attached buffer is one of the queue's");
        }
        // The application writes where it may.
        for (rte_mbuf* segment = packet; segment != nullptr; segment = segment->next)
            std::memset(rte_pktmbuf_mtod(segment, void*), 0xee, segment->data_len);
    }
    void free_held(std::size_t count) {
        for (; count != 0 && !held_.empty(); --count) {
            rte_pktmbuf_free(held_.front());
            held_.pop_front();
        }
    }

    Setup setup_;
    FakeHca hca_;
    RxQueuePtr queue_{};
    std::uint32_t pi_{}, next_stride_{};
    std::deque<rte_mbuf*> held_{};
};

} // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
    std::vector<std::string> words{"fuzz",           "--no-huge", "--no-pci", "--no-shconf",
                                   "--no-telemetry", "-m",        "256",      "--log-level=critical"};
    std::vector<char*> args;
    for (std::string& word : words)
        args.push_back(word.data());
    fuzz::check(rte_eal_init(static_cast<int>(args.size()), args.data()) >= 0, "the EAL starts");
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Input input{data, size};
    Setup setup{input};
    setup.config.port_id = 3;
    Run run{setup};
    if (!run.ready()) return 0;
    for (unsigned actions = 0; !input.empty() && actions < 300; ++actions)
        run.act(input);
    for (unsigned n = 0; n < 40; ++n)
        run.burst(64);
    return 0;
}
