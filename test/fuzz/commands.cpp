// SPDX-License-Identifier: BSD-3-Clause
// uverbs commands against a fresh context: sequences of good requests, spoilt and raw ones, with memory and
// doorbell registers written in between, and the engine stepped.
#include "arena.hpp"
#include "input.hpp"
#include "requests.hpp"

#include "swhca/abi/dispatch.hpp"
#include "swhca/engine/faults.hpp"
#include "swhca/hca/build.hpp"
#include "swhca/hca/rules.hpp"
#include "swhca/hca/uar.hpp"

#include <fcntl.h>
#include <map>
#include <unistd.h>

namespace {

using fuzz::Input;
using fuzz::Request;

/// Descriptors of completion channels, as the preload layer keeps them.
class Channels final : public swhca::DescriptorTable {
  public:
    void watch_channel(int fd, swhca::Context&, swhca::CompChannel& channel) override {
        channels_[fd] = &channel;
    }
    swhca::CompChannel* channel_of(int fd, const swhca::Context&) override {
        const auto at = channels_.find(fd);
        return at == channels_.end() ? nullptr : at->second;
    }

  private:
    std::map<int, swhca::CompChannel*> channels_{};
};

struct Program {
    swhca::Hca& hca;
    swhca::Context& context;
    std::byte* memory;
    Channels channels{};

    int execute(const Request& request) { return swhca::execute_command(hca, context, channels, request); }
};

/// A good request, with some of its bytes changed.
Request spoilt(const Request& good, Input& input) {
    Request request = good;
    const std::uint8_t changes = input.byte();
    for (unsigned n = 0; n < (changes & 7U); ++n)
        request[input.word() % request.size()] ^= std::byte{input.byte()};
    if ((changes & 0x80) != 0)
        request.resize(request.size() - std::min<std::size_t>(request.size(), input.byte()));
    if ((changes & 0x40) != 0) request.resize(request.size() + input.byte());
    return request;
}

Request raw(Input& input) {
    const auto bytes = input.some(input.byte());
    const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
    return {data, data + bytes.size()};
}

void act(Program& program, Input& input) {
    const auto& requests = fuzz::good_requests();
    const std::uint8_t action = input.byte();
    if (action < 0xc0) {
        program.execute(spoilt(requests[action % requests.size()], input));
    } else if (action < 0xd0) {
        program.execute(raw(input));
    } else if (action < 0xe8) { // the program writes its memory
        const std::size_t at = std::size_t{input.word()} * 4 % fuzz::arena_bytes;
        const auto bytes = input.some(input.byte() % 65);
        std::copy_n(reinterpret_cast<const std::byte*>(bytes.data()),
                    std::min(bytes.size(), fuzz::arena_bytes - at), program.memory + at);
    } else if (action < 0xf0) { // rings a doorbell
        const auto value = input.take<std::uint64_t>();
        std::memcpy(program.context.uar + swhca::uar::register_offset(0, action % 4U), &value, sizeof value);
    } else if (action < 0xf8) {
        program.hca.step(64);
    } else { // a fault
        static constexpr const char* faults[] = {
            "mlx5_0 disorder every=1",           "mlx5_0 tx_disorder every=2",
            "mlx5_0 disorder every=3",           "mlx5_0 filler every=2 strides=3",
            "mlx5_0 rx_error after=3",           "mlx5_0 tx_error after=2",
            "mlx5_0 cq_overrun after=5",         "mlx5_0 clear",
            "mlx5_0 caps max_qp_wr=16 max_sge=1"};
        std::scoped_lock lock{program.hca.commands};
        fuzz::check(swhca::inject_fault(program.hca, faults[action & 7U]).ok(), "the fault is known");
    }
}

std::unique_ptr<swhca::Hca> make_hca() {
    swhca::Config config;
    config.ports = swhca::default_ports();
    config.engine.manual = true;
    fuzz::check(swhca::complete(config).ok(), "the default configuration is complete");
    auto hca = swhca::build_hca(config);
    fuzz::check(hca.ok(), "the default HCA can be built");
    return std::move(hca).value();
}

/// Every good request is one: else the fuzzer has little to begin with.
void check_requests(Program& program) {
    static bool checked = false;
    if (checked) return;
    checked = true;
    for (const Request& request : fuzz::good_requests())
        if (const int error = program.execute(request); error != 0)
            std::fprintf(stderr, "commands: request %zu (command 0x%x) is refused: %s\n",
                         static_cast<std::size_t>(&request - fuzz::good_requests().data()),
                         static_cast<unsigned>(request[0]), std::strerror(error));
}

void run(swhca::Hca& hca, Input input, bool only_check) {
    swhca::Device& device = *hca.devices[0];
    swhca::Context* context = nullptr;
    {
        std::scoped_lock lock{hca.commands};
        fuzz::check(swhca::open_context(hca, device, context) == 0, "a context opens");
    }
    Program program{hca, *context, fuzz::fresh_arena()};
    if (only_check) check_requests(program);
    // Mostly, everything is there to begin with.
    const std::uint8_t begin = input.byte();
    const std::size_t made = begin < 0xc0 ? fuzz::creating_requests() : begin - 0xc0U;
    for (std::size_t n = 0; n < std::min(made, fuzz::creating_requests()); ++n)
        program.execute(fuzz::good_requests()[n]);
    for (unsigned actions = 0; !input.empty() && actions < 200; ++actions)
        act(program, input);
    hca.step(64);
    fuzz::check(swhca::broken_count(swhca::Rule::ring_memory) == 0,
                "the model stays in the program's memory");
    const int fd = context->fd;
    {
        std::scoped_lock lock{hca.commands};
        fuzz::check(swhca::inject_fault(hca, "mlx5_0 clear").ok(), "faults end");
        swhca::close_context(*context);
    }
    close(fd);
    fuzz::check(device.qps == 0 && device.cqs == 0 && device.wqs == 0 && device.rqts == 0 &&
                    device.pds == 0 && device.mr_count == 0,
                "a closed context leaves nothing");
    hca.step(64);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static bool first = true;
    const int lowest = fcntl(0, F_DUPFD, 0);
    swhca::reset_broken(true);
    {
        const auto hca = make_hca();
        if (first) run(*hca, Input{nullptr, 0}, true);
        first = false;
        run(*hca, Input{data, size}, false);
    }
    // What the commands gave to the program.
    close_range(static_cast<unsigned>(lowest), ~0U, 0);
    return 0;
}
