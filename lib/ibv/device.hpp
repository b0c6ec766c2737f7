// SPDX-License-Identifier: BSD-3-Clause
/// An opened device and one of its ports: context, protection domain and capabilities.
#pragma once

#include "ibv/handle.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <string>

namespace stride::ibv {

/// Striding (multi-packet) receive WQs, mlx5dv_striding_rq_caps.
struct StridingCaps {
    bool raw_packet{}; ///< usable for RAW_PACKET traffic; the rest is 0 if not
    std::uint32_t min_log_stride_bytes{}, max_log_stride_bytes{};
    std::uint32_t min_log_strides{}, max_log_strides{}; ///< strides per WQE
};

/// What the device offers, from ibv_query_device_ex and mlx5dv_query_device.
struct Caps {
    std::string fw_version{};
    std::uint32_t vendor_id{}, vendor_part_id{};
    std::uint32_t max_qps{}, max_wrs{}, max_sges{}, max_cqs{}, max_cqes{}, max_mrs{};
    std::uint32_t max_wqs{};                     ///< receive WQs; 0: no ibv_wq at all
    std::uint32_t max_rqts{}, max_rqt_entries{}; ///< 0: no RSS
    std::uint64_t rss_fields{};                  ///< IBV_RX_HASH_*; 0: no RSS
    bool rss_toeplitz{};
    StridingCaps striding{};
    std::uint32_t cqe_compression_formats{}; ///< MLX5DV_CQE_RES_FORMAT_*
    std::uint32_t cqe_compression_max{};     ///< mini-CQEs per block
    std::uint32_t max_tso_bytes{};           ///< payload of one TSO WQE; 0: no TSO
    bool enhanced_mpw{};                     ///< several packets in one send WQE
    bool rx_checksum{}, tx_checksum{};       ///< L3 and L4, over RAW_PACKET
    bool vlan_strip{}, scatter_fcs{};        ///< receive WQ features
    std::uint32_t clock_khz{};               ///< of the clock that stamps completions; 0: none
    std::uint32_t min_inline_bytes{};        ///< bytes of header a send WQE must carry inline
};

struct LinkState {
    bool up{};
    std::uint32_t speed_mbps{}; ///< 0: not known
    std::uint32_t max_mtu_bytes{};
    bool ethernet{}; ///< link layer; InfiniBand if not
};

using MacAddress = std::array<std::uint8_t, 6>;

/// Where rings and doorbell records are made: memory that other processes see, say. Pages, whole and aligned;
/// nullptr makes the creation of the object fail (libmlx5 has no second choice then).
struct RingMemory {
    void* (*allocate)(std::size_t bytes, void* context){};
    void (*release)(void* memory, void* context){};
    void* context{};
};

/// Shared by everything made from it: context and PD live until the last of those is gone, so that packets in
/// registered memory stay valid after the port is closed. Control path only, any thread (libibverbs locks).
class Device {
  public:
    /// Opens device `ibdev` ("mlx5_0") for its port `port` (from 1). ENODEV: no such device (the message
    /// lists those there are) or not an mlx5 one; EINVAL: no such port. `rings`: of all objects; nullptr: of
    /// this process.
    static Result<std::shared_ptr<Device>> open(const std::string& ibdev, std::uint8_t port,
                                                const RingMemory* rings = nullptr);

    Device(Device&&) = delete;
    ~Device() = default;

    const std::string& name() const noexcept { return name_; }
    std::uint8_t port() const noexcept { return port_; }
    const Caps& caps() const noexcept { return caps_; }
    ibv_context* context() const noexcept { return context_.get(); }
    ibv_pd* pd() const noexcept { return pd_.get(); }

    Result<LinkState> link() const;
    /// Of the companion netdev (sysfs), else out of the port's GID 0 (EUI-64 with ff:fe in the middle).
    Result<MacAddress> mac() const;
    /// Name of the companion netdev of this port; empty if there is none.
    std::string netdev() const;
    /// The clock that stamps completions, now, in ticks.
    Result<std::uint64_t> clock_ticks() const;
    /// NUMA node, -1 if not known.
    int numa_node() const;
    /// A counter of `ports/N/hw_counters/`, such as out_of_buffer; ENOENT if the device has none of that
    /// name.
    Result<std::uint64_t> hw_counter(const char* counter) const;

  private:
    Device() = default;

    std::string name_{};
    std::string sysfs_path_{}; ///< /sys/class/infiniband/NAME
    std::uint8_t port_{1};
    Caps caps_{};
    Handle<ibv_context> context_{};
    Handle<ibv_pd> pd_{};
};

/// Destroys an object of a device, and only then lets go of the device.
struct DestroyThenRelease {
    std::shared_ptr<Device> device{};
    template <class T>
    void operator()(T* object) const noexcept {
        Destroy{}(object);
    }
};

/// Owner of an object of a device; keeps the device alive.
template <class T>
using Owned = std::unique_ptr<T, DestroyThenRelease>;

/// Names of the verbs devices there are.
std::string device_list();

} // namespace stride::ibv
