"""Jobs: long work in a process of its own, with a row in a store and a log of events.

Whoever wants work done calls `launch.start_job` with the command that does it. That process hands
its work to `runner.run_job`, which keeps the row and the log; the work speaks to a `run.JobRun` and
returns a `run.Outcome`. Everybody else reads (`store.JobStore`, `tail.Tail`) or asks for the end
(`cancel.cancel_job`). What uses the accelerator takes turns (`lease`).
"""
