/* What a program says of itself from inside its process: dure.client calls these through ctypes.
 *
 * They concern the first device the program is attached on; programs that report use one.
 */
#include "shim.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT int dure_report_latency_ns(uint64_t latency_ns)
{
    struct dure_link *link = dure_link_any();
    if (link == NULL)
        return -1;
    dure_reported(&link->plane, latency_ns);
    dure_link_drop(link);
    return 0;
}

static uint64_t millionths(double units)
{
    return units > 0.0 && units < 1e12 ? (uint64_t)(units * 1e6) : 0;
}

EXPORT int dure_report_progress(double done, double total)
{
    struct dure_link *link = dure_link_any();
    if (link == NULL)
        return -1;
    struct dure_counters *counters = &link->plane.slot->counters;
    __atomic_store_n(&counters->progress_total, millionths(total), __ATOMIC_RELAXED);
    __atomic_store_n(&counters->progress_done, millionths(done), __ATOMIC_RELAXED);
    dure_link_drop(link);
    return 0;
}
