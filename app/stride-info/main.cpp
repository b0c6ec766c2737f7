// SPDX-License-Identifier: BSD-3-Clause
// stride-info DEVICE[/PORT]: what a device offers, as the driver sees it.

#include "ibv/device.hpp"

#include <infiniband/mlx5dv.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

namespace {

using stride::ibv::Caps;
using stride::ibv::Device;

const char* yes_no(bool value) { return value ? "yes" : "no"; }

std::string compression_formats(std::uint32_t formats) {
    std::string text;
    const auto add = [&](std::uint32_t bit, const char* name) {
        if ((formats & bit) != 0) text += (text.empty() ? "" : " ") + std::string{name};
    };
    add(MLX5DV_CQE_RES_FORMAT_HASH, "hash");
    add(MLX5DV_CQE_RES_FORMAT_CSUM, "csum");
    add(MLX5DV_CQE_RES_FORMAT_CSUM_STRIDX, "csum_stridx");
    return text.empty() ? "none" : text;
}

void print_address_and_link(const Device& device) {
    std::printf("%-26s %s port %u\n", "device", device.name().c_str(), device.port());
    std::printf("%-26s %s\n", "firmware", device.caps().fw_version.c_str());
    std::printf("%-26s %04x:%04x\n", "vendor:part", device.caps().vendor_id, device.caps().vendor_part_id);
    const std::string netdev = device.netdev();
    std::printf("%-26s %s\n", "netdev", netdev.empty() ? "none" : netdev.c_str());
    if (const auto mac = device.mac()) {
        const auto& b = mac.value();
        std::printf("%-26s %02x:%02x:%02x:%02x:%02x:%02x\n", "mac", b[0], b[1], b[2], b[3], b[4], b[5]);
    }
    if (const auto link = device.link()) {
        std::printf("%-26s %s, %s, %u Mb/s, mtu up to %u\n", "link", link.value().up ? "up" : "down",
                    link.value().ethernet ? "Ethernet" : "InfiniBand", link.value().speed_mbps,
                    link.value().max_mtu_bytes);
    }
}

void print_caps(const Caps& caps) {
    const auto& striding = caps.striding;
    std::printf("%-26s %s\n", "striding RQ", yes_no(striding.raw_packet));
    if (striding.raw_packet) {
        std::printf("%-26s %u to %u\n", "  log_stride_bytes", striding.min_log_stride_bytes,
                    striding.max_log_stride_bytes);
        std::printf("%-26s %u to %u\n", "  log_strides", striding.min_log_strides, striding.max_log_strides);
    }
    std::printf("%-26s %s, blocks of up to %u\n", "CQE compression",
                compression_formats(caps.cqe_compression_formats).c_str(), caps.cqe_compression_max);
    std::printf("%-26s %u, RQT up to %u entries, hash fields %#llx, Toeplitz %s\n", "RSS tables",
                caps.max_rqts, caps.max_rqt_entries, static_cast<unsigned long long>(caps.rss_fields),
                yes_no(caps.rss_toeplitz));
    std::printf("%-26s %u receive WQs, %u QPs, %u CQs, %u MRs\n", "objects", caps.max_wqs, caps.max_qps,
                caps.max_cqs, caps.max_mrs);
    std::printf("%-26s %u WRs, %u SGEs, %u CQEs\n", "queue sizes", caps.max_wrs, caps.max_sges,
                caps.max_cqes);
    std::printf("%-26s %s\n", "enhanced multi-packet WQE", yes_no(caps.enhanced_mpw));
    std::printf("%-26s %u bytes\n", "TSO", caps.max_tso_bytes);
    std::printf("%-26s rx %s, tx %s\n", "checksums", yes_no(caps.rx_checksum), yes_no(caps.tx_checksum));
    std::printf("%-26s %s\n", "VLAN strip", yes_no(caps.vlan_strip));
    std::printf("%-26s %s\n", "scatter FCS", yes_no(caps.scatter_fcs));
    std::printf("%-26s %u bytes\n", "minimum inline", caps.min_inline_bytes);
}

} // namespace

int main(int argc, char** argv) {
    CLI::App app{"Prints what an mlx5 device offers: striding receive, compression, RSS, send features."};
    std::string name;
    unsigned port = 1;
    app.add_option("device", name, "verbs device, such as mlx5_0 (default: lists the devices)");
    app.add_option("--port", port, "port of the device")->check(CLI::Range(1U, 255U))->capture_default_str();
    CLI11_PARSE(app, argc, argv);

    if (name.empty()) {
        const std::string names = stride::ibv::device_list();
        std::printf("%s\n", names.empty() ? "no verbs devices" : names.c_str());
        return names.empty() ? 1 : 0;
    }
    const auto device = Device::open(name, static_cast<std::uint8_t>(port));
    if (!device) {
        std::fprintf(stderr, "stride-info: %s\n", device.error().what.c_str());
        return 1;
    }
    print_address_and_link(*device.value());
    print_caps(device.value()->caps());
    return 0;
}
