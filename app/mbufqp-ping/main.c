/* SPDX-License-Identifier: BSD-3-Clause */
/* Echo over an mbuf QP, without any ethdev: the tutorial of libmbufqp (doc/guides/mbufqp.md walks through
 * it).
 *
 *   mbufqp-ping [EAL options] -- ENCAP DEVICE                echo whatever comes (prints the MAC to ping)
 *   mbufqp-ping [EAL options] -- ENCAP DEVICE MAC [COUNT]    ping that MAC
 *   mbufqp-ping [EAL options] -- ENCAP DEVICE DEVICE [COUNT] ping the second device, echoing there itself
 */
#define _GNU_SOURCE
#include "mbufqp.h"

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_ether.h>
#include <rte_mbuf.h>

#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { POOL_MBUFS = 8191, FRAME_BYTES = 64, BURST = 32, WAIT_SECONDS = 2, ETHER_TYPE = 0x88b5 };

struct end {
    struct mbufqp* qp;
    uint8_t mac[RTE_ETHER_ADDR_LEN];
    sem_t event; /* posted by the callback */
};
struct ping {
    struct rte_ether_hdr ethernet;
    uint32_t sequence;
    uint64_t sent_at; /* TSC */
};

static volatile sig_atomic_t stopped;
static void stop(int signal_number) { (void)signal_number, stopped = 1; }

/* On the set's event thread: only tells the main thread to look. */
static void on_event(void* arg, struct mbufqp* qp, unsigned event, uint16_t queue) {
    (void)qp, (void)event, (void)queue;
    sem_post(&((struct end*)arg)->event);
}

/* LIDs are what a fabric's manager gives; for a try the VNIC of a device has that of its MAC (DLID rule of
 * locally administered addresses: bytes 5, 4, 3). */
static int open_end(struct end* end, const char* encap, const char* device, struct rte_mempool* pool) {
    static const char* const names[] = {"ethernet", "ipoib", "opa_vnic"}; /* by enum mbufqp_encap */
    const struct mbufqp_opa_vnic vnic = {.vesw_id = 1, .encap_slid = 1, .u_mcast_dlid = 0xf00000};
    struct mbufqp_config config = {.device = device, .port = 1, .tx_queues = 2, .rx_queues = 1};
    config.rx_pool = pool, config.promiscuous = 1, config.opa_vnic = &vnic;
    config.event = on_event, config.event_arg = end;
    while (config.encap <= MBUFQP_OPA_VNIC && strcmp(encap, names[config.encap]) != 0)
        config.encap++;
    sem_init(&end->event, 0, 0);
    if (mbufqp_open(&config, &end->qp) != 0) return fprintf(stderr, "%s: %s\n", device, mbufqp_error()), -1;
    mbufqp_mac(end->qp, end->mac);
    if (config.encap == MBUFQP_OPA_VNIC) end->mac[0] = 0x02, end->mac[5]++;
    printf("%s: %s, QPN 0x%x, MAC " RTE_ETHER_ADDR_PRT_FMT "\n", device, encap, mbufqp_qpn(end->qp),
           end->mac[0], end->mac[1], end->mac[2], end->mac[3], end->mac[4], end->mac[5]);
    return fflush(stdout);
}

/* Until a packet is there. 0: none came in time. */
static int wait_packet(struct end* end) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_SECONDS;
    while (mbufqp_notify(end->qp, 0, MBUFQP_EVENT_READ) == 0)
        if (sem_timedwait(&end->event, &until) != 0) return 0;
    return 1;
}

/* Puts one packet on its flow's queue, or gives it back to its pool. */
static int send_one(struct end* end, struct rte_mbuf* mbuf) {
    if (mbufqp_put(end->qp, mbufqp_select_queue(end->qp, mbuf), &mbuf, 1) == 1) return 1;
    rte_pktmbuf_free(mbuf);
    return 0;
}

