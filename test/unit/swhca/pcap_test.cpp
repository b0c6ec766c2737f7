// SPDX-License-Identifier: BSD-3-Clause
/// Captures in and out, on files the test writes byte by byte.
#include "frames.hpp"

#include <cstdio>
#include <fstream>
#include <functional>
#include <thread>

#include <unistd.h>

namespace swhca::test {
namespace {

std::string temporary(const std::string& name) {
    return testing::TempDir() + "swhca-" + std::to_string(getpid()) + "-" + name;
}

/// A file that goes with the test.
class File {
  public:
    explicit File(const std::string& name)
        : path{temporary(name)} {}
    File(const std::string& name, const Bytes& content)
        : File{name} {
        std::ofstream out{path, std::ios::binary};
        out.write(reinterpret_cast<const char*>(content.data()),
                  static_cast<std::streamsize>(content.size()));
    }
    ~File() { std::remove(path.c_str()); }
    Bytes read() const {
        std::ifstream in{path, std::ios::binary};
        return {std::istreambuf_iterator<char>{in}, std::istreambuf_iterator<char>{}};
    }
    const std::string path;
};

void put32(Bytes& bytes, std::uint32_t value, bool big_endian = false) {
    for (unsigned i = 0; i < 4; ++i)
        bytes.push_back(static_cast<std::uint8_t>(value >> (big_endian ? 24 - 8 * i : 8 * i)));
}

/// pcap header: magic, version 2.4, snap length, link type.
Bytes pcap_header(std::uint32_t magic = 0xa1b2c3d4, std::uint32_t snap = 65535, std::uint32_t link_type = 1,
                  bool big_endian = false) {
    Bytes file;
    put32(file, magic, big_endian);
    put32(file, big_endian ? 0x00020004 : 0x00040002, big_endian);
    for (const std::uint32_t word : {0U, 0U, snap, link_type})
        put32(file, word, big_endian);
    return file;
}

void pcap_record(Bytes& file, const Bytes& frame, std::uint32_t fraction = 7, std::uint32_t original = 0,
                 bool big_endian = false) {
    const auto length = static_cast<std::uint32_t>(frame.size());
    for (const std::uint32_t word : {1000U, fraction, length, original != 0 ? original : length})
        put32(file, word, big_endian);
    file.insert(file.end(), frame.begin(), frame.end());
}

/// A pcapng file: section header, one Ethernet interface, enhanced packet blocks.
Bytes pcapng_file(const std::vector<Bytes>& frames) {
    Bytes file;
    for (const std::uint32_t word : {0x0a0d0d0aU, 28U, 0x1a2b3c4dU, 1U, 0xffffffffU, 0xffffffffU, 28U})
        put32(file, word);
    for (const std::uint32_t word : {1U, 20U, 1U, 0U, 20U})
        put32(file, word);
    for (const Bytes& frame : frames) {
        const auto length = static_cast<std::uint32_t>(frame.size());
        const std::uint32_t padded = (length + 3) / 4 * 4;
        for (const std::uint32_t word : {6U, 32 + padded, 0U, 5U, 6U, length, length})
            put32(file, word);
        file.insert(file.end(), frame.begin(), frame.end());
        file.insert(file.end(), padded - length, 0);
        put32(file, 32 + padded);
    }
    return file;
}

const std::vector<Bytes>& frames() {
    static const std::vector<Bytes> list{plain_frame(60, 1), plain_frame(1514, 2), plain_frame(14, 3),
                                         plain_frame(61, 4), plain_frame(9014, 5), plain_frame(42, 6)};
    return list;
}

/// Frames of a capture file by our own few lines, and the fraction of their time stamps.
std::vector<Bytes> read_pcap(const Bytes& file, std::uint32_t& magic) {
    std::vector<Bytes> found;
    const auto word = [&](std::size_t at) {
        std::uint32_t value;
        std::memcpy(&value, file.data() + at, 4);
        return value;
    };
    magic = file.size() >= 24 ? word(0) : 0;
    for (std::size_t at = 24; at + 16 <= file.size();) {
        const std::uint32_t length = word(at + 8);
        EXPECT_EQ(length, word(at + 12)) << "not cut";
        if (at + 16 + length > file.size()) break;
        const auto begin = file.begin() + static_cast<std::ptrdiff_t>(at) + 16;
        found.emplace_back(begin, begin + length);
        at += 16 + length;
    }
    return found;
}

/// A receiver under the test's control.
class Receiver final : public FrameSink {
  public:
    unsigned deliver(std::span<const Frame> offered, WhenFull when_full) override {
        unsigned gone = 0;
        for (const Frame& frame : offered) {
            if (room == 0 && when_full == WhenFull::wait) break;
            ++gone;
            if (room == 0) {
                ++dropped;
                continue;
            }
            --room;
            const auto* data = reinterpret_cast<const std::uint8_t*>(frame.segments.front().data);
            received.emplace_back(data, data + frame.length_bytes);
        }
        return gone;
    }
    bool listening() override { return listens; }
    bool takes(const Frame& frame) override { return would_take(frame); }
    std::uint64_t rule_changes() const override { return changes; }

