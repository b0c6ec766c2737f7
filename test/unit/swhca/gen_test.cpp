// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/wire/gen.hpp"

#include "swhca/engine/checksum.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>

using namespace swhca;

namespace {

/// A receiver that keeps what it takes.
class Receiver : public FrameSink {
  public:
    unsigned deliver(std::span<const Frame> frames, WhenFull when_full) override {
        last_when_full = when_full;
        unsigned taken = 0;
        for (const Frame& frame : frames) {
            if (room == 0 && when_full == WhenFull::wait) break;
            ++taken;
            if (room == 0) continue;
            --room;
            kept.push_back(flat(frame));
        }
        return taken;
    }
    bool listening() override { return is_listening; }
    bool takes(const Frame&) override { return has_rule; }
    std::uint64_t rule_changes() const override { return changes; }

    static std::vector<std::byte> flat(const Frame& frame) {
        std::vector<std::byte> bytes;
        for (const Segment& segment : frame.segments)
            bytes.insert(bytes.end(), segment.data, segment.data + segment.length_bytes);
        EXPECT_EQ(bytes.size(), frame.length_bytes);
        return bytes;
    }

    std::vector<std::vector<std::byte>> kept;
    std::size_t room = SIZE_MAX;
    bool is_listening = true, has_rule = true;
    std::uint64_t changes = 1;
    WhenFull last_when_full{};
};

PortOptions options_of(std::vector<std::pair<std::string, std::string>> values) {
    return PortOptions{.name = "mlx5_0", .wire = "gen", .values = std::move(values)};
}

struct Generator {
    explicit Generator(std::vector<std::pair<std::string, std::string>> values)
        : wire{parse_gen_options(options_of(std::move(values))).value()} {
        wire.attach(receiver);
    }
    void poll(unsigned frames) {
        while (frames != 0) {
            const unsigned moved = wire.poll(frames);
            if (moved == 0) break;
            frames -= moved;
        }
    }
    /// Sends frames back into the wire.
    void give_back(const std::vector<std::byte>& bytes) {
        const Segment segment{bytes.data(), static_cast<std::uint32_t>(bytes.size())};
        const Frame frame{{&segment, 1}, segment.length_bytes};
        EXPECT_EQ(wire.transmit({&frame, 1}), 1U);
    }
    std::uint64_t counter(const std::string& name) const {
        for (const auto& [key, value] : wire.counters())
            if (key == name) return value;
        ADD_FAILURE() << "no counter " << name;
        return 0;
    }
    Receiver receiver;
    GenWire wire;
};

std::uint16_t word_at(const std::vector<std::byte>& frame, std::size_t offset) {
    return static_cast<std::uint16_t>(std::to_integer<unsigned>(frame[offset]) << 8 |
                                      std::to_integer<unsigned>(frame[offset + 1]));
}

std::uint32_t sequence_of(const std::vector<std::byte>& frame, std::size_t offset = 42) {
    return static_cast<std::uint32_t>(word_at(frame, offset)) << 16 | word_at(frame, offset + 2);
}

/// L4 checksum of an IPv4 or IPv6 frame without tag.
bool l4_good(const std::vector<std::byte>& frame) {
    const bool ipv6 = word_at(frame, 12) == 0x86dd;
    const std::size_t l4 = ipv6 ? 54 : 34;
    const auto protocol = std::to_integer<std::uint16_t>(frame[ipv6 ? 20 : 23]);
    std::uint64_t sum = ipv6 ? sum_bytes(&frame[22], 32) : sum_bytes(&frame[26], 8);
    sum += sum_term(protocol) + sum_term(static_cast<std::uint16_t>(frame.size() - l4));
    sum += sum_bytes(&frame[l4], frame.size() - l4);
    return fold_sum(sum) == 0xffff;
}

} // namespace

