/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mbuf QP: send and receive queues of one port, optimal for whole packets, under one QPN.
 *
 * Packets are Ethernet frames in mbufs whatever the fabric carries: over an Ethernet port as they are, over
 * an InfiniBand port as IPoIB datagrams, over Omni-Path as VNIC packets. EAL must be initialised.
 *
 * A queue (send or receive, by number) has one user at a time; different queues may have different threads.
 * open, close and the tables of an encap are for the control thread. Calls that can fail return 0 or a
 * negative errno; mbufqp_error() says more.
 */
#ifndef MBUFQP_H
#define MBUFQP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct rte_mbuf;
struct rte_mempool;
struct mbufqp;

enum mbufqp_encap { MBUFQP_ETHERNET = 0, MBUFQP_IPOIB = 1, MBUFQP_OPA_VNIC = 2 };

/* What a queue or the port has to say; bits of mbufqp_notify() and of the callback. */
enum mbufqp_event {
    MBUFQP_EVENT_WRITE = 1 << 0, /* a send queue may have room again: ask mbufqp_write_avail() */
    MBUFQP_EVENT_READ = 1 << 1,  /* a packet may be there: call mbufqp_get() */
    MBUFQP_EVENT_LINK = 1 << 2,  /* the link came, went, or changed its address */
    MBUFQP_EVENT_ERROR = 1 << 3  /* the device failed: close */
};

/* On the set's event thread; may call anything of the library but mbufqp_close(). */
typedef void (*mbufqp_event_callback)(void* arg, struct mbufqp* qp, unsigned event, uint16_t queue);

/* What send queues are asked to do; bits of mbufqp_config.offloads. */
enum mbufqp_offload {
    MBUFQP_MULTI_SEGMENT = 1 << 0, /* chains of mbufs */
    MBUFQP_CHECKSUM = 1 << 1,      /* L3 and L4 by the HCA; not over OPA VNIC */
    MBUFQP_VLAN_INSERT = 1 << 2,   /* not over IPoIB */
    MBUFQP_FAST_FREE = 1 << 3      /* all mbufs of one pool, direct, reference count 1 */
};

/* IPoIB: an interface of the port's partition. */
struct mbufqp_ipoib {
    uint16_t pkey_index;
    uint16_t broadcast_lid; /* of the broadcast group; 0: 0xc000 */
    uint32_t qkey;          /* of the broadcast group; 0: 0x0b1b */
    uint8_t scope;          /* of the groups; 0: link-local (2) */
    uint8_t service_level;
};

/* OPA VNIC: what the fabric's Ethernet manager says of the port (kernel opa_vesw_info,
 * opa_per_veswport_info). */
struct mbufqp_opa_vnic {
    uint16_t vesw_id; /* virtual Ethernet switch */
    uint16_t pkey;    /* 0: 0xffff */
    uint32_t encap_slid;
    uint32_t u_mcast_dlid;
    uint32_t u_ucast_dlid[16];
    uint16_t def_port_mask;
    uint32_t rc;
    uint8_t pcp_to_sc_uc[8], pcp_to_sc_mc[8], pcp_to_vl_uc[8], pcp_to_vl_mc[8];
    uint8_t non_vlan_sc_uc, non_vlan_sc_mc, non_vlan_vl_uc, non_vlan_vl_mc;
};

struct mbufqp_config {
    const char* device; /* "mlx5_0" */
    uint8_t port;       /* from 1 */
    enum mbufqp_encap encap;
    uint16_t tx_queues, rx_queues; /* rx_queues may be 0 */
    uint16_t tx_packets;           /* in flight per send queue; 0: 512 */
    uint16_t rx_packets;           /* buffered per receive queue; 0: 512 */
    uint16_t mtu;                  /* of the IP packet; 0: what the port has, at most 1500 over Ethernet */
    uint32_t offloads;             /* of mbufqp_offload */
    struct rte_mempool* rx_pool;   /* of what is received */
    int promiscuous;               /* Ethernet: receive everything */
    /* Another set whose QPN these send queues bear. Same device, port and encap; not more queues than that
     * one has, no receive queues, and that one cannot be closed before. */
    struct mbufqp* share;
    mbufqp_event_callback event; /* NULL: no events, no event thread */
    void* event_arg;
    const struct mbufqp_ipoib* ipoib;       /* may be NULL */
    const struct mbufqp_opa_vnic* opa_vnic; /* OPA VNIC: not NULL */
};

