"""The beanstalk protocol as one exact state machine, and a server that runs it."""
