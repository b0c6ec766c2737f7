// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/engine/faults.hpp"

#include "base/format.hpp"
#include "swhca/engine/disorder.hpp"
#include "swhca/engine/queues.hpp"
#include "swhca/engine/receive.hpp"
#include "swhca/hca/config.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <utility>

namespace swhca {
namespace {

using stride::Error;
using stride::Status;
using stride::strprintf;

constexpr std::uint64_t default_syndrome = 2; ///< local QP operation

std::vector<std::string_view> words_of(std::string_view text) {
    std::vector<std::string_view> words;
    while (!text.empty()) {
        const std::size_t begin = text.find_first_not_of(" \t\n");
        if (begin == text.npos) break;
        text.remove_prefix(begin);
        const std::size_t end = std::min(text.find_first_of(" \t\n"), text.size());
        words.push_back(text.substr(0, end));
        text.remove_prefix(end);
    }
    return words;
}

/// `key=value` words of a fault; what is asked for is ticked off.
class FaultKeys {
  public:
    explicit FaultKeys(std::span<const std::string_view> words)
        : words_{words.begin(), words.end()} {}
    std::optional<std::string_view> text(std::string_view key) {
        for (auto word = words_.begin(); word != words_.end(); ++word) {
            if (word->size() <= key.size() || (*word)[key.size()] != '=' || !word->starts_with(key)) continue;
            const std::string_view value = word->substr(key.size() + 1);
            words_.erase(word);
            return value;
        }
        return std::nullopt;
    }
    std::uint64_t number(std::string_view key, std::uint64_t fallback) {
        const auto given = text(key);
        if (!given) return fallback;
        const bool hex = given->starts_with("0x");
        const std::string_view digits = given->substr(hex ? 2 : 0);
        std::uint64_t value = 0;
        const char* end = digits.data() + digits.size();
        const auto [stop, error] = std::from_chars(digits.data(), end, value, hex ? 16 : 10);
        if (error != std::errc{} || stop != end) bad_ = std::string{key} + "=" + std::string{*given};
        return value;
    }
    /// Offers every word to `use(key, value)`; those it likes are ticked off.
    template <class Use>
    void take(Use use) {
        std::erase_if(words_, [&](std::string_view word) {
            const std::size_t equals = word.find('=');
            return equals != word.npos &&
                   use(std::string{word.substr(0, equals)}, std::string{word.substr(equals + 1)});
        });
    }
    /// What left() says.
    void complain(const std::string& why) { bad_ = why; }
    /// What was not asked for, or is no number.
    std::string left() const {
        if (!bad_.empty()) return bad_;
        return words_.empty() ? std::string{} : std::string{words_.front()};
    }