TEST(GenOptions, NameTheKeyAndTheValueTheyRefuse) {
    for (const auto& [key, value] : std::vector<std::pair<std::string, std::string>>{{"size", "0"},
                                                                                     {"size", "9-8"},
                                                                                     {"size", "big"},
                                                                                     {"flows", "0"},
                                                                                     {"vlan", "4096"},
                                                                                     {"proto", "icmp"},
                                                                                     {"bad_csum", "2/3"},
                                                                                     {"rate", "0"},
                                                                                     {"count", "-1"},
                                                                                     {"dst", "1:2"},
                                                                                     {"check", "?"}}) {
        const auto parsed = parse_gen_options(options_of({{key, value}}));
        ASSERT_FALSE(parsed.ok()) << key << "=" << value;
        EXPECT_NE(parsed.error().what.find("mlx5_0: " + key + "=" + value), std::string::npos)
            << parsed.error().what;
    }
    const auto unknown = parse_gen_options(options_of({{"colour", "red"}}));
    ASSERT_FALSE(unknown.ok());
    EXPECT_NE(unknown.error().what.find("colour=red: wire gen has no such option"), std::string::npos);
}

TEST(GenOptions, RefuseFramesTooShortForHeadersAndStamp) {
    EXPECT_TRUE(parse_gen_options(options_of({{"size", "64"}, {"proto", "tcp"}})).ok());
    EXPECT_FALSE(parse_gen_options(options_of({{"size", "64"}, {"proto", "tcp"}, {"vlan", "5"}})).ok());
    EXPECT_FALSE(parse_gen_options(options_of({{"size", "60-1500"}, {"ipv6", "on"}, {"proto", "tcp"}})).ok());
}

TEST(GenWire, NumbersItsFramesAndKeepsEveryChecksumRight) {
    for (const char* proto : {"udp", "tcp"})
        for (const char* ipv6 : {"off", "on"}) {
            Generator gen{{{"size", "128-2000"}, {"flows", "7"}, {"proto", proto}, {"ipv6", ipv6}}};
            gen.poll(5000);
            ASSERT_EQ(gen.receiver.kept.size(), 5000U);
            const std::size_t stamp = (ipv6[1] == 'n' ? 54U : 34U) + (proto[0] == 't' ? 20U : 8U);
            for (std::uint32_t i = 0; i < 5000; ++i) {
                ASSERT_EQ(sequence_of(gen.receiver.kept[i], stamp), i);
                ASSERT_TRUE(l4_good(gen.receiver.kept[i])) << i;
                if (ipv6[1] != 'n') {
                    ASSERT_EQ(fold_sum(sum_bytes(&gen.receiver.kept[i][14], 20)), 0xffff);
                }
            }
        }
}

TEST(GenWire, MakesOneOfNChecksumsWrong) {
    Generator gen{{{"flows", "3"}, {"bad_csum", "1/10"}}};
    gen.poll(1000);
    unsigned bad = 0;
    for (const auto& frame : gen.receiver.kept)
        bad += l4_good(frame) ? 0 : 1;
    EXPECT_EQ(bad, 100U);
}

TEST(GenWire, MakesAsManyFlowsAsAsked) {
    Generator gen{{{"flows", "300"}}};
    gen.poll(900);
    std::map<std::string, unsigned> flows;
    for (const auto& frame : gen.receiver.kept)
        ++flows[std::string{reinterpret_cast<const char*>(&frame[26]), 12}];
    EXPECT_EQ(flows.size(), 300U);
    for (const auto& [flow, frames] : flows)
        EXPECT_EQ(frames, 3U);
}

TEST(GenWire, MixesSizesAsNamed) {
    Generator imix{{{"size", "imix"}}};
    imix.poll(1200);
    std::map<std::size_t, unsigned> sizes;
    for (const auto& frame : imix.receiver.kept)
        ++sizes[frame.size()];
    EXPECT_EQ(sizes, (std::map<std::size_t, unsigned>{{64, 700}, {590, 400}, {1514, 100}}));

    Generator range{{{"size", "100-103"}}};
    range.poll(1000);
    std::set<std::size_t> seen;
    for (const auto& frame : range.receiver.kept)
        seen.insert(frame.size());
    EXPECT_EQ(seen, (std::set<std::size_t>{100, 101, 102, 103}));
}

