// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/hca/rules.hpp"

#include <cstdarg>
#include <cstdio>

namespace swhca {
namespace {

constexpr std::uint64_t lines_per_rule = 10;

struct RuleInfo {
    const char* name;
    const char* text;
};

constexpr std::array<RuleInfo, rule_count> infos{{
#define SWHCA_RULE_INFO(name, text) {#name, text},
    SWHCA_RULES(SWHCA_RULE_INFO)
#undef SWHCA_RULE_INFO
}};

std::array<std::atomic<std::uint64_t>, rule_count> counts{};
std::atomic<bool> be_quiet{false};

std::size_t index_of(Rule rule) noexcept { return static_cast<std::size_t>(rule); }

} // namespace

const char* rule_name(Rule rule) noexcept { return infos[index_of(rule)].name; }
const char* rule_text(Rule rule) noexcept { return infos[index_of(rule)].text; }

void broken(Rule rule, const char* detail, ...) noexcept {
    const std::uint64_t before = counts[index_of(rule)].fetch_add(1, std::memory_order_relaxed);
    if (before >= lines_per_rule || be_quiet.load(std::memory_order_relaxed)) return;
    char text[256];
    va_list args;
    va_start(args, detail);
    std::vsnprintf(text, sizeof text, detail, args);
    va_end(args);
    std::fprintf(stderr, "swhca: broken rule %s: %s: %s%s\n", rule_name(rule), rule_text(rule), text,
                 before + 1 == lines_per_rule ? " (further ones are only counted)" : "");
}

std::uint64_t broken_count(Rule rule) noexcept {
    return counts[index_of(rule)].load(std::memory_order_relaxed);
}

std::uint64_t broken_total() noexcept {
    std::uint64_t total = 0;
    for (const auto& count : counts)
        total += count.load(std::memory_order_relaxed);
    return total;
}

void reset_broken(bool quiet) noexcept {
    for (auto& count : counts)
        count.store(0, std::memory_order_relaxed);
    be_quiet.store(quiet, std::memory_order_relaxed);
}

} // namespace swhca
