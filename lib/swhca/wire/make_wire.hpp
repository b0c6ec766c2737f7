// SPDX-License-Identifier: BSD-3-Clause
/// From `--port` options to wires.
#pragma once

#include "swhca/wire/wire.hpp"

namespace swhca {

/// Makes the wire `options.wire` names (`pair`, `pcap`, `gen`), with all its files open and loaded; put it
/// into port.wire before Engine::add_port. An unknown kind, key or value, and a file that can't be used, are
/// errors that name port, key and value.
///
/// - `pair`: [peer=NAME,][pause=on|off]. Without peer= the first such port is joined to the second, the third
///   to the fourth.
/// - `pcap`: [in=FILE,][out=FILE,][loop=N,][rate=PPS,][patience=MS]. loop=0 repeats for ever.
/// - `gen`: see gen_options.hpp.
stride::Result<std::unique_ptr<Wire>> make_wire(const PortOptions& options);

} // namespace swhca
