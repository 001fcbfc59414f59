//! The machine controllers: each gathers a snapshot, asks `machine`, and applies the answer.
