// SPDX-License-Identifier: BSD-3-Clause
#include "series.hpp"

#include <fmt/format.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

namespace bench {
namespace {

/// Empty polls in a row before packets are thought lost.
constexpr unsigned patience = 100000;
constexpr unsigned max_burst = 512;

} // namespace

Application::Application(const Options& options, std::uint32_t ring_packets)
    : touch_{options.touch}
    , limit_{options.hold_packets} {
    if (options.hold_percent != 0) {
        percent_ = options.hold_percent;
        limit_ = ring_packets * percent_ / 100;
    }
    held_.resize(std::bit_ceil(limit_ + max_burst));
}

Application::~Application() {
    for (; ci_ != pi_; ++ci_)
        rte_pktmbuf_free(held_[ci_ % held_.size()]);
}

/// Moves the share to hold into the ring and what is to be freed to the front of `packets`; returns how many
/// those are.
unsigned Application::keep(rte_mbuf** packets, unsigned count) noexcept {
    unsigned loose = 0;
    for (unsigned i = 0; i < count; ++i) {
        share_ += percent_;
        if (share_ >= 100) {
            share_ -= 100;
            held_[pi_++ & (held_.size() - 1)] = packets[i];
        } else {
            packets[loose++] = packets[i];
        }
    }
    return loose;
}

void Application::take(rte_mbuf** packets, unsigned count) noexcept {
    if (touch_) {
        for (unsigned i = 0; i < count; ++i) {
            std::uint64_t word;
            std::memcpy(&word, rte_pktmbuf_mtod(packets[i], const void*), sizeof word);
            sum_ += word;
        }
    }
    if (limit_ == 0) return rte_pktmbuf_free_bulk(packets, count);
    rte_pktmbuf_free_bulk(packets, keep(packets, count));
    while (pi_ - ci_ > limit_) {
        const std::uint32_t slot = ci_ & static_cast<std::uint32_t>(held_.size() - 1);
        const auto run = std::min(pi_ - ci_ - limit_, static_cast<std::uint32_t>(held_.size()) - slot);
        rte_pktmbuf_free_bulk(&held_[slot], run);
        ci_ += run;
    }
}

Bench::Bench(const Options& options, Port& port, Lockstep& engine)
    : options_{options}
    , port_{port}
    , engine_{engine}
    , application_{options, std::uint32_t{port.queues()} * port.rx_descriptors()}
    , packets_(options.packets + max_burst) {}

template <class Work>
Cost Bench::measure(bool count_instructions, unsigned packets, Work&& work) {
    Cost cost;
    if (count_instructions) {
        instructions_.begin();
        cost.packets = work(packets);
        cost.instructions = instructions_.end();
        return cost;
    }
    const std::uint64_t begun = cycles_now();
    cost.packets = work(packets);
    cost.cycles = cycles_now() - begun;
    return cost;
}

/// Polls the queues in turn until `packets` or more have been given to `use`; returns how many. Always asks
/// for whole bursts, as applications do: vector receive functions return nothing to small ones.
template <class Use>
static unsigned poll(const Options& options, std::uint16_t port, std::uint16_t& queue, unsigned packets,
                     Use&& use) {
    rte_mbuf* burst[max_burst];
    unsigned empty = 0, received = 0;
    while (received < packets) {
        const std::uint16_t count =
            rte_eth_rx_burst(port, queue, burst, static_cast<std::uint16_t>(options.burst));
        if (count != 0) {
            use(burst, count, queue);
            received += count;
            empty = 0;
        } else if (++empty > patience) {
            throw std::runtime_error{fmt::format("port {}: {} of {} packets of a fill never came", port,
                                                 packets - received, packets)};
        }
        if (++queue == options.queues) queue = 0;
    }
    return received;
}

unsigned Bench::receive_and_take(unsigned packets) {
    return poll(options_, port_.id(), queue_, packets,
                [this](rte_mbuf** burst, unsigned count, std::uint16_t) { application_.take(burst, count); });
}

unsigned Bench::receive(unsigned packets) {
    rte_mbuf** next = packets_.data();
    return poll(options_, port_.id(), queue_, packets,
                [&next](rte_mbuf** burst, unsigned count, std::uint16_t) {
                    std::memcpy(next, burst, count * sizeof *burst);
                    next += count;
                });
}

unsigned Bench::free_received(unsigned packets) noexcept {
    for (unsigned i = 0; i < packets; i += options_.burst)
        application_.take(&packets_[i], std::min(options_.burst, packets - i));
    return packets;
}

unsigned Bench::forward(unsigned packets) {
    return poll(options_, port_.id(), queue_, packets,
                [this](rte_mbuf** burst, std::uint16_t count, std::uint16_t queue) {
                    const std::uint16_t sent = rte_eth_tx_burst(port_.id(), queue, burst, count);
                    unsent_ += sent;
                    if (sent != count) [[unlikely]]
                        rte_pktmbuf_free_bulk(burst + sent, count - sent);
                });
}

unsigned Bench::send(unsigned packets) noexcept {
    for (unsigned i = 0; i < packets; i += options_.burst) {
        const auto count = static_cast<std::uint16_t>(std::min(options_.burst, packets - i));
        const std::uint16_t sent = rte_eth_tx_burst(port_.id(), queue_, &packets_[i], count);
        unsent_ += sent;
        if (sent != count) [[unlikely]]
            rte_pktmbuf_free_bulk(&packets_[i + sent], count - sent);
        if (++queue_ == options_.queues) queue_ = 0;
    }
    return packets;
}

void Bench::prepare_to_send() {
    if (rte_pktmbuf_alloc_bulk(port_.tx_pool(), packets_.data(), options_.packets) != 0)
        throw std::runtime_error{fmt::format("no {} mbufs to send", options_.packets)};
    for (unsigned i = 0; i < options_.packets; ++i) {
        packets_[i]->data_len = static_cast<std::uint16_t>(options_.frame_bytes);
        packets_[i]->pkt_len = options_.frame_bytes;
    }
}

unsigned Bench::arrive(unsigned to_send) {
    const unsigned came = engine_.fill(to_send, options_.packets);
    if (came == 0) throw std::runtime_error{fmt::format("port {}: the wire delivers nothing", port_.id())};
    return came;
}

void Bench::drain() {
    rte_mbuf* burst[32];
    for (unsigned empty = 0; empty < 4U * port_.queues();) {
        const std::uint16_t count = rte_eth_rx_burst(port_.id(), queue_, burst, 32);
        rte_pktmbuf_free_bulk(burst, count);
        empty = count == 0 ? empty + 1 : 0;
        if (!engine_.present() && count != 0) break; // a port that makes packets by itself is never empty
        if (++queue_ == options_.queues) queue_ = 0;
    }
}

void Bench::settle(Series series) {
    if (series == Series::tx) {
        engine_.settle();
    } else {
        engine_.fill(unsent_, 0);
        drain();
    }
    unsent_ = 0;
}

Cost Bench::fill(Series series, bool count_instructions) {
    const unsigned to_send = unsent_;
    unsent_ = 0;
    switch (series) {
    case Series::rx_free:
        return measure(count_instructions, arrive(0), [this](unsigned n) { return receive_and_take(n); });
    case Series::rx: {
        const Cost cost = measure(count_instructions, arrive(0), [this](unsigned n) { return receive(n); });
        free_received(static_cast<unsigned>(cost.packets));
        return cost;
    }
    case Series::free: {
        const unsigned came = receive(arrive(0));
        return measure(count_instructions, came, [this](unsigned n) { return free_received(n); });
    }
    case Series::tx:
        engine_.settle();
        prepare_to_send();
        return measure(count_instructions, options_.packets, [this](unsigned n) { return send(n); });
    case Series::forward:
        return measure(count_instructions, arrive(to_send), [this](unsigned n) { return forward(n); });
    }
    return {};
}

} // namespace bench
