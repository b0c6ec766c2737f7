// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/preload/process.hpp"

#include "swhca/abi/sysfs.hpp"
#include "swhca/hca/build.hpp"
#include "swhca/hca/report.hpp"
#include "swhca/hca/rules.hpp"
#include "swhca/preload/descriptors.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <pthread.h>
#include <string_view>
#include <unistd.h>

namespace swhca::preload {
namespace {

std::atomic<Model*> current{nullptr};
constinit std::mutex making{};
std::atomic<bool> failed{false};
std::atomic<bool> forks_watched{false};
thread_local bool is_making = false;

const char* environment_value(const char* name) { return std::getenv(name); }

void before_fork() {
    making.lock();
    if (Model* made = current.load(); made != nullptr) made->hca->commands.lock();
    descriptors().lock();
}

void after_fork_in_parent() {
    descriptors().unlock();
    if (Model* made = current.load(); made != nullptr) made->hca->commands.unlock();
    making.unlock();
}

/// The child has no engine: the parent's model is left as it lies, and a new one is made when asked for.
void after_fork_in_child() {
    after_fork_in_parent();
    if (Model* parents = current.load(); parents != nullptr && parents->control) parents->control->forget();
    current.store(nullptr);
    reset_broken(false);
}

std::unique_ptr<Model> make_model(std::string& why) {
    auto made = std::make_unique<Model>();
    made->pid = getpid();
    auto config = config_from_environment(environment_value);
    if (!config.ok()) return why = config.error().what, nullptr;
    made->config = std::move(config).value();
    auto hca = build_hca(made->config);
    if (!hca.ok()) return why = hca.error().what, nullptr;
    made->hca = std::move(hca).value();
    auto root = make_tree_root();
    if (!root.ok()) return why = root.error().what, nullptr;
    made->root = root.value();
    const stride::Status laid = lay_tree(*made->hca, made->root, made->config.list_on_pci);
    if (!laid.ok()) return why = laid.error().what, nullptr;
    if (made->config.control_path.empty()) return made;
    auto control = ControlSocket::open(made->config.control_path, *made->hca);
    // Another process of the same command may have it: not worth dying for.
    if (control.ok())
        made->control = std::move(control).value();
    else
        std::fprintf(stderr, "swhca: %s\n", control.error().what.c_str());
    return made;
}

void write_report(const Model& model) {
    if (model.config.report_path.empty()) return;
    std::FILE* out = std::fopen(model.config.report_path.c_str(), "we");
    if (out == nullptr) {
        std::fprintf(stderr, "swhca: cannot write the report %s: %s\n", model.config.report_path.c_str(),
                     std::strerror(errno));
        return;
    }
    const std::string text = report_json(*model.hca);
    std::fwrite(text.data(), 1, text.size(), out);
    std::fclose(out);
}

/// End of the process, after the program's own exit handlers.
[[gnu::destructor]] void finish() {
    Model* made = current.load();
    if (made == nullptr || made->pid != getpid()) return;
    made->control.reset();
    std::scoped_lock lock{made->hca->commands};
    shut_down(*made->hca);
    write_report(*made);
    remove_tree(made->root);
}

} // namespace

Model* model_if_made() noexcept { return current.load(std::memory_order_acquire); }

bool lists_on_pci() noexcept {
    static const bool listed = [] {
        const char* value = std::getenv(environment::pci);
        return value != nullptr && std::string_view(value) == "1";
    }();
    return listed;
}

Model* model() {
    Model* made = model_if_made();
    if (made != nullptr) return made->pid == getpid() ? made : nullptr;
    if (is_making || failed.load()) return nullptr;
    std::scoped_lock lock{making};
    if ((made = model_if_made()) != nullptr || failed.load()) return made;
    is_making = true;
    std::string why;
    made = make_model(why).release();
    if (made == nullptr) {
        std::fprintf(stderr, "swhca: %s\n", why.c_str());
        failed.store(true);
    } else if (!forks_watched.exchange(true)) {
        pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    }
    current.store(made, std::memory_order_release);
    is_making = false;
    return made;
}

} // namespace swhca::preload
