// SPDX-License-Identifier: BSD-3-Clause
// swhca: starts a program with the software HCA in it.
#include "ask.hpp"
#include "companions.hpp"
#include "elf_needed.hpp"

#include "swhca/hca/build.hpp"
#include "swhca/hca/config.hpp"

#include <CLI/CLI.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

namespace fs = std::filesystem;
namespace environment = swhca::environment;

constexpr int exit_usage = 2, exit_not_executable = 126, exit_not_found = 127;

constexpr const char* intro =
    "A software HCA: an RDMA adapter that exists only inside the program you start with it.\n"
    "Stock libibverbs and libmlx5 find it as a ConnectX-5; no kernel driver, no root, no hardware.\n\n"
    "  swhca run -- ibv_devinfo\n"
    "      two devices, mlx5_0 and mlx5_1, joined back to back by a wire\n"
    "  swhca run --port mlx5_0,wire=pcap,in=a.pcap --port mlx5_1,wire=pcap,out=b.pcap -- dpdk-testpmd ...\n"
    "      one receives a capture, the other writes what it sends into a new one\n\n"
    "The program breaks a rule of the hardware interface? The adapter says so on stderr, by name.";

struct RunOptions {
    std::vector<std::string> ports{};
    std::string engine{};
    bool idle{};
    std::string report{};
    std::string control{};
    bool pci{};
    bool netdev{};
    std::vector<std::string> command{};
};

int fail(int code, const std::string& what) {
    std::fprintf(stderr, "swhca: %s\n", what.c_str());
    return code;
}

/// Parses the options as the preloaded object will, and makes the wires once, so that mistakes show here.
std::optional<std::string> check(const RunOptions& options, swhca::Config& config) {
    for (const std::string& text : options.ports) {
        if (text.find('\n') != std::string::npos) return "port '" + text + "': a line break in it";
        auto port = swhca::parse_port(text);
        if (!port.ok()) return port.error().what;
        config.ports.push_back(std::move(port).value());
    }
    if (const auto engine = swhca::parse_engine(options.engine); !engine.ok()) return engine.error().what;
    if (const auto status = swhca::complete(config); !status.ok()) return status.error().what;
    if (const auto status = swhca::try_wires(config); !status.ok()) return status.error().what;
    return std::nullopt;
}

/// libswhca.so beside this program, in the build tree, or where it is installed.
std::optional<std::string> find_library() {
    std::error_code error;
    const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
    for (const fs::path& place :
         {here / "libswhca.so", here / "../../lib/swhca/preload/libswhca.so",
          here / SWHCA_LIBDIR_FROM_BINDIR / "libswhca.so", fs::path(SWHCA_LIBDIR) / "libswhca.so"})
        if (fs::exists(place, error)) return fs::weakly_canonical(place, error).string();
    return std::nullopt;
}

/// What has to be loaded before everything else: libswhca.so, and before it the runtime of the sanitizer it
/// was built with, if any.
std::string preload_list(const std::string& library) {
    std::string list;
    for (const std::string& name : elf_needed(library)) {
        if (!name.starts_with("libasan.so") && !name.starts_with("libtsan.so")) continue;
        list += name + ":";
        // Programs that are not ours may leak what they like, and fork when they have threads.
        setenv("ASAN_OPTIONS", "detect_leaks=0", 0);
        // Nor may the runtime take signals before its threads are known: libswhca.so stands between it and
        // sigaction.
        setenv(
            "TSAN_OPTIONS",
            "die_after_fork=0:handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigill=0:handle_sigfpe=0",
            0);
    }
    list += library;
    if (const char* before = std::getenv("LD_PRELOAD"); before != nullptr && *before != '\0')
        list += std::string(":") + before;
    return list;
}

void set_or_unset(const char* name, const std::string& value) {
    if (value.empty()) {
        unsetenv(name);
    } else {
        setenv(name, value.c_str(), 1);
    }
}

/// Gives every port an interface, and the PCI bus the devices: what net/mlx5 starts from.
void name_companions(RunOptions& options) {
    options.pci = true;
    if (options.ports.empty())
        for (const swhca::PortConfig& port : swhca::default_ports())
            options.ports.push_back(port.options.name + ",wire=" + port.options.wire);
    for (unsigned i = 0; i < options.ports.size(); ++i)
        options.ports[i] += ",netdev=" + swhca::cli::companion_name(i);
}

int run(RunOptions options) {
    if (options.command.empty())
        return fail(exit_usage, "no command to run; put it after --, as in: swhca run -- ibv_devinfo");
    if (options.netdev) name_companions(options);
    if (options.idle) options.engine += options.engine.empty() ? "idle" : ",idle";
    swhca::Config config;
    if (const auto mistake = check(options, config)) return fail(exit_usage, *mistake);
    const auto library = find_library();
    if (!library) return fail(exit_usage, "libswhca.so is neither beside this program nor in " SWHCA_LIBDIR);
    if (library->find_first_of(" :") != std::string::npos)
        return fail(exit_usage, *library + ": LD_PRELOAD takes no path with a blank or a colon in it");
    if (options.netdev)
        if (const auto made = swhca::cli::make_companions(config); !made.ok())
            return fail(exit_usage, made.error().what);

    std::string lines;
    for (const std::string& port : options.ports)
        lines += port + "\n";
    set_or_unset(environment::ports, lines);
    set_or_unset(environment::engine, options.engine);
    set_or_unset(environment::report, options.report.empty() ? "" : fs::absolute(options.report).string());
    set_or_unset(environment::control, options.control.empty() ? "" : fs::absolute(options.control).string());
    set_or_unset(environment::pci, options.pci ? "1" : "");
    setenv("LD_PRELOAD", preload_list(*library).c_str(), 1);

    std::vector<char*> arguments;
    for (const std::string& argument : options.command)
        arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    const int error = errno;
    return fail(error == ENOENT ? exit_not_found : exit_not_executable,
                options.command[0] + ": " + std::strerror(error));
}

