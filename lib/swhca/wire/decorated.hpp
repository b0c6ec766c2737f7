// SPDX-License-Identifier: BSD-3-Clause
/// What may stand between a port and any wire: a tap that writes what passes to a file, and a source of
/// trouble. Both see the frames of both directions.
#pragma once

#include "base/counter.hpp"
#include "swhca/wire/pcap_file.hpp"
#include "swhca/wire/wire.hpp"

#include <array>
#include <deque>
#include <random>

namespace swhca {

/// A wire around another: FrameSink of the inner one, wire of the port. Derived classes look at what passes.
class DecoratedWire : public Wire, protected FrameSink {
  public:
    explicit DecoratedWire(std::unique_ptr<Wire> inner)
        : inner_{std::move(inner)} {
        inner_->attach(*this);
    }
    void attach(FrameSink& sink) override { sink_ = &sink; }
    unsigned poll(unsigned budget) override { return inner_->poll(budget); }
    bool link_up() const override { return inner_->link_up(); }
    void close() override { inner_->close(); }
    std::vector<std::pair<std::string, std::uint64_t>> counters() const override {
        return inner_->counters();
    }

  protected:
    bool plugged() const override { return sink_ == nullptr || sink_->plugged(); }
    bool listening() override { return sink_ != nullptr && sink_->listening(); }
    bool takes(const Frame& frame) override { return sink_ != nullptr && sink_->takes(frame); }
    std::uint64_t rule_changes() const override { return sink_ != nullptr ? sink_->rule_changes() : 0; }
    unsigned give_port(std::span<const Frame> frames, WhenFull when_full) {
        return sink_ != nullptr ? sink_->deliver(frames, when_full) : static_cast<unsigned>(frames.size());
    }
    Wire& inner() { return *inner_; }

  private:
    std::unique_ptr<Wire> inner_;
    FrameSink* sink_{};
};

/// `pcap=FILE`: link type Ethernet; ERF, whose records hold InfiniBand packets from the LRH on (tshark reads
/// no other); DLT_USER0 for Omni-Path's 16B, which no analyser knows.
class TapWire final : public DecoratedWire {
  public:
    TapWire(std::unique_ptr<Wire> inner, CaptureWriter writer)
        : DecoratedWire{std::move(inner)}
        , writer_{std::move(writer)} {}
    unsigned transmit(std::span<const Frame> frames) override;
    unsigned poll(unsigned budget) override;
    void close() override;

  private:
    unsigned deliver(std::span<const Frame> frames, WhenFull when_full) override;
    void record(std::span<const Frame> frames);
    void flush();

    CaptureWriter writer_;
    bool unflushed_{};
    unsigned quiet_polls_{};
};

/// Probabilities are of one frame, each for itself.
struct Trouble {
    double loss{}, reorder{}, duplicate{}, corrupt{};
    std::uint64_t delay_us{};
    std::uint64_t seed{1};
    bool any() const noexcept {
        return loss > 0 || reorder > 0 || duplicate > 0 || corrupt > 0 || delay_us != 0;
    }
};

/// `loss=P,reorder=P,duplicate=P,corrupt=P,delay=US,trouble_seed=N`. A corrupt frame has one bit flipped; a
/// reordered one is overtaken by up to 4 others. What is held back is copied.
class TroubledWire final : public DecoratedWire {
  public:
    TroubledWire(std::unique_ptr<Wire> inner, const Trouble& trouble);
    unsigned transmit(std::span<const Frame> frames) override;
    unsigned poll(unsigned budget) override;
    std::vector<std::pair<std::string, std::uint64_t>> counters() const override;

  private:
    enum class Direction : std::uint8_t { out, in };
    /// What befalls a frame; drawn once, though it may be offered often.
    struct Fate {
        bool drawn{}, lost{}, held{}, twice{};
        std::uint32_t flipped_bit{}; ///< 0: none; else 1 + number of the bit
        unsigned overtaken{};
    };
    struct Held {
        std::vector<std::byte> bytes{};
        std::uint64_t due_ns{};
        unsigned overtaken{}; ///< frames that still pass it; with a delay: 0
        WhenFull when_full{};
    };
    struct Way {
        std::mt19937_64 random{};
        Fate fate{};
        std::deque<Held> held{};
    };

    unsigned deliver(std::span<const Frame> frames, WhenFull when_full) override;
    Fate draw(Way& way, const Frame& frame);
    bool pass(Direction direction, const Frame& frame, WhenFull when_full);
    bool forward(Direction direction, const Frame& frame, WhenFull when_full);
    void hold(Way& way, const Frame& frame, const Fate& fate, WhenFull when_full);
    unsigned release(Direction direction, bool passed_one);

    Trouble trouble_;
    std::array<Way, 2> ways_{};
    stride::Counter lost_{}, reordered_{}, duplicated_{}, corrupted_{}, delayed_{};
};

/// Takes the keys of tap and trouble out of `options`, and puts what they ask for around `wire`.
struct Decoration {
    std::string pcap_path{};
    Trouble trouble{};
};
stride::Result<Decoration> take_decoration(PortOptions& options);
stride::Result<std::unique_ptr<Wire>> decorate(std::unique_ptr<Wire> wire, const Decoration& decoration,
                                               const PortOptions& options);

} // namespace swhca
