// SPDX-License-Identifier: BSD-3-Clause
/// A send queue's other side for unit tests: rings in arrays, and a consumer that executes WQEs by the
/// layouts of mlx5dv.h and is strict about each of them. It shares no code with lib/mlx5.
#pragma once

#include "mlx5/rings.hpp"

#include <infiniband/mlx5dv.h>

#include <endian.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace stride::test {

struct SentFrame {
    std::vector<std::uint8_t> bytes;
    std::uint8_t cs_flags{};
    std::uint8_t opcode{};
    unsigned in_wqe{};                   ///< position in its WQE
    std::uint32_t mss{}, header_bytes{}; ///< TSO: the packet is shown whole
    std::vector<std::uint8_t> address{}; ///< datagram segment of an underlay QP's WQE
};

class FakeHca {
  public:
    static constexpr std::uint32_t qpn = 0x1234;

    FakeHca(unsigned log_wqebbs, unsigned log_cqes, std::uint32_t cqe_bytes = 64)
        : wqebbs_(std::size_t{64} << log_wqebbs)
        , cqes_(std::size_t{cqe_bytes} << log_cqes, std::byte{0xf0}) {
        sq_.wqebbs = wqebbs_.data();
        sq_.size = RingSize::from_log(log_wqebbs);
        sq_.dbrec = &dbrecs_[0];
        sq_.doorbell = reinterpret_cast<std::byte*>(&doorbell_);
        sq_.qpn = Qpn{qpn};
        cq_.cqes = cqes_.data();
        cq_.size = RingSize::from_log(log_cqes);
        cq_.cqe_bytes = cqe_bytes;
        cq_.dbrec = &dbrecs_[1];
    }

    const mlx5::SqRing& sq() const { return sq_; }
    const mlx5::CqRing& cq() const { return cq_; }

    /// Registers memory; returns its lkey.
    std::uint32_t add_key(const void* base, std::size_t bytes) {
        keys_[next_key_] = {reinterpret_cast<std::uintptr_t>(base), bytes};
        return next_key_++;
    }
    struct Range {
        std::uintptr_t base;
        std::size_t bytes;
    };
    const std::map<std::uint32_t, Range>& keys() const { return keys_; }
    void remove_key(std::uint32_t lkey) { keys_.erase(lkey); }

    /// DS of datagram segment and pad: 4 for an underlay QP.
    void set_address_ds(std::uint32_t count) { address_ds_ = count; }

    /// Executes up to `max_wqes` posted WQEs; how many.
    unsigned execute(unsigned max_wqes = ~0U) {
        unsigned executed = 0;
        while (executed < max_wqes && step())
            ++executed;
        return executed;
    }

    /// The program's modify to RESET and back to RTS.
    void reset() {
        failed_ = false;
        ci_ = 0;
        dbrecs_[0] = be32{0};
    }

    /// Called for each WQE before it is executed; true: it fails, as if its memory key were bad.
    std::function<bool(std::uint16_t index)> fail_wqe{};
    /// What is wrong with the program; empty if nothing is.
    const std::string& broken() const { return broken_; }
    std::vector<SentFrame>& frames() { return frames_; }
    /// Called for each frame instead of keeping it.
    std::function<void(const SentFrame& frame)> on_frame{};
    std::uint32_t cqes_written() const { return cq_pi_; }
    std::uint32_t wqes() const { return wqes_; }
    std::uint32_t nops() const { return nops_; }
    bool failed() const { return failed_; }
    std::uint16_t ci() const { return ci_; }

    /// Writes a CQE that nothing justifies.
    void forge_cqe(std::uint8_t opcode, std::uint16_t counter) { write_cqe(opcode, 0, counter); }

  private:
    template <class T>
    static T load(const T* from) {
        T value;
        __atomic_load(from, &value, __ATOMIC_ACQUIRE);
        return value;
    }

    bool complain(const std::string& what) {
        if (broken_.empty()) broken_ = what + " at WQE " + std::to_string(ci_);
        return false;
    }

