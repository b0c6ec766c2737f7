// SPDX-License-Identifier: BSD-3-Clause
/// mbufqp.h: the skin. Errors turn into -errno here and nowhere else.
#include "mbufqp/mbufqp.h"

#include "mbufqp/qp.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

using stride::Error;
using stride::Status;
namespace qps = stride::mbufqp;

struct mbufqp {
    std::unique_ptr<qps::Qp> qp{};
};

namespace {

thread_local char last_error[256];

int fail(const Error& error) noexcept {
    std::snprintf(last_error, sizeof last_error, "%s", error.what.c_str());
    return -error.code;
}
int done(const Status& status) noexcept { return status.ok() ? 0 : fail(status.error()); }

qps::Gid gid_of(const std::uint8_t* gid) noexcept {
    qps::Gid made;
    std::memcpy(made.data(), gid, made.size());
    return made;
}

void add(mbufqp_stats& to, const qps::TxStats& from) noexcept {
    to.tx_packets += from.packets;
    to.tx_bytes += from.bytes;
    to.tx_errors += from.errors;
    to.tx_full += from.full;
    to.tx_wqes += from.wqes;
    to.tx_recoveries += from.recoveries;
    for (const std::uint64_t refused : from.refused)
        to.tx_refused += refused;
}

void add(mbufqp_stats& to, const qps::RxChannel& from) noexcept {
    const stride::mprq::RxStats stats = from.stats();
    to.rx_dropped += stats.dropped();
    const qps::RxFrames* const frames = from.frames();
    to.rx_packets += frames != nullptr ? frames->packets.read() : stats.packets;
    to.rx_bytes += frames != nullptr ? frames->bytes.read() : stats.bytes;
    if (frames == nullptr) return;
    for (const stride::Counter& counter : frames->drops)
        to.rx_dropped += counter.read();
}

/// What the kernel calls the refusals of an OPA VNIC port.
const char* refusal_name(const qps::Qp& qp, std::size_t reason) noexcept {
    if (qp.common().opa_vnic) {
        if (reason == static_cast<std::size_t>(qps::TxRefusal::no_address)) return "tx_dlid_zero";
        if (reason == static_cast<std::size_t>(qps::TxRefusal::not_forwarding)) return "tx_drop_state";
    }
    return qps::tx_refusal_names[reason];
}

} // namespace

// What C calls is visible whatever the project's default is.
#pragma GCC visibility push(default)

int mbufqp_open(const struct mbufqp_config* config, struct mbufqp** qp) {
    auto* handle = new (std::nothrow) mbufqp;
    if (handle == nullptr) return fail({ENOMEM, "no memory for a set"});
    auto opened =
        qps::Qp::open(*config, handle, config->share != nullptr ? config->share->qp.get() : nullptr);
    if (!opened) {
        delete handle;
        return fail(opened.error());
    }
    handle->qp = std::move(opened).value();
    *qp = handle;
    return 0;
}

int mbufqp_close(struct mbufqp* qp) {
    if (qp == nullptr) return 0;
    if (const Status status = qp->qp->close(); !status) return fail(status.error());
    delete qp;
    return 0;
}

uint16_t mbufqp_put(struct mbufqp* qp, uint16_t queue, struct rte_mbuf** mbufs, uint16_t count) {
    return qp->qp->put(queue, mbufs, count);
}
uint16_t mbufqp_get(struct mbufqp* qp, uint16_t queue, struct rte_mbuf** mbufs, uint16_t count) {
    return qp->qp->get(queue, mbufs, count);
}
uint32_t mbufqp_read_avail(struct mbufqp* qp, uint16_t queue) { return qp->qp->read_avail(queue); }
uint32_t mbufqp_write_avail(struct mbufqp* qp, uint16_t queue) { return qp->qp->write_avail(queue); }
uint16_t mbufqp_select_queue(struct mbufqp* qp, const struct rte_mbuf* mbuf) {
    return qp->qp->select_queue(mbuf);
}

int mbufqp_notify(struct mbufqp* qp, uint16_t queue, unsigned event) {
    const auto already = qp->qp->notify(queue, event);
    if (!already) return fail(already.error());
    return already.value() ? 1 : 0;
}

void mbufqp_mac(const struct mbufqp* qp, uint8_t mac[6]) {
    std::memcpy(mac, qp->qp->common().mac.data(), qps::mac_bytes);
}
uint32_t mbufqp_qpn(const struct mbufqp* qp) { return qp->qp->common().qpn.value_or(stride::Qpn{}).value; }
uint16_t mbufqp_mtu(const struct mbufqp* qp) { return qp->qp->common().mtu; }
uint16_t mbufqp_tx_queues(const struct mbufqp* qp) { return qp->qp->tx_queues(); }
uint16_t mbufqp_rx_queues(const struct mbufqp* qp) { return qp->qp->rx_queues(); }
int mbufqp_link(const struct mbufqp* qp) {
    const auto link = qp->qp->common().device->link();
    if (!link) return fail(link.error());
    return link.value().up ? 1 : 0;
}

void mbufqp_get_stats(const struct mbufqp* qp, uint16_t queue, struct mbufqp_stats* stats) {
    *stats = {};
    for (std::uint16_t i = 0; i < qp->qp->tx_queues(); ++i)
        if (queue == UINT16_MAX || queue == i) add(*stats, qp->qp->tx_stats(i));
    for (std::uint16_t i = 0; i < qp->qp->rx_queues(); ++i)
        if (queue == UINT16_MAX || queue == i) add(*stats, qp->qp->rx(i));
}

const char* mbufqp_counter(const struct mbufqp* qp, unsigned index, uint64_t* value) {
    *value = 0;
    if (index < qps::tx_refusals) {
        for (std::uint16_t i = 0; i < qp->qp->tx_queues(); ++i)
            *value += qp->qp->tx_stats(i).refused[index];
        return refusal_name(*qp->qp, index);
    }
    const std::size_t drop = index - qps::tx_refusals;
    if (drop >= qps::rx_drops) return nullptr;
    for (std::uint16_t i = 0; i < qp->qp->rx_queues(); ++i)
        if (const qps::RxFrames* frames = qp->qp->rx(i).frames()) *value += frames->drops[drop].read();
    return qps::rx_drop_names[drop];
}

int mbufqp_join(struct mbufqp* qp, const uint8_t gid[16], uint16_t lid) {
    return done(qp->qp->join(gid_of(gid), lid));
}
int mbufqp_leave(struct mbufqp* qp, const uint8_t gid[16], uint16_t lid) {
    return done(qp->qp->leave(gid_of(gid), lid));
}

int mbufqp_set_mac_dlid(struct mbufqp* qp, const uint8_t mac[6], uint32_t dlid) {
    auto& vnic = qp->qp->common().opa_vnic;
    if (!vnic) return fail({ENOTSUP, "MAC table: not an OPA VNIC set"});
    qps::Mac address;
    std::memcpy(address.data(), mac, address.size());
    if (dlid != 0) return done(vnic->add_mac(address, dlid));
    return vnic->remove_mac(address) ? 0 : fail({ENOENT, "MAC table: no such entry"});
}
int mbufqp_set_forwarding(struct mbufqp* qp, int forwarding) {
    auto& vnic = qp->qp->common().opa_vnic;
    if (!vnic) return fail({ENOTSUP, "forwarding state: not an OPA VNIC set"});
    vnic->set_forwarding(forwarding != 0);
    return 0;
}

const char* mbufqp_error(void) { return last_error; }

#pragma GCC visibility pop
