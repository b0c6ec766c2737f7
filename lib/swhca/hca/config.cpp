// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/hca/config.hpp"

#include "base/format.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <set>

namespace swhca {
namespace {

using stride::Error;
using stride::Result;
using stride::Status;
using stride::strprintf;

Error bad_value(std::string_view key, std::string_view value, const char* takes) {
    return Error{EINVAL, strprintf("%.*s=%.*s: the key takes %s", static_cast<int>(key.size()), key.data(),
                                   static_cast<int>(value.size()), value.data(), takes)};
}

/// `a,b\,c,d` -> `a`, `b,c`, `d`.
std::vector<std::string> split_escaped(std::string_view text) {
    std::vector<std::string> parts(1);
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == ',' || text[i + 1] == '\\')) {
            parts.back().push_back(text[++i]);
        } else if (text[i] == ',') {
            parts.emplace_back();
        } else {
            parts.back().push_back(text[i]);
        }
    }
    return parts;
}

bool parse_unsigned(std::string_view text, std::uint64_t& value) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    return error == std::errc{} && stop == end && !text.empty();
}

bool parse_switch(std::string_view text, bool& value) {
    if (text == "on" || text == "1" || text == "yes") return value = true, true;
    if (text == "off" || text == "0" || text == "no") return value = false, true;
    return false;
}

bool parse_mac(const std::string& text, std::array<std::uint8_t, 6>& mac) {
    unsigned byte[6];
    int used = 0;
    if (std::sscanf(text.c_str(), "%2x:%2x:%2x:%2x:%2x:%2x%n", &byte[0], &byte[1], &byte[2], &byte[3],
                    &byte[4], &byte[5], &used) != 6 ||
        static_cast<std::size_t>(used) != text.size())
        return false;
    std::transform(byte, byte + 6, mac.begin(), [](unsigned b) { return static_cast<std::uint8_t>(b); });
    const bool zero = std::all_of(mac.begin(), mac.end(), [](std::uint8_t b) { return b == 0; });
    return !zero && (mac[0] & 1) == 0;
}

/// `0xffff+0x8001`: partition keys, the first at index 0.
bool parse_pkeys(std::string_view text, std::vector<std::uint16_t>& pkeys) {
    constexpr std::size_t max_pkeys = 128;
    pkeys.clear();
    while (!text.empty() && pkeys.size() < max_pkeys) {
        const std::string_view one = text.substr(0, text.find('+'));
        if (!one.starts_with("0x")) return false;
        const char* end = one.data() + one.size();
        std::uint16_t pkey = 0;
        const auto [stop, error] = std::from_chars(one.data() + 2, end, pkey, 16);
        if (error != std::errc{} || stop != end || (pkey & 0x7fff) == 0) return false;
        pkeys.push_back(pkey);
        if (one.size() == text.size()) return true;
        text.remove_prefix(one.size() + 1);
    }
    return false;
}

/// A unicast LID.
bool parse_lid(std::string_view text, std::uint16_t& lid) {
    std::uint64_t number = 0;
    if (!parse_unsigned(text, number) || number == 0 || number >= 0xc000) return false;
    lid = static_cast<std::uint16_t>(number);
    return true;
}

/// A cap that a user may lower (or raise) to see how a driver copes.
struct NumberKey {
    const char* name;
    const char* takes;
    std::uint32_t DeviceCaps::*cap;
    std::uint32_t min, max;
};

constexpr NumberKey number_keys[] = {
    {"max_qp_wr", "1 to 32768 WQEs", &DeviceCaps::max_qp_wr, 1, 32768},
    {"max_sge", "1 to 30 segments", &DeviceCaps::max_sge, 1, 30},
    {"max_cqe", "1 to 4194303 CQEs", &DeviceCaps::max_cqe, 1, (1U << 22) - 1},
    {"max_log_rqt", "0 to 11 (log of entries)", &DeviceCaps::max_log_rqt_entries, 0, 11},
    {"max_tso", "0 (no TSO) to 262144 bytes", &DeviceCaps::max_tso_bytes, 0, 262144},
    {"min_log_stride", "6 to 13 (log of bytes)", &DeviceCaps::min_log_stride_bytes, 6, 13},
    {"max_log_stride", "6 to 13 (log of bytes)", &DeviceCaps::max_log_stride_bytes, 6, 13},
    {"min_log_strides", "3 to 16 (log of strides)", &DeviceCaps::min_log_strides, 3, 16},
    {"max_log_strides", "3 to 16 (log of strides)", &DeviceCaps::max_log_strides, 3, 16},
    {"min_log_wqe", "9 to 29 (log of bytes)", &DeviceCaps::min_log_wqe_bytes, 9, 29},
};

struct SwitchKey {
    const char* name;
    bool DeviceCaps::*cap;
};

constexpr SwitchKey switch_keys[] = {
    {"striding", &DeviceCaps::striding},
    {"compression", &DeviceCaps::cqe_compression},
    {"mpw", &DeviceCaps::enhanced_mpw},
};

