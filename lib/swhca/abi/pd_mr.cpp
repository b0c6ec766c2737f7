// SPDX-License-Identifier: BSD-3-Clause
#include "swhca/hca/pd_mr.hpp"

#include "swhca/abi/handlers.hpp"

#include <rdma/ib_user_verbs.h>
#include <rdma/mlx5-abi.h>

namespace swhca::handlers {

int alloc_pd(const Call& call) {
    Pd* pd = nullptr;
    if (const int error = swhca::alloc_pd(call.context, pd)) return error;
    int error = call.answer_core(ib_uverbs_alloc_pd_resp{.pd_handle = pd->handle});
    if (error == 0) error = call.answer_driver(mlx5_ib_alloc_pd_resp{pd->pdn.value});
    if (error != 0) swhca::dealloc_pd(call.context, pd->handle);
    return error;
}

int dealloc_pd(const Call& call) {
    return swhca::dealloc_pd(call.context, call.core<ib_uverbs_dealloc_pd>().pd_handle);
}

int reg_mr(const Call& call) {
    const auto req = call.core<ib_uverbs_reg_mr>();
    const MrRequest request{.start = req.start,
                            .length_bytes = req.length,
                            .iova = req.hca_va,
                            .pd_handle = req.pd_handle,
                            .access = req.access_flags};
    std::uint32_t handle = 0;
    Lkey lkey;
    if (const int error = swhca::reg_mr(call.context, request, handle, lkey)) return error;
    const int error =
        call.answer_core(ib_uverbs_reg_mr_resp{.mr_handle = handle, .lkey = lkey.value, .rkey = lkey.value});
    if (error != 0) swhca::dereg_mr(call.context, handle);
    return error;
}

int rereg_mr(const Call& call) {
    const auto req = call.core<ib_uverbs_rereg_mr>();
    const MrRequest request{.start = req.start,
                            .length_bytes = req.length,
                            .iova = req.hca_va,
                            .pd_handle = req.pd_handle,
                            .access = req.access_flags};
    Lkey lkey;
    if (const int error = swhca::rereg_mr(call.context, req.mr_handle, req.flags, request, lkey))
        return error;
    return call.answer_core(ib_uverbs_rereg_mr_resp{.lkey = lkey.value, .rkey = lkey.value});
}

int dereg_mr(const Call& call) {
    return swhca::dereg_mr(call.context, call.core<ib_uverbs_dereg_mr>().mr_handle);
}

} // namespace swhca::handlers
