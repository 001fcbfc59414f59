//! What a change would do, before it is applied: shown by `plan`, `diff`, `rollback` and the dashboard.
