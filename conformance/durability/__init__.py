"""Durability: which jobs a server has after a crash, in each state that the disk may be in.

A server is run under strace while a conversation is played; its operations on files, and its
replies, are recorded in one order (`strace`, `recording`). From that, each state in which a
crash may leave the disk is made (`disk`, `crashes`). The server is started on each and asked for
everything (`inspection`). The model says what must be there, what may be, and what must not
(`expected_jobs`, `judging`). The judge knows nothing of any server's format.

May import targets, the dialogue's vocabulary and the model. The idea is that of ALICE (Pillai et
al., OSDI 2014) and CrashMonkey (Mohan et al., OSDI 2018).
"""
