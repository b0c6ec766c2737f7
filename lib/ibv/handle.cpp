// SPDX-License-Identifier: BSD-3-Clause
#include "ibv/handle.hpp"

#include "base/log.hpp"

#include <cerrno>
#include <cstring>

namespace stride::ibv {
namespace {

void check(int code, const char* what) noexcept {
    if (code == 0) return;
    const int reason = code > 0 ? code : errno;
    log_line(LogLevel::error, "%s: %s", what, std::strerror(reason));
}

} // namespace

void Destroy::operator()(ibv_context* context) const noexcept {
    check(ibv_close_device(context), "close device");
}
void Destroy::operator()(ibv_pd* pd) const noexcept { check(ibv_dealloc_pd(pd), "deallocate PD"); }
void Destroy::operator()(ibv_mr* mr) const noexcept { check(ibv_dereg_mr(mr), "deregister memory"); }
void Destroy::operator()(ibv_cq* cq) const noexcept { check(ibv_destroy_cq(cq), "destroy CQ"); }
void Destroy::operator()(ibv_comp_channel* channel) const noexcept {
    check(ibv_destroy_comp_channel(channel), "destroy completion channel");
}
void Destroy::operator()(ibv_wq* wq) const noexcept { check(ibv_destroy_wq(wq), "destroy WQ"); }
void Destroy::operator()(ibv_rwq_ind_table* table) const noexcept {
    check(ibv_destroy_rwq_ind_table(table), "destroy RQT");
}
void Destroy::operator()(ibv_qp* qp) const noexcept { check(ibv_destroy_qp(qp), "destroy QP"); }
void Destroy::operator()(ibv_flow* flow) const noexcept { check(ibv_destroy_flow(flow), "destroy flow"); }

Error verbs_error(int code, std::string what) {
    if (code == 0) code = errno;
    if (code < 0) code = -code;
    if (code == 0) code = EIO;
    return Error{code, what + ": " + std::strerror(code)};
}

} // namespace stride::ibv
