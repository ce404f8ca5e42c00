"""The tests of the requirements: directed tests in the order of the text, and random ones.

A test is a dialogue of a few lines, under the clause that it tests. It uses what a scenario has (a
producer, a worker, a tube, a clock), and never sleeps. Tests that differ only in a line and its
reply are rows of a table.

- "Protocol": `test_protocol`, `test_names`, `test_arguments`, `test_numbers`, `test_errors`
- "Job Lifecycle": `test_lifecycle`, `test_states`, `test_tubes`
- "Producer Commands": `test_put`, `test_put_delay`, `test_put_ttr`, `test_put_body`,
  `test_put_draining`, `test_use`
- "Worker Commands": `test_reserve`, `test_reserve_with_timeout`, `test_deadline_soon`,
  `test_reserve_job`, `test_delete`, `test_release`, `test_bury`, `test_touch`, `test_watch`,
  `test_ignore`
- "Other Commands": `test_peek`, `test_kick`, `test_kick_job`, `test_not_found`, `test_stats_job`,
  `test_stats_tube`, `test_stats`, `test_stats_counters`, `test_process`, `test_list_tubes`,
  `test_yaml_strings`, `test_quit`, `test_pause_tube`
- beside the text: `test_one_queue` (before there were tubes), `test_persistence`,
  `test_recovery`, `test_quirks`
- without memory, descriptors, disk: `test_exhaustion`, `test_exhaustion_descriptors`,
  `test_exhaustion_disk`; with peers that misbehave: `test_exhaustion_peers`
- after long use: `test_endurance`, `test_endurance_memory`, `test_endurance_size`
- times: `test_long_times`, `test_ties`, `test_clock_changes`
- much of it: `test_queues`, `test_repetition`, `test_crowds`, `test_slow_clients`; beside much of
  it: `test_circumstances`
- random: `test_stateful`, `test_overlap`; of everything: `test_small_worlds`

This package imports `conformance.small_worlds`, `conformance.random_testing`,
`conformance.dialogue` and what is below them.
"""
