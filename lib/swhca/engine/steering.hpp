// SPDX-License-Identifier: BSD-3-Clause
/// Flow steering of a port: its rules compiled for the data path, first match wins.
#pragma once

#include "swhca/engine/parse.hpp"
#include "swhca/engine/rss.hpp"
#include "swhca/hca/port.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace swhca {

/// Where a rule leads.
struct Destination {
    Qp* qp{};
    const ToeplitzTables* tables{}; ///< RSS with fields to hash, else null
    std::uint32_t tag{};            ///< flow tag for the CQE
    bool drop{};

    /// The queue for a packet with this hash; null if the QP has none.
    Rq* queue(std::uint32_t hash) const noexcept {
        if (qp->rqt == nullptr) return qp->rq.get();
        const std::vector<Rq*>& wqs = qp->rqt->wqs;
        return wqs.empty() ? nullptr : wqs[hash & (wqs.size() - 1)];
    }
};

/// What rules compare, as words: the first is enough for rules on MAC address and EtherType.
struct FlowKey {
    static constexpr std::size_t word_count = 8;
    std::array<std::uint64_t, word_count> words{};
};

class Steering {
  public:
    /// Compiles the port's rules if they changed. Cheap if not.
    void refresh(const Port& port) {
        if (port.flow_changes != compiled_changes_ || !compiled_) [[unlikely]]
            compile(port);
    }
    /// Where the frame goes, or null if no rule takes it.
    const Destination* find(const std::byte* frame, const PacketInfo& info) noexcept {
        if (key_words_ == 0) return fallback_;
        if (key_words_ == 1 && last_valid_ && first_word(frame, info) == last_key_.words[0]) [[likely]]
            return last_destination_;
        const FlowKey key = make_key(frame, info);
        if (same_as_last(key)) [[likely]]
            return last_destination_;
        return look_up(key);
    }
    /// Some rule leads to a queue that is ready.
    bool listening() const noexcept;

    const std::vector<Destination>& sniffers() const noexcept { return sniffers_; }

  private:
    struct Rule {
        FlowKey value{}, mask{};
        std::size_t words{}; ///< leading words with a mask
        Destination destination{};
    };

    void compile(const Port& port);
    Destination make_destination(const Flow& flow);
    /// Destination address and EtherType, as they stand in the first word of a key.
    static std::uint64_t first_word(const std::byte* frame, const PacketInfo& info) noexcept {
        static_assert(std::endian::native == std::endian::little);
        std::uint64_t word;
        std::memcpy(&word, frame, sizeof word);
        return (word & 0xffff'ffff'ffffU) | std::uint64_t{info.ether_type} << 48;
    }
    FlowKey make_key(const std::byte* frame, const PacketInfo& info) const noexcept;
    bool same_as_last(const FlowKey& key) const noexcept {
        std::uint64_t difference = 0;
        for (std::size_t word = 0; word < key_words_; ++word)
            difference |= key.words[word] ^ last_key_.words[word];
        return difference == 0 && last_valid_;
    }
    const Destination* look_up(const FlowKey& key) noexcept;

    std::uint64_t compiled_changes_{};
    bool compiled_{};
    std::vector<Rule> rules_{};
    std::size_t key_words_{};       ///< leading words any rule looks at
    const Destination* fallback_{}; ///< the first rule, when no rule looks at anything
    FlowKey last_key_{};
    const Destination* last_destination_{};
    bool last_valid_{};
    std::vector<Destination> sniffers_{};
    std::vector<std::pair<std::array<std::uint8_t, 40>, std::unique_ptr<ToeplitzTables>>> tables_{};
};

} // namespace swhca