TEST(GenWire, WaitsForAListenerARuleAndAWqe) {
    Generator gen{{}};
    gen.receiver.is_listening = false;
    EXPECT_EQ(gen.wire.poll(10), 0U);
    gen.receiver.is_listening = true;
    gen.receiver.has_rule = false;
    EXPECT_EQ(gen.wire.poll(10), 0U);
    gen.receiver.has_rule = true;
    ++gen.receiver.changes;
    gen.receiver.room = 4;
    EXPECT_EQ(gen.wire.poll(10), 4U);
    EXPECT_EQ(gen.wire.poll(10), 0U);
    gen.receiver.room = 100;
    EXPECT_EQ(gen.wire.poll(10), 10U);
    EXPECT_EQ(sequence_of(gen.receiver.kept.back()), 13U);
    EXPECT_EQ(gen.receiver.last_when_full, WhenFull::wait);
}

TEST(GenWire, WithARateDropsWhatFindsNoRoom) {
    Generator gen{{{"rate", "1000000000"}}};
    gen.receiver.room = 1;
    while (gen.counter("frames_in") < 100)
        gen.wire.poll(32);
    EXPECT_EQ(gen.receiver.kept.size(), 1U);
    EXPECT_EQ(gen.receiver.last_when_full, WhenFull::drop);
}

TEST(GenWire, StopsAtItsCount) {
    Generator gen{{{"count", "70"}}};
    gen.poll(1000);
    EXPECT_EQ(gen.receiver.kept.size(), 70U);
    Generator none{{{"count", "0"}}};
    EXPECT_EQ(none.wire.poll(32), 0U);
}

TEST(GenSink, FindsItsOwnFramesIntact) {
    Generator gen{{{"size", "imix"}, {"flows", "5"}, {"check", "on"}}};
    gen.poll(300);
    for (auto frame : gen.receiver.kept) {
        frame[0] = std::byte{0xee}; // as a forwarder that sets the MAC addresses
        gen.give_back(frame);
    }
    EXPECT_EQ(gen.counter("sink_frames"), 300U);
    for (const char* name : {"sink_foreign", "sink_wrong_length", "sink_wrong_bytes", "sink_duplicates",
                             "sink_reordered", "sink_missing"})
        EXPECT_EQ(gen.counter(name), 0U) << name;
}

TEST(GenSink, AcceptsFramesThatLostTheirTag) {
    Generator gen{{{"size", "300"}, {"vlan", "12"}, {"check", "on"}}};
    gen.poll(2);
    gen.give_back(gen.receiver.kept[0]);
    auto stripped = gen.receiver.kept[1];
    EXPECT_EQ(word_at(stripped, 14), 12);
    stripped.erase(stripped.begin() + 12, stripped.begin() + 16);
    gen.give_back(stripped);
    EXPECT_EQ(
        gen.counter("sink_foreign") + gen.counter("sink_wrong_length") + gen.counter("sink_wrong_bytes"), 0U);
    EXPECT_EQ(gen.counter("sink_missing"), 0U);
}

TEST(GenSink, CountsEveryKindOfWrongFrame) {
    Generator gen{{{"size", "1500"}, {"check", "on"}}};
    gen.poll(10);
    const auto& sent = gen.receiver.kept;
    gen.give_back(sent[0]);
    gen.give_back(sent[0]);
    gen.give_back(sent[3]); // jumps over 1 and 2
    gen.give_back(sent[2]);
    auto damaged = sent[4];
    damaged[1400] ^= std::byte{1};
    gen.give_back(damaged);
    auto cut = sent[5];
    cut.resize(1499);
    gen.give_back(cut);
    gen.give_back(std::vector<std::byte>(64));
    gen.give_back(std::vector<std::byte>(14));
    EXPECT_EQ(gen.counter("sink_duplicates"), 1U);
    EXPECT_EQ(gen.counter("sink_reordered"), 1U);
    EXPECT_EQ(gen.counter("sink_missing"), 1U);
    EXPECT_EQ(gen.counter("sink_wrong_bytes"), 1U);
    EXPECT_EQ(gen.counter("sink_wrong_length"), 1U);
    EXPECT_EQ(gen.counter("sink_foreign"), 2U);
}
