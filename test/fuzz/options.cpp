// SPDX-License-Identifier: BSD-3-Clause
// What users type: the driver's devargs, the model's ports and engine options, the options of wires that open
// no file.
#include "input.hpp"

#include "args.hpp"
#include "swhca/hca/config.hpp"
#include "swhca/wire/make_wire.hpp"

namespace {

template <class R>
void check_error(const R& result) {
    if (!result.ok()) fuzz::check(!result.error().what.empty(), "an error says what is wrong");
}

void parse_ports(std::string_view text) {
    swhca::Config config;
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(text.size(), line.size() + 1));
        auto port = swhca::parse_port(line);
        check_error(port);
        if (port.ok()) config.ports.push_back(std::move(port).value());
    }
    check_error(swhca::complete(config));
    for (const swhca::PortConfig& port : config.ports)
        if (port.options.wire == "gen" || port.options.wire == "pair")
            check_error(swhca::make_wire(port.options));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input{data, size};
    const std::uint8_t what = input.byte();
    const std::string_view text = fuzz::text_of(input.all());
    switch (what % 3) {
    case 0:
        parse_ports(text);
        break;
    case 1:
        check_error(swhca::parse_engine(text));
        break;
    default:
        check_error(stride::pmd::parse_args(text));
        break;
    }
    return 0;
}
