// SPDX-License-Identifier: BSD-3-Clause
#include "ibv/device.hpp"

#include <infiniband/mlx5dv.h>

#include <cstdio>
#include <cstring>
#include <dirent.h>

namespace stride::ibv {
namespace {

struct FreeDeviceList {
    void operator()(ibv_device** list) const noexcept { ibv_free_device_list(list); }
};
using DeviceList = std::unique_ptr<ibv_device*, FreeDeviceList>;

/// First line of a sysfs file, without its newline; empty if it cannot be read.
std::string read_line(const std::string& path) {
    std::string line;
    if (std::FILE* file = std::fopen(path.c_str(), "re")) {
        char text[256];
        if (std::fgets(text, sizeof text, file) != nullptr) line = text;
        std::fclose(file);
    }
    while (!line.empty() && (line.back() == '\n' || line.back() == ' '))
        line.pop_back();
    return line;
}

void fill_core_caps(const ibv_device_attr_ex& attr, Caps& caps) {
    const ibv_device_attr& orig = attr.orig_attr;
    caps.fw_version = orig.fw_ver;
    caps.vendor_id = orig.vendor_id;
    caps.vendor_part_id = orig.vendor_part_id;
    caps.max_qps = static_cast<std::uint32_t>(orig.max_qp);
    caps.max_wrs = static_cast<std::uint32_t>(orig.max_qp_wr);
    caps.max_sges = static_cast<std::uint32_t>(orig.max_sge);
    caps.max_cqs = static_cast<std::uint32_t>(orig.max_cq);
    caps.max_cqes = static_cast<std::uint32_t>(orig.max_cqe);
    caps.max_mrs = static_cast<std::uint32_t>(orig.max_mr);
    caps.max_wqs = attr.max_wq_type_rq;
    caps.max_rqts = attr.rss_caps.max_rwq_indirection_tables;
    caps.max_rqt_entries = attr.rss_caps.max_rwq_indirection_table_size;
    caps.rss_fields = attr.rss_caps.rx_hash_fields_mask;
    caps.rss_toeplitz = (attr.rss_caps.rx_hash_function & IBV_RX_HASH_FUNC_TOEPLITZ) != 0;
    constexpr std::uint32_t raw_packet = 1U << IBV_QPT_RAW_PACKET;
    if ((attr.tso_caps.supported_qpts & raw_packet) != 0) caps.max_tso_bytes = attr.tso_caps.max_tso;
    caps.rx_checksum = (attr.device_cap_flags_ex & IBV_DEVICE_RAW_IP_CSUM) != 0 ||
                       (attr.raw_packet_caps & IBV_RAW_PACKET_CAP_IP_CSUM) != 0;
    caps.tx_checksum = caps.rx_checksum;
    if (attr.completion_timestamp_mask != 0) caps.clock_khz = static_cast<std::uint32_t>(attr.hca_core_clock);
    caps.vlan_strip = (attr.raw_packet_caps & IBV_RAW_PACKET_CAP_CVLAN_STRIPPING) != 0;
    caps.scatter_fcs = (attr.raw_packet_caps & IBV_RAW_PACKET_CAP_SCATTER_FCS) != 0;
}

void fill_mlx5_caps(const mlx5dv_context& attr, Caps& caps) {
    if ((attr.comp_mask & MLX5DV_CONTEXT_MASK_CQE_COMPRESION) != 0) {
        caps.cqe_compression_formats = attr.cqe_comp_caps.supported_format;
        caps.cqe_compression_max = attr.cqe_comp_caps.max_num;
    }
    caps.enhanced_mpw = (attr.flags & MLX5DV_CONTEXT_FLAGS_ENHANCED_MPW) != 0;
    const mlx5dv_striding_rq_caps& srq = attr.striding_rq_caps;
    if ((attr.comp_mask & MLX5DV_CONTEXT_MASK_STRIDING_RQ) == 0) return;
    if ((srq.supported_qpts & (1U << IBV_QPT_RAW_PACKET)) == 0) return;
    caps.striding = StridingCaps{.raw_packet = true,
                                 .min_log_stride_bytes = srq.min_single_stride_log_num_of_bytes,
                                 .max_log_stride_bytes = srq.max_single_stride_log_num_of_bytes,
                                 .min_log_strides = srq.min_single_wqe_log_num_of_strides,
                                 .max_log_strides = srq.max_single_wqe_log_num_of_strides};
}

Result<Caps> query_caps(ibv_context* context, const std::string& name) {
    Caps caps;
    ibv_device_attr_ex attr{};
    if (const int code = ibv_query_device_ex(context, nullptr, &attr); code != 0)
        return verbs_error(code, name + ": query device");
    fill_core_caps(attr, caps);
    mlx5dv_context dv{};
    dv.comp_mask = MLX5DV_CONTEXT_MASK_CQE_COMPRESION | MLX5DV_CONTEXT_MASK_STRIDING_RQ;
    if (const int code = mlx5dv_query_device(context, &dv); code != 0)
        return verbs_error(code, name + ": query mlx5 device");
    fill_mlx5_caps(dv, caps);
    // Verbs does not tell the inline mode of the embedded switch. The L2 header inline satisfies every
    // mode but the IP and TCP ones; from ConnectX-5 on none is required.
    constexpr std::uint32_t first_part_without_min_inline = 0x1017;
    caps.min_inline_bytes = caps.vendor_part_id < first_part_without_min_inline ? 18 : 0;
    return caps;
}

/// Mb/s of a port: the speed of a lane (an enumeration of bits) times the lanes.
std::uint32_t speed_mbps(const ibv_port_attr& attr) {
    struct Rate {
        unsigned code;
        std::uint32_t mbps;
    };
    static constexpr Rate lane_rates[] = {{1, 2500},   {2, 5000},   {4, 10000},  {8, 10000},
                                          {16, 14000}, {32, 25000}, {64, 50000}, {128, 100000}};
    static constexpr Rate lane_counts[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}};
    std::uint32_t lane = 0, lanes = 0;
    for (const Rate& rate : lane_rates)
        if (rate.code == attr.active_speed) lane = rate.mbps;
    for (const Rate& rate : lane_counts)
        if (rate.code == attr.active_width) lanes = rate.mbps;
    return lane * lanes;
}

} // namespace