/// Sets what `key` names of the port itself; false if the key is the wire's.
Result<bool> set_port_key(PortConfig& port, const std::string& key, const std::string& value) {
    std::uint64_t number = 0;
    if (key == "wire") {
        if (value.empty()) return bad_value(key, value, "the name of a wire");
        port.options.wire = value;
    } else if (key == "mac") {
        if (!parse_mac(value, port.mac)) return bad_value(key, value, "a unicast address, xx:xx:xx:xx:xx:xx");
    } else if (key == "netdev") {
        if (value.empty() || value.size() > 15 || value.find('/') != std::string::npos)
            return bad_value(key, value, "the name of a network interface");
        port.netdev = value;
    } else if (key == "max_frame") {
        if (!parse_unsigned(value, number) || number < 64 || number > 65535)
            return bad_value(key, value, "64 to 65535 bytes");
        port.max_frame_bytes = static_cast<std::uint32_t>(number);
    } else if (key == "pause") {
        if (!parse_switch(value, port.pause)) return bad_value(key, value, "on or off");
        port.options.when_full = port.pause ? WhenFull::wait : WhenFull::drop;
    } else if (key == "min_inline") {
        if (value != "none" && value != "l2") return bad_value(key, value, "none or l2");
        port.caps.min_inline_mode = value == "l2" ? 1 : 0;
    } else if (key == "link_layer") {
        if (value != "ib" && value != "eth" && value != "opa") return bad_value(key, value, "eth, ib or opa");
        port.link_layer = value == "ib" ? LinkLayer::infiniband : LinkLayer::ethernet;
        port.options.format = value == "ib"    ? WireFormat::infiniband
                              : value == "opa" ? WireFormat::opa
                                               : WireFormat::ethernet;
    } else if (key == "lid" || key == "sm_lid") {
        if (!parse_lid(value, key == "lid" ? port.lid : port.sm_lid))
            return bad_value(key, value, "1 to 49151");
    } else if (key == "pkey") {
        if (!parse_pkeys(value, port.pkeys)) return bad_value(key, value, "0x1 to 0xffff, several with +");
    } else {
        return set_cap(port.caps, key, value);
    }
    return true;
}

struct PlainKey {
    const char* name;
    const char* takes;
};

constexpr PlainKey plain_keys[] = {
    {"wire", "what the port is plugged into: pair, loop, switch, shm, pcap, gen"},
    {"mac", "xx:xx:xx:xx:xx:xx, unicast; default 02:53:57:00:00:NN"},
    {"netdev", "a network interface shown as belonging to the device"},
    {"max_frame", "64 to 65535 bytes"},
    {"pause", "on: frames wait for a receive WQE; off: they are dropped"},
    {"min_inline", "none or l2: what the device demands inline when sending"},
    {"link_layer", "eth (default), ib: InfiniBand, or opa: raw packets are Omni-Path's (16B)"},
    {"lid", "1 to 49151: the port's LID; default 1, 2, ... by position (ib)"},
    {"sm_lid", "1 to 49151: LID of the subnet manager; default 1 (ib)"},
    {"pkey", "0xffff+0x8001: partition keys, the first at index 0; default 0xffff"},
};

/// Calls `visit(name, takes)` for each key of a port itself.
template <class Visit>
void each_key(Visit visit) {
    for (const PlainKey& key : plain_keys)
        visit(key.name, key.takes);
    for (const NumberKey& key : number_keys)
        visit(key.name, key.takes);
    for (const SwitchKey& key : switch_keys)
        visit(key.name, "on or off");
}

bool name_is_fit(const std::string& name) {
    const auto fit = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
               c == '-';
    };
    return !name.empty() && name.size() < 32 && std::all_of(name.begin(), name.end(), fit);
}

} // namespace

Result<bool> set_cap(DeviceCaps& caps, const std::string& key, const std::string& value) {
    for (const NumberKey& known : number_keys) {
        if (key != known.name) continue;
        std::uint64_t number = 0;
        if (!parse_unsigned(value, number) || number < known.min || number > known.max)
            return bad_value(key, value, known.takes);
        caps.*known.cap = static_cast<std::uint32_t>(number);
        return true;
    }
    for (const SwitchKey& known : switch_keys) {
        if (key != known.name) continue;
        if (!parse_switch(value, caps.*known.cap)) return bad_value(key, value, "on or off");
        return true;
    }
    return false;
}

Status check_caps(const DeviceCaps& caps) {
    if (caps.min_log_stride_bytes > caps.max_log_stride_bytes)
        return Error{EINVAL, strprintf("min_log_stride %u is above max_log_stride %u",
                                       caps.min_log_stride_bytes, caps.max_log_stride_bytes)};
    if (caps.min_log_strides > caps.max_log_strides)
        return Error{EINVAL, strprintf("min_log_strides %u is above max_log_strides %u", caps.min_log_strides,
                                       caps.max_log_strides)};
    if (caps.min_log_wqe_bytes > caps.max_log_stride_bytes + caps.max_log_strides)
        return Error{EINVAL, strprintf("min_log_wqe %u is more than any WQE holds", caps.min_log_wqe_bytes)};
    return {};
}