/// Everything after the first `--` is the command; CLI11 sees what stands before.
std::vector<std::string> cut_command(int& argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
        if (std::strcmp(argv[i], "--") != 0) continue;
        std::vector<std::string> command(argv + i + 1, argv + argc);
        argc = i;
        return command;
    }
    return {};
}

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words)
        text += (text.empty() ? "" : " ") + word;
    return text;
}

/// Prints what a running instance answers; exit code 1 if it is an error.
int converse(const std::string& socket, const std::string& request) {
    const stride::Result<std::string> answer = swhca::cli::ask(socket, request);
    if (!answer.ok()) return fail(1, answer.error().what);
    const bool refused = answer.value().starts_with("error: ");
    std::fputs(answer.value().c_str(), refused ? stderr : stdout);
    return refused ? 1 : 0;
}

/// `swhca run` and its options.
void add_run(CLI::App& app, RunOptions& options) {
    CLI::App* run_command = app.add_subcommand("run", "Start a command with the adapter in it");
    run_command
        ->add_option(
            "--port", options.ports,
            "NAME,wire=KIND,key=value,...: a device with one port; once for each (default: mlx5_0 and "
            "mlx5_1 as a pair)")
        ->allow_extra_args(false)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    run_command->add_option(
        "--engine", options.engine,
        "The thread that moves packets: cpu=N (pin it), idle (sleep when nothing moves), manual "
        "(none: the program steps it, see swhca.h), ports (a thread for each port, on CPUs N, N+1, ...)");
    run_command->add_flag("--idle", options.idle, "The same as --engine idle");
    run_command->add_option("--report", options.report,
                            "At exit, write counters and broken rules as JSON to this file");
    run_command->add_option("--control", options.control,
                            "Answer `swhca stat` and `swhca fault` on this socket while the command runs");
    run_command->add_flag(
        "--pci", options.pci,
        "Show the devices in listings of the PCI bus as well, for drivers that start there");
    run_command->add_flag(
        "--netdev", options.netdev,
        "Make a network interface for every port, in a network namespace of the command's "
        "own, and --pci: all that net/mlx5 wants (root only, where users may not make namespaces)");
    run_command->footer(
        "Wires and their keys (`\\,` is a comma in a value):\n"
        "  pair  peer=NAME: the port at the other end; default: the next port with wire=pair\n"
        "  loop  what the port sends comes back to it\n"
        "  switch, shm  fabric=NAME: a switch between ports of the process, between processes\n"
        "  tap, af_packet  dev=NAME: a TAP interface that is made, an interface that exists\n"
        "  pcap  in=FILE, out=FILE, loop=N (0: for ever), rate=PPS\n"
        "  gen   size=N|A-B|imix, flows=N, vlan=ID, proto=udp|tcp, ipv6=on, bad_csum=1/N, src=MAC, dst=MAC, "
        "seed=N,\n"
        "        count=N, rate=PPS (default: as fast as the receiver takes it), check=on: compare what comes "
        "back\n"
        "  any   loss=P, reorder=P, duplicate=P, corrupt=P, delay=US, trouble_seed=N; pcap=FILE: what "
        "passes\n"
        "Keys of every port:\n" +
        swhca::port_keys_help() +
        "Then -- and the command with its arguments.\n"
        "Exit codes: the command's; 2: these arguments are wrong; 126, 127: the command cannot be "
        "run, is not found.");
}

} // namespace

int main(int argc, char** argv) {
    RunOptions options;
    options.command = cut_command(argc, argv);
    CLI::App app{intro, "swhca"};
    app.require_subcommand(1);
    add_run(app, options);
    std::string socket;
    std::vector<std::string> fault;
    CLI::App* stat_command = app.add_subcommand("stat", "Show the state of a running instance as JSON");
    stat_command->add_option("SOCKET", socket, "As given to run --control")->required();
    CLI::App* fault_command = app.add_subcommand("fault", "Make a running instance fail");
    fault_command->add_option("SOCKET", socket, "As given to run --control")->required();
    fault_command
        ->add_option(
            "FAULT", fault,
            "DEVICE KIND key=value ..., as in: mlx5_0 rx_error after=10 syndrome=4; kinds: rx_error, "
            "tx_error, cq_overrun, filler, disorder, tx_disorder, caps, late, refuse, remove, clear")
        ->required();
    try {
        app.parse(argc, argv);
    } catch (const CLI::CallForHelp& help) {
        return app.exit(help);
    } catch (const CLI::ParseError& error) {
        app.exit(error);
        return exit_usage;
    }
    if (stat_command->parsed()) return converse(socket, "stat");
    if (fault_command->parsed()) return converse(socket, "fault " + joined(fault));
    return run(options);
}
