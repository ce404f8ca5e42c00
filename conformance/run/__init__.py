"""A run of the suite: from pytest's items to outcomes, verdicts, summary and report.

The plugin collects the tests, the suite decides what each needs, the runner plays it as often as
it takes to decide, and the aggregation makes verdicts of requirements, and of the target, from
what came of it. What was not tested is counted and named; a failure without evidence against the
target is inconclusive.

This package imports everything below it, but not `fuzz`; it writes `reports.results`.
"""
