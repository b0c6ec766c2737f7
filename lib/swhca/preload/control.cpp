// SPDX-License-Identifier: BSD-3-Clause
// swhca.h: control from inside the program.
#include "swhca/swhca.h"

#include "base/log.hpp"
#include "swhca/engine/faults.hpp"
#include "swhca/hca/report.hpp"
#include "swhca/hca/rules.hpp"
#include "swhca/preload/process.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

using swhca::preload::Model;

extern "C" {

[[gnu::visibility("default")]] void swhca_hold(void) {
    if (Model* model = swhca::preload::model(); model != nullptr) model->hca->hold();
}

[[gnu::visibility("default")]] void swhca_release(void) {
    if (Model* model = swhca::preload::model(); model != nullptr) model->hca->release();
}

[[gnu::visibility("default")]] unsigned swhca_step(unsigned budget) {
    Model* model = swhca::preload::model();
    return model != nullptr ? model->hca->step(budget) : 0;
}

[[gnu::visibility("default")]] uint64_t swhca_broken(const char* name) {
    if (name == nullptr) return swhca::broken_total();
    for (std::size_t i = 0; i < swhca::rule_count; ++i) {
        const auto rule = static_cast<swhca::Rule>(i);
        if (std::string_view(name) == swhca::rule_name(rule)) return swhca::broken_count(rule);
    }
    return UINT64_MAX;
}

[[gnu::visibility("default")]] int swhca_set_link(const char* name, int up) {
    Model* model = swhca::preload::model();
    if (model == nullptr) return ENODEV;
    for (const auto& device : model->hca->devices) {
        if (device->name != name) continue;
        device->engine->set_plug(device->port, up != 0);
        return 0;
    }
    return ENODEV;
}

[[gnu::visibility("default")]] int swhca_fault(const char* text) {
    Model* model = swhca::preload::model();
    if (model == nullptr) return ENODEV;
    std::scoped_lock lock{model->hca->commands};
    const stride::Status done = swhca::inject_fault(*model->hca, text);
    if (done) return 0;
    stride::log_line(stride::LogLevel::error, "%s", done.error().what.c_str());
    return done.error().code;
}

[[gnu::visibility("default")]] int swhca_report(char* text, unsigned size) {
    std::string report = "{}\n";
    if (Model* model = swhca::preload::model_if_made(); model != nullptr) {
        std::scoped_lock lock{model->hca->commands};
        report = swhca::report_json(*model->hca);
    }
    if (size > 0) {
        const std::size_t copied = std::min<std::size_t>(size - 1, report.size());
        std::memcpy(text, report.data(), copied);
        text[copied] = '\0';
    }
    return static_cast<int>(report.size());
}
}
