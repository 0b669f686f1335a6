/* Metrics as monitoring systems read them: the text format of Prometheus 0.0.4
 * (https://prometheus.io/docs/instrumenting/exposition_formats/) and OpenMetrics 1.0
 * (https://prometheus.io/docs/specs/om/open_metrics_spec/). They differ in a counter's family name, which OpenMetrics
 * writes without _total, and in OpenMetrics' last line. Input: numbers. Used by: etwcollector's /metrics, etwagent
 * status --metrics. Thread: the text's. */
#ifndef EA_BASE_EXPOSITION_H
#define EA_BASE_EXPOSITION_H

#include "proto/base/counters.h"
#include "proto/base/text.h"

#define EA_EXPOSITION_PROMETHEUS   "text/plain; version=0.0.4; charset=utf-8"
#define EA_EXPOSITION_OPEN_METRICS "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* HELP and TYPE of a metric; a counter's name ends with _total. */
void ea_exposition_head(ea_text *t, int open_metrics, const char *name, enum ea_metric_type type, const char *help);
/* Appends the text of a label's value, without the quotes: invalid UTF-8 becomes U+FFFD, a control character becomes
 * '_', and the other special characters are escaped. */
void ea_exposition_label(ea_text *t, const char *value);
/* The last line, where there has to be one. */
void ea_exposition_end(ea_text *t, int open_metrics);

#endif
