#!/usr/bin/env python3
"""Writes the dashboards in config/grafana/dashboards from the lists below: a panel is a line, so that a difference can be
read. tests/e2e/test_prometheus.py checks that the files are what this prints and that every query of theirs returns data.

usage: make_dashboards.py [--check]"""
import json
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent / "dashboards"
SOURCE = {"type": "prometheus", "uid": "${source}"}
HOST = '{host=~"$host"}'

# (kind, title, unit, width, [(query, legend)])
DASHBOARDS = {
    "fleet-health": ("etwagent: fleet health", [
        ("stat", "Hosts", "none", 4, [("sum(etwcollector_hosts)", "")]),
        ("stat", "Silent for 15 minutes", "none", 4,
         [("count(time() - etwcollector_host_last_received_timestamp_seconds > 900) or vector(0)", "")]),
        ("stat", "Events a second", "none", 4, [("sum(rate(etwcollector_store_events_total[5m]))", "")]),
        ("stat", "Events lost within the range", "none", 4,
         [("sum(max_over_time(host:etwagent_events_lost:sum[$__range]) - (host:etwagent_events_lost:sum offset $__range"
           " or host:etwagent_events_lost:sum * 0))", "")]),
        ("stat", "Store", "bytes", 4, [("sum(instance:etwcollector_store_size_bytes:sum)", "")]),
        ("stat", "Free on its disk", "bytes", 4, [("min(etwcollector_store_free_bytes)", "")]),
        ("timeseries", "Events stored a second", "none", 12, [("instance:etwcollector_store_events:rate5m", "{{instance}}")]),
        ("timeseries", "Bytes stored a second", "Bps", 12, [("instance:etwcollector_store_bytes:rate5m", "{{instance}}")]),
        ("timeseries", "Silence: the ten longest", "s", 12,
         [("topk(10, time() - max by (host) (etwcollector_host_last_received_timestamp_seconds" + HOST + "))", "{{host}}")]),
        ("timeseries", "Events waiting on machines: the ten most", "none", 12,
         [("topk(10, host:etwagent_events_waiting:sum" + HOST + ")", "{{host}}")]),
        ("timeseries", "Uploads a second", "none", 12,
         [("sum by (instance) (rate(etwcollector_ingest_requests_total[5m]))", "served, {{instance}}"),
          ("sum by (instance) (rate(etwcollector_ingest_refused_total[5m]))", "refused, {{instance}}")]),
        ("timeseries", "Connections: TLS handshakes a second", "none", 12,
         [("sum(rate(etwcollector_ingest_handshakes_total[5m]))", "all"),
          ("sum(rate(etwcollector_ingest_resumed_total[5m]))", "resumed")]),
    ]),
    "security": ("etwagent: security", [
        ("stat", "Identities used twice", "none", 6, [('count(etwcollector_notices{kind="identity-twice"} > 0) or vector(0)', "")]),
        ("stat", "Batches refused", "none", 6,
         [("sum(etwcollector_ingest_bad_batches_total) + sum(etwcollector_ingest_bad_checksums_total)", "")]),
        ("stat", "Numbers taken by another content", "none", 6, [("sum(etwcollector_ingest_conflicts_total)", "")]),
        ("stat", "Requests refused to people and scripts", "none", 6, [("sum(etwcollector_web_refused_total)", "")]),
        ("timeseries", "Processes that run: the ten most", "none", 12,
         [("topk(10, sum by (host) (etwcollector_open_processes" + HOST + "))", "{{host}}")]),
        ("timeseries", "Processes, threads and modules that became known, a second", "none", 12,
         [("topk(10, sum by (host) (rate(etwcollector_state_instances_total" + HOST + "[5m])))", "{{host}}")]),
        ("timeseries", "Starts and ends that were never seen, a second", "none", 12,
         [("sum(rate(etwcollector_state_missed_starts_total[5m]))", "starts"),
          ("sum(rate(etwcollector_state_missed_ends_total[5m]))", "ends")]),
        ("timeseries", "Events lost by families, of the ten most", "none", 12,
         [("topk(10, sum by (host, family) (etwagent_family_lost_events_total" + HOST + "))", "{{host}} {{family}}")]),
    ]),
    "performance": ("etwagent: performance", [
        ("timeseries", "Events a second by machine: the ten busiest", "none", 12,
         [("topk(10, sum by (host) (rate(etwagent_events_delivered_total" + HOST + "[5m])))", "{{host}}")]),
        ("timeseries", "Events a second by family", "none", 12,
         [("sum by (family) (rate(etwagent_family_delivered_events_total" + HOST + "[5m]))", "{{family}}")]),
        ("timeseries", "Events in a batch", "none", 12,
         [("sum(rate(etwagent_events_batched_total" + HOST + "[5m])) / sum(rate(etwagent_batches_closed_total" + HOST + "[5m]))",
           "mean")]),
        ("timeseries", "Bytes of an event in the store", "bytes", 12,
         [("sum(rate(etwcollector_store_bytes_total[5m])) / sum(rate(etwcollector_store_events_total[5m]))", "mean")]),
        ("timeseries", "Decoding: events a second", "none", 12,
         [("sum(rate(etwagent_decode_whole_total" + HOST + "[5m]))", "whole"),
          ("sum(rate(etwagent_decode_partial_total" + HOST + "[5m]))", "partial"),
          ("sum(rate(etwagent_decode_unknown_total" + HOST + "[5m]))", "unknown")]),
        ("timeseries", "Where events wait", "none", 12,
         [("sum(etwagent_events_pending" + HOST + ")", "open batch"), ("sum(etwagent_events_compressing" + HOST + ")", "compressing"),
          ("sum(etwagent_events_spooled" + HOST + ")", "spool"), ("sum(etwagent_events_unanswered" + HOST + ")", "sent")]),
        ("timeseries", "Store: size by part", "bytes", 12,
         [("etwcollector_store_segment_size_bytes", "segments, {{instance}}"), ("etwcollector_store_index_size_bytes", "index, {{instance}}"),
          ("etwcollector_store_state_size_bytes", "state, {{instance}}")]),
        ("timeseries", "Records folded into machines' state a second", "none", 12,
         [("sum by (instance) (rate(etwcollector_state_records_total[5m]))", "{{instance}}")]),
    ]),
    "ledger": ("etwagent: ledger", [
        ("stat", "Equations that do not hold", "none", 6, [("count(etwcollector_ledger_balanced == 0) or vector(0)", "")]),
        ("stat", "Alerts", "none", 6, [("sum(etwcollector_ledger_alerts)", "")]),
        ("stat", "Streams that are not shown", "none", 6, [("sum(etwcollector_ledger_streams_left_out)", "")]),
        ("stat", "Events deleted by retention", "none", 6, [("sum(etwcollector_store_expired_events_total)", "")]),
        ("timeseries", "What became of every event", "none", 24,
         [("sum(etwagent_events_delivered_total" + HOST + ")", "delivered"), ("sum(etwagent_events_batched_total" + HOST + ")", "batched"),
          ("sum(etwagent_events_acknowledged_total" + HOST + ")", "acknowledged"),
          ("sum(etwcollector_stored_events_total" + HOST + ")", "stored"),
          ("sum(host:etwagent_events_lost:sum" + HOST + ")", "lost")]),
        ("timeseries", "Lost within five minutes: the ten most", "none", 12,
         [("topk(10, host:etwagent_events_lost:increase5m" + HOST + ")", "{{host}}")]),
        ("timeseries", "Losses of unknown size within five minutes", "none", 12,
         [("topk(10, host:etwagent_losses_unknown:increase5m" + HOST + ")", "{{host}}")]),
        ("timeseries", "Dropped and evicted, by cause", "none", 12,
         [(f"sum(etwagent_events_{cause}_total{HOST})", cause.replace("_", " "))
          for cause in ("dropped_full", "dropped_oversize", "evicted_size", "evicted_age", "evicted_damage",
                        "evicted_refused", "unrecorded", "filtered", "sampled_out", "limited", "repeated", "aggregated")]),
        ("timeseries", "Families that do not balance", "none", 12,
         [("topk(10, sum by (host) (etwcollector_ledger_unbalanced_families" + HOST + "))", "{{host}}")]),
    ]),
}


