"""Captured traffic, judged: packets in, the alarms of the proxy's judge out.

Two passes over a file
    The first pass finds the servers, by what is said, and everything that the capture does not
    show: bytes that are missing, and conversations that had begun before. The second one feeds a
    judge for each server. It knows of each gap in advance: nothing that an unseen request explains
    is an alarm.

Order by evidence
    What a segment acknowledges was sent before it. So a segment is delivered after all bytes that
    it acknowledges, in whichever order the file has them.

Nothing is guessed
    A conversation that is seen from its middle is judged once requests and replies certainly belong
    together; until then, its client may have done anything.

This package imports `conformance.traffic`, and dpkt to decode packets.
"""
