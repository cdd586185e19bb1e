/* The broker's settings: defaults of an H200, then the file `config` of its folder, then the
 * environment (DURE_EMULATOR_SMS and so on), so that a test can set them either way. */
#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "broker.h"

static void set(struct config *c, const char *key, const char *text)
{
    double value = atof(text);
    if (strcmp(key, "gpus") == 0)
        c->gpus = value < 1 ? 1 : value > EMU_GPUS ? EMU_GPUS : (uint32_t)value;
    else if (strcmp(key, "sms") == 0)
        c->sms = value < 1 ? 1 : value > 32 * EMU_GROUP_SMS ? 32 * EMU_GROUP_SMS : (uint32_t)value;
    else if (strcmp(key, "cluster_groups") == 0)
        c->cluster_groups = value < 1 ? 1 : (uint32_t)value;
    else if (strcmp(key, "mode") == 0)
        c->mps = strcmp(text, "mps") == 0;
    else if (strcmp(key, "shared_fate") == 0)
        c->shared_fate = value != 0;
    else if (strcmp(key, "memory_mib") == 0 && value >= 1)
        c->memory_bytes = (uint64_t)(value * 1048576.0);
    else if (strcmp(key, "context_mib") == 0)
        c->context_bytes = (uint64_t)(value * 1048576.0);
    else if (strcmp(key, "context_ms") == 0)
        c->context_ns = (uint64_t)(value * 1e6);
    else if (strcmp(key, "speed") == 0 && value > 0)
        c->speed = value;
    else if (strcmp(key, "bandwidth_gb_s") == 0 && value > 0)
        c->bandwidth = value * 1e9;
    else if (strcmp(key, "link_gb_s") == 0 && value > 0)
        c->link_bandwidth = value * 1e9;
    else if (strcmp(key, "slice_us") == 0 && value > 0)
        c->slice_ns = (uint64_t)(value * 1e3);
    else if (strcmp(key, "switch_us") == 0)
        c->switch_ns = (uint64_t)(value * 1e3);
    else if (strcmp(key, "launch_ns") == 0)
        c->launch_ns = (uint64_t)value;
    else if (strcmp(key, "unavailable_ms") == 0)
        c->unavailable_ns = (uint64_t)(value * 1e6);
    else if (strcmp(key, "idle_exit_s") == 0)
        c->idle_exit_ns = (uint64_t)(value * 1e9);
}

/* Only `mode` of it may change while the broker runs. */
static void read_file(struct config *config, const char *only)
{
    char path[200];
    char word[200];
    snprintf(path, sizeof path, "%s/config", emu_directory());
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return;
    while (fscanf(file, "%199s", word) == 1) {
        char *equals = strchr(word, '=');
        if (equals == NULL)
            continue;
        *equals = '\0';
        if (only == NULL || strcmp(word, only) == 0)
            set(config, word, equals + 1);
    }
    fclose(file);
}

static void read_environment(struct config *config)
{
    static const char *const keys[] = {
        "gpus",           "sms",        "mode",      "shared_fate", "memory_mib",
        "context_mib",    "speed",      "slice_us",  "switch_us",   "bandwidth_gb_s",
        "link_gb_s",      "launch_ns",  "idle_exit_s", "unavailable_ms", "context_ms",
        "cluster_groups",
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char name[64] = "DURE_EMULATOR_";
        size_t at = strlen(name);
        for (const char *c = keys[i]; *c != '\0'; c++)
            name[at++] = (char)toupper((unsigned char)*c);
        const char *value = getenv(name);
        if (value != NULL)
            set(config, keys[i], value);
    }
}

void config_load(struct config *config)
{
    *config = (struct config){
        .gpus = 1,
        .sms = 132,
        .cluster_groups = 32,
        .shared_fate = 1,
        .memory_bytes = 143771ull << 20, /* as an H200 reports */
        .context_bytes = 512ull << 20,
        .speed = 1.0,
        .bandwidth = 4.8e12,
        .link_bandwidth = 5.5e10,
        .slice_ns = 2000000,
        .switch_ns = 100000,
        .launch_ns = 2000,
        .unavailable_ns = 2000000000ull,
        .idle_exit_ns = 5000000000ull,
    };
    read_file(config, NULL);
    read_environment(config);
    char path[200];
    snprintf(path, sizeof path, "%s/mps", emu_directory());
    if (access(path, F_OK) == 0)
        config->mps = 1; /* the control program was started, and outlives brokers */
}

void config_reload_mode(struct config *config)
{
    static struct timespec seen;
    static bool called; /* the first call, at the start, only takes note */
    struct stat now = {0};
    char path[200];
    snprintf(path, sizeof path, "%s/config", emu_directory());
    bool there = stat(path, &now) == 0;
    bool changed = seen.tv_sec != now.st_mtim.tv_sec || seen.tv_nsec != now.st_mtim.tv_nsec;
    bool first = !called;
    called = true;
    seen = now.st_mtim;
    if (there && changed && !first)
        read_file(config, "mode");
}

void config_remember_mps(bool mps)
{
    char path[200];
    snprintf(path, sizeof path, "%s/mps", emu_directory());
    int fd = mps ? open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644) : -1;
    if (fd >= 0)
        close(fd);
    if (!mps)
        unlink(path);
}