static unsigned echo_burst(struct end* end) {
    struct rte_mbuf* mbufs[BURST];
    const uint16_t count = mbufqp_get(end->qp, 0, mbufs, BURST);
    for (uint16_t i = 0; i < count; ++i) {
        struct rte_ether_hdr* ethernet = rte_pktmbuf_mtod(mbufs[i], struct rte_ether_hdr*);
        ethernet->dst_addr = ethernet->src_addr;
        memcpy(&ethernet->src_addr, end->mac, sizeof end->mac);
        send_one(end, mbufs[i]);
    }
    return count;
}

static int send_ping(struct end* end, const uint8_t* to, uint32_t sequence, struct rte_mempool* pool) {
    struct rte_mbuf* mbuf = rte_pktmbuf_alloc(pool);
    if (mbuf == NULL) return 0;
    struct ping* ping = memset(rte_pktmbuf_append(mbuf, FRAME_BYTES), 0, FRAME_BYTES);
    memcpy(&ping->ethernet.dst_addr, to, sizeof end->mac);
    memcpy(&ping->ethernet.src_addr, end->mac, sizeof end->mac);
    ping->ethernet.ether_type = rte_cpu_to_be_16(ETHER_TYPE);
    ping->sequence = sequence, ping->sent_at = rte_rdtsc();
    return send_one(end, mbuf);
}

/* 1: the answer to `sequence` came. `peer` (may be NULL) echoes in this process. */
static int await_answer(struct end* end, struct end* peer, uint32_t sequence) {
    struct rte_mbuf* mbufs[BURST];
    int answered = 0;
    while (!answered && !stopped) {
        if (peer != NULL && (!wait_packet(peer) || echo_burst(peer) == 0)) return 0;
        if (!wait_packet(end)) return 0;
        const uint16_t count = mbufqp_get(end->qp, 0, mbufs, BURST);
        for (uint16_t i = 0; i < count; ++i) {
            const struct ping* ping = rte_pktmbuf_mtod(mbufs[i], const struct ping*);
            if (mbufs[i]->pkt_len >= FRAME_BYTES && ping->sequence == sequence) {
                answered = 1;
                printf("%u bytes: seq %u, %.1f us\n", mbufs[i]->pkt_len, sequence,
                       (double)(rte_rdtsc() - ping->sent_at) * 1e6 / (double)rte_get_tsc_hz());
            }
            rte_pktmbuf_free(mbufs[i]);
        }
    }
    return answered;
}

int main(int argc, char** argv) {
    const int used = rte_eal_init(argc, argv);
    argc -= used, argv += used;
    if (used < 0 || argc < 3) return fputs("mbufqp-ping -- ENCAP DEVICE [MAC | DEVICE] [COUNT]\n", stderr), 2;
    struct rte_mempool* pool =
        rte_pktmbuf_pool_create("ping", POOL_MBUFS, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
    struct end end = {0}, peer = {0};
    struct rte_ether_addr to = {{0}};
    if (pool == NULL || open_end(&end, argv[1], argv[2], pool) != 0) return 2;
    const int is_mac = argc > 3 && rte_ether_unformat_addr(argv[3], &to) == 0;
    if (argc > 3 && !is_mac && open_end(&peer, argv[1], argv[3], pool) != 0) return 2;
    signal(SIGINT, stop), signal(SIGTERM, stop);
    const uint32_t wanted = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 0) : 5;
    uint32_t answers = 0;
    while (argc == 3 && !stopped)
        if (wait_packet(&end)) echo_burst(&end);
    for (uint32_t sequence = 0; argc > 3 && sequence < wanted && !stopped; ++sequence)
        if (send_ping(&end, is_mac ? to.addr_bytes : peer.mac, sequence, pool))
            answers += (uint32_t)await_answer(&end, is_mac ? NULL : &peer, sequence);
    if (argc > 3) printf("%u sent, %u answered\n", wanted, answers);
    mbufqp_close(end.qp);
    mbufqp_close(peer.qp);
    rte_eal_cleanup();
    return argc > 3 && answers != wanted;
}
