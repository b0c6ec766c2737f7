// SPDX-License-Identifier: BSD-3-Clause
// IPoIB and OPA VNIC packets from the fabric, and frames on their way into them.
#include "input.hpp"

#include "mbufqp/encap/ipoib.hpp"
#include "mbufqp/encap/opa_vnic.hpp"

#include <memory>

namespace {

using namespace stride::mbufqp;
using fuzz::Input;

/// Input that end where the sanitizer sees it.
struct Copy {
    explicit Copy(std::span<const std::uint8_t> bytes)
        : size{bytes.size()}
        , data{std::make_unique<std::byte[]>(bytes.size())} {
        if (size != 0) std::memcpy(data.get(), bytes.data(), size);
    }
    std::size_t size;
    std::unique_ptr<std::byte[]> data;
};

OpaVnicPort& vnic() {
    static OpaVnicPort port{[] {
        OpaVnicConfig config;
        config.vesw_id = 7;
        config.encap_slid = 0x12345;
        config.u_mcast_dlid = 0xf00001;
        config.def_port_mask = 3;
        config.u_ucast_dlid[0] = 0x11;
        config.u_ucast_dlid[1] = 0x12;
        return config;
    }()};
    return port;
}

IpoibPort& ipoib() {
    static IpoibPort port{[] {
        IpoibConfig config;
        config.own = {stride::Qpn{0x40}, 3};
        config.gid[15] = 1;
        return config;
    }()};
    return port;
}

void check_frame(const ReceiveRequest& request, const Decapsulated& frame) {
    if (!frame.ok()) {
        fuzz::check(static_cast<std::size_t>(frame.drop) < rx_drops, "a drop has a name");
        return;
    }
    fuzz::check(frame.offset + ethernet_header_bytes <= request.bytes, "the Ethernet header is in one piece");
    fuzz::check(frame.bytes >= ethernet_header_bytes &&
                    std::uint64_t{frame.offset} + frame.bytes <= request.total_bytes(),
                "the frame lies in the packet");
}

void receive(Input& input) {
    const std::uint8_t form = input.byte();
    ReceiveRequest request;
    request.behind_bytes = (form & 1) != 0 ? input.word() : 0;
    request.last_byte = std::byte{input.byte()};
    request.source_qpn = input.take<std::uint32_t>() & 0xffffff;
    request.source_lid = input.word();
    request.grh = (form & 2) != 0;
    Copy packet{input.all()};
    if (packet.size == 0) return;
    request.data = packet.data.get();
    request.bytes = static_cast<std::uint32_t>(packet.size);
    if ((form & 4) != 0)
        check_frame(request, ipoib().receive(request));
    else
        check_frame(request, vnic().receive(request));
}

template <class Encap>
void send(const void* context, Input& input) {
    const bool tag = (input.byte() & 1) != 0;
    const std::uint16_t tci = input.word();
    const std::uint32_t behind_bytes = input.word() % 9000U;
    Copy frame{input.all()};
    if (frame.size < Encap::min_frame_bytes) return;
    // The sender has header_reads_bytes in one piece, or all there is (lib/mbufqp/encap/header.hpp).
    HeaderRequest request{};
    request.context = context;
    request.frame = frame.data.get();
    request.frame_bytes =
        static_cast<std::uint32_t>(frame.size + (frame.size < Encap::header_reads_bytes ? 0 : behind_bytes));
    request.tag = tag;
    request.tci = tci;
    const auto address = std::make_unique<std::byte[]>(64);
    request.address = address.get();
    const auto out = std::make_unique<std::byte[]>(Encap::max_header_bytes);
    const InlineHeader header = Encap::header(request, out.get());
    if (!header.ok()) return;
    fuzz::check(header.inlined_bytes <= Encap::max_header_bytes, "the header fits its room");
    fuzz::check(header.taken_bytes <= request.frame_bytes, "no more is taken than the frame has");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Input input{data, size};
    switch (input.byte() % 4) {
    case 0:
    case 1:
        receive(input);
        break;
    case 2:
        send<Ipoib>(&ipoib(), input);
        break;
    default:
        send<OpaVnic>(&vnic(), input);
        break;
    }
    return 0;
}
