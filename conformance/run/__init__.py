"""A run of the suite: from pytest's items to outcomes, verdicts, summary and report.

The plugin collects the tests, the suite decides what each needs, the runner repeats a test until
its outcome is decided, and the aggregation turns outcomes into verdicts of requirements and of the
target. What was not tested is counted and named; a failure without evidence against the target is
inconclusive.

This package imports everything below it, but not `fuzz`; it writes `reports.results`.
"""