    bool step() {
        const auto pi = static_cast<std::uint16_t>(load(&dbrecs_[0]).host());
        const auto ready = static_cast<std::uint16_t>(pi - ci_);
        if (ready == 0 || failed_) return false;
        if (ready > sq_.size.entries()) return complain("SQ overrun");

        mlx5_wqe_ctrl_seg ctrl;
        std::memcpy(&ctrl, ds(0), sizeof ctrl);
        const std::uint32_t head = be32toh(ctrl.opmod_idx_opcode);
        const std::uint32_t count = be32toh(ctrl.qpn_ds) & 0xff;
        if ((head >> 8 & 0xffff) != ci_) return complain("WQE index");
        if (be32toh(ctrl.qpn_ds) >> 8 != qpn) return complain("QPN");
        if (count == 0 || count > 63) return complain("DS count");
        const std::uint32_t blocks = (count + 3) / 4;
        if (blocks > ready) return complain("WQE beyond the producer index");
        ++wqes_;
        const unsigned ce = ctrl.fm_ce_se >> 2 & 3;
        if ((ctrl.fm_ce_se & ~0xcU) != 0) return complain("flags");
        if ((fail_wqe && fail_wqe(ci_)) || !run(static_cast<std::uint8_t>(head), count)) {
            failed_ = true;
            write_cqe(MLX5_CQE_REQ_ERR, MLX5_CQE_SYNDROME_LOCAL_PROT_ERR, ci_);
            return true;
        }
        if (ce == 2) write_cqe(MLX5_CQE_REQ, 0, ci_);
        ci_ = static_cast<std::uint16_t>(ci_ + blocks);
        return true;
    }

    bool run(std::uint8_t opcode, std::uint32_t count) {
        if (opcode == MLX5_OPCODE_NOP) {
            ++nops_;
            return count == 1 || complain("NOP with segments");
        }
        const bool tso = opcode == MLX5_OPCODE_TSO;
        if (opcode != MLX5_OPCODE_SEND && opcode != 0x29 && !tso) return complain("opcode");
        if (count < 2 + address_ds_) return complain("no Ethernet segment");
        for (std::uint32_t i = 0; address_ds_ != 0 && i < 16; ++i)
            if (*byte(address_ds_ * 16 + i) != std::byte{0}) return complain("pad not 0");
        mlx5_wqe_eth_seg eth{};
        std::memcpy(&eth, ds(1 + address_ds_), 16);
        if (eth.rsvd0 != 0 || eth.rsvd1 != 0 || eth.rsvd2 != 0 || (eth.mss != 0) != tso)
            return complain("Ethernet segment");
        if ((eth.cs_flags & ~(MLX5_ETH_WQE_L3_CSUM | MLX5_ETH_WQE_L4_CSUM)) != 0) return complain("cs_flags");
        return opcode == 0x29 ? session(eth, count) : send(opcode, eth, count);
    }

    bool send(std::uint8_t opcode, const mlx5_wqe_eth_seg& eth, std::uint32_t count) {
        const std::uint32_t header = be16toh(eth.inline_hdr_sz);
        SentFrame frame{take_spare(), eth.cs_flags, opcode, 0, be16toh(eth.mss), header};
        if (opcode == MLX5_OPCODE_TSO && header < 54) return complain("TSO header");
        for (std::uint32_t i = 0; address_ds_ != 0 && i < 48; ++i)
            frame.address.push_back(std::to_integer<std::uint8_t>(*byte(16 + i)));
        for (std::uint32_t i = 0; i < header; ++i)
            frame.bytes.push_back(std::to_integer<std::uint8_t>(*byte(16 + address_ds_ * 16 + 14 + i)));
        std::uint32_t at = 1 + address_ds_ + (14 + header + 15) / 16;
        if (at > count) return complain("header beyond the WQE");
        while (at < count) {
            const std::uint32_t inlined = gather_inline(at, count, frame.bytes);
            if (inlined == 0 && !gather(at, frame.bytes)) return false;
            at += inlined == 0 ? 1 : inlined;
        }
        return deliver(std::move(frame));
    }

    bool session(const mlx5_wqe_eth_seg& eth, std::uint32_t count) {
        if (eth.inline_hdr_sz != 0) return complain("header in a session");
        unsigned position = 0;
        for (std::uint32_t at = 2; at < count;) {
            SentFrame frame{take_spare(), eth.cs_flags, 0x29, position++};
            std::uint32_t first;
            std::memcpy(&first, ds(at), sizeof first);
            first = be32toh(first);
            if ((first & 0x80000000U) != 0) {
                const std::uint32_t bytes = first & 0x3ff;
                if ((first & 0x7ffffc00U) != 0 || bytes == 0) return complain("inline count");
                for (std::uint32_t i = 0; i < bytes; ++i)
                    frame.bytes.push_back(std::to_integer<std::uint8_t>(*byte(at * 16 + 4 + i)));
                at += (4 + bytes + 15) / 16;
                if (at > count) return complain("inline frame beyond the WQE");
            } else if (!gather(at++, frame.bytes)) {
                return false;
            }
            if (!deliver(std::move(frame))) return false;
        }
        return position != 0 || complain("empty session");
    }