  private:
    std::vector<std::string_view> words_;
    std::string bad_{};
};

PortFaults& faults_of(Device& device) {
    if (!device.port.faults) device.port.faults = std::make_unique<PortFaults>();
    return *device.port.faults;
}

OneFault one_fault(FaultKeys& keys) {
    OneFault fault;
    fault.armed = true;
    fault.after = keys.number("after", 0);
    fault.syndrome = static_cast<std::uint8_t>(keys.number("syndrome", default_syndrome));
    return fault;
}

void set_filler(Device& device, FaultKeys& keys) {
    PortFaults& faults = faults_of(device);
    faults.filler_every = static_cast<std::uint32_t>(keys.number("every", 1));
    faults.filler_strides = static_cast<std::uint32_t>(keys.number("strides", 0));
    faults.filler_countdown = faults.filler_every;
}

void set_disorder(Device& device, FaultKeys& keys) {
    auto& disorder = faults_of(device).disorder;
    if (disorder) release_held(*disorder);
    const auto every = static_cast<std::uint32_t>(keys.number("every", 2));
    disorder = every != 0 ? std::make_unique<Disorder>() : nullptr;
    if (disorder) disorder->every = disorder->countdown = every;
}

void set_send_disorder(Device& device, FaultKeys& keys) {
    SendDisorder& disorder = faults_of(device).tx_disorder;
    release_held(disorder);
    disorder.every = disorder.countdown = static_cast<std::uint32_t>(keys.number("every", 2));
}

/// Keys are those of a port. What does not hold together stays as it was, and is left for the error.
void set_caps(Device& device, FaultKeys& keys) {
    DeviceCaps caps = device.caps;
    keys.take([&](const std::string& key, const std::string& value) {
        const auto set = set_cap(caps, key, value);
        return set.ok() && set.value();
    });
    if (const Status together = check_caps(caps); !together.ok()) return keys.complain(together.error().what);
    if (!device.first_caps) device.first_caps = std::make_unique<DeviceCaps>(device.caps);
    device.caps = caps;
}

void set_late(Device& device, FaultKeys& keys) {
    PortFaults& faults = faults_of(device);
    faults.late_passes = static_cast<std::uint32_t>(keys.number("passes", 0));
    faults.late_every = static_cast<std::uint32_t>(keys.number("every", 0));
}

void set_refusal(Device& device, FaultKeys& keys) {
    RefusedCommand refused;
    refused.name = keys.text("command").value_or("");
    refused.error = static_cast<int>(keys.number("errno", ENOMEM));
    refused.when = one_fault(keys);
    device.refused_commands.push_back(refused);
}

void remove_device(Device& device, FaultKeys&) {
    device.removed = true;
    for (const auto& context : device.contexts) {
        for (const auto& [handle, qp] : context->qps)
            if (qp->type != QpType::rss && qp->state != QueueState::reset)
                set_qp_state(*qp, QueueState::error);
        for (const auto& [handle, wq] : context->wqs)
            if (wq->state != QueueState::reset) set_rq_state(*wq, QueueState::error, device.port);
        send_async_event(*context, AsyncEvent::device_fatal, 0);
    }
    // What was posted is flushed now: no one touches the program's memory later, which it may free.
    for (Rq* rq : device.port.draining)
        drain(*rq);
    device.port.draining.clear();
    device.port.notifying.clear();
    device.port.forced_down.store(true);
}

void clear_faults(Device& device, FaultKeys&) {
    if (device.port.faults) release_held(*device.port.faults);
    if (device.first_caps) device.caps = *std::exchange(device.first_caps, nullptr);
    device.port.faults.reset();
    device.refused_commands.clear();
}

struct Kind {
    const char* name;
    void (*set)(Device& device, FaultKeys& keys);
};

constexpr Kind kinds[] = {
    {"rx_error", [](Device& device, FaultKeys& keys) { faults_of(device).rx_error = one_fault(keys); }},
    {"tx_error", [](Device& device, FaultKeys& keys) { faults_of(device).tx_error = one_fault(keys); }},
    {"cq_overrun", [](Device& device, FaultKeys& keys) { faults_of(device).cq_overrun = one_fault(keys); }},
    {"filler", set_filler},
    {"disorder", set_disorder},
    {"tx_disorder", set_send_disorder},
    {"caps", set_caps},
    {"late", set_late},
    {"refuse", set_refusal},
    {"remove", remove_device},
    {"clear", clear_faults},
};

Error fault_error(const std::string& why) { return {EINVAL, "fault: " + why}; }

} // namespace

Status inject_fault(Hca& hca, std::string_view text) {
    const std::vector<std::string_view> words = words_of(text);
    if (words.size() < 2) return fault_error("takes DEVICE KIND key=value ...");
    const auto device = std::find_if(hca.devices.begin(), hca.devices.end(),
                                     [&](const auto& known) { return known->name == words[0]; });
    if (device == hca.devices.end()) return fault_error("no device " + std::string{words[0]});
    const auto* kind = std::find_if(std::begin(kinds), std::end(kinds),
                                    [&](const Kind& known) { return words[1] == known.name; });
    if (kind == std::end(kinds)) {
        std::string list;
        for (const Kind& known : kinds)
            list += strprintf("%s%s", list.empty() ? "" : ", ", known.name);
        return fault_error(std::string{words[1]} + " is none; there are " + list);
    }
    FaultKeys keys{std::span{words}.subspan(2)};
    const Engine::Quiesced quiet{*(*device)->engine};
    kind->set(**device, keys);
    if (const std::string left = keys.left(); !left.empty()) {
        if (words[1] != "remove") {
            FaultKeys none{{}};
            clear_faults(**device, none);
        }
        return fault_error(std::string{words[1]} + " does not take " + left +
                           "; all faults of the device are off");
    }
    return {};
}

int refused_by_fault(Device& device, std::string_view name) noexcept {
    if (device.removed) return EIO;
    for (RefusedCommand& refused : device.refused_commands) {
        if ((refused.name.empty() || refused.name == name) && refused.when.strikes()) return refused.error;
    }
    return 0;
}

} // namespace swhca