std::array<std::uint8_t, 6> default_mac(unsigned index) noexcept {
    return {0x02, 0x53, 0x57, 0x00, static_cast<std::uint8_t>(index >> 8), static_cast<std::uint8_t>(index)};
}

std::string port_keys_help() {
    std::string text;
    each_key([&](const char* name, const char* takes) { text += strprintf("  %-16s%s\n", name, takes); });
    return text;
}

std::string port_key_names() {
    std::string text;
    each_key(
        [&](const char* name, const char*) { text += strprintf("%s%s", text.empty() ? "" : ", ", name); });
    return text;
}

Result<PortConfig> parse_port(std::string_view text) {
    const std::vector<std::string> parts = split_escaped(text);
    PortConfig port;
    port.options.name = parts.front();
    const auto say = [&](const std::string& what) {
        return Error{EINVAL, strprintf("port '%s': %s", parts.front().c_str(), what.c_str())};
    };
    if (!name_is_fit(port.options.name))
        return say("a port starts with its name (letters, digits, _ and -, at most 31), as in "
                   "mlx5_0,wire=pcap,in=a.pcap");
    std::set<std::string> seen;
    for (std::size_t i = 1; i < parts.size(); ++i) {
        const std::size_t equals = parts[i].find('=');
        if (equals == std::string::npos || equals == 0)
            return say(strprintf("'%s' is not key=value", parts[i].c_str()));
        const std::string key = parts[i].substr(0, equals);
        const std::string value = parts[i].substr(equals + 1);
        if (!seen.insert(key).second) return say(strprintf("key %s is given twice", key.c_str()));
        const Result<bool> taken = set_port_key(port, key, value);
        if (!taken.ok()) return say(taken.error().what);
        if (!taken.value()) port.options.values.emplace_back(key, value);
    }
    if (const Status caps = check_caps(port.caps); !caps.ok()) return say(caps.error().what);
    if (port.link_layer == LinkLayer::ethernet && (port.lid != 0 || port.sm_lid != 0))
        return say("lid and sm_lid are for link_layer=ib");
    return port;
}

Result<EngineOptions> parse_engine(std::string_view text) {
    EngineOptions options;
    if (text.empty()) return options;
    for (const std::string& part : split_escaped(text)) {
        std::uint64_t cpu = 0;
        if (part == "idle") {
            options.idle = true;
        } else if (part == "manual") {
            options.manual = true;
        } else if (part == "ports") {
            options.ports = true;
        } else if (part.starts_with("cpu=")) {
            if (!parse_unsigned(std::string_view(part).substr(4), cpu) || cpu > 4095)
                return Error{EINVAL, strprintf("engine: %s: cpu takes the number of a CPU", part.c_str())};
            options.cpu = static_cast<int>(cpu);
        } else {
            return Error{EINVAL, strprintf("engine: '%s' is not known; known: cpu=N, idle, manual, ports",
                                           part.c_str())};
        }
    }
    return options;
}

std::vector<PortConfig> default_ports() {
    std::vector<PortConfig> ports;
    for (const char* text : {"mlx5_0,wire=pair", "mlx5_1,wire=pair"})
        ports.push_back(parse_port(text).value());
    return ports;
}

Status complete(Config& config) {
    if (config.ports.empty()) config.ports = default_ports();
    std::set<std::string> names;
    std::set<std::array<std::uint8_t, 6>> macs;
    unsigned index = 0;
    for (PortConfig& port : config.ports) {
        if (port.mac == std::array<std::uint8_t, 6>{}) port.mac = default_mac(index);
        if (!names.insert(port.options.name).second)
            return Error{EINVAL, strprintf("port '%s' is given twice", port.options.name.c_str())};
        if (!macs.insert(port.mac).second)
            return Error{EINVAL, strprintf("port '%s': another port has its MAC", port.options.name.c_str())};
        if (port.link_layer == LinkLayer::infiniband) {
            if (port.lid == 0) port.lid = static_cast<std::uint16_t>(index + 1);
            if (port.sm_lid == 0) port.sm_lid = 1;
        }
        ++index;
    }
    return {};
}

Result<Config> config_from_environment(const char* (*get)(const char* name)) {
    Config config;
    const auto text_of = [&](const char* name) {
        const char* value = get(name);
        return std::string_view(value != nullptr ? value : "");
    };
    std::string_view lines = text_of(environment::ports);
    while (!lines.empty()) {
        const std::size_t end = std::min(lines.find('\n'), lines.size());
        const std::string_view line = lines.substr(0, end);
        lines.remove_prefix(std::min(end + 1, lines.size()));
        if (line.empty()) continue;
        Result<PortConfig> port = parse_port(line);
        if (!port.ok()) return std::move(port).take_error();
        config.ports.push_back(std::move(port).value());
    }
    Result<EngineOptions> engine = parse_engine(text_of(environment::engine));
    if (!engine.ok()) return std::move(engine).take_error();
    config.engine = engine.value();
    config.report_path = text_of(environment::report);
    config.control_path = text_of(environment::control);
    config.list_on_pci = text_of(environment::pci) == "1";
    if (const Status status = complete(config); !status.ok()) return status.error();
    return config;
}

} // namespace swhca
