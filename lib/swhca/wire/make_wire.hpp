// SPDX-License-Identifier: BSD-3-Clause
/// From `--port` options to wires.
#pragma once

#include "swhca/wire/wire.hpp"

namespace swhca {

/// Makes the wire `options.wire` names, with all its files open and loaded; put it
/// into port.wire before Engine::add_port. An unknown kind, key or value, and a file that can't be used, are
/// errors that name port, key and value.
///
/// - `pair`: [peer=NAME,][pause=on|off]. Without peer= the first such port is joined to the second, the third
///   to the fourth.
/// - `pcap`: [in=FILE,][out=FILE,][loop=N,][rate=PPS,][patience=MS]. loop=0 repeats for ever.
/// - `loop`: what is sent comes back.
/// - `switch`: [fabric=NAME,][pause=on|off]. See switch.hpp.
/// - `shm`: fabric=NAME[,pause=on|off]. See shm.hpp.
/// - `tap`, `af_packet`: dev=NAME. See kernel_wire.hpp.
/// - any: [pcap=FILE,][loss=P,][reorder=P,][duplicate=P,][corrupt=P,][delay=US,][trouble_seed=N]. See
///   decorated.hpp.
/// - `gen`: see gen_options.hpp.
stride::Result<std::unique_ptr<Wire>> make_wire(const PortOptions& options);

} // namespace swhca