def panel(number, kind, title, unit, width, queries, x, y):
    return {"id": number, "type": kind, "title": title, "datasource": SOURCE,
            "gridPos": {"x": x, "y": y, "w": width, "h": 4 if kind == "stat" else 8},
            "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
            "targets": [{"refId": chr(65 + i), "datasource": SOURCE, "expr": expr, "legendFormat": legend,
                         "instant": kind == "stat", "range": kind != "stat"} for i, (expr, legend) in enumerate(queries)]}


def dashboard(uid, title, lines):
    panels, x, y, height = [], 0, 0, 0
    for number, (kind, name, unit, width, queries) in enumerate(lines, 1):
        if x + width > 24:
            x, y = 0, y + height
        panels.append(panel(number, kind, name, unit, width, queries, x, y))
        x, height = x + width, 4 if kind == "stat" else 8
    variables = [{"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus", "hide": 0},
                 {"name": "host", "label": "Host", "type": "query", "datasource": SOURCE, "includeAll": True, "multi": True,
                  "allValue": ".*", "current": {"text": "All", "value": "$__all"}, "refresh": 2,
                  "query": {"query": "label_values(etwcollector_host_last_received_timestamp_seconds, host)", "refId": "hosts"}}]
    return {"uid": f"etwagent-{uid}", "title": title, "tags": ["etwagent"], "schemaVersion": 37, "version": 1, "editable": True,
            "time": {"from": "now-3h", "to": "now"}, "refresh": "30s", "templating": {"list": variables}, "panels": panels}


def main():
    wrong = 0
    for uid, (title, lines) in DASHBOARDS.items():
        text = json.dumps(dashboard(uid, title, lines), indent=1, ensure_ascii=False) + "\n"
        path = FOLDER / f"{uid}.json"
        if sys.argv[1:] == ["--check"]:
            if not path.exists() or path.read_text() != text:
                print(f"{path.name} is not what make_dashboards.py writes")
                wrong = 1
        else:
            path.write_text(text)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
