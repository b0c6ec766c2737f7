// SPDX-License-Identifier: BSD-3-Clause
/// Switches in a process and between processes, taps, and wires with trouble.
#include "bytes.hpp"

#include "swhca/wire/addresses.hpp"
#include "swhca/wire/make_wire.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <sys/wait.h>
#include <unistd.h>

namespace swhca {
namespace {

using test::Bytes;

/// A port that keeps what it receives.
struct Port : FrameSink {
    explicit Port(const std::string& wire_kind, std::vector<std::pair<std::string, std::string>> values,
                  WireFormat format = WireFormat::ethernet, WhenFull when_full = WhenFull::drop) {
        PortOptions options;
        options.when_full = when_full;
        options.name = "p";
        options.wire = wire_kind;
        options.values = std::move(values);
        options.format = format;
        auto made = make_wire(options);
        EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().what);
        if (!made.ok()) return;
        wire = std::move(made).value();
        wire->attach(*this);
    }
    unsigned deliver(std::span<const Frame> frames, WhenFull when_full) override {
        unsigned taken = 0;
        for (const Frame& frame : frames) {
            if (full && when_full == WhenFull::wait) break;
            got.push_back(test::bytes_of(frame));
            ++taken;
        }
        return taken;
    }
    bool plugged() const override { return in_place; }
    bool listening() override { return true; }
    bool takes(const Frame&) override { return true; }
    std::uint64_t rule_changes() const override { return 1; }
    bool send(const Bytes& bytes) {
        Segment segment{};
        const Frame frame = test::frame_over(bytes, segment);
        return wire->transmit({&frame, 1}) == 1;
    }
    std::uint64_t counter(const std::string& name) const {
        for (const auto& [known, value] : wire->counters()) {
            if (known == name) return value;
        }
        ADD_FAILURE() << name;
        return 0;
    }

