/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control of the software HCA from inside the process it is loaded into.
 *
 * The functions live in libswhca.so, which `swhca run` preloads; take them with dlsym(RTLD_DEFAULT, name), so
 * that the program also runs without it. All may be called from any thread but the engine's.
 */
#ifndef SWHCA_H
#define SWHCA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Takes packet moving away from the engine's thread: from now only swhca_step() moves packets. Nests. */
void swhca_hold(void);

/* Undoes one swhca_hold(). */
void swhca_release(void);

/*
 * One pass of the engine over all ports on the calling thread, at most `budget` frames per port and
 * direction. Returns the number of frames moved.
 */
unsigned swhca_step(unsigned budget);

/* How often the rule `name` was broken in this process; the sum of all for NULL; UINT64_MAX if there is none.
 */
uint64_t swhca_broken(const char* name);

/*
 * Pulls the plug of a device's port (`up` 0) or puts it back: while it is out, nothing is sent or received,
 * and the program gets PORT_ERR and PORT_ACTIVE. Returns 0, or ENODEV if there is no such device.
 */
int swhca_set_link(const char* device, int up);

/*
 * A fault on request: `text` is "DEVICE KIND key=value ...", as in "mlx5_0 rx_error after=10 syndrome=4";
 * kinds are rx_error, tx_error, cq_overrun, filler, disorder, tx_disorder, caps, late, refuse, remove and
 * clear (doc/guides/swhca.md). Returns 0, EINVAL (said on stderr) or ENODEV if there is no model.
 */
int swhca_fault(const char* text);

/*
 * The whole state as JSON (ports, counters, broken rules): writes at most `size` bytes with the final NUL and
 * returns the length needed without it, as snprintf.
 */
int swhca_report(char* text, unsigned size);

#ifdef __cplusplus
}
#endif

#endif