std::string device_list() {
    int count = 0;
    const DeviceList list{ibv_get_device_list(&count)};
    std::string names;
    for (int i = 0; list && i < count; ++i)
        names += (i == 0 ? "" : ", ") + std::string{ibv_get_device_name(list.get()[i])};
    return names;
}

static Status place_rings(ibv_context* context, const RingMemory& rings, const std::string& ibdev) {
    mlx5dv_ctx_allocators allocators{};
    allocators.alloc = rings.allocate;
    allocators.free = rings.release;
    allocators.data = rings.context;
    const int code = mlx5dv_set_context_attr(context, MLX5DV_CTX_ATTR_BUF_ALLOCATORS, &allocators);
    return code == 0 ? Status{} : verbs_error(code, ibdev + ": set the memory of rings");
}

Result<std::shared_ptr<Device>> Device::open(const std::string& ibdev, std::uint8_t port,
                                             const RingMemory* rings) {
    int count = 0;
    const DeviceList list{ibv_get_device_list(&count)};
    ibv_device* found = nullptr;
    for (int i = 0; list && i < count; ++i)
        if (ibdev == ibv_get_device_name(list.get()[i])) found = list.get()[i];
    if (found == nullptr) {
        const std::string names = device_list();
        return Error{ENODEV,
                     "no verbs device " + ibdev + "; there " + (names.empty() ? "is none" : "are: " + names)};
    }
    if (!mlx5dv_is_supported(found)) return Error{ENODEV, ibdev + " is not an mlx5 device"};

    std::shared_ptr<Device> device{new Device};
    device->name_ = ibdev;
    device->port_ = port;
    device->sysfs_path_ = found->ibdev_path;
    device->context_.reset(mlx5dv_open_device(found, nullptr));
    if (!device->context_) return verbs_error(0, ibdev + ": open");
    if (rings != nullptr)
        if (auto status = place_rings(device->context(), *rings, ibdev); !status) return status.take_error();
    ibv_device_attr attr{};
    if (const int code = ibv_query_device(device->context(), &attr); code != 0)
        return verbs_error(code, ibdev + ": query device");
    if (port < 1 || port > attr.phys_port_cnt)
        return Error{EINVAL, strprintf("%s has no port %u; its ports are 1 to %u", ibdev.c_str(), port,
                                       attr.phys_port_cnt)};
    auto caps = query_caps(device->context(), ibdev);
    if (!caps) return caps.take_error();
    device->caps_ = std::move(caps).value();
    device->pd_.reset(ibv_alloc_pd(device->context()));
    if (!device->pd_) return verbs_error(0, ibdev + ": allocate PD");
    return device;
}

