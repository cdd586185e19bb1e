/* GPM: two samples of counters, and metrics from their difference. */
#include <stdlib.h>

#include "nvml.h"

#define METRICS_MOST 477u

struct nvmlGpmSample_st {
    uint64_t stamp_ns;
    uint64_t busy_ns;
    uint64_t sm_ns;
    uint64_t dram_bytes;
    uint64_t to_device_bytes;
    uint64_t to_host_bytes;
    uint64_t bandwidth;
    uint32_t sms;
};
typedef struct nvmlGpmSample_st *nvmlGpmSample_t;

typedef struct {
    unsigned int metricId;
    nvmlReturn_t nvmlReturn;
    double value;
    struct {
        const char *shortName, *longName, *unit;
    } metricInfo;
} nvmlGpmMetric_t;

typedef struct {
    unsigned int version;
    unsigned int numMetrics;
    nvmlGpmSample_t sample1;
    nvmlGpmSample_t sample2;
    nvmlGpmMetric_t metrics[METRICS_MOST];
} nvmlGpmMetricsGet_t;

typedef struct {
    unsigned int version;
    unsigned int isSupportedDevice;
} nvmlGpmSupport_t;

API nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t *support)
{
    DEVICE(device, gpu);
    (void)gpu;
    NEED(support);
    support->isSupportedDevice = 1;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t *sample)
{
    NEED(sample);
    *sample = calloc(1, sizeof **sample);
    return *sample != NULL ? NVML_SUCCESS : NVML_ERROR_UNKNOWN;
}

API nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample)
{
    free(sample);
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample)
{
    DEVICE(device, gpu);
    NEED(sample);
    *sample = (struct nvmlGpmSample_st){gpu->stamp_ns,        gpu->busy_ns,       gpu->sm_ns,
                                        gpu->dram_bytes,      gpu->to_device_bytes,
                                        gpu->to_host_bytes,   gpu->bandwidth,     gpu->sms};
    return NVML_SUCCESS;
}

static double percent(double part, double whole)
{
    return whole > 0 ? 100.0 * part / whole : 0;
}

/* 1 graphics activity, 2 SM activity, 3 SM occupancy, 10 DRAM bandwidth (percent);
 * 20 and 21 PCIe traffic out of and into the device (MiB a second). */
static bool metric(nvmlGpmMetric_t *m, const struct nvmlGpmSample_st *a,
                   const struct nvmlGpmSample_st *b)
{
    double passed_ns = (double)(b->stamp_ns - a->stamp_ns);
    double mib_per_s = passed_ns > 0 ? 1e9 / passed_ns / 1048576.0 : 0;
    double sm = percent((double)(b->sm_ns - a->sm_ns), passed_ns * b->sms);
    switch (m->metricId) {
    case 1:
        m->value = percent((double)(b->busy_ns - a->busy_ns), passed_ns);
        break;
    case 2:
    case 3:
        m->value = sm;
        break;
    case 10:
        m->value = percent((double)(b->dram_bytes - a->dram_bytes),
                           passed_ns * (double)b->bandwidth / 1e9);
        break;
    case 20:
        m->value = (double)(b->to_host_bytes - a->to_host_bytes) * mib_per_s;
        break;
    case 21:
        m->value = (double)(b->to_device_bytes - a->to_device_bytes) * mib_per_s;
        break;
    default:
        m->value = 0;
        return false;
    }
    return true;
}

API nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t *get)
{
    NEED(get);
    NEED(get->sample1);
    NEED(get->sample2);
    if (get->numMetrics > METRICS_MOST || get->sample2->stamp_ns <= get->sample1->stamp_ns)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned int i = 0; i < get->numMetrics; i++) {
        nvmlGpmMetric_t *m = &get->metrics[i];
        bool known = metric(m, get->sample1, get->sample2);
        m->nvmlReturn = known ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
    }
    return NVML_SUCCESS;
}
