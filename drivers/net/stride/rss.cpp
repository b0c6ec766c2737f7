// SPDX-License-Identifier: BSD-3-Clause
// RSS: which fields are hashed, with which key, to which queue.
#include "ops.hpp"

#include <bit>
#include <cstring>

namespace stride::pmd {
namespace {

/// Queues in turn over as many entries as the device and ethdev's RETA allow.
std::vector<std::uint16_t> round_robin(const Port& port) {
    const std::uint32_t entries =
        std::min<std::uint32_t>(std::bit_floor(port.device->caps().max_rqt_entries), max_reta_entries);
    std::vector<std::uint16_t> reta(entries);
    for (std::uint32_t i = 0; i < entries; ++i)
        reta[i] = static_cast<std::uint16_t>(i % port.data->nb_rx_queues);
    return reta;
}

Status set_hash(Port& port, const rte_eth_rss_conf& conf) {
    const std::uint64_t types = conf.rss_hf;
    const std::uint64_t known = hash_types_of(port.device->caps());
    if ((types & ~known) != 0)
        return Error{EINVAL, strprintf("hash types %#llx are not among the device's %#llx",
                                       static_cast<unsigned long long>(types & ~known),
                                       static_cast<unsigned long long>(known))};
    if (conf.rss_key != nullptr && conf.rss_key_len != ibv::rss_key_bytes)
        return Error{EINVAL,
                     strprintf("hash key of %u bytes; it has %zu", conf.rss_key_len, ibv::rss_key_bytes)};
    port.rss.hash_types = types;
    if (conf.rss_key != nullptr) std::memcpy(port.rss.key.data(), conf.rss_key, port.rss.key.size());
    return {};
}

/// Makes a change of the RSS configuration effective, or takes it back.
int commit(Port& port, const char* tried, const RssConfig& before) noexcept {
    if (!port.steering) return 0;
    auto status = apply_steering(port);
    if (status) return 0;
    port.rss = before;
    if (auto restored = apply_steering(port); !restored) to_errno(port, "restore RSS", restored);
    return to_errno(port, tried, status);
}

Status start_ipoib(Port& port) {
    std::vector<ibv_qp*> queues;
    for (const auto& slot : port.rxqs)
        queues.push_back(slot->running->rq.underlay_qp());
    return port.ipoib->start(queues);
}

} // namespace

Status configure_rss(Port& port) {
    const rte_eth_conf& conf = port.data->dev_conf;
    const bool wanted = (conf.rxmode.mq_mode & RTE_ETH_MQ_RX_RSS_FLAG) != 0;
    port.rss = RssConfig{};
    port.rss.key = RssConfig::default_key;
    if (!wanted || port.ipoib || port.data->nb_rx_queues == 0) return {};
    if (hash_types_of(port.device->caps()) == 0) return Error{ENOTSUP, "the device has no Toeplitz RSS"};
    if (auto status = set_hash(port, conf.rx_adv_conf.rss_conf); !status) return status;
    port.rss.enabled = true;
    port.rss.reta = round_robin(port);
    return {};
}

Status apply_steering(Port& port) {
    if (port.rxqs.empty()) return {};
    if (port.ipoib) return start_ipoib(port);
    std::vector<ibv_wq*> wqs;
    for (const auto& slot : port.rxqs)
        wqs.push_back(slot->running->rq.wq());
    port.steering.reset(); // rules for old and new side by side would deliver twice
    auto steering = Steering::create(port.device, wqs, port.rss);
    if (!steering) return steering.take_error();
    port.steering.emplace(std::move(steering).value());
    return port.steering->set_filters(wanted_filters(port));
}

int reta_update(rte_eth_dev* dev, rte_eth_rss_reta_entry64* conf, std::uint16_t size) noexcept {
    Port& port = port_of(dev);
    if (size != port.rss.reta.size())
        return to_errno(
            port, "RETA update",
            Error{EINVAL, strprintf("%u entries; the table has %zu", size, port.rss.reta.size())});
    const RssConfig before = port.rss;
    for (std::uint16_t i = 0; i < size; ++i) {
        const rte_eth_rss_reta_entry64& group = conf[i / RTE_ETH_RETA_GROUP_SIZE];
        const std::uint16_t bit = i % RTE_ETH_RETA_GROUP_SIZE;
        if ((group.mask & (1ULL << bit)) == 0) continue;
        if (group.reta[bit] >= port.data->nb_rx_queues) {
            port.rss = before;
            return to_errno(port, "RETA update",
                            Error{EINVAL, strprintf("entry %u names queue %u of %u", i, group.reta[bit],
                                                    port.data->nb_rx_queues)});
        }
        port.rss.reta[i] = group.reta[bit];
    }
    return commit(port, "RETA update", before);
}

int reta_query(rte_eth_dev* dev, rte_eth_rss_reta_entry64* conf, std::uint16_t size) noexcept {
    const Port& port = port_of(dev);
    if (size > port.rss.reta.size()) return -EINVAL;
    for (std::uint16_t i = 0; i < size; ++i) {
        rte_eth_rss_reta_entry64& group = conf[i / RTE_ETH_RETA_GROUP_SIZE];
        const std::uint16_t bit = i % RTE_ETH_RETA_GROUP_SIZE;
        if ((group.mask & (1ULL << bit)) != 0) group.reta[bit] = port.rss.reta[i];
    }
    return 0;
}

int rss_hash_update(rte_eth_dev* dev, rte_eth_rss_conf* conf) noexcept {
    Port& port = port_of(dev);
    const RssConfig before = port.rss;
    if (!port.rss.enabled && conf->rss_hf != 0)
        return to_errno(port, "RSS hash update", Error{EINVAL, "the port was configured without RSS"});
    if (auto status = set_hash(port, *conf); !status) return to_errno(port, "RSS hash update", status);
    return commit(port, "RSS hash update", before);
}

int rss_hash_conf_get(rte_eth_dev* dev, rte_eth_rss_conf* conf) noexcept {
    const Port& port = port_of(dev);
    conf->rss_hf = port.rss.hash_types;
    if (conf->rss_key != nullptr && conf->rss_key_len >= port.rss.key.size())
        std::memcpy(conf->rss_key, port.rss.key.data(), port.rss.key.size());
    conf->rss_key_len = static_cast<std::uint8_t>(port.rss.key.size());
    return 0;
}

} // namespace stride::pmd
