/* Kernel groups: which class GUID Windows gives the events of a hook id's group. Input: etl_record.c. Used by:
 * proto/event, which names classes by GUID. Thread: any (constant data). Source: groups EVENT_TRACE_GROUP_* and GUIDs
 * in winsiderss/systeminformer phnt/include/ntwmi.h; those of Process, Thread, TcpIp and UdpIp in Windows' own MOF
 * (wmicore.mof), where each class names its GUID. */
#include "proto/base/provider_guids.h"
#include "proto/etl/layout.h"

const ea_guid ea_etl_groups[EA_ETL_GROUPS] = {
    [0x00] = EA_PROVIDER_EVENT_TRACE,
    [0x01] = EA_PROVIDER_DISK_IO,
    [0x02] = EA_PROVIDER_PAGE_FAULT,
    [0x03] = EA_PROVIDER_PROCESS,
    [0x04] = EA_PROVIDER_FILE_IO,
    [0x05] = EA_PROVIDER_THREAD,
    [0x06] = EA_PROVIDER_TCP_IP,
    [0x07] = EA_PROVIDER_JOB,
    [0x08] = EA_PROVIDER_UDP_IP,
    [0x09] = EA_PROVIDER_REGISTRY,
    [0x0a] = EA_PROVIDER_DBG_PRINT,
    [0x0b] = EA_PROVIDER_SYSTEM_CONFIG,
    [0x0d] = EA_PROVIDER_WNF,
    [0x0e] = EA_PROVIDER_POOL,
    [0x0f] = EA_PROVIDER_PERF_INFO,
    [0x10] = EA_PROVIDER_HEAP,
    [0x11] = EA_PROVIDER_OBJECT,
    [0x12] = EA_PROVIDER_POWER,
    [0x13] = EA_PROVIDER_MOD_BOUND,
    [0x14] = EA_PROVIDER_IMAGE,
    [0x15] = EA_GUID(0xb2d14872, 0x7c5b, 0x463d, 0x84, 0x19, 0xee, 0x9b, 0xf7, 0xd2, 0x3e, 0x04), /* Dpc */
    [0x16] = EA_PROVIDER_CACHE,
    [0x17] = EA_PROVIDER_CRIT_SEC,
    [0x18] = EA_PROVIDER_STACK_WALK,
    [0x19] = EA_PROVIDER_UMS,
    [0x1a] = EA_PROVIDER_ALPC,
    [0x1b] = EA_PROVIDER_SPLIT_IO,
    [0x1c] = EA_PROVIDER_THREAD_POOL,
    [0x1d] = EA_GUID(0x7f2a405c, 0x69b5, 0x4bf9, 0xa1, 0xf5, 0x30, 0xe8, 0xf1, 0xaf, 0xab, 0x5e), /* Hypervisor */
    [0x1e] = EA_GUID(0x2ce9a149, 0xeffe, 0x42f0, 0xa6, 0x35, 0xa1, 0xd3, 0x9e, 0x26, 0xc8, 0xf2), /* HypervisorX */
};
