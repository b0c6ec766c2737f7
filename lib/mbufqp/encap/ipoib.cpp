// SPDX-License-Identifier: BSD-3-Clause
/// What is rare: multicast, address resolution, and all of the receive side that rewrites.
#include "mbufqp/encap/ipoib.hpp"

#include "base/format.hpp"

#include <algorithm>
#include <cerrno>

namespace stride::mbufqp {
namespace {

constexpr std::uint16_t ipv4_signature = 0x401b;
constexpr std::uint16_t ipv6_signature = 0x601b;
constexpr std::uint32_t max_mtu_bytes = 4092;
constexpr std::uint32_t payload_at = grh_bytes + ipoib_header_bytes;
/// Where the Ethernet header goes, so that the payload stays where it is.
constexpr std::uint32_t frame_at = payload_at - ethernet_header_bytes;
constexpr std::uint32_t ipv6_header_bytes = 40;

/// ARP (RFC 826) for IPv4 over links with `address_bytes` of hardware address.
struct ArpShape {
    std::uint16_t hardware;
    std::uint32_t address_bytes;

    constexpr std::uint32_t sender_at() const noexcept { return 8; }
    constexpr std::uint32_t sender_ip_at() const noexcept { return 8 + address_bytes; }
    constexpr std::uint32_t target_at() const noexcept { return 12 + address_bytes; }
    constexpr std::uint32_t target_ip_at() const noexcept { return 12 + 2 * address_bytes; }
    constexpr std::uint32_t bytes() const noexcept { return 16 + 2 * address_bytes; }

    bool matches(const std::byte* arp, std::uint32_t length) const noexcept {
        return length >= bytes() && load_at<be16>(arp).host() == hardware &&
               load_at<be16>(arp + 2).host() == ether_type::ipv4 &&
               std::to_integer<std::uint32_t>(arp[4]) == address_bytes && arp[5] == std::byte{4};
    }
    void write_head(std::byte* arp, be16 operation) const noexcept {
        store_at(arp, be16{hardware});
        store_at(arp + 2, be16{ether_type::ipv4});
        arp[4] = std::byte{static_cast<std::uint8_t>(address_bytes)};
        arp[5] = std::byte{4};
        store_at(arp + 6, operation);
    }
};
constexpr ArpShape ethernet_arp{1, 6};
constexpr ArpShape infiniband_arp{32, 20};

/// Link-layer address options of neighbour discovery (RFC 4861; RFC 4391 section 9.3: two bytes of padding,
/// then the hardware address).
constexpr std::uint32_t short_option_bytes = 8;
constexpr std::uint32_t long_option_bytes = 24;
constexpr std::uint32_t option_growth = long_option_bytes - short_option_bytes;
constexpr std::uint32_t long_option_address_at = 4;
constexpr std::uint32_t max_rewritten_options = 2;

/// Bytes of an ICMPv6 message before its options; 0: no neighbour discovery.
constexpr std::uint32_t message_bytes(std::uint8_t type) noexcept {
    switch (type) {
    case 133:
        return 8; // router solicitation
    case 134:
        return 16; // router advertisement
    case 135:
        return 24; // neighbour solicitation
    case 136:
        return 24; // neighbour advertisement
    case 137:
        return 40; // redirect
    default:
        return 0;
    }
}

/// An Internet checksum that follows what changes (RFC 1624).
class ChecksumUpdate {
  public:
    explicit ChecksumUpdate(be16 checksum) noexcept
        : sum_{static_cast<std::uint16_t>(~checksum.host())} {}
    void add(std::uint16_t word) noexcept { sum_ += word; }
    void remove(std::uint16_t word) noexcept { sum_ += static_cast<std::uint16_t>(~word); }
    void add_bytes(const std::byte* at, std::uint32_t bytes) noexcept {
        for (std::uint32_t i = 0; i < bytes; i += 2)
            add(load_at<be16>(at + i).host());
    }
    void remove_bytes(const std::byte* at, std::uint32_t bytes) noexcept {
        for (std::uint32_t i = 0; i < bytes; i += 2)
            remove(load_at<be16>(at + i).host());
    }
    be16 result() const noexcept {
        std::uint32_t folded = sum_;
        while (folded >> 16 != 0)
            folded = (folded & 0xffff) + (folded >> 16);
        return be16{static_cast<std::uint16_t>(~folded)};
    }

