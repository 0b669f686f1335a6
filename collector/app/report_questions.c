/* See report_questions.h. */
#include "collector/app/report_questions.h"

#include <stddef.h>
#include <string.h>

/* The length of a stream's part of the range. */
#define RANGE_NS     "(min(coalesce(?2, s.end), s.end) - max(coalesce(?1, s.begin), s.begin))"
#define OF_STREAM(t) " JOIN streams AS s ON s.host = " t ".host AND s.stream = " t ".stream"
#define PROCESS      "host, stream, process_key, pid, image"
#define IN_RANGE     "(?1 IS NULL OR time >= ?1) AND (?2 IS NULL OR time < ?2)"
/* The digits that the sessions of a run of an agent have in common: EA_STREAM_RUN_BYTES. */
#define RUN_OF_STREAM "substr(stream, 1, 24)"
/* The first start of a program after something, of each stream of a table t that has the machine's start. */
#define FIRST_AFTER(t, program, column)                                                                                \
    "SELECT " t ".*, min(p.begin) AS " column " FROM " t " LEFT JOIN processes AS p ON p.host = " t                    \
    ".host AND p.stream = " t ".stream AND p.begin_cause = 'start' AND lower(p.image_name) = '" program "'"
#define PEER                                                                                                           \
    "json_extract(fields, '$.PID') AS pid, json_extract(fields, '$.daddr') AS peer,"                                   \
    " json_extract(fields, '$.dport') AS port, json_extract(fields, '$.size') AS size"

