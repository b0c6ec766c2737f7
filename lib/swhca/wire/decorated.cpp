// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/wire/decorated.hpp"

#include "base/clock.hpp"
#include "base/log.hpp"
#include "swhca/wire/options.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace swhca {
namespace {

using stride::clock_ns;
using stride::Error;
using stride::Result;

constexpr unsigned quiet_polls_before_flush = 64;
constexpr unsigned most_overtakers = 4;
constexpr std::uint64_t overtaken_wait_ns = 1'000'000; ///< nobody comes by: it goes on
constexpr std::uint64_t seed_step = 0x9e3779b97f4a7c15U;

bool happens(std::mt19937_64& random, double probability) {
    // 53 bits of the number as a fraction: the same on every library.
    return probability > 0 && static_cast<double>(random() >> 11) * 0x1.0p-53 < probability;
}

std::vector<std::byte> gathered(const Frame& frame) {
    std::vector<std::byte> bytes;
    bytes.reserve(frame.length_bytes);
    for (const Segment& segment : frame.segments)
        bytes.insert(bytes.end(), segment.data, segment.data + segment.length_bytes);
    return bytes;
}

} // namespace

void TapWire::record(std::span<const Frame> frames) {
    if (frames.empty()) return;
    const std::uint64_t now_ns = clock_ns(CLOCK_REALTIME);
    for (const Frame& frame : frames)
        writer_.write(frame, now_ns);
    unflushed_ = true;
    quiet_polls_ = 0;
}

unsigned TapWire::transmit(std::span<const Frame> frames) {
    const unsigned gone = inner().transmit(frames);
    record(frames.first(gone));
    return gone;
}

unsigned TapWire::deliver(std::span<const Frame> frames, WhenFull when_full) {
    const unsigned gone = give_port(frames, when_full);
    record(frames.first(gone));
    return gone;
}

void TapWire::flush() {
    unflushed_ = false;
    const stride::Status flushed = writer_.flush();
    if (!flushed) stride::log_line(stride::LogLevel::error, "%s", flushed.error().what.c_str());
}

unsigned TapWire::poll(unsigned budget) {
    const unsigned moved = inner().poll(budget);
    if (unflushed_ && moved == 0 && ++quiet_polls_ >= quiet_polls_before_flush) flush();
    return moved;
}

void TapWire::close() {
    inner().close();
    flush();
}

TroubledWire::TroubledWire(std::unique_ptr<Wire> inner_wire, const Trouble& trouble)
    : DecoratedWire{std::move(inner_wire)}
    , trouble_{trouble} {
    for (std::size_t i = 0; i < ways_.size(); ++i)
        ways_[i].random.seed(trouble.seed + i * seed_step);
}

TroubledWire::Fate TroubledWire::draw(Way& way, const Frame& frame) {
    Fate fate;
    fate.drawn = true;
    fate.lost = happens(way.random, trouble_.loss);
    fate.twice = happens(way.random, trouble_.duplicate);
    if (happens(way.random, trouble_.corrupt) && frame.length_bytes != 0)
        fate.flipped_bit =
            static_cast<std::uint32_t>(1 + way.random() % (std::uint64_t{frame.length_bytes} * 8));
    if (happens(way.random, trouble_.reorder))
        fate.overtaken = static_cast<unsigned>(1 + way.random() % most_overtakers);
    fate.held = fate.overtaken != 0 || trouble_.delay_us != 0;
    return fate;
}

bool TroubledWire::forward(Direction direction, const Frame& frame, WhenFull when_full) {
    if (direction == Direction::out && plugged()) return inner().transmit({&frame, 1}) == 1;
    if (direction == Direction::out) return lost_.add(1), true;
    return give_port({&frame, 1}, when_full) == 1;
}

void TroubledWire::hold(Way& way, const Frame& frame, const Fate& fate, WhenFull when_full) {
    const std::uint64_t wait_ns = fate.overtaken != 0 ? overtaken_wait_ns : 0;
    way.held.push_back({gathered(frame), clock_ns(CLOCK_MONOTONIC) + wait_ns + trouble_.delay_us * 1000,
                        fate.overtaken, when_full});
    (fate.overtaken != 0 ? reordered_ : delayed_).add(1);
}

