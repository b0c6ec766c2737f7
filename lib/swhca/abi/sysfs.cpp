// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/abi/sysfs.hpp"

#include "base/format.hpp"
#include "swhca/hca/gid.hpp"
#include "swhca/hca/report.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

namespace swhca {
namespace {

using stride::Error;
using stride::Status;
using stride::strprintf;

constexpr std::string_view uverbs_prefix = "/dev/infiniband/uverbs";
constexpr std::string_view pci_devices = "/sys/bus/pci/devices";
/// PCI domain of the model's devices: beyond those that hosts give out.
constexpr unsigned pci_domain = 0x5357;

/// Directories whose whole content is the model's.
constexpr std::string_view own_directories[] = {"/sys/class/infiniband", "/sys/class/infiniband_verbs",
                                                "/sys/devices/swhca", "/dev/infiniband"};

std::string pci_address(const Device& device) {
    return strprintf("%04x:%02x:%02x.0", pci_domain, device.index / 32, device.index % 32);
}

/// Writes files of a tree; the first failure stays.
class TreeWriter {
  public:
    explicit TreeWriter(std::string root)
        : root_{std::move(root)} {}

    void directory(const std::string& path) {
        for (std::size_t at = path.find('/', 1);; at = path.find('/', at + 1)) {
            const std::string part = root_ + path.substr(0, at);
            if (mkdir(part.c_str(), 0755) != 0 && errno != EEXIST) fail(part);
            if (at == std::string::npos) return;
        }
    }
    void file(const std::string& path, const std::string& content) {
        std::FILE* out = std::fopen((root_ + path).c_str(), "we");
        if (out == nullptr) return fail(path);
        const bool written = std::fwrite(content.data(), 1, content.size(), out) == content.size();
        if (std::fclose(out) != 0 || !written) fail(path);
    }
    void line(const std::string& path, const std::string& content) { file(path, content + "\n"); }
    void link(const std::string& path, const std::string& target) {
        if (symlink(target.c_str(), (root_ + path).c_str()) != 0) fail(path);
    }
    const Status& status() const noexcept { return status_; }

