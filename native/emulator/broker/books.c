/* The published state: what NVML shows of each GPU and each process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "broker.h"

void books_open(void)
{
    broker.state_fd = memfd_create("dure-emulator-state", MFD_CLOEXEC);
    if (broker.state_fd < 0 || ftruncate(broker.state_fd, sizeof(struct emu_state)) != 0)
        exit(1);
    broker.state = mmap(NULL, sizeof(struct emu_state), PROT_READ | PROT_WRITE, MAP_SHARED,
                        broker.state_fd, 0);
    if (broker.state == MAP_FAILED)
        exit(1);
    broker.state->version = EMU_VERSION;
    broker.state->gpus = broker.config.gpus;
    broker.state->broker_pid = (int32_t)getpid();
    broker.state->mps = broker.config.mps;
    for (uint32_t i = 0; i < broker.config.gpus; i++) {
        struct emu_gpu *gpu = &broker.state->gpu[i];
        snprintf(gpu->name, sizeof gpu->name, "NVIDIA H200 (emulated)");
        memcpy(gpu->uuid, "dureemulatedgpu", 15);
        gpu->uuid[15] = (uint8_t)i;
        gpu->sms = broker.config.sms;
        gpu->cluster_groups = broker.config.cluster_groups;
        gpu->total_bytes = broker.config.memory_bytes;
        gpu->bandwidth = (uint64_t)broker.config.bandwidth;
    }
}

static void list_processes(struct emu_gpu *to, uint32_t device)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < EMU_CLIENTS; i++) {
        const struct client *client = broker.clients[i];
        if (client == NULL || client->contexts[device] == 0)
            continue;
        to->process[count++] = (struct emu_process){
            .pid = client->pid,
            .contexts = client->contexts[device],
            .used_bytes = client->used_bytes[device],
            .sm_ns = (uint64_t)client->sm_ns[device],
            .dram_bytes = (uint64_t)client->dram_bytes[device],
        };
    }
    __atomic_store_n(&to->processes, count, __ATOMIC_RELEASE);
}

void books_update(void)
{
    for (uint32_t i = 0; i < broker.config.gpus; i++) {
        struct emu_gpu *to = &broker.state->gpu[i];
        const struct gpu *from = &broker.gpu[i];
        uint64_t used = 0;
        for (uint32_t c = 0; c < EMU_CLIENTS; c++)
            if (broker.clients[c] != NULL)
                used += broker.clients[c]->used_bytes[i];
        to->used_bytes = used;
        to->stamp_ns = broker.sim_ns;
        to->busy_ns = (uint64_t)from->busy_ns;
        to->sm_ns = (uint64_t)from->sm_ns;
        to->dram_bytes = (uint64_t)from->dram_bytes;
        to->to_device_bytes = (uint64_t)from->to_device_bytes;
        to->to_host_bytes = (uint64_t)from->to_host_bytes;
        list_processes(to, i);
    }
    broker.state->mps = broker.config.mps;
}

static uint32_t percent(double part, double whole)
{
    double value = whole > 0 ? 100.0 * part / whole : 0;
    return value > 100 ? 100 : (uint32_t)(value + 0.5);
}

static void sample_processes(struct emu_gpu *to, uint32_t device, double window_ns)
{
    for (uint32_t i = 0; i < EMU_CLIENTS; i++) {
        struct client *client = broker.clients[i];
        if (client == NULL || client->contexts[device] == 0)
            continue;
        double sm_ns = client->sm_ns[device] - client->sampled_sm_ns[device];
        double moved = client->dram_bytes[device] - client->sampled_dram_bytes[device];
        client->sampled_sm_ns[device] = client->sm_ns[device];
        client->sampled_dram_bytes[device] = client->dram_bytes[device];
        if (sm_ns <= 0)
            continue;
        to->samples[to->sample_head % EMU_SAMPLES] = (struct emu_sample){
            .stamp_us = broker.sim_ns / 1000,
            .pid = client->pid,
            .sm_percent = (uint16_t)percent(sm_ns, window_ns * broker.config.sms),
            .memory_percent = (uint16_t)percent(moved, window_ns * broker.config.bandwidth / 1e9),
        };
        __atomic_store_n(&to->sample_head, to->sample_head + 1, __ATOMIC_RELEASE);
    }
}

/* Close the utilisation window where it is over. */
void books_sample(void)
{
    uint64_t length_ns = broker.sim_ns - broker.window_ns;
    if (length_ns < BOOKS_WINDOW_NS)
        return;
    for (uint32_t i = 0; i < broker.config.gpus; i++) {
        struct gpu *gpu = &broker.gpu[i];
        struct emu_gpu *to = &broker.state->gpu[i];
        double moved = gpu->dram_bytes - gpu->window_dram_bytes;
        to->window_busy_percent = percent(gpu->busy_ns - gpu->window_busy_ns, (double)length_ns);
        to->window_memory_percent =
            percent(moved, (double)length_ns * broker.config.bandwidth / 1e9);
        to->window_end_ns = broker.sim_ns;
        gpu->window_busy_ns = gpu->busy_ns;
        gpu->window_dram_bytes = gpu->dram_bytes;
        sample_processes(to, i, (double)length_ns);
    }
    broker.window_ns = broker.sim_ns;
}
