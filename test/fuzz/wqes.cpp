// SPDX-License-Identifier: BSD-3-Clause
// What a program may write into its rings: WQEs of any content, doorbells in any order, and frames that meet
// them. Memory regions end where the sanitizer sees it.
#include "input.hpp"

#include "rig.hpp"

namespace {

using namespace swhca;
using namespace swhca::test;
using fuzz::Input;

struct Program : Bench {
    Program()
        : send_cq{*this, 6}
        , receive_cq{*this, 6}
        , memory{8192}
        , secret{4096}
        , sq{*this, send_cq, 4}
        , rq{*this, receive_cq, {3, 4, 6, false}} {
        keys = {add_region(memory), add_region(secret, false), rq.lkey, Lkey{0x100}};
        addresses = {memory.address(), secret.address(), rq.buffers.address(), 0};
        steer_all_to(rq.rq);
    }

    TestCq send_cq, receive_cq;
    Memory memory, secret;
    TestSq sq;
    TestStridingRq rq;
    std::array<Lkey, 4> keys{};
    std::array<std::uint64_t, 4> addresses{};
};

/// A data segment that names a region, mostly within it.
void data_segment(Program& program, std::byte* segment, Input& input) {
    const unsigned region = input.byte() % 4;
    prm::DataSegment::byte_count::set(segment, input.word());
    prm::DataSegment::lkey::set(segment, program.keys[region].value);
    prm::DataSegment::address::set(segment, program.addresses[region] + input.word() % 9000U);
}

void raw_bytes(std::byte* to, std::size_t size, Input& input) {
    const auto bytes = input.some(size);
    std::copy_n(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size(), to);
}

/// One WQE: a control segment of a known form or any, and what follows it.
void send_wqe(Program& program, Input& input) {
    constexpr prm::Opcode opcodes[] = {prm::Opcode::nop, prm::Opcode::send, prm::Opcode::tso,
                                       prm::Opcode::enhanced_mpsw};
    const std::uint8_t form = input.byte();
    const unsigned ds = input.byte() % 64;
    program.sq.ctrl(opcodes[form % 4], ds, (form & 4) != 0);
    if ((form & 8) != 0) raw_bytes(program.sq.ds(0), 16, input);
    for (unsigned n = 1; n < std::min(ds, 64U); ++n) {
        const std::uint8_t kind = input.byte();
        if (kind < 0x60) {
            data_segment(program, program.sq.ds(n), input);
        } else if (kind < 0xf0) {
            raw_bytes(program.sq.ds(n), 16, input);
        } else {
            break;
        }
    }
    if ((form & 16) != 0) {
        program.sq.post(ds);
    } else {
        program.sq.advance(ds);
    }
}

void doorbells(Program& program, Input& input) {
    const std::uint8_t form = input.byte();
    if ((form & 1) != 0) program.sq.pi = input.word();
    if ((form & 2) != 0) program.sq.record();
    if ((form & 4) != 0) program.sq.ring(input.word());
    if ((form & 8) != 0) program.rq.post(input.word());
    if ((form & 16) != 0)
        stride::store_to_device(&program.send_cq.cq.dbrec[0], be32{input.take<std::uint32_t>()});
    if ((form & 32) != 0)
        stride::store_to_device(&program.receive_cq.cq.dbrec[0], be32{input.take<std::uint32_t>()});
}

void receive_wqe(Program& program, Input& input) {
    std::byte* const wqe = program.rq.wqe(input.byte());
    const std::uint8_t form = input.byte();
    if ((form & 1) != 0) {
        raw_bytes(wqe, 32, input);
    } else {
        data_segment(program, wqe + (form & 16U), input);
        if ((form & 2) != 0) prm::DataSegment::byte_count::set(wqe + 16, program.rq.wqe_bytes());
    }
}

void act(Program& program, Input& input) {
    switch (input.byte() % 8) {
    case 0:
    case 1:
        send_wqe(program, input);
        break;
    case 2:
        doorbells(program, input);
        break;
    case 3:
        receive_wqe(program, input);
        break;
    case 4:
        program.wire->give(plain_frame(14 + input.word() % 1400U, input.byte()));
        break;
    case 5:
        program.wire->room = input.byte() % 2 == 0 ? ~0U : input.byte();
        break;
    case 6:
        while (program.send_cq.poll()) {
        }
        while (program.receive_cq.poll()) {
        }
        break;
    case 7:
        program.engine.step(1 + input.byte() % 64U);
        break;
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    ::testing::FLAGS_gtest_break_on_failure = true;
    Input input{data, size};
    Program program;
    const std::uint8_t mode = input.byte();
    if ((mode & 1) != 0) program.rq.post(8);
    if ((mode & 2) != 0) program.sq.qp.sq.min_inline_bytes = 18;
    while (!input.empty())
        act(program, input);
    program.wire->room = ~0U;
    program.engine.step(64);
    fuzz::check(broken_count(Rule::ring_memory) == 0, "the model stays in the program's memory");
    for (const auto& frame : program.wire->sent)
        fuzz::check(frame.size() >= 14 && frame.size() <= program.device.port.max_frame_bytes,
                    "what is sent has a length the port takes");
    return 0;
}