  private:
    void fail(const std::string& path) {
        if (status_.ok())
            status_ = Error{errno, strprintf("cannot write %s: %s", path.c_str(), std::strerror(errno))};
    }
    std::string root_;
    Status status_{};
};

std::string hex_words(const std::uint8_t* bytes, unsigned count) {
    std::string text;
    for (unsigned i = 0; i < count; i += 2)
        text += strprintf("%s%02x%02x", i == 0 ? "" : ":", bytes[i], bytes[i + 1]);
    return text;
}

std::string guid_text(std::uint64_t guid) {
    std::uint8_t bytes[8];
    for (unsigned i = 0; i < 8; ++i)
        bytes[i] = static_cast<std::uint8_t>(guid >> (56 - 8 * i));
    return hex_words(bytes, 8);
}

// What mlx5 counts and the model has nothing to count for.
constexpr const char* zero_hw_counters[] = {"duplicate_request",
                                            "implied_nak_seq_err",
                                            "local_ack_timeout_err",
                                            "out_of_sequence",
                                            "packet_seq_err",
                                            "req_cqe_error",
                                            "req_cqe_flush_error",
                                            "req_remote_access_errors",
                                            "req_remote_invalid_request",
                                            "resp_cqe_error",
                                            "resp_cqe_flush_error",
                                            "resp_local_length_error",
                                            "resp_remote_access_errors",
                                            "rnr_nak_retry_err",
                                            "rx_atomic_requests",
                                            "rx_read_requests",
                                            "rx_write_requests"};
constexpr const char* zero_counters[] = {"symbol_error",
                                         "link_error_recovery",
                                         "link_downed",
                                         "port_xmit_discards",
                                         "port_rcv_remote_physical_errors",
                                         "port_rcv_constraint_errors",
                                         "VL15_dropped"};

/// A file of a port whose content changes.
struct LiveFile {
    const char* path; ///< below ports/1
    std::string (*content)(const Port& port);
};

template <auto Counter, std::uint64_t Divisor = 1>
std::string counter_text(const Port& port) {
    return std::to_string(read_counter(port, Counter) / Divisor);
}

constexpr LiveFile live_files[] = {
    {"state", [](const Port& port) { return std::string(port_is_up(port) ? "4: ACTIVE" : "1: DOWN"); }},
    {"phys_state",
     [](const Port& port) { return std::string(port_is_up(port) ? "5: LinkUp" : "3: Disabled"); }},
    {"hw_counters/out_of_buffer", counter_text<&PortCounters::out_of_buffer>},
    // IBTA counts port data in words of four bytes.
    {"counters/port_xmit_data", counter_text<&PortCounters::tx_bytes, 4>},
    {"counters/port_rcv_data", counter_text<&PortCounters::rx_bytes, 4>},
    {"counters/port_xmit_packets", counter_text<&PortCounters::tx_frames>},
    {"counters/port_rcv_packets", counter_text<&PortCounters::rx_frames>},
    {"counters/port_rcv_errors", counter_text<&PortCounters::rx_oversize>},
};

void lay_port(TreeWriter& tree, const std::string& dir, const Port& port) {
    for (const char* sub :
         {"/gids", "/gid_attrs/types", "/gid_attrs/ndevs", "/pkeys", "/counters", "/hw_counters"})
        tree.directory(dir + sub);
    for (std::size_t i = 0; i < port.gids.size(); ++i) {
        const std::string number = std::to_string(i);
        tree.line(dir + "/gids/" + number, hex_words(port.gids[i].gid.data(), sizeof(Gid)));
        tree.line(dir + "/gid_attrs/types/" + number, gid::type_name(port.gids[i]));
        if (!port.netdev.empty()) tree.line(dir + "/gid_attrs/ndevs/" + number, port.netdev);
    }
    for (std::size_t i = 0; i < port.pkeys.size(); ++i)
        tree.line(dir + "/pkeys/" + std::to_string(i), strprintf("0x%04x", port.pkeys[i]));
    const bool infiniband = port.link_layer == LinkLayer::infiniband;
    tree.line(dir + "/link_layer", infiniband ? "InfiniBand" : "Ethernet");
    tree.line(dir + "/rate", "100 Gb/sec (4X EDR)");
    tree.line(dir + "/cap_mask", strprintf("0x%08x", port_capabilities(port)));
    tree.line(dir + "/lid", strprintf("0x%x", port.lid));
    tree.line(dir + "/sm_lid", strprintf("0x%x", port.sm_lid));
    for (const char* zero : {"sm_sl", "lid_mask_count"})
        tree.line(dir + "/" + zero, "0");
    for (const char* name : zero_hw_counters)
        tree.line(dir + "/hw_counters/" + name, "0");
    tree.line(dir + "/hw_counters/lifespan", "10");
    for (const char* name : zero_counters)
        tree.line(dir + "/counters/" + name, "0");
    for (const LiveFile& live : live_files)
        tree.line(dir + "/" + live.path, live.content(port));
}

void lay_pci_function(TreeWriter& tree, const std::string& dir, const Device& device) {
    const std::string address = pci_address(device);
    tree.directory(dir);
    tree.line(dir + "/vendor", "0x15b3");
    const unsigned part = part_number(device.caps);
    tree.line(dir + "/device", strprintf("0x%04x", part));
    tree.line(dir + "/subsystem_vendor", "0x15b3");
    tree.line(dir + "/subsystem_device", "0x0007");
    tree.line(dir + "/class", "0x020000");
    tree.line(dir + "/revision", "0x00");
    tree.line(dir + "/irq", "0");
    tree.line(dir + "/max_vfs", "0");
    tree.line(dir + "/sriov_numvfs", "0");
    tree.line(dir + "/numa_node", "-1");
    tree.line(dir + "/local_cpus", "ffffffff,ffffffff");
    const std::string modalias = strprintf("pci:v000015B3d0000%04Xsv000015B3sd00000007bc02sc00i00", part);
    tree.line(dir + "/modalias", modalias);
    tree.file(dir + "/uevent", strprintf("DRIVER=mlx5_core\nPCI_CLASS=20000\nPCI_ID=15B3:%04X\n"
                                         "PCI_SUBSYS_ID=15B3:0007\nPCI_SLOT_NAME=%s\nMODALIAS=%s\n",
                                         part, address.c_str(), modalias.c_str()));
    std::string resource;
    for (unsigned bar = 0; bar < 13; ++bar)
        resource += "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
    tree.file(dir + "/resource", resource);
    tree.link(dir + "/driver", "../../../bus/pci/drivers/mlx5_core");
    // A function without an interface has no such directory.
    if (device.port.netdev.empty()) return;
    tree.directory(dir + "/net");
    tree.link(dir + "/net/" + device.port.netdev, "/sys/class/net/" + device.port.netdev);
}

void lay_device(TreeWriter& tree, const Device& device) {
    const std::string address = pci_address(device);
    const std::string function = "/sys/devices/swhca/" + address;
    const std::string ibdev = function + "/infiniband/" + device.name;
    const std::string uverbs_name = strprintf("uverbs%u", device.index);
    const std::string uverbs = function + "/infiniband_verbs/" + uverbs_name;
    lay_pci_function(tree, function, device);

    tree.directory(ibdev);
    tree.line(ibdev + "/node_type", "1: CA");
    tree.line(ibdev + "/node_guid", guid_text(device.node_guid));
    tree.line(ibdev + "/sys_image_guid", guid_text(device.node_guid));
    tree.line(ibdev + "/node_desc", "swhca " + device.name);
    tree.line(ibdev + "/fw_ver", "16.35.4030");
    tree.line(ibdev + "/hw_rev", "0");
    tree.line(ibdev + "/hca_type", "MT4119");
    tree.line(ibdev + "/board_id", "SWHCA0000000001");
    tree.link(ibdev + "/device", "../..");
    lay_port(tree, ibdev + "/ports/1", device.port);

    tree.directory(uverbs);
    const DeviceNumber number = uverbs_number(device.index);
    tree.line(uverbs + "/ibdev", device.name);
    tree.line(uverbs + "/abi_version", "1");
    tree.line(uverbs + "/dev", strprintf("%u:%u", number.major, number.minor));
    tree.link(uverbs + "/device", "../..");

    tree.link("/sys/class/infiniband/" + device.name,
              "../../devices/swhca/" + address + "/infiniband/" + device.name);
    tree.link("/sys/class/infiniband_verbs/" + uverbs_name,
              "../../devices/swhca/" + address + "/infiniband_verbs/" + uverbs_name);
    tree.link(std::string(pci_devices) + "/" + address, "../../../devices/swhca/" + address);
    tree.file("/dev/infiniband/" + uverbs_name, "");
}

/// The machine's own PCI functions beside the model's.
void link_real_pci_devices(TreeWriter& tree) {
    DIR* dir = opendir(std::string(pci_devices).c_str());
    if (dir == nullptr) return;
    while (const dirent* entry = readdir(dir)) {
        const std::string name = entry->d_name;
        if (name[0] == '.') continue;
        const std::string path = std::string(pci_devices) + "/" + name;
        char target[512];
        const ssize_t length = readlink(path.c_str(), target, sizeof target);
        if (length <= 0) continue;
        // Links there are relative to the directory: ../../../devices/...
        std::string absolute(target, static_cast<std::size_t>(length));
        if (absolute.starts_with("../../../")) absolute = "/sys/" + absolute.substr(9);
        tree.link(path, absolute);
    }
    closedir(dir);
}

/// `swhca-PID-XXXXXX` of a process that is gone.
bool is_stale(std::string_view name) {
    constexpr std::string_view prefix = "swhca-";
    if (!name.starts_with(prefix)) return false;
    pid_t pid = 0;
    const char* begin = name.data() + prefix.size();
    const auto [stop, error] = std::from_chars(begin, name.data() + name.size(), pid);
    return error == std::errc{} && stop != begin && *stop == '-' && pid > 0 && kill(pid, 0) != 0 &&
           errno == ESRCH;
}

void remove_stale_trees(const std::string& directory) {
    DIR* dir = opendir(directory.c_str());
    if (dir == nullptr) return;
    while (const dirent* entry = readdir(dir)) {
        if (!is_stale(entry->d_name)) continue;
        const std::string path = directory + "/" + entry->d_name;
        struct stat info;
        if (lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid())
            remove_tree(path);
    }
    closedir(dir);
}

} // namespace

DeviceNumber uverbs_number(unsigned index) noexcept {
    DeviceNumber number;
    number.minor += index;
    return number;
}

bool is_redirected(std::string_view path, bool pci_listed) noexcept {
    if (!path.starts_with("/sys/") && !path.starts_with("/dev/infiniband")) return false;
    for (const std::string_view own : own_directories)
        if (path.starts_with(own) && (path.size() == own.size() || path[own.size()] == '/')) return true;
    if (!path.starts_with(pci_devices)) return false;
    const std::string_view rest = path.substr(pci_devices.size());
    if (rest.empty() || rest == "/") return pci_listed;
    return rest.starts_with("/5357:"); // pci_domain
}

int uverbs_index(std::string_view path) noexcept {
    if (!path.starts_with(uverbs_prefix)) return -1;
    int index = -1;
    const std::string_view digits = path.substr(uverbs_prefix.size());
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    return error == std::errc{} && stop == digits.data() + digits.size() ? index : -1;
}

stride::Result<std::string> make_tree_root() {
    const char* tmp = std::getenv("TMPDIR");
    const std::string directory = tmp != nullptr && *tmp == '/' ? tmp : "/tmp";
    remove_stale_trees(directory);
    std::string root = strprintf("%s/swhca-%d-XXXXXX", directory.c_str(), getpid());
    if (mkdtemp(root.data()) == nullptr)
        return Error{errno,
                     strprintf("cannot make a directory in %s: %s", directory.c_str(), std::strerror(errno))};
    return root;
}

Status lay_tree(const Hca& hca, const std::string& root, bool pci_listed) {
    TreeWriter tree{root};
    for (const std::string_view own : own_directories)
        tree.directory(std::string(own));
    tree.directory(std::string(pci_devices));
    tree.directory("/sys/bus/pci/drivers/mlx5_core");
    tree.line("/sys/class/infiniband_verbs/abi_version", "6");
    for (const auto& device : hca.devices)
        lay_device(tree, *device);
    if (pci_listed) link_real_pci_devices(tree);
    return tree.status();
}

void remove_tree(const std::string& root) {
    const auto remove_entry = [](const char* path, const struct stat*, int, FTW*) {
        return std::remove(path);
    };
    nftw(root.c_str(), remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

void refresh_file(const Hca& hca, const std::string& root, std::string_view path) {
    constexpr std::string_view ports = "/ports/1/";
    const std::size_t at = path.find(ports);
    if (at == std::string_view::npos) return;
    const std::string_view before = path.substr(0, at);
    const std::string_view name = before.substr(before.rfind('/') + 1);
    const std::string_view rest = path.substr(at + ports.size());
    for (const auto& device : hca.devices) {
        if (device->name != name) continue;
        for (const LiveFile& live : live_files) {
            if (rest != live.path) continue;
            // A new file takes the old one's place, so that a reader sees one value or the other.
            const std::string target = std::string(path) + strprintf(".%d", gettid());
            TreeWriter tree{root};
            tree.line(target, live.content(device->port));
            std::rename((root + target).c_str(), (root + std::string(path)).c_str());
        }
    }
}

} // namespace swhca