// clang-format off
static const ec_report REPORTS[] = {
    {"gc", "Garbage collections of .NET", "events of Microsoft-Windows-DotNETRuntime with the keyword GC (0x1)",
     {{"processes", "Processes, by the time for which collections stopped them",
       "SELECT g.host AS host, g.image AS image, g.pid AS pid, count(*) AS collections, count(*) FILTER (WHERE g.generation = 0) AS gen0,"
       " count(*) FILTER (WHERE g.generation = 1) AS gen1, count(*) FILTER (WHERE g.generation >= 2) AS gen2,"
       " count(*) FILTER (WHERE g.type = 'BackgroundGC') AS background, sum(g.pauses) AS pauses, sum(g.pause_ns) AS pause_ns,"
       " max(g.pause_ns) AS longest_pause_ns, sum(g.suspension_ns) AS suspension_ns,"
       " round(100.0 * sum(g.pause_ns) / nullif(" RANGE_NS ", 0), 2) AS paused_percent,"
       " max(g.before_bytes) AS max_before_bytes, max(g.after_bytes) AS max_after_bytes"
       " FROM gc_pauses(?1, ?2) AS g" OF_STREAM("g")
       " GROUP BY g.host, g.stream, g.process_key, g.pid, g.image, g.clr_instance ORDER BY pause_ns DESC, collections DESC, image, pid"},
      {"generations", "Generations",
       "SELECT host, image, pid, generation, count(*) AS collections, sum(pause_ns) AS pause_ns, CAST(avg(pause_ns) AS INTEGER) AS mean_pause_ns,"
       " max(pause_ns) AS longest_pause_ns, sum(ns) AS collection_ns FROM gc_pauses(?1, ?2)"
       " GROUP BY " PROCESS ", clr_instance, generation ORDER BY pause_ns DESC, image, pid, generation"},
      {"reasons", "Reasons",
       "SELECT host, image, pid, reason, type, count(*) AS collections, sum(pause_ns) AS pause_ns FROM gc_pauses(?1, ?2)"
       " GROUP BY " PROCESS ", clr_instance, reason, type ORDER BY pause_ns DESC, image, pid, reason, type"},
      {"collections", "Collections, by the time for which they stopped the process",
       "SELECT host, image, pid, number, generation, reason, type, begin, pause_ns, suspension_ns, ns AS collection_ns, pauses, before_bytes, after_bytes"
       " FROM gc_pauses(?1, ?2) ORDER BY pause_ns DESC, begin, pid, number"}}},
    {"jit", "Methods that .NET compiled", "events of Microsoft-Windows-DotNETRuntime with the keyword Jit (0x10) at level Verbose (5)",
     {{"processes", "Processes, by the time of compilation",
       "SELECT host, image, pid, count(*) AS methods, count(*) - count(ns) AS unfinished, sum(own_ns) AS jit_ns, max(ns) AS longest_ns,"
       " sum(il_bytes) AS il_bytes, sum(native_bytes) AS native_bytes FROM jit_methods(?1, ?2)"
       " GROUP BY " PROCESS ", clr_instance ORDER BY jit_ns DESC, image, pid"},
      {"tiers", "Tiers",
       "SELECT host, image, pid, tier, count(*) AS methods, sum(own_ns) AS jit_ns, sum(native_bytes) AS native_bytes FROM jit_methods(?1, ?2)"
       " GROUP BY " PROCESS ", clr_instance, tier ORDER BY jit_ns DESC, image, pid, tier"},
      {"methods", "Methods, by the time of compilation",
       "SELECT host, image, pid, tid, method, tier, begin, ns AS jit_ns, il_bytes, native_bytes FROM jit_methods(?1, ?2)"
       " ORDER BY jit_ns DESC, begin, method"}}},
    {"cpu", "Processor time", "samples (PROFILE) and context switches (CSWITCH) of the kernel logger",
     {{"processes", "Processes, by samples",
       "SELECT host, image, pid, samples, round(100.0 * samples / sum(samples) OVER (PARTITION BY host, stream), 2) AS percent"
       " FROM cpu_usage(?1, ?2) ORDER BY samples DESC, image, pid"},
      {"threads", "Threads, by running time",
       "SELECT host, image, pid, tid, running_ns, ready_ns, waiting_ns, switches FROM thread_times(?1, ?2) WHERE pid IS NOT 0"
       " ORDER BY running_ns DESC, pid, tid"},
      {"interrupts", "Interrupt routines and deferred procedure calls, by time",
       "SELECT host, kind, module, sum(count) AS count, sum(ns) AS ns, max(max_ns) AS longest_ns FROM interrupt_times(?1, ?2)"
       " GROUP BY host, stream, kind, module ORDER BY ns DESC, kind, module"}}},
    {"waits", "Waits", "context switches and ready threads of the kernel logger (CSWITCH, DISPATCHER)",
     {{"threads", "Threads and what they waited for, by time",
       "SELECT host, image, pid, tid, reason_name AS reason, count, ns AS waited_ns, max_ns AS longest_ns, unfinished_ns FROM waits(?1, ?2)"
       " ORDER BY waited_ns + unfinished_ns DESC, pid, tid, reason"},
      {"ready", "Threads that waited for a processor",
       "SELECT host, image, pid, tid, ready_ns, switches FROM thread_times(?1, ?2) WHERE ready_ns > 0 ORDER BY ready_ns DESC, pid, tid"},
      {"wakers", "Threads that ended the waits of others, by waited time",
       "SELECT host, waker_image, waker_pid, waker_tid, image, pid, tid, count, waited_ns FROM wakes(?1, ?2)"
       " ORDER BY waited_ns DESC, waker_pid, waker_tid, pid, tid"}}},
    {"disk", "Disks", "disk requests and hard faults of the kernel logger (DISK_IO, DISK_IO_INIT, HARD_FAULTS)",
     {{"processes", "Processes, by bytes",
       "SELECT host, image, pid, reads, read_bytes, writes, written_bytes FROM disk_usage(?1, ?2)"
       " ORDER BY read_bytes + written_bytes DESC, image, pid"},
      {"disks", "Disks, by the time of their requests",
       "SELECT host, disk, operation, sum(count) AS requests, sum(ns) AS request_ns, max(max_ns) AS longest_ns, sum(bytes) AS transferred_bytes"
       " FROM disk_times(?1, ?2) GROUP BY host, stream, disk, operation ORDER BY request_ns DESC, disk, operation"},
      {"files", "Files, by the time of their requests",
       "SELECT host, image, pid, operation, disk, file, count AS requests, ns AS request_ns, max_ns AS longest_ns, bytes AS transferred_bytes"
       " FROM disk_times(?1, ?2) ORDER BY request_ns DESC, pid, operation, file"},
      {"faults", "Hard faults, by time",
       "SELECT host, image, pid, file, count AS faults, ns AS fault_ns, max_ns AS longest_ns, bytes AS transferred_bytes FROM fault_times(?1, ?2)"
       " ORDER BY fault_ns DESC, pid, file"}}},
    {"network", "Network", "TCP and UDP of the kernel logger (NETWORK_TRACE) or Microsoft-Windows-Kernel-Network",
     {{"processes", "Processes, by bytes",
       "SELECT host, image, pid, receives, received_bytes, sends, sent_bytes FROM network_usage(?1, ?2)"
       " ORDER BY received_bytes + sent_bytes DESC, image, pid"},
      {"peers", "Peers of TCP connections, by bytes",
       /* of a run that the kernel logger recorded, its events alone: the provider logs the same bytes */
       "WITH kernel AS MATERIALIZED (SELECT host, stream, time, substr(name, 7, 4) AS what, " PEER " FROM events"
       " WHERE name IN ('TcpIp/ConnectIPV4', 'TcpIp/ConnectIPV6', 'TcpIp/AcceptIPV4', 'TcpIp/AcceptIPV6', 'TcpIp/RecvIPV4', 'TcpIp/RecvIPV6',"
       " 'TcpIp/SendIPV4', 'TcpIp/SendIPV6') AND " IN_RANGE "), e AS MATERIALIZED (SELECT * FROM kernel UNION ALL SELECT host, stream, time,"
       " CASE WHEN id IN (10, 26) THEN 'Send' WHEN id IN (11, 27) THEN 'Recv' WHEN id IN (12, 28) THEN 'Conn' ELSE 'Acce' END, " PEER " FROM events"
       " WHERE provider_name = 'Microsoft-Windows-Kernel-Network' AND id IN (10, 11, 12, 15, 26, 27, 28, 31) AND " IN_RANGE
       " AND (host, " RUN_OF_STREAM ") NOT IN (SELECT host, " RUN_OF_STREAM " FROM kernel))"
       " SELECT e.host AS host, p.image_name AS image, e.pid AS pid, e.peer AS peer, e.port AS port,"
       " count(*) FILTER (WHERE e.what IN ('Conn', 'Acce')) AS connections,"
       " coalesce(sum(e.size) FILTER (WHERE e.what = 'Recv'), 0) AS received_bytes,"
       " coalesce(sum(e.size) FILTER (WHERE e.what = 'Send'), 0) AS sent_bytes FROM e LEFT JOIN processes AS p"
       " ON p.process_key = process_at(e.host, e.stream, e.pid, e.time) GROUP BY e.host, e.stream, p.process_key, e.pid, e.peer, e.port"
       " ORDER BY received_bytes + sent_bytes DESC, connections DESC, peer, port"}}},
    {"boot", "The start of a machine", "processes of the kernel logger (PROC_THREAD, LOADER) from the machine's start on",
     /* the sub-phases of Microsoft's "Windows On/Off Transition Performance Analysis", as far as starts of processes bound
      * them; the session manager is System's child, those of later sessions are its own */
     {{"phases", "Phases of the start, from a start of a process to the next",
       "WITH m AS MATERIALIZED (SELECT p.host AS host, p.stream AS stream, min(p.begin) AS smss FROM processes AS p WHERE p.begin_cause = 'start'"
       " AND lower(p.image_name) = 'smss.exe' AND p.parent_pid = 4 AND (?1 IS NULL OR p.begin >= ?1) AND (?2 IS NULL OR p.begin < ?2) GROUP BY 1, 2),"
       " w AS MATERIALIZED (" FIRST_AFTER("m", "winlogon.exe", "winlogon") " AND p.begin >= m.smss GROUP BY m.host, m.stream),"
       " e AS MATERIALIZED (" FIRST_AFTER("w", "explorer.exe", "explorer") " AND p.begin >= w.winlogon GROUP BY w.host, w.stream),"
       " b AS MATERIALIZED (SELECT host, stream, max(CASE WHEN json_extract(fields, '$.BootTime') BETWEEN '1970' AND '2200'"
       " THEN time_ns(json_extract(fields, '$.BootTime')) END) AS boot FROM events WHERE name = 'EventTrace/Header' GROUP BY 1, 2),"
       " f(host, stream, number, phase, begin, ended) AS (SELECT e.host, e.stream, 1, 'PreSMSS', CASE WHEN b.boot < e.smss THEN b.boot END, e.smss"
       " FROM e LEFT JOIN b ON b.host = e.host AND b.stream = e.stream UNION ALL SELECT host, stream, 2, 'SMSSInit', smss, winlogon FROM e"
       " UNION ALL SELECT host, stream, 3, 'WinLogonInit', winlogon, explorer FROM e UNION ALL SELECT host, stream, 4, 'ExplorerInit', explorer, NULL FROM e)"
       " SELECT f.host AS host, f.phase AS phase, time_text(f.begin) AS begin, time_text(f.ended) AS ended, f.ended - f.begin AS phase_ns,"
       " (SELECT count(*) FROM processes AS p WHERE p.host = f.host AND p.stream = f.stream AND p.begin_cause = 'start' AND p.begin >= f.begin"
       " AND (f.ended IS NULL OR p.begin < f.ended)) AS started FROM f WHERE f.begin IS NOT NULL OR f.ended IS NOT NULL ORDER BY f.host, f.stream, f.number"},
      {"milestones", "First starts of the programs of a start",
       "SELECT p.host AS host, p.image_name AS image, time_text(min(p.begin)) AS begin, min(p.begin) - s.begin AS after_ns FROM processes AS p" OF_STREAM("p")
       " WHERE p.begin_cause = 'start' AND (?1 IS NULL OR p.begin >= ?1) AND (?2 IS NULL OR p.begin < ?2) AND lower(p.image_name) IN ('smss.exe',"
       " 'csrss.exe', 'wininit.exe', 'winlogon.exe', 'services.exe', 'lsass.exe', 'logonui.exe', 'userinit.exe', 'dwm.exe', 'explorer.exe')"
       " GROUP BY p.host, p.stream, lower(p.image_name) ORDER BY after_ns, image"},
      {"processes", "Processes in the order in which they started",
       "SELECT p.host AS host, p.image_name AS image, p.pid AS pid, p.parent_pid AS parent_pid, p.begin AS begin, p.begin - s.begin AS after_ns,"
       " p.end - p.begin AS life_ns, c.samples AS samples, d.read_bytes AS read_bytes, d.written_bytes AS written_bytes FROM processes AS p"
       OF_STREAM("p") " LEFT JOIN (SELECT process_key, sum(samples) AS samples FROM cpu_usage(?1, ?2) GROUP BY 1) AS c ON c.process_key = p.process_key"
       " LEFT JOIN (SELECT process_key, sum(read_bytes) AS read_bytes, sum(written_bytes) AS written_bytes FROM disk_usage(?1, ?2) GROUP BY 1) AS d"
       " ON d.process_key = p.process_key WHERE p.begin_cause = 'start' AND (?1 IS NULL OR p.begin >= ?1) AND (?2 IS NULL OR p.begin < ?2)"
       " ORDER BY begin, pid"},
      {"disk", "Processes, by bytes of disks",
       "SELECT host, image, pid, reads, read_bytes, writes, written_bytes FROM disk_usage(?1, ?2)"
       " ORDER BY read_bytes + written_bytes DESC, image, pid"}}},
};

// clang-format on

const ec_report *ec_report_of(const char *name) {
    for (size_t i = 0; i < sizeof REPORTS / sizeof *REPORTS; i++)
        if (strcmp(REPORTS[i].name, name) == 0)
            return &REPORTS[i];
    return NULL;
}
