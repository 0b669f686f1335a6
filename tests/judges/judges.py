"""All judges: functions that get a World."""
import judge_activity
import judge_events
import judge_filters
import judge_groups
import judge_ledger
import judge_order
import judge_pages
import judge_profile
import judge_state
import judge_store

ALL = [judge_store.judge_machines, judge_store.judge_load, judge_store.judge_classes, judge_state.judge_instances, judge_state.judge_lists, judge_state.judge_modules,
       judge_events.judge_headers, judge_events.judge_functions, judge_events.judge_aggregates, judge_events.judge_search, judge_events.judge_counts_over_time, judge_events.judge_values, judge_events.judge_doings,
       judge_events.judge_connections, judge_events.judge_autostart, judge_events.judge_counters, judge_activity.judge_threads, judge_activity.judge_thread_queries,
       judge_activity.judge_latencies, judge_activity.judge_disk_files, judge_activity.judge_hardware, judge_activity.judge_usage, judge_activity.judge_dotnet, judge_ledger.judge_counts, judge_ledger.judge_troubles, judge_ledger.judge_metrics,
       judge_ledger.judge_printed, judge_ledger.judge_doctor, judge_ledger.judge_gaps, judge_ledger.judge_incidents, judge_filters.judge_filters, judge_groups.judge_groups, judge_groups.judge_confined, judge_order.judge_first, judge_profile.judge_profiles, judge_profile.judge_waits, judge_profile.judge_requests, judge_profile.judge_missed, judge_profile.judge_counted, judge_pages.judge_pages]
