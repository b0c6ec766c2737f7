// SPDX-License-Identifier: BSD-3-Clause
/// What the user asks for: ports and engine options, from the command line or the environment.
///
/// One port is a text `NAME,key=value,...`; `\,` is a comma inside a value. Keys named here belong to the
/// port; all others go to its wire, which refuses those it does not know.
#pragma once

#include "base/result.hpp"
#include "swhca/engine/engine.hpp"
#include "swhca/hca/device.hpp"
#include "swhca/wire/wire.hpp"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace swhca {

/// One device with its one port.
struct PortConfig {
    PortOptions options{};             ///< name, wire and the wire's own keys
    std::array<std::uint8_t, 6> mac{}; ///< all zero: chosen by position (default_mac)
    std::string netdev{};              ///< companion interface, empty if none
    LinkLayer link_layer{LinkLayer::ethernet};
    std::uint16_t lid{}, sm_lid{};            ///< InfiniBand; lid 0: chosen by position
    std::vector<std::uint16_t> pkeys{0xffff}; ///< P_Key table
    std::uint32_t max_frame_bytes{65535};
    bool pause{};
    DeviceCaps caps{};
};

struct Config {
    std::vector<PortConfig> ports{};
    EngineOptions engine{};
    std::string report_path{};  ///< JSON report at exit, empty for none
    std::string control_path{}; ///< socket for `swhca stat` and `swhca fault`, empty for none
    bool list_on_pci{};         ///< show the devices in listings of the PCI bus also
};

/// Names of the environment variables by which `swhca run` speaks to the preloaded object.
namespace environment {
inline constexpr const char* ports = "SWHCA_PORTS";     ///< one port per line
inline constexpr const char* engine = "SWHCA_ENGINE";   ///< cpu=N,idle,manual,ports
inline constexpr const char* report = "SWHCA_REPORT";   ///< file name
inline constexpr const char* control = "SWHCA_CONTROL"; ///< name of the control socket
inline constexpr const char* pci = "SWHCA_PCI";         ///< 1: list the devices on the PCI bus
} // namespace environment

/// Parses one port. The error names the key and lists the known ones.
stride::Result<PortConfig> parse_port(std::string_view text);

/// Parses engine options: `cpu=N`, `idle`, `manual`, `ports`, comma-separated; empty is the default.
stride::Result<EngineOptions> parse_engine(std::string_view text);

/// Two ports joined back to back: what a program gets if nobody says anything.
std::vector<PortConfig> default_ports();

/// Checks what no single port can show: names used twice, MACs used twice; gives MACs to ports without.
stride::Status complete(Config& config);

/// Reads the environment. `get` is getenv.
stride::Result<Config> config_from_environment(const char* (*get)(const char* name));

/// Sets the cap that `key` names; false if it names none. Error: a value that the key does not take.
stride::Result<bool> set_cap(DeviceCaps& caps, const std::string& key, const std::string& value);
/// Caps that go together do.
stride::Status check_caps(const DeviceCaps& caps);

/// A line `  name   what it takes` for each key of a port itself.
std::string port_keys_help();
/// The names of these keys, commas between.
std::string port_key_names();

/// Locally administered address of the `index`-th port.
std::array<std::uint8_t, 6> default_mac(unsigned index) noexcept;

} // namespace swhca
