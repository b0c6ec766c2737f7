// SPDX-License-Identifier: BSD-3-Clause
/// Rules of the hardware interface, and the record of who broke them.
///
/// Each rule has one name, one counter and at most a few lines on stderr per process; the consequence (error
/// CQE, queue to error, errno) is the caller's business. Add a rule to the list and it is counted, printed
/// and reported everywhere.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace swhca {

// name, what it says
#define SWHCA_RULES(X)                                                                                       \
    X(bad_lkey, "data segment names an lkey that is not registered, or of another PD")                       \
    X(lkey_range, "data segment reaches outside its memory region")                                          \
    X(lkey_access, "memory region lacks the access this segment needs")                                      \
    X(reserved_bits, "reserved bits are not zero")                                                           \
    X(unknown_opcode, "WQE opcode is not one the queue takes")                                               \
    X(wqe_index, "ctrl segment's WQE index is not the producer index of the WQE")                            \
    X(wqe_qpn, "ctrl segment names another queue")                                                           \
    X(ds_limit, "WQE longer than 63 DS, or shorter than its opcode needs")                                   \
    X(ds_layout, "segments do not fit the WQE's DS count")                                                   \
    X(inline_header, "fewer bytes inlined than the device demands, or more than the frame has")              \
    X(tso_mss, "TSO without a segment size")                                                                 \
    X(tso_header, "TSO whose inlined header is not exactly Ethernet, IP and TCP")                            \
    X(frame_length, "frame shorter than an Ethernet header or longer than the port takes")                   \
    X(doorbell_backwards, "doorbell record went back")                                                       \
    X(doorbell_without_record, "doorbell register rung without the doorbell record")                         \
    X(sq_overrun, "more WQEBBs posted than the send queue holds")                                            \
    X(rq_overrun, "more WQEs posted than the receive queue holds")                                           \
    X(cq_overrun, "completion for a full completion queue")                                                  \
    X(cq_ci_ahead, "CQ consumer index is ahead of the producer index")                                       \
    X(ring_memory, "ring, doorbell record or buffer memory is not mapped any more")                          \
    X(rq_segment, "receive WQE's data segment is malformed (striding: at +16, exact size)")                  \
    X(bad_handle, "command names an object that does not exist in its context")                              \
    X(bad_command, "command is unknown, too short, or has unknown fields")                                   \
    X(bad_argument, "command argument is outside what the device offers")

enum class Rule : std::uint8_t {
#define SWHCA_RULE_ENUM(name, text) name,
    SWHCA_RULES(SWHCA_RULE_ENUM)
#undef SWHCA_RULE_ENUM
        count
};

constexpr std::size_t rule_count = static_cast<std::size_t>(Rule::count);

const char* rule_name(Rule rule) noexcept;
const char* rule_text(Rule rule) noexcept;

/// Counts `rule` as broken and prints a line with the formatted detail (object, index, values). Any thread.
/// After 10 lines of one rule only the counter goes on.
[[gnu::format(printf, 2, 3)]] void broken(Rule rule, const char* detail, ...) noexcept;

/// How often each rule was broken in this process.
std::uint64_t broken_count(Rule rule) noexcept;
std::uint64_t broken_total() noexcept;
/// For unit tests: start from zero, and print nothing while `quiet`.
void reset_broken(bool quiet) noexcept;

} // namespace swhca
