// SPDX-License-Identifier: BSD-3-Clause
/// Pairs of ports, and the options of wires.
#include "frames.hpp"

namespace swhca::test {
namespace {

/// Keeps what it is given.
class TestSink final : public FrameSink {
  public:
    unsigned deliver(std::span<const Frame> frames, WhenFull when_full) override {
        last_when_full = when_full;
        unsigned taken = 0;
        for (const Frame& frame : frames) {
            if (room == 0) break;
            --room;
            ++taken;
            received.push_back(bytes_of(frame));
        }
        return taken;
    }
    bool listening() override { return true; }
    bool takes(const Frame&) override { return true; }
    std::uint64_t rule_changes() const override { return 0; }

    std::vector<Bytes> received{};
    bool plugged() const override { return in_place; }

    bool in_place{true};
    unsigned room{~0U};
    WhenFull last_when_full{};
};

PortOptions pair_options(std::string name, std::vector<std::pair<std::string, std::string>> values = {}) {
    PortOptions options;
    options.name = std::move(name);
    options.wire = "pair";
    options.values = std::move(values);
    return options;
}

std::unique_ptr<Wire> made(const PortOptions& options) {
    auto wire = make_wire(options);
    EXPECT_TRUE(wire.ok());
    return std::move(wire).value();
}

std::string error_of(const PortOptions& options) {
    const auto wire = make_wire(options);
    return wire.ok() ? std::string{} : wire.error().what;
}

TEST(PairWire, JoinsPortsTwoByTwo) {
    const auto a = made(pair_options("a"));
    EXPECT_FALSE(a->link_up());
    const auto b = made(pair_options("b")), c = made(pair_options("c")), d = made(pair_options("d"));
    TestSink to_a, to_b, to_c, to_d;
    a->attach(to_a);
    b->attach(to_b);
    c->attach(to_c);
    d->attach(to_d);
    EXPECT_TRUE(a->link_up());
    const CutFrame cut{plain_frame(300), {256, 10}};
    EXPECT_EQ(a->transmit({&cut.frame(), 1}), 1U);
    EXPECT_EQ(d->transmit({&cut.frame(), 1}), 1U);
    ASSERT_EQ(to_b.received.size(), 1U);
    EXPECT_EQ(to_b.received[0], plain_frame(300));
    EXPECT_EQ(to_c.received.size(), 1U);
    EXPECT_TRUE(to_a.received.empty() && to_d.received.empty());
    EXPECT_EQ(to_b.last_when_full, WhenFull::drop);
}

TEST(PairWire, PeerIsChosenByName) {
    const auto a = made(pair_options("a", {{"peer", "c"}}));
    const auto b = made(pair_options("b"));
    EXPECT_FALSE(b->link_up());
    const auto c = made(pair_options("c", {{"peer", "a"}}));
    EXPECT_TRUE(a->link_up());
    EXPECT_TRUE(c->link_up());
    EXPECT_FALSE(b->link_up());
}

TEST(PairWire, PauseIsToldToTheReceiverAndStopsTheSender) {
    PortOptions options_a = pair_options("a"), options_b = pair_options("b");
    options_a.when_full = options_b.when_full = WhenFull::wait;
    const auto a = made(options_a);
    const auto b = made(options_b);
    TestSink to_a, to_b;
    a->attach(to_a);
    b->attach(to_b);
    to_b.room = 1;
    const CutFrame cut{plain_frame(60)};
    const Frame two[] = {cut.frame(), cut.frame()};
    EXPECT_EQ(a->transmit(two), 1U);
    EXPECT_EQ(to_b.last_when_full, WhenFull::wait);
}

TEST(PairWire, PulledPlugGetsNothingAndIsSeenAtTheOtherEnd) {
    const auto a = made(pair_options("a"));
    const auto b = made(pair_options("b"));
    TestSink to_a, to_b;
    a->attach(to_a);
    b->attach(to_b);
    to_b.in_place = false;
    EXPECT_FALSE(a->link_up());
    const CutFrame cut{plain_frame(60)};
    EXPECT_EQ(a->transmit({&cut.frame(), 1}), 1U) << "lost, not held up";
    EXPECT_TRUE(to_b.received.empty());
    to_b.in_place = true;
    EXPECT_TRUE(a->link_up());
    EXPECT_EQ(a->transmit({&cut.frame(), 1}), 1U);
    EXPECT_EQ(to_b.received.size(), 1U);
}

TEST(PairWire, WithoutPeerFramesAreLostAndCounted) {
    const auto a = made(pair_options("a"));
    const CutFrame cut{plain_frame(60)};
    EXPECT_EQ(a->transmit({&cut.frame(), 1}), 1U);
    const auto counters = a->counters();
    const std::pair<std::string, std::uint64_t> lost{"frames_lost", 1};
    EXPECT_NE(std::find(counters.begin(), counters.end(), lost), counters.end());
}

TEST(PairWire, EitherSideMayGoFirst) {
    auto a = made(pair_options("a"));
    auto b = made(pair_options("b"));
    a.reset();
    EXPECT_FALSE(b->link_up());
    const auto c = made(pair_options("c")), d = made(pair_options("d"));
    EXPECT_TRUE(d->link_up()) << "the dead wire is no candidate";
}

TEST(WireOptions, ErrorsNamePortKeyAndValue) {
    PortOptions options = pair_options("east", {{"colour", "red"}});
    EXPECT_EQ(error_of(options), "port east: colour=red: wire pair has no such option; it has peer");
    options.values = {{"peer", "west"}, {"peer", "north"}};
    EXPECT_NE(error_of(options).find("given twice"), std::string::npos);
    options.values = {{"peer", "east"}};
    EXPECT_NE(error_of(options).find("is the port itself"), std::string::npos);
    options.wire = "string";
    EXPECT_NE(error_of(options).find("port east: wire=string: no such wire"), std::string::npos);
    options.wire = "pcap";
    for (const char* bad : {"0", "-1", "fast", "1X", "", "1e999"}) {
        options.values = {{"rate", bad}};
        EXPECT_NE(error_of(options).find(std::string{"rate="} + bad), std::string::npos) << bad;
    }
    for (const char* bad : {"-1", "1.5", "x", "", "99999999999999999999999"}) {
        options.values = {{"loop", bad}};
        EXPECT_NE(error_of(options).find(std::string{"loop="} + bad), std::string::npos) << bad;
    }
    options.values = {{"rate", "1.5M"}, {"loop", "3"}, {"patience", "10"}};
    EXPECT_EQ(error_of(options), "");
}

} // namespace
} // namespace swhca::test
