// SPDX-License-Identifier: BSD-3-Clause
// Frames from the wire: parsed, checksummed, hashed, steered by rules and received, in strides and not.
#include "input.hpp"

#include "rig.hpp"
#include "swhca/engine/parse.hpp"
#include "swhca/engine/rss.hpp"

namespace {

using namespace swhca;
using namespace swhca::test;
using fuzz::Input;

/// A frame over several segments, each of which ends where the sanitizer sees it.
struct Pieces {
    Pieces(std::span<const std::uint8_t> bytes, Input& cuts) {
        std::size_t at = 0;
        while (at < bytes.size()) {
            const std::size_t least = at == 0 ? std::min<std::size_t>(bytes.size(), header_bytes) : 1;
            const std::size_t part = std::min(bytes.size() - at, least + cuts.byte());
            memory.push_back(std::make_unique<std::byte[]>(part));
            std::memcpy(memory.back().get(), bytes.data() + at, part);
            segments.push_back({memory.back().get(), static_cast<std::uint32_t>(part)});
            at += part;
        }
        frame = {segments, static_cast<std::uint32_t>(bytes.size())};
    }
    std::vector<std::unique_ptr<std::byte[]>> memory{};
    std::vector<Segment> segments{};
    Frame frame{};
};

template <class T>
void fill(T& field, T& mask, const T& good, Input& input) {
    const std::uint8_t how = input.byte();
    if (how < 0x80) return;
    field = how < 0xc0 ? good : input.take<T>();
    std::memset(&mask, how & 1 ? 0xff : input.byte(), sizeof mask);
}

void make_rule(FlowMatch& match, const Frame& frame, const PacketInfo& info, Input& input) {
    std::array<std::uint8_t, 6> destination;
    std::memcpy(destination.data(), frame.segments[0].data, 6);
    fill(match.dst_mac, match.dst_mac_mask, destination, input);
    fill(match.src_mac, match.src_mac_mask, destination, input);
    fill(match.ether_type, match.ether_type_mask, info.ether_type, input);
    fill(match.vlan_tci, match.vlan_tci_mask, info.vlan_tci, input);
    match.ip_version = info.ip_version;
    fill(match.ip_proto, match.ip_proto_mask, info.ip_proto, input);
    fill(match.src_port, match.src_port_mask, info.src_port, input);
    fill(match.dst_port, match.dst_port_mask, info.dst_port, input);
    fill(match.src_ip, match.src_ip_mask, {}, input);
    fill(match.dst_ip, match.dst_ip_mask, {}, input);
    match.needs_vlan = (input.byte() & 3) == 0;
}

void check_parsed(const Frame& frame, const PacketInfo& info) {
    const std::uint32_t seen = std::min(frame.length_bytes, header_bytes);
    fuzz::check(info.l3_offset <= seen && info.l4_offset <= seen, "offsets lie in the parsed bytes");
    if (info.complete && info.l4_type != prm::L4Type::none)
        fuzz::check(info.l4_offset + info.l4_bytes <= frame.length_bytes,
                    "a complete packet ends in its frame");
    if (info.ip_version == 0) fuzz::check(info.l4_type == prm::L4Type::none, "no L4 without IP");
}

void receive(const Frame& frame, const PacketInfo& info, Input& input) {
    Bench bench;
    TestCq cq{bench, 5};
    const std::uint8_t shape = input.byte();
    TestStridingRq rq{bench, cq, {1, 3U + (shape & 3U), 6U + (shape >> 2 & 3U), (shape & 16) != 0}};
    rq.rq.vlan_strip = (shape & 32) != 0;
    rq.rq.scatter_fcs = (shape & 64) != 0;
    rq.post(2);
    bench.steer_all_to(rq.rq);
    bench.qp.rss.fields = 0xff;
    bench.qp.rss.key.fill(0x6d);
    Flow rule{};
    rule.qp = &bench.qp;
    make_rule(rule.match, frame, info, input);
    bench.device.port.flows = {&rule, &bench.flow};
    ++bench.device.port.flow_changes;
    for (unsigned n = 0; n < 3; ++n)
        bench.wire->sink->deliver({&frame, 1}, WhenFull::drop);
    while (const auto cqe = cq.poll())
        if (cqe->opcode() == prm::CqeOpcode::responder_send)
            fuzz::check((cqe->get<prm::Cqe::byte_count>() & 0xffff) <= frame.length_bytes + 4,
                        "no longer than the frame");
    fuzz::check(broken_total() == 0, "a frame breaks no rule of the program's");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    ::testing::FLAGS_gtest_break_on_failure = true;
    reset_broken(true);
    Input input{data, size};
    Input choices{nullptr, 0};
    const auto chosen = input.some(24);
    choices = Input{chosen.data(), chosen.size()};
    const auto bytes = input.all();
    if (bytes.size() < 14) return 0; // no Ethernet header: wires refuse that (captures.cpp, engine tests)
    const Pieces pieces{bytes, choices};
    const PacketInfo info = parse(pieces.frame);
    check_parsed(pieces.frame, info);
    l3_checksum_ok(pieces.frame, info);
    l4_checksum_ok(pieces.frame, info);
    static const ToeplitzTables tables{{0x6d, 0x5a}};
    for (const std::uint64_t fields : {0xffU, 0x0fU, 0xf0U, 0x33U})
        rss_hash(tables, fields, pieces.segments[0].data, info);
    receive(pieces.frame, info, choices);
    return 0;
}
