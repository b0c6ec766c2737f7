// SPDX-License-Identifier: BSD-3-Clause
// Capture files that are none, or end early, or say what can't be.
#include "input.hpp"

#include "swhca/wire/pcap_file.hpp"

#include <string>
#include <sys/mman.h>
#include <unistd.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const int fd = memfd_create("capture", 0);
    static const std::string path = "/proc/self/fd/" + std::to_string(fd);
    fuzz::check(ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == static_cast<ssize_t>(size),
                "the file is written");
    const auto capture = swhca::Capture::load(path);
    if (!capture.ok()) {
        fuzz::check(!capture.error().what.empty(), "an error says what is wrong");
        return 0;
    }
    const auto frames = capture.value().frames();
    fuzz::check(!frames.empty(), "a capture that loads has a frame");
    std::uint64_t bytes = 0;
    unsigned sum = 0;
    for (const swhca::Frame& frame : frames) {
        std::uint32_t length = 0;
        for (const swhca::Segment& segment : frame.segments) {
            length += segment.length_bytes;
            for (std::uint32_t n = 0; n < segment.length_bytes; ++n)
                sum += static_cast<unsigned>(segment.data[n]);
        }
        fuzz::check(length == frame.length_bytes, "the segments make up the frame");
        bytes += length;
    }
    fuzz::check(bytes == capture.value().bytes() && bytes <= size, "no more bytes than the file has");
    static volatile unsigned sink;
    sink = sum;
    return 0;
}
