// SPDX-License-Identifier: Apache-2.0
//
// What the process holds: each device's memory, and the figures of kern_emu_stats.
#include "emu/stats.h"
#include "emu/space.h"

static struct account {
    atomic_ullong live;
    atomic_ullong high;
} accounts[EMU_MAX_DEVICES];

static atomic_int fds;

bool emu_charge(int device, uint64_t bytes)
{
    struct account *account = &accounts[device];
    unsigned long long live = atomic_load(&account->live);
    unsigned long long after;
    do {
        if (__builtin_add_overflow(live, bytes, &after) || after > emu_config()->memory) {
            return false;
        }
    } while (!atomic_compare_exchange_weak(&account->live, &live, after));
    unsigned long long high = atomic_load(&account->high);
    while (high < after && !atomic_compare_exchange_weak(&account->high, &high, after)) {}
    return true;
}

void emu_refund(int device, uint64_t bytes)
{
    atomic_fetch_sub(&accounts[device].live, bytes);
}

uint64_t emu_charged(int device)
{
    return atomic_load(&accounts[device].live);
}

void emu_count_fd(int change)
{
    atomic_fetch_add(&fds, change);
}

int kern_emu_stats(int device, struct kern_emu_stats *stats)
{
    if (stats == NULL || !emu_device_ok(device)) {
        return 1;
    }
    *stats = (struct kern_emu_stats){
        .live_bytes = emu_charged(device),
        .high_water_bytes = atomic_load(&accounts[device].high),
        .streams = emu_handle_count(EMU_STREAM),
        .events = emu_handle_count(EMU_EVENT),
        .modules = emu_handle_count(EMU_MODULE),
        .functions = emu_handle_count(EMU_FUNCTION),
        .graphs = emu_handle_count(EMU_GRAPH),
        .graph_execs = emu_handle_count(EMU_GRAPH_EXEC),
        .memory_handles = emu_handle_count(EMU_MEMORY),
        .fds = (uint64_t)atomic_load(&fds),
    };
    emu_lock();
    stats->mappings = emu_space_count(EMU_SPACE_MAPPING);
    stats->reservations = emu_reservations()->n;
    stats->allocations = emu_space_count(EMU_SPACE_ALLOCATION);
    stats->host_ranges =
        emu_space_count(EMU_SPACE_HOST_ALLOCATION) + emu_space_count(EMU_SPACE_HOST_REGISTERED);
    emu_unlock();
    return 0;
}
