// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/hca/report.hpp"

#include "base/barrier.hpp"
#include "base/format.hpp"
#include "swhca/hca/rules.hpp"

#include <iterator>

namespace swhca {
namespace {

using stride::strprintf;

constexpr NamedCounter counters[] = {
    {"tx_frames", &PortCounters::tx_frames},
    {"tx_bytes", &PortCounters::tx_bytes},
    {"tx_wqes", &PortCounters::tx_wqes},
    {"tx_doorbells", &PortCounters::tx_doorbells},
    {"tx_errors", &PortCounters::tx_errors},
    {"rx_frames", &PortCounters::rx_frames},
    {"rx_bytes", &PortCounters::rx_bytes},
    {"rx_wqes", &PortCounters::rx_wqes},
    {"rx_fillers", &PortCounters::rx_fillers},
    {"out_of_buffer", &PortCounters::out_of_buffer},
    {"rx_steering_miss", &PortCounters::rx_steering_miss},
    {"rx_oversize", &PortCounters::rx_oversize},
    {"rx_queue_error", &PortCounters::rx_queue_error},
    {"rx_bad_pkey", &PortCounters::rx_bad_pkey},
    {"rx_bad_qkey", &PortCounters::rx_bad_qkey},
    {"rx_no_qp", &PortCounters::rx_no_qp},
    {"rx_malformed", &PortCounters::rx_malformed},
    {"rx_foreign", &PortCounters::rx_foreign},
    {"rx_unplugged", &PortCounters::rx_unplugged},
};

std::string quoted(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            result += '\\';
            result += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            result += strprintf("\\u%04x", static_cast<unsigned>(c));
        } else {
            result += c;
        }
    }
    return result + '"';
}

/// Members of a JSON object, commas between.
class Members {
  public:
    void add(std::string_view name, const std::string& value) {
        text_ += text_.empty() ? "" : ", ";
        text_ += quoted(name) + ": " + value;
    }
    void add(std::string_view name, std::uint64_t value) { add(name, std::to_string(value)); }
    std::string object() const { return "{" + text_ + "}"; }

  private:
    std::string text_{};
};

std::string port_json(const Device& device) {
    const Port& port = device.port;
    Members members;
    members.add("device", quoted(device.name));
    members.add("mac", quoted(strprintf("%02x:%02x:%02x:%02x:%02x:%02x", port.mac[0], port.mac[1],
                                        port.mac[2], port.mac[3], port.mac[4], port.mac[5])));
    members.add("link_up", port_is_up(port) ? "true" : "false");
    Members values;
    for (const NamedCounter& counter : counters)
        values.add(counter.name, read_counter(port, counter.value));
    members.add("counters", values.object());
    Members wire;
    for (const auto& [name, value] : port.wire->counters())
        wire.add(name, value);
    members.add("wire", wire.object());
    members.add("contexts", device.contexts.size());
    return members.object();
}

} // namespace

std::span<const NamedCounter> port_counters() noexcept { return counters; }

std::uint64_t read_counter(const Port& port, std::uint64_t PortCounters::*value) noexcept {
    return stride::peek_from_device(&(port.counters.*value));
}

std::string report_json(const Hca& hca) {
    std::string text = "{\"ports\": [\n";
    for (const auto& device : hca.devices) {
        text += "  " + port_json(*device);
        text += &device == &hca.devices.back() ? "\n" : ",\n";
    }
    Members rules;
    for (std::size_t i = 0; i < rule_count; ++i) {
        const auto rule = static_cast<Rule>(i);
        if (broken_count(rule) != 0) rules.add(rule_name(rule), broken_count(rule));
    }
    text += "],\n\"broken_rules\": " + rules.object() +
            ",\n\"broken_total\": " + std::to_string(broken_total()) + "}\n";
    return text;
}

} // namespace swhca