  private:
    std::uint32_t sum_;
};

std::uint64_t peer_key(UdAddress peer) noexcept { return std::uint64_t{peer.qpn.value} << 16 | peer.lid; }

std::array<std::uint64_t, 2> gid_words(const std::uint8_t* gid) noexcept {
    std::array<std::uint64_t, 2> words;
    std::memcpy(words.data(), gid, sizeof words);
    return words;
}

/// A neighbour discovery message in an IPv6 packet, whose options may be walked.
struct Neighbour {
    std::uint32_t options_at{}; ///< 0: it is none
    std::uint32_t end{};

    /// `bytes`: of the packet at `ip`, all of which may be read up to `readable`.
    static Neighbour find(const std::byte* ip, std::uint32_t bytes, std::uint32_t readable) noexcept {
        if (readable < ipv6_header_bytes + 8 || ip[6] != std::byte{ip_protocol::icmpv6} ||
            ip[7] != std::byte{255})
            return {};
        const std::uint32_t fixed = message_bytes(std::to_integer<std::uint8_t>(ip[ipv6_header_bytes]));
        const std::uint32_t end = ipv6_header_bytes + load_at<be16>(ip + 4).host();
        if (fixed == 0 || end > bytes || end < ipv6_header_bytes + fixed) return {};
        return {ipv6_header_bytes + fixed, std::min(end, readable)};
    }
    static std::uint32_t option_bytes(const std::byte* option) noexcept {
        return std::to_integer<std::uint32_t>(option[1]) * 8;
    }
    static bool is_link_address(const std::byte* option, std::uint32_t bytes) noexcept {
        return (option[0] == std::byte{1} || option[0] == std::byte{2}) && option_bytes(option) == bytes;
    }
};

Gid group_gid(const IpoibConfig& config, std::uint16_t signature) noexcept {
    Gid gid{};
    gid[0] = 0xff;
    gid[1] = static_cast<std::uint8_t>(0x10 | config.scope);
    gid[2] = static_cast<std::uint8_t>(signature >> 8);
    gid[3] = static_cast<std::uint8_t>(signature);
    gid[4] = static_cast<std::uint8_t>(config.pkey >> 8);
    gid[5] = static_cast<std::uint8_t>(config.pkey);
    return gid;
}

/// Group MAC of an IP multicast packet; false: it is none.
bool ip_group_mac(std::uint16_t type, const std::byte* ip, std::uint32_t bytes, std::byte* mac) noexcept {
    if (type == ether_type::ipv4 && bytes >= 20 && (ip[16] & std::byte{0xf0}) == std::byte{0xe0}) {
        store_at(mac, be32{0x01005e00});
        mac[3] = ip[17] & std::byte{0x7f};
        mac[4] = ip[18];
        mac[5] = ip[19];
        return true;
    }
    if (type == ether_type::ipv6 && bytes >= ipv6_header_bytes && ip[24] == std::byte{0xff}) {
        mac[0] = mac[1] = std::byte{0x33};
        std::memcpy(mac + 2, ip + 36, 4);
        return true;
    }
    return false;
}

} // namespace

Gid broadcast_gid(const IpoibConfig& config) noexcept {
    Gid gid = group_gid(config, ipv4_signature);
    std::fill(gid.begin() + 12, gid.end(), std::uint8_t{0xff});
    return gid;
}

Gid ipv4_group_gid(const IpoibConfig& config, std::uint32_t address) noexcept {
    Gid gid = group_gid(config, ipv4_signature);
    std::memcpy(gid.data() + 12, &address, sizeof address);
    gid[12] &= 0x0f; // 28 bits
    return gid;
}

Gid ipv6_group_gid(const IpoibConfig& config, const Gid& address) noexcept {
    Gid gid = group_gid(config, ipv6_signature);
    std::copy(address.begin() + 6, address.end(), gid.begin() + 6); // 80 bits
    return gid;
}

Status IpoibPort::check(const IpoibConfig& config) {
    const std::uint32_t qpn = config.own.qpn.value;
    if (qpn == 0 || qpn >= multicast_qpn.value) return Error{EINVAL, strprintf("IPoIB: QPN 0x%x", qpn)};
    const std::string who = strprintf("IPoIB 0x%x: ", qpn);
    if (config.own.lid == 0 || config.own.lid >= first_multicast_lid)
        return Error{EINVAL, who + strprintf("LID 0x%x; the port has none yet?", config.own.lid)};
    if (config.broadcast_lid < first_multicast_lid)
        return Error{EINVAL,
                     who + strprintf("broadcast LID 0x%x is not one of multicast", config.broadcast_lid)};
    if (config.mtu_bytes < 68 || config.mtu_bytes > max_mtu_bytes)
        return Error{EINVAL, who + strprintf("MTU %u, takes 68 to %u", config.mtu_bytes, max_mtu_bytes)};
    if (config.scope > 15 || config.service_level > 15 || config.static_rate > 15)
        return Error{EINVAL, who + strprintf("scope %u, service level %u, static rate %u: 4 bits each",
                                             config.scope, config.service_level, config.static_rate)};
    return {};
}

IpoibPort::IpoibPort(const IpoibConfig& config)
    : config_{config}
    , groups_{config.groups}
    , peers_{config.peers} {
    unicast_.key.qkey.qkey = be32{config.qkey}.wire();
    unicast_.stat_rate_sl = static_cast<std::uint8_t>(config.static_rate << 4 | config.service_level);
    // Multicast needs a GRH: it is where the group is named.
    constexpr std::uint32_t with_grh = 1U << 30;
    broadcast_ = unicast_;
    broadcast_.dqp_dct = be32{multicast_qpn.value | MLX5_EXTENDED_UD_AV}.wire();
    broadcast_.rlid = be16{config.broadcast_lid}.wire();
    broadcast_.grh_gid_fl = be32{with_grh | std::uint32_t{config.gid_index} << 20}.wire();
    const Gid everybody = broadcast_gid(config);
    std::memcpy(broadcast_.rgid, everybody.data(), everybody.size());
}

Status IpoibPort::add_group(const Gid& gid, std::uint16_t lid) {
    if (gid[0] != 0xff || lid < first_multicast_lid)
        return Error{EINVAL, strprintf("IPoIB 0x%x: GID %02x%02x.. at LID 0x%x is no multicast group",
                                       config_.own.qpn.value, gid[0], gid[1], lid)};
    if (!groups_.insert(gid_words(gid.data()), {lid}))
        return Error{ENOSPC, strprintf("IPoIB 0x%x: %u groups are all there can be", config_.own.qpn.value,
                                       groups_.capacity())};
    return {};
}

bool IpoibPort::remove_group(const Gid& gid) { return groups_.erase(gid_words(gid.data())); }

bool IpoibPort::group_address(const std::byte* frame, std::uint32_t bytes,
                              std::byte* datagram) const noexcept {
    if (!is_group(frame)) return false;
    mlx5_wqe_av av = broadcast_;
    const std::byte* const ip = frame + ethernet_header_bytes;
    const std::uint16_t type = load_at<be16>(frame + 2 * mac_bytes).host();
    std::byte mac[mac_bytes];
    // The MAC alone has too few bits of an IP group: the packet's own address names it.
    if (ip_group_mac(type, ip, bytes - ethernet_header_bytes, mac) &&
        std::memcmp(mac, frame, mac_bytes) == 0) {
        const Gid gid = type == ether_type::ipv4 ? ipv4_group_gid(config_, load_at<std::uint32_t>(ip + 16))
                                                 : ipv6_group_gid(config_, load_at<Gid>(ip + 24));
        Groups::Value lid;
        if (groups_.find(gid_words(gid.data()), lid)) {
            av.rlid = be16{static_cast<std::uint16_t>(lid[0])}.wire();
            std::memcpy(av.rgid, gid.data(), gid.size());
        }
    }
    std::memcpy(datagram, &av, sizeof av);
    return true;
}

HardwareAddress IpoibPort::hardware_address(const std::byte* mac) const noexcept {
    HardwareAddress address{};
    UdAddress peer;
    if (!peer_of(mac, peer)) return address;
    std::memcpy(address.data() + 1, mac + 1, 3);
    Peers::Value gid{};
    if (peer == config_.own)
        std::memcpy(address.data() + 4, config_.gid.data(), config_.gid.size());
    else if (peers_.find({peer_key(peer)}, gid))
        std::memcpy(address.data() + 4, gid.data(), sizeof gid);
    return address;
}

InlineHeader IpoibPort::control_header(const HeaderRequest& request, std::byte* out) const noexcept {
    const be16 type = load_at<be16>(request.frame + 2 * mac_bytes);
    const InlineHeader plain = Ipoib::plain_header(type, out);
    if (type == be16{ether_type::arp}) {
        const bool arp = ethernet_arp.matches(request.frame + ethernet_header_bytes,
                                              request.frame_bytes - ethernet_header_bytes);
        return arp ? arp_header(request, out) : plain;
    }
    const InlineHeader rewritten = neighbour_header(request, out);
    return rewritten.inlined_bytes == 0 ? plain : rewritten;
}

InlineHeader IpoibPort::arp_header(const HeaderRequest& request, std::byte* out) const noexcept {
    const std::byte* const from = request.frame + ethernet_header_bytes;
    UdAddress sender;
    // Nobody could answer.
    if (!peer_of(from + ethernet_arp.sender_at(), sender))
        return InlineHeader::refused(TxRefusal::no_address);
    std::byte* const to = out + ipoib_header_bytes;
    infiniband_arp.write_head(to, load_at<be16>(from + 6));
    store_at(to + infiniband_arp.sender_at(), hardware_address(from + ethernet_arp.sender_at()));
    std::memcpy(to + infiniband_arp.sender_ip_at(), from + ethernet_arp.sender_ip_at(), 4);
    store_at(to + infiniband_arp.target_at(), hardware_address(from + ethernet_arp.target_at()));
    std::memcpy(to + infiniband_arp.target_ip_at(), from + ethernet_arp.target_ip_at(), 4);
    // The padding of a short Ethernet frame is not sent.
    return {.inlined_bytes = ipoib_header_bytes + infiniband_arp.bytes(), .taken_bytes = request.frame_bytes};
}

InlineHeader IpoibPort::neighbour_header(const HeaderRequest& request, std::byte* out) const noexcept {
    const std::byte* const ip = request.frame + ethernet_header_bytes;
    const std::uint32_t bytes = request.frame_bytes - ethernet_header_bytes;
    const std::uint32_t readable =
        std::min(request.frame_bytes, Ipoib::header_reads_bytes) - ethernet_header_bytes;
    const Neighbour message = Neighbour::find(ip, bytes, readable);
    if (message.options_at == 0) return {};
    constexpr std::uint32_t checksum_at = ipv6_header_bytes + 2;
    ChecksumUpdate checksum{load_at<be16>(ip + checksum_at)};
    std::byte* const to = out + ipoib_header_bytes;
    std::uint32_t copied = 0, grown = 0;
    for (std::uint32_t at = message.options_at; at + short_option_bytes <= message.end;) {
        const std::byte* const option = ip + at;
        if (Neighbour::option_bytes(option) == 0) break; // malformed
        if (Neighbour::is_link_address(option, short_option_bytes) &&
            grown < max_rewritten_options * option_growth) {
            std::memcpy(to + copied + grown, ip + copied, at - copied);
            std::byte* const longer = to + at + grown;
            store_at(longer, be32{});
            longer[0] = option[0];
            longer[1] = std::byte{long_option_bytes / 8};
            store_at(longer + long_option_address_at, hardware_address(option + 2));
            checksum.remove_bytes(option, short_option_bytes);
            checksum.add_bytes(longer, long_option_bytes);
            checksum.add(option_growth); // length of the pseudo header
            copied = at + short_option_bytes;
            grown += option_growth;
        }
        at += Neighbour::option_bytes(option);
    }
    if (grown == 0) return {};
    store_at(to + 4, be16{static_cast<std::uint16_t>(load_at<be16>(ip + 4).host() + grown)});
    store_at(to + checksum_at, checksum.result());
    return {.inlined_bytes = ipoib_header_bytes + copied + grown,
            .taken_bytes = ethernet_header_bytes + copied};
}

/// Whether it is this port's, as far as a peer knows it: the GID may be left 0.
bool IpoibPort::is_own(const std::byte* address) const noexcept {
    const Gid gid = load_at<Gid>(address + 4);
    return (load_at<be32>(address).host() & 0xffffff) == config_.own.qpn.value &&
           (gid == config_.gid || gid == Gid{});
}

bool IpoibPort::learn(const std::byte* address, const ReceiveRequest& request, Mac& mac) noexcept {
    const std::uint32_t qpn = load_at<be32>(address).host() & 0xffffff;
    const std::uint8_t* const gid = reinterpret_cast<const std::uint8_t*>(address) + 4;
    if (qpn == config_.own.qpn.value && std::memcmp(gid, config_.gid.data(), config_.gid.size()) == 0) {
        mac = mac_of(config_.own);
        return true;
    }
    if (qpn != request.source_qpn) return false;
    const UdAddress peer{Qpn{qpn}, request.source_lid};
    peers_.remember({peer_key(peer)}, gid_words(gid));
    mac = mac_of(peer);
    return true;
}

void IpoibPort::write_ethernet_header(const ReceiveRequest& request, std::byte* out,
                                      bool multicast) const noexcept {
    const be16 type = load_at<be16>(request.data + grh_bytes);
    Mac destination = mac_of(config_.own);
    std::byte group[mac_bytes];
    if (multicast) {
        const bool ip =
            ip_group_mac(type.host(), request.data + payload_at, request.bytes - payload_at, group);
        if (!ip) std::fill(group, group + mac_bytes, std::byte{0xff});
        std::memcpy(destination.data(), group, mac_bytes);
    }
    const Mac source = mac_of({Qpn{request.source_qpn}, request.source_lid});
    store_at(out, destination);
    store_at(out + mac_bytes, source);
    store_at(out + 2 * mac_bytes, type);
}

Decapsulated IpoibPort::receive(const ReceiveRequest& request) noexcept {
    if (request.bytes < payload_at) return Decapsulated::dropped(RxDrop::rx_runt);
    if (request.total_bytes() - payload_at > config_.mtu_bytes)
        return Decapsulated::dropped(RxDrop::rx_oversize);
    constexpr std::uint32_t destination_gid_at = 24;
    const bool multicast = request.grh && request.data[destination_gid_at] == std::byte{0xff};
    // Another node may have the same QPN: only both numbers are a port's own.
    if (multicast && UdAddress{Qpn{request.source_qpn}, request.source_lid} == config_.own)
        return Decapsulated::dropped(RxDrop::rx_own_multicast);
    std::byte header[ethernet_header_bytes];
    write_ethernet_header(request, header, multicast);
    const std::uint16_t type = load_at<be16>(request.data + grh_bytes).host();
    Decapsulated frame{frame_at, request.total_bytes() - frame_at, RxDrop::none};
    if (type == ether_type::arp) frame = receive_arp(request);
    if (type == ether_type::ipv6) frame = receive_neighbour(request, frame);
    if (frame.ok()) std::memcpy(request.data + frame.offset, header, ethernet_header_bytes);
    return frame;
}

Decapsulated IpoibPort::receive_arp(const ReceiveRequest& request) noexcept {
    std::byte* const arp = request.data + payload_at;
    if (!infiniband_arp.matches(arp, request.bytes - payload_at))
        return Decapsulated::dropped(RxDrop::rx_logic);
    Mac sender, target{};
    if (!learn(arp + infiniband_arp.sender_at(), request, sender))
        return Decapsulated::dropped(RxDrop::rx_foreign_address);
    // The target is unknown in a request; of an answer nobody but us is asked to believe it. Its QPN may be
    // the sender's number, too.
    if (is_own(arp + infiniband_arp.target_at())) target = mac_of(config_.own);
    const auto sender_ip = load_at<std::uint32_t>(arp + infiniband_arp.sender_ip_at());
    const auto target_ip = load_at<std::uint32_t>(arp + infiniband_arp.target_ip_at());
    ethernet_arp.write_head(arp, load_at<be16>(arp + 6));
    store_at(arp + ethernet_arp.sender_at(), sender);
    store_at(arp + ethernet_arp.sender_ip_at(), sender_ip);
    store_at(arp + ethernet_arp.target_at(), target);
    store_at(arp + ethernet_arp.target_ip_at(), target_ip);
    return {frame_at, ethernet_header_bytes + ethernet_arp.bytes(), RxDrop::none};
}

Decapsulated IpoibPort::receive_neighbour(const ReceiveRequest& request, Decapsulated frame) noexcept {
    std::byte* ip = request.data + payload_at;
    const Neighbour message =
        Neighbour::find(ip, request.total_bytes() - payload_at, request.bytes - payload_at);
    if (message.options_at == 0) return frame;
    constexpr std::uint32_t checksum_at = ipv6_header_bytes + 2;
    ChecksumUpdate checksum{load_at<be16>(ip + checksum_at)};
    std::byte* const end = ip + message.end;
    std::uint32_t shrunk = 0;
    for (std::byte* option = ip + message.options_at; option + short_option_bytes <= end;) {
        const std::uint32_t length = Neighbour::option_bytes(option);
        if (length == 0 || option + length > end) return Decapsulated::dropped(RxDrop::rx_logic);
        std::byte* const next = option + length;
        if (Neighbour::is_link_address(option, long_option_bytes)) {
            Mac mac;
            if (!learn(option + long_option_address_at, request, mac))
                return Decapsulated::dropped(RxDrop::rx_foreign_address);
            checksum.remove_bytes(option, long_option_bytes);
            checksum.remove(option_growth);
            std::byte* const shorter = next - short_option_bytes;
            const std::byte type = option[0];
            // What is in front moves up: the payload behind may be long.
            std::memmove(ip + option_growth, ip, static_cast<std::size_t>(option - ip));
            shorter[0] = type;
            shorter[1] = std::byte{1};
            store_at(shorter + 2, mac);
            checksum.add_bytes(shorter, short_option_bytes);
            ip += option_growth;
            shrunk += option_growth;
        }
        option = next;
    }
    if (shrunk == 0) return frame;
    store_at(ip + 4, be16{static_cast<std::uint16_t>(load_at<be16>(ip + 4).host() - shrunk)});
    store_at(ip + checksum_at, checksum.result());
    return {frame.offset + shrunk, frame.bytes - shrunk, RxDrop::none};
}

} // namespace stride::mbufqp
