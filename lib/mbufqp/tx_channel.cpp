// SPDX-License-Identifier: BSD-3-Clause
#include "mbufqp/tx_channel.hpp"

#include "base/log.hpp"
#include "mbufqp/mbufqp.h"

#include <rte_cycles.h>

#include <algorithm>

namespace stride::mbufqp {
namespace {

/// How long a stop waits for what was posted, looking often at first; then the rest is dropped and counted.
constexpr std::uint32_t drain_polls = 1000;
constexpr unsigned drain_rounds = 100;
constexpr unsigned drain_round_us = 1000;

std::uint32_t wqebbs_for(const TxChannelConfig& config) noexcept {
    const std::uint32_t wanted = config.packets * encap_shape_of(config.encap).usual_wqebbs;
    return std::min(RingSize::at_least(std::max(wanted, TxQueue::min_wqebbs)).entries(),
                    TxQueue::max_entries);
}

} // namespace

const unsigned TxChannel::event_bit = MBUFQP_EVENT_WRITE;

Result<std::unique_ptr<TxChannel>> TxChannel::create(const TxChannelConfig& config) {
    const std::uint32_t wqebbs = wqebbs_for(config);
    auto cq = ibv::Cq::create(
        config.device, {.cqes = TxQueue::cq_entries(config.packets, wqebbs), .channel = config.channel});
    if (!cq) return cq.take_error();
    auto qp =
        ibv::TxQp::create(config.device, cq.value(), {.wqebbs = wqebbs, .source_qpn = config.source_qpn});
    if (!qp) return qp.take_error();
    return std::unique_ptr<TxChannel>{new TxChannel{config, std::move(cq).value(), std::move(qp).value()}};
}

TxQueueConfig TxChannel::queue_config() noexcept {
    TxQueueConfig config;
    config.sq = qp_.ring();
    config.cq = cq_.ring();
    config.mbufs = config_.packets;
    config.features = config_.features;
    // Of Ethernet frames only: other encaps inline what they make themselves.
    if (config_.encap == EncapKind::ethernet)
        config.min_inline_bytes = config_.device->caps().min_inline_bytes;
    config.max_frame_bytes = config_.max_frame_bytes;
    config.keys = {find_key, this, config_.keys->generation_word()};
    config.recovery = {recover, this};
    config.encap = encap_shape_of(config_.encap);
    config.encap_context = config_.encap_context;
    config.socket = config_.device->numa_node();
    return config;
}

void TxChannel::stop(TxQueue& queue) noexcept {
    for (unsigned round = 0; round < drain_rounds && !queue.drain(drain_polls); ++round)
        rte_delay_us_sleep(drain_round_us);
    if (auto status = qp_.reset(); !status)
        log_line(LogLevel::error, "mbufqp txq %u: stop: %s", config_.index, status.error().what.c_str());
    queue.reset();
}

bool TxChannel::find_key(void* context, std::uintptr_t address, ibv::KeyEntry& entry) noexcept {
    const TxChannel& self = *static_cast<TxChannel*>(context);
    return self.config_.keys->find_or_log(address, entry, "mbufqp txq", self.config_.index);
}

bool TxChannel::recover(void* context) noexcept {
    TxChannel& self = *static_cast<TxChannel*>(context);
    const auto status = self.qp_.recover();
    if (!status)
        log_line(LogLevel::error, "mbufqp txq %u: recovery: %s", self.config_.index,
                 status.error().what.c_str());
    return status.ok();
}

} // namespace stride::mbufqp