    bool gather(std::uint32_t at, std::vector<std::uint8_t>& out) {
        mlx5_wqe_data_seg seg;
        std::memcpy(&seg, ds(at), sizeof seg);
        const std::uint32_t bytes = be32toh(seg.byte_count);
        const std::uintptr_t address = be64toh(seg.addr);
        const auto key = keys_.find(be32toh(seg.lkey));
        if (key == keys_.end()) return complain("lkey");
        if (bytes == 0 || address < key->second.base ||
            address + bytes > key->second.base + key->second.bytes)
            return complain("range of the lkey");
        const auto* data = reinterpret_cast<const std::uint8_t*>(address);
        out.insert(out.end(), data, data + bytes);
        return true;
    }

    /// DS of an inline data segment at `at`; 0: there is none (or it is broken, which is said).
    std::uint32_t gather_inline(std::uint32_t at, std::uint32_t count, std::vector<std::uint8_t>& out) {
        std::uint32_t first;
        std::memcpy(&first, ds(at), sizeof first);
        first = be32toh(first);
        if ((first & 0x80000000U) == 0) return 0;
        const std::uint32_t bytes = first & 0x3ff;
        const std::uint32_t used = (4 + bytes + 15) / 16;
        if ((first & 0x7ffffc00U) != 0 || bytes == 0 || at + used > count) return complain("inline segment");
        for (std::uint32_t i = 0; i < bytes; ++i)
            out.push_back(std::to_integer<std::uint8_t>(*byte(at * 16 + 4 + i)));
        return used;
    }

    std::vector<std::uint8_t> take_spare() {
        spare_.clear();
        return std::move(spare_);
    }
    bool deliver(SentFrame frame) {
        if (address_ds_ == 0 && frame.bytes.size() < 14) return complain("short frame");
        if (on_frame) {
            on_frame(frame);
            spare_ = std::move(frame.bytes);
        } else {
            frames_.push_back(std::move(frame));
        }
        return true;
    }

    void write_cqe(std::uint8_t opcode, std::uint8_t syndrome, std::uint16_t counter) {
        const std::uint32_t consumed = load(&dbrecs_[1]).host();
        if (((cq_pi_ - consumed) & 0xffffff) >= cq_.size.entries()) {
            complain("CQ overrun");
            return;
        }
        std::byte* at = cq_.cqes + std::size_t{cq_.size.slot(cq_pi_) + 1} * cq_.cqe_bytes - 64;
        mlx5_err_cqe cqe{};
        cqe.syndrome = syndrome;
        cqe.wqe_counter = htobe16(counter);
        std::memcpy(at, &cqe, 63);
        const auto owner = static_cast<std::uint8_t>(cq_.size.round_parity(cq_pi_) ? 1 : 0);
        auto* op_own = reinterpret_cast<std::uint8_t*>(at + 63);
        __atomic_store_n(op_own, static_cast<std::uint8_t>(opcode << 4 | owner), __ATOMIC_RELEASE);
        ++cq_pi_;
    }

    /// Byte of the current WQE, over the end of the ring.
    const std::byte* byte(std::uint32_t offset) const {
        return &wqebbs_[(std::size_t{ci_} * 64 + offset) % wqebbs_.size()];
    }
    const std::byte* ds(std::uint32_t index) const { return byte(index * 16); }

    std::vector<std::byte> wqebbs_;
    std::vector<std::byte> cqes_;
    be32 dbrecs_[2]{be32{0}, be32{0}};
    alignas(8) std::uint64_t doorbell_{};
    mlx5::SqRing sq_{};
    mlx5::CqRing cq_{};
    std::map<std::uint32_t, Range> keys_{};
    std::uint32_t next_key_{0x1001};
    std::uint16_t ci_{};
    std::uint32_t address_ds_{};
    std::uint32_t cq_pi_{}, wqes_{}, nops_{};
    bool failed_{};
    std::string broken_{};
    std::vector<SentFrame> frames_{};
    std::vector<std::uint8_t> spare_{}; ///< memory of the frame before
};

} // namespace stride::test
