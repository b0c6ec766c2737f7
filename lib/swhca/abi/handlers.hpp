// SPDX-License-Identifier: BSD-3-Clause
/// The handlers of all commands; one file per object family. Each returns 0 or a positive errno.
#pragma once

#include "swhca/abi/call.hpp"

namespace swhca::handlers {

// context.cpp
int get_context(const Call& call);
int query_device(const Call& call);
int ex_query_device(const Call& call);
int query_port(const Call& call);

// pd_mr.cpp
int alloc_pd(const Call& call);
int dealloc_pd(const Call& call);
int reg_mr(const Call& call);
int rereg_mr(const Call& call);
int dereg_mr(const Call& call);

// cq.cpp
int create_comp_channel(const Call& call);
int create_cq(const Call& call);
int ex_create_cq(const Call& call);
int ex_modify_cq(const Call& call);
int resize_cq(const Call& call);
int destroy_cq(const Call& call);

// wq.cpp
int ex_create_wq(const Call& call);
int ex_modify_wq(const Call& call);
int ex_destroy_wq(const Call& call);
int ex_create_rwq_ind_tbl(const Call& call);
int ex_destroy_rwq_ind_tbl(const Call& call);

// qp.cpp
int create_qp(const Call& call);
int ex_create_qp(const Call& call);
int modify_qp(const Call& call);
int ex_modify_qp(const Call& call);
int query_qp(const Call& call);
int destroy_qp(const Call& call);

// srq.cpp
int create_srq(const Call& call);
int modify_srq(const Call& call);
int query_srq(const Call& call);
int destroy_srq(const Call& call);

// datagram.cpp
int create_ah(const Call& call);
int destroy_ah(const Call& call);
int attach_mcast(const Call& call);
int detach_mcast(const Call& call);

// flow.cpp
int ex_create_flow(const Call& call);
int ex_destroy_flow(const Call& call);

} // namespace swhca::handlers
