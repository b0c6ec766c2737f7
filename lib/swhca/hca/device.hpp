// SPDX-License-Identifier: BSD-3-Clause
/// Devices and what a process holds of them. One Device is one `mlx5_N` with one port.
#pragma once

#include "swhca/engine/engine.hpp"
#include "swhca/hca/objects.hpp"
#include "swhca/hca/port.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

namespace swhca {

/// What the device offers; answered to queries and enforced on creation by the same numbers.
struct DeviceCaps {
    std::uint32_t max_qp{1U << 17}, max_cq{1U << 17}, max_mr{1U << 20}, max_pd{1U << 16};
    std::uint32_t max_wq{1U << 17}, max_rqt{1U << 16}, max_log_rqt_entries{11};
    std::uint32_t max_qp_wr{32768}, max_sge{30}, max_cqe{(1U << 22) - 1};
    std::uint32_t min_log_stride_bytes{6}, max_log_stride_bytes{13};
    std::uint32_t min_log_strides{3}, max_log_strides{16};
    std::uint32_t min_log_wqe_bytes{14}; ///< log_stride_bytes + log_strides at least
    std::uint32_t max_srq{1U << 16}, max_srq_sge{31}, max_ah{1U << 20};
    std::uint32_t max_groups{1U << 14}, max_group_qps{240};
    std::uint32_t max_tso_bytes{262144};
    std::uint8_t min_inline_mode{0}; ///< 0 none, 1 L2
    bool striding{true};             ///< striding RQs
    bool cqe_compression{true};
    bool enhanced_mpw{true};
};

/// Number of the part on the PCI bus: a ConnectX-5; with `min_inline=l2` a ConnectX-4 Lx, for drivers know by
/// the part, too, that headers must be inlined (net/mlx5, mlx5_set_min_inline).
inline std::uint16_t part_number(const DeviceCaps& caps) noexcept {
    constexpr std::uint16_t connectx4_lx = 0x1015, connectx5 = 0x1017;
    return caps.min_inline_mode != 0 ? connectx4_lx : connectx5;
}

/// Lkey to region; index and 8-bit variant as in the PRM, so that a stale key misses.
class MrTable {
  public:
    Lkey add(Mr mr); ///< never hands out 0x100 (libmlx5's terminator) or 0
    bool remove(Lkey lkey);
    bool change(const Mr& mr); ///< of the same key
    const Mr* find(Lkey lkey) const noexcept {
        const std::uint32_t index = lkey.value >> 8;
        if (index >= slots_.size() || slots_[index].lkey != lkey) return nullptr;
        return &slots_[index];
    }
    /// Counts what may make an address that was looked up wrong: removals and changes.
    std::uint32_t changes() const noexcept { return changes_; }

  private:
    static std::vector<Mr> reserved_slots();
    std::uint32_t changes_{};
    std::vector<Mr> slots_ = reserved_slots();
    std::vector<std::uint32_t> free_{};
};

struct Device;

/// A protection domain: the number that WQEs' memory regions are checked against.
struct Pd {
    Pdn pdn{};
    std::uint32_t handle{};
    std::uint32_t users{}; ///< memory regions, WQs and QPs in it; dealloc answers EBUSY while not 0
};

/// An address handle of an Ethernet port. What is sent by it stands in the program's WQEs.
struct Ah {
    std::uint32_t handle{};
    Pdn pd{};
};

/// Everything one open() of /dev/infiniband/uverbsN made; goes with the last close of it.
struct Context {
    Device* device{};
    int fd{-1};               ///< descriptor the program uses (a memfd that backs the UAR pages)
    bool opened{};            ///< GET_CONTEXT done
    int async_program_fd{-1}; ///< our own copy of the program's end, to take unread events back
    int async_engine_fd{-1};
    std::byte* uar{};      ///< the model's own mapping of all UAR windows (hca/uar.hpp)
    unsigned uar_window{}; ///< the window the program mapped
    std::uint32_t bfregs{};
    std::vector<std::uint32_t>
        bfreg_users{}; ///< QPs of each register; those of thread domains from `bfregs` on
    std::uint32_t next_handle{1};
    template <class T>
    using Table = std::map<std::uint32_t, std::unique_ptr<T>>;
    Table<Pd> pds{};
    Table<Mr> mrs{};
    Table<CompChannel> channels{};
    Table<Cq> cqs{};
    Table<Rq> wqs{};
    Table<Rqt> rqts{};
    Table<Qp> qps{};
    Table<Srq> srqs{};
    Table<Ah> ahs{};
    /// What the engine uses instead of rings that the program unmapped (hca/retire.hpp).
    struct FreeAligned {
        void operator()(std::byte* memory) const noexcept {
            ::operator delete[](memory, std::align_val_t{64});
        }
    };
    std::vector<std::unique_ptr<std::byte, FreeAligned>> stand_ins{};
    Table<Flow> flows{};
};

struct Device {
    std::string name{}; ///< `mlx5_0`
    unsigned index{};   ///< N of uverbsN
    std::uint64_t node_guid{};
    Engine* engine{}; ///< the one that serves its port
    DeviceCaps caps{};
    Port port{};
    MrTable mrs{};
    std::vector<std::unique_ptr<Context>> contexts{};
    std::uint32_t qps{}, cqs{}, wqs{}, rqts{}, pds{}, mr_count{}, srqs{},
        ahs{}; ///< objects alive, against the caps
    std::uint32_t next_qpn{0x40}, next_cqn{0x400}, next_wqn{0x10}, next_pdn{1}, next_rqt{1}, next_srqn{0x20};
    std::uint64_t next_flow_order{};
    std::vector<RefusedCommand> refused_commands{}; ///< by faults
    std::unique_ptr<DeviceCaps> first_caps{};       ///< before a fault changed them; null: none did
    bool removed{};                                 ///< by a fault: commands answer EIO
};

/// The HCA of this process: all devices and the engines that drive them.
struct Hca {
    std::vector<std::unique_ptr<Device>> devices{};
    std::vector<std::unique_ptr<Engine>> engines{}; ///< one, or one a device
    std::mutex commands{};                          ///< one command at a time

    /// Engine::hold, release and step of all engines.
    void hold() {
        for (const auto& engine : engines)
            engine->hold();
    }
    void release() {
        for (const auto& engine : engines)
            engine->release();
    }
    unsigned step(unsigned budget) {
        unsigned moved = 0;
        for (const auto& engine : engines)
            moved += engine->step(budget);
        return moved;
    }
};

} // namespace swhca