struct mbufqp_stats {
    uint64_t tx_packets, tx_bytes; /* posted */
    uint64_t tx_errors;            /* of those, lost to an error of the queue */
    uint64_t tx_full;              /* puts cut short for want of room */
    uint64_t tx_refused;           /* packets put did not take, for whatever reason */
    uint64_t tx_wqes, tx_recoveries;
    uint64_t rx_packets, rx_bytes; /* handed over */
    uint64_t rx_dropped;
};

/* -EINVAL, -ENODEV, -ENOTSUP, -ENOMEM, ... */
int mbufqp_open(const struct mbufqp_config* config, struct mbufqp** qp);
/* Waits a moment for what was put, then drops the rest. -EBUSY: other sets share its QPN. */
int mbufqp_close(struct mbufqp* qp);

/* Takes packets from the front of `mbufs`; returns how many. The rest stay the caller's. */
uint16_t mbufqp_put(struct mbufqp* qp, uint16_t queue, struct rte_mbuf** mbufs, uint16_t count);
/* Received frames; returns how many. */
uint16_t mbufqp_get(struct mbufqp* qp, uint16_t queue, struct rte_mbuf** mbufs, uint16_t count);
/* Packets received and not yet got (at most: some may turn out not to be for us). */
uint32_t mbufqp_read_avail(struct mbufqp* qp, uint16_t queue);
/* Packets of one segment that put takes. 0 from the moment a queue is nearly full until it is half empty. */
uint32_t mbufqp_write_avail(struct mbufqp* qp, uint16_t queue);
/* The send queue of a packet: the same for all packets of a flow. */
uint16_t mbufqp_select_queue(struct mbufqp* qp, const struct rte_mbuf* mbuf);
/*
 * Asks for one event (WRITE or READ) of a queue. Returns 1 if what is waited for is so already (no event will
 * come), 0 if the callback will be called once. To be called by the queue's user. No event is lost between
 * the last look and this.
 */
int mbufqp_notify(struct mbufqp* qp, uint16_t queue, unsigned event);

/* The port's MAC address; for IPoIB 02 QQ QQ QQ LL LL of its QPN and LID. */
void mbufqp_mac(const struct mbufqp* qp, uint8_t mac[6]);
/* The QPN on the wire; 0 over Ethernet and OPA VNIC. */
uint32_t mbufqp_qpn(const struct mbufqp* qp);
uint16_t mbufqp_mtu(const struct mbufqp* qp);
uint16_t mbufqp_tx_queues(const struct mbufqp* qp);
uint16_t mbufqp_rx_queues(const struct mbufqp* qp);
/* 1: up, 0: down, or a negative errno. */
int mbufqp_link(const struct mbufqp* qp);

/* Of queue `queue` (send and receive queue of that number), or UINT16_MAX: of all. */
void mbufqp_get_stats(const struct mbufqp* qp, uint16_t queue, struct mbufqp_stats* stats);
/* Counter `index` of what the set refused to send or dropped on receive, summed over queues; NULL behind the
 * last. OPA VNIC's bear the kernel's names. */
const char* mbufqp_counter(const struct mbufqp* qp, unsigned index, uint64_t* value);

/* IPoIB: sends to and receives from a group at a multicast LID that the subnet manager has given. */
int mbufqp_join(struct mbufqp* qp, const uint8_t gid[16], uint16_t lid);
int mbufqp_leave(struct mbufqp* qp, const uint8_t gid[16], uint16_t lid);
/* OPA VNIC: MAC table; DLID 0 removes. */
int mbufqp_set_mac_dlid(struct mbufqp* qp, const uint8_t mac[6], uint32_t dlid);
/* OPA VNIC: state FORWARDING (1, from the start) or DROP_ALL (0). */
int mbufqp_set_forwarding(struct mbufqp* qp, int forwarding);

/* What was wrong with the last call that failed on this thread. */
const char* mbufqp_error(void);

#ifdef __cplusplus
}
#endif

#endif
