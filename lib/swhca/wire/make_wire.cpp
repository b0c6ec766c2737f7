// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/wire/make_wire.hpp"

#include "swhca/wire/crossing.hpp"
#include "swhca/wire/decorated.hpp"
#include "swhca/wire/gen.hpp"
#include "swhca/wire/kernel_wire.hpp"
#include "swhca/wire/loop.hpp"
#include "swhca/wire/options.hpp"
#include "swhca/wire/pair.hpp"
#include "swhca/wire/pcap.hpp"
#include "swhca/wire/shm.hpp"
#include "swhca/wire/switch.hpp"

namespace swhca {
namespace {

using stride::Error;
using stride::Result;
using WireResult = Result<std::unique_ptr<Wire>>;

WireResult make_pair(const PortOptions& options) {
    stride::Status keys = check_keys(options, {"peer"});
    if (!keys) return keys.take_error();
    const std::string* peer = options.find("peer");
    if (peer != nullptr && *peer == options.name) return option_error(options, "peer", "is the port itself");
    return WireResult{
        std::make_unique<PairWire>(options.name, peer != nullptr ? *peer : std::string{}, options.when_full)};
}

WireResult make_loop(const PortOptions& options) {
    stride::Status keys = check_keys(options, {});
    if (!keys) return keys.take_error();
    return WireResult{std::make_unique<LoopWire>()};
}

Result<PcapSettings> pcap_settings(const PortOptions& options) {
    stride::Status keys = check_keys(options, {"in", "out", "loop", "rate", "patience"});
    if (!keys) return keys.take_error();
    const Result<std::uint64_t> loops = number_option(options, "loop", 1);
    if (!loops) return loops.error();
    const Result<double> rate = rate_option(options, "rate");
    if (!rate) return rate.error();
    const Result<std::uint64_t> patience = number_option(options, "patience", PcapSettings{}.patience_ms);
    if (!patience) return patience.error();
    return PcapSettings{loops.value(), rate.value(), patience.value()};
}

WireResult make_pcap(const PortOptions& options) {
    const Result<PcapSettings> settings = pcap_settings(options);
    if (!settings) return settings.error();
    std::optional<Capture> input;
    std::optional<CaptureWriter> output;
    if (const std::string* path = options.find("in")) {
        Result<Capture> loaded = Capture::load(*path);
        if (!loaded) return Error{EINVAL, "port " + options.name + ": in: " + loaded.error().what};
        input = std::move(loaded).value();
    }
    if (const std::string* path = options.find("out")) {
        Result<CaptureWriter> created = CaptureWriter::create(*path);
        if (!created) return Error{EINVAL, "port " + options.name + ": out: " + created.error().what};
        output.emplace(std::move(created).value());
    }
    return WireResult{std::make_unique<PcapWire>(std::move(input), std::move(output), settings.value())};
}

WireResult make_plain_wire(const PortOptions& options) {
    if (options.wire == "pair") return make_pair(options);
    if (options.wire == "loop") return make_loop(options);
    if (options.wire == "pcap") return make_pcap(options);
    if (options.wire == "switch") return SwitchWire::make(options);
    if (options.wire == "shm") return ShmWire::make(options);
    if (options.wire == "tap" || options.wire == "af_packet") return KernelWire::make(options);
    if (options.wire == "gen") return make_gen_wire(options);
    return Error{EINVAL,
                 "port " + options.name + ": wire=" + options.wire +
                     ": no such wire; there are pair, loop, switch, shm, tap, af_packet, pcap and gen"};
}

} // namespace

WireResult make_wire(const PortOptions& options) {
    PortOptions plain = options;
    const Result<Decoration> decoration = take_decoration(plain);
    if (!decoration) return decoration.error();
    WireResult wire = make_plain_wire(plain);
    if (!wire) return wire;
    // On these the sender's engine hands frames to the receiver's port.
    if (plain.engines > 1 && (plain.wire == "pair" || plain.wire == "switch"))
        wire = WireResult{std::make_unique<CrossingWire>(std::move(wire).value(), plain.engines)};
    return decorate(std::move(wire).value(), decoration.value(), options);
}

} // namespace swhca
