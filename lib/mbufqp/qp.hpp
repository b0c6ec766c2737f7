// SPDX-License-Identifier: BSD-3-Clause
/// The mbuf QP as C++: what mbufqp.h is a skin of, call by call.
#pragma once

#include "mbufqp/eal_memory.hpp"
#include "mbufqp/encap/encaps.hpp"
#include "mbufqp/encap/frame.hpp"
#include "mbufqp/events.hpp"
#include "mbufqp/mbufqp.h"
#include "mbufqp/qpn_share.hpp"
#include "mbufqp/queue_set.hpp"
#include "mbufqp/rx_channel.hpp"
#include "mbufqp/rx_steering.hpp"
#include "mbufqp/tx_channel.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace stride::mbufqp {

/// What sets that share a QPN have in common; the last one of them lets go.
struct QpCommon {
    explicit QpCommon(std::shared_ptr<ibv::Device> opened)
        : device{std::move(opened)}
        , keys{device, resolve_eal_memory, nullptr}
        , memory{keys} {}

    std::shared_ptr<ibv::Device> device;
    ibv::KeyTable keys;
    EalMemoryWatch memory;
    EncapKind encap{};
    std::uint16_t mtu{};
    Mac mac{};
    std::optional<Qpn> qpn{}; ///< IPoIB
    std::optional<IpoibPort> ipoib{};
    std::optional<OpaVnicPort> opa_vnic{};
    QpnShare share{};

    const void* encap_context() const noexcept;
    void* encap_context() noexcept;
    std::uint32_t max_frame_bytes() const noexcept;
    /// Longest packet on the wire, as the HCA scatters it.
    std::uint32_t max_wire_bytes() const noexcept;
};

class Qp {
  public:
    /// `handle`: what the callback is told. `share`: the set of config.share. Both outlive this one.
    static Result<std::unique_ptr<Qp>> open(const mbufqp_config& config, struct ::mbufqp* handle, Qp* share);
    /// Not before close() (nor while others share its QPN).
    ~Qp();
    Qp(const Qp&) = delete;
    Qp& operator=(const Qp&) = delete;

    /// EBUSY: other sets share the QPN. Stops everything; the destructor does the rest.
    Status close();

    std::uint16_t put(std::uint16_t queue, rte_mbuf** mbufs, std::uint16_t count) noexcept {
        return set_->put(queue, mbufs, count);
    }
    std::uint16_t get(std::uint16_t queue, rte_mbuf** mbufs, std::uint16_t count) noexcept {
        return rx_[queue]->get(mbufs, count);
    }
    std::uint32_t read_avail(std::uint16_t queue) const noexcept { return rx_[queue]->read_avail(); }
    std::uint32_t write_avail(std::uint16_t queue) noexcept { return set_->write_avail(queue); }
    std::uint16_t select_queue(const rte_mbuf* mbuf) const noexcept;
    /// True: it is so already. EINVAL: no such queue or event, or no callback.
    Result<bool> notify(std::uint16_t queue, unsigned event);

    QpCommon& common() noexcept { return *common_; }
    const QpCommon& common() const noexcept { return *common_; }
    std::uint16_t tx_queues() const noexcept { return static_cast<std::uint16_t>(tx_.size()); }
    std::uint16_t rx_queues() const noexcept { return static_cast<std::uint16_t>(rx_.size()); }
    TxStats tx_stats(std::uint16_t queue) const noexcept { return set_->stats(queue); }
    const RxChannel& rx(std::uint16_t queue) const noexcept { return *rx_[queue]; }

    /// IPoIB: send to the group, and receive from it.
    Status join(const Gid& gid, std::uint16_t lid);
    Status leave(const Gid& gid, std::uint16_t lid);

  private:
    Qp() = default;

    Status open_common(const mbufqp_config& config);
    Status share_with(Qp& other, const mbufqp_config& config);
    Status open_channel(const mbufqp_config& config, struct ::mbufqp* handle);
    Status open_receive(const mbufqp_config& config);
    Status open_encap(const mbufqp_config& config);
    Status open_send(const mbufqp_config& config);
    Status start(const mbufqp_config& config);
    Status start_steering(const mbufqp_config& config);
    Status start_events();
    void stop() noexcept;

    std::shared_ptr<QpCommon> common_{};
    bool owner_{}; ///< of the QPN: not opened to share another's
    bool stopped_{};
    mbufqp_event_callback event_{};
    void* event_arg_{};
    struct ::mbufqp* handle_{};
    std::optional<ibv::CompletionChannel> channel_{};
    std::vector<std::unique_ptr<RxChannel>> rx_{};
    std::vector<std::unique_ptr<TxChannel>> tx_{};
    std::optional<QueueSet> set_{};
    std::optional<RxSteering> steering_{};
    std::unique_ptr<EventThread> thread_{}; ///< last: it calls into all of the above
};

} // namespace stride::mbufqp
