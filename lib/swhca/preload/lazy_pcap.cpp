// SPDX-License-Identifier: BSD-3-Clause
// libpcap, loaded when a wire first needs it.
//
// Every program started with libswhca.so would otherwise load libpcap and what it drags along (D-Bus,
// systemd, compression), whether it has a pcap wire or not; beside the ASan runtime that even hangs programs
// at their start. The functions here have libpcap's names, are seen inside libswhca.so only, and hand on
// their arguments.
#include <cstdio>
#include <dlfcn.h>
#include <pcap/pcap.h>

namespace {

void* library() noexcept {
    static void* const handle = [] {
        void* found = dlopen("libpcap.so.0.8", RTLD_NOW | RTLD_LOCAL); // Debian's name
        return found != nullptr ? found : dlopen("libpcap.so.1", RTLD_NOW | RTLD_LOCAL);
    }();
    return handle;
}

/// The library's function of that name. Only pcap_open_* are called without a handle of the library, and they
/// look for it first.
template <class Function>
Function* in_library(Function*, const char* name) noexcept {
    return reinterpret_cast<Function*>(dlsym(library(), name));
}

} // namespace

#define IN_LIBRARY(function) in_library(&function, #function)

extern "C" {

pcap_t* pcap_open_offline_with_tstamp_precision(const char* path, u_int precision, char* why) {
    if (library() == nullptr)
        return std::snprintf(why, PCAP_ERRBUF_SIZE, "libpcap is not installed"), nullptr;
    return IN_LIBRARY(pcap_open_offline_with_tstamp_precision)(path, precision, why);
}
pcap_t* pcap_open_dead_with_tstamp_precision(int link_type, int snap_bytes, u_int precision) {
    if (library() == nullptr) return nullptr;
    return IN_LIBRARY(pcap_open_dead_with_tstamp_precision)(link_type, snap_bytes, precision);
}
void pcap_close(pcap_t* handle) { IN_LIBRARY(pcap_close)(handle); }
int pcap_datalink(pcap_t* handle) { return IN_LIBRARY(pcap_datalink)(handle); }
const char* pcap_datalink_val_to_name(int link_type) {
    return IN_LIBRARY(pcap_datalink_val_to_name)(link_type);
}
char* pcap_geterr(pcap_t* handle) { return IN_LIBRARY(pcap_geterr)(handle); }
int pcap_next_ex(pcap_t* handle, pcap_pkthdr** header, const u_char** data) {
    static auto* const real = IN_LIBRARY(pcap_next_ex);
    return real(handle, header, data);
}
pcap_dumper_t* pcap_dump_open(pcap_t* handle, const char* path) {
    return IN_LIBRARY(pcap_dump_open)(handle, path);
}
void pcap_dump(u_char* dumper, const pcap_pkthdr* header, const u_char* data) {
    static auto* const real = IN_LIBRARY(pcap_dump);
    real(dumper, header, data);
}
int pcap_dump_flush(pcap_dumper_t* dumper) { return IN_LIBRARY(pcap_dump_flush)(dumper); }
FILE* pcap_dump_file(pcap_dumper_t* dumper) { return IN_LIBRARY(pcap_dump_file)(dumper); }
void pcap_dump_close(pcap_dumper_t* dumper) { IN_LIBRARY(pcap_dump_close)(dumper); }
}
