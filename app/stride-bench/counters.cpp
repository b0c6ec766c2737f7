// SPDX-License-Identifier: BSD-3-Clause
#include "counters.hpp"

#include <nlohmann/json.hpp>

#include <rte_ethdev.h>

#include <vector>

namespace bench {
namespace {

void add_numbers(const nlohmann::json& node, const std::string& name, Counters& out) {
    if (node.is_number_unsigned()) out[name] += node.get<std::uint64_t>();
    if (node.is_array())
        for (const auto& item : node)
            add_numbers(item, name, out);
    if (node.is_object())
        for (const auto& [key, value] : node.items())
            add_numbers(value, key, out);
}

} // namespace

Counters read_xstats(std::uint16_t port) {
    Counters counters;
    const int count = rte_eth_xstats_get(port, nullptr, 0);
    if (count <= 0) return counters;
    std::vector<rte_eth_xstat> values(static_cast<std::size_t>(count));
    std::vector<rte_eth_xstat_name> names(values.size());
    const auto size = static_cast<unsigned>(count);
    if (rte_eth_xstats_get(port, values.data(), size) != count ||
        rte_eth_xstats_get_names(port, names.data(), size) != count)
        return counters;
    for (const rte_eth_xstat& value : values)
        counters[names[value.id].name] = value.value;
    return counters;
}

Counters read_model(const Lockstep& engine) {
    Counters counters;
    add_numbers(nlohmann::json::parse(engine.report(), nullptr, false), "", counters);
    return counters;
}

Counters difference(const Counters& before, const Counters& after) {
    Counters grown;
    for (const auto& [name, value] : after) {
        const auto old = before.find(name);
        const std::uint64_t start = old == before.end() ? 0 : old->second;
        if (value > start) grown[name] = value - start;
    }
    return grown;
}

} // namespace bench
