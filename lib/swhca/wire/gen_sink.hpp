// SPDX-License-Identifier: BSD-3-Clause
/// The far end of the `gen` wire for frames the port sends: counts, and checks them against the generator's.
#pragma once

#include "base/counter.hpp"
#include "swhca/wire/gen_templates.hpp"

#include <bitset>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace swhca {

/// Checked frames are those of a generator with the same options, on this port or on another: forwarders may
/// change MAC addresses and take the VLAN tag off, nothing else. Engine's thread; counters from any.
class GenSink {
  public:
    /// `templates` outlive the sink; nullptr: counts only and reads no frame.
    explicit GenSink(const GenTemplates* templates)
        : templates_{templates} {}

    void take(std::span<const Frame> frames) noexcept;
    void add_counters(std::vector<std::pair<std::string, std::uint64_t>>& out) const;

  private:
    static constexpr std::uint32_t window = 65536; ///< sequence numbers remembered to tell duplicates

    void check(const Frame& frame) noexcept;
    void account(std::uint32_t sequence) noexcept;
    void advance(std::uint32_t to) noexcept;

    const GenTemplates* templates_;
    std::bitset<window> seen_{}; ///< of the `window` sequence numbers before next_
    std::uint32_t next_{};       ///< one after the highest sequence number seen
    bool any_{};
    stride::Counter frames_{}, bytes_{};
    stride::Counter foreign_{};      ///< no stamp of a generator
    stride::Counter wrong_length_{}; ///< stamped, but longer or shorter than that frame was
    stride::Counter wrong_bytes_{};
    stride::Counter duplicates_{};
    stride::Counter reordered_{}; ///< came after a higher sequence number
    stride::Counter too_old_{};   ///< so late that duplicate or not can't be told
    stride::Counter skipped_{};   ///< sequence numbers jumped over; missing are these less reordered_
};

} // namespace swhca