    std::vector<Bytes> received{};
    unsigned room{~0U}, dropped{};
    bool listens{true};
    std::uint64_t changes{};
    std::function<bool(const Frame&)> would_take{[](const Frame&) { return true; }};
};

using Values = std::vector<std::pair<std::string, std::string>>;

stride::Result<std::unique_ptr<Wire>> wire_of(Values values) {
    PortOptions options;
    options.name = "west";
    options.wire = "pcap";
    options.values = std::move(values);
    return make_wire(options);
}

std::unique_ptr<Wire> made(Values values) {
    auto wire = wire_of(std::move(values));
    EXPECT_TRUE(wire.ok()) << (wire.ok() ? "" : wire.error().what);
    return wire.ok() ? std::move(wire).value() : nullptr;
}

std::uint64_t counter(const Wire& wire, const std::string& name) {
    for (const auto& [key, value] : wire.counters()) {
        if (key == name) return value;
    }
    ADD_FAILURE() << "no counter " << name;
    return 0;
}

/// What a receiver without limits gets from the file.
std::vector<Bytes> played(const Bytes& content) {
    const File file{"in", content};
    const auto wire = made({{"in", file.path}, {"patience", "0"}});
    Receiver receiver;
    if (wire == nullptr) return {};
    wire->attach(receiver);
    while (wire->poll(4) != 0) {
    }
    return receiver.received;
}

TEST(PcapWire, EveryFormatOfCaptureIsRead) {
    for (const bool big_endian : {false, true}) {
        for (const std::uint32_t magic : {0xa1b2c3d4U, 0xa1b23c4dU}) {
            Bytes file = pcap_header(magic, 65535, 1, big_endian);
            for (const Bytes& frame : frames())
                pcap_record(file, frame, 999'999, 0, big_endian);
            EXPECT_EQ(played(file), frames()) << big_endian << magic;
        }
    }
    EXPECT_EQ(played(pcapng_file(frames())), frames());
}

TEST(PcapWire, FramesCutByTheSnapLengthGoAsCaptured) {
    Bytes file = pcap_header(0xa1b2c3d4, 64);
    pcap_record(file, plain_frame(64), 0, 1514);
    EXPECT_EQ(played(file), std::vector<Bytes>{plain_frame(64)});
}

TEST(PcapWire, FileThatEndsWithinAFrameGivesTheFramesBefore) {
    Bytes file = pcap_header();
    pcap_record(file, frames()[0]);
    pcap_record(file, frames()[1]);
    file.erase(file.end() - 100, file.end());
    EXPECT_EQ(played(file), std::vector<Bytes>{frames()[0]});
}

TEST(PcapWire, LoopRepeatsTheInput) {
    const File file{"loop", pcapng_file(frames())};
    const auto wire = made({{"in", file.path}, {"loop", "3"}, {"patience", "0"}});
    ASSERT_NE(wire, nullptr);
    Receiver receiver;
    wire->attach(receiver);
    EXPECT_EQ(counter(*wire, "remaining"), 18U);
    EXPECT_EQ(counter(*wire, "finished"), 0U);
    while (wire->poll(5) != 0) {
    }
    ASSERT_EQ(receiver.received.size(), 18U);
    for (std::size_t i = 0; i < receiver.received.size(); ++i)
        EXPECT_EQ(receiver.received[i], frames()[i % 6]);
    EXPECT_EQ(counter(*wire, "remaining"), 0U);
    EXPECT_EQ(counter(*wire, "finished"), 1U);
    EXPECT_EQ(counter(*wire, "frames_in"), 18U);
}

TEST(PcapWire, WithoutRateAFrameWaitsForABuffer) {
    const File file{"wait", pcapng_file(frames())};
    const auto wire = made({{"in", file.path}, {"patience", "0"}});
    ASSERT_NE(wire, nullptr);
    Receiver receiver;
    wire->attach(receiver);
    receiver.room = 2;
    EXPECT_EQ(wire->poll(64), 2U);
    EXPECT_EQ(wire->poll(64), 0U);
    EXPECT_EQ(counter(*wire, "waiting"), 1U);
    receiver.room = 100;
    EXPECT_EQ(wire->poll(64), 4U);
    EXPECT_EQ(receiver.received, frames());
    EXPECT_EQ(receiver.dropped, 0U);
    EXPECT_EQ(counter(*wire, "waiting"), 0U);
}

TEST(PcapWire, InputStartsWhenAQueueListensAndStopsWhenNoneDoes) {
    const File file{"listen", pcapng_file(frames())};
    const auto wire = made({{"in", file.path}, {"patience", "0"}});
    ASSERT_NE(wire, nullptr);
    Receiver receiver;
    wire->attach(receiver);
    receiver.listens = false;
    EXPECT_EQ(wire->poll(64), 0U);
    receiver.listens = true;
    EXPECT_EQ(wire->poll(2), 2U);
    receiver.listens = false;
    EXPECT_EQ(wire->poll(64), 0U);
    receiver.listens = true;
    EXPECT_EQ(wire->poll(64), 4U);
}

TEST(PcapWire, FrameNoRuleTakesWaitsWhileTheProgramMayStillAddRules) {
    const File file{"patience", pcapng_file(frames())};
    const auto wire = made({{"in", file.path}, {"patience", "3600000"}});
    ASSERT_NE(wire, nullptr);
    Receiver receiver;
    wire->attach(receiver);
    receiver.would_take = [](const Frame& frame) { return frame.length_bytes == 60; };
    EXPECT_EQ(wire->poll(64), 1U) << "the first is taken";
    EXPECT_EQ(wire->poll(64), 0U);
    receiver.would_take = [](const Frame&) { return true; };
    ++receiver.changes; // promiscuous mode
    EXPECT_EQ(wire->poll(64), 5U);
}

TEST(PcapWire, PatienceEnds) {
    const File file{"patient", pcapng_file(frames())};
    const auto wire = made({{"in", file.path}, {"patience", "1"}});
    ASSERT_NE(wire, nullptr);
    Receiver receiver;
    wire->attach(receiver);
    receiver.would_take = [](const Frame&) { return false; };
    while (counter(*wire, "finished") == 0) // it would never end if patience did not
        wire->poll(64);
    EXPECT_EQ(receiver.received.size(), 6U);
}

TEST(PcapWire, WithARateNothingWaits) {
    const File file{"rate", pcapng_file(frames())};
    const auto wire = made({{"in", file.path}, {"rate", "1M"}, {"loop", "2"}});
    ASSERT_NE(wire, nullptr);
    Receiver receiver;
    wire->attach(receiver);
    receiver.room = 3;
    while (counter(*wire, "finished") == 0)
        wire->poll(64);
    EXPECT_EQ(receiver.received.size(), 3U);
    EXPECT_EQ(receiver.dropped, 9U);
}

TEST(PcapWire, SlowRateHoldsFramesBack) {
    const File file{"slow", pcapng_file(frames())};
    const auto wire = made({{"in", file.path}, {"rate", "0.01"}});
    ASSERT_NE(wire, nullptr);
    Receiver receiver;
    wire->attach(receiver);
    for (unsigned i = 0; i < 100; ++i)
        EXPECT_EQ(wire->poll(64), 0U) << "the second frame is due in 100 s";
}

TEST(PcapWire, OutputIsANanosecondCaptureOfTheFramesAsSent) {
    const File file{"out"};
    const auto wire = made({{"out", file.path}});
    ASSERT_NE(wire, nullptr);
    for (const Bytes& bytes : frames()) {
        const CutFrame cut{bytes, bytes.size() > 300 ? std::vector<std::uint32_t>{256, 17}
                                                     : std::vector<std::uint32_t>{}};
        EXPECT_EQ(wire->transmit({&cut.frame(), 1}), 1U);
    }
    wire->close();
    std::uint32_t magic = 0;
    EXPECT_EQ(read_pcap(file.read(), magic), frames());
    EXPECT_EQ(magic, 0xa1b23c4dU);
    EXPECT_EQ(counter(*wire, "frames_out"), 6U);
    EXPECT_EQ(played(file.read()), frames()) << "and our own input reads it";
}

TEST(PcapWire, ReaderSeesWholeFramesOnceTheWireIsIdle) {
    const File file{"idle"};
    const auto wire = made({{"out", file.path}});
    ASSERT_NE(wire, nullptr);
    const CutFrame cut{plain_frame(5000)};
    for (unsigned i = 0; i < 3; ++i)
        wire->transmit({&cut.frame(), 1});
    std::uint32_t magic = 0;
    // Ends when the flush has happened; the wire is polled as the engine does.
    while (read_pcap(file.read(), magic).size() != 3) {
        for (unsigned i = 0; i < 100; ++i)
            wire->poll(64);
    }
}

TEST(PcapWire, BadFilesAreOneClearLine) {
    const auto error = [](const std::string& path) {
        const auto wire = wire_of({{"in", path}});
        return wire.ok() ? std::string{} : wire.error().what;
    };
    EXPECT_EQ(error("/nowhere/x.pcap"), "port west: in: /nowhere/x.pcap: No such file or directory");
    const File text{"text", Bytes(100, 'x')};
    EXPECT_NE(error(text.path).find("port west: in: " + text.path + ": unknown file format"),
              std::string::npos)
        << error(text.path);
    const File empty{"empty", Bytes{}};
    EXPECT_NE(error(empty.path).find(empty.path), std::string::npos);
    const File none{"none", pcap_header()};
    EXPECT_EQ(error(none.path), "port west: in: " + none.path + ": the capture holds no frame");
    Bytes wireless = pcap_header(0xa1b2c3d4, 65535, 105);
    pcap_record(wireless, plain_frame(60));
    const File other{"wireless", wireless};
    EXPECT_EQ(error(other.path),
              "port west: in: " + other.path + ": link type IEEE802_11 (105) is not Ethernet");
    const auto out = wire_of({{"out", "/nowhere/out.pcap"}});
    ASSERT_FALSE(out.ok());
    EXPECT_EQ(out.error().what, "port west: out: /nowhere/out.pcap: No such file or directory");
    for (const std::string& what : {error(text.path), error(none.path), out.error().what})
        EXPECT_EQ(what.find('\n'), std::string::npos);
}

} // namespace
} // namespace swhca::test