    std::unique_ptr<Wire> wire{};
    std::vector<Bytes> got{};
    bool full{};
    bool in_place{true};
};

Bytes ethernet(std::uint8_t to, std::uint8_t from, std::size_t length = 64) {
    Bytes frame(length, 0x5a);
    const Bytes macs{2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from};
    std::copy(macs.begin(), macs.end(), frame.begin());
    if (to == 0xff) frame[0] = 0xff;
    return frame;
}

Bytes infiniband(std::uint16_t to, std::uint16_t from) {
    Bytes frame(64, 0);
    ib::Lrh::destination_lid::set(frame.data(), to);
    ib::Lrh::source_lid::set(frame.data(), from);
    return frame;
}

Bytes opa(std::uint32_t to, std::uint32_t from) {
    Bytes frame(64, 0);
    const std::uint64_t words[2] = {(from & 0xfffffU) | std::uint64_t{to & 0xfffffU} << 32,
                                    (from >> 20) << 8 | (to >> 20) << 12};
    std::memcpy(frame.data(), words, sizeof words);
    return frame;
}

TEST(SwitchWire, ForwardsToWhomItHasHeardOfAndFloodsTheRest) {
    const std::vector<std::pair<std::string, std::string>> options{{"fabric", "eth"}};
    Port a{"switch", options}, b{"switch", options}, c{"switch", options}, other{"switch", {{"fabric", "x"}}};
    a.send(ethernet(2, 1));
    EXPECT_EQ(b.got.size(), 1U);
    EXPECT_EQ(c.got.size(), 1U);
    b.send(ethernet(1, 2));
    EXPECT_EQ(a.got.size(), 1U);
    EXPECT_EQ(c.got.size(), 1U) << "the switch has learned where 1 is";
    c.send(ethernet(0xff, 3));
    EXPECT_EQ(a.got.size(), 2U);
    EXPECT_EQ(b.got.size(), 2U);
    EXPECT_TRUE(other.got.empty());
}

TEST(SwitchWire, PortThatIsNotPluggedInGetsNothing) {
    Port a{"switch", {{"fabric", "unplugged"}}}, b{"switch", {{"fabric", "unplugged"}}};
    EXPECT_TRUE(b.send(ethernet(0xff, 2)));
    b.in_place = false;
    EXPECT_TRUE(a.send(ethernet(2, 1)));
    EXPECT_TRUE(a.send(ethernet(0xff, 1)));
    EXPECT_TRUE(b.got.empty());
    EXPECT_EQ(a.counter("frames_lost"), 1U);
    b.in_place = true;
    EXPECT_TRUE(a.send(ethernet(2, 1)));
    EXPECT_EQ(b.got.size(), 1U);
}

TEST(SwitchWire, ForwardsByLidOnInfiniBandAndOmniPath) {
    for (const WireFormat format : {WireFormat::infiniband, WireFormat::opa}) {
        const auto frame = [&](std::uint32_t to, std::uint32_t from) {
            return format == WireFormat::opa
                       ? opa(to, from)
                       : infiniband(static_cast<std::uint16_t>(to), static_cast<std::uint16_t>(from));
        };
        const std::uint32_t group = format == WireFormat::opa ? 0xf00001U : 0xc001U;
        const std::uint32_t big = format == WireFormat::opa ? 0x345678U : 7U;
        const std::vector<std::pair<std::string, std::string>> options{{"fabric", "lids"}};
        Port a{"switch", options, format}, b{"switch", options, format}, c{"switch", options, format};
        b.send(frame(group, big));
        EXPECT_EQ(a.got.size() + c.got.size(), 2U);
        a.send(frame(big, 1));
        EXPECT_EQ(b.got.size(), 1U);
        EXPECT_EQ(c.got.size(), 1U);
    }
}

TEST(SwitchWire, PortsOfDifferentLinkLayersDoNotMix) {
    Port a{"switch", {{"fabric", "mixed"}}};
    PortOptions options;
    options.name = "q";
    options.wire = "switch";
    options.values = {{"fabric", "mixed"}};
    options.format = WireFormat::infiniband;
    EXPECT_FALSE(make_wire(options).ok());
}

/// Of this process and those it forks.
const std::string& fabric_name() {
    static const std::string name = "unit-" + std::to_string(getpid());
    return name;
}

Port shared(WhenFull when_full) {
    return Port{"shm", {{"fabric", fabric_name()}}, WireFormat::ethernet, when_full};
}

Port pausing() { return shared(WhenFull::wait); }

TEST(ShmWire, FramesOfAllSizesArriveInOrderThroughManyRoundsOfTheRing) {
    Port a = pausing(), b = pausing();
    unsigned sent = 0, checked = 0;
    for (unsigned round = 0; round < 3000; ++round) {
        Bytes frame = ethernet(2, 1, 20 + round * 37 % 9000);
        frame[14] = static_cast<std::uint8_t>(round);
        frame[15] = static_cast<std::uint8_t>(round >> 8);
        EXPECT_TRUE(a.send(frame));
        ++sent;
        if (round % 3 != 0) continue;
        b.wire->poll(64);
        for (const Bytes& got : b.got) {
            EXPECT_EQ(got.size(), 20 + checked * 37 % 9000);
            EXPECT_EQ(got[14] | got[15] << 8, static_cast<int>(checked));
            ++checked;
        }
        b.got.clear();
    }
    b.wire->poll(64);
    EXPECT_EQ(checked + b.got.size(), sent);
}

TEST(ShmWire, FullRingPausesOrLosesAsAsked) {
    for (const bool pause : {true, false}) {
        const WhenFull when_full = pause ? WhenFull::wait : WhenFull::drop;
        Port a = shared(when_full), b = shared(when_full);
        b.send(ethernet(1, 2));
        a.wire->poll(64);
        unsigned sent = 0;
        while (sent < 1000 && a.send(ethernet(2, 1, 9000)))
            ++sent;
        EXPECT_EQ(sent == 1000, !pause);
        EXPECT_EQ(a.counter("frames_lost") != 0, !pause);
        while (b.wire->poll(64) != 0) {
        }
        EXPECT_TRUE(a.send(ethernet(2, 1, 9000)));
    }
}

TEST(ShmWire, FrameForAllWaitsForWhoeverIsFullAndReachesEachOnce) {
    Port a = pausing(), b = pausing(), c = pausing();
    const auto empty = [](Port& port) {
        while (port.wire->poll(64) != 0) {
        }
    };
    unsigned sent = 0;
    while (sent < 1000 && a.send(ethernet(2, 1, 9000)))
        ++sent;
    ASSERT_LT(sent, 1000U);
    empty(c);
    EXPECT_FALSE(a.send(ethernet(2, 1, 9000))); // b is full
    empty(b);
    EXPECT_TRUE(a.send(ethernet(2, 1, 9000)));
    empty(b);
    empty(c);
    EXPECT_EQ(b.got.size(), sent + 1);
    EXPECT_EQ(c.got.size(), sent + 1);
    EXPECT_EQ(a.counter("frames_lost"), 0U);
}

TEST(ShmWire, ProcessThatDiesLeavesItsPlaceAndStopsNobody) {
    Port a = pausing();
    for (unsigned round = 0; round < 12; ++round) { // more than there are places
        a.got.clear();
        const pid_t child = fork();
        if (child == 0) {
            Port b = pausing();
            b.send(ethernet(1, 2));
            _exit(0); // no destructor runs
        }
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        while (a.wire->poll(64) != 0) {
        }
        ASSERT_EQ(a.got.size(), 1U) << round;
        unsigned sent = 0;
        while (sent < 1000 && a.send(ethernet(2, 1, 9000)))
            ++sent;
        ASSERT_EQ(sent, 1000U) << "the ring of the dead must not pause the living";
    }
}

TEST(ShmWire, LastOneOutRemovesTheSegment) {
    const std::string path = "/dev/shm/swhca-" + fabric_name();
    {
        Port a{"shm", {{"fabric", fabric_name()}}};
        EXPECT_EQ(access(path.c_str(), F_OK), 0);
        Port b{"shm", {{"fabric", fabric_name()}}};
    }
    EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST(TroubledWire, LosesDuplicatesAndSpoilsTheSameFramesForTheSameSeed) {
    const auto run = [](const std::string& seed) {
        Port a{"loop", {{"loss", "0.1"}, {"duplicate", "0.1"}, {"corrupt", "0.1"}, {"trouble_seed", seed}}};
        for (unsigned i = 0; i < 1000; ++i)
            a.send(ethernet(static_cast<std::uint8_t>(i), 1));
        EXPECT_GT(a.counter("trouble_lost"), 100U); // of both directions
        EXPECT_GT(a.counter("trouble_duplicated"), 100U);
        EXPECT_GT(a.counter("trouble_corrupted"), 100U);
        return a.got;
    };
    const auto first = run("7");
    EXPECT_EQ(first, run("7"));
    EXPECT_NE(first, run("8"));
}

TEST(TroubledWire, ReorderedAndDelayedFramesAllArrive) {
    for (const auto& [key, value] : {std::pair{"reorder", "0.2"}, std::pair{"delay", "100"}}) {
        Port a{"loop", {{key, value}}};
        std::map<std::uint8_t, unsigned> seen;
        for (unsigned i = 0; i < 200; ++i)
            a.send(ethernet(static_cast<std::uint8_t>(i), 1));
        while (a.got.size() < 200)
            a.wire->poll(64);
        bool in_order = true;
        for (std::size_t i = 0; i < a.got.size(); ++i) {
            ++seen[a.got[i][5]];
            in_order = in_order && a.got[i][5] == static_cast<std::uint8_t>(i);
        }
        EXPECT_EQ(seen.size(), 200U);
        EXPECT_EQ(in_order, std::string{key} == "delay");
    }
}

TEST(TroubledWire, ProbabilityOutsideOneIsNamed) {
    PortOptions options;
    options.name = "p";
    options.wire = "loop";
    options.values = {{"loss", "1.5"}};
    const auto made = make_wire(options);
    ASSERT_FALSE(made.ok());
    EXPECT_NE(made.error().what.find("loss=1.5"), std::string::npos) << made.error().what;
}

TEST(KernelWire, InterfaceThatIsNotThereIsNamed) {
    PortOptions options;
    options.name = "p";
    options.wire = "af_packet";
    options.values = {{"dev", "no-such-if"}};
    const auto made = make_wire(options);
    ASSERT_FALSE(made.ok());
    EXPECT_NE(made.error().what.find("dev=no-such-if"), std::string::npos) << made.error().what;
}

TEST(KernelWire, LoopbackInterfaceGivesBackWhatAnotherSocketSends) {
    PortOptions options;
    options.name = "p";
    options.wire = "af_packet";
    options.values = {{"dev", "lo"}};
    if (!make_wire(options).ok()) GTEST_SKIP() << "no right to open packet sockets here";
    Port a{"af_packet", {{"dev", "lo"}}}, b{"af_packet", {{"dev", "lo"}}};
    Bytes frame = ethernet(1, 2);
    frame[12] = 0x88, frame[13] = 0xb5;
    ASSERT_TRUE(a.send(frame));
    for (unsigned i = 0; i < 1000 && b.got.empty(); ++i) {
        b.wire->poll(64);
        std::erase_if(b.got,
                      [](const Bytes& got) { return got.size() < 14 || got[12] != 0x88 || got[13] != 0xb5; });
    }
    ASSERT_FALSE(b.got.empty());
    EXPECT_EQ(b.got[0], frame);
}

TEST(TapWire, FileSaysWhatTheFramesAreAndHoldsBothDirections) {
    const std::string path = testing::TempDir() + "tap-" + std::to_string(getpid()) + ".pcap";
    const std::map<WireFormat, std::uint32_t> link_types{
        {WireFormat::ethernet, 1}, {WireFormat::infiniband, 197}, {WireFormat::opa, 147}};
    for (const auto& [format, link_type] : link_types) {
        Port a{"loop", {{"pcap", path}}, format};
        a.send(ethernet(1, 2));
        a.wire->close();
        std::ifstream file{path, std::ios::binary};
        Bytes bytes{std::istreambuf_iterator<char>{file}, {}};
        const std::size_t record = format == WireFormat::infiniband ? 16 : 0;
        ASSERT_EQ(bytes.size(), 24U + 2 * (16 + record + 64));
        std::uint32_t found = 0;
        std::memcpy(&found, bytes.data() + 20, sizeof found);
        EXPECT_EQ(found, link_type);
    }
    std::remove(path.c_str());
}

} // namespace
} // namespace swhca