Result<LinkState> Device::link() const {
    ibv_port_attr attr{};
    if (const int code = ibv_query_port(context(), port_, &attr); code != 0)
        return verbs_error(code, strprintf("%s: query port %u", name_.c_str(), port_));
    return LinkState{.up = attr.state == IBV_PORT_ACTIVE,
                     .speed_mbps = speed_mbps(attr),
                     .max_mtu_bytes = 128U << attr.max_mtu,
                     .ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET};
}

std::string Device::netdev() const {
    const std::string folder = sysfs_path_ + "/device/net";
    std::string name;
    DIR* dir = opendir(folder.c_str());
    if (dir == nullptr) return name;
    const std::string wanted = std::to_string(port_ - 1);
    while (const dirent* entry = readdir(dir)) {
        if (entry->d_name[0] == '.') continue;
        const std::string dev_port = read_line(folder + "/" + entry->d_name + "/dev_port");
        if (dev_port == wanted || (dev_port.empty() && name.empty())) name = entry->d_name;
    }
    closedir(dir);
    return name;
}

Result<MacAddress> Device::mac() const {
    MacAddress mac{};
    if (const std::string interface = netdev(); !interface.empty()) {
        const std::string text = read_line(sysfs_path_ + "/device/net/" + interface + "/address");
        if (std::sscanf(text.c_str(), "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2], &mac[3],
                        &mac[4], &mac[5]) == 6)
            return mac;
    }
    ibv_gid gid{};
    if (ibv_query_gid(context(), port_, 0, &gid) != 0)
        return verbs_error(0, strprintf("%s: query GID 0 of port %u", name_.c_str(), port_));
    // Modified EUI-64: the universal/local bit is inverted and ff:fe stands in the middle.
    const std::uint8_t* id = gid.raw + 8;
    return MacAddress{static_cast<std::uint8_t>(id[0] ^ 2U), id[1], id[2], id[5], id[6], id[7]};
}

Result<std::uint64_t> Device::clock_ticks() const {
    ibv_values_ex values{};
    values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
    if (const int code = ibv_query_rt_values_ex(context(), &values); code != 0)
        return verbs_error(code, name_ + ": read the clock");
    // libmlx5 puts all of the ticks there.
    return static_cast<std::uint64_t>(values.raw_clock.tv_nsec);
}

int Device::numa_node() const {
    const std::string text = read_line(sysfs_path_ + "/device/numa_node");
    int node = -1;
    return std::sscanf(text.c_str(), "%d", &node) == 1 ? node : -1;
}

Result<std::uint64_t> Device::hw_counter(const char* counter) const {
    const std::string path = strprintf("%s/ports/%u/hw_counters/%s", sysfs_path_.c_str(), port_, counter);
    const std::string text = read_line(path);
    unsigned long long value = 0;
    if (std::sscanf(text.c_str(), "%llu", &value) != 1)
        return Error{ENOENT, name_ + ": no hardware counter " + counter};
    return std::uint64_t{value};
}

} // namespace stride::ibv