/// False: it waits, its fate known.
bool TroubledWire::pass(Direction direction, const Frame& frame, WhenFull when_full) {
    Way& way = ways_[static_cast<std::size_t>(direction)];
    if (!way.fate.drawn) way.fate = draw(way, frame);
    const Fate fate = way.fate;
    if (fate.lost) {
        lost_.add(1);
        way.fate = {};
        return true;
    }
    std::vector<std::byte> spoilt;
    Segment segment{};
    Frame passed = frame;
    if (fate.flipped_bit != 0) {
        spoilt = gathered(frame);
        const std::uint32_t bit = fate.flipped_bit - 1;
        spoilt[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
        segment = {spoilt.data(), frame.length_bytes};
        passed = {{&segment, 1}, frame.length_bytes};
    }
    if (fate.held) {
        hold(way, passed, fate, when_full);
    } else if (!forward(direction, passed, when_full)) {
        return false;
    }
    if (fate.flipped_bit != 0) corrupted_.add(1);
    if (fate.twice) {
        duplicated_.add(1);
        if (fate.held)
            hold(way, passed, fate, when_full);
        else
            (void)forward(direction, passed, WhenFull::drop);
    }
    way.fate = {};
    if (!fate.held) release(direction, true);
    return true;
}

/// Lets go what is due, or was passed by as many as it should be.
unsigned TroubledWire::release(Direction direction, bool passed_one) {
    Way& way = ways_[static_cast<std::size_t>(direction)];
    if (way.held.empty()) return 0;
    const std::uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    unsigned released = 0;
    for (auto held = way.held.begin(); held != way.held.end();) {
        if (passed_one && held->overtaken != 0) --held->overtaken;
        const bool passed_by = held->overtaken == 0 && trouble_.delay_us == 0;
        if (!passed_by && now_ns < held->due_ns) {
            ++held;
            continue;
        }
        const Segment segment{held->bytes.data(), static_cast<std::uint32_t>(held->bytes.size())};
        if (!forward(direction, {{&segment, 1}, segment.length_bytes}, held->when_full)) break;
        held = way.held.erase(held);
        ++released;
    }
    return released;
}

unsigned TroubledWire::transmit(std::span<const Frame> frames) {
    unsigned gone = 0;
    while (gone < frames.size() && pass(Direction::out, frames[gone], WhenFull::wait))
        ++gone;
    return gone;
}

unsigned TroubledWire::deliver(std::span<const Frame> frames, WhenFull when_full) {
    unsigned gone = 0;
    while (gone < frames.size() && pass(Direction::in, frames[gone], when_full))
        ++gone;
    return gone;
}

unsigned TroubledWire::poll(unsigned budget) {
    const unsigned moved = inner().poll(budget);
    return moved + release(Direction::out, false) + release(Direction::in, false);
}

std::vector<std::pair<std::string, std::uint64_t>> TroubledWire::counters() const {
    auto all = DecoratedWire::counters();
    all.emplace_back("trouble_lost", lost_.read());
    all.emplace_back("trouble_reordered", reordered_.read());
    all.emplace_back("trouble_duplicated", duplicated_.read());
    all.emplace_back("trouble_corrupted", corrupted_.read());
    all.emplace_back("trouble_delayed", delayed_.read());
    return all;
}

namespace {

Result<double> probability_option(const PortOptions& options, std::string_view key) {
    const std::string* text = options.find(key);
    if (text == nullptr) return 0.0;
    char* end = nullptr;
    const double value = std::strtod(text->c_str(), &end);
    if (text->empty() || *end != '\0' || !(value >= 0.0 && value <= 1.0))
        return option_error(options, key, "takes a probability from 0 to 1");
    return value;
}

constexpr const char* decoration_keys[] = {"pcap",    "loss",  "reorder",     "duplicate",
                                           "corrupt", "delay", "trouble_seed"};

} // namespace

Result<Decoration> take_decoration(PortOptions& options) {
    Decoration decoration;
    struct Probability {
        const char* key;
        double Trouble::*value;
    };
    for (const auto& [key, value] :
         {Probability{"loss", &Trouble::loss}, Probability{"reorder", &Trouble::reorder},
          Probability{"duplicate", &Trouble::duplicate}, Probability{"corrupt", &Trouble::corrupt}}) {
        const Result<double> read = probability_option(options, key);
        if (!read) return read.error();
        decoration.trouble.*value = read.value();
    }
    const Result<std::uint64_t> delay = number_option(options, "delay", 0);
    if (!delay) return delay.error();
    decoration.trouble.delay_us = delay.value();
    const Result<std::uint64_t> seed = number_option(options, "trouble_seed", 1);
    if (!seed) return seed.error();
    decoration.trouble.seed = seed.value();
    if (const std::string* path = options.find("pcap")) decoration.pcap_path = *path;
    std::erase_if(options.values, [](const auto& option) {
        return std::any_of(std::begin(decoration_keys), std::end(decoration_keys),
                           [&](const char* key) { return option.first == key; });
    });
    return decoration;
}

Result<std::unique_ptr<Wire>> decorate(std::unique_ptr<Wire> wire, const Decoration& decoration,
                                       const PortOptions& options) {
    // The tap is nearer to the wire: it shows what the other side gets.
    if (!decoration.pcap_path.empty()) {
        Result<CaptureWriter> writer = CaptureWriter::create(decoration.pcap_path, options.format);
        if (!writer) return Error{EINVAL, "port " + options.name + ": pcap: " + writer.error().what};
        wire = std::make_unique<TapWire>(std::move(wire), std::move(writer).value());
    }
    if (decoration.trouble.any()) wire = std::make_unique<TroubledWire>(std::move(wire), decoration.trouble);
    return Result<std::unique_ptr<Wire>>{std::move(wire)};
}

} // namespace swhca
