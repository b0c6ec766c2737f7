// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/wire/pcap_file.hpp"

#include "base/be.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/ring.hpp"

#include <array>
#include <cstring>
#include <stdio_ext.h>

#include <pcap/pcap.h>

namespace swhca {
namespace {

using stride::Error;
using stride::Result;
using stride::strprintf;

constexpr std::size_t frame_alignment = 64; ///< a short frame lies in one cache line
constexpr int snap_bytes = 262144;

struct CloseInput {
    void operator()(pcap_t* handle) const noexcept { pcap_close(handle); }
};
using Input = std::unique_ptr<pcap_t, CloseInput>;

/// Where a frame lies in the storage, which may still move.
struct Extent {
    std::size_t offset;
    std::uint32_t length;
};

int link_type_of(WireFormat format) noexcept {
    // DLT_INFINIBAND exists, but tshark reads the packets only as records of ERF.
    if (format == WireFormat::infiniband) return DLT_ERF;
    return format == WireFormat::opa ? DLT_USER0 : DLT_EN10MB;
}

constexpr std::size_t erf_header_bytes = 16;
constexpr std::byte erf_type_infiniband{21};

/// Header of an Extensible Record Format record (Endace ERF types reference guide): time as 32.32 fixed
/// point, little-endian; type; lengths of record and packet.
std::array<std::byte, erf_header_bytes> erf_header(std::uint64_t time_ns,
                                                   std::uint32_t packet_bytes) noexcept {
    constexpr std::uint64_t ns_per_s = 1'000'000'000;
    std::array<std::byte, erf_header_bytes> header{};
    const std::uint64_t time = (time_ns / ns_per_s) << 32 | ((time_ns % ns_per_s) << 32) / ns_per_s;
    std::memcpy(header.data(), &time, sizeof time);
    header[8] = erf_type_infiniband;
    header[9] = std::byte{0x04}; // records of any length
    const stride::be16 record = static_cast<std::uint16_t>(packet_bytes + erf_header_bytes);
    const stride::be16 wire = static_cast<std::uint16_t>(packet_bytes);
    std::memcpy(header.data() + 10, &record, sizeof record);
    std::memcpy(header.data() + 14, &wire, sizeof wire);
    return header;
}

Error link_type_error(const std::string& path, int link_type) {
    const char* name = pcap_datalink_val_to_name(link_type);
    return {EINVAL, strprintf("%s: link type %s (%d) is not Ethernet", path.c_str(),
                              name != nullptr ? name : "unknown", link_type)};
}

} // namespace

Result<Capture> Capture::load(const std::string& path) {
    char why[PCAP_ERRBUF_SIZE] = "";
    const Input input{pcap_open_offline_with_tstamp_precision(path.c_str(), PCAP_TSTAMP_PRECISION_NANO, why)};
    if (!input) {
        // libpcap names the file in some of its messages and not in others.
        const bool named = std::strstr(why, path.c_str()) != nullptr;
        return Error{EINVAL, named ? std::string{why} : path + ": " + why};
    }
    if (pcap_datalink(input.get()) != DLT_EN10MB) return link_type_error(path, pcap_datalink(input.get()));
    Capture capture;
    std::vector<Extent> extents;
    pcap_pkthdr* header = nullptr;
    const u_char* data = nullptr;
    int status = 0;
    while ((status = pcap_next_ex(input.get(), &header, &data)) == 1) {
        const std::size_t offset = stride::align_up(capture.storage_.size(), frame_alignment);
        capture.storage_.resize(offset + header->caplen);
        if (header->caplen != 0) std::memcpy(capture.storage_.data() + offset, data, header->caplen);
        extents.push_back({offset, header->caplen});
        capture.bytes_ += header->caplen;
    }
    if (status == PCAP_ERROR && !extents.empty()) {
        stride::log_line(stride::LogLevel::warning, "%s: %s; the %zu frames before are used", path.c_str(),
                         pcap_geterr(input.get()), extents.size());
    } else if (status == PCAP_ERROR) {
        return Error{EINVAL, path + ": " + pcap_geterr(input.get())};
    }
    if (extents.empty()) return Error{EINVAL, path + ": the capture holds no frame"};
    capture.segments_.reserve(extents.size());
    capture.frames_.reserve(extents.size());
    for (const Extent& extent : extents) {
        capture.segments_.push_back({capture.storage_.data() + extent.offset, extent.length});
        capture.frames_.push_back({{&capture.segments_.back(), 1}, extent.length});
    }
    return capture;
}

void CaptureWriter::CloseHandle::operator()(pcap* handle) const noexcept { pcap_close(handle); }
void CaptureWriter::CloseDumper::operator()(pcap_dumper* dumper) const noexcept { pcap_dump_close(dumper); }

CaptureWriter::CaptureWriter(std::string path, pcap* handle, pcap_dumper* dumper, WireFormat format)
    : path_{std::move(path)}
    , format_{format}
    , handle_{handle}
    , dumper_{dumper} {}

Result<CaptureWriter> CaptureWriter::create(const std::string& path, WireFormat format) {
    std::unique_ptr<pcap, CloseHandle> handle{
        pcap_open_dead_with_tstamp_precision(link_type_of(format), snap_bytes, PCAP_TSTAMP_PRECISION_NANO)};
    if (!handle) return Error{ENOMEM, path + ": no memory for a capture writer"};
    pcap_dumper_t* dumper = pcap_dump_open(handle.get(), path.c_str());
    if (dumper == nullptr) return Error{EINVAL, pcap_geterr(handle.get())};
    // The engine alone writes here; a lock would stay taken if a pass is left inside
    // (engine/memory_guard.hpp).
    __fsetlocking(pcap_dump_file(dumper), FSETLOCKING_BYCALLER);
    return CaptureWriter{path, handle.release(), dumper, format};
}

void CaptureWriter::write(const Frame& frame, std::uint64_t time_ns) {
    pcap_pkthdr header{};
    header.ts.tv_sec = static_cast<time_t>(time_ns / 1'000'000'000U);
    header.ts.tv_usec = static_cast<suseconds_t>(time_ns % 1'000'000'000U); // nanoseconds, as the file says
    header.caplen = header.len = frame.length_bytes;
    const std::byte* data = frame.segments.front().data;
    if (frame.segments.size() > 1 || format_ == WireFormat::infiniband) {
        gathered_.clear();
        if (format_ == WireFormat::infiniband) {
            const auto record = erf_header(time_ns, frame.length_bytes);
            gathered_.resize(record.size());
            std::memcpy(gathered_.data(), record.data(), record.size());
            header.caplen = header.len = frame.length_bytes + erf_header_bytes;
        }
        for (const Segment& segment : frame.segments)
            gathered_.insert(gathered_.end(), segment.data, segment.data + segment.length_bytes);
        data = gathered_.data();
    }
    pcap_dump(reinterpret_cast<u_char*>(dumper_.get()), &header, reinterpret_cast<const u_char*>(data));
}

stride::Status CaptureWriter::flush() {
    if (pcap_dump_flush(dumper_.get()) == 0 && std::ferror(pcap_dump_file(dumper_.get())) == 0) return {};
    return Error{errno, strprintf("%s: writing the capture failed: %s", path_.c_str(), std::strerror(errno))};
}

} // namespace swhca
