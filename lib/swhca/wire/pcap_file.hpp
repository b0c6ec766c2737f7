// SPDX-License-Identifier: BSD-3-Clause
/// Capture files, read whole and written frame by frame, by libpcap.
#pragma once

#include "swhca/wire/wire.hpp"

#include <memory>
#include <string>
#include <vector>

struct pcap;
struct pcap_dumper;

namespace swhca {

/// All frames of a capture in memory, as they were captured (a snap length may have cut them).
class Capture {
  public:
    /// Reads pcap or pcapng of any precision. Error: no such file, no capture, not Ethernet, no frame. A file
    /// that ends within a frame gives the frames before it, and a warning.
    static stride::Result<Capture> load(const std::string& path);

    std::span<const Frame> frames() const noexcept { return frames_; }
    std::uint64_t bytes() const noexcept { return bytes_; }

  private:
    std::vector<std::byte> storage_{};
    std::vector<Segment> segments_{};
    std::vector<Frame> frames_{};
    std::uint64_t bytes_{};
};

/// A nanosecond pcap file being written.
class CaptureWriter {
  public:
    /// The file's link type follows `format`: Ethernet; ERF, whose records hold InfiniBand packets from the
    /// LRH on; DLT_USER0 for Omni-Path.
    static stride::Result<CaptureWriter> create(const std::string& path,
                                                WireFormat format = WireFormat::ethernet);
    CaptureWriter(CaptureWriter&&) noexcept = default;
    CaptureWriter& operator=(CaptureWriter&&) noexcept = default;

    /// Adds a frame with the wall clock's time `time_ns`.
    void write(const Frame& frame, std::uint64_t time_ns);
    /// Makes what was written visible to readers. Error: the disk is full, for example.
    stride::Status flush();

  private:
    struct CloseHandle {
        void operator()(pcap* handle) const noexcept;
    };
    struct CloseDumper {
        void operator()(pcap_dumper* dumper) const noexcept;
    };

    CaptureWriter(std::string path, pcap* handle, pcap_dumper* dumper, WireFormat format);

    std::string path_;
    WireFormat format_;
    std::unique_ptr<pcap, CloseHandle> handle_;
    std::unique_ptr<pcap_dumper, CloseDumper> dumper_;
    std::vector<std::byte> gathered_{};
};

} // namespace swhca
