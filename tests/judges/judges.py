"""All judges: functions that get a World."""
import judge_state
import judge_store

ALL = [judge_store.judge_machines, judge_store.judge_classes, judge_state.judge_instances, judge_state.judge_lists, judge_state.judge_modules]
